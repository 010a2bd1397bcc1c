//! Linearizability of recorded key-value histories.
//!
//! Clients record what they asked and what they were told ([`History`]); [`check`] says whether a single
//! register per key, acting once between each call and its return, could have answered the same
//! (Herlihy and Wing 1990). Linearizability is local, so each key is checked alone. The checker knows
//! nothing of the implementation that made the history.
//!
//! # The object
//!
//! A key is absent, or present with a value at a version. A *put* is given a version greater than every
//! earlier version of its key. A *delete* of a present value is given one as well; of an absent key it
//! answers "not found". A *compare-and-set* succeeds exactly when the version that it expects is current
//! (0: absent), and else tells the current version. A *get* tells version and value. An operation without
//! a reply may take effect at any time after its invocation, or never. A refused operation has no effect.
//!
//! # The verdict
//!
//! *Linearizable* means that an order was found and verified by code that shares nothing with the search.
//! *Violation* means that the exact search proved that there is none, for all operations of a key or for two
//! that contradict each other whatever else happened. A search that costs more than
//! [`Options::effort`] ends *undecided*.
//!
//! # Logs
//!
//! Logs that nodes agree on, entry by entry, have a check of their own: [`Agreement`].
//!
//! # Transactions
//!
//! Transactions over several keys are checked for strict serializability: [`serializable`].
//!
//! # Locks
//!
//! Locks for a time are checked for mutual exclusion and for tokens that grow: [`locks`].
//!
//! ```
//! use weft_check::{Action, History, Operation, Options, Outcome, Reply, check};
//!
//! let mut history = History::new();
//! let mut record = |client, invoked_ns, returned_ns, action, outcome| {
//!     let reply = Some(Reply { returned_ns, outcome });
//!     history.record(Operation { client, key: b"k", invoked_ns, action, reply })
//! };
//! record(1, 0, 10, Action::Put { value: 0xa }, Outcome::Written { version: 1 })?;
//! record(1, 20, 30, Action::Put { value: 0xb }, Outcome::Written { version: 2 })?;
//! record(2, 40, 50, Action::Get, Outcome::Found { version: 1, value: 0xa })?;
//!
//! let report = check(&history, &Options::default());
//! assert_eq!(report.checked(), "violation");
//! assert_eq!(
//!     report.violations[0].explanation,
//!     "get by client 2 returned version 1 after version 2 had been acknowledged to client 1"
//! );
//! # Ok::<(), weft_check::RecordError>(())
//! ```

mod agreement;
mod codec;
mod contradiction;
mod explain;
mod history;
pub mod locks;
mod lost;
mod one_log;
mod operation;
mod register;
pub mod replicated;
mod report;
mod search;
pub mod serializable;
mod shrink;
mod witness;
mod words;

#[cfg(test)]
mod brute_force;

use serde::Serialize;

pub use agreement::{Agreement, Disagreement, Entry};
pub use codec::{DecodeError, InvalidEntry};
pub use history::{History, MAX_KEY_BYTES, RecordError};
pub use lost::lost_acknowledged_writes;
pub use one_log::OneLog;
pub use operation::{Action, Operation, Outcome, Reply, ValueId, Version};
pub use report::{Report, Verdict, Violation, Window, WindowOperation};

use operation::Call;
use search::Answer;
use shrink::Shrunk;

/// State of a key before the first operation on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Absent: the history begins with an empty store.
    #[default]
    Empty,
    /// Unknown: the store had been used before the history.
    Unknown,
}

/// Options of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// State of keys before the first operation on them.
    pub start: Start,
    /// Placements of operations that the search may try in the whole history, beyond the one that each
    /// operation needs. Bounds time (some ten million a second) and memory (tens of bytes each at worst).
    pub effort: u64,
    /// Violating keys whose smallest window is sought.
    pub violations_shown: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { start: Start::Empty, effort: 50_000_000, violations_shown: 8 }
    }
}

/// Largest share of [`Options::effort`] for one key, so that one hard key leaves the others decided.
const KEY_SHARE: u64 = 4;
/// Placements that finding the smallest window may cost for each operation of the key, and at least.
const SHRINK_EFFORT: (u64, u64) = (100, 10_000_000);

/// Checks every key of `history`.
pub fn check(history: &History, options: &Options) -> Report {
    let mut report = Report {
        verdict: Verdict::Linearizable,
        operations: history.len() as u64,
        keys: history.key_count() as u64,
        keys_in_violation: 0,
        keys_undecided: 0,
        violations: Vec::new(),
        lost_acknowledged_writes: 0,
    };
    let mut effort = options.effort;
    let mut relevant = Vec::new();
    history.for_each_key(|key, recorded| {
        report.lost_acknowledged_writes += lost::lost_of_key(recorded);
        relevant.clear();
        relevant.extend(recorded.iter().filter(|call| matters(call)));
        let pair = contradiction::find(&relevant);
        let verdict = match &pair {
            Some(pair) => refuted(pair),
            None => verdict_of_key(&relevant, options, &mut effort),
        };
        match verdict {
            Verdict::Linearizable => {}
            Verdict::Undecided => report.keys_undecided += 1,
            Verdict::Violation => {
                report.keys_in_violation += 1;
                if report.violations.len() < options.violations_shown {
                    let shown = match pair {
                        Some(pair) => Shrunk { calls: pair.to_vec(), start: Start::Unknown },
                        None => smallest_window(&relevant, options.start),
                    };
                    report.violations.push(violation(key, &relevant, &shown));
                }
            }
        }
    });
    report.verdict = match (report.keys_in_violation, report.keys_undecided) {
        (0, 0) => Verdict::Linearizable,
        (0, _) => Verdict::Undecided,
        _ => Verdict::Violation,
    };
    report
}

/// Whether an operation can have had an effect or has told its client anything of the key.
fn matters(call: &Call) -> bool {
    call.outcome != Some(Outcome::Refused) && !(call.action == Action::Get && call.outcome.is_none())
}

fn verdict_of_key(calls: &[Call], options: &Options, effort: &mut u64) -> Verdict {
    let share = (options.effort / KEY_SHARE).min(*effort);
    // The walk that places each operation once is not charged.
    let walk = 4 * calls.len() as u64;
    let mut left = share + walk;
    let answer = search::search(calls, options.start, &mut left);
    *effort -= share - left.min(share);
    match answer {
        Answer::Order(order) => {
            assert!(witness::explains(calls, &order, options.start), "the search found a wrong order");
            Verdict::Linearizable
        }
        Answer::NoOrder => Verdict::Violation,
        Answer::OutOfEffort => Verdict::Undecided,
    }
}

/// The verdict on a key that holds a contradicting pair: the search proves that the two alone have no order.
fn refuted(pair: &[Call; 2]) -> Verdict {
    let mut unlimited = u64::MAX;
    assert_eq!(
        search::search(pair, Start::Unknown, &mut unlimited),
        Answer::NoOrder,
        "{pair:?} have an order"
    );
    Verdict::Violation
}

fn smallest_window(calls: &[Call], start: Start) -> Shrunk {
    let (per_call, least) = SHRINK_EFFORT;
    shrink::shrink(calls, start, (per_call * calls.len() as u64).max(least))
}

fn violation(key: &[u8], calls: &[Call], shown: &Shrunk) -> Violation {
    Violation {
        key: key.into(),
        explanation: explain::explain(&shown.calls, shown.start),
        window: Window::new(&shown.calls, calls, shown.start),
    }
}
