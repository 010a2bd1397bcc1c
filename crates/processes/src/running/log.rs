//! A replicated log: all readers get the same order, from several replicas. It contains every acknowledged
//! append, and none twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_client::{Client, Error, Log, Read};

use super::{Count, DESCRIBED, EngineResult, PATIENCE, Run, persist};

/// Pause between two appends. A log keeps some thousands of entries, and readers on a busy machine must not
/// fall behind.
const PAUSE: Duration = Duration::from_millis(10);
/// Outstanding reads of a reader.
const WINDOW: u64 = 8;
/// Number of readers. Each sends its reads to another node first.
const READERS: usize = 2;

/// An append that was acknowledged.
#[derive(Clone, Debug)]
struct Append {
    begun_ns: u64,
    ended_ns: u64,
    index: u64,
    content: Vec<u8>,
}

/// The entry at an index that a reader got: origin, sequence number, content. `None` for an index that stays
/// empty.
type ReadEntry = Option<(u64, u64, Vec<u8>)>;

#[derive(Clone, Debug, Default)]
struct Tally {
    count: Count,
    /// Prefix of the contents of this run.
    identity: Vec<u8>,
    appends: Vec<Append>,
    /// Entries that each reader got.
    read: Vec<BTreeMap<u64, ReadEntry>>,
}

pub(super) fn drive(run: &Run<'_>, clients: &[Client], name: &str) -> EngineResult {
    let log = |client: &Client| client.log(name).expect(DESCRIBED);
    let from = match persist(|| log(&clients[0]).status().wait()) {
        Ok(status) => status.index,
        Err(error) => {
            let findings = vec![format!("the log cannot be read: {error}")];
            return EngineResult::new(name, Count::default(), "", findings);
        }
    };
    let appending = AtomicUsize::new(clients.len());
    let mut books = Tally { identity: run.identity.to_le_bytes().to_vec(), ..Tally::default() };
    thread::scope(|scope| {
        let appending = &appending;
        let appenders: Vec<_> = (0..)
            .zip(clients)
            .map(|(number, client)| {
                scope.spawn(move || {
                    let part = append(run, &log(client), number);
                    appending.fetch_sub(1, Ordering::Release);
                    part
                })
            })
            .collect();
        let readers = clients.iter().take(READERS);
        let readers: Vec<_> =
            readers.map(|client| scope.spawn(move || follow(&log(client), from, appending))).collect();
        for part in appenders {
            let (count, appends) = part.join().expect("an appender does not panic");
            books.count.add(count);
            books.appends.extend(appends);
        }
        books.read.extend(readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")));
    });
    EngineResult::new(name, books.count, "one order, no append lost or twice", books.findings())
}

fn append(run: &Run<'_>, log: &Log, client: u64) -> (Count, Vec<Append>) {
    let (mut count, mut appends, mut number) = (Count::default(), Vec::new(), 0);
    run.repeat(PAUSE, || {
        number += 1;
        let content = [run.identity, client, number].map(u64::to_le_bytes).concat();
        let begun_ns = run.now_ns();
        if let Some(index) = count.take(log.append(&content).wait()) {
            run.changed();
            appends.push(Append { begun_ns, ended_ns: run.now_ns(), index, content });
        }
    });
    (count, appends)
}

/// Reads until all clients have stopped and no new entry has arrived for a second.
fn follow(log: &Log, from: u64, appending: &AtomicUsize) -> BTreeMap<u64, ReadEntry> {
    const QUIET: Duration = Duration::from_secs(1);
    let (mut places, mut next) = (BTreeMap::new(), from);
    let (mut last, mut until) = (Instant::now(), None);
    loop {
        let is_over = appending.load(Ordering::Acquire) == 0;
        if is_over {
            until.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
        let reads: Vec<_> = (next..next + WINDOW).map(|index| log.read(index)).collect();
        let mut answered = false;
        for read in reads {
            let place = match read.wait() {
                Ok(Read::Entry(entry)) => Some((entry.origin, entry.sequence, entry.content)),
                Ok(Read::Void) => None,
                // The log no longer keeps this entry; it may still keep the next one.
                Err(Error::Forgotten { .. }) => {
                    next += 1;
                    continue;
                }
                Ok(Read::NotYet { .. }) => {
                    answered = true;
                    break;
                }
                Err(_) => break,
            };
            places.insert(next, place);
            next += 1;
            last = Instant::now();
        }
        let is_quiet = is_over && answered && last.elapsed() > QUIET;
        if is_quiet || until.is_some_and(|until| Instant::now() > until) {
            return places;
        }
        thread::sleep(super::PAUSE);
    }
}

impl Tally {
    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let Some((first, others)) = self.read.split_first() else { return findings };
        for other in others {
            let both = first.iter().filter_map(|(index, place)| Some((index, place, other.get(index)?)));
            if let Some((index, ..)) = both.into_iter().find(|(_, one, two)| one != two) {
                findings.push(format!("two readers were told different entries at {index}"));
            }
        }
        let all: BTreeMap<u64, &ReadEntry> =
            self.read.iter().flatten().map(|(index, place)| (*index, place)).collect();
        for append in &self.appends {
            let Append { index, content, .. } = append;
            match all.get(index) {
                Some(Some((.., read))) if read == content => {}
                Some(_) => findings.push(format!("the append that was acknowledged at {index} is not there")),
                None => findings.push(format!("the append that was acknowledged at {index} was not read")),
            }
        }
        let mut origins: BTreeMap<&[u8], BTreeSet<(u64, u64)>> = BTreeMap::new();
        for (origin, sequence, content) in all.values().copied().flatten() {
            if !content.starts_with(&self.identity) {
                continue;
            }
            origins.entry(content).or_default().insert((*origin, *sequence));
        }
        // One append may occur at two indices; only the first occurrence counts.
        let twice = origins.values().filter(|appends| appends.len() > 1).count();
        if twice > 0 {
            findings.push(format!("{twice} contents were appended twice"));
        }
        let mut in_order: Vec<_> = self.appends.iter().collect();
        in_order.sort_by_key(|append| append.index);
        let mut latest_begun = 0;
        for append in in_order {
            if append.ended_ns < latest_begun {
                findings
                    .push(format!("the append at {} ended before an earlier entry was begun", append.index));
                break;
            }
            latest_begun = latest_begun.max(append.begun_ns);
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books() -> Tally {
        let append = |at: u64, index, content: &[u8]| Append {
            begun_ns: at,
            ended_ns: at + 5,
            index,
            content: content.to_vec(),
        };
        let place = |sequence, content: &[u8]| Some((7, sequence, content.to_vec()));
        // The first append is at two indices, which is allowed.
        let read = BTreeMap::from([(0, place(1, b"a")), (1, None), (2, place(1, b"a")), (3, place(2, b"b"))]);
        let appends = vec![append(0, 0, b"a"), append(10, 3, b"b")];
        Tally { appends, read: vec![read.clone(), read], ..Tally::default() }
    }

    fn found(books: &Tally, what: &str) {
        let findings = books.findings();
        assert!(findings.iter().any(|finding| finding.contains(what)), "{findings:?}");
    }

    #[test]
    fn right_answers_are_right() {
        assert_eq!(books().findings(), Vec::<String>::new());
    }

    #[test]
    fn planted_wrong_answers_are_found() {
        let mut other = books();
        other.read[1].insert(3, None);
        found(&other, "different entries at 3");
        let mut lost = books();
        lost.read.iter_mut().for_each(|read| drop(read.insert(3, None)));
        found(&lost, "acknowledged at 3 is not there");
        let mut unread = books();
        unread.read.iter_mut().for_each(|read| drop(read.remove(&3)));
        found(&unread, "acknowledged at 3 was not read");
        let mut twice = books();
        twice.read.iter_mut().for_each(|read| drop(read.insert(4, Some((7, 9, b"a".to_vec())))));
        found(&twice, "1 contents were appended twice");
        let mut reversed = books();
        reversed.appends[0].begun_ns = 20;
        found(&reversed, "ended before");
    }
}
