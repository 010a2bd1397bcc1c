//! Records of a history.

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;

/// Identity of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TransactionId {
    /// The node that coordinates it.
    pub coordinator: u16,
    /// The epoch in which it began.
    pub epoch: u32,
    /// Sequence number among those of this node and epoch.
    pub sequence: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}/{}/{}", self.coordinator, self.epoch, self.sequence)
    }
}

/// Stands for a value: equal for equal values, and with one chance in four billion for others.
pub fn fingerprint(value: &[u8]) -> NonZeroU32 {
    NonZeroU32::new(crc32fast::hash(value)).unwrap_or(NonZeroU32::MIN)
}

/// A key as a transaction read it, or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The key.
    pub key: u64,
    /// Version of the key.
    pub version: u64,
    /// The [`fingerprint`] of its value; none if it is absent.
    pub value: Option<NonZeroU32>,
}

impl Access {
    /// A key that has a value.
    pub fn present(key: u64, version: u64, value: &[u8]) -> Self {
        Self { key, version, value: Some(fingerprint(value)) }
    }

    /// A key that has none, or is deleted.
    pub fn absent(key: u64, version: u64) -> Self {
        Self { key, version, value: None }
    }
}

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It committed, and the client was told.
    Committed {
        /// Time at which the client was told, in picoseconds.
        ended_ps: u64,
    },
    /// It may have committed.
    Unknown,
    /// It did not commit; its writes are recorded so that a read of one is recognised.
    Aborted,
}

/// A transaction to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// The transaction.
    pub id: TransactionId,
    /// Time of the call in picoseconds.
    pub started_ps: u64,
    /// Outcome of the transaction.
    pub fate: Fate,
    /// Reads, each key once, as it was before the transaction; also of keys that it wrote, if it had read them.
    pub reads: &'a [Access],
    /// Writes, each key once.
    pub writes: &'a [Access],
}

/// End of a transaction that never ended.
pub(super) const NEVER: u64 = u64::MAX;

/// A transaction that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    pub(super) id: TransactionId,
    pub(super) started: u64,
    pub(super) ended: u64,
}

/// A read or a write of a transaction that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) key: u64,
    pub(super) version: u64,
    /// Index of the transaction.
    pub(super) transaction: u32,
    pub(super) value: Option<NonZeroU32>,
}

const _: () = assert!(size_of::<Event>() == 24);

impl Event {
    fn new(access: &Access, transaction: u32) -> Self {
        Self { key: access.key, version: access.version, transaction, value: access.value }
    }
}

/// A transaction that counts only if somebody saw a write of it, or never.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: TransactionId,
    pub(super) started: u64,
    pub(super) aborted: bool,
    pub(super) reads: Vec<Access>,
    pub(super) writes: Vec<Access>,
}

/// Content of a replica at the end.
pub(super) struct FinalState {
    pub(super) replica: String,
    pub(super) holds: Box<dyn Fn(u64) -> bool>,
    /// Sorted by key, each once.
    pub(super) state: Vec<Access>,
}

/// The transactions of a run, in any order, and what was there when it ended.
#[derive(Default)]
pub struct History {
    pub(super) transactions: Vec<Recorded>,
    pub(super) reads: Vec<Event>,
    pub(super) writes: Vec<Event>,
    pub(super) open: Vec<Open>,
    pub(super) finals: Vec<FinalState>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("committed", &self.transactions.len())
            .field("open", &self.open.len())
            .field("reads", &self.reads.len())
            .field("writes", &self.writes.len())
            .finish_non_exhaustive()
    }
}

impl History {
    /// Adds a transaction.
    ///
    /// # Panics
    /// If it ended before it started, or at the end of time, or if there are 2^31 already.
    pub fn record(&mut self, transaction: &Transaction<'_>) {
        let Transaction { id, started_ps: started, fate, reads, writes } = *transaction;
        let aborted = match fate {
            Fate::Committed { ended_ps } => {
                assert!(
                    started <= ended_ps && ended_ps < NEVER,
                    "{id} started at {started}, ended at {ended_ps}"
                );
                return self.count(Recorded { id, started, ended: ended_ps }, reads, writes);
            }
            Fate::Unknown => false,
            Fate::Aborted => true,
        };
        if !writes.is_empty() {
            self.open.push(Open { id, started, aborted, reads: reads.to_vec(), writes: writes.to_vec() });
        }
    }

    /// Adds one that counts.
    pub(super) fn count(&mut self, recorded: Recorded, reads: &[Access], writes: &[Access]) {
        // The graph has a node for each and one for each end.
        let index = u32::try_from(self.transactions.len()).ok().filter(|index| *index < 1 << 31);
        let index = index.expect("fewer than 2^31 transactions");
        self.transactions.push(recorded);
        self.reads.extend(reads.iter().map(|access| Event::new(access, index)));
        self.writes.extend(writes.iter().map(|access| Event::new(access, index)));
    }

    /// Tells what a replica holds when all has ended: every key that is present, in any order. `holds` says which
    /// keys it should have; a committed write of one that is neither there nor overwritten is lost.
    pub fn final_state(
        &mut self,
        replica: &str,
        holds: impl Fn(u64) -> bool + 'static,
        state: impl IntoIterator<Item = Access>,
        options: &super::Options,
    ) {
        // Absent keys need not be kept.
        let mut state: Vec<Access> =
            state.into_iter().filter(|access| access.version > options.initial_version).collect();
        state.sort_unstable_by_key(|access| (access.key, access.version));
        self.finals.push(FinalState { replica: replica.into(), holds: Box::new(holds), state });
    }

    /// Transactions recorded so far that committed, and others that wrote something.
    pub fn len(&self) -> usize {
        self.transactions.len() + self.open.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
