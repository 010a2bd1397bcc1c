//! The engine: how it handles each event.

mod backup;
mod calls;
mod durability;
mod joining;
mod recovery;
mod streams;

use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effects, Engine, EngineState, EngineStatus, Epoch, Event, Io, Memory, Message,
    NODES_MAX, NodeId, NodeSet, View,
};

use crate::counters::Counters;
use crate::journal::{HOST, Opening};
use crate::message::{
    Acknowledge, CUTS_MAX, Commit, Cut, EntryRequest, Kind, Lengths, Malformed, Reply, Sealed, StateChunk,
    StateRequest, Status, Write,
};
use crate::parameters::{Parameters, PlantedBug};
use crate::placement::PARTITIONS;
use crate::session::Sessions;
use crate::stream::{Following, Leading, Pace};
use crate::table::{SlotNumber, Table};
use crate::transfer::{Records, Transfer};
use crate::view_change::ViewChange;
use crate::waiting::WaitingReads;
use crate::window::{Entry, NO_READER, Window};
use backup::Backup;
use durability::LogProgress;

/// Low bits of a version: the number of the write within its epoch.
const NUMBER_BITS: u32 = 40;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Timer numbers: 0 to `NODES_MAX` - 1 are one per followed stream, then these.
const TIMER_LEAD: u32 = NODES_MAX as u32;
const TIMER_SEAL: u32 = TIMER_LEAD + 1;
const TIMER_TRANSFER: u32 = TIMER_SEAL + 1;

/// The version of a write.
pub const fn version(epoch: Epoch, number: u64) -> u64 {
    (epoch.0 as u64) << NUMBER_BITS | number
}

/// The epoch in which a write was given its version.
pub const fn epoch_of(version: u64) -> Epoch {
    Epoch((version >> NUMBER_BITS) as u32)
}

/// Role of a node in the current view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Not a member, or without any view yet.
    Outside,
    /// Fetches its state; accepts and acknowledges writes, but neither serves nor leads.
    Joining,
    /// A full member between two epochs: it waits until it has received what the others had accepted.
    Sealed,
    /// A full member: serves while it holds its lease.
    Full,
    /// Listed as a full member without having the data. It never serves; it has to join again under a new
    /// incarnation.
    Lost,
}

/// The replicated key-value engine of one node.
///
/// An engine starts empty. If the first view that it receives is epoch 1 and lists it as full, the cluster is
/// founded and the node is full at once. Therefore a process that has restarted must never receive epoch 1 with
/// itself as a full member. It has to be listed as joining, under a new incarnation. If a view lists it as full
/// before it has reported that it is synced, it is [`Role::Lost`]. A founder whose first view is later than epoch
/// 1 is lost, too: it cannot tell itself from a node that has lost its memory. So the founding is complete once
/// all founders report epoch 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kv {
    parameters: Parameters,
    key_field: usize,
    counters: Counters,

    node: NodeId,
    view: View,
    lease_until: Instant,
    role: Role,
    /// Leader of each partition: the view's map, computed once per view.
    leaders: [u8; PARTITIONS as usize],

    /// The epoch to which the windows' streams belong, and its members; 0 if there is none.
    base: Epoch,
    base_members: NodeSet,
    /// The full members of that epoch.
    base_full: NodeSet,
    /// Whether the table is complete. A joining node's table is incomplete until its state transfer has ended.
    complete: bool,

    table: Table,
    sessions: Sessions,
    windows: Vec<Window>,
    waiting: WaitingReads,

    leading: Leading,
    following: [Following; NODES_MAX],
    /// Leaders that this node acknowledges at the end of the batch of messages.
    acknowledge_due: NodeSet,

    view_change: ViewChange,
    seal_pace: Pace,
    cuts: [Cut; CUTS_MAX],

    transfer: Transfer,
    /// Buffer in which a chunk for a joining node is composed.
    donation: Records,
    /// Buffer for the keys that a scan has found.
    scanned: Vec<u8>,
    backup: Backup,
    /// Progress of the host's log; see [`durability`].
    logged: LogProgress,
    /// See [`Kv::recovered_from_disks`].
    recovered_from_disks: Option<Epoch>,
}

impl Kv {
    /// An engine without a view yet.
    ///
    /// # Panics
    /// If the parameters are out of range; see [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Self {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        let node = NodeId::new(0).expect("node 0 exists");
        Self {
            key_field: parameters.key_field(),
            counters: Counters::default(),
            node,
            view: View::default(),
            lease_until: Instant::ZERO,
            role: Role::Outside,
            leaders: [0; PARTITIONS as usize],
            base: Epoch(0),
            base_members: NodeSet::EMPTY,
            base_full: NodeSet::EMPTY,
            complete: false,
            table: Table::new(&parameters),
            sessions: Sessions::new(&parameters),
            windows: (0..NODES_MAX).map(|_| Window::new(&parameters)).collect(),
            waiting: WaitingReads::new(parameters.waiting_reads),
            leading: Leading::new(&parameters),
            following: [Following { gap: false, pace: Pace::new(&parameters) }; NODES_MAX],
            acknowledge_due: NodeSet::EMPTY,
            view_change: ViewChange::idle(node),
            seal_pace: Pace::new(&parameters),
            cuts: [Cut::default(); CUTS_MAX],
            transfer: Transfer::new(&parameters),
            donation: Records::new(&parameters),
            scanned: Vec::with_capacity(parameters.chunk_bytes),
            backup: Backup::default(),
            logged: LogProgress::new(&parameters),
            recovered_from_disks: None,
            parameters,
        }
    }

    /// The parameters that the engine was made with.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Role of the node in the current view. It distinguishes more than [`Engine::status`] does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Number of partitions, out of [`PARTITIONS`], that this node leads; 0 unless it is a full member.
    pub fn partitions_led(&self) -> u32 {
        let own = self.leaders.iter().filter(|leader| usize::from(**leader) == self.node.index());
        if self.role == Role::Full { own.count() as u32 } else { 0 }
    }

    /// Number of clients with a session, and the most there can be.
    pub fn sessions(&self) -> (usize, usize) {
        (self.sessions.count(), self.parameters.sessions)
    }

    /// Number of writes, over all streams, that are accepted and not known to be committed.
    pub fn undecided(&self) -> u64 {
        self.windows.iter().map(|window| window.accepted() - window.committed()).sum()
    }

    /// The newest epoch whose streams the node took from disks alone, because no member had them in memory any more.
    /// Where writes are committed without waiting for disks, the last ones of this epoch may be lost.
    pub fn recovered_from_disks(&self) -> Option<Epoch> {
        self.recovered_from_disks
    }

    /// Resets the counters to zero. A model checker then treats states as equal that differ only in the counters.
    pub fn forget_counters(&mut self) {
        self.counters = Counters::default();
        self.sessions.forced_evictions = 0;
    }

    /// A digest of the committed content of the engine's memory. Two nodes have equal digests if, and except for
    /// hash collisions only if, they hold the same keys with the same versions and values. The digest reads the
    /// whole memory; these accesses are not counted.
    pub fn state_digest(&self, memory: &Memory) -> u64 {
        self.table.digest(memory)
    }

    // Configuration and view changes.

    fn configure(&mut self, now: Instant, configuration: Configuration, io: &mut Io<'_>) {
        let view = configuration.view;
        if view.epoch < self.view.epoch || (view.epoch == self.view.epoch && view != self.view) {
            self.counters.configurations_ignored += 1;
            return;
        }
        self.node = configuration.node;
        self.lease_until = configuration.lease_until;
        if view.epoch == self.view.epoch {
            return;
        }
        self.refuse_waiting(io);
        self.view = view;
        self.acknowledge_due = NodeSet::EMPTY;
        for (partition, leader) in (0..).zip(&mut self.leaders) {
            *leader = view.leader(partition).map_or(0, |node| node.index() as u8);
        }
        self.logged.awaits_view = false;
        if view.joining.contains(self.node) {
            self.join(now, io);
        } else if !view.full.contains(self.node) {
            self.leave(Role::Outside, io);
        } else if self.base == Epoch(0) && view.epoch == Epoch(1) {
            self.begin_epoch(Role::Full);
            self.complete = true;
            self.log_opening(Opening::FOUNDED, io);
        } else if self.base != Epoch(0) && self.complete && u64::from(view.epoch.0) < 1 << (64 - NUMBER_BITS)
        {
            self.seal(now, io);
        } else {
            self.leave(Role::Lost, io);
        }
    }

    /// Drops the streams, the view change and the transfer of the current membership, and takes `role`.
    fn leave(&mut self, role: Role, io: &mut Io<'_>) {
        self.drop_undecided(io);
        self.backup.end();
        self.role = role;
        self.logged.leave();
        self.base = Epoch(0);
        self.complete = false;
        self.transfer.begin(NodeSet::EMPTY);
        self.view_change = ViewChange::idle(self.node);
    }

    fn join(&mut self, now: Instant, io: &mut Io<'_>) {
        self.leave(Role::Joining, io);
        self.begin_epoch(Role::Joining);
        self.table.clear(io.memory);
        self.sessions.clear();
        self.cuts = [Cut::default(); CUTS_MAX];
        self.transfer.begin(self.view.full);
        self.transfer.pace.progress(now);
        self.log_opening(Opening::FOUNDED, io);
        self.request_state(io.effects);
    }

    /// Restarts all streams for the epoch of the current view.
    fn begin_epoch(&mut self, role: Role) {
        self.role = role;
        self.base = self.view.epoch;
        (self.base_members, self.base_full) = (self.view.members(), self.view.full);
        self.windows.iter_mut().for_each(Window::reset);
        self.leading.reset(self.view.members().without(self.node));
        self.following.iter_mut().for_each(|following| following.gap = false);
        self.logged.begin_epoch();
    }

    fn seal(&mut self, now: Instant, io: &mut Io<'_>) {
        self.role = Role::Sealed;
        // The node may still be waiting to log the opening of an epoch. A newer one replaces it, and the node has
        // done nothing in the former.
        self.logged.opening = None;
        self.view_change = ViewChange::idle(self.node);
        let has_logs = self.parameters.is_durable();
        if has_logs && !self.logged.is_uncertain {
            self.log_sealing(io.effects);
        }
        if !has_logs || self.logged.is_uncertain || self.logged.is_sealed {
            self.report_accepted(now, io);
        }
    }

    /// Sends the other full members of the view the lengths that this node has accepted.
    fn report_accepted(&mut self, now: Instant, io: &mut Io<'_>) {
        let has_logs = self.parameters.is_durable();
        let is_certain = has_logs && !self.logged.is_uncertain;
        let own = Sealed {
            epoch: self.view.epoch,
            base: self.base,
            base_members: self.base_members,
            heard: NodeSet::EMPTY,
            certain: if is_certain { NodeSet::EMPTY.with(self.node) } else { NodeSet::EMPTY },
            accepted: std::array::from_fn(|stream| self.windows[stream].accepted()),
            cuts: self.cuts,
        };
        if self.view_change.own().is_some() {
            self.view_change.add(self.node, own);
        } else {
            self.view_change.begin(self.node, self.view.full, has_logs, own);
        }
        self.send_sealed(self.view.full.without(self.node), io.effects);
        self.seal_pace.progress(now);
        self.fetch_missing(io);
        self.try_cut(now, io);
    }

    fn send_sealed(&self, to: NodeSet, effects: &mut Effects) {
        if let Some(own) = self.view_change.own() {
            let mut bytes = [0; Sealed::BYTES_MAX];
            let length = own.encode(&mut bytes);
            effects.send(to, Kind::Sealed as u8, &[&bytes[..length]]);
        }
    }

    fn sealed(&mut self, now: Instant, from: NodeId, sealed: Sealed, io: &mut Io<'_>) {
        if !matches!(self.role, Role::Sealed | Role::Full) || !self.view.full.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        if self.role == Role::Sealed {
            self.view_change.add(from, sealed);
            self.seal_pace.progress(now);
            self.fetch_missing(io);
        }
        if self.view_change.is_news_to(&sealed) {
            self.send_sealed(NodeSet::EMPTY.with(from), io.effects);
        }
        if self.role == Role::Sealed {
            self.try_cut(now, io);
        }
    }

    fn try_cut(&mut self, now: Instant, io: &mut Io<'_>) {
        if self.logged.is_opening() {
            return;
        }
        match self.view_change.decide() {
            Ok(Some(lengths)) => self.cut(now, lengths, io),
            Ok(None) => arm(&mut self.seal_pace, TIMER_SEAL, io.effects),
            Err(_) => self.leave(Role::Lost, io),
        }
    }

    /// Cuts the streams of the base epoch at `lengths` and begins the streams of the view's epoch.
    fn cut(&mut self, now: Instant, lengths: Lengths, io: &mut Io<'_>) {
        let careless = self.parameters.planted(PlantedBug::LostUpdateOnFailover);
        let early = self.parameters.planted(PlantedBug::AcknowledgeBeforeReplicating);
        let stale = self.parameters.planted(PlantedBug::EpochNotChecked);
        for (stream, &length) in lengths.iter().enumerate() {
            let committed = self.windows[stream].committed();
            if length < committed && !early && !stale {
                // Some member no longer has entries that it had acknowledged: no state can be trusted.
                self.leave(Role::Lost, io);
                return;
            }
            self.commit_to(now, stream, if careless { committed } else { length }, io);
        }
        self.backup_at_cut();
        self.drop_undecided(io);
        self.cuts.rotate_right(1);
        let closed = Cut { epoch: self.base, lengths };
        self.cuts[0] = closed;
        self.begin_epoch(Role::Full);
        self.counters.view_changes += 1;
        self.log_opening(closed, io);
    }

    /// Discards the entries that are accepted and not committed.
    fn drop_undecided(&mut self, io: &mut Io<'_>) {
        for stream in 0..NODES_MAX {
            let window = &self.windows[stream];
            for number in window.committed() + 1..=window.accepted() {
                let (entry, _, _) = window.get(number);
                if let Some(slot) = entry.slot {
                    self.table.abandon(io.memory, slot);
                }
                if let Some(caller) = entry.caller {
                    self.sessions.clear_pending(entry.client, entry.request);
                    self.counters.refused_not_serving += 1;
                    answer(
                        self.view,
                        io.effects,
                        caller,
                        (entry.client, entry.request),
                        Status::NotServing,
                        0,
                        &[],
                    );
                }
                self.counters.entries_cut += 1;
            }
            self.windows[stream].reset();
        }
    }

    /// Refuses the reads that wait for a write, because their view ends. Their clients repeat them.
    fn refuse_waiting(&mut self, io: &mut Io<'_>) {
        for window in &mut self.windows {
            for number in window.committed() + 1..=window.accepted() {
                let first = &mut window.entry_mut(number).waiting;
                while let Some(read) = self.waiting.take(first) {
                    self.counters.refused_not_serving += 1;
                    answer(
                        self.view,
                        io.effects,
                        read.caller,
                        (read.client, read.request),
                        Status::NotServing,
                        0,
                        &[],
                    );
                }
            }
        }
    }

    // Handlers of events.

    fn deliver(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Message<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), Malformed> {
        let bytes = message.payload;
        match message.kind {
            kind if kind == Kind::Write as u8 => {
                let write = Write::parse(bytes, self.key_field)?;
                if !self.parameters.has(write.operation) {
                    return Err(Malformed::Operation(write.operation as u8));
                }
                self.replicated(now, from, &write, io);
            }
            kind if kind == Kind::Acknowledge as u8 => {
                self.acknowledged(now, from, Acknowledge::parse(bytes)?, io)
            }
            kind if kind == Kind::Commit as u8 => {
                let commit = Commit::parse(bytes)?;
                if !self.is_other_stream(commit.epoch) && self.follows(from) {
                    self.committed(now, from.index(), commit.committed, io);
                }
            }
            kind if kind == Kind::Sealed as u8 => {
                let sealed = Sealed::parse(bytes)?;
                if !self.is_other_epoch(sealed.epoch) {
                    self.sealed(now, from, sealed, io);
                }
            }
            kind if kind == Kind::EntryRequest as u8 => {
                self.entries_requested(from, EntryRequest::parse(bytes)?, io.effects)
            }
            kind if kind == Kind::Entry as u8 => {
                self.entry_arrived(now, from, &Write::parse(bytes, self.key_field)?, io)
            }
            kind if kind == Kind::StateRequest as u8 => {
                self.state_requested(from, StateRequest::parse(bytes)?, io)
            }
            kind if kind == Kind::StateChunk as u8 => {
                self.state_arrived(now, from, StateChunk::parse(bytes)?, io)
            }
            _ => return Err(Malformed::Field("kind")),
        }
        Ok(())
    }

    fn timer(&mut self, now: Instant, tag: u32, io: &mut Io<'_>) {
        match tag {
            TIMER_LEAD => {
                let own = self.node.index();
                let due = self.leading.pace.fire(now);
                let is_settled = self.windows[own].is_empty() && !self.leading.awaits_disks();
                if self.role != Role::Full || is_settled {
                    return;
                }
                if due {
                    self.repeat_writes(io.effects);
                }
                arm(&mut self.leading.pace, TIMER_LEAD, io.effects);
            }
            TIMER_SEAL => {
                let due = self.seal_pace.fire(now);
                if self.role == Role::Sealed {
                    if due {
                        self.send_sealed(self.view_change.missing().without(self.node), io.effects);
                        self.fetch_missing(io);
                    }
                    arm(&mut self.seal_pace, TIMER_SEAL, io.effects);
                }
            }
            tag if tag < TIMER_LEAD => {
                let stream = tag as usize;
                let due = self.following[stream].pace.fire(now);
                let Some(leader) = NodeId::new(stream) else { return };
                let follows = matches!(self.role, Role::Full | Role::Joining) && leader != self.node;
                if follows && !self.windows[stream].is_empty() {
                    if due {
                        self.acknowledge(leader, true, io.effects);
                    }
                    arm(&mut self.following[stream].pace, tag, io.effects);
                }
            }
            TIMER_TRANSFER => {
                let due = self.transfer.pace.fire(now);
                if due {
                    self.request_state(io.effects);
                } else if !self.transfer.is_done() {
                    arm(&mut self.transfer.pace, TIMER_TRANSFER, io.effects);
                }
            }
            _ => {}
        }
    }

    /// Sends, once for the whole batch of messages, the acknowledgements and the committed length that it caused.
    fn end_batch(&mut self, now: Instant, io: &mut Io<'_>) {
        self.resume_after_instant(now, io);
        if !self.acknowledge_due.is_empty() {
            for leader in std::mem::take(&mut self.acknowledge_due).iter() {
                self.acknowledge(leader, false, io.effects);
            }
        }
        let committed = self.windows[self.node.index()].committed();
        if self.role == Role::Full && self.leading.told < committed {
            self.leading.told = committed;
            let commit = Commit { epoch: self.base, committed };
            io.effects.send(self.leading.followers(), Kind::Commit as u8, &[&commit.encode()]);
        }
    }
}

impl Engine for Kv {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        let last = match event {
            Event::Reset => {
                let Self { counters, recovered_from_disks, .. } = *self;
                *self = Self { counters, recovered_from_disks, ..Self::new(self.parameters.clone()) };
                true
            }
            Event::Configure(configuration) => {
                self.configure(now, configuration, io);
                true
            }
            Event::Call { caller: Caller::Host(HOST), message, last } if self.parameters.is_durable() => {
                if self.handle_host_message(now, message, io).is_err() {
                    self.counters.dropped_malformed += 1;
                }
                last
            }
            Event::Call { caller, message, last } => {
                self.call(now, caller, message, io);
                last
            }
            Event::Deliver { from, message, last } => {
                if self.deliver(now, from, message, io).is_err() {
                    self.counters.dropped_malformed += 1;
                }
                last
            }
            Event::Timer { tag } => {
                self.timer(now, tag, io);
                true
            }
            // The engine posts no work requests, so no completion concerns it.
            Event::Done { .. } => true,
        };
        if last {
            self.end_batch(now, io);
        }
    }

    fn status(&self) -> EngineStatus {
        let state = match self.role {
            Role::Outside => EngineState::Starting,
            Role::Joining => EngineState::Joining { synced: self.complete },
            Role::Sealed if self.parameters.is_durable() => return self.sealed_status(),
            Role::Sealed | Role::Full => EngineState::Full,
            Role::Lost => EngineState::Lost,
        };
        EngineStatus { epoch: self.view.epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = Counters { sessions_evicted_early: self.sessions.forced_evictions, ..self.counters };
        counters.list()
    }

    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        let accepted = self.windows[self.node.index()].accepted();
        match self.role {
            Role::Joining => self.transfer.waits_for(peer),
            Role::Sealed if self.view_change.missing().contains(peer) => Some(u64::from(self.view.epoch.0)),
            Role::Full => self.leading.waits_for(peer, accepted),
            _ => None,
        }
    }
}

/// Why a chunk of state is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// This node has applied more of the stream than the chunk reflects.
    Stale,
    /// The chunk reflects more of the stream than this node has accepted.
    Contradiction,
    Malformed,
}

fn entry_of(write: &Write<'_>, slot: Option<SlotNumber>, caller: Option<Caller>) -> Entry {
    Entry {
        operation: write.operation,
        status: write.status,
        client: write.client,
        request: write.request,
        version: write.version,
        slot,
        caller,
        waiting: NO_READER,
        value_length: write.value.len() as u16,
    }
}

fn arm(pace: &mut Pace, tag: u32, effects: &mut Effects) {
    if let Some(at) = pace.arm() {
        effects.set_timer(tag, at);
    }
}

/// Answers the request whose `identity` is (client, request number).
fn answer(
    view: View,
    effects: &mut Effects,
    to: Caller,
    (client, request): (u64, u64),
    status: Status,
    version: u64,
    value: &[u8],
) {
    let reply = Reply { status, client, request, version, epoch: view.epoch, full: view.full, value };
    effects.reply(to, Kind::Reply as u8, &[&reply.header(), value]);
}
