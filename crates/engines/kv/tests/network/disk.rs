//! A model of the host's log, as far as the protocol uses it: snapshots, and records of which a prefix is durable.

use weft_kv::journal::What;
use weft_kv::message::Kind;

/// Number of records after which a snapshot is taken.
const LONG: usize = 120;

/// Whether a message of an engine is the record that opens an epoch.
pub fn begins_epoch(kind: u8, payload: &[u8]) -> bool {
    kind == Kind::Record as u8 && payload[0] == What::Opening as u8
}

#[derive(Default)]
pub struct Disk {
    /// Parts of the newest complete snapshot, then the records behind it.
    snapshot: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
    durable: usize,
    flushing: Option<usize>,
    /// Number of records that the engine handed over before the first of these; negative after a restart.
    before: i64,
    writing: Option<Writing>,
    pub has_replaced: bool,
    /// The incarnation that wrote this data, once it has stopped.
    pub left_by: Option<u64>,
}

struct Writing {
    start: usize,
    parts: Vec<Vec<u8>>,
    question: [u8; 8],
}

impl Disk {
    /// Takes a message from the engine; returns whether a flush begins.
    pub fn take(&mut self, kind: u8, payload: &[u8]) -> bool {
        if kind == Kind::SnapshotPart as u8 {
            self.part(payload);
            return false;
        }
        assert_eq!(kind, Kind::Record as u8);
        self.records.push(payload.to_vec());
        if self.flushing.is_none() {
            self.flushing = Some(self.records.len());
            return true;
        }
        false
    }

    /// Ends a flush; returns how many records of the running incarnation are durable, and whether another flush
    /// begins.
    pub fn flushed(&mut self) -> (u64, bool) {
        self.durable = self.flushing.take().expect("a flush has begun");
        let more = self.durable < self.records.len();
        if more {
            self.flushing = Some(self.records.len());
        }
        ((self.before + self.durable as i64) as u64, more)
    }

    /// The next request for a part of a snapshot, if one is due.
    pub fn asks(&mut self) -> Option<[u8; 8]> {
        if self.writing.is_none() && self.records.len() > LONG {
            self.writing = Some(Writing {
                start: self.records.len(),
                parts: Vec::new(),
                question: [1, 0, 0, 0, 0, 0, 0, 0],
            });
            return Some([0; 8]);
        }
        self.writing.as_ref().map(|writing| writing.question)
    }

    fn part(&mut self, payload: &[u8]) {
        let Some(writing) = &mut self.writing else { return };
        let (head, record) = payload.split_at(8);
        if record.is_empty() {
            return;
        }
        writing.parts.push(record.to_vec());
        let next: [u8; 4] = head[..4].try_into().unwrap();
        let what = match (writing.question[0], next == [0xff; 4]) {
            (what, false) => what,
            (1, true) => What::Slots as u8,
            (3, true) => What::Sessions as u8,
            (4, true) => What::Kept as u8,
            _ => {
                // The snapshot is on the disk: drop the records that it reflects.
                let writing = self.writing.take().expect("it is being written");
                if self.durable < writing.start {
                    return;
                }
                self.snapshot = writing.parts;
                self.records.drain(..writing.start);
                self.before += writing.start as i64;
                self.durable -= writing.start;
                self.flushing = self.flushing.map(|flushing| flushing - writing.start);
                self.has_replaced = true;
                return;
            }
        };
        let from = if next == [0xff; 4] { [0; 4] } else { next };
        writing.question = [what, 0, 0, 0, from[0], from[1], from[2], from[3]];
    }

    /// Cuts the power: of the records that were not flushed, a random number is kept.
    pub fn cut(&mut self, torn: usize) {
        let kept = self.durable + torn % (self.records.len() - self.durable + 1);
        self.records.truncate(kept);
        (self.flushing, self.writing) = (None, None);
    }

    pub fn found(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.snapshot.iter().chain(&self.records)
    }

    /// The disk as the next incarnation finds it: all remaining records are durable.
    pub fn kept(self) -> Self {
        let durable = self.records.len();
        Self { durable, before: -(durable as i64), left_by: None, ..self }
    }
}
