//! Consensus in rounds: all readers get the same order of decisions, which contains every acknowledged
//! proposal.
//!
//! Progress is not checked, because members fence themselves on a machine that is too busy for the round
//! period.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_check::decisions::{Fate, Record, check};
use weft_client::{Client, Proposal, Rounds};

use super::{Count, DESCRIBED, EngineResult, Run};

const PAUSE: Duration = Duration::from_millis(100);
/// Interval between two requests of a reader.
const READ_EVERY: Duration = Duration::from_millis(200);
/// Time for which a reader waits for acknowledged decisions at the end. It is bounded, because rounds may
/// have stopped.
const LAST: Duration = Duration::from_secs(5);

pub(super) fn drive(run: &Run<'_>, clients: &[Client]) -> EngineResult {
    let rounds = |client: &Client| client.rounds().expect(DESCRIBED);
    let proposing = AtomicUsize::new(clients.len());
    let (mut count, mut records) = (Count::default(), Vec::new());
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
        let readers: Vec<_> =
            clients.iter().map(|client| scope.spawn(move || follow(&rounds(client), proposing))).collect();
        for part in proposers {
            let (part, record) = part.join().expect("a proposer does not panic");
            count.add(part);
            records.push(record);
        }
        records.extend(readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")));
    });
    // Other programs may propose, too, and may propose the same twice.
    let is_ours = |proposal: &[u8]| proposal.starts_with(&run.identity.to_le_bytes());
    let findings = check(&records.iter().collect::<Vec<_>>(), is_ours);
    EngineResult::new("rounds", count, "one order", findings)
}

fn propose(run: &Run<'_>, rounds: &Rounds, client: u64) -> (Count, Record) {
    let (mut count, mut record, mut number) = (Count::default(), Record::default(), 0);
    run.repeat(PAUSE, || {
        number += 1;
        let content = [run.identity, client, number].map(u64::to_le_bytes).concat();
        record.proposes(content.clone(), run.now_ns());
        let answer = rounds.propose(&content).wait();
        let fate = match &answer {
            Ok(Proposal::Decided { instance }) => {
                run.changed();
                Fate::Decided { instance: *instance }
            }
            Err(error) if error.may_have_happened() => Fate::Unknown,
            Ok(Proposal::Dropped { .. }) | Err(_) => Fate::NoEffect,
        };
        if matches!(answer, Ok(Proposal::Dropped { .. })) {
            count.refused += 1;
        } else {
            count.take(answer);
        }
        record.ends(fate, run.now_ns());
    });
    (count, record)
}

/// Reads all decisions until the end of the run.
fn follow(rounds: &Rounds, proposing: &AtomicUsize) -> Record {
    let mut record = Record::default();
    let mut ends = None;
    loop {
        if proposing.load(Ordering::Acquire) == 0 {
            ends.get_or_insert_with(|| Instant::now() + LAST);
        }
        let list = rounds.read(record.last()).wait().ok();
        let has_more = list.as_ref().is_some_and(|list| !list.decisions.is_empty());
        if let Some(list) = list {
            let decisions = list.decisions.iter().map(|decision| (decision.place, &*decision.proposal));
            record.reads(list.forgotten, decisions);
        }
        if ends.is_some_and(|ends| Instant::now() > ends) {
            return record;
        }
        if !has_more {
            thread::sleep(READ_EVERY);
        }
    }
}
