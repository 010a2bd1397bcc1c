//! The log on disk of transactions (`weft_txn::journal`).
//!
//! The card reports which records of its log the host's memory has ([`HostKind::Stored`]), and what else must survive
//! a restart ([`HostKind::Entry`]). Both go to the disk in order, and the card is told when they are there. A
//! snapshot has the records that are not applied to the table yet, and the table, page by page, while the host goes
//! on: a page may be newer than records that follow the snapshot, and a replay allows for that.

use std::collections::{BTreeSet, VecDeque};

use weft_cluster::Incarnation;
use weft_store::{Damage, Disk, DiskError, RecoveryError};
use weft_txn::host::{Half, HalfTables, Replay};
use weft_txn::host_port::{HostKind, HostMessage, LOG_TOKEN};
use weft_txn::journal::{self, Entry};
use weft_txn::log::{attempt_of, record_at};
use weft_txn::message::Verdict;
use weft_txn::{Cursor, Parameters, TransactionId};
use weft_waist::{Epoch, NodeId};

use crate::half::HostIo;
use crate::log::{self, HostLog, Room};

/// Bytes of a page in a snapshot.
const PAGE_BYTES: usize = 8 << 10;
/// The most pages that are read at a time, so that the host does not stand still.
const PAGES_AT_ONCE: usize = 8;

/// The sizes of the store for a node's tables.
pub fn transaction_store(engine: &Parameters, tables: &HalfTables) -> weft_store::Parameters {
    log::store_parameters(tables.table_bytes() + engine.log_bytes + engine.nodes * engine.window * 16)
}

/// A log of transactions that was opened on a disk, or a new one.
#[derive(Debug)]
pub struct TransactionLog {
    log: HostLog,
    found: Vec<Vec<u8>>,
}

impl TransactionLog {
    /// Opens the log on a disk, or creates one for a node that starts without data, in incarnation `fresh`. `wait`
    /// returns when a flush may have ended.
    ///
    /// # Errors
    /// The disk fails, or has a log of an engine with other sizes. A damaged log is no error: the node starts
    /// without data and fetches it from its peers. So does a node that had not finished its copy.
    pub fn open(
        sizes: weft_store::Parameters,
        disk: Box<dyn Disk + Send>,
        fresh: Incarnation,
        wait: impl FnMut(),
    ) -> Result<Self, RecoveryError> {
        let (log, content) = HostLog::open(sizes, disk, fresh, wait, |content| {
            let first = content.records.first().and_then(|record| Entry::parse(record).ok());
            let is_founder = matches!(first, Some(Entry::Opening { base }) if base.epoch == Epoch(1));
            is_founder || !content.parts.is_empty()
        })?;
        let found = content.parts.into_iter().chain(content.records).collect();
        Ok(Self { log, found })
    }

    /// The incarnation to which the data belongs.
    pub fn incarnation(&self) -> Incarnation {
        self.log.incarnation()
    }

    /// Damage that was found in the log when it was opened, if any.
    pub const fn damage(&self) -> Option<Damage> {
        self.log.damage()
    }

    /// Whether the log has data of the node.
    pub const fn has_data(&self) -> bool {
        !self.found.is_empty()
    }
}

/// State of a snapshot that is being written.
#[derive(Debug)]
enum Snapshot {
    /// The card was asked for its state.
    Asked,
    /// The card, or the log, was not ready for a snapshot. It is tried again when more is on disk.
    TooEarly,
    /// The log is read from this page on. Before that come the records that are not applied.
    Pages { records: VecDeque<Vec<u8>>, shard: usize, from: Cursor },
    /// All is written; it is not durable yet.
    Ended,
}

/// A record in the ring that is in the log, too.
#[derive(Clone, Copy, Debug)]
struct Unapplied {
    position: u64,
    number: u64,
    id: TransactionId,
}

/// The log of a node that is running.
#[derive(Debug)]
pub(super) struct Journal {
    log: HostLog,
    found: Vec<Vec<u8>>,
    tables: HalfTables,
    window: usize,
    nodes: usize,
    /// The shards that the node replicates.
    shards: Vec<usize>,
    /// Position in the ring up to which records were written to the log.
    written: u64,
    /// The records that were written, and are neither applied nor aborted.
    unapplied: VecDeque<Unapplied>,
    next_number: u64,
    /// Number of messages of the card whose content the log has, and number of those that it knows to be on disk.
    received: u64,
    told: u64,
    /// For each message that is not on disk, the number of records in the log with it.
    messages: VecDeque<u64>,
    snapshot: Option<Snapshot>,
    /// The view in which the copy of a joining node has become whole. A snapshot of it must follow.
    whole: Option<Epoch>,
    /// Whether the present snapshot was begun after that.
    saves_copy: bool,
}

impl Journal {
    pub fn new(log: TransactionLog, node: NodeId, engine: &Parameters, tables: HalfTables) -> Self {
        let TransactionLog { log, found } = log;
        let shards = (0..engine.replicas).map(|step| (node.index() + engine.nodes - step) % engine.nodes);
        Self {
            log,
            found,
            tables,
            window: engine.window,
            nodes: engine.nodes,
            shards: shards.collect(),
            written: 0,
            unapplied: VecDeque::new(),
            next_number: 0,
            received: 0,
            told: 0,
            messages: VecDeque::new(),
            snapshot: None,
            whole: None,
            saves_copy: false,
        }
    }

    /// The error of the disk that makes the node stop, if there was one.
    pub const fn failure(&self) -> Option<&DiskError> {
        self.log.failure()
    }

    /// Whether there is something to replay.
    pub const fn has_data(&self) -> bool {
        !self.found.is_empty()
    }

    /// Replays what was found on the disk.
    pub fn replay(&mut self, half: &mut Half, memory: &mut [u8]) {
        let mut replay = Replay::new(self.nodes, self.window);
        let found = std::mem::take(&mut self.found);
        let replayed = found.iter().try_for_each(|entry| half.replay(&mut replay, entry, memory));
        if replayed.and_then(|()| half.end_replay(&replay, memory)).is_err() {
            return half.abandon_replay();
        }
        for (number, id, length) in replay.pending() {
            self.unapplied.push_back(Unapplied { position: self.written, number, id });
            self.written += length as u64;
        }
        self.next_number = replay.next_number();
    }

    /// Forgets everything: the node's next incarnation starts without data.
    pub fn start_over(&mut self, incarnation: Incarnation) {
        self.log.start_over(incarnation);
        (self.written, self.next_number, self.received, self.told) = (0, 0, 0, 0);
        self.unapplied.clear();
        self.messages.clear();
        (self.snapshot, self.whole) = (None, None);
    }

    /// Handles a message of the card, before the half does.
    pub fn note(&mut self, message: &HostMessage<'_>, memory: &[u8]) {
        match *message {
            HostMessage::Stored { upto } => {
                self.write_records(upto, memory);
                self.count_message();
            }
            HostMessage::Entry { bytes } => {
                self.log.append(bytes);
                self.forget_aborted(bytes);
                self.count_message();
            }
            HostMessage::Decided { upto } => {
                let mut last = None;
                while self.unapplied.front().is_some_and(|record| record.position < upto)
                    && let Some(record) = self.unapplied.pop_front()
                {
                    last = Some(record.number);
                }
                if let Some(last) = last {
                    self.log.append(&journal::applied(last + 1));
                }
            }
            HostMessage::State { bytes } => self.begin_snapshot(bytes, memory),
            HostMessage::Whole { epoch } => {
                // A snapshot that was begun before would not have all pages.
                self.abandon_snapshot();
                self.whole = Some(epoch);
            }
            HostMessage::Clear => {
                self.abandon_snapshot();
                self.whole = None;
            }
            _ => {}
        }
    }

    /// Forgets the records that are not to be applied any more, according to an entry.
    fn forget_aborted(&mut self, entry: &[u8]) {
        match Entry::parse(entry).expect("written by the card") {
            Entry::Dropped { id } => self.unapplied.retain(|record| record.id != id),
            Entry::Verdicts(verdicts) => {
                let aborted = verdicts.iter().flatten().filter(|(_, verdict)| *verdict == Verdict::Aborted);
                let aborted: BTreeSet<TransactionId> = aborted.map(|(id, _)| id).collect();
                self.unapplied.retain(|record| !aborted.contains(&record.id));
            }
            _ => {}
        }
    }

    fn count_message(&mut self) {
        self.received += 1;
        self.messages.push_back(self.log.next_record());
    }

    /// Writes the records of the ring up to a position to the log.
    fn write_records(&mut self, upto: u64, memory: &[u8]) {
        while self.written < upto {
            let record = record_at(ring(&self.tables, memory), self.written);
            if let Some(id) = attempt_of(record) {
                let number = self.next_number;
                self.log.append(&[&journal::record(number)[..], record].concat());
                self.unapplied.push_back(Unapplied { position: self.written, number, id });
                self.next_number += 1;
            }
            self.written += record.len() as u64;
        }
        assert_eq!(self.written, upto, "the card counts whole records");
    }

    // Snapshots.

    fn abandon_snapshot(&mut self) {
        self.log.abandon_snapshot();
        self.snapshot = self.snapshot.take().filter(|snapshot| matches!(snapshot, Snapshot::Ended));
        self.saves_copy = false;
    }

    /// The card has answered with its state: the snapshot begins. It reflects what is applied now, and it contains
    /// the other records of the log.
    fn begin_snapshot(&mut self, state: &[u8], memory: &[u8]) {
        if !matches!(self.snapshot, Some(Snapshot::Asked)) {
            return;
        }
        let is_ready = !state.is_empty() && self.log.has_accepted_all() && self.log.begin_snapshot();
        if !is_ready {
            self.snapshot = Some(Snapshot::TooEarly);
            return;
        }
        self.saves_copy = self.whole.is_some();
        let in_ring = |unapplied: &Unapplied| {
            let record = record_at(ring(&self.tables, memory), unapplied.position);
            [&journal::record(unapplied.number)[..], record].concat()
        };
        let records = self.unapplied.iter().map(in_ring).collect();
        self.log.add_part(&[state]);
        self.snapshot = Some(Snapshot::Pages { records, shard: 0, from: Cursor::START });
    }

    fn drive_snapshot(&mut self, half: &Half, io: &mut HostIo<'_>) {
        match &mut self.snapshot {
            None => {
                if (self.log.wants_snapshot() || self.whole.is_some()) && !self.log.is_writing_snapshot() {
                    self.snapshot = Some(Snapshot::Asked);
                    io.call(LOG_TOKEN, HostKind::Snapshot as u8, &[]);
                }
            }
            Some(Snapshot::Asked | Snapshot::TooEarly) => {}
            Some(Snapshot::Pages { .. }) => self.add_pages(half, io.host_memory()),
            Some(Snapshot::Ended) => {
                if !self.log.is_writing_snapshot() {
                    self.snapshot = None;
                    if let Some(epoch) = self.whole.take_if(|_| self.saves_copy) {
                        io.call(LOG_TOKEN, HostKind::Saved as u8, &epoch.0.to_be_bytes());
                    }
                }
            }
        }
    }

    /// Adds records and pages to the snapshot while there is room.
    fn add_pages(&mut self, half: &Half, memory: &[u8]) {
        let Some(Snapshot::Pages { records, shard, from }) = &mut self.snapshot else { return };
        let mut read = 0;
        let mut page = Vec::new();
        while !records.is_empty() || *shard < self.shards.len() {
            match self.log.room() {
                Room::Ready => {}
                Room::Behind => return,
                Room::Abandoned => {
                    self.snapshot = Some(Snapshot::TooEarly);
                    return;
                }
            }
            if let Some(record) = records.pop_front() {
                self.log.add_part(&[&record]);
                continue;
            }
            if read == PAGES_AT_ONCE {
                return;
            }
            read += 1;
            page.clear();
            page.push(journal::PAGE);
            let next = half.write_page(&mut page, self.shards[*shard], *from, PAGE_BYTES, memory);
            self.log.add_part(&[&page]);
            (*shard, *from) = if next == Cursor::END { (*shard + 1, Cursor::START) } else { (*shard, next) };
        }
        self.snapshot = match self.log.end_snapshot() {
            Room::Ready => Some(Snapshot::Ended),
            Room::Behind => return,
            Room::Abandoned => Some(Snapshot::TooEarly),
        };
    }

    /// Whether there are pages to be read at once.
    pub fn is_reading(&self) -> bool {
        matches!(&self.snapshot, Some(Snapshot::Pages { shard, .. }) if *shard < self.shards.len())
            && self.log.may_add()
    }

    /// Moves records, snapshot and flushes forward as far as possible.
    pub fn drive(&mut self, half: &Half, io: &mut HostIo<'_>) {
        self.log.append_waiting();
        self.drive_snapshot(half, io);
        if !self.log.pump() {
            return;
        }
        let durable = self.log.durable();
        while self.messages.front().is_some_and(|records| *records <= durable) {
            self.messages.pop_front();
        }
        let count = self.received - self.messages.len() as u64;
        if count > self.told {
            self.told = count;
            io.call(LOG_TOKEN, HostKind::Durable as u8, &count.to_be_bytes());
            if let Some(Snapshot::TooEarly) = self.snapshot {
                self.snapshot = None;
            }
        }
    }
}

/// The ring of the card's log in the host's memory.
fn ring<'a>(tables: &HalfTables, memory: &'a [u8]) -> &'a [u8] {
    &memory[tables.log_address as usize..][..tables.log_bytes]
}
