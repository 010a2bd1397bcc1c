//! The host half of the key-value engine: its log on a disk.
//!
//! The engine sends the records to be logged, and receives how many of them are durable (`weft_kv::journal`). When
//! a process restarts, it first opens the log ([`EngineLog::of_store`]), because the node takes the incarnation of the
//! data in it. Then the whole log is replayed into the engine before the engine receives any view.

use std::fmt;

use weft_cluster::Incarnation;
use weft_kv::Parameters;
use weft_kv::journal::{HOST, Opening, What};
use weft_kv::message::{Cut, Kind};
use weft_store::{Disk, DiskError, RecoveryError};
use weft_time::Instant;

use crate::half::{HostHalf, HostIo};
use crate::log::{self, Content, EngineLog, HostLog, Room};
#[cfg(feature = "planted-bugs")]
use crate::planted::LogBug;

/// Request to the engine at the start of a snapshot: note how far entries are accepted.
const MARK: u8 = 0;
/// Request to the engine for the first part of a snapshot.
const BEGINNING: u8 = 1;
/// Position that stands for the end of the last part.
const END: u32 = u32::MAX;

/// The sizes of the store for an engine with these parameters.
pub fn store_parameters(engine: &Parameters) -> weft_store::Parameters {
    // Bytes of a snapshot: the table, the last entries with their headers, half as many again that the log has no room
    // for, and the sessions.
    let entries = engine.kept_bytes() / 2 * 3;
    log::store_parameters(engine.memory_bytes() + entries + (engine.sessions + 16 * engine.window) * 512)
}

impl EngineLog {
    /// Opens the log of a key-value store on a disk, or creates one for a node that starts without data, in incarnation
    /// `fresh`. `wait` returns when a flush may have ended. A chunk of a snapshot, 64 KiB, must fit into a batch of
    /// `sizes`.
    ///
    /// # Errors
    /// The disk fails, or has a log of an engine with other sizes. A damaged log is no error: the node starts
    /// without data and fetches it from its peers.
    pub fn of_store(
        sizes: weft_store::Parameters,
        disk: Box<dyn Disk + Send>,
        fresh: Incarnation,
        wait: impl FnMut(),
    ) -> Result<Self, RecoveryError> {
        let (log, content) = HostLog::open(sizes, disk, fresh, wait, |_| true)?;
        Ok(Self { log, found: in_order(content) })
    }
}

/// The records of a log, in the order in which they are replayed.
pub(crate) fn in_order(content: Content) -> Vec<Vec<u8>> {
    let (behind_log, mut found): (Vec<_>, Vec<_>) =
        content.parts.into_iter().partition(|part| is_behind_log(part));
    found.extend(content.records.into_iter().chain(behind_log));
    found
}

/// Whether a record in a snapshot is one of those for which the log had no room. They follow the log.
fn is_behind_log(record: &[u8]) -> bool {
    matches!(What::of(record), Ok((What::Entry | What::Opening | What::Sealed, ..)))
}

/// State of a snapshot that is being written.
enum Snapshot {
    /// The engine was asked for the first part, and has not answered yet.
    Beginning,
    /// The engine has answered that it is too early for the first part.
    TooEarly,
    /// The engine was asked for a part of this kind.
    Asked(What),
    /// The next part to ask for: its kind, and its first position.
    Next(What, u32),
    /// All parts have arrived. They may reflect all records below number `until`, which must be on the disk with the
    /// snapshot. `added` of those for which the log has no room are in its chunks.
    Complete { until: u64, added: usize },
    /// The snapshot is complete and not durable yet.
    Ended,
}

/// The host half of a key-value engine with a log.
pub struct KvHalf {
    log: HostLog,
    /// Records found in the log when it was opened.
    found: Vec<Vec<u8>>,
    /// Number of records in the store before the first one of this engine.
    before: u64,
    /// Number of durable records that was last reported to the engine.
    told: u64,
    snapshot: Option<Snapshot>,
    /// Whether the engine was restored and has begun no epoch since.
    is_restored: bool,
    found_again: Option<Cut>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<LogBug>,
    /// Records that the planted bug logs late.
    #[cfg(feature = "planted-bugs")]
    late: Vec<Vec<u8>>,
}

/// Whether a deliberate bug of the half is switched on.
macro_rules! planted {
    ($half:expr, $bug:ident) => {{
        #[cfg(feature = "planted-bugs")]
        let planted = $half.planted_bug == Some(LogBug::$bug);
        #[cfg(not(feature = "planted-bugs"))]
        let planted = false;
        planted
    }};
}

impl fmt::Debug for KvHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvHalf")
            .field("before", &self.before)
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}

impl KvHalf {
    /// A half with this log.
    pub fn new(log: EngineLog) -> Self {
        let EngineLog { log, found } = log;
        Self {
            before: log.next_record(),
            log,
            found,
            told: 0,
            snapshot: None,
            is_restored: false,
            found_again: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            #[cfg(feature = "planted-bugs")]
            late: Vec::new(),
        }
    }

    /// The same half with a deliberate bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: LogBug) -> Self {
        Self { planted_bug: Some(bug), ..self }
    }

    /// The disk error that makes the node stop, if there was one.
    pub const fn failure(&self) -> Option<&DiskError> {
        self.log.failure()
    }

    /// What an engine that was restored from the log continues with: the epoch in which it had stopped, and how much of
    /// each stream of this epoch is there. `None` if it was not restored, or has begun no epoch since.
    pub fn found_again(&self) -> Option<&Cut> {
        self.found_again.as_ref()
    }

    /// Moves records, snapshot and flushes forward as far as possible.
    fn drive(&mut self, io: &mut HostIo<'_>) {
        #[cfg(feature = "planted-bugs")]
        if self.log.is_idle() {
            self.late.drain(..).for_each(|record| self.log.append(&record));
        }
        self.log.append_waiting();
        self.drive_snapshot(io);
        if !self.log.pump() {
            return;
        }
        let accepted = self.log.accepted();
        let durable = if planted!(self, ToldBeforeFlush) { accepted } else { self.log.durable() };
        let durable = durable.saturating_sub(self.before);
        if durable > self.told {
            self.told = durable;
            #[cfg(feature = "planted-bugs")]
            self.late.drain(..).for_each(|record| self.log.append(&record));
            io.call(HOST, Kind::Durable as u8, &durable.to_be_bytes());
            if let Some(Snapshot::TooEarly) = self.snapshot {
                self.snapshot = Some(Snapshot::Beginning);
                ask(io, BEGINNING, 0);
            }
        }
    }

    fn drive_snapshot(&mut self, io: &mut HostIo<'_>) {
        match self.snapshot {
            None => {
                if self.log.wants_snapshot() && self.log.begin_snapshot() {
                    self.snapshot = Some(Snapshot::Beginning);
                    if !planted!(self, SnapshotWithoutMark) {
                        ask(io, MARK, 0);
                    }
                    ask(io, BEGINNING, 0);
                }
            }
            Some(Snapshot::Next(what, from)) => {
                if self.has_room() {
                    self.snapshot = Some(Snapshot::Asked(what));
                    ask(io, what as u8, from);
                }
            }
            Some(Snapshot::Complete { until, added }) => self.complete_snapshot(until, added),
            Some(Snapshot::Ended) => {
                if !self.log.is_writing_snapshot() {
                    self.snapshot = None;
                }
            }
            Some(Snapshot::Beginning | Snapshot::TooEarly | Snapshot::Asked(_)) => {}
        }
    }

    /// Ends the snapshot once all records that it may reflect are on the disk. Otherwise, after a loss of power, the
    /// table would have entries that no log has. The log may have no room for the last of these records before the
    /// snapshot has ended, so they are added to the snapshot.
    fn complete_snapshot(&mut self, until: u64, added: usize) {
        let next = self.log.accepted();
        if self.log.durable() < until.min(next) {
            return;
        }
        let waiting = until.saturating_sub(next) as usize;
        for place in added..waiting {
            if !self.has_room() {
                if let Some(Snapshot::Complete { added, .. }) = &mut self.snapshot {
                    *added = place;
                }
                return;
            }
            self.log.add_waiting(place);
        }
        self.snapshot = match self.log.end_snapshot() {
            Room::Ready => Some(Snapshot::Ended),
            Room::Behind => Some(Snapshot::Complete { until, added: waiting }),
            Room::Abandoned => None,
        };
    }

    /// Whether another part may be requested.
    fn has_room(&mut self) -> bool {
        let room = self.log.room();
        if room == Room::Abandoned {
            self.snapshot = None;
        }
        room == Room::Ready
    }

    fn take_part(&mut self, payload: &[u8]) {
        let Some((next, record)) = payload.split_at_checked(8) else { return };
        let next = u32::from_be_bytes([next[0], next[1], next[2], next[3]]);
        if record.is_empty() {
            if let Some(Snapshot::Beginning) = self.snapshot {
                self.snapshot = Some(Snapshot::TooEarly);
            }
            return;
        }
        self.log.add_part(&[record]);
        let until = self.log.next_record();
        self.snapshot = match self.snapshot {
            Some(Snapshot::Beginning) => Some(Snapshot::Next(What::Slots, 0)),
            Some(Snapshot::Asked(What::Slots)) if next == END => Some(Snapshot::Next(What::Sessions, 0)),
            Some(Snapshot::Asked(What::Sessions)) if next == END => Some(Snapshot::Next(What::Kept, 0)),
            Some(Snapshot::Asked(What::Kept)) if next == END => Some(Snapshot::Complete { until, added: 0 }),
            Some(Snapshot::Asked(what)) => Some(Snapshot::Next(what, next)),
            // The answer belongs to a snapshot that was abandoned.
            _ => {
                self.log.drop_parts();
                None
            }
        };
    }
}

fn ask(io: &mut HostIo<'_>, what: u8, from: u32) {
    let from = from.to_be_bytes();
    io.call(HOST, Kind::Snapshot as u8, &[what, 0, 0, 0, from[0], from[1], from[2], from[3]]);
}

impl HostHalf for KvHalf {
    fn begin(&mut self, io: &mut HostIo<'_>) {
        let found = std::mem::take(&mut self.found);
        if found.is_empty() {
            return;
        }
        for record in found {
            io.call(HOST, Kind::Restore as u8, &record);
        }
        self.is_restored = true;
        io.call(HOST, Kind::Restored as u8, &[]);
    }

    fn replied(&mut self, _: Instant, token: u32, (kind, payload): (u8, &[u8]), _: &mut HostIo<'_>) {
        if token != HOST {
            return;
        }
        if kind == Kind::Record as u8 {
            if self.is_restored
                && let Ok((What::Opening, _, content)) = What::of(payload)
                && let Ok((opening, _)) = Opening::parse(content)
            {
                self.is_restored = false;
                self.found_again = (opening.closed != Opening::FOUNDED).then_some(opening.closed);
            }
            #[cfg(feature = "planted-bugs")]
            if planted!(self, StreamsApart) && payload[..2] == [What::Entry as u8, 0] {
                return self.late.push(payload.to_vec());
            }
            self.log.append(payload);
        } else if kind == Kind::SnapshotPart as u8 {
            self.take_part(payload);
        }
    }

    fn settle(&mut self, _: Instant, io: &mut HostIo<'_>) {
        self.drive(io);
    }

    fn rejoin(&mut self, _: Instant, incarnation: Incarnation, _: &mut HostIo<'_>) {
        self.snapshot = None;
        if planted!(self, StartOverKeepsLog) {
            self.log.forget_all_in_memory();
            (self.before, self.told) = (self.log.next_record(), 0);
            return;
        }
        (self.before, self.told, self.is_restored) = (0, 0, false);
        self.log.start_over(incarnation);
    }
}

#[cfg(test)]
mod tests {
    use weft_kv::message::Request;
    use weft_kv::{Kv, Operation};
    use weft_nic::HostCommand;
    use weft_waist::{
        Caller, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message,
        NodeId, NodeSet, View,
    };

    use super::*;
    use crate::half::CardPort;
    use crate::log::Loss;
    use crate::log::tests::Shared;

    const SIZES: weft_store::Parameters = weft_store::Parameters::new(20, 64, 320);

    fn engine() -> Parameters {
        Parameters {
            buckets: 256,
            ways: 4,
            value_bytes_max: 64,
            window: 64,
            durable_copies: 1,
            ..Parameters::default()
        }
    }

    /// The calls that a half makes to its card.
    #[derive(Default)]
    struct Calls(Vec<(u32, u8, Vec<u8>)>);

    impl CardPort for Calls {
        fn submit(&mut self, command: HostCommand<'_>) {
            if let HostCommand::Call { token, kind, payload, .. } = command {
                self.0.push((token, kind, payload.to_vec()));
            }
        }
        fn host_memory(&mut self) -> &mut Vec<u8> {
            panic!("the store keeps nothing in the host's memory")
        }
    }

    /// A single node: its engine and the half.
    struct Host {
        kv: Kv,
        memory: Memory,
        half: KvHalf,
        disk: Shared,
        answers: usize,
    }

    impl Host {
        fn start(disk: &Shared, fresh: u64) -> Self {
            Self::with(engine(), disk, fresh)
        }

        fn with(engine: Parameters, disk: &Shared, fresh: u64) -> Self {
            let ends = disk.clone();
            let fresh = Incarnation::new(fresh).unwrap();
            let wait = || assert!(ends.0.lock().unwrap().step());
            let log = EngineLog::of_store(SIZES, Box::new(disk.clone()), fresh, wait).unwrap();
            let memory = Memory::new(engine.memory_bytes());
            let kv = Kv::new(engine);
            let mut host = Self { kv, memory, half: KvHalf::new(log), disk: disk.clone(), answers: 0 };
            let mut calls = Calls::default();
            host.half.begin(&mut HostIo::new(0, &mut calls));
            host.carry_out(calls);
            host
        }

        fn carry_out(&mut self, calls: Calls) {
            for (token, kind, payload) in calls.0 {
                let message = Message { kind, payload: &payload };
                self.tell(Event::Call { caller: Caller::Host(token), message, last: true });
            }
        }

        fn tell(&mut self, event: Event<'_>) {
            let mut effects = Effects::default();
            let io = &mut Io { effects: &mut effects, memory: &mut self.memory };
            self.kv.handle(Instant::ZERO, event, io);
            let mut calls = Calls::default();
            for effect in effects.iter() {
                let Effect::Reply { to: Caller::Host(token), kind, payload } = effect else { continue };
                self.answers += usize::from(*token != HOST);
                let payload = effects.message(*kind, payload).payload;
                let io = &mut HostIo::new(0, &mut calls);
                self.half.replied(Instant::ZERO, *token, (*kind, payload), io);
            }
            self.half.settle(Instant::ZERO, &mut HostIo::new(0, &mut calls));
            self.carry_out(calls);
        }

        /// Executes all operations of the disk, one flush after the other.
        fn flush(&mut self) {
            while self.step() {}
        }

        /// Executes the operations of the disk up to the end of a flush. Returns `false` if there are none.
        fn step(&mut self) -> bool {
            let has_ended = self.disk.0.lock().unwrap().step();
            let mut calls = Calls::default();
            self.half.settle(Instant::ZERO, &mut HostIo::new(0, &mut calls));
            self.carry_out(calls);
            has_ended
        }

        fn configure(&mut self, epoch: u32) {
            let node = NodeId::new(0).unwrap();
            let view = View { epoch: Epoch(epoch), full: NodeSet::EMPTY.with(node), joining: NodeSet::EMPTY };
            self.tell(Event::Configure(Configuration { node, view, lease_until: Instant::FAR_FUTURE }));
            self.flush();
        }

        fn ask(&mut self, number: u64, operation: Operation, key: u64, value: &[u8]) {
            let key = key.to_be_bytes();
            let request = Request { operation, client: 9, request: number, expected: 0, key: &key, value };
            let payload = [&request.header()[..], &key, value].concat();
            let message = Message { kind: Kind::Request as u8, payload: &payload };
            self.tell(Event::Call { caller: Caller::Host(1), message, last: true });
        }
    }

    #[test]
    fn a_store_goes_on_from_its_snapshot_and_its_log() {
        let disk = Shared::new(&SIZES, 3);
        let mut host = Host::start(&disk, 5);
        host.configure(1);
        for number in 1..=1_000 {
            let (operation, value) = match number % 5 {
                0 => (Operation::Delete, &[][..]),
                _ => (Operation::Put, &[number as u8; 40][..]),
            };
            host.ask(number, operation, number % 37, value);
            if number % 3 == 0 {
                host.flush();
            }
        }
        host.flush();
        assert_eq!(host.answers, 1_000);
        let snapshots = host.half.log.store().snapshot();
        assert!(snapshots > 3, "{snapshots} snapshots");
        let digest = host.kv.state_digest(&host.memory);
        disk.0.lock().unwrap().cut_power();

        let mut host = Host::start(&disk, 6);
        assert_eq!(host.half.log.incarnation().get(), 5, "the data is that of the node's life");
        assert_eq!(host.kv.status().state, EngineState::Restored);
        host.configure(2);
        assert_eq!(host.kv.status().state, EngineState::Full);
        assert_eq!(host.kv.state_digest(&host.memory), digest);
        host.ask(1_001, Operation::Put, 1, b"more");
        assert_eq!(host.answers, 0, "it is not durable");
        host.flush();
        assert_eq!(host.answers, 1);
    }

    /// Writes to a single node that does not wait for its disk. The power fails as soon as a snapshot is complete.
    /// Returns whether all writes are found again that the snapshot might reflect, and the table is that after the last
    /// one that is found.
    fn lose_power(seed: u64) -> bool {
        let disk = Shared::new(&SIZES, seed);
        let engine =
            || Parameters { window: 512, disk_lag: Some(weft_time::Duration::from_secs(1)), ..engine() };
        let mut host = Host::with(engine(), &disk, 5);
        host.configure(1);
        let mut states = vec![host.kv.state_digest(&host.memory)];
        let (mut number, mut reflected) = (0, 0);
        let is_written = |host: &Host| host.half.log.store().snapshot() > seed % 3;
        while !is_written(&host) {
            number += 1;
            assert!(number < 20_000, "seed {seed}: no snapshot is complete");
            host.ask(number, Operation::Put, number % 991, &[number as u8; 60]);
            // The slower the disk, the more records have no room in the log.
            if number % (10 + 13 * seed) == 0 {
                host.step();
            }
            let counters = host.kv.counters();
            let (_, writes) = counters.iter().find(|(name, _)| *name == "writes_led").unwrap();
            if *writes as usize == states.len() {
                states.push(host.kv.state_digest(&host.memory));
            }
            let is_complete = matches!(host.half.snapshot, Some(Snapshot::Complete { .. } | Snapshot::Ended));
            if !is_complete && !is_written(&host) {
                reflected = states.len() - 1;
            }
        }
        disk.0.lock().unwrap().cut_power();
        let mut host = Host::with(engine(), &disk, 6);
        host.configure(2);
        let found = host.half.found_again().unwrap().lengths[0] as usize;
        found >= reflected && states[found] == host.kv.state_digest(&host.memory)
    }

    #[test]
    fn what_is_found_after_a_loss_of_power_is_what_was_there_at_some_time() {
        (0..12).for_each(|seed| assert!(lose_power(seed), "seed {seed}"));
    }

    #[test]
    fn a_snapshot_begins_once_though_flushes_end_before_the_engine_answers() {
        let disk = Shared::new(&SIZES, 3);
        let mut host = Host::start(&disk, 5);
        let mut calls = Calls::default();
        for _ in 0..60 {
            let io = &mut HostIo::new(0, &mut calls);
            host.half.replied(Instant::ZERO, HOST, (Kind::Record as u8, &[1; 200]), io);
            host.half.settle(Instant::ZERO, io);
            assert!(disk.0.lock().unwrap().step(), "the record is being written");
        }
        let begins = |payload: &[u8]| payload.first() == Some(&BEGINNING);
        let asked =
            calls.0.iter().filter(|(_, kind, payload)| *kind == Kind::Snapshot as u8 && begins(payload));
        assert!(host.half.log.wants_snapshot());
        assert_eq!(asked.count(), 1);
    }

    #[test]
    fn a_damaged_log_is_a_new_life() {
        let disk = Shared::new(&SIZES, 3);
        drop(Host::start(&disk, 5));
        disk.0.lock().unwrap().sectors_mut().fill(1);
        let host = Host::start(&disk, 6);
        assert!(matches!(host.half.log.loss(), Some(Loss::Damaged(_))));
        assert_eq!(host.half.log.incarnation().get(), 6);
        assert_eq!(host.kv.status().state, EngineState::Starting);
    }
}
