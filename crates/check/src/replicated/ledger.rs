//! The calls of one client.

use std::collections::VecDeque;

use super::{Call, CallId, METHODS_MAX};

/// What became of a call as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has no answer; perhaps it never gets one.
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
    /// Where it has taken effect, one bit for each replica.
    pub(super) applied: u8,
    /// Whether it has taken effect anywhere, also at a replica that has lost its state since.
    pub(super) begun: bool,
    pub(super) invoked: u64,
    pub(super) answered: u64,
    /// The latest invocation among the calls before it in its group's order.
    pub(super) newest_before: Option<(u64, CallId)>,
    /// What had taken effect where it was checked: client, method, how many calls.
    pub(super) needs: Vec<(u32, u8, u64)>,
}

/// One client: one life of one node.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) node: usize,
    /// Its life is over: what its node takes in now, a later life does.
    pub(super) over: bool,
    /// Calls from number `first` on.
    first: u64,
    records: VecDeque<Record>,
    /// Of each method, the numbers of its calls in the order in which they took effect at the client's own replica, as far as
    /// they are kept.
    streams: [VecDeque<u64>; METHODS_MAX],
    /// How many were before those.
    forgotten: [u64; METHODS_MAX],
}

/// Where a call is.
pub(super) enum Place {
    Kept,
    /// All have taken it or it was refused.
    Forgotten,
    NeverMade,
}

impl Ledger {
    pub(super) fn new(node: usize) -> Self {
        Self {
            node,
            over: false,
            first: 1,
            records: VecDeque::new(),
            streams: Default::default(),
            forgotten: [0; METHODS_MAX],
        }
    }

    /// The number of the next call.
    pub(super) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    pub(super) fn push(&mut self, record: Record) {
        self.records.push_back(record);
    }

    pub(super) fn find(&self, number: u64) -> Place {
        match number.checked_sub(self.first) {
            None if number == 0 => Place::NeverMade,
            None => Place::Forgotten,
            Some(index) if (index as usize) < self.records.len() => Place::Kept,
            Some(_) => Place::NeverMade,
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

    /// The call took effect at the client's own replica.
    pub(super) fn extend_stream(&mut self, method: u8, number: u64) {
        self.streams[method as usize].push_back(number);
    }

    /// How many calls of the method have taken effect at the client's own replica.
    pub(super) fn stream_length(&self, method: u8) -> u64 {
        self.forgotten[method as usize] + self.streams[method as usize].len() as u64
    }

    /// The call that took effect as number `index`, from 0, of its method; none if there were not so many, or it is forgotten.
    pub(super) fn in_stream(&self, method: u8, index: u64) -> Option<u64> {
        let index = index.checked_sub(self.forgotten[method as usize])?;
        self.streams[method as usize].get(index as usize).copied()
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
            let method = record.call.method as usize;
            self.records.pop_front();
            self.first += 1;
            let stream = &mut self.streams[method];
            while stream.front().is_some_and(|number| *number < self.first) {
                stream.pop_front();
                self.forgotten[method] += 1;
            }
        }
    }
}
