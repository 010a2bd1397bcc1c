//! The log on disk of transactions (`weft_txn::journal`).
//!
//! The card reports which records of its log the host's memory has ([`HostKind::Stored`]), and what else must survive
//! a restart ([`HostKind::Entry`]). Both go to the disk in order, and the card is told when they are there. A
//! snapshot has the records that are not applied to the table yet, and the table, page by page, while the host goes
//! on: a page may be newer than records that follow the snapshot, and a replay allows for that.

use std::collections::{BTreeSet, VecDeque};

use weft_cluster::Incarnation;
use weft_store::{Disk, DiskError, RecoveryError};
use weft_txn::host::{Half, HalfTables, Replay};
use weft_txn::host_port::{HostKind, HostMessage, LOG_TOKEN};
use weft_txn::journal::{self, Entry};
use weft_txn::log::{attempt_of, record_at};
use weft_txn::message::Verdict;
use weft_txn::{Cursor, Parameters, TransactionId};
use weft_waist::{Epoch, NodeId};

use crate::half::HostIo;
use crate::log::{self, EngineLog, FoundAgain, HostLog, Room};

/// Bytes of a page in a snapshot.
const PAGE_BYTES: usize = 8 << 10;
/// The most pages that are read at a time, so that the host does not stand still.
const PAGES_AT_ONCE: usize = 8;

/// The sizes of the store for a node's tables.
pub fn transaction_store(engine: &Parameters, tables: &HalfTables) -> weft_store::Parameters {
    log::store_parameters(tables.table_bytes() + engine.log_bytes + engine.nodes * engine.window * 16)
}

impl EngineLog {
    /// As [`EngineLog::of_store`], of transactions. A node that had not finished its copy starts without data, too.
    ///
    /// # Errors
    /// As [`EngineLog::of_store`].
    pub fn of_transactions(
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
    /// What was replayed, until the node serves with it.
    replayed: Option<FoundAgain>,
    found_again: Option<FoundAgain>,
}

impl Journal {
    pub fn new(log: EngineLog, node: NodeId, engine: &Parameters, tables: HalfTables) -> Self {
        let EngineLog { log, found } = log;
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
            replayed: None,
            found_again: None,
        }
    }

    /// The error of the disk that makes the node stop, if there was one.
    pub const fn failure(&self) -> Option<&DiskError> {
        self.log.failure()
    }

    /// What the node continues with, once it serves again after a replay, or why it does not.
    pub const fn found_again(&self) -> Option<FoundAgain> {
        self.found_again
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
        if let Err(error) = replayed.and_then(|()| half.end_replay(&replay, memory)) {
            self.found_again = Some(FoundAgain::Nothing(error));
            return half.abandon_replay();
        }
        for (number, id, length) in replay.pending() {
            self.unapplied.push_back(Unapplied { position: self.written, number, id });
            self.written += length as u64;
        }
        self.next_number = replay.next_number();
        self.replayed =
            Some(FoundAgain::Transactions { epoch: replay.epoch(), unapplied: self.unapplied.len() });
    }

    /// Forgets everything: the node's next incarnation starts without data.
    pub fn start_over(&mut self, incarnation: Incarnation) {
        self.log.start_over(incarnation);
        (self.written, self.next_number, self.received, self.told) = (0, 0, 0, 0);
        self.unapplied.clear();
        self.messages.clear();
        (self.snapshot, self.whole, self.replayed) = (None, None, None);
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
                self.note_entry(bytes);
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

    /// Forgets the records that are not to be applied any more according to an entry, and notes that the node serves.
    fn note_entry(&mut self, entry: &[u8]) {
        match Entry::parse(entry).expect("written by the card") {
            Entry::Opening { .. } => self.found_again = self.replayed.take().or(self.found_again),
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use weft_nic::HostCommand;
    use weft_time::Instant;
    use weft_txn::client::ClientMessage;
    use weft_waist::NodeSet;

    use super::*;
    use crate::half::{CardPort, HostHalf};
    use crate::log::Loss;
    use crate::log::tests::Shared;
    use crate::transactions::{Ledger, TransactionHalf, TransactionSizes, found};

    const SIZES: weft_store::Parameters = weft_store::Parameters::new(20, 64, 320);

    fn incarnation(number: u64) -> Incarnation {
        Incarnation::new(number).unwrap()
    }

    fn open(disk: &Shared, fresh: u64) -> EngineLog {
        let ends = disk.clone();
        let log =
            EngineLog::of_transactions(SIZES, Box::new(disk.clone()), incarnation(fresh), || ends.wait());
        log.unwrap()
    }

    /// A disk with these entries, written in incarnation 7.
    fn disk_with(entries: &[&[u8]]) -> Shared {
        let disk = Shared::new(&SIZES, 1);
        let EngineLog { mut log, .. } = open(&disk, 7);
        entries.iter().for_each(|entry| log.append(entry));
        assert!(log.pump());
        while log.durable() < log.next_record() {
            disk.wait();
            assert!(log.pump());
        }
        disk
    }

    /// What a node writes that begins to serve in this epoch.
    fn opening(epoch: u32) -> Vec<u8> {
        let full = NodeSet::first(3).bits().to_be_bytes();
        [&[5][..], &epoch.to_be_bytes(), &full, &[0; 2]].concat()
    }

    /// The memory of a host, and what was answered to clients.
    #[derive(Default)]
    struct Card {
        memory: Vec<u8>,
        calls: Vec<u8>,
        answers: Vec<(u8, Vec<u8>)>,
    }

    impl CardPort for Card {
        fn submit(&mut self, command: HostCommand<'_>) {
            match command {
                HostCommand::Call { kind, .. } => self.calls.push(kind),
                HostCommand::Respond { kind, payload, .. } => self.answers.push((kind, payload.to_vec())),
                other => panic!("the half has no reason for {other:?}"),
            }
        }

        fn host_memory(&mut self) -> &mut Vec<u8> {
            &mut self.memory
        }
    }

    /// A process of node 1 that starts with this log.
    fn process(first_session: u64, log: EngineLog) -> (TransactionHalf, Card) {
        let sizes = TransactionSizes { nodes: 3, replicas: 3, message_bytes: 1_400, record: false };
        let node = NodeId::new(1).unwrap();
        let (_, _, mut half, memory) = found(node, first_session, (&Ledger::new(8), &sizes), Some(log));
        let mut card = Card { memory, ..Card::default() };
        half.begin(&mut HostIo::new(0, &mut card));
        (half, card)
    }

    #[test]
    fn what_a_node_had_not_copied_completely_is_no_data() {
        let has_all = |disk: &Shared| {
            let log = open(disk, 9);
            (log.has_data(), log.incarnation().get(), log.loss())
        };
        assert_eq!(has_all(&disk_with(&[])), (false, 9, None), "there was nothing");
        assert_eq!(has_all(&disk_with(&[&opening(1)])), (true, 7, None), "a founder has all");
        assert_eq!(has_all(&disk_with(&[&opening(2)])), (false, 9, Some(Loss::Incomplete)));
    }

    /// A node that starts with its data keeps its incarnation. A call that a client has made in a session of the
    /// former process must not find a session of the same number.
    #[test]
    fn a_process_with_the_data_of_a_former_one_numbers_its_sessions_anew() {
        const FIRST: u64 = 500;
        let log = open(&disk_with(&[&opening(1)]), 9);
        assert_eq!(log.incarnation(), incarnation(7));
        let (mut half, mut card) = process(FIRST, log);
        let mut hello = Vec::new();
        let kind = ClientMessage::Hello { client: 3 }.encode(&mut hello) as u8;
        let client: SocketAddrV4 = "127.0.0.1:9".parse().unwrap();
        let io = &mut HostIo::new(0, &mut card);
        half.requested(Instant::ZERO, client, (kind, &hello), true, io);
        half.settle(Instant::ZERO, io);
        let [(kind, answer)] = &card.answers[..] else { panic!("one answer: {:?}", card.answers) };
        let welcome = ClientMessage::parse(*kind, answer).unwrap();
        assert_eq!(welcome, ClientMessage::Welcome { client: 3, session: FIRST });
    }

    #[test]
    fn a_node_tells_what_it_continues_with_once_it_serves() {
        let (mut half, mut card) = process(1, open(&disk_with(&[&opening(1)]), 9));
        assert_eq!(half.found_again(), None);
        let entry = (HostKind::Entry as u8, &opening(2)[..]);
        half.replied(Instant::ZERO, LOG_TOKEN, entry, &mut HostIo::new(0, &mut card));
        let found = half.found_again().unwrap();
        assert_eq!(found, FoundAgain::Transactions { epoch: Epoch(1), unapplied: 0 });
        assert!(found.to_string().starts_with("continues after epoch 1 "), "{found}");
    }

    #[test]
    fn a_log_that_cannot_be_replayed_is_told_of_and_no_data() {
        let (mut half, mut card) = process(1, open(&disk_with(&[&opening(1), b"?"]), 9));
        half.settle(Instant::ZERO, &mut HostIo::new(0, &mut card));
        assert_eq!(card.calls, [HostKind::Mismatch as u8]);
        assert!(matches!(half.found_again(), Some(FoundAgain::Nothing(_))));
    }
}
