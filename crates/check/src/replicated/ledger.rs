//! Records of one client's calls, and the order in which they took effect.

use std::collections::VecDeque;

use super::{Call, CallId};

/// Outcome of a call, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The call has no answer yet, and may never get one.
    Open,
    Done,
    Refused,
}

/// Record of a call.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The call as the client made it. After its first effect, with the arguments that the replica filled in.
    pub(super) call: Call,
    pub(super) fate: Fate,
    /// Bit mask of the replicas at which it has taken effect.
    pub(super) applied: u8,
    /// Whether it has taken effect at any replica, including one that has lost its state since.
    pub(super) begun: bool,
    pub(super) invoked: u64,
    pub(super) answered: u64,
    /// The latest invocation among the calls that precede this one in its group's order.
    pub(super) newest_before: Option<(u64, CallId)>,
    /// Number of calls on which this one depends that had taken effect where it was checked: node, method, number.
    pub(super) needs: Vec<(u8, u8, u64)>,
}

/// One client. Each incarnation of a node has one.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) node: usize,
    /// Whether the incarnation has ended, so that later calls at its node belong to another client.
    pub(super) over: bool,
    /// Number of the first call in `records`.
    first: u64,
    records: VecDeque<Record>,
}

/// Whether the record of a call exists.
pub(super) enum CallState {
    Kept,
    /// All replicas have applied it, or it was refused: its record was dropped.
    Forgotten,
    NeverMade,
}

impl Ledger {
    pub(super) fn new(node: usize) -> Self {
        Self { node, over: false, first: 1, records: VecDeque::new() }
    }

    /// The number of the next call.
    pub(super) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    pub(super) fn push(&mut self, record: Record) {
        self.records.push_back(record);
    }

    pub(super) fn find(&self, number: u64) -> CallState {
        match number.checked_sub(self.first) {
            None if number == 0 => CallState::NeverMade,
            None => CallState::Forgotten,
            Some(index) if (index as usize) < self.records.len() => CallState::Kept,
            Some(_) => CallState::NeverMade,
        }
    }

    /// The record of a call that is kept.
    pub(super) fn record(&mut self, number: u64) -> &mut Record {
        &mut self.records[(number - self.first) as usize]
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (u64, &Record)> {
        (self.first..).zip(&self.records)
    }

    pub(super) fn records_mut(&mut self) -> impl Iterator<Item = (u64, &mut Record)> {
        (self.first..).zip(&mut self.records)
    }

    /// Drops records of calls that were answered and have taken effect at all of `awaited`, or that were refused.
    pub(super) fn forget(&mut self, awaited: u8) {
        while let Some(record) = self.records.front() {
            let everywhere = record.applied & awaited == awaited;
            match record.fate {
                Fate::Refused => {}
                Fate::Done if everywhere => {}
                Fate::Done | Fate::Open => return,
            }
            self.records.pop_front();
            self.first += 1;
        }
    }
}

/// The calls of one node, over all its incarnations, that take effect in the order in which the node made them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// The calls in the order in which they took effect at the node itself, without those that were dropped.
    calls: VecDeque<CallId>,
    /// Number of calls that were dropped from the front.
    forgotten: u64,
}

impl Stream {
    pub(super) fn length(&self) -> u64 {
        self.forgotten + self.calls.len() as u64
    }

    /// Number of calls kept at this moment.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.calls.len()
    }

    /// Appends a call that takes effect at its own node, which has applied `length` calls of the stream. Calls
    /// beyond that were lost with an earlier incarnation.
    pub(super) fn extend(&mut self, length: u64, call: CallId) {
        self.calls.truncate(length.saturating_sub(self.forgotten) as usize);
        self.calls.push_back(call);
    }

    /// The call at this index, counted from 0; `None` if there is none, or it was dropped.
    pub(super) fn get(&self, index: u64) -> Option<CallId> {
        self.calls.get(index.checked_sub(self.forgotten)? as usize).copied()
    }

    /// Drops calls that all replicas have applied.
    pub(super) fn forget(&mut self, taken_by_all: u64) {
        while self.forgotten < taken_by_all && self.calls.pop_front().is_some() {
            self.forgotten += 1;
        }
    }
}
