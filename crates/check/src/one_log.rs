//! One replicated log: compares the entries that replicas report and the answers that clients receive; all must
//! describe one log.
//!
//! The check processes a run while it goes on:
//!
//! - *One order*: an index has the same append at all replicas, and an append has one index.
//! - *No gaps*: a replica applies entries in ascending order and skips none that others have applied. A replica
//!   that comes back starts empty, and may continue after a copy of the state.
//! - *Answers hold*: an answer names the append's index. If an append was requested after another was answered,
//!   its index is greater. The answer may reach the client before any replica reports the entry.
//!
//! ```
//! use weft_check::OneLog;
//!
//! let mut check = OneLog::new(2);
//! check.applied(0, 4, 'a');
//! check.answered(0, 'a', 4, 0);
//! check.applied(1, 4, 'b');
//! check.ended();
//! assert_eq!(check.violations(), ["node1 tells append 'b' as entry 4, which is append 'a' at another"]);
//! ```

use std::collections::BTreeMap;
use std::fmt::Debug;

/// Number of violations that are described; all are counted.
const DESCRIBED_MAX: u64 = 8;

/// Checks a replicated log. An `Id` identifies an append.
#[derive(Clone, Debug)]
pub struct OneLog<Id> {
    /// The append at each index. Entries without effect are left out.
    log: BTreeMap<u64, Id>,
    index_of: BTreeMap<Id, u64>,
    /// The replica and the index in the answer of each append that no replica has applied yet.
    unconfirmed: BTreeMap<Id, (usize, u64)>,
    /// By replica: the index below which it has reported all entries.
    told: Vec<u64>,
    answered_below: u64,
    violations: Vec<String>,
    violations_found: u64,
}

impl<Id: Copy + Ord + Debug> OneLog<Id> {
    /// An empty log with `replicas` replicas.
    pub fn new(replicas: usize) -> Self {
        Self {
            log: BTreeMap::new(),
            index_of: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            told: vec![0; replicas],
            answered_below: 0,
            violations: Vec::new(),
            violations_found: 0,
        }
    }

    /// Records that a replica has applied an append as entry `at`.
    pub fn applied(&mut self, replica: usize, at: u64, id: Id) {
        let next = std::mem::replace(&mut self.told[replica], at + 1);
        self.require(at >= next, || format!("node{replica} tells entry {at} after entry {next}"));
        if let Some((skipped, _)) = self.log.range(next.min(at)..at).next() {
            let skipped = *skipped;
            self.violation(format!("node{replica} passes over entry {skipped}"));
        }
        match self.log.get(&at).copied() {
            Some(known) => self.require(known == id, || {
                format!(
                    "node{replica} tells append {id:?} as entry {at}, which is append {known:?} at another"
                )
            }),
            None => {
                let highest = self.log.keys().next_back().copied();
                self.require(highest.is_none_or(|highest| highest < at), || {
                    format!("node{replica} tells entry {at}, which others have passed over")
                });
                self.log.insert(at, id);
            }
        }
        let first = *self.index_of.entry(id).or_insert(at);
        self.require(first == at, || format!("append {id:?} has effect as entry {first} and as entry {at}"));
        if let Some((replica, answered)) = self.unconfirmed.remove(&id) {
            self.confirmed(replica, id, answered, at);
        }
    }

    /// Records that a replica has installed a copy of the state with all entries below `below`.
    pub fn restored(&mut self, replica: usize, below: u64) {
        self.told[replica] = below;
    }

    /// Records that a replica has lost its state.
    pub fn crashed(&mut self, replica: usize) {
        self.told[replica] = 0;
    }

    /// All indices answered so far are below this one; an append that is requested from now on must not be.
    pub const fn answered_below(&self) -> u64 {
        self.answered_below
    }

    /// Records that a client received the answer that its append is entry `at`. `above` is the value of
    /// [`OneLog::answered_below`] when the client sent the request.
    pub fn answered(&mut self, replica: usize, id: Id, at: u64, above: u64) {
        match self.index_of.get(&id) {
            Some(&known) => self.confirmed(replica, id, at, known),
            None => {
                self.unconfirmed.insert(id, (replica, at));
            }
        }
        self.require(at >= above, || {
            format!("append {id:?} is entry {at}, but entry {} was answered before it was asked", above - 1)
        });
        self.answered_below = self.answered_below.max(at + 1);
    }

    /// Records that all replicas have applied what they will: whatever was answered must be applied.
    pub fn ended(&mut self) {
        for (id, (replica, at)) in std::mem::take(&mut self.unconfirmed) {
            self.violation(format!(
                "node{replica} answers append {id:?} with entry {at}, which no node applies"
            ));
        }
    }

    fn confirmed(&mut self, replica: usize, id: Id, answered: u64, known: u64) {
        self.require(answered == known, || {
            format!("node{replica} answers append {id:?} with entry {answered}, but it is entry {known}")
        });
    }

    /// Records a violation that the caller has found.
    pub fn violation(&mut self, what: String) {
        self.violations_found += 1;
        if self.violations_found <= DESCRIBED_MAX {
            self.violations.push(what);
        }
    }

    /// The violations, at most the first eight.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violation(what());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(act: impl FnOnce(&mut OneLog<char>)) -> Vec<String> {
        let mut check = OneLog::new(2);
        check.applied(0, 3, 'a');
        check.applied(0, 5, 'b');
        check.answered(0, 'b', 5, 0);
        act(&mut check);
        check.ended();
        check.violations().to_vec()
    }

    #[test]
    fn one_log_is_one_log() {
        let fine = violations(|check| {
            for (at, id) in [(3, 'a'), (5, 'b'), (6, 'c')] {
                check.applied(1, at, id);
            }
            assert_eq!(check.answered_below(), 6);
            check.answered(1, 'c', 6, 6);
            check.crashed(0);
            check.restored(0, 6);
            check.applied(0, 6, 'c');
            check.answered(0, 'd', 7, 6);
            check.applied(1, 7, 'd');
        });
        assert!(fine.is_empty(), "{fine:?}");
    }

    #[test]
    fn what_is_not_one_log_is_found() {
        let found = |act: fn(&mut OneLog<char>), part: &str| {
            let violations = violations(act);
            assert!(violations.iter().any(|what| what.contains(part)), "{part}: {violations:?}");
        };
        found(|check| check.applied(1, 3, 'x'), "which is append 'a' at another");
        found(|check| check.applied(1, 5, 'b'), "node1 passes over entry 3");
        found(|check| check.applied(1, 4, 'x'), "which others have passed over");
        found(|check| check.applied(0, 3, 'a'), "tells entry 3 after entry 6");
        found(|check| check.applied(0, 6, 'a'), "has effect as entry 3 and as entry 6");
        found(|check| check.answered(0, 'a', 4, 0), "answers append 'a' with entry 4, but it is entry 3");
        found(|check| check.answered(0, 'c', 6, 0), "answers append 'c' with entry 6, which no node applies");
        found(
            |check| {
                check.answered(0, 'c', 6, 0);
                check.applied(0, 7, 'c');
            },
            "answers append 'c' with entry 6, but it is entry 7",
        );
        found(|check| check.answered(0, 'a', 3, 6), "but entry 5 was answered before it was asked");
    }

    #[test]
    fn the_first_violations_are_described() {
        let found = violations(|check| (0..20).for_each(|number| check.violation(number.to_string())));
        assert_eq!(found.len() as u64, DESCRIBED_MAX);
    }
}
