//! Strict serializability of recorded transactions over versioned keys.
//!
//! Each transaction tells which version of which key it read and wrote, when it started and when it was known to have
//! committed. The versions of a key grow in the order in which they were committed, so the order of all writes of a
//! key is known and the direct serialization graph of Adya, Liskov and O'Neil ("Generalized Isolation Level
//! Definitions", ICDE 2000) is exact: no search, no undecided case. A history is *serializable* if no cycle consists
//! of dependencies
//!
//! - *write to read*: one read what the other wrote,
//! - *write to write*: one overwrote what the other wrote,
//! - *read to write*: one overwrote what the other read,
//!
//! and *strictly* so if there is none either with the order of real time among them: who ended before another started
//! comes first. Real time is a line of as many nodes as transactions have ended, instead of an edge for each pair, so
//! the check takes time proportional to what was recorded, besides sorting it.
//!
//! Versions prove nothing about values, so a fingerprint of each value goes with its version: a torn read shows.
//!
//! # Transactions without an answer
//!
//! One whose outcome nobody learned ([`Fate::Unknown`]) counts as committed if another one, or a final state, saw a
//! write of it; otherwise it might as well not have happened, and is left out. It never ended, so nothing comes after
//! it in real time.
//!
//! # Absent keys
//!
//! A read that finds nothing has a version, too: no write of the key is newer than what was read and not newer than
//! this version. So a store may tell the version of the latest deletion in some neighbourhood of the key in place of
//! its own. If only deletions without an answer explain that a key is absent, and there are several, the latest is
//! taken to have been: the one case in which another choice might do where this one does not.
//!
//! ```
//! use weft_check::serializable::{Access, Fate, History, Options, Transaction, TransactionId, check};
//!
//! let mut history = History::default();
//! let mut record = |sequence, started_ps, ended_ps, reads: &[Access], writes: &[Access]| {
//!     let id = TransactionId { coordinator: 0, epoch: 1, sequence };
//!     history.record(&Transaction { id, started_ps, fate: Fate::Committed { ended_ps }, reads, writes });
//! };
//! let checking = |version, cents: u8| Access::present(1, version, &[cents]);
//! // Both add to what they have read: the second addition overwrites the first.
//! record(1, 0, 20, &[checking(0, 10)], &[checking(1, 15)]);
//! record(2, 0, 20, &[checking(0, 10)], &[checking(2, 17)]);
//! let report = check(history, &Options::default());
//! assert_eq!(report.checked(), "violation");
//! assert_eq!(
//!     report.violations[0].to_string(),
//!     "lost update: node0/1/1 wrote version 1 of key 0x1, which node0/1/2 overwrote with version 2; \
//!      node0/1/2 read version 0 of key 0x1, which node0/1/1 overwrote with version 1"
//! );
//! ```

#[cfg(test)]
mod brute_force;
mod cycle;
mod graph;
mod history;
mod report;
mod settle;
#[cfg(test)]
mod tests;

pub use history::{Access, Fate, History, Transaction, TransactionId, fingerprint};
pub use report::{Anomaly, Dependency, Report, Step, Violation};

use cycle::Finder;
use graph::Graph;

/// How to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Versions up to this one were there when the history began.
    pub initial_version: u64,
    /// How many violations are described; all are counted, of cycles the groups that have some in common.
    pub violations_shown: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { initial_version: 0, violations_shown: 8 }
    }
}

/// Checks a history, and takes its memory: some 24 bytes for each read and write, and as much again for the graph.
pub fn check(history: History, options: &Options) -> Report {
    let (settled, mut report) = settle::settle(history, options);
    let graph = Graph::new(&settled);
    report.dependencies = graph.dependencies() as u64;
    let knots = graph.knots(true);
    if knots.is_empty() {
        return report;
    }
    // The knots of dependencies alone tell more, so they come first; what is knotted by real time only follows.
    let plain = graph.knots(false);
    report.cycles = plain.len() as u64;
    let mut finder = Finder::new(&graph);
    let mut told = vec![false; settled.transactions.len()];
    let mut cycles = Vec::new();
    for knot in &plain {
        knot.iter().for_each(|&node| told[node as usize] = true);
        if cycles.len() < options.violations_shown {
            cycles.push(finder.shortest(knot, false));
        }
    }
    for knot in &knots {
        if knot.iter().any(|&node| told.get(node as usize) == Some(&true)) {
            continue;
        }
        report.cycles += 1;
        report.cycles_in_real_time_only += 1;
        if cycles.len() < options.violations_shown {
            cycles.push(finder.shortest(knot, true));
        }
    }
    report.violations.extend(cycle::describe(&settled, &cycles));
    report
}
