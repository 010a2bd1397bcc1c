//! Linearizability of recorded key-value histories.
//!
//! Clients record their requests and the answers that they received ([`History`]). [`check`] decides whether one
//! register per key could have given the same answers, with each operation taking effect at one point between its
//! call and its return (Herlihy and Wing 1990). Linearizability is local, so each key is checked separately. The
//! checker does not depend on the implementation that produced the history.
//!
//! # The object
//!
//! A key is absent, or present with a value at a version. A *put* gets a version greater than every earlier
//! version of its key. A *delete* of a present value gets one as well; a delete of an absent key returns "not
//! found". A *compare-and-set* succeeds exactly if the version that it expects is current (0: absent), and
//! otherwise returns the current version. A *get* returns version and value. An operation without a reply may take
//! effect at any time after its invocation, or never. A refused operation has no effect.
//!
//! # The verdict
//!
//! *Linearizable* means that an order was found, and verified by code that shares nothing with the search.
//! *Violation* means that the exact search proved that there is no order: of all operations of a key, or of two of
//! them that contradict each other in any history. A search that costs more than [`Options::effort`] ends
//! *undecided*.
//!
//! # Logs
//!
//! Logs that nodes agree on entry by entry have a separate check: [`Agreement`].
//!
//! What clients of a repeated consensus are told has one, too: [`decisions`].
//!
//! # Cuts
//!
//! A store that answers writes before they are on a disk may lose the last ones with the memory of all replicas. Which
//! losses are right is checked by [`check_with_cuts`].
//!
//! # Transactions
//!
//! Transactions over several keys are checked for strict serializability: [`serializable`].
//!
//! # Locks
//!
//! Locks with a time to live are checked for mutual exclusion and for growing tokens: [`locks`].
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
mod cut;
pub mod decisions;
pub mod edn;
mod explain;
mod history;
pub mod lines;
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

use serde::{Deserialize, Serialize};

pub use agreement::{Agreement, Disagreement, Entry};
pub use codec::{DecodeError, InvalidEntry};
pub use cut::{Cut, CutReport, Lag, check_with_cuts};
pub use history::{History, MAX_KEY_BYTES, RecordError};
pub use lost::lost_acknowledged_writes;
pub use one_log::OneLog;
pub use operation::{Action, Operation, Outcome, Reply, ValueId, Version};
pub use report::{Report, Verdict, Violation, Window, WindowOperation};

use operation::Call;
use search::Answer;
use shrink::Shrunk;

/// The state of a key before its first operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// State of the keys before their first operations.
    pub start: Start,
    /// Number of placements of operations that the search may try in the whole history, in addition to one per
    /// operation. It limits time (about ten million a second) and memory (at worst, tens of bytes per placement).
    pub effort: u64,
    /// Number of violating keys for which the smallest window is searched.
    pub violations_shown: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { start: Start::Empty, effort: 50_000_000, violations_shown: 8 }
    }
}

/// One key may use at most one part in this many of [`Options::effort`], so that other keys are still decided
/// after a hard one.
const KEY_SHARE: u64 = 4;
/// Limits of placements in the search for a key's smallest window: for each operation of the key, and in all. The
/// larger of the two counts.
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

/// Whether an operation may have had an effect, or has returned information about the key.
fn matters(call: &Call) -> bool {
    call.outcome != Some(Outcome::Refused) && !(call.action == Action::Get && call.outcome.is_none())
}

fn verdict_of_key(calls: &[Call], options: &Options, effort: &mut u64) -> Verdict {
    let share = (options.effort / KEY_SHARE).min(*effort);
    // Placing each operation once is free of charge.
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

/// The verdict on a key with a contradicting pair: the search proves that these two operations alone have no
/// order.
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
