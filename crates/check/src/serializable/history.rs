//! Records of a history.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Identity of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId {
    /// The node that coordinates the transaction.
    pub coordinator: u16,
    /// The epoch in which it began.
    pub epoch: u32,
    /// Sequence number among the transactions of this node and epoch.
    pub sequence: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}/{}/{}", self.coordinator, self.epoch, self.sequence)
    }
}

/// Fingerprint of a value: equal for equal values, and with one chance in four billion for different ones.
pub fn fingerprint(value: &[u8]) -> NonZeroU32 {
    NonZeroU32::new(crc32fast::hash(value)).unwrap_or(NonZeroU32::MIN)
}

/// A read or a write of a key by a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// Number of the key.
    pub key: u64,
    /// Version that was read or written.
    pub version: u64,
    /// The [`fingerprint`] of the value; `None` if the key is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<NonZeroU32>,
}

impl Access {
    /// An access to a key that has a value.
    pub fn present(key: u64, version: u64, value: &[u8]) -> Self {
        Self { key, version, value: Some(fingerprint(value)) }
    }

    /// An access to a key that is absent or deleted.
    pub fn absent(key: u64, version: u64) -> Self {
        Self { key, version, value: None }
    }
}

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It committed, and the client received the answer.
    Committed {
        /// Time at which the client received the answer, in picoseconds.
        ended_ps: u64,
    },
    /// It may have committed.
    Unknown,
    /// It did not commit. Its writes are recorded so that a read of one is recognised.
    Aborted,
}

/// A transaction to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// Identity of the transaction, by which reports name it.
    pub id: TransactionId,
    /// Time of the call in picoseconds.
    pub started_ps: u64,
    /// Outcome of the transaction.
    pub fate: Fate,
    /// Reads, each key once, with the state before the transaction. Keys that it both read and wrote are included.
    pub reads: &'a [Access],
    /// Writes, each key once.
    pub writes: &'a [Access],
}

/// A transaction with accesses of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRecord {
    /// As [`Transaction::id`].
    pub id: TransactionId,
    /// As [`Transaction::started_ps`].
    pub started_ps: u64,
    /// As [`Transaction::fate`].
    pub fate: Fate,
    /// As [`Transaction::reads`].
    pub reads: Vec<Access>,
    /// As [`Transaction::writes`].
    pub writes: Vec<Access>,
}

impl TransactionRecord {
    /// The transaction, as [`History::record`] takes it.
    pub fn as_transaction(&self) -> Transaction<'_> {
        let Self { id, started_ps, fate, reads, writes } = self;
        Transaction { id: *id, started_ps: *started_ps, fate: *fate, reads, writes }
    }
}

/// End of a transaction that did not end.
pub(super) const NEVER: u64 = u64::MAX;

/// A transaction that counts for the verdict.
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

    fn access(&self) -> Access {
        Access { key: self.key, version: self.version, value: self.value }
    }
}

/// A transaction that counts only if one of its writes was observed; if it aborted, it never counts.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: TransactionId,
    pub(super) started: u64,
    pub(super) aborted: bool,
    pub(super) reads: Vec<Access>,
    pub(super) writes: Vec<Access>,
}

/// Content of a replica at the end of the run.
pub(super) struct FinalState {
    pub(super) replica: String,
    pub(super) holds: Box<dyn Fn(u64) -> bool>,
    /// The keys that it holds, sorted, each once.
    pub(super) state: Vec<Access>,
}

/// The transactions of a run, in any order, and the replicas' contents at its end.
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
    /// If it ended before it started, or at the maximal time, or if there are 2^31 transactions already.
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

    /// Adds a transaction that counts.
    pub(super) fn count(&mut self, recorded: Recorded, reads: &[Access], writes: &[Access]) {
        // The graph has a node for each transaction and one for each end, with 32-bit numbers.
        let index = u32::try_from(self.transactions.len()).ok().filter(|index| *index < 1 << 31);
        let index = index.expect("fewer than 2^31 transactions");
        self.transactions.push(recorded);
        self.reads.extend(reads.iter().map(|access| Event::new(access, index)));
        self.writes.extend(writes.iter().map(|access| Event::new(access, index)));
    }

    /// The transactions recorded so far: those that committed, then those that may have or aborted and wrote
    /// something.
    pub fn records(&self) -> Vec<TransactionRecord> {
        let committed = |&Recorded { id, started, ended }: &Recorded| TransactionRecord {
            id,
            started_ps: started,
            fate: Fate::Committed { ended_ps: ended },
            reads: Vec::new(),
            writes: Vec::new(),
        };
        let mut records: Vec<TransactionRecord> = self.transactions.iter().map(committed).collect();
        for event in &self.reads {
            records[event.transaction as usize].reads.push(event.access());
        }
        for event in &self.writes {
            records[event.transaction as usize].writes.push(event.access());
        }
        records.extend(self.open.iter().map(|open| TransactionRecord {
            id: open.id,
            started_ps: open.started,
            fate: if open.aborted { Fate::Aborted } else { Fate::Unknown },
            reads: open.reads.clone(),
            writes: open.writes.clone(),
        }));
        records
    }

    /// Adds the content of a replica at the end of the run: every key that is present, in any order. `holds` says
    /// which keys the replica should have. A committed write of such a key is lost if the key is neither in the
    /// content nor overwritten.
    pub fn final_state(
        &mut self,
        replica: &str,
        holds: impl Fn(u64) -> bool + 'static,
        state: impl IntoIterator<Item = Access>,
        options: &super::Options,
    ) {
        // Absent keys at initial versions need not be kept.
        let mut state: Vec<Access> =
            state.into_iter().filter(|access| access.version > options.initial_version).collect();
        state.sort_unstable_by_key(|access| (access.key, access.version));
        self.finals.push(FinalState { replica: replica.into(), holds: Box::new(holds), state });
    }

    /// Number of transactions recorded so far that committed, or that may have or aborted and wrote something.
    pub fn len(&self) -> usize {
        self.transactions.len() + self.open.len()
    }

    /// Whether no transactions are recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
