//! Hardware addresses of IPv4 neighbours, and ARP requests for unknown ones.

use std::net::Ipv4Addr;

use weft_time::{Duration, Instant};
use weft_wire::ethernet::MacAddress;

/// Time until the first ARP request is repeated. Each further wait is twice as long.
const REQUEST_INTERVAL: Duration = Duration::from_ms(1);

/// The most requests for one neighbour. Then it counts as unreachable, after 255 ms.
const REQUESTS_MAX: u32 = 8;

/// A small table of neighbours that is searched linearly: a NIC of a cluster has few of them.
#[derive(Debug)]
pub(crate) struct Neighbours {
    entries: Vec<Entry>,
    capacity: usize,
    victim: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Ipv4Addr,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Known(MacAddress),
    /// The last of `requests` requests is not answered. At `until` the next one is sent, or the neighbour
    /// becomes unreachable.
    Requested {
        requests: u32,
        until: Instant,
    },
    Unreachable,
}

/// What to do about an ARP request that was not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Send another request.
    Request(Ipv4Addr),
    /// The neighbour is unreachable.
    Unreachable(Ipv4Addr),
}

impl Neighbours {
    /// A table of at most `capacity` neighbours. A new neighbour replaces the oldest one whose address is not
    /// being requested. Fewer than `capacity` addresses may be requested at a time.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a neighbour table holds at least one entry");
        Self { entries: Vec::with_capacity(capacity), capacity, victim: 0 }
    }

    pub(crate) fn learn(&mut self, address: Ipv4Addr, station: MacAddress) {
        self.entry(address).state = State::Known(station);
    }

    /// Whether the table has this neighbour, or its address is being requested. Unsolicited replies of other
    /// hosts are ignored.
    pub(crate) fn expects(&self, address: Ipv4Addr) -> bool {
        self.entries.iter().any(|entry| entry.address == address)
    }

    /// The hardware address of a neighbour, if it is known.
    #[inline]
    pub(crate) fn hardware_address(&self, address: Ipv4Addr) -> Option<MacAddress> {
        self.entries.iter().find(|entry| entry.address == address).and_then(|entry| match entry.state {
            State::Known(station) => Some(station),
            _ => None,
        })
    }

    /// Called when a packet must wait for a neighbour's address. Returns whether an ARP request must be sent;
    /// that is not necessary if one is outstanding.
    pub(crate) fn wait_for(&mut self, now: Instant, address: Ipv4Addr) -> bool {
        let entry = self.entry(address);
        let fresh = entry.state == State::Unreachable;
        if fresh {
            entry.state = State::Requested { requests: 1, until: now + REQUEST_INTERVAL };
        }
        fresh
    }

    /// When [`Neighbours::expire`] has something to return.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let until = |entry: &Entry| match entry.state {
            State::Requested { until, .. } => Some(until),
            _ => None,
        };
        self.entries.iter().filter_map(until).min()
    }

    /// Handles one request that has timed out.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Unanswered> {
        self.entries.iter_mut().find_map(|entry| match entry.state {
            State::Requested { requests, until } if until <= now => {
                if requests == REQUESTS_MAX {
                    entry.state = State::Unreachable;
                    return Some(Unanswered::Unreachable(entry.address));
                }
                let until = now + REQUEST_INTERVAL * (1 << requests);
                entry.state = State::Requested { requests: requests + 1, until };
                Some(Unanswered::Request(entry.address))
            }
            _ => None,
        })
    }

    /// The entry of a neighbour, which is created if there is none.
    fn entry(&mut self, address: Ipv4Addr) -> &mut Entry {
        let position = self.entries.iter().position(|entry| entry.address == address).unwrap_or_else(|| {
            let fresh = Entry { address, state: State::Unreachable };
            if self.entries.len() < self.capacity {
                self.entries.push(fresh);
                return self.entries.len() - 1;
            }
            let asked = |entry: &Entry| matches!(entry.state, State::Requested { .. });
            let free = (0..self.capacity).map(|step| (self.victim + step) % self.capacity);
            let position = free.into_iter().find(|&place| !asked(&self.entries[place]));
            let position = position.expect("fewer neighbours are asked for than the table holds");
            self.victim = (position + 1) % self.capacity;
            self.entries[position] = fresh;
            position
        });
        &mut self.entries[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);

    #[test]
    fn asks_again_at_growing_intervals_then_gives_up() {
        let mut table = Neighbours::new(4);
        assert!(table.wait_for(Instant::ZERO, ADDRESS));
        assert!(!table.wait_for(Instant::ZERO, ADDRESS), "asked already");
        let mut now = Instant::ZERO;
        for request in 1..REQUESTS_MAX {
            let due = table.next_deadline().unwrap();
            assert_eq!(due - now, REQUEST_INTERVAL * (1 << (request - 1)));
            assert_eq!(table.expire(now), None);
            now = due;
            assert_eq!(table.expire(now), Some(Unanswered::Request(ADDRESS)));
        }
        now = table.next_deadline().unwrap();
        assert_eq!(table.expire(now), Some(Unanswered::Unreachable(ADDRESS)));
        assert_eq!(table.next_deadline(), None);
        assert!(table.wait_for(now, ADDRESS), "the next packet asks anew");
    }

    #[test]
    fn an_answer_ends_the_requests() {
        let mut table = Neighbours::new(4);
        assert!(table.wait_for(Instant::ZERO, ADDRESS));
        assert_eq!(table.hardware_address(ADDRESS), None);
        table.learn(ADDRESS, STATION);
        assert_eq!(table.next_deadline(), None);
        assert_eq!(table.hardware_address(ADDRESS), Some(STATION));
    }

    #[test]
    fn the_oldest_that_is_not_asked_for_gives_way() {
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        let mut table = Neighbours::new(3);
        assert!(table.wait_for(Instant::ZERO, address(9)));
        for last in 1..=3 {
            table.learn(address(last), STATION);
        }
        let expected = [9, 1, 2, 3].map(|last| table.expects(address(last)));
        assert_eq!(expected, [true, false, true, true]);
    }
}
