//! The engine: the state that its roles share, and the dispatch of events to them.

mod atomics;
mod commit;
mod coordinator;
mod disk;
mod join;
mod local;
mod one_sided;
mod participant;
mod recovery;
mod ship;
mod withdrawal;

use std::collections::VecDeque;
use std::mem::take;

use weft_time::Instant;
use weft_verbs::CompletionStatus;
use weft_waist::{
    Caller, Capabilities, Computation, Configuration, Effects, Engine, EngineState, EngineStatus, Event, Io,
    Memory, Message, NodeId, NodeSet, View,
};

use crate::counters::Counters;
use crate::engine::disk::DiskLog;
use crate::engine::join::Join;
use crate::engine::participant::Participants;
use crate::engine::recovery::{Phase, Recovery};
use crate::host_port::{HostKind, HostMessage, LOG_CALLER};
use crate::key::{Key, SHARDS_MAX, Version};
use crate::linked::{LINKED_TABLES, LinkedShape, LinkedTable};
use crate::log::Log;
use crate::message::{Body, Header, Kind, Malformed, Put, Reader, RecordPart};
use crate::operation::Operations;
use crate::parameters::{Parameters, PlantedBug};
use crate::procedure::Execution;
use crate::procedure::Procedures;
use crate::room::Room;
use crate::shard::{Placement, Shards};
use crate::store::Report;
use crate::transaction::TransactionId;
use crate::window::Window;
use one_sided::OneSided;

const TIMER_TICK: u32 = 0;
/// The highest byte of a tag gives its purpose.
pub(crate) const TAG_LOG: u64 = 1 << 56;
pub(crate) const TAG_LOOKUP: u64 = 2 << 56;
pub(crate) const TAG_VERB: u64 = 3 << 56;
pub(crate) const TAG_MASK: u64 = 0x7f << 56;

/// Reads and writes of an attempt, recorded for a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The attempt.
    pub id: TransactionId,
    /// Reads: key, version, value.
    pub reads: Vec<(Key, Version, Option<Vec<u8>>)>,
    /// Writes: key, version, value.
    pub writes: Vec<(Key, Version, Option<Vec<u8>>)>,
}

/// The transaction engine of a card. It is the coordinator of the transactions that its host calls, the
/// primary of a shard, and a backup of other shards.
///
/// The calls that it accepts are those in [`crate::host`], and only from its own host.
pub struct Transactions {
    pub(crate) parameters: Parameters,
    pub(crate) procedures: Procedures,
    pub(crate) node: usize,
    pub(crate) view: View,
    pub(crate) lease_until: Instant,
    pub(crate) state: EngineState,
    /// For each shard: the nodes that log its writes, and the node that holds its locks.
    pub(crate) replicas: [NodeSet; SHARDS_MAX],
    pub(crate) primaries: [Option<usize>; SHARDS_MAX],
    pub(crate) shards: Shards,
    /// Counts the versions that were drawn in this epoch.
    pub(crate) number: u64,
    pub(crate) log: Log,
    /// Log position up to which the host was notified that it may apply records.
    reported: u64,
    pub(crate) window: Window,
    pub(crate) participants: Participants,
    pub(crate) operations: Operations,
    /// Executions of transactions that other nodes have shipped to this one.
    pub(crate) executions: Vec<Execution>,
    pub(crate) recovery: Recovery,
    pub(crate) join: Join,
    pub(crate) disk: DiskLog,
    pub(crate) one_sided: OneSided,
    /// Result of a READ.
    pub(crate) read_bytes: Vec<u8>,
    pub(crate) now: Instant,
    /// Number of events handled.
    pub(crate) events: u64,
    loopback: VecDeque<(Kind, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    pub(crate) scratch: Vec<u8>,
    /// A buffer for records that have become durable.
    pub(crate) places: Vec<RecordPart>,
    armed: bool,
    pub(crate) counters: Counters,
    pub(crate) records: Vec<Recorded>,
}

impl Transactions {
    /// An engine that has not been configured.
    ///
    /// # Panics
    /// If the parameters are invalid.
    pub fn new(parameters: Parameters, procedures: Procedures, placement: Placement) -> Self {
        parameters.check();
        Self::with_window(parameters, procedures, placement, Window::new(parameters.window))
    }

    /// An engine that has not been configured, with an empty window.
    fn with_window(
        parameters: Parameters,
        procedures: Procedures,
        placement: Placement,
        window: Window,
    ) -> Self {
        let shards = Shards::new(&parameters, placement);
        let logs = parameters.variant.log_at_primary || shards.are_in_engine();
        let linked = match placement {
            Placement::Linked { shape, .. } => Some(shape),
            _ => None,
        };
        assert!(
            linked.is_some() || !parameters.variant.needs().verbs,
            "verbs reach tables in the engine's memory"
        );
        let no_table = LinkedTable { buckets: 1, linked: 0, value_bytes_max: 0 };
        let no_tables = LinkedShape { tables: [no_table; LINKED_TABLES], bucket_slots: 1 };
        let one_sided = OneSided::new(&parameters, &linked.unwrap_or(no_tables));
        assert!(!parameters.has_disk || !shards.are_in_engine(), "a host with a log has the tables, too");
        assert!(logs, "a primary that gets its values with COMMIT has its tables near");
        Self {
            node: 0,
            view: View::default(),
            lease_until: Instant::ZERO,
            state: EngineState::Starting,
            replicas: [NodeSet::EMPTY; SHARDS_MAX],
            primaries: [None; SHARDS_MAX],
            number: 0,
            log: Log::new(0, parameters.log_bytes, parameters.has_disk),
            reported: 0,
            window,
            participants: Participants::new(parameters.nodes, parameters.window),
            operations: Operations::new(parameters.operations),
            executions: Vec::new(),
            recovery: Recovery::default(),
            join: Join::default(),
            disk: DiskLog::default(),
            one_sided,
            read_bytes: Vec::new(),
            now: Instant::ZERO,
            events: 0,
            loopback: VecDeque::new(),
            spare: Vec::new(),
            scratch: Vec::new(),
            places: Vec::new(),
            armed: false,
            counters: Counters::default(),
            records: Vec::new(),
            parameters,
            procedures,
            shards,
        }
    }

    /// Bytes of memory that the engine needs.
    pub fn memory_bytes(parameters: &Parameters, placement: &Placement) -> usize {
        parameters.log_bytes + Shards::memory_bytes(parameters, placement)
    }

    /// Reads and writes of attempts since the last call, if recording is on. Attempts that did not take
    /// effect are included.
    pub fn take_records(&mut self) -> Vec<Recorded> {
        take(&mut self.records)
    }

    /// The event counters.
    pub const fn counted(&self) -> &Counters {
        &self.counters
    }

    /// The tables of the shards, if the engine holds them itself.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Loads an object into the engine's own tables, before the node is configured.
    ///
    /// # Panics
    /// If the engine does not hold the tables itself.
    pub fn load(&mut self, key: Key, value: &[u8]) {
        self.shards.load(&Put { key, version: crate::LOADED, value: Some(value) });
    }

    /// Loads an object into the engine's memory, before the node is configured. For [`Placement::Linked`]
    /// only.
    pub fn load_linked(&mut self, memory: &mut Memory, key: Key, value: &[u8]) {
        self.shards.apply(memory, &Put { key, version: crate::LOADED, value: Some(value) });
    }

    /// The address at which peers find an object of this node's own shard. For [`Placement::Linked`] only.
    pub fn address_of(&self, memory: &Memory, key: Key) -> Option<u64> {
        self.shards.linked()?.address(memory, key)
    }

    /// Caches the address of an object at a peer ([`Transactions::address_of`]).
    pub fn remember(&mut self, key: Key, address: u64) {
        self.one_sided.remember(key, address);
    }

    /// Enters the position of an object in the host's table, before the node is configured. Afterwards the
    /// host half reports positions.
    pub fn learn(&mut self, report: &Report) {
        self.shards.learn(report);
    }

    /// Sets the free room of the host's table, before the node is configured. Afterwards the host half
    /// reports it. Without either, the table counts as empty.
    pub fn learn_room(&mut self, room: Room) {
        self.shards.learn_room(room);
    }

    /// Puts an object of the host's table into the card's index as if it had been looked up, before the node
    /// is configured. So a measurement can start with a warm index. Does nothing if the engine holds the
    /// tables itself, or if the index is full.
    pub fn warm(&mut self, key: Key, value: &[u8]) {
        self.shards.warm(key, value);
    }

    /// Whether nothing is outstanding: no attempt, no lock, no log record that the host has not applied.
    pub fn is_quiet(&self) -> bool {
        self.window.is_idle() && self.log.applied() == self.log.tail() && !self.participants.holds_locks()
    }

    pub(crate) fn bug(&self, bug: PlantedBug) -> bool {
        self.parameters.has(bug)
    }

    /// Whether the node takes part in transactions as long as it holds its lease: it is a full member, and
    /// the view change is complete.
    pub fn acts(&self) -> bool {
        self.state == EngineState::Full && self.recovery.acts()
    }

    /// Number of shards whose primary this node is, 0 while it takes no part; and the number of all shards.
    pub fn shards_led(&self) -> (u32, u32) {
        let own = self.primaries.iter().filter(|primary| **primary == Some(self.node)).count();
        (if self.acts() { own as u32 } else { 0 }, self.parameters.nodes as u32)
    }

    /// Whether the node takes part in transactions and holds its lease.
    pub(crate) fn serves(&self) -> bool {
        self.acts() && self.now < self.lease_until
    }

    pub(crate) fn is_primary(&self, shard: usize) -> bool {
        self.primaries[shard] == Some(self.node)
    }

    // Sending and handling of messages between engines.

    /// A new message that begins with its header, for [`Transactions::post`].
    pub(crate) fn message(&mut self) -> Vec<u8> {
        let mut out = self.spare.pop().unwrap_or_default();
        let (decided, truncated) = (self.window.decided(), self.window.truncated());
        Header { epoch: self.view.epoch, decided, truncated }.encode(&mut out);
        out
    }

    /// Sends a message to a set of nodes. This node may be one of them.
    pub(crate) fn post(&mut self, effects: &mut Effects, to: NodeSet, kind: Kind, message: Vec<u8>) {
        let node = NodeId::new(self.node).expect("a node");
        effects.send(to.without(node), kind as u8, &[&message]);
        if to.contains(node) {
            self.loopback.push_back((kind, message));
        } else {
            self.spare.push(message);
        }
    }

    pub(crate) fn post_to(&mut self, effects: &mut Effects, to: usize, kind: Kind, message: Vec<u8>) {
        self.post(effects, NodeSet::EMPTY.with(NodeId::new(to).expect("a node")), kind, message);
    }

    fn deliver(&mut self, from: usize, kind: u8, payload: &[u8], io: &mut Io<'_>) {
        if self.receive(from, kind, payload, io).is_err() {
            self.counters.malformed += 1;
        }
    }

    fn receive(&mut self, from: usize, kind: u8, payload: &[u8], io: &mut Io<'_>) -> Result<(), Malformed> {
        let kind = Kind::parse(kind)?;
        let mut reader = Reader(payload);
        let header = Header::parse(&mut reader)?;
        if header.epoch != self.view.epoch || from >= self.parameters.nodes {
            self.counters.other_epoch += 1;
            return Ok(());
        }
        let body = Body::parse(kind, reader)?;
        match body {
            Body::Report { asks, base, decided, part, parts, held } => {
                self.on_report(from, asks, (base, decided), (part, parts), &held, io);
                return Ok(());
            }
            Body::Settled { acts } => {
                self.on_settled(from, acts, io);
                return Ok(());
            }
            _ => {}
        }
        if body.of_coordinator().is_some_and(|id| id.coordinator() != from) {
            self.counters.stale += 1;
            return Ok(());
        }
        let keeps = self.keeps_logs()
            && matches!(
                body,
                Body::Log { .. } | Body::Withdraw { .. } | Body::Marks { .. } | Body::Copied(_)
            );
        if !self.serves() && !keeps {
            self.counters.not_serving += 1;
            return Ok(());
        }
        if from != self.node {
            self.on_watermarks(from, &header, io);
        }
        match body {
            Body::Execute { id, wants } => self.on_execute(id, &wants, io),
            Body::Lock { id, claims } => self.on_lock(id, &claims, io),
            Body::Validate { id, shard, seen } => self.on_validate(id, shard, &seen, io),
            Body::Log { place, shards, needs, writes } => self.on_log(place, shards, needs, &writes, io),
            Body::Withdraw { id } => self.on_withdraw(id, io),
            Body::End { id } => self.on_end(id, io),
            Body::Ship { id, procedure, input, wants, local } => {
                self.on_ship(id, procedure, input, &wants, &local, io)
            }
            Body::Marks { heard, written, applied, asks } => {
                self.on_marks(from, heard, (written, applied), asks, io);
            }
            // The messages below answer this node's own requests.
            Body::Executed { id, shard, status, atomic, got } => {
                self.on_executed(id, shard, status, atomic, &got, io)
            }
            Body::Locked { id, shard, status, drawn } => self.on_locked(id, shard, status, &drawn, io),
            Body::Validated { id, shard, status } => self.on_validated(id, shard, status, io),
            Body::Logged { place } => self.on_logged(from, place, io),
            Body::Refused { place, shards, lack } => self.on_refused(from, &place, shards, lack, io),
            Body::Withdrawn { id } => self.on_withdrawn(from, id, io),
            Body::Shipped { id, status, reason, shards, answer } => {
                self.on_shipped(id, status, reason, shards, answer, io);
            }
            Body::Copy { shard, from: cursor } => self.on_copy(from, shard, cursor, io),
            Body::Copied(page) => self.on_copied(from, &page, io),
            Body::Report { .. } | Body::Settled { .. } => unreachable!("handled above"),
        }
        Ok(())
    }

    fn on_marks(&mut self, from: usize, heard: u64, rings: (u64, u64), asks: bool, io: &mut Io<'_>) {
        self.window.heard(from, heard);
        self.window.truncate(self.others());
        let (written, applied) = rings;
        if self.parameters.variant.log_by_write {
            self.one_sided.heard(from, applied);
            self.apply_ring(from, written, io);
        }
        if asks {
            self.send_marks(from, false, io);
        }
    }

    fn send_marks(&mut self, to: usize, asks: bool, io: &mut Io<'_>) {
        let heard = self.participants.decided(to);
        let written = self.one_sided.decided(to, self.window.decided());
        let applied = self.one_sided.applied(to);
        let mut out = self.message();
        crate::message::write::marks(&mut out, heard, written, applied, asks);
        self.post_to(io.effects, to, Kind::Marks, out);
    }

    /// The other members.
    pub(crate) fn others(&self) -> NodeSet {
        self.view.members().without(NodeId::new(self.node).expect("a node"))
    }

    // Handling of the host's calls, and the host's part in applying the log.

    fn call(&mut self, caller: Caller, message: Message<'_>, io: &mut Io<'_>) {
        let Caller::Host(token) = caller else {
            self.counters.malformed += 1;
            return;
        };
        match HostMessage::parse(message.kind, message.payload) {
            Ok(HostMessage::Begin { procedure, input, wants }) => {
                self.begin(token, procedure, input, &wants, io)
            }
            Ok(HostMessage::Ran { id, step, added, writes, answer }) => {
                self.on_ran(id, step, &added, &writes, answer, io);
            }
            Ok(HostMessage::Local(executed)) => self.on_local(token, &executed, io),
            Ok(HostMessage::Wire { peer, wiring }) if peer < self.parameters.nodes => {
                self.one_sided.wire(peer, wiring);
            }
            Ok(HostMessage::Applied { upto, room, reports }) => {
                self.learn_all(room, reports);
                self.on_applied(upto, io);
            }
            Ok(HostMessage::Mismatch) => self.stop_on_mismatch(),
            Ok(HostMessage::Durable { count }) => self.on_disk(count, io),
            Ok(HostMessage::Snapshot) => self.send_state(io),
            Ok(HostMessage::Saved { epoch }) => self.on_saved(epoch),
            Ok(HostMessage::Restore(entry)) if self.state == EngineState::Starting => {
                if self.restore(&entry, io).is_err() {
                    self.counters.malformed += 1;
                }
            }
            Ok(HostMessage::Restored) if self.state == EngineState::Starting => self.on_restored(),
            Ok(HostMessage::Page { epoch, peer, bytes, .. }) => self.on_page(epoch, peer, bytes, io),
            // A page of a copy that an earlier view began: it is ignored.
            Ok(HostMessage::Kept { epoch, .. }) if epoch != self.view.epoch => {}
            Ok(HostMessage::Kept { shard, next, room, reports, .. }) => {
                self.learn_all(room, reports);
                self.on_kept(shard, next, io);
            }
            _ => self.counters.malformed += 1,
        }
    }

    /// The host reports the positions of objects that its table has moved, and the table's free room.
    fn learn_all(&mut self, room: Room, reports: &[u8]) {
        self.shards.learn_room(room);
        for report in reports.chunks_exact(Report::BYTES) {
            self.shards.learn(&Report::parse(report.try_into().expect("as long as a report")));
        }
    }

    /// The host has applied the log up to position `upto`.
    fn on_applied(&mut self, upto: u64, io: &mut Io<'_>) {
        let (log, shards) = (&mut self.log, &mut self.shards);
        log.release(upto, |entry, keys| {
            if entry.pinned {
                keys.for_each(|key| shards.unpin(key, upto));
            }
        });
        self.after_release(io);
    }

    /// Applies records that are durable and decided. The host does that, or the engine at once if it holds
    /// the tables.
    fn hand_over(&mut self, io: &mut Io<'_>) {
        let decided = self.log.decided();
        if decided == self.log.applied() {
            return;
        }
        if self.shards.are_in_engine() {
            self.apply_near(io);
            self.after_release(io);
        } else if self.reported == self.log.applied() {
            self.reported = decided;
            io.effects.reply(LOG_CALLER, HostKind::Decided as u8, &[&decided.to_be_bytes()]);
        }
    }

    fn apply_near(&mut self, io: &mut Io<'_>) {
        let (memory, effects) = (&mut *io.memory, &mut *io.effects);
        let decided = self.log.decided();
        let (mut bytes, mut is_astray) = (take(&mut self.scratch), false);
        let (base, capacity, shards) = (self.log.near(0), self.parameters.log_bytes as u64, &mut self.shards);
        self.log.release(decided, |entry, _| {
            if entry.verdict == crate::message::Verdict::Committed {
                bytes.clear();
                bytes.extend_from_slice(
                    memory.read(base + (entry.position % capacity) as usize, entry.length),
                );
                let record = crate::log::parse(&bytes).expect("written by this engine");
                for write in record.writes() {
                    effects.computed(Computation::Apply);
                    is_astray |= shards.apply_write(memory, &write).is_err();
                }
            }
        });
        self.scratch = bytes;
        if is_astray {
            self.stop_on_mismatch();
        }
    }

    /// Stops the node, because a decided record does not fit the tables. Either the record holds a difference
    /// to a value that this node does not have, or the table has no room for it: a copied shard is laid out
    /// otherwise than the original, or a peer has declared too little room for its writes. The node must not
    /// serve from such tables.
    pub(crate) fn stop_on_mismatch(&mut self) {
        self.counters.strays += 1;
        self.stop();
    }

    /// Stops the node: it takes no part in transactions until it is restarted.
    pub(crate) fn stop(&mut self) {
        self.state = EngineState::Lost;
        self.recovery.phase = Phase::Idle;
    }

    // The timer, new configurations, and completions of copies.

    fn is_busy(&self) -> bool {
        !self.window.is_idle()
            || self.recovery.is_busy()
            || self.is_copying()
            || self.window.wants_to_be_heard(self.others())
    }

    fn tick(&mut self, io: &mut Io<'_>) {
        self.armed = false;
        if self.state == EngineState::Starting {
            return;
        }
        self.repeat_recovery(io);
        if self.serves() {
            self.repeat_requests(io);
            let decided = self.window.decided();
            for peer in self.others().iter() {
                if self.window.heard_by(peer.index()) < decided {
                    self.send_marks(peer.index(), true, io);
                }
            }
        }
    }

    fn finish_event(&mut self, io: &mut Io<'_>) {
        while let Some((kind, message)) = self.loopback.pop_front() {
            self.deliver(self.node, kind as u8, &message, io);
            self.spare.push(message);
        }
        self.hand_over(io);
        if !self.armed && self.is_busy() {
            self.armed = true;
            io.effects.set_timer(TIMER_TICK, self.now + self.parameters.tick);
        }
    }

    fn configure(&mut self, configuration: Configuration, io: &mut Io<'_>) {
        self.node = configuration.node.index();
        assert!(self.node < self.parameters.nodes, "a node of the founding ring");
        self.lease_until = configuration.lease_until;
        if take(&mut self.recovery.is_restored) {
            // The former process may have taken part in a change to this view, with records that are lost. As long as
            // this node is restored, the membership service publishes another view.
            self.view.epoch = self.view.epoch.max(configuration.view.epoch);
        }
        if configuration.view.epoch > self.view.epoch {
            self.change_view(configuration.view, io);
        }
    }

    /// Assigns the replicas and the primary of each shard in the current view. The candidates are the
    /// `replicas` nodes from the shard's own node on. Those of them that are full or joining members
    /// replicate the shard; the first full one is the primary.
    pub(crate) fn place_shards(&mut self) {
        let nodes = self.parameters.nodes;
        for shard in 0..nodes {
            let ring = (0..self.parameters.replicas)
                .map(|step| NodeId::new((shard + step) % nodes).expect("a node"));
            let (full, members) = (self.view.full, self.view.members());
            self.replicas[shard] = ring.clone().filter(|&node| members.contains(node)).collect();
            self.primaries[shard] = ring.clone().find(|&node| full.contains(node)).map(NodeId::index);
        }
    }

    /// Draws the next version of this epoch.
    pub(crate) fn draw(&mut self) -> Version {
        self.number += 1;
        Version::new(self.view.epoch, self.number)
    }

    /// Handles the completion of the copy that was posted with `tag`.
    fn done(&mut self, tag: u64, status: CompletionStatus, io: &mut Io<'_>) {
        match tag & TAG_MASK {
            TAG_LOG => self.on_copied_to_host(tag & !TAG_MASK, io),
            TAG_LOOKUP => self.on_lookup(tag & !TAG_MASK, io),
            TAG_VERB => self.on_verb(tag & !TAG_MASK, status, io),
            _ => unreachable!("no such tag was used"),
        }
    }

    pub(crate) fn record(&mut self, id: TransactionId, execution: &Execution) {
        if !self.parameters.record {
            return;
        }
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (index, access) in execution.accesses().iter().enumerate() {
            if access.mode.reads() && execution.fetched(index) {
                let value = execution.value(index).map(<[u8]>::to_vec);
                reads.push((access.key, execution.read_version(index), value));
            }
            match execution.written(index) {
                crate::Written::Nothing => {}
                crate::Written::Deleted => writes.push((access.key, execution.new_version(index), None)),
                crate::Written::Value(value) => {
                    writes.push((access.key, execution.new_version(index), Some(value.to_vec())));
                }
            }
        }
        self.records.push(Recorded { id, reads, writes });
    }

    pub(crate) fn reset_log_mark(&mut self) {
        self.reported = self.log.applied();
    }
}

impl Engine for Transactions {
    const NEEDS: Capabilities = Capabilities::ALL;

    fn needs(&self) -> Capabilities {
        let copies = Capabilities { host_memory: !self.shards.are_in_engine(), ..Capabilities::CORE };
        copies | self.parameters.variant.needs()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        self.now = now;
        self.events += 1;
        match event {
            Event::Reset => {
                let placement = self.shards.placement();
                // The records stay until a checker has taken them.
                let records = take(&mut self.records);
                let window = self.window.take_emptied();
                *self = Self::with_window(self.parameters, self.procedures.clone(), placement, window);
                self.records = records;
            }
            Event::Configure(configuration) => self.configure(configuration, io),
            Event::Call { caller, message, .. } => self.call(caller, message, io),
            Event::Deliver { from, message, .. } => {
                self.deliver(from.index(), message.kind, message.payload, io)
            }
            Event::Done { tag, status } => self.done(tag, status, io),
            Event::Timer { tag } if tag == TIMER_TICK => self.tick(io),
            Event::Timer { .. } => {}
        }
        self.finish_event(io);
    }

    fn status(&self) -> EngineStatus {
        EngineStatus { epoch: self.view.epoch, state: self.state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.list()
    }

    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        let awaited = match self.recovery.phase {
            Phase::Acting => self.window.waits_for(&self.primaries),
            _ => self.recovery.waits_for(self.view.full),
        };
        let mark = u64::from(self.view.epoch.0) << 40 | self.window.decided();
        awaited.contains(peer).then_some(mark)
    }
}

impl std::fmt::Debug for Transactions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transactions")
            .field("node", &self.node)
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}
