//! Strict serializability of recorded transactions over versioned keys.
//!
//! For each transaction, the history has the version of each key that it read and wrote, when it started, and when
//! it was known to have committed. The versions of a key grow in the order in which they were committed. So the
//! order of all writes of a key is known, and the direct serialization graph of Adya, Liskov and O'Neil
//! ("Generalized Isolation Level Definitions", ICDE 2000) is exact: no search, no undecided case. A history is
//! *serializable* if no cycle consists of dependencies
//!
//! - *write to read*: one transaction read a version that the other wrote,
//! - *write to write*: one transaction overwrote a version that the other wrote,
//! - *read to write*: one transaction overwrote a version that the other read,
//!
//! and *strictly* serializable if there is no cycle either when the order in real time is included: a transaction
//! that ended before another started precedes it. Real time is a chain with one node per end of a transaction,
//! instead of an edge for each pair. So apart from sorting, the check takes time proportional to the length of the
//! history.
//!
//! Versions say nothing about values, so each version has a fingerprint of its value: a torn read is detected.
//!
//! # Transactions with an unknown outcome
//!
//! A transaction whose outcome is unknown ([`Fate::Unknown`]) counts as committed if another transaction, or a
//! final state, contains one of its writes. Otherwise it may not have happened, and is left out. It has no end, so
//! no transaction follows it in real time.
//!
//! # Absent keys
//!
//! A read that finds no value has a version, too: between the version that the key really had and this one, there
//! is no write of the key. So a store may return the version of the latest deletion in some neighbourhood of the
//! key instead of the key's own. If only deletions with unknown outcomes explain that a key is absent, and there
//! are several, the check assumes that the latest took effect. This is the one case in which another choice could
//! explain a history that the check rejects.
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

pub use history::{Access, Fate, History, Transaction, TransactionId, TransactionRecord, fingerprint};
pub use report::{Anomaly, Dependency, Report, Step, Violation};

use cycle::Finder;
use graph::Graph;

/// Options of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Versions up to this one existed when the history began.
    pub initial_version: u64,
    /// Number of violations that are described. All are counted; cycles are counted as groups of transactions that
    /// share some.
    pub violations_shown: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { initial_version: 0, violations_shown: 8 }
    }
}

/// Checks a history. It uses the history's memory, about 24 bytes for each read and write, and as much again for
/// the graph.
pub fn check(history: History, options: &Options) -> Report {
    let (settled, mut report) = settle::settle(history, options);
    let graph = Graph::new(&settled);
    report.dependencies = graph.dependencies() as u64;
    let knots = graph.knots(true);
    if knots.is_empty() {
        return report;
    }
    // Cycles of dependencies alone tell more, so they come first, then those that need real time.
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
