//! The record that the hosts of a run share: the load and the measurements.

use std::cell::RefCell;
use std::rc::Rc;

use weft_time::{Duration, Instant};
use weft_txn::{Key, Outcome, Request, TransactionId};

use weft_applications::Audit;
use weft_results::histogram::Latencies;

/// The record, which all hosts share.
pub(super) type Shared = Rc<RefCell<RunRecord>>;

/// Transactions of one kind that began in the current window.
#[derive(Clone, Debug, Default)]
pub(super) struct KindRecord {
    pub(super) committed: u64,
    /// Number of transactions that their procedure has aborted.
    pub(super) aborted: u64,
    /// Latencies from the first call to the last answer, of committed transactions.
    pub(super) latencies: Latencies,
}

/// A call that was answered.
pub(super) struct Ended<'a> {
    /// Identifier of the call's last attempt.
    pub(super) id: TransactionId,
    pub(super) called: Instant,
    pub(super) now: Instant,
    pub(super) request: &'a Request,
    pub(super) outcome: &'a Outcome,
    /// Number of attempts.
    pub(super) attempts: u32,
}

/// The last attempt of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) id: TransactionId,
    pub(super) called: Instant,
    pub(super) answered: Instant,
    pub(super) committed: bool,
}

/// Record of a run.
pub(super) struct RunRecord {
    /// Number of active clients of each server.
    pub(super) lanes: usize,
    /// Transactions that began in the current window, by kind.
    pub(super) kinds: Vec<KindRecord>,
    /// Number of the current window, from 1.
    window: u64,
    is_window_open: bool,
    /// Number of transactions that began in the current window.
    pub(super) begun: u64,
    /// Number of these that have not ended.
    pub(super) awaited: u64,
    /// Number of clients that have begun and ended a transaction at the current load.
    pub(super) settled: usize,
    /// Number of calls answered in the current window.
    pub(super) calls: u64,
    /// Number of these calls that have conflicted in all attempts.
    pub(super) conflicts: u64,
    /// Total number of attempts of these calls.
    pub(super) attempts: u64,
    /// Number of transactions that have ended since the beginning of the run.
    pub(super) ended: u64,
    /// Number of outstanding calls.
    pub(super) open: u64,
    /// Violations in a run without faults.
    pub(super) wrong: Vec<String>,
    /// Calls that were answered since the checker last took them, if the run is checked.
    pub(super) answers: Option<Vec<Attempt>>,
    audit: Box<dyn Audit>,
}

impl RunRecord {
    pub(super) fn new(kinds: usize, audit: Box<dyn Audit>, checks: bool) -> Self {
        Self {
            lanes: 0,
            kinds: vec![KindRecord::default(); kinds],
            window: 0,
            is_window_open: false,
            begun: 0,
            awaited: 0,
            settled: 0,
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

    /// Sets the number of active clients of each server.
    pub(super) fn begin_load(&mut self, lanes: usize) {
        (self.lanes, self.settled) = (lanes, 0);
    }

    /// Begins another window.
    pub(super) fn begin_window(&mut self) {
        self.kinds.fill(KindRecord::default());
        (self.calls, self.conflicts, self.attempts) = (0, 0, 0);
        (self.begun, self.awaited) = (0, 0);
        self.window += 1;
        self.is_window_open = true;
    }

    /// Closes the window: transactions that begin from now on do not count, and those of the window are waited for.
    /// Returns the number of calls answered in the window, how many of them have conflicted in all attempts, and the
    /// number of attempts of all these calls.
    pub(super) fn end_window(&mut self) -> (u64, u64, u64) {
        self.is_window_open = false;
        (self.calls, self.conflicts, self.attempts)
    }

    /// Records that a client begins a transaction. Returns the window to which the transaction belongs.
    pub(super) fn begins(&mut self) -> u64 {
        if !self.is_window_open {
            return OUTSIDE;
        }
        self.begun += 1;
        self.awaited += 1;
        self.window
    }

    /// Number of committed transactions that began in the window.
    pub(super) fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }

    /// Records that a call was answered.
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

    /// Records that a transaction which began in `window` has ended with this answer to its last call.
    pub(super) fn ended(
        &mut self,
        window: u64,
        kind: usize,
        began: Instant,
        now: Instant,
        outcome: &Outcome,
    ) {
        self.ended += 1;
        if window == OUTSIDE || window != self.window {
            return;
        }
        self.awaited -= 1;
        let books = &mut self.kinds[kind];
        match outcome {
            Outcome::Committed { .. } => {
                books.committed += 1;
                books.latencies.record(now - began);
            }
            _ => books.aborted += 1,
        }
    }

    /// Adds an object of the final state to the audit.
    pub(super) fn object(&mut self, key: Key, value: &[u8]) {
        self.audit.object(key, value);
    }

    /// Violations of the audit and of the run, after all objects were added.
    pub(super) fn findings(&mut self) -> Vec<String> {
        let mut wrong = std::mem::take(&mut self.wrong);
        wrong.truncate(WRONG_SHOWN);
        wrong.extend(self.audit.findings());
        wrong
    }

    /// Latencies of all transactions that began in the window.
    pub(super) fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.kinds.iter().for_each(|kind| all.merge(&kind.latencies));
        all
    }
}

/// The number of the window for transactions that belong to no window.
const OUTSIDE: u64 = 0;

/// Maximum number of violations that are described.
const WRONG_SHOWN: usize = 8;

/// Pause of a client after its call has conflicted in all attempts.
pub(super) const CONFLICT_PAUSE: Duration = Duration::from_us(1);

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Audit for Nothing {
        fn committed(&mut self, _: &Request, _: &[u8]) {}

        fn unknown(&mut self, _: &Request) {}

        fn object(&mut self, _: Key, _: &[u8]) {}

        fn findings(&mut self) -> Vec<String> {
            Vec::new()
        }
    }

    const SHORT: usize = 0;
    const LONG: usize = 1;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// All transactions that begin in a window count, however long they take, and no others. So the shares of
    /// the kinds are those of the workload.
    #[test]
    fn a_transaction_counts_in_the_window_in_which_it_was_begun() {
        let mut books = RunRecord::new(2, Box::new(Nothing), false);
        let committed = Outcome::Committed { answer: Vec::new() };
        let before = books.begins();
        books.begin_window();
        let (long, short) = (books.begins(), books.begins());
        books.ended(before, LONG, at(0), at(11), &committed);
        books.ended(short, SHORT, at(10), at(12), &committed);
        let open = books.begins();
        books.end_window();
        let after = books.begins();
        assert_eq!((books.begun, books.awaited), (3, 2));
        books.ended(after, SHORT, at(20), at(21), &committed);
        books.ended(open, SHORT, at(12), at(22), &Outcome::Aborted { reason: 1, answer: Vec::new() });
        assert_eq!(books.awaited, 1);
        books.ended(long, LONG, at(10), at(90), &committed);
        assert_eq!((books.awaited, books.committed(), books.ended), (0, 2, 5));
        assert_eq!([SHORT, LONG].map(|kind| books.kinds[kind].committed), [1, 1]);
        assert_eq!(books.kinds[SHORT].aborted, 1);
        assert!(books.kinds[LONG].latencies.summary().max_ns >= 80_000);
        // A transaction that ends in a later window than it began in counts in neither.
        books.begin_window();
        let late = books.begins();
        books.begin_window();
        books.ended(late, LONG, at(91), at(99), &committed);
        assert_eq!((books.awaited, books.committed()), (0, 0));
    }
}
