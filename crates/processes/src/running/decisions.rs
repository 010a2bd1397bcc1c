//! Consensus in rounds: all readers get the same order of decisions, which contains every acknowledged
//! proposal.
//!
//! Progress is not checked, because members fence themselves on a machine that is too busy for the round
//! period.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_client::{Client, DecisionList, Proposal, Rounds};

use super::{Count, DESCRIBED, EngineResult, Run};

const PAUSE: Duration = Duration::from_millis(100);
/// Interval between two requests of a reader.
const READ_EVERY: Duration = Duration::from_millis(200);
/// Time for which a reader waits for acknowledged decisions at the end. It is bounded, because rounds may
/// have stopped.
const LAST: Duration = Duration::from_secs(5);

/// Position of a decision: instance and proposer.
type Position = (u64, u8);

#[derive(Clone, Debug, Default)]
struct Tally {
    count: Count,
    /// Prefix of the proposals of this run. Proposals of other programs are ignored, because they may repeat.
    identity: Vec<u8>,
    /// Acknowledged proposals: content and instance.
    decided: Vec<(Vec<u8>, u64)>,
    /// Decisions that each reader has received.
    readers: Vec<Reader>,
}

/// Decisions that one reader has received, from any node.
#[derive(Clone, Debug, Default)]
struct Reader {
    decisions: BTreeMap<Position, Vec<u8>>,
    /// Positions for which the reader has received two different proposals.
    changed: Vec<Position>,
    /// Whether a node had forgotten earlier decisions, so that the reader may lack a proposal without a
    /// violation.
    has_gap: bool,
}

pub(super) fn drive(run: &Run<'_>, clients: &[Client]) -> EngineResult {
    let rounds = |client: &Client| client.rounds().expect(DESCRIBED);
    let proposing = AtomicUsize::new(clients.len());
    let mut books = Tally { identity: run.identity.to_le_bytes().to_vec(), ..Tally::default() };
    thread::scope(|scope| {
        let proposing = &proposing;
        let propose = |(number, client)| {
            scope.spawn(move || {
                let part = propose(run, &rounds(client), number);
                proposing.fetch_sub(1, Ordering::Release);
                part
            })
        };
        let proposers: Vec<_> = (0..).zip(clients).map(propose).collect();
        let readers: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(move || Reader::follow(&rounds(client), proposing)))
            .collect();
        for part in proposers {
            let (count, decided) = part.join().expect("a proposer does not panic");
            books.count.add(count);
            books.decided.extend(decided);
        }
        books
            .readers
            .extend(readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")));
    });
    EngineResult::new("rounds", books.count, "one order", books.findings())
}

fn propose(run: &Run<'_>, rounds: &Rounds, client: u64) -> (Count, Vec<(Vec<u8>, u64)>) {
    let (mut count, mut decided, mut number) = (Count::default(), Vec::new(), 0);
    run.repeat(PAUSE, || {
        number += 1;
        let content = [run.identity, client, number].map(u64::to_le_bytes).concat();
        match rounds.propose(&content).wait() {
            Ok(Proposal::Dropped { .. }) => count.refused += 1,
            other => {
                if let Some(Proposal::Decided { instance }) = count.take(other) {
                    decided.push((content, instance));
                }
            }
        }
    });
    (count, decided)
}

impl Reader {
    fn follow(rounds: &Rounds, proposing: &AtomicUsize) -> Self {
        let mut reader = Self::default();
        let mut ends = None;
        loop {
            if proposing.load(Ordering::Acquire) == 0 {
                ends.get_or_insert_with(|| Instant::now() + LAST);
            }
            let after = reader.decisions.last_key_value().map(|(place, _)| *place);
            let more = match rounds.read(after).wait() {
                Ok(list) => reader.take(after.is_some(), list),
                Err(_) => false,
            };
            if ends.is_some_and(|ends| Instant::now() > ends) {
                return reader;
            }
            if !more {
                thread::sleep(READ_EVERY);
            }
        }
    }

    /// Adds the decisions of an answer. Returns whether there were any.
    fn take(&mut self, follows: bool, list: DecisionList) -> bool {
        self.has_gap |= list.forgotten && (follows || !list.decisions.is_empty());
        for decision in &list.decisions {
            let known = self.decisions.insert(decision.place, decision.proposal.clone());
            if known.is_some_and(|known| known != decision.proposal) {
                self.changed.push(decision.place);
            }
        }
        !list.decisions.is_empty()
    }
}

impl Tally {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let mut all: BTreeMap<Position, &[u8]> = BTreeMap::new();
        for reader in &self.readers {
            for place in &reader.changed {
                findings.push(format!("a reader was told two proposals at {place:?}"));
            }
            for (place, proposal) in &reader.decisions {
                if all.insert(*place, proposal).is_some_and(|known| known != proposal) {
                    findings.push(format!("two readers were told different proposals at {place:?}"));
                }
            }
        }
        let mut places: BTreeMap<&[u8], Position> = BTreeMap::new();
        for (place, proposal) in all.iter().filter(|(_, proposal)| proposal.starts_with(&self.identity)) {
            if let Some(first) = places.insert(proposal, *place) {
                findings.push(format!("a proposal was decided at {first:?} and at {place:?}"));
            }
        }
        for (content, instance) in &self.decided {
            match places.get(content.as_slice()) {
                Some((read, _)) if read == instance => {}
                Some((read, _)) => {
                    findings.push(format!(
                        "a proposal was acknowledged in instance {instance} and stands in {read}"
                    ));
                }
                // A reader without a gap that is past the position must have read the decision.
                None => {
                    let beyond = |reader: &&Reader| {
                        let last = reader.decisions.last_key_value().map(|(place, _)| place.0);
                        !reader.has_gap && last > Some(*instance)
                    };
                    if self.readers.iter().any(|reader| beyond(&reader)) {
                        findings.push(format!("the proposal acknowledged in instance {instance} is lost"));
                    }
                }
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books() -> Tally {
        let decisions =
            BTreeMap::from([((1, 0), b"a".to_vec()), ((1, 2), b"b".to_vec()), ((5, 1), b"c".to_vec())]);
        let reader = Reader { decisions, ..Reader::default() };
        let decided = vec![(b"a".to_vec(), 1), (b"c".to_vec(), 5)];
        Tally { decided, readers: vec![reader.clone(), reader], ..Tally::default() }
    }

    fn found(books: &Tally, what: &str) {
        let findings = books.findings();
        assert!(findings.iter().any(|finding| finding.contains(what)), "{findings:?}");
    }

    #[test]
    fn right_answers_are_right() {
        assert_eq!(books().findings(), Vec::<String>::new());
        let mut gap = books();
        gap.readers.iter_mut().for_each(|reader| {
            reader.has_gap = true;
            reader.decisions.remove(&(1, 0));
        });
        assert_eq!(gap.findings(), Vec::<String>::new());
    }

    #[test]
    fn planted_wrong_answers_are_found() {
        let mut other = books();
        other.readers[1].decisions.insert((1, 2), b"x".to_vec());
        found(&other, "different proposals at (1, 2)");
        let mut twice = books();
        twice.readers[0].decisions.insert((6, 0), b"a".to_vec());
        found(&twice, "at (1, 0) and at (6, 0)");
        let mut lost = books();
        lost.readers.iter_mut().for_each(|reader| drop(reader.decisions.remove(&(1, 0))));
        found(&lost, "acknowledged in instance 1 is lost");
        let mut moved = books();
        moved.decided[1].1 = 4;
        found(&moved, "acknowledged in instance 4 and stands in 5");
        let mut changed = books();
        changed.readers[0].changed.push((1, 0));
        found(&changed, "two proposals at (1, 0)");
    }
}
