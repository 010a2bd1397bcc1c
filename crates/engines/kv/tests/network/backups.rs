//! A client that reads backups, one after the other, and the check of each against the history of all clients.

use std::collections::BTreeMap;

use weft_kv::message::{BACKUP_DONE, BackupDescription, backup_records};
use weft_kv::{Client, ClientParameters, Outcome, Task};
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};

use super::history::{History, Operation};

/// The keys of a store and their values, as they were at one instant of this span.
#[derive(Debug)]
pub struct Backup {
    pub begun: Instant,
    pub ended: Instant,
    pub content: BTreeMap<[u8; 8], Vec<u8>>,
}

/// What a reader is about to read.
struct Reading {
    begun: Instant,
    /// The node and the number of the backup, once it has begun.
    place: Option<(NodeId, u32)>,
    next: u32,
    content: BTreeMap<[u8; 8], Vec<u8>>,
    is_complete: bool,
}

/// Reads backups, with few parts outstanding, so that a backup takes some time.
pub struct Reader {
    pub client: Client,
    reading: Reading,
    outstanding: u64,
    /// The outstanding request only says that the backup is not needed any more.
    is_leaving: bool,
    window: u64,
    pub backups: Vec<Backup>,
    pub begun_again: u64,
}

impl Reader {
    pub fn new(client: u64, nodes: NodeSet, window: u64) -> Self {
        let parameters = ClientParameters {
            timeout: Duration::from_us(400),
            timeout_max: Duration::from_ms(4),
            pause: Duration::from_us(100),
            give_up: Duration::from_ms(20),
            ..ClientParameters::new(client, nodes)
        };
        let reading = Reading {
            begun: Instant::ZERO,
            place: None,
            next: 1,
            content: BTreeMap::new(),
            is_complete: false,
        };
        Self {
            client: Client::new(parameters),
            reading,
            outstanding: 0,
            is_leaving: false,
            window,
            backups: Vec::new(),
            begun_again: 0,
        }
    }

    /// Whether a backup is being read.
    pub fn is_busy(&self) -> bool {
        self.outstanding > 0
    }

    /// Begins a backup.
    pub fn begin(&mut self, now: Instant) {
        let content = BTreeMap::new();
        self.reading = Reading { begun: now, place: None, next: 1, content, is_complete: false };
        self.client.start(now, Task::BeginBackup).expect("nothing is outstanding");
        self.outstanding = 1;
    }

    /// Notes the outcome of a request, and starts the next ones.
    pub fn take(&mut self, now: Instant, outcome: Outcome<'_>) {
        self.outstanding -= 1;
        if std::mem::take(&mut self.is_leaving) {
            return;
        }
        match outcome {
            Outcome::BackupBegun { backup, description: BackupDescription { node, .. } } => {
                self.reading.place = Some((node, backup));
            }
            Outcome::BackupPart { is_last, records, .. } => {
                for record in backup_records(records, 8) {
                    let (key, value) = record.expect("a part has whole records");
                    let former = self.reading.content.insert(key.try_into().unwrap(), value.to_vec());
                    assert_eq!(former, None, "a key is in one record");
                }
                self.reading.is_complete |= is_last;
            }
            // The node is gone, has been restarted, or has other writes to keep.
            Outcome::NoBackup { .. } | Outcome::Unknown => self.reading.place = None,
            outcome => panic!("{outcome:?} is no answer about a backup"),
        }
        let Some((at, backup)) = self.reading.place else {
            if self.outstanding == 0 {
                self.begun_again += 1;
            }
            return;
        };
        if self.reading.is_complete {
            if self.outstanding == 0 {
                let content = std::mem::take(&mut self.reading.content);
                self.backups.push(Backup { begun: self.reading.begun, ended: now, content });
                self.reading.place = None;
                self.client.start(now, Task::BackupPart { at, backup, part: BACKUP_DONE });
                (self.outstanding, self.is_leaving) = (1, true);
            }
            return;
        }
        while self.outstanding < self.window
            && self.client.start(now, Task::BackupPart { at, backup, part: self.reading.next }).is_some()
        {
            self.reading.next += 1;
            self.outstanding += 1;
        }
    }
}

/// A span of time in which a key had the state that a backup shows.
type Span = (Instant, Instant);

/// Panics if there is no instant between its beginning and its end at which the store was as the backup has it.
pub fn check(history: &History, backup: &Backup, name: impl Fn(u64) -> [u8; 8]) {
    let mut keys: BTreeMap<u64, Vec<&Operation>> = BTreeMap::new();
    for operation in &history.operations {
        keys.entry(operation.key).or_default().push(operation);
    }
    let known = backup.content.keys().all(|key| keys.keys().any(|known| name(*known) == *key));
    assert!(known, "a backup has keys that nobody wrote");
    let spans: Vec<(u64, Vec<Span>)> = keys
        .iter()
        .map(|(key, operations)| (*key, spans(operations, backup.content.get(&name(*key)).map(|v| &v[..]))))
        .collect();
    let instants = spans.iter().flat_map(|(_, spans)| spans.iter().map(|span| span.0.max(backup.begun)));
    let is_instant = |at: &Instant| {
        let holds = |spans: &[Span]| spans.iter().any(|(from, to)| from <= at && at <= to);
        *at <= backup.ended && spans.iter().all(|(_, spans)| holds(spans))
    };
    let found = instants.chain([backup.begun]).find(is_instant);
    assert!(found.is_some(), "the store was never as the backup has it: {backup:?} {spans:?}");
}

/// When a key may have had this value, or been absent.
fn spans(operations: &[&Operation], value: Option<&[u8]>) -> Vec<Span> {
    // Of each version: when its write was invoked, and the first return that shows that it took effect.
    let mut versions: BTreeMap<u64, (Instant, Instant, Option<&[u8]>)> = BTreeMap::new();
    for operation in operations {
        let Some(version) = operation.version() else { continue };
        let entry = versions.entry(version).or_insert((Instant::ZERO, Instant::FAR_FUTURE, None));
        entry.1 = entry.1.min(operation.returned);
        if operation.writes() {
            entry.0 = operation.invoked;
        }
        match &operation.outcome {
            super::history::Outcome::Value { value, .. } => entry.2 = Some(value),
            super::history::Outcome::Done { .. } if !operation.kind.removes() => {
                entry.2 = Some(&operation.value)
            }
            _ => {}
        }
    }
    let removed = |version: &u64| {
        let removes = |operation: &&&Operation| operation.kind.removes() && operation.writes();
        operations.iter().filter(removes).any(|operation| operation.version() == Some(*version))
    };
    let span = |version: u64, invoked: Instant| {
        // Who has seen an older version was invoked before this one took effect.
        let older = |operation: &&&Operation| operation.version().is_some_and(|seen| seen < version);
        let from = operations.iter().filter(older).filter(|operation| !operation.writes());
        let from = from.map(|operation| operation.invoked).chain([invoked]).max().unwrap();
        let to = versions.range(version + 1..).map(|(_, (_, settled, _))| *settled).min();
        (from, to.unwrap_or(Instant::FAR_FUTURE))
    };
    let unknown = |operation: &&&Operation| operation.outcome == super::history::Outcome::Unknown;
    let maybe = operations.iter().filter(unknown);
    match value {
        Some(value) => {
            let known = versions.iter().filter(|(_, (_, _, known))| *known == Some(value));
            let known: Vec<Span> = known.map(|(version, (invoked, ..))| span(*version, *invoked)).collect();
            if !known.is_empty() {
                return known;
            }
            let written = maybe.filter(|operation| operation.value == value && !operation.kind.removes());
            written.map(|operation| (operation.invoked, Instant::FAR_FUTURE)).collect()
        }
        None => {
            let removals = versions.iter().filter(|(version, _)| removed(version));
            let removals = removals.map(|(version, (invoked, ..))| span(*version, *invoked));
            let unknown = maybe.filter(|operation| operation.kind.removes());
            let unknown = unknown.map(|operation| (operation.invoked, Instant::FAR_FUTURE));
            removals.chain(unknown).chain([span(0, Instant::ZERO)]).collect()
        }
    }
}
