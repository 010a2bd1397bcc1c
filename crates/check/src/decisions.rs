//! Decisions of a repeated consensus as its clients are told them: proposals with their outcomes, and the decisions
//! that each client has read.
//!
//! Clients that propose and read keep a [`Record`] each. [`check`] finds violations of these rules:
//!
//! - *One order*: a position has the same proposal for every reader, and a reader is told ascending positions.
//! - *No gaps*: a reader passes over no decision that others were told, unless a node said that it had forgotten some.
//! - *Validity*: what is decided was proposed; each proposal is decided once.
//! - *Answers hold*: an acknowledged proposal is decided in the instance that the answer names, and one that was
//!   refused or dropped is not decided.
//! - *Real time*: if a proposal was made after another one was acknowledged, its instance is greater.
//!
//! ```
//! use weft_check::decisions::{Fate, Record, check};
//!
//! let (mut one, mut other) = (Record::default(), Record::default());
//! one.proposes(b"a".to_vec(), 0);
//! one.ends(Fate::Decided { instance: 4 }, 10);
//! one.reads(false, [((4, 0), &b"a"[..])]);
//! other.proposes(b"b".to_vec(), 20);
//! other.ends(Fate::Decided { instance: 3 }, 30);
//! assert_eq!(
//!     check(&[&one, &other], |_| true),
//!     [
//!         "the proposal acknowledged in instance 3 is lost: client 0 was told all decisions there",
//!         "the proposal of instance 3 was made after one of instance 4 had been acknowledged",
//!     ]
//! );
//! ```

use std::collections::BTreeMap;

/// Number of violations that are described.
const DESCRIBED_MAX: usize = 8;

/// The position of a decision: instance and proposer.
pub type Position = (u64, u8);

/// How a proposal has ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is decided.
    Decided {
        /// The instance that the answer names.
        instance: u64,
    },
    /// It was refused or dropped, and is not decided.
    NoEffect,
    /// It may be decided, now or later.
    Unknown,
}

/// A proposal of a client.
#[derive(Clone, Debug)]
struct Proposal {
    content: Vec<u8>,
    begun_ns: u64,
    ended_ns: u64,
    fate: Fate,
}

/// What one client has proposed, and what it was told. All times of a check are of one clock.
#[derive(Clone, Debug, Default)]
pub struct Record {
    proposals: Vec<Proposal>,
    decisions: BTreeMap<Position, Vec<u8>>,
    /// Decisions that nodes have forgotten: between the first position, or the beginning, and the second one.
    gaps: Vec<(Option<Position>, Position)>,
    wrong: Vec<String>,
}

impl Record {
    /// Records a proposal. No two proposals of a check may be equal.
    pub fn proposes(&mut self, content: Vec<u8>, now_ns: u64) {
        self.proposals.push(Proposal { content, begun_ns: now_ns, ended_ns: u64::MAX, fate: Fate::Unknown });
    }

    /// Records how the client's last proposal has ended.
    ///
    /// # Panics
    /// If the client has made no proposal.
    pub fn ends(&mut self, fate: Fate, now_ns: u64) {
        let last = self.proposals.last_mut().expect("a proposal was made");
        (last.fate, last.ended_ns) = (fate, now_ns);
    }

    /// Records the answer to a read of the decisions after [`Record::last`]. `forgotten`: the node lacks decisions
    /// between that position and the first of these.
    pub fn reads<'a>(&mut self, forgotten: bool, decisions: impl IntoIterator<Item = (Position, &'a [u8])>) {
        let mut forgotten = forgotten;
        for (place, proposal) in decisions {
            let last = self.last();
            if Some(place) <= last {
                self.wrong.push(format!("a reader is told {place:?} after {last:?}"));
                return;
            }
            if std::mem::take(&mut forgotten) {
                self.gaps.push((last, place));
            }
            self.decisions.insert(place, proposal.to_vec());
        }
    }

    /// The position of the last decision that the client was told.
    pub fn last(&self) -> Option<Position> {
        self.decisions.last_key_value().map(|(place, _)| *place)
    }

    /// When the acknowledged proposals of the client were made.
    pub fn acknowledged(&self) -> impl Iterator<Item = u64> {
        let decided = |proposal: &&Proposal| matches!(proposal.fate, Fate::Decided { .. });
        self.proposals.iter().filter(decided).map(|proposal| proposal.begun_ns)
    }

    /// Whether the client was told all decisions from position `first` to position `last`.
    fn covers(&self, first: Position, last: Position) -> bool {
        let is_missing = |(from, to): &(Option<Position>, Position)| *from < Some(last) && first < *to;
        self.last() >= Some(last) && !self.gaps.iter().any(is_missing)
    }
}

/// Checks the records of all clients, and describes the first violations. `is_ours` tells proposals of these clients
/// from those of others, which need not be different from each other.
pub fn check(records: &[&Record], is_ours: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let mut wrong: Vec<String> = records.iter().flat_map(|record| record.wrong.iter().cloned()).collect();
    let mut decided: BTreeMap<Position, &[u8]> = BTreeMap::new();
    for (place, proposal) in records.iter().flat_map(|record| &record.decisions) {
        if decided.insert(*place, proposal).is_some_and(|known| known != proposal) {
            wrong.push(format!("two readers were told different proposals at {place:?}"));
        }
    }
    for (client, record) in records.iter().enumerate() {
        let missing =
            |place: &&Position| !record.decisions.contains_key(place) && record.covers(**place, **place);
        wrong.extend(
            decided.keys().find(missing).map(|place| format!("client {client} passes over {place:?}")),
        );
    }

    let proposals: BTreeMap<&[u8], &Proposal> = records
        .iter()
        .flat_map(|record| &record.proposals)
        .map(|proposal| (&*proposal.content, proposal))
        .collect();
    let mut places: BTreeMap<&[u8], Position> = BTreeMap::new();
    for (&place, &proposal) in decided.iter().filter(|(_, proposal)| is_ours(proposal)) {
        if !proposals.contains_key(proposal) {
            wrong.push(format!("what is decided at {place:?} was not proposed"));
        }
        if let Some(first) = places.insert(proposal, place) {
            wrong.push(format!("a proposal was decided at {first:?} and at {place:?}"));
        }
    }
    for proposal in proposals.values() {
        wrong.extend(broken_answer(proposal, places.get(&*proposal.content).copied(), records));
    }
    wrong.extend(out_of_time(proposals.values().filter_map(|proposal| {
        let instance = match proposal.fate {
            Fate::Decided { instance } => Some(instance),
            _ => places.get(&*proposal.content).map(|(instance, _)| *instance),
        };
        Some((instance?, *proposal))
    })));
    wrong.truncate(DESCRIBED_MAX);
    wrong
}

/// How the answer to a proposal contradicts the position at which it was read, if it was.
fn broken_answer(proposal: &Proposal, place: Option<Position>, records: &[&Record]) -> Option<String> {
    match (proposal.fate, place) {
        (Fate::Decided { instance }, Some((read, _))) => (read != instance)
            .then(|| format!("a proposal was acknowledged in instance {instance} and stands in {read}")),
        (Fate::Decided { instance }, None) => {
            let reader = records.iter().position(|it| it.covers((instance, 0), (instance, u8::MAX)))?;
            let what = format!("the proposal acknowledged in instance {instance} is lost");
            Some(format!("{what}: client {reader} was told all decisions there"))
        }
        (Fate::NoEffect, Some(place)) => {
            Some(format!("a proposal that was to have no effect is decided at {place:?}"))
        }
        (Fate::NoEffect, None) | (Fate::Unknown, _) => None,
    }
}

/// Proposals that were made after one of the same instance or a later one had been acknowledged.
fn out_of_time<'a>(decided: impl Iterator<Item = (u64, &'a Proposal)>) -> Vec<String> {
    let mut by_instance: BTreeMap<u64, Vec<&Proposal>> = BTreeMap::new();
    for (instance, proposal) in decided {
        by_instance.entry(instance).or_default().push(proposal);
    }
    let mut wrong = Vec::new();
    // The earliest acknowledgement in this instance or a later one, and its instance.
    let mut earliest = (u64::MAX, 0);
    for (instance, proposals) in by_instance.into_iter().rev() {
        for proposal in &proposals {
            if matches!(proposal.fate, Fate::Decided { .. }) {
                earliest = earliest.min((proposal.ended_ns, instance));
            }
        }
        if proposals.iter().any(|proposal| earliest.0 < proposal.begun_ns) {
            let (made, acknowledged) = (format!("the proposal of instance {instance} was made"), earliest.1);
            wrong.push(format!("{made} after one of instance {acknowledged} had been acknowledged"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions `a`, `b` and `c`, as all readers should be told them.
    const DECIDED: [(Position, &[u8]); 3] = [((1, 0), b"a"), ((1, 2), b"b"), ((5, 1), b"c")];

    fn reader(forgotten: bool, decisions: &[(Position, &[u8])]) -> Record {
        let mut record = Record::default();
        record.reads(forgotten, decisions.iter().copied());
        record
    }

    /// A client whose proposals `a`, `b`, `c` were made and ended at these times.
    fn proposer(proposals: [(u64, u64, Fate); 3]) -> Record {
        let mut record = Record::default();
        for ((begun, ended, fate), content) in proposals.into_iter().zip(*b"abc") {
            record.proposes(vec![content], begun);
            record.ends(fate, ended);
        }
        record
    }

    fn honest() -> Record {
        let decided = |instance| Fate::Decided { instance };
        proposer([(0, 10, decided(1)), (5, 15, decided(1)), (20, 30, decided(5))])
    }

    fn found(records: &[&Record], what: &str) {
        let findings = check(records, |_| true);
        assert!(findings.iter().any(|finding| finding.contains(what)), "{what}: {findings:?}");
    }

    #[test]
    fn right_answers_are_right() {
        let all = reader(false, &DECIDED);
        assert_eq!(check(&[&honest(), &all, &all, &Record::default()], |_| true), [""; 0]);
        assert_eq!(all.last(), Some((5, 1)));
        assert_eq!(honest().acknowledged().collect::<Vec<_>>(), [0, 5, 20]);
        let unknown = proposer([(0, 10, Fate::Unknown), (5, 15, Fate::Unknown), (20, 30, Fate::Unknown)]);
        assert_eq!(check(&[&unknown, &all], |_| true), [""; 0]);
    }

    #[test]
    fn what_a_node_has_forgotten_is_not_lost_and_all_else_is() {
        let late = reader(true, &DECIDED[1..]);
        assert_eq!(check(&[&honest(), &late, &reader(false, &DECIDED)], |_| true), [""; 0]);
        assert_eq!(check(&[&honest(), &late], |_| true), [""; 0]);
        found(&[&honest(), &reader(false, &DECIDED[2..])], "acknowledged in instance 1 is lost: client 1");
        found(&[&reader(false, &DECIDED), &reader(false, &DECIDED[1..])], "client 1 passes over (1, 0)");
        let mut gap = reader(false, &DECIDED[..1]);
        gap.reads(true, [DECIDED[2]]);
        assert_eq!(check(&[&honest(), &gap, &reader(false, &DECIDED)], |_| true), [""; 0]);
    }

    #[test]
    fn wrong_answers_are_found() {
        let all = reader(false, &DECIDED);
        found(&[&all, &reader(false, &[((1, 0), b"a"), ((1, 2), b"x")])], "different proposals at (1, 2)");
        found(&[&honest(), &reader(false, &[((1, 0), b"a"), ((6, 0), b"a")])], "at (1, 0) and at (6, 0)");
        found(&[&honest(), &reader(false, &[((1, 0), b"x")])], "at (1, 0) was not proposed");
        found(&[&reader(false, &[((1, 2), b"b"), ((1, 0), b"a")])], "is told (1, 0) after Some((1, 2))");
        let decided = |instance| Fate::Decided { instance };
        let moved = proposer([(0, 10, decided(1)), (5, 15, decided(1)), (20, 30, decided(4))]);
        found(&[&moved, &all], "acknowledged in instance 4 and stands in 5");
        let dropped = proposer([(0, 10, decided(1)), (5, 15, Fate::NoEffect), (20, 30, decided(5))]);
        found(&[&dropped, &all], "no effect is decided at (1, 2)");
        let early = proposer([(40, 50, decided(1)), (5, 15, decided(1)), (20, 30, decided(5))]);
        found(&[&early], "of instance 1 was made after one of instance 1 had been");
        let unknown = proposer([(40, 50, Fate::Unknown), (5, 45, decided(1)), (20, 30, decided(5))]);
        found(&[&unknown, &all], "of instance 1 was made after one of instance 5 had been");
    }

    #[test]
    fn proposals_of_others_may_be_equal() {
        let others = reader(false, &[((1, 0), b"x"), ((2, 0), b"x"), ((3, 0), b"x")]);
        assert_eq!(check(&[&others], |proposal| proposal != b"x"), [""; 0]);
    }
}
