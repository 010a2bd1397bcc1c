//! Messages, byte by byte. Integers are big-endian.
//!
//! ```text
//! of clients
//!   Acquire           owner(8) ttl_us(8) name(1..48)
//!   Renew, Release    zero(8)  token(8)  name(1..48)
//!   Query             zero(8)  zero(8)   name(1..48)
//! to clients
//!   Granted           token(8) ttl_us(8)
//!   Held              token(8) remaining_us(8)
//!   others            zero(8)  zero(8)
//! between nodes
//!   Entry             epoch(4) snapshot(4) number(8) row(4) name_bytes(4) token(8) owner(8) ttl_us(8) name(48)
//!   Accepted          epoch(4) zero(4) number(8)
//! ```
//!
//! An entry says what a row holds from now on; of a row that is not in use `name_bytes` is zero, and so is the rest.

use weft_time::Duration;
use weft_waist::Epoch;

use crate::parameters::{TTL_MAX, TTL_MIN};
use crate::table::{NAME_BYTES_MAX, Name, Row};

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CallKind {
    /// To hold a lock.
    Acquire = 1,
    /// To hold it longer.
    Renew = 2,
    /// To hold it no more.
    Release = 3,
    /// Asks for the holder.
    Query = 4,
}

impl CallKind {
    /// All kinds, as numbers.
    pub const ALL: [u8; 4] = [Self::Acquire as u8, Self::Renew as u8, Self::Release as u8, Self::Query as u8];
}

/// Kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerKind {
    /// The caller holds the lock.
    Granted = 16,
    /// Another client holds it, for at most the time given unless it renews.
    Held = 17,
    /// Nobody holds the lock: the answer to a release, or to a query.
    Free = 18,
    /// The caller's token is not that of the holder: the caller has lost the lock.
    Lost = 19,
    /// As many locks are held as there can be. Nothing has happened.
    Full = 20,
    /// The call is out of range. Nothing has happened.
    BadRequest = 21,
    /// No room for the call at the moment: the same node is called again. Nothing has happened.
    Busy = 22,
    /// The node does not lead, or not any more: the call is repeated at the next node, where it does no harm if it
    /// has taken effect.
    Elsewhere = 23,
}

/// A client's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Acquires a lock.
    Acquire {
        /// The lock.
        name: Name,
        /// A number that no other acquisition has.
        owner: u64,
        /// For how long: [`TTL_MIN`] to [`TTL_MAX`].
        ttl: Duration,
    },
    /// Extends the lease of a held lock by another time to live.
    Renew {
        /// The lock.
        name: Name,
        /// The fencing token with which the lock was granted.
        token: u64,
    },
    /// Releases a held lock.
    Release {
        /// The lock.
        name: Name,
        /// The fencing token with which the lock was granted.
        token: u64,
    },
    /// Asks for the holder.
    Query {
        /// The lock.
        name: Name,
    },
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A time to live of so many microseconds, if that is one.
fn ttl(us: u64) -> Option<Duration> {
    (TTL_MIN.as_ns() / 1_000..=TTL_MAX.as_ns() / 1_000).contains(&us).then(|| Duration::from_us(us))
}

impl Call {
    const HEAD: usize = 16;

    /// Bytes of the longest call.
    pub const BYTES_MAX: usize = Self::HEAD + NAME_BYTES_MAX;

    /// The call of these bytes, if they are one.
    pub fn parse(kind: u8, bytes: &[u8]) -> Option<Self> {
        let (head, name) = bytes.split_at_checked(Self::HEAD)?;
        let (name, owner, number) = (Name::new(name)?, word(head, 0), word(head, 8));
        match kind {
            1 => Some(Self::Acquire { name, owner, ttl: ttl(number)? }),
            2 => (owner == 0).then_some(Self::Renew { name, token: number }),
            3 => (owner == 0).then_some(Self::Release { name, token: number }),
            4 => (owner == 0 && number == 0).then_some(Self::Query { name }),
            _ => None,
        }
    }

    /// Appends the content to `out`, and returns the kind.
    pub fn encode(&self, out: &mut Vec<u8>) -> CallKind {
        let (kind, name, owner, number) = match self {
            Self::Acquire { name, owner, ttl } => (CallKind::Acquire, name, *owner, ttl.as_ns() / 1_000),
            Self::Renew { name, token } => (CallKind::Renew, name, 0, *token),
            Self::Release { name, token } => (CallKind::Release, name, 0, *token),
            Self::Query { name } => (CallKind::Query, name, 0, 0),
        };
        out.extend(owner.to_be_bytes());
        out.extend(number.to_be_bytes());
        out.extend(name.as_bytes());
        kind
    }
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Kind of the answer.
    pub kind: AnswerKind,
    /// The token of the holder, if there is one.
    pub token: u64,
    /// The time to live of what was granted, the time that is left of what another one holds.
    pub time: Duration,
}

impl Answer {
    /// Length in bytes.
    pub const BYTES: usize = 16;

    /// An answer that says nothing else.
    pub const fn new(kind: AnswerKind) -> Self {
        Self { kind, token: 0, time: Duration::ZERO }
    }

    /// The answer of these bytes, if they are one.
    pub fn parse(kind: u8, bytes: &[u8]) -> Option<Self> {
        use AnswerKind::{BadRequest, Busy, Elsewhere, Free, Full, Granted, Held, Lost};
        let kinds = [Granted, Held, Free, Lost, Full, BadRequest, Busy, Elsewhere];
        let kind = kinds.into_iter().find(|known| *known as u8 == kind)?;
        let us = (bytes.len() == Self::BYTES).then(|| word(bytes, 8))?;
        (us <= TTL_MAX.as_ns() / 1_000).then(|| Self {
            kind,
            token: word(bytes, 0),
            time: Duration::from_us(us),
        })
    }

    /// Encodes the content.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.token.to_be_bytes());
        out[8..].copy_from_slice(&(self.time.as_ns() / 1_000).to_be_bytes());
        out
    }
}

/// Kinds of messages between nodes.
pub(crate) const ENTRY: u8 = 1;
pub(crate) const ACCEPTED: u8 = 2;

/// Content of a row from the entry of this number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub epoch: Epoch,
    /// Number of the epoch's first entries that are the table at its beginning, at least 1.
    pub snapshot: u32,
    /// From 1 in each epoch.
    pub number: u64,
    pub row: u32,
    pub holds: Option<Row>,
}

impl Entry {
    pub const BYTES: usize = 48 + NAME_BYTES_MAX;

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::BYTES {
            return None;
        }
        let (name, padding) = bytes[48..].split_at_checked(half(bytes, 20) as usize)?;
        let holds = match Name::new(name) {
            _ if padding.iter().any(|byte| *byte != 0) => return None,
            Some(name) => {
                Some(Row { name, token: word(bytes, 24), owner: word(bytes, 32), ttl: ttl(word(bytes, 40))? })
            }
            None if bytes[24..].iter().all(|byte| *byte == 0) => None,
            None => return None,
        };
        let (epoch, snapshot, number) = (Epoch(half(bytes, 0)), half(bytes, 4), word(bytes, 8));
        (snapshot > 0 && number > 0).then_some(Self { epoch, snapshot, number, row: half(bytes, 16), holds })
    }

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.epoch.0.to_be_bytes());
        put(4, &self.snapshot.to_be_bytes());
        put(8, &self.number.to_be_bytes());
        put(16, &self.row.to_be_bytes());
        if let Some(row) = self.holds {
            put(20, &(row.name.as_bytes().len() as u32).to_be_bytes());
            put(24, &row.token.to_be_bytes());
            put(32, &row.owner.to_be_bytes());
            put(40, &(row.ttl.as_ns() / 1_000).to_be_bytes());
            put(48, row.name.as_bytes());
        }
        out
    }
}

/// A member has accepted all entries of the epoch up to this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub epoch: Epoch,
    pub number: u64,
}

impl Accepted {
    pub const BYTES: usize = 16;

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let is_one = bytes.len() == Self::BYTES && half(bytes, 4) == 0;
        is_one.then(|| Self { epoch: Epoch(half(bytes, 0)), number: word(bytes, 8) })
    }

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.epoch.0.to_be_bytes());
        out[8..].copy_from_slice(&self.number.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let name = Name::new(b"printer").unwrap();
        let (owner, token, ttl) = (7, 1 << 32 | 9, Duration::from_ms(5));
        for call in [
            Call::Acquire { name, owner, ttl },
            Call::Renew { name, token },
            Call::Release { name, token },
            Call::Query { name },
        ] {
            let mut bytes = Vec::new();
            let kind = call.encode(&mut bytes) as u8;
            assert_eq!(Call::parse(kind, &bytes), Some(call));
            assert_eq!(Call::parse(kind, &bytes[..16]), None, "a lock has a name");
            assert_eq!(Call::parse(5, &bytes), None);
        }
        let long = Call::Acquire { name, owner, ttl: TTL_MAX + Duration::from_us(1) };
        let mut bytes = Vec::new();
        assert_eq!(Call::parse(long.encode(&mut bytes) as u8, &bytes), None);
        let answer = Answer { kind: AnswerKind::Granted, token, time: ttl };
        assert_eq!(Answer::parse(16, &answer.encode()), Some(answer));
        let row = Row { name, owner, token, ttl };
        for holds in [None, Some(row)] {
            let entry = Entry { epoch: Epoch(3), snapshot: 1, number: 2, row: 5, holds };
            assert_eq!(Entry::parse(&entry.encode()), Some(entry));
        }
        let accepted = Accepted { epoch: Epoch(3), number: 8 };
        assert_eq!(Accepted::parse(&accepted.encode()), Some(accepted));
    }

    proptest! {
        /// Whatever is read is written the same: no two sequences of bytes are one message.
        #[test]
        fn what_is_read_is_written(kind in 0u8..26, mut bytes in prop::collection::vec(0u8..3, 0..100)) {
            if let Some(call) = Call::parse(kind, &bytes) {
                let mut again = Vec::new();
                prop_assert_eq!(call.encode(&mut again) as u8, kind);
                prop_assert_eq!(again, bytes.clone());
            }
            if let Some(answer) = Answer::parse(kind, &bytes) {
                prop_assert_eq!(&answer.encode()[..], &bytes[..]);
            }
            bytes.resize(Entry::BYTES, 0);
            bytes[20..23].fill(0);
            if let Some(entry) = Entry::parse(&bytes) {
                prop_assert_eq!(&entry.encode()[..], &bytes[..]);
            }
            if let Some(accepted) = Accepted::parse(&bytes[..16]) {
                prop_assert_eq!(&accepted.encode()[..], &bytes[..16]);
            }
        }
    }
}
