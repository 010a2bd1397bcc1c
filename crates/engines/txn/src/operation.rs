//! Requests that look up keys. Each look-up may have to wait for a copy from the host's memory (Xenic 4.3.1).
//!
//! An operation holds the state of such a request: what was requested, which keys are found, and how many are
//! missing. The tag of a copy names the operation and the key. When the last copy arrives, the operation
//! completes.

use std::ops::Range;

use crate::key::{Key, Version};
use crate::procedure::Mode;
use crate::transaction::TransactionId;

/// What an operation does with the values that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Execute,
    Lock,
    Validate,
    Ship,
}

/// A key of an operation.
#[derive(Clone, Debug)]
pub(crate) struct WantedKey {
    pub index: u8,
    pub key: Key,
    pub mode: Mode,
    /// For EXECUTE, the version that was found. For LOCK and VALIDATE, the version that is expected.
    pub version: Version,
    pub new: Version,
    pub value: Option<Range<usize>>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub purpose: Purpose,
    pub id: TransactionId,
    pub shard: usize,
    pub sought: Vec<WantedKey>,
    pub values: Vec<u8>,
    /// Number of keys whose copies are outstanding.
    pub missing: usize,
    /// Whether all keys were found at once, so that they were read at one moment.
    pub atomic: bool,
    /// Whether the validation has failed already.
    pub failed: bool,
    /// The operation's epoch has ended. It only waits for its copies, and its result is dropped.
    pub is_stale: bool,
    in_use: bool,
}

/// The operations of a node.
#[derive(Debug)]
pub(crate) struct Operations {
    all: Vec<Operation>,
    free: Vec<usize>,
    capacity: usize,
}

impl Operations {
    pub fn new(capacity: usize) -> Self {
        Self { all: Vec::new(), free: Vec::new(), capacity }
    }

    /// Allocates an operation, if one is free.
    pub fn begin(&mut self, purpose: Purpose, id: TransactionId, shard: usize) -> Option<usize> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.all.len() < self.capacity => {
                self.all.push(Operation {
                    purpose,
                    id,
                    shard,
                    sought: Vec::new(),
                    values: Vec::new(),
                    missing: 0,
                    atomic: true,
                    failed: false,
                    is_stale: false,
                    in_use: false,
                });
                self.all.len() - 1
            }
            None => return None,
        };
        let operation = &mut self.all[number];
        (operation.purpose, operation.id, operation.shard) = (purpose, id, shard);
        operation.sought.clear();
        operation.values.clear();
        (operation.missing, operation.atomic, operation.failed, operation.is_stale) = (0, true, false, false);
        operation.in_use = true;
        Some(number)
    }

    pub fn get(&mut self, number: usize) -> &mut Operation {
        &mut self.all[number]
    }

    pub fn end(&mut self, number: usize) {
        let operation = &mut self.all[number];
        assert!(
            operation.in_use && operation.missing == 0,
            "an operation ends once, when nothing is missing"
        );
        operation.in_use = false;
        self.free.push(number);
    }

    /// Called when the epoch has ended: the results of all outstanding operations will be dropped.
    pub fn abandon(&mut self) {
        for operation in &mut self.all {
            operation.is_stale |= operation.in_use;
        }
    }
}
