//! Determines which transactions count, and checks that each version that was read had been written.

use std::collections::HashMap;

use super::history::{Event, FinalState, History, NEVER, Open, Recorded};
use super::report::{Report, Violation};
use super::{Access, Options};

/// The transactions that count, with their reads and writes sorted by key and version.
pub(super) struct Settled {
    pub(super) transactions: Vec<Recorded>,
    pub(super) reads: Vec<Event>,
    pub(super) writes: Vec<Event>,
}

/// The reads and writes of one key, sorted by version.
pub(super) struct OfKey<'a> {
    pub(super) key: u64,
    pub(super) reads: &'a [Event],
    pub(super) writes: &'a [Event],
}

impl OfKey<'_> {
    /// Number of writes with versions up to `version`.
    fn before(&self, version: u64) -> usize {
        self.writes.partition_point(|write| write.version <= version)
    }

    /// The key's initial version, if a transaction has read it.
    fn in_the_beginning(&self, options: &Options) -> Option<u64> {
        let mut reads = self.reads.iter().take_while(|read| read.version <= options.initial_version);
        reads.find(|read| read.value.is_some()).map(|read| read.version)
    }
}

impl Settled {
    /// Calls `visit` for each key.
    pub(super) fn for_each_key<'a>(&'a self, mut visit: impl FnMut(OfKey<'a>)) {
        let (mut reads, mut writes) = (&self.reads[..], &self.writes[..]);
        while let Some(key) = match (reads.first(), writes.first()) {
            (Some(read), Some(write)) => Some(read.key.min(write.key)),
            (read, write) => read.or(write).map(|event| event.key),
        } {
            let split = |events: &'a [Event]| {
                let end = events.iter().position(|event| event.key != key).unwrap_or(events.len());
                events.split_at(end)
            };
            let (of_key_reads, of_key_writes);
            (of_key_reads, reads) = split(reads);
            (of_key_writes, writes) = split(writes);
            visit(OfKey { key, reads: of_key_reads, writes: of_key_writes });
        }
    }
}

/// Collects violations: all are counted, the first are kept.
struct Findings<'a> {
    shown: usize,
    report: &'a mut Report,
}

impl Findings<'_> {
    fn keep(&mut self, violation: Violation) {
        if self.report.violations.len() < self.shown {
            self.report.violations.push(violation);
        }
    }
}

/// The transactions that do not count so far, and an index of their writes.
struct Undecided {
    open: Vec<Option<Open>>,
    writers: HashMap<(u64, u64), usize>,
    /// Deletions by transactions with unknown outcomes, sorted by key, then version.
    deletions: Vec<(u64, u64, usize)>,
}

impl Undecided {
    fn new(open: Vec<Open>) -> Self {
        let mut writers = HashMap::new();
        let mut deletions = Vec::new();
        for (index, transaction) in open.iter().enumerate() {
            for write in &transaction.writes {
                writers.insert((write.key, write.version), index);
                if !transaction.aborted && write.value.is_none() {
                    deletions.push((write.key, write.version, index));
                }
            }
        }
        deletions.sort_unstable();
        Self { open: open.into_iter().map(Some).collect(), writers, deletions }
    }

    /// The transaction that wrote this version, if it may have committed and does not count yet.
    fn writer(&self, key: u64, version: u64) -> Option<usize> {
        let index = *self.writers.get(&(key, version))?;
        self.open[index].as_ref().filter(|open| !open.aborted).map(|_| index)
    }

    /// The aborted transaction that wrote this version, if any.
    fn aborted(&self, key: u64, version: u64) -> Option<&Open> {
        let index = *self.writers.get(&(key, version))?;
        self.open[index].as_ref().filter(|open| open.aborted)
    }

    /// The latest deletion of the key with a version after `after` and up to `until`, by a transaction that may
    /// have committed and does not count yet.
    fn deletion(&self, key: u64, after: u64, until: u64) -> Option<usize> {
        let end = self.deletions.partition_point(|&(of, version, _)| (of, version) <= (key, until));
        let candidates = self.deletions[..end].iter().rev();
        candidates
            .take_while(|&&(of, version, _)| of == key && version > after)
            .map(|&(_, _, index)| index)
            .find(|&index| self.open[index].is_some())
    }
}

/// Determines which transactions count, and checks all reads, versions and final states.
pub(super) fn settle(history: History, options: &Options) -> (Settled, Report) {
    let History { transactions, reads, writes, open, finals } = history;
    let recorded = transactions.len();
    let mut history = History { transactions, reads, writes, ..History::default() };
    let mut undecided = Undecided::new(open);
    let settled = loop {
        history.reads.sort_unstable();
        history.writes.sort_unstable();
        let settled = Settled {
            transactions: std::mem::take(&mut history.transactions),
            reads: std::mem::take(&mut history.reads),
            writes: std::mem::take(&mut history.writes),
        };
        let seen = seen(&settled, &undecided, &finals, options);
        if seen.is_empty() {
            break settled;
        }
        let Settled { transactions, reads, writes } = settled;
        history = History { transactions, reads, writes, ..History::default() };
        for index in seen {
            count(&mut history, &mut undecided, index);
        }
    };
    let mut report = Report {
        transactions: settled.transactions.len() as u64,
        unknown_but_seen: (settled.transactions.len() - recorded) as u64,
        reads: settled.reads.len() as u64,
        writes: settled.writes.len() as u64,
        ..Report::default()
    };
    for open in undecided.open.iter().flatten() {
        *(if open.aborted { &mut report.aborted } else { &mut report.unknown_and_unseen }) += 1;
    }
    examine(&settled, &undecided, &finals, options, &mut report);
    (settled, report)
}

/// Makes a transaction count, and with it all those whose writes it read. So a long chain of them takes one round.
fn count(history: &mut History, undecided: &mut Undecided, index: usize) {
    let mut queue = vec![index];
    while let Some(index) = queue.pop() {
        let Some(open) = undecided.open[index].take() else { continue };
        history.count(
            Recorded { id: open.id, started: open.started, ended: NEVER },
            &open.reads,
            &open.writes,
        );
        for read in open.reads.iter().filter(|read| read.value.is_some()) {
            queue.extend(undecided.writer(read.key, read.version));
        }
    }
}

/// Transactions with unknown outcomes of which a write was read by a transaction that counts, or is in a final
/// state.
fn seen(settled: &Settled, undecided: &Undecided, finals: &[FinalState], options: &Options) -> Vec<usize> {
    let mut seen = Vec::new();
    if undecided.writers.is_empty() {
        return seen;
    }
    settled.for_each_key(|of_key| {
        let in_the_beginning = of_key.in_the_beginning(options);
        for read in of_key.reads {
            let before = of_key.writes[..of_key.before(read.version)].last();
            match (read.value, before) {
                (Some(_), Some(write)) if write.version == read.version => {}
                (Some(_), _) if read.version > options.initial_version => {
                    seen.extend(undecided.writer(read.key, read.version));
                }
                (None, Some(write)) if write.value.is_some() => {
                    seen.extend(undecided.deletion(read.key, write.version, read.version));
                }
                (None, None) => {
                    if let Some(version) = in_the_beginning {
                        seen.extend(undecided.deletion(read.key, version, read.version));
                    }
                }
                _ => {}
            }
        }
    });
    for state in finals {
        seen.extend(state.state.iter().filter_map(|access| undecided.writer(access.key, access.version)));
        settled.for_each_key(|of_key| {
            if let Some(last) = of_key.writes.last()
                && last.value.is_some()
                && (state.holds)(of_key.key)
                && state.find(of_key.key).is_none()
            {
                seen.extend(undecided.deletion(of_key.key, last.version, u64::MAX));
            }
        });
    }
    seen
}

impl FinalState {
    fn find(&self, key: u64) -> Option<&Access> {
        self.state.binary_search_by_key(&key, |access| access.key).ok().map(|index| &self.state[index])
    }
}

/// Finds all violations other than cycles.
fn examine(
    settled: &Settled,
    undecided: &Undecided,
    finals: &[FinalState],
    options: &Options,
    report: &mut Report,
) {
    let id = |event: &Event| settled.transactions[event.transaction as usize].id;
    let mut findings = Findings { shown: options.violations_shown, report };
    settled.for_each_key(|of_key| {
        let OfKey { key, reads, writes } = of_key;
        let in_the_beginning = of_key.in_the_beginning(options);
        findings.report.keys += 1;
        for pair in writes.windows(2).filter(|pair| pair[0].version == pair[1].version) {
            findings.report.doubled_versions += 1;
            let writers = [id(&pair[0]), id(&pair[1])];
            findings.keep(Violation::Doubled { key, version: pair[0].version, writers });
        }
        for read in reads {
            let (reader, version) = (id(read), read.version);
            let wrong = match (read.value, writes[..of_key.before(version)].last()) {
                (_, Some(write)) if write.transaction == read.transaction => {
                    Some(Violation::OwnWrite { reader, key, version, written: write.version })
                }
                (None, None) => in_the_beginning.map(|written| Violation::WronglyAbsent {
                    reader,
                    key,
                    version,
                    writer: None,
                    written,
                }),
                (None, Some(write)) if write.value.is_none() => None,
                (None, Some(write)) => Some(Violation::WronglyAbsent {
                    reader,
                    key,
                    version,
                    writer: Some(id(write)),
                    written: write.version,
                }),
                (Some(value), Some(write)) if write.version == version => (write.value != Some(value))
                    .then(|| Violation::WrongValue { reader, key, version, writer: id(write) }),
                (Some(_), _) if version <= options.initial_version => None,
                (Some(_), _) => Some(match undecided.aborted(key, version) {
                    Some(open) => Violation::AbortedRead { reader, key, version, writer: open.id },
                    None => Violation::Unwritten { reader, key, version },
                }),
            };
            if let Some(wrong) = wrong {
                findings.report.wrong_reads += 1;
                findings.keep(wrong);
            }
        }
        for state in finals.iter().filter(|state| (state.holds)(key)) {
            let Some(last) = writes.last() else { continue };
            let found = state.find(key);
            let right = match (found, last.value) {
                (None, None) => true,
                (Some(found), Some(value)) => found.version == last.version && found.value == Some(value),
                _ => false,
            };
            if !right {
                findings.report.wrong_final_states += 1;
                findings.keep(Violation::Lost {
                    replica: state.replica.clone(),
                    key,
                    writer: id(last),
                    version: last.version,
                    found: found.map(|found| found.version),
                });
            }
        }
    });
    // Find replicas' versions of keys that were never written. Keys that were written have been compared above.
    for state in finals {
        for access in &state.state {
            let written = settled.writes.partition_point(|write| write.key < access.key);
            if settled.writes.get(written).is_none_or(|write| write.key != access.key) {
                findings.report.wrong_final_states += 1;
                let (replica, key, version) = (state.replica.clone(), access.key, access.version);
                findings.keep(Violation::FromNowhere { replica, key, version });
            }
        }
    }
}
