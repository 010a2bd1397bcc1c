//! Agreement of replicated logs: compares the nodes' decisions with each other and with the proposals.
//!
//! The check processes a run while it goes on, and keeps only entries that some node has yet to decide, so that it
//! can process long runs. It checks these properties (repeated uniform consensus: all nodes count, including those
//! that fail later):
//!
//! - *Uniform agreement and total order*: the logs of any two nodes are equal, up to the end of the shorter. A
//!   node that comes back empty may begin anywhere in the log, at the beginning of an instance.
//! - *Integrity*: the entries of a log are in ascending order of instance and, within an instance, of proposer; so
//!   nothing is decided twice.
//! - *Validity*: each decided value was proposed by the node to which it is attributed, and is decided once.
//!
//! Whether all proposals that should be decided have been ([`Agreement::position`], [`Agreement::undecided`],
//! [`Agreement::passed_over`]) depends on which nodes failed, so the caller has to judge it.
//!
//! ```
//! use weft_check::{Agreement, Entry};
//!
//! let mut check = Agreement::new(2);
//! check.proposed(0, 0xa);
//! check.proposed(1, 0xb);
//! check.decided(0, Entry { instance: 4, proposer: 0, value: 0xa });
//! check.decided(0, Entry { instance: 4, proposer: 1, value: 0xb });
//! check.decided(1, Entry { instance: 4, proposer: 1, value: 0xb });
//! assert_eq!(
//!     check.disagreements()[0].to_string(),
//!     "node1 decided 0xb of node1 in instance 4 as entry 0, where node0 had decided 0xa of node0 in instance 4"
//! );
//! ```

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

/// Number of disagreements that are described; all are counted.
const DESCRIBED_MAX: usize = 8;

/// One entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Entry {
    /// The instance of consensus that decided it.
    pub instance: u64,
    /// The node that proposed it.
    pub proposer: usize,
    /// Fingerprint of the value: equal only for equal values.
    pub value: u64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} of node{} in instance {}", self.value, self.proposer, self.instance)
    }
}

/// A violation of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Disagreement {
    /// Two logs differ.
    Different {
        /// Position in the log.
        position: u64,
        /// Node whose log differs.
        node: usize,
        /// Entry at this position in the log of `node`.
        entry: Entry,
        /// The node that decided first at this position.
        first: usize,
        /// Entry at this position in the log of `first`.
        expected: Entry,
    },
    /// An entry is not greater than the entry before it in the same log.
    OutOfOrder {
        /// Node whose log is out of order.
        node: usize,
        /// The first entry that is not greater than its predecessor.
        entry: Entry,
        /// The predecessor of `entry` in the log.
        before: Entry,
    },
    /// A decided value was not proposed by its proposer, or had been decided before.
    NotProposed {
        /// The node that decided it first.
        node: usize,
        /// The decision, which no proposal matches.
        entry: Entry,
    },
    /// A node that came back began in the middle of an instance.
    Torn {
        /// Node that came back.
        node: usize,
        /// The first entry in its log.
        entry: Entry,
        /// The preceding entry in the other nodes' logs; it belongs to the same instance.
        before: Entry,
    },
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Different { position, node, entry, first, expected } => write!(
                f,
                "node{node} decided {entry} as entry {position}, where node{first} had decided {expected}"
            ),
            Self::OutOfOrder { node, entry, before } => {
                write!(f, "node{node} decided {entry} after {before}")
            }
            Self::NotProposed { node, entry } => {
                write!(f, "node{node} decided {entry}, which was not proposed, or had been decided before")
            }
            Self::Torn { node, entry, before } => {
                write!(f, "node{node} came back and began with {entry}, although {before} is before it")
            }
        }
    }
}

/// Checks the logs of all nodes.
#[derive(Clone, Debug)]
pub struct Agreement {
    nodes: Vec<Node>,
    /// Entries that some running node has yet to decide, each with the node that decided it first.
    log: VecDeque<(Entry, usize)>,
    /// Position of the first entry in `log`.
    first: u64,
    /// The entry before the first one in `log`.
    last_forgotten: Option<Entry>,
    disagreements: Vec<Disagreement>,
    found: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    place: LogPosition,
    /// Proposals that no node has decided.
    proposals: VecDeque<u64>,
    passed_over: u64,
    /// Decisions since the node came back, while no other node has reached them.
    ahead: Vec<Entry>,
}

/// Position of a node in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogPosition {
    /// The position of its next entry.
    At(u64),
    /// It has come back, and has decided nothing, or nothing that another node has decided.
    Unknown,
    /// It has stopped; its next entry would have been at this position.
    Stopped(u64),
}

impl Default for LogPosition {
    fn default() -> Self {
        Self::At(0)
    }
}

impl Agreement {
    /// Nodes 0 to `nodes` - 1, with empty logs.
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![Node::default(); nodes],
            log: VecDeque::new(),
            first: 0,
            last_forgotten: None,
            disagreements: Vec::new(),
            found: 0,
        }
    }

    /// Records that a node proposes a value, after all its earlier proposals. No two values of one node may be
    /// equal.
    pub fn proposed(&mut self, proposer: usize, value: u64) {
        self.nodes[proposer].proposals.push_back(value);
    }

    /// Records that a node's proposal was refused: it counts as not proposed.
    pub fn withdrawn(&mut self, proposer: usize, value: u64) {
        let proposals = &mut self.nodes[proposer].proposals;
        if let Some(index) = proposals.iter().rposition(|proposed| *proposed == value) {
            proposals.remove(index);
        }
    }

    /// Records that a node has decided an entry, after all its earlier ones.
    pub fn decided(&mut self, node: usize, entry: Entry) {
        let position = match self.nodes[node].place {
            LogPosition::At(position) | LogPosition::Stopped(position) => position,
            LogPosition::Unknown
                if self.log.back().is_some_and(|(last, _)| last.instance >= entry.instance) =>
            {
                self.place_of_first(node, &entry)
            }
            LogPosition::Unknown => return self.nodes[node].ahead.push(entry),
        };
        self.nodes[node].place = LogPosition::At(position + 1);
        match position.checked_sub(self.first).map(|index| self.log.get(index as usize)) {
            Some(Some(&(expected, first))) if entry != expected => {
                self.found(Disagreement::Different { position, node, entry, first, expected });
            }
            Some(None) => {
                self.append(node, entry);
                self.catch_up(entry.instance);
            }
            // The entry is equal, or no longer kept. Only a node that was reported as stopped can decide an entry
            // that is not kept.
            Some(Some(_)) | None => {}
        }
        self.forget();
    }

    /// Records that a node has stopped, for good or until it comes back.
    pub fn stopped(&mut self, node: usize) {
        self.nodes[node].place = match self.nodes[node].place {
            LogPosition::At(position) | LogPosition::Stopped(position) => LogPosition::Stopped(position),
            LogPosition::Unknown if self.nodes[node].ahead.is_empty() => LogPosition::Stopped(0),
            LogPosition::Unknown => LogPosition::Unknown,
        };
        self.forget();
    }

    /// Records that a node has come back with an empty log, which may begin anywhere. Its undecided proposals are
    /// dropped.
    pub fn restarted(&mut self, node: usize) {
        self.nodes[node].place = LogPosition::Unknown;
        self.nodes[node].ahead.clear();
    }

    /// Number of entries that any node has decided.
    pub fn entries(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// Position of a node in the log: the number of entries before its next one. For a node that has come back,
    /// this includes the entries before its first. `None` if it has come back and has decided nothing.
    pub fn position(&self, node: usize) -> Option<u64> {
        match self.nodes[node].place {
            LogPosition::At(position) | LogPosition::Stopped(position) => Some(position),
            LogPosition::Unknown => None,
        }
    }

    /// Number of a node's proposals that no node has decided so far.
    pub fn undecided(&self, proposer: usize) -> u64 {
        self.nodes[proposer].proposals.len() as u64
    }

    /// Number of a node's proposals that were not decided although a later one was: they never will be.
    pub fn passed_over(&self, proposer: usize) -> u64 {
        self.nodes[proposer].passed_over
    }

    /// The disagreements, at most the first 8.
    pub fn disagreements(&self) -> &[Disagreement] {
        &self.disagreements
    }

    /// Number of all disagreements.
    pub fn disagreements_found(&self) -> u64 {
        self.found
    }

    fn found(&mut self, disagreement: Disagreement) {
        self.found += 1;
        if self.disagreements.len() < DESCRIBED_MAX {
            self.disagreements.push(disagreement);
        }
    }

    /// Appends an entry that no node has decided before.
    fn append(&mut self, node: usize, entry: Entry) {
        let before = self.log.back().map(|(entry, _)| *entry).or(self.last_forgotten);
        if let Some(before) = before
            && (before.instance, before.proposer) >= (entry.instance, entry.proposer)
        {
            self.found(Disagreement::OutOfOrder { node, entry, before });
        }
        let proposals = self.nodes.get_mut(entry.proposer).map(|proposer| &mut proposer.proposals);
        match proposals.and_then(|proposals| proposals.iter().position(|value| *value == entry.value)) {
            Some(index) => {
                let proposer = &mut self.nodes[entry.proposer];
                proposer.proposals.drain(..=index);
                proposer.passed_over += index as u64;
            }
            None => self.found(Disagreement::NotProposed { node, entry }),
        }
        self.log.push_back((entry, node));
    }

    /// The log has reached an instance: positions of nodes that have come back and were ahead of it may now be
    /// known.
    fn catch_up(&mut self, instance: u64) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].ahead.first().is_some_and(|first| first.instance <= instance) {
                for entry in std::mem::take(&mut self.nodes[node].ahead) {
                    self.decided(node, entry);
                }
            }
        }
    }

    /// Position at which the log of a node that has come back begins.
    fn place_of_first(&mut self, node: usize, entry: &Entry) -> u64 {
        let index = self.log.partition_point(|(other, _)| {
            (other.instance, other.proposer) < (entry.instance, entry.proposer)
        });
        let before = index.checked_sub(1).map_or(self.last_forgotten, |before| Some(self.log[before].0));
        if let Some(before) = before
            && before.instance == entry.instance
        {
            self.found(Disagreement::Torn { node, entry: *entry, before });
        }
        self.first + index as u64
    }

    /// Drops entries that every running node has decided. While a node has come back at an unknown position, all
    /// entries are kept.
    fn forget(&mut self) {
        let needed = self.nodes.iter().map(|node| match node.place {
            LogPosition::At(position) => position,
            LogPosition::Unknown => 0,
            LogPosition::Stopped(_) => u64::MAX,
        });
        let needed = needed.min().unwrap_or(u64::MAX);
        while self.first < needed
            && let Some((entry, _)) = self.log.pop_front()
        {
            self.first += 1;
            self.last_forgotten = Some(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(instance: u64, proposer: usize, value: u64) -> Entry {
        Entry { instance, proposer, value }
    }

    /// Two nodes that have proposed 1, 2, 3, … and 101, 102, 103, …
    fn check() -> Agreement {
        let mut check = Agreement::new(2);
        for value in 1..10 {
            check.proposed(0, value);
            check.proposed(1, 100 + value);
        }
        check
    }

    #[test]
    fn equal_logs_agree_and_are_forgotten() {
        let mut check = check();
        for instance in 0..5 {
            for node in [0, 1] {
                check.decided(node, entry(instance, 0, 1 + instance));
                check.decided(node, entry(instance, 1, 101 + instance));
            }
        }
        assert_eq!(check.disagreements(), []);
        assert_eq!((check.entries(), check.position(0), check.position(1)), (10, Some(10), Some(10)));
        assert_eq!((check.undecided(0), check.passed_over(0)), (4, 0));
        assert!(check.log.is_empty());
    }

    #[test]
    fn logs_that_differ_are_found_even_if_one_has_stopped() {
        let mut check = check();
        check.decided(0, entry(0, 0, 1));
        check.stopped(0);
        check.decided(1, entry(0, 1, 101));
        // Although no running node needs node 0's entry any more, node 1 must not decide another one in its place.
        assert_eq!(check.disagreements_found(), 1, "{:?}", check.disagreements());
    }

    #[test]
    fn a_gap_is_a_difference() {
        let mut check = check();
        check.decided(0, entry(0, 0, 1));
        check.decided(0, entry(1, 0, 2));
        check.decided(1, entry(1, 0, 2));
        assert!(matches!(check.disagreements(), [Disagreement::Different { position: 0, node: 1, .. }]));
    }

    #[test]
    fn what_is_decided_twice_or_out_of_order_is_found() {
        let mut check = check();
        check.decided(0, entry(3, 0, 1));
        check.decided(0, entry(4, 0, 1));
        assert!(matches!(check.disagreements(), [Disagreement::NotProposed { .. }]));
        check.decided(0, entry(4, 0, 2));
        assert!(matches!(check.disagreements()[1..], [Disagreement::OutOfOrder { .. }]));
    }

    #[test]
    fn a_value_that_nobody_proposed_is_found() {
        let mut check = check();
        check.decided(0, entry(0, 0, 999));
        // A proposal of another node is invalid, too.
        check.decided(0, entry(0, 1, 2));
        assert_eq!(check.disagreements_found(), 2);
        assert_eq!(check.undecided(0), 9);
    }

    #[test]
    fn what_was_passed_over_is_counted() {
        let mut check = check();
        check.decided(0, entry(0, 0, 4));
        assert_eq!((check.passed_over(0), check.undecided(0)), (3, 5));
        // Refused proposals do not count, and proposals that were passed over cannot be decided later.
        check.withdrawn(0, 9);
        assert_eq!(check.undecided(0), 4);
        check.decided(0, entry(1, 0, 2));
        assert_eq!(check.disagreements_found(), 1);
    }

    #[test]
    fn a_node_that_comes_back_begins_at_an_instance() {
        let mut check = check();
        check.stopped(1);
        check.restarted(1);
        for instance in 0..3 {
            check.decided(0, entry(instance, 0, 1 + instance));
            check.decided(0, entry(instance, 1, 101 + instance));
        }
        let mut torn = check.clone();
        check.decided(1, entry(1, 0, 2));
        check.decided(1, entry(1, 1, 102));
        assert_eq!((check.disagreements_found(), check.position(1)), (0, Some(4)));
        torn.decided(1, entry(1, 1, 102));
        assert!(matches!(torn.disagreements(), [Disagreement::Torn { node: 1, .. }]));
    }

    #[test]
    fn a_node_that_comes_back_may_be_ahead_of_all_others() {
        let mut check = check();
        check.restarted(1);
        check.decided(0, entry(0, 0, 1));
        check.decided(1, entry(3, 0, 3));
        check.decided(1, entry(3, 1, 102));
        check.decided(0, entry(2, 0, 2));
        assert_eq!((check.entries(), check.position(1)), (2, None));
        let mut other = check.clone();
        check.decided(0, entry(3, 0, 3));
        assert_eq!((check.entries(), check.position(1)), (4, Some(4)));
        check.decided(0, entry(3, 1, 102));
        assert_eq!(check.disagreements(), []);
        other.decided(0, entry(3, 1, 101));
        assert!(matches!(other.disagreements(), [Disagreement::Different { node: 1, .. }, ..]));
    }
}
