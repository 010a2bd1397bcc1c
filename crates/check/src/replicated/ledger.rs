//! The calls of one client, and what of them took effect in which order.

use std::collections::VecDeque;

use super::{Call, CallId};

/// Outcome of a call as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has no answer, and may never get one.
    Open,
    Done,
    Refused,
}

/// A call that was made.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// As the client made it; from its first effect on as the replicas filled it in.
    pub(super) call: Call,
    pub(super) fate: Fate,
    /// Replicas at which it has taken effect, one bit each.
    pub(super) applied: u8,
    /// Whether it has taken effect anywhere, also at a replica that has lost its state since.
    pub(super) begun: bool,
    pub(super) invoked: u64,
    pub(super) answered: u64,
    /// The latest invocation among the calls before it in its group's order.
    pub(super) newest_before: Option<(u64, CallId)>,
    /// Calls that had taken effect where it was checked: node, method, number.
    pub(super) needs: Vec<(u8, u8, u64)>,
}

/// One client: one incarnation of one node.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) node: usize,
    /// Its incarnation has ended: later calls at its node belong to a later one.
    pub(super) over: bool,
    /// Calls from number `first` on.
    first: u64,
    records: VecDeque<Record>,
}

/// State of a call.
pub(super) enum CallState {
    Kept,
    /// All replicas have applied it, or it was refused.
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

    /// A call that is kept.
    pub(super) fn record(&mut self, number: u64) -> &mut Record {
        &mut self.records[(number - self.first) as usize]
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (u64, &Record)> {
        (self.first..).zip(&self.records)
    }

    pub(super) fn records_mut(&mut self) -> impl Iterator<Item = (u64, &mut Record)> {
        (self.first..).zip(&mut self.records)
    }

    /// Forgets calls that were answered and have taken effect at all of `awaited`, or were refused.
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

/// Calls of one node, over all its lives, that take effect in the order in which the node made them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// As they took effect at the node itself, as far as they are kept.
    calls: VecDeque<CallId>,
    /// Number of calls before those.
    forgotten: u64,
}

impl Stream {
    pub(super) fn length(&self) -> u64 {
        self.forgotten + self.calls.len() as u64
    }

    /// Calls kept at this moment.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.calls.len()
    }

    /// A call takes effect at its own node, which has applied `length` of the stream: the rest was lost with an earlier
    /// incarnation.
    pub(super) fn extend(&mut self, length: u64, call: CallId) {
        self.calls.truncate(length.saturating_sub(self.forgotten) as usize);
        self.calls.push_back(call);
    }

    /// The call with this index, from 0; none if there is no such call, or it is forgotten.
    pub(super) fn get(&self, index: u64) -> Option<CallId> {
        self.calls.get(index.checked_sub(self.forgotten)? as usize).copied()
    }

    /// Forgets what all have taken in.
    pub(super) fn forget(&mut self, taken_by_all: u64) {
        while self.forgotten < taken_by_all && self.calls.pop_front().is_some() {
            self.forgotten += 1;
        }
    }
}
