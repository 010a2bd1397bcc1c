//! The engine: what every event does.

use std::ops::Range;

use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effects, Engine, EngineState, EngineStatus, Epoch, Event, Io, Memory, Message,
    NODES_MAX, NodeId, NodeSet, View,
};

use crate::counters::Counters;
use crate::message::{
    Acknowledge, CUTS_MAX, Commit, Cut, Kind, Lengths, Malformed, Operation, Reply, Request, Sealed,
    StateChunk, StateRequest, Status, What, Write,
};
use crate::parameters::{Parameters, PlantedBug};
use crate::placement::{PARTITIONS, Placement};
use crate::session::{Seen, Sessions};
use crate::stream::{Following, Leading, Pace};
use crate::table::{Header, Slot, Table};
use crate::transfer::{self, CHUNKS_MAX, END, Records, SCAN_MAX, Transfer};
use crate::view_change::ViewChange;
use crate::waiting::WaitingReads;
use crate::window::{Entry, NOBODY, Window};

/// Bits of a version that number the write within its epoch.
const NUMBER_BITS: u32 = 40;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// Timers: one per stream that is followed, then these.
const TIMER_LEAD: u32 = NODES_MAX as u32;
const TIMER_SEAL: u32 = TIMER_LEAD + 1;
const TIMER_TRANSFER: u32 = TIMER_SEAL + 1;

/// The version of a write.
pub const fn version(epoch: Epoch, number: u64) -> u64 {
    (epoch.0 as u64) << NUMBER_BITS | number
}

/// What a node is in the current view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Not a member, or not told of any view yet.
    Outside,
    /// Gets its state; accepts and acknowledges, but neither serves nor leads.
    Joining,
    /// A full member between two epochs: it waits for what the others had.
    Sealed,
    /// A full member: serves while it holds its lease.
    Full,
    /// Listed as a full member without the data for it. It never serves; it has to join as a new incarnation.
    Lost,
}

/// The replicated key-value engine of one node.
///
/// It starts empty. If the first view that it is told is epoch 1 and lists it as full, the cluster is founded and the
/// node is full at once; so a process that comes back must never be told epoch 1 again as a full member. It
/// has to be listed as joining, as a new incarnation; until it reports that it is synced, no view may list it as
/// full, or it is [`Role::Lost`]. That also befalls a founder whose first view is a later one: it cannot tell
/// itself from one that has forgotten everything. So founding is done when all founders report epoch 1.
#[derive(Clone, Debug)]
pub struct Kv {
    parameters: Parameters,
    key_field: usize,
    counters: Counters,

    node: NodeId,
    view: View,
    lease_until: Instant,
    role: Role,
    /// Who leads which partition: the view's map, computed once per view.
    leaders: [u8; PARTITIONS as usize],

    /// The epoch whose streams the windows hold, 0 if there is none, and its members.
    base: Epoch,
    base_members: NodeSet,
    /// Whether the table is complete; a joining node's is not at first.
    complete: bool,

    table: Table,
    sessions: Sessions,
    windows: Vec<Window>,
    waiting: WaitingReads,

    leading: Leading,
    following: [Following; NODES_MAX],
    /// Leaders to be acknowledged at the end of the batch.
    acknowledge_due: NodeSet,

    view_change: ViewChange,
    seal_pace: Pace,
    cuts: [Cut; CUTS_MAX],

    transfer: Transfer,
    /// Where a chunk for a joining node is composed.
    donation: Records,
}

impl Kv {
    /// An engine that is told no view yet.
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
            parameters,
        }
    }

    /// The parameters that the engine was made with.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// What the node is in the current view: finer than [`Engine::status`].
    pub fn role(&self) -> Role {
        self.role
    }

    /// How many writes are accepted and not known to be committed, over all streams.
    pub fn undecided(&self) -> u64 {
        self.windows.iter().map(|window| window.accepted() - window.committed()).sum()
    }

    /// A digest of the committed content of the engine's memory: equal on two nodes if and (but for hash collisions) only
    /// if they hold the same keys with the same versions and values. Reads the whole memory, uncounted.
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
        if view.joining.contains(self.node) {
            self.join(now, io);
        } else if !view.full.contains(self.node) {
            self.leave(Role::Outside, io);
        } else if self.base == Epoch(0) && view.epoch == Epoch(1) {
            self.begin_epoch(Role::Full);
            self.complete = true;
        } else if self.base != Epoch(0) && self.complete && u64::from(view.epoch.0) < 1 << (64 - NUMBER_BITS)
        {
            self.seal(now, io);
        } else {
            self.leave(Role::Lost, io);
        }
    }

    /// Forgets all that belongs to a membership.
    fn leave(&mut self, role: Role, io: &mut Io<'_>) {
        self.drop_undecided(io);
        self.role = role;
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
        self.request_state(io.effects);
    }

    /// All streams begin anew.
    fn begin_epoch(&mut self, role: Role) {
        self.role = role;
        self.base = self.view.epoch;
        self.base_members = self.view.members();
        self.windows.iter_mut().for_each(Window::reset);
        self.leading.reset(self.view.members().without(self.node));
        self.following.iter_mut().for_each(|following| following.gap = false);
    }

    fn seal(&mut self, now: Instant, io: &mut Io<'_>) {
        self.role = Role::Sealed;
        let own = Sealed {
            epoch: self.view.epoch,
            base: self.base,
            base_members: self.base_members,
            heard: NodeSet::EMPTY,
            accepted: std::array::from_fn(|stream| self.windows[stream].accepted()),
            cuts: self.cuts,
        };
        self.view_change.begin(self.node, self.view.full, own);
        self.send_sealed(self.view.full.without(self.node), io.effects);
        self.seal_pace.progress(now);
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
        }
        if !sealed.heard.contains(self.node) {
            self.send_sealed(NodeSet::EMPTY.with(from), io.effects);
        }
        if self.role == Role::Sealed {
            self.try_cut(now, io);
        }
    }

    fn try_cut(&mut self, now: Instant, io: &mut Io<'_>) {
        match self.view_change.decide() {
            Ok(Some(lengths)) => self.cut(now, lengths, io),
            Ok(None) => arm(&mut self.seal_pace, TIMER_SEAL, io.effects),
            Err(_) => self.leave(Role::Lost, io),
        }
    }

    /// Ends the streams of the base epoch and begins those of the view's.
    fn cut(&mut self, now: Instant, lengths: Lengths, io: &mut Io<'_>) {
        let careless = self.parameters.planted(PlantedBug::LostUpdateOnFailover);
        let early = self.parameters.planted(PlantedBug::AcknowledgeBeforeReplicating);
        let stale = self.parameters.planted(PlantedBug::EpochNotChecked);
        for (stream, &length) in lengths.iter().enumerate() {
            let committed = self.windows[stream].committed();
            if length < committed && !early && !stale {
                // Some member took back what it had acknowledged: no state can be trusted.
                self.leave(Role::Lost, io);
                return;
            }
            self.commit_to(now, stream, if careless { committed } else { length }, io);
        }
        self.drop_undecided(io);
        self.cuts.rotate_right(1);
        self.cuts[0] = Cut { epoch: self.base, lengths };
        self.begin_epoch(Role::Full);
        self.counters.view_changes += 1;
    }

    /// Entries that are accepted and not committed never happened.
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

    /// Reads that wait are refused when their view ends: their clients ask again.
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

    // Calls.

    fn may_serve(&self, now: Instant) -> bool {
        let leased = now < self.lease_until || self.parameters.planted(PlantedBug::EpochNotChecked);
        self.role == Role::Full && leased
    }

    fn call(&mut self, now: Instant, caller: Caller, message: Message<'_>, io: &mut Io<'_>) {
        if message.kind != Kind::Request as u8 {
            self.counters.dropped_malformed += 1;
            return;
        }
        let request = match Request::parse(message.payload, self.parameters.key_bytes) {
            Ok(request) if request.value.len() <= self.parameters.value_bytes_max => request,
            _ => {
                self.counters.refused_bad_request += 1;
                if let Some(identity) = Request::identity(message.payload) {
                    answer(self.view, io.effects, caller, identity, Status::BadRequest, 0, &[]);
                }
                return;
            }
        };
        let place = self.table.place(request.key);
        let leader = usize::from(self.leaders[place.partition() as usize]);
        let refusal = if !self.may_serve(now) {
            self.counters.refused_not_serving += 1;
            Err(Status::NotServing)
        } else if request.operation == Operation::Get {
            self.read(caller, &request, place, leader, io)
        } else if leader != self.node.index() {
            self.counters.refused_not_leader += 1;
            Err(Status::NotLeader)
        } else {
            self.write(now, caller, &request, place, io)
        };
        if let Err(status) = refusal {
            answer(self.view, io.effects, caller, (request.client, request.request), status, 0, &[]);
        }
    }

    /// Answers a get, or lets it wait for the write that was accepted last.
    fn read(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        place: Placement,
        leader: usize,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        let found = self.table.read(io.memory, place, request.key);
        let identity = (request.client, request.request);
        if let Some((header, _)) = found
            && header.is_undecided()
            && leader != self.node.index()
            && !self.parameters.planted(PlantedBug::StaleReadAtFollower)
        {
            let window = &mut self.windows[leader];
            let first = &mut window.entry_mut(header.latest & NUMBER_MASK).waiting;
            let Some(new_first) = self.waiting.add(*first, caller, request.client, request.request) else {
                self.counters.refused_busy += 1;
                return Err(Status::Busy);
            };
            *first = new_first;
            return Ok(());
        }
        self.counters.reads += 1;
        match found {
            Some((header, value)) if header.present => {
                answer(self.view, io.effects, caller, identity, Status::Ok, header.version, value);
            }
            _ => answer(self.view, io.effects, caller, identity, Status::NotFound, 0, &[]),
        }
        Ok(())
    }

    /// Executes a mutating request at the leader: appends it to the stream and sends it to the followers.
    fn write(
        &mut self,
        now: Instant,
        caller: Caller,
        request: &Request<'_>,
        place: Placement,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        let identity = (request.client, request.request);
        if !self.parameters.planted(PlantedBug::DuplicateApply) {
            match self.sessions.look_up(request.client, request.request) {
                Seen::Never => {}
                Seen::Recorded { status, version } => {
                    self.counters.duplicates_answered += 1;
                    answer(self.view, io.effects, caller, identity, status, version, &[]);
                    return Ok(());
                }
                Seen::Pending | Seen::Superseded => {
                    self.counters.duplicates_ignored += 1;
                    return Ok(());
                }
            }
        }
        let own = self.node.index();
        if self.windows[own].is_full() || self.windows[own].accepted() == NUMBER_MASK {
            self.counters.refused_busy += 1;
            return Err(Status::Busy);
        }
        if !self.sessions.admit(now, request.client) {
            self.counters.refused_sessions_full += 1;
            return Err(Status::SessionsFull);
        }
        self.sessions.mark_pending(request.client, request.request);

        let number = self.windows[own].accepted() + 1;
        let written = version(self.base, number);
        let (status, version, slot) = self.execute(request, place, written, io.memory);
        let value = if status == Status::Ok { request.value } else { &[] };
        let write = Write {
            epoch: self.base,
            operation: request.operation,
            status,
            number,
            committed: self.windows[own].committed(),
            client: request.client,
            request: request.request,
            version,
            key: request.key,
            value,
        };
        self.counters.writes_led += 1;
        if self.windows[own].is_empty() {
            self.leading.pace.progress(now);
        }
        self.windows[own].push(entry_of(&write, slot, Some(caller)), request.key, value);
        let followers = self.leading.followers();
        if !followers.is_empty() {
            io.effects.send(followers, Kind::Write as u8, &[&write.header(), request.key, value]);
            self.leading.told = write.committed;
            arm(&mut self.leading.pace, TIMER_LEAD, io.effects);
        }
        if followers.is_empty() || self.parameters.planted(PlantedBug::AcknowledgeBeforeReplicating) {
            self.commit_to(now, own, number, io);
        }
        Ok(())
    }

    /// Decides how a request ends, against the newest accepted state of its key, and claims the slot that it
    /// will change.
    fn execute(
        &mut self,
        request: &Request<'_>,
        place: Placement,
        written: u64,
        memory: &mut Memory,
    ) -> (Status, u64, Option<Slot>) {
        let found = self.table.find(memory, place, request.key);
        let current = found.map_or(0, |(_, header)| self.accepted_version(header));
        match request.operation {
            Operation::Delete if current == 0 => return (Status::NotFound, 0, None),
            Operation::CompareAndSet if current != request.expected => {
                return (Status::Mismatch, current, None);
            }
            _ => {}
        }
        let slot = match found {
            Some((slot, _)) => {
                self.table.note_latest(memory, slot, written);
                Some(slot)
            }
            None => self.table.claim_free(memory, place, request.key, written),
        };
        if slot.is_none() {
            self.counters.table_full += 1;
            return (Status::TableFull, 0, None);
        }
        (Status::Ok, written, slot)
    }

    /// The version of a key this node leads, as of the latest accepted write; 0 if the key is absent.
    fn accepted_version(&self, header: Header) -> u64 {
        let present = if header.is_undecided() {
            let (entry, _, _) = self.windows[self.node.index()].get(header.latest & NUMBER_MASK);
            entry.operation != Operation::Delete
        } else {
            header.present
        };
        if present { header.latest } else { 0 }
    }

    // Streams.

    /// Applies a stream up to `to`, which must be accepted: the table, the sessions, the answers.
    fn commit_to(&mut self, now: Instant, stream: usize, to: u64, io: &mut Io<'_>) {
        let serves = self.may_serve(now);
        while self.windows[stream].committed() < to {
            let number = self.windows[stream].committed() + 1;
            let (&entry, key, value) = self.windows[stream].get(number);
            if entry.changes() {
                self.counters.entries_applied += 1;
                let deletes = entry.operation == Operation::Delete;
                let slot = match entry.slot {
                    Some(slot) => Some(slot),
                    // A joining node claims nothing in advance.
                    None if deletes => {
                        let found = self.table.find(io.memory, self.table.place(key), key);
                        found.inspect(|&(slot, _)| self.table.note_latest(io.memory, slot, entry.version));
                        found.map(|(slot, _)| slot)
                    }
                    None => self.table.claim(io.memory, self.table.place(key), key, entry.version),
                };
                match slot {
                    Some(slot) if deletes => self.table.commit_delete(io.memory, slot, entry.version),
                    Some(slot) => self.table.commit_value(io.memory, slot, entry.version, key, value),
                    None => {}
                }
            }
            self.sessions.record(now, entry.client, entry.request, entry.status, entry.version);
            if let Some(caller) = entry.caller {
                let identity = (entry.client, entry.request);
                answer(self.view, io.effects, caller, identity, entry.status, entry.version, &[]);
            }
            let mut waiting = entry.waiting;
            while let Some(read) = self.waiting.take(&mut waiting) {
                self.counters.reads += 1;
                self.counters.reads_waited += 1;
                let (status, version, value) = match entry.operation {
                    _ if !serves => (Status::NotServing, 0, &[][..]),
                    Operation::Delete => (Status::NotFound, 0, &[][..]),
                    _ => (Status::Ok, entry.version, value),
                };
                answer(
                    self.view,
                    io.effects,
                    read.caller,
                    (read.client, read.request),
                    status,
                    version,
                    value,
                );
            }
            self.windows[stream].commit_next();
        }
    }

    fn is_other_epoch(&mut self, epoch: Epoch) -> bool {
        if epoch < self.view.epoch {
            self.counters.dropped_old_epoch += 1;
        } else if epoch > self.view.epoch {
            self.counters.dropped_future_epoch += 1;
        }
        epoch != self.view.epoch
    }

    /// As [`Kv::is_other_epoch`], for the messages of streams.
    fn is_other_stream(&mut self, epoch: Epoch) -> bool {
        self.is_other_epoch(epoch) && !self.parameters.planted(PlantedBug::EpochNotChecked)
    }

    /// Whether this node follows the stream of `from`.
    fn follows(&mut self, from: NodeId) -> bool {
        let follows = matches!(self.role, Role::Full | Role::Joining) && self.view.full.contains(from);
        self.counters.dropped_wrong_role += u64::from(!follows || from == self.node);
        follows && from != self.node
    }

    fn replicated(&mut self, now: Instant, from: NodeId, write: &Write<'_>, io: &mut Io<'_>) {
        if self.is_other_stream(write.epoch) || !self.follows(from) {
            return;
        }
        let stream = from.index();
        self.committed(now, stream, write.committed, io);
        let accepted = self.windows[stream].accepted();
        self.acknowledge_due = self.acknowledge_due.with(from);
        if write.number <= accepted {
            self.counters.writes_repeated += 1;
            return;
        }
        if write.number > accepted + 1 {
            self.counters.gaps += 1;
            self.following[stream].gap = true;
            return;
        }
        let place = self.table.place(write.key);
        let is_its_own = usize::from(self.leaders[place.partition() as usize]) == stream;
        let numbered = write.status != Status::Ok || write.version == version(write.epoch, write.number);
        let fits = write.value.len() <= self.parameters.value_bytes_max && !self.windows[stream].is_full();
        if !is_its_own || !numbered || !fits {
            self.counters.dropped_contradiction += 1;
            return;
        }
        let mut slot = None;
        if self.role == Role::Full && write.status == Status::Ok {
            slot = self.table.claim(io.memory, place, write.key, write.version);
            if slot.is_none() {
                // The leader found room, and the same keys are here: only a peer that lies gets here.
                self.counters.dropped_contradiction += 1;
                return;
            }
        }
        let following = &mut self.following[stream];
        if self.windows[stream].is_empty() {
            following.pace.progress(now);
        }
        self.counters.writes_followed += 1;
        self.windows[stream].push(entry_of(write, slot, None), write.key, write.value);
        arm(&mut following.pace, stream as u32, io.effects);
    }

    /// A leader says how much is committed.
    fn committed(&mut self, now: Instant, stream: usize, committed: u64, io: &mut Io<'_>) {
        // What is committed was accepted here, so an honest leader never names more; a write with a larger
        // number may come first in disorder, but its sender had this node's acknowledgement.
        let committed = committed.min(self.windows[stream].accepted());
        if committed > self.windows[stream].committed() {
            self.commit_to(now, stream, committed, io);
            self.following[stream].pace.progress(now);
            if !self.windows[stream].is_empty() {
                arm(&mut self.following[stream].pace, stream as u32, io.effects);
            }
        }
    }

    fn acknowledge(&mut self, to: NodeId, asks: bool, effects: &mut Effects) {
        let stream = to.index();
        let window = &self.windows[stream];
        let following = &mut self.following[stream];
        let message = Acknowledge {
            epoch: self.view.epoch,
            accepted: window.accepted(),
            committed: window.committed(),
            gap: std::mem::take(&mut following.gap),
            asks,
        };
        effects.send(NodeSet::EMPTY.with(to), Kind::Acknowledge as u8, &[&message.encode()]);
    }

    fn acknowledged(&mut self, now: Instant, from: NodeId, message: Acknowledge, io: &mut Io<'_>) {
        if self.is_other_stream(message.epoch) {
            return;
        }
        if self.role != Role::Full || !self.leading.followers().contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        let own = self.node.index();
        let accepted = self.windows[own].accepted();
        if message.accepted > accepted {
            self.counters.dropped_contradiction += 1;
            return;
        }
        let again = self.leading.acknowledge(from, message.accepted, message.gap, accepted);
        let shortest = self.leading.shortest(accepted);
        if shortest > self.windows[own].committed() {
            self.commit_to(now, own, shortest, io);
            self.leading.pace.progress(now);
            if !self.windows[own].is_empty() {
                arm(&mut self.leading.pace, TIMER_LEAD, io.effects);
            }
        }
        if let Some(numbers) = again {
            self.send_again(from, numbers, io.effects);
        }
        let committed = self.windows[own].committed();
        if message.asks && message.committed < committed {
            let commit = Commit { epoch: self.base, committed };
            io.effects.send(NodeSet::EMPTY.with(from), Kind::Commit as u8, &[&commit.encode()]);
        }
    }

    fn send_again(&mut self, to: NodeId, numbers: std::ops::RangeInclusive<u64>, effects: &mut Effects) {
        let window = &self.windows[self.node.index()];
        for number in (*numbers.start()).max(window.committed() + 1)..=*numbers.end() {
            let (entry, key, value) = window.get(number);
            let write = Write {
                epoch: self.base,
                operation: entry.operation,
                status: entry.status,
                number,
                committed: window.committed(),
                client: entry.client,
                request: entry.request,
                version: entry.version,
                key,
                value,
            };
            effects.send(NodeSet::EMPTY.with(to), Kind::Write as u8, &[&write.header(), key, value]);
            self.counters.writes_resent += 1;
        }
    }

    // Joining.

    fn request_state(&mut self, effects: &mut Effects) {
        if let Some((node, request)) = self.transfer.ask(self.view.epoch) {
            effects.send(NodeSet::EMPTY.with(node), Kind::StateRequest as u8, &[&request.encode()]);
            arm(&mut self.transfer.pace, TIMER_TRANSFER, effects);
        }
    }

    fn state_requested(&mut self, from: NodeId, request: StateRequest, io: &mut Io<'_>) {
        if self.is_other_epoch(request.epoch) {
            return;
        }
        if self.role != Role::Full || !self.view.joining.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        let StateRequest { epoch, attempt, what, from: first } = request;
        let (places, unit) = match what {
            What::Buckets => (self.table.slots(), self.table.ways()),
            What::Sessions => (self.sessions.places(), 1),
        };
        // Where the answer ends at the latest, always between buckets.
        let stop = places.min((first - first % unit).saturating_add(SCAN_MAX * unit));
        let behind = if stop == places { END } else { stop };
        let tag = self.windows[self.node.index()].committed();
        let mut at = first;
        for sent in 1..=CHUNKS_MAX {
            let full_at = self.compose(what, at..stop, io.memory);
            let next = full_at.unwrap_or(behind);
            let last = full_at.is_none() || sent == CHUNKS_MAX;
            let records = self.donation.bytes();
            let chunk = StateChunk { epoch, attempt, what, last, from: at, next, tag, records };
            io.effects.send(NodeSet::EMPTY.with(from), Kind::StateChunk as u8, &[&chunk.header(), records]);
            self.counters.chunks_sent += 1;
            if last {
                break;
            }
            at = next;
        }
    }

    /// Fills a chunk with the committed records of some positions, as far as this node is to give them; returns the position
    /// of the first that does not fit.
    fn compose(&mut self, what: What, mut positions: Range<u32>, memory: &mut Memory) -> Option<u32> {
        self.donation.clear();
        match what {
            What::Buckets => positions.find(|&position| {
                let leader = self.leaders[(self.table.bucket(Slot(position)) % PARTITIONS) as usize];
                let slot = (usize::from(leader) == self.node.index()).then_some(Slot(position));
                let slot = slot.and_then(|slot| self.table.fetch(memory, slot));
                slot.is_some_and(|(version, key, value)| !self.donation.push_slot(version, key, value))
            }),
            What::Sessions => positions.find(|&position| {
                let session = self.sessions.export(position);
                session.is_some_and(|session| !self.donation.push_session(&session))
            }),
        }
    }

    fn state_arrived(&mut self, now: Instant, from: NodeId, chunk: StateChunk<'_>, io: &mut Io<'_>) {
        if self.is_other_epoch(chunk.epoch) {
            return;
        }
        if self.role != Role::Joining || !self.view.full.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        // A late one, or one behind one that was lost.
        if !self.transfer.awaits(from, &chunk) {
            return;
        }
        let installed = match chunk.what {
            What::Buckets => self.install_buckets(now, from.index(), &chunk, io),
            What::Sessions => self.install_sessions(now, &chunk),
        };
        match installed {
            Ok(()) => {
                self.counters.chunks_installed += 1;
                self.transfer.advance(chunk.next);
                self.complete = self.transfer.is_done();
            }
            Err(Refused::Stale) => self.counters.chunks_stale += 1,
            Err(Refused::Contradiction) => self.counters.dropped_contradiction += 1,
            Err(Refused::Malformed) => self.counters.dropped_malformed += 1,
        }
        self.transfer.pace.progress(now);
        if chunk.last || installed.is_err() {
            self.request_state(io.effects);
        }
    }

    /// Installs the slots of a chunk that are newer than what the table holds. It reflects the leader's stream up to its tag,
    /// which is committed and therefore accepted here: with everything up to there applied, all that is applied later
    /// is newer than the chunk, and what is newer in the chunk was not written in this epoch.
    fn install_buckets(
        &mut self,
        now: Instant,
        stream: usize,
        chunk: &StateChunk<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), Refused> {
        let slots = || transfer::slots(chunk.records, self.key_field, self.parameters.value_bytes_max);
        let is_of_stream =
            |key: &[u8]| usize::from(self.leaders[self.table.place(key).partition() as usize]) == stream;
        if !slots().all(|slot| slot.is_some_and(|(_, key, _)| is_of_stream(key))) {
            return Err(Refused::Malformed);
        }
        if chunk.tag < self.windows[stream].committed() {
            return Err(Refused::Stale);
        }
        if chunk.tag > self.windows[stream].accepted() {
            return Err(Refused::Contradiction);
        }
        self.committed(now, stream, chunk.tag, io);
        for (version, key, value) in
            transfer::slots(chunk.records, self.key_field, self.parameters.value_bytes_max).flatten()
        {
            let place = self.table.place(key);
            let found = self.table.find(io.memory, place, key);
            if found.is_some_and(|(_, header)| header.version >= version) {
                continue;
            }
            match self.table.claim(io.memory, place, key, version) {
                Some(slot) => self.table.commit_value(io.memory, slot, version, key, value),
                // Of a bucket the table holds nothing that the leader does not: only a peer that lies gets here.
                None => self.counters.dropped_contradiction += 1,
            }
        }
        Ok(())
    }

    fn install_sessions(&mut self, now: Instant, chunk: &StateChunk<'_>) -> Result<(), Refused> {
        for session in transfer::sessions(chunk.records) {
            let session = session.ok_or(Refused::Malformed)?;
            self.sessions.import(now, session).map_err(|_| Refused::Malformed)?;
        }
        Ok(())
    }

    // Events.

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
                if self.role != Role::Full || self.windows[own].is_empty() {
                    return;
                }
                if due {
                    let accepted = self.windows[own].accepted();
                    for follower in self.leading.followers().iter() {
                        if let Some(numbers) = self.leading.resend(follower, accepted) {
                            self.send_again(follower, numbers, io.effects);
                        }
                    }
                }
                arm(&mut self.leading.pace, TIMER_LEAD, io.effects);
            }
            TIMER_SEAL => {
                let due = self.seal_pace.fire(now);
                if self.role == Role::Sealed {
                    if due {
                        self.send_sealed(self.view_change.missing(), io.effects);
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

    /// Says once for a whole batch what it brought about.
    fn end_batch(&mut self, io: &mut Io<'_>) {
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
                let counters = self.counters;
                *self = Self { counters, ..Self::new(self.parameters.clone()) };
                true
            }
            Event::Configure(configuration) => {
                self.configure(now, configuration, io);
                true
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
            // The engine posts nothing.
            Event::Done { .. } => true,
        };
        if last {
            self.end_batch(io);
        }
    }

    fn status(&self) -> EngineStatus {
        let state = match self.role {
            Role::Outside => EngineState::Starting,
            Role::Joining => EngineState::Joining { synced: self.complete },
            Role::Sealed | Role::Full => EngineState::Full,
            Role::Lost => EngineState::Lost,
        };
        EngineStatus { epoch: self.view.epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = Counters { sessions_evicted_early: self.sessions.forced_evictions, ..self.counters };
        counters.list()
    }
}

/// Why a chunk of state is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// More of the stream is applied than it reflects.
    Stale,
    /// It reflects more of the stream than was accepted.
    Contradiction,
    Malformed,
}

fn entry_of(write: &Write<'_>, slot: Option<Slot>, caller: Option<Caller>) -> Entry {
    Entry {
        operation: write.operation,
        status: write.status,
        client: write.client,
        request: write.request,
        version: write.version,
        slot,
        caller,
        waiting: NOBODY,
        value_length: write.value.len() as u16,
    }
}

fn arm(pace: &mut Pace, tag: u32, effects: &mut Effects) {
    if let Some(at) = pace.arm() {
        effects.set_timer(tag, at);
    }
}

/// Answers the request (client, number).
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
