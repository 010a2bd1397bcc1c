//! A recorded history: the operations of all clients, with their keys interned.

use std::collections::HashMap;

use thiserror::Error;

use crate::operation::{Action, Call, NEVER, Operation, Outcome, Reply};

/// The longest key that a history stores, bytes: that of the key-value store.
pub const MAX_KEY_BYTES: usize = 72;

/// Why an operation cannot be recorded. The history is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The key is longer than [`MAX_KEY_BYTES`].
    #[error("a key of {bytes} bytes: a history stores at most {MAX_KEY_BYTES}")]
    KeyTooLong {
        /// Length of the key, bytes.
        bytes: usize,
    },
    /// The return time is before the invocation time.
    #[error("an operation that returned at {returned_ns} ns, before it was invoked at {invoked_ns} ns")]
    ReturnedBeforeInvoked {
        /// Time of the invocation in nanoseconds.
        invoked_ns: u64,
        /// Time of the return in nanoseconds.
        returned_ns: u64,
    },
    /// A time at the end of the 64-bit range, which is reserved for "never".
    #[error("a time of 2^64 - 1 ns, which stands for \"never\"")]
    TimeOutOfRange,
    /// More operations than 32 bits can number.
    #[error("more than 2^32 - 1 operations in one history")]
    Full,
}

/// The operations of a run, in the order in which they were recorded.
///
/// An operation takes 64 bytes; a key is stored once.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: Vec<Record>,
    keys: Vec<Box<[u8]>>,
    key_ids: HashMap<Box<[u8]>, u32>,
}

/// The stored form of an operation, with the values of action and outcome in fixed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    pub(crate) action_value: u64,
    pub(crate) action_version: u64,
    pub(crate) outcome_value: u64,
    pub(crate) outcome_version: u64,
    pub(crate) key: u32,
    pub(crate) client: u32,
    pub(crate) action: u8,
    pub(crate) outcome: u8,
}

const _: () = assert!(size_of::<Record>() == 64);

/// The outcome tag of an operation without a reply.
const NO_REPLY: u8 = 0;

impl Record {
    fn new(operation: &Operation<'_>, key: u32) -> Self {
        let (action, action_version, action_value) = match operation.action {
            Action::Get => (1, 0, 0),
            Action::Put { value } => (2, 0, value),
            Action::Delete => (3, 0, 0),
            Action::CompareAndSet { expected, value } => (4, expected, value),
            Action::CompareAndDelete { expected } => (5, expected, 0),
        };
        let (outcome, outcome_version, outcome_value) = match operation.reply.map(|reply| reply.outcome) {
            None => (NO_REPLY, 0, 0),
            Some(Outcome::Found { version, value }) => (1, version, value),
            Some(Outcome::NotFound) => (2, 0, 0),
            Some(Outcome::Written { version }) => (3, version, 0),
            Some(Outcome::Deleted { version }) => (4, version, 0),
            Some(Outcome::Mismatch { version }) => (5, version, 0),
            Some(Outcome::Refused) => (6, 0, 0),
        };
        Self {
            invoked: operation.invoked_ns,
            returned: operation.reply.map_or(NEVER, |reply| reply.returned_ns),
            action_value,
            action_version,
            outcome_value,
            outcome_version,
            key,
            client: operation.client,
            action,
            outcome,
        }
    }

    /// The action; `None` if the tag is not one.
    pub(crate) fn action(&self) -> Option<Action> {
        match self.action {
            1 => Some(Action::Get),
            2 => Some(Action::Put { value: self.action_value }),
            3 => Some(Action::Delete),
            4 => Some(Action::CompareAndSet { expected: self.action_version, value: self.action_value }),
            5 => Some(Action::CompareAndDelete { expected: self.action_version }),
            _ => None,
        }
    }

    /// The outcome, `Some(None)` without a reply; `None` if the tag is not one.
    pub(crate) fn outcome(&self) -> Option<Option<Outcome>> {
        let version = self.outcome_version;
        Some(Some(match self.outcome {
            NO_REPLY => return Some(None),
            1 => Outcome::Found { version, value: self.outcome_value },
            2 => Outcome::NotFound,
            3 => Outcome::Written { version },
            4 => Outcome::Deleted { version },
            5 => Outcome::Mismatch { version },
            6 => Outcome::Refused,
            _ => return None,
        }))
    }

    fn call(&self, index: u32) -> Call {
        Call {
            index,
            client: self.client,
            invoked: self.invoked,
            returned: self.returned,
            action: self.action().expect("records hold valid tags"),
            outcome: self.outcome().expect("records hold valid tags"),
        }
    }
}

impl History {
    /// A history without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// A history without operations, with memory for `operations` of them.
    pub fn with_capacity(operations: usize) -> Self {
        Self { records: Vec::with_capacity(operations), ..Self::default() }
    }

    /// Appends an operation.
    pub fn record(&mut self, operation: Operation<'_>) -> Result<(), RecordError> {
        if operation.key.len() > MAX_KEY_BYTES {
            return Err(RecordError::KeyTooLong { bytes: operation.key.len() });
        }
        if let Some(Reply { returned_ns, .. }) = operation.reply {
            if returned_ns < operation.invoked_ns {
                return Err(RecordError::ReturnedBeforeInvoked {
                    invoked_ns: operation.invoked_ns,
                    returned_ns,
                });
            }
            if returned_ns == NEVER {
                return Err(RecordError::TimeOutOfRange);
            }
        }
        if operation.invoked_ns == NEVER {
            return Err(RecordError::TimeOutOfRange);
        }
        if self.records.len() >= u32::MAX as usize {
            return Err(RecordError::Full);
        }
        let key = self.intern(operation.key);
        self.records.push(Record::new(&operation, key));
        Ok(())
    }

    /// Merges histories into one, in the order of invocation. Operations with equal times stay in the order of
    /// `histories`, and within one of them in the order of recording.
    pub fn merge(histories: impl IntoIterator<Item = History>) -> Result<Self, RecordError> {
        let mut merged = Self::new();
        for history in histories {
            if merged.records.len() + history.records.len() > u32::MAX as usize {
                return Err(RecordError::Full);
            }
            let ids: Vec<u32> = history.keys.iter().map(|key| merged.intern(key)).collect();
            merged.records.extend(
                history.records.iter().map(|record| Record { key: ids[record.key as usize], ..*record }),
            );
        }
        merged.records.sort_by_key(|record| record.invoked);
        Ok(merged)
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no operation.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Number of distinct keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// All operations, in order.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = Operation<'_>> {
        self.records.iter().map(|record| {
            let call = record.call(0);
            Operation {
                client: call.client,
                key: &self.keys[record.key as usize],
                invoked_ns: call.invoked,
                action: call.action,
                reply: call.outcome.map(|outcome| Reply { returned_ns: call.returned, outcome }),
            }
        })
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    pub(crate) fn keys(&self) -> &[Box<[u8]>] {
        &self.keys
    }

    /// Calls `visit` with each key and its operations, ordered by invocation. Keys come in the order of their
    /// first appearance.
    pub(crate) fn for_each_key(&self, mut visit: impl FnMut(&[u8], &[Call])) {
        // Counting sort: the operations of key k are order[starts[k]..starts[k + 1]].
        let mut starts = vec![0usize; self.keys.len() + 1];
        for record in &self.records {
            starts[record.key as usize + 1] += 1;
        }
        for key in 0..self.keys.len() {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; self.records.len()];
        for (index, record) in self.records.iter().enumerate() {
            let slot = &mut next[record.key as usize];
            order[*slot] = index as u32;
            *slot += 1;
        }
        let mut calls = Vec::new();
        for (key, range) in self.keys.iter().zip(starts.windows(2)) {
            calls.clear();
            let indices = &order[range[0]..range[1]];
            calls.extend(indices.iter().map(|&index| self.records[index as usize].call(index)));
            calls.sort_by_key(|call| call.invoked);
            visit(key, &calls);
        }
    }

    /// The number of `key`. A new key is stored.
    pub(crate) fn intern(&mut self, key: &[u8]) -> u32 {
        if let Some(&id) = self.key_ids.get(key) {
            return id;
        }
        let id = self.keys.len() as u32;
        self.keys.push(key.into());
        self.key_ids.insert(key.into(), id);
        id
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.operations().eq(other.operations())
    }
}

impl Eq for History {}
