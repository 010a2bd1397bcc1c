//! What the hosts of a run have in common: the load, and what was measured.

use std::cell::RefCell;
use std::rc::Rc;

use weft_time::{Duration, Instant};
use weft_txn::{Key, Outcome, Request, TransactionId};

use super::workloads::Audit;
use crate::histogram::Latencies;

/// All hosts write into the same books.
pub(super) type Shared = Rc<RefCell<Books>>;

/// Transactions of one kind, in the present window.
#[derive(Clone, Debug, Default)]
pub(super) struct KindBooks {
    pub(super) committed: u64,
    /// Given up by their procedure.
    pub(super) aborted: u64,
    /// From the first call to the last answer, of those that committed.
    pub(super) latencies: Latencies,
}

/// A call that was answered.
pub(super) struct Ended<'a> {
    /// Its last attempt.
    pub(super) id: TransactionId,
    pub(super) called: Instant,
    pub(super) now: Instant,
    pub(super) request: &'a Request,
    pub(super) outcome: &'a Outcome,
    /// How often it was tried.
    pub(super) attempts: u32,
}

/// An attempt that was its call's last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) id: TransactionId,
    pub(super) called: Instant,
    pub(super) answered: Instant,
    pub(super) committed: bool,
}

/// The books of a run.
pub(super) struct Books {
    /// Clients of each server that go on when they have their answer.
    pub(super) lanes: usize,
    /// In the present window, by kind.
    pub(super) kinds: Vec<KindBooks>,
    /// Calls that were answered in the present window.
    pub(super) calls: u64,
    /// Those of them that gave way to others as often as they were tried.
    pub(super) conflicts: u64,
    /// How often they were tried, in all.
    pub(super) attempts: u64,
    /// Transactions that have ended since the run began.
    pub(super) ended: u64,
    /// Calls without an answer.
    pub(super) open: u64,
    /// What must not happen in a run without faults.
    pub(super) wrong: Vec<String>,
    /// Calls that were answered since the checker has looked last, if it does.
    pub(super) answers: Option<Vec<Attempt>>,
    audit: Box<dyn Audit>,
}

impl Books {
    pub(super) fn new(kinds: usize, audit: Box<dyn Audit>, checks: bool) -> Self {
        Self {
            lanes: 0,
            kinds: vec![KindBooks::default(); kinds],
            calls: 0,
            conflicts: 0,
            attempts: 0,
            ended: 0,
            open: 0,
            wrong: Vec::new(),
            answers: checks.then(Vec::new),
            audit,
        }
    }

    /// Begins another window.
    pub(super) fn begin_window(&mut self) {
        self.kinds.fill(KindBooks::default());
        (self.calls, self.conflicts, self.attempts) = (0, 0, 0);
    }

    /// Transactions that have committed in the window.
    pub(super) fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }

    /// A call was answered.
    pub(super) fn answered(&mut self, ended: Ended<'_>) {
        self.open -= 1;
        self.calls += 1;
        self.attempts += u64::from(ended.attempts);
        let committed = match ended.outcome {
            Outcome::Committed { answer } => {
                self.audit.committed(ended.request, answer);
                true
            }
            Outcome::Aborted { .. } => false,
            Outcome::Conflict => {
                self.conflicts += 1;
                false
            }
            outcome => {
                self.wrong.push(format!("{} ended with {outcome:?}", ended.id));
                false
            }
        };
        if let Some(answers) = &mut self.answers {
            answers.push(Attempt { id: ended.id, called: ended.called, answered: ended.now, committed });
        }
    }

    /// A transaction of a client has ended, with this answer to its last call.
    pub(super) fn ended(&mut self, kind: usize, began: Instant, now: Instant, outcome: &Outcome) {
        self.ended += 1;
        let books = &mut self.kinds[kind];
        match outcome {
            Outcome::Committed { .. } => {
                books.committed += 1;
                books.latencies.record(now - began);
            }
            _ => books.aborted += 1,
        }
    }

    /// An object that is there in the end.
    pub(super) fn object(&mut self, key: Key, value: &[u8]) {
        self.audit.object(key, value);
    }

    /// After all objects: what is wrong with them and with the run.
    pub(super) fn findings(&mut self) -> Vec<String> {
        let mut wrong = std::mem::take(&mut self.wrong);
        wrong.truncate(WRONG_SHOWN);
        wrong.extend(self.audit.findings());
        wrong
    }

    /// All latencies of the window.
    pub(super) fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.kinds.iter().for_each(|kind| all.merge(&kind.latencies));
        all
    }
}

/// Of what must not happen, so much is told.
const WRONG_SHOWN: usize = 8;

/// How long a client waits when its call was in conflict as often as its host has tried.
pub(super) const CONFLICT_PAUSE: Duration = Duration::from_us(1);
