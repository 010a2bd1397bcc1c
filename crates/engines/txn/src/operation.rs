//! Requests that look keys up, each of which may have to wait for the host's memory (Xenic 4.3.1).
//!
//! An operation is what a continuation would hold: what was asked, what is known by now and what is still missing.
//! The end of a copy names it and the key, and the last one completes it.

use std::ops::Range;

use crate::key::{Key, Version};
use crate::procedure::Mode;
use crate::transaction::TransactionId;

/// Further use of the values that an operation finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Execute,
    Lock,
    Validate,
    Ship,
}

/// A key of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Sought {
    pub index: u8,
    pub key: Key,
    pub mode: Mode,
    /// Execute: the version that is found. Lock, Validate: the one that is expected.
    pub version: Version,
    pub new: Version,
    pub value: Option<Range<usize>>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub purpose: Purpose,
    pub id: TransactionId,
    pub shard: usize,
    pub sought: Vec<Sought>,
    pub values: Vec<u8>,
    /// Number of keys whose copies are outstanding.
    pub missing: usize,
    /// No key was ever missing: all was read at one moment.
    pub atomic: bool,
    /// A validation has failed already.
    pub failed: bool,
    /// Its epoch has ended: it only waits for its copies.
    pub dead: bool,
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

    /// An operation, if one is free.
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
                    dead: false,
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
        (operation.missing, operation.atomic, operation.failed, operation.dead) = (0, true, false, false);
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

    /// The epoch has ended: nobody wants to know any more.
    pub fn abandon(&mut self) {
        for operation in &mut self.all {
            operation.dead |= operation.in_use;
        }
    }
}
