//! Keys to which this server has given a time to live, ordered by expiry.
//!
//! A server removes the keys that it has written itself when its own monotonic clock shows that they have expired,
//! which is never too early. A key that another server has written is removed when it is accessed after its
//! expiry, provided that by the accessing server's wall clock the expiry is past by more than the clocks may
//! differ.

use std::collections::{BTreeMap, HashMap};

use weft_time::Instant;

/// The most keys that a server keeps here. Further ones are removed when they are accessed.
const KEYS_MAX: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Expiry {
    pub key: Box<[u8]>,
    pub version: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Expiries {
    /// The latest expiry of each key.
    by_key: HashMap<Box<[u8]>, (Instant, u64)>,
    due: BTreeMap<(Instant, u64), Expiry>,
    /// The keys whose removal is outstanding.
    going: BTreeMap<u64, Expiry>,
    next: u64,
}

impl Expiries {
    /// Adds the expiry of a key's value with this version. An earlier expiry of the key is dropped, because its
    /// value was overwritten.
    pub fn add(&mut self, at: Instant, key: &[u8], version: u64) {
        if let Some(earlier) = self.by_key.remove(key) {
            self.due.remove(&earlier);
        }
        if self.due.len() >= KEYS_MAX {
            return;
        }
        let place = (at, self.next);
        self.next += 1;
        self.by_key.insert(key.into(), place);
        self.due.insert(place, Expiry { key: key.into(), version });
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next key that has expired, with a number for [`Expiries::ended`].
    pub fn poll(&mut self, now: Instant) -> Option<(u64, Expiry)> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, number), expiry) = entry.remove_entry();
        self.by_key.remove(&expiry.key);
        self.going.insert(number, expiry.clone());
        Some((number, expiry))
    }

    /// Notes that a removal has ended. If its outcome is unknown, `again` is the time to repeat it.
    pub fn ended(&mut self, number: u64, again: Option<Instant>) {
        let Some(expiry) = self.going.remove(&number) else { return };
        if let Some(again) = again
            && !self.by_key.contains_key(&expiry.key)
        {
            self.add(again, &expiry.key, expiry.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_time::Duration;

    use super::*;

    #[test]
    fn keys_go_in_order_and_the_latest_time_counts() {
        let at = |ms| Instant::ZERO + Duration::from_ms(ms);
        let mut expiries = Expiries::default();
        expiries.add(at(5), b"a", 1);
        expiries.add(at(3), b"b", 2);
        expiries.add(at(9), b"a", 3);
        assert_eq!(expiries.next_deadline(), Some(at(3)));
        assert!(expiries.poll(at(2)).is_none());
        let (number, expiry) = expiries.poll(at(8)).unwrap();
        assert_eq!((&*expiry.key, expiry.version), (&b"b"[..], 2));
        assert!(expiries.poll(at(8)).is_none(), "the earlier time of a is forgotten");
        expiries.ended(number, Some(at(20)));
        assert_eq!(expiries.poll(at(9)).unwrap().1.version, 3);
        assert_eq!(expiries.next_deadline(), Some(at(20)), "b is tried again");
    }
}
