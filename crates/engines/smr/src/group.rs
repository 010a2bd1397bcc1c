//! One replica of one replicated log: the leader that it sees, the permission that it grants, and the entries that
//! it applies.

mod leader;

use std::collections::VecDeque;

use weft_time::Instant;
use weft_verbs::{AccessFlags, CompletionStatus};
use weft_waist::{Effects, Memory, NodeId, NodeSet};

use crate::counters::Counters;
use crate::layout::{self, Layout, Zeroed};
use crate::link::{Ended, Link, State, Wiring, tagged};
use crate::machine::{Ports, StateMachine};
use crate::message::{self, Control, Granted, Request, node, send};
use crate::parameters::{Delivery, NODES_MAX, Parameters, PlantedBug};
use crate::slot::{Join, Kind, Slot};
use leader::{Follower, PostKind};

/// Kind of the call that a WRITE into the log makes at the follower's engine (RPC write-through).
pub const CALL_LOG: u8 = 240;

/// Rights that a replica gives a peer on the queue pair on which the peer makes requests.
const READ: AccessFlags = AccessFlags::REMOTE_READ;
const READ_AND_WRITE: AccessFlags = AccessFlags::REMOTE_READ.with(AccessFlags::REMOTE_WRITE);

/// A replica pauses its candidacy for this multiple of [`Parameters::patience`].
const CANDIDACY_PAUSE: u64 = 8;

/// Role of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It lets the leader write to its log, and applies the entries that the leader decides.
    Follower,
    /// It requests permissions, and reads how far the logs of the others are.
    Requesting,
    /// It has the permissions of a majority, and adopts the entries in their logs from `cursor` on.
    Collecting {
        /// The next entry to adopt.
        cursor: u64,
        /// Number of empty slots in sequence before `cursor`.
        empty: u64,
        /// Followers whose slots have not arrived yet.
        waiting: NodeSet,
    },
    /// It replicates new entries to the followers.
    Leading,
}

/// When a replica last became leader, step by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeline {
    /// Time at which it requested permissions.
    pub asked: Instant,
    /// Time at which it had the permissions of a majority, itself included.
    pub granted: Instant,
    /// Time at which it had all entries that may be decided, and began to lead.
    pub leading: Instant,
}

/// Why a proposal is refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This replica does not lead. The leader, if known.
    NotLeader(Option<usize>),
    /// As many entries are undecided as the window allows, or the ring is full: try again later.
    Full,
    /// The entry is empty, or longer than a slot allows.
    Length,
}

/// A peer's requests for permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Requests {
    /// The number of the latest request. Each number is granted at most once.
    seen: u64,
    /// A request that has not been granted yet.
    pending: Option<Request>,
    /// The number of the connection for which this replica has connected its end.
    connection: u64,
}

/// One replica of one replicated log. See the crate's documentation for the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub(crate) parameters: Parameters,
    pub(crate) number: u8,
    pub(crate) layout: Layout,
    pub(crate) wirings: [Option<Wiring>; NODES_MAX],
    pub(crate) node: usize,
    pub(crate) incarnation: u32,
    started: bool,
    takes_part: bool,
    /// The peers that are alive, and among them those that could lead.
    pub(crate) alive: NodeSet,
    candidates: NodeSet,
    /// The newest incarnation of each peer of which this replica has received a message.
    pub(crate) incarnations: [u32; NODES_MAX],
    /// The incarnation of each peer that its heartbeat reports.
    heartbeat_incarnations: [u32; NODES_MAX],
    pub(crate) links: Vec<Link<PostKind>>,
    requests: [Requests; NODES_MAX],
    /// The one other replica that may write to this replica's log.
    holder: Option<usize>,

    pub(crate) role: Role,
    pub(crate) followers: Vec<Follower>,
    /// Proposal number of this replica's leadership.
    pub(crate) proposal: u64,
    /// At a leader, the index of the next entry.
    pub(crate) tail: u64,
    /// The first entry of this leadership.
    pub(crate) first: u64,
    /// Number of entries known to be decided.
    pub(crate) decided: u64,
    pub(crate) applied: u64,
    /// The next slot in which to look for the leader's number of decided entries.
    seen: u64,
    /// Proposals of this leadership that are not applied yet, as (index, ticket).
    pub(crate) tickets: VecDeque<(u64, u64)>,
    /// The peer for which the snapshot area holds a snapshot.
    pub(crate) snapshot_for: Option<usize>,
    /// For each peer: the incarnation whose [`Join`](crate::slot::Kind::Join) entry is proposed, and the one whose
    /// entry is decided.
    pub(crate) joining: [u32; NODES_MAX],
    pub(crate) joined: [u32; NODES_MAX],

    /// This replica lacks entries below this index that are no longer in any log.
    pub(crate) behind: u64,
    candidacy_paused_until: Instant,
    /// The embedder is not able to lead.
    ineligible: bool,
    /// When this leader last decided an entry, or had none undecided.
    pub(crate) progress_at: Instant,
    /// Too many replicas have lost their memory, so that nothing can be decided any more.
    pub(crate) halted: bool,
    pub(crate) counters: Counters,
    pub(crate) timeline: Timeline,
}

impl Group {
    /// A replica of group `number`, 0 to 5, that is not started yet. Its memory begins at offset `memory_base` of
    /// the engine's memory, a multiple of 64.
    ///
    /// # Panics
    /// If the parameters are out of range; see [`Parameters::check`].
    pub fn new(parameters: &Parameters, number: u8, memory_base: usize) -> Self {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        assert!(number < crate::pulse::GROUPS_MAX as u8, "an engine has at most six groups");
        let links = (0..parameters.nodes).map(|_| Link::new(parameters.posts_max())).collect();
        Self {
            number,
            layout: Layout::new(parameters, memory_base),
            wirings: [None; NODES_MAX],
            node: 0,
            incarnation: 0,
            started: false,
            takes_part: false,
            alive: NodeSet::EMPTY,
            candidates: NodeSet::EMPTY,
            incarnations: [0; NODES_MAX],
            heartbeat_incarnations: [0; NODES_MAX],
            links,
            requests: [Requests::default(); NODES_MAX],
            holder: None,
            role: Role::Follower,
            followers: vec![Follower::default(); parameters.nodes],
            proposal: 0,
            tail: 0,
            first: 0,
            decided: 0,
            applied: 0,
            seen: 0,
            tickets: VecDeque::with_capacity(parameters.slots as usize),
            snapshot_for: None,
            joining: [0; NODES_MAX],
            joined: [0; NODES_MAX],
            behind: 0,
            candidacy_paused_until: Instant::ZERO,
            ineligible: false,
            progress_at: Instant::ZERO,
            halted: false,
            counters: Counters::default(),
            timeline: Timeline::default(),
            parameters: parameters.clone(),
        }
    }

    /// Bytes of memory that a group takes, a multiple of 64.
    pub fn memory_bytes(parameters: &Parameters) -> usize {
        Layout::new(parameters, 0).bytes()
    }

    /// Sets the connection to a peer. All connections must be set before the replica starts.
    pub fn wire(&mut self, peer: usize, wiring: Wiring) {
        self.wirings[peer] = Some(wiring);
    }

    /// Whether the connections to all peers are set.
    pub fn is_wired(&self, node: usize) -> bool {
        (0..self.parameters.nodes).all(|peer| peer == node || self.wirings[peer].is_some())
    }

    /// Starts the replica as node `node`, with memory of zeros. `incarnation` grows with each restart of a node
    /// and is the same for all founders. A founder has an empty log. Any other node has lost its memory, and takes
    /// part in decisions only after a leader has brought it up to date.
    ///
    /// # Panics
    /// If the node is not in the group, is not wired, or the incarnation is 0.
    pub fn start(&mut self, node: usize, incarnation: u32, founding: bool, ports: &mut Ports<'_>) {
        assert!(incarnation > 0 && node < self.parameters.nodes && self.is_wired(node));
        (self.node, self.incarnation, self.started) = (node, incarnation, true);
        self.links.iter_mut().for_each(|link| link.start(incarnation));
        self.layout.set(ports.memory, layout::INCARNATION, incarnation.into());
        if founding || self.parameters.planted(PlantedBug::AmnesiacCounts) {
            self.layout.set(ports.memory, layout::MEMBER, incarnation.into());
        }
        if founding {
            self.alive = NodeSet::first(self.parameters.nodes).without(message::node(node));
            self.candidates = self.alive;
            self.incarnations = [incarnation; NODES_MAX];
        }
        self.elect(ports);
    }

    // State for observers.

    /// Whether the replica leads.
    pub fn is_leading(&self) -> bool {
        self.role == Role::Leading
    }

    /// Role of the replica.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether the replica takes part in decisions: it has not lost its memory, or was brought up to date since.
    pub fn is_member(&self, memory: &Memory) -> bool {
        self.started && self.layout.get(memory, layout::MEMBER) == u64::from(self.incarnation)
    }

    /// The same as [`Group::is_member`], as of the last event that was handled.
    pub fn takes_part(&self) -> bool {
        self.takes_part
    }

    /// Number of entries that the replica knows to be decided.
    pub fn decided(&self) -> u64 {
        self.decided
    }

    /// Number of entries that the replica has applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Whether so many replicas have lost their memory that the others are no majority: nothing can be decided any
    /// more.
    pub fn is_halted(&self) -> bool {
        self.halted
    }

    /// When the replica last became leader, or tried to.
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// Returns the counters and resets them to zero. A model checker then treats states as equal that differ only
    /// in the counters.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// Counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether the replica could lead: it takes part in decisions, lacks no entry that is no longer in any log,
    /// and has not failed to lead lately.
    pub fn could_lead(&self, now: Instant, memory: &Memory) -> bool {
        self.is_member(memory)
            && self.applied >= self.behind.max(self.layout.gap(memory).to)
            && now >= self.candidacy_paused_until
            && !self.ineligible
    }

    /// Sets whether the replica refrains from leading, because its embedder is not able to lead.
    pub fn set_ineligible(&mut self, aside: bool) {
        self.ineligible = aside;
    }

    /// The leader, as this replica sees it: the lowest of those that are alive and could lead.
    pub fn leader(&self, now: Instant, memory: &Memory) -> Option<usize> {
        let own =
            if self.could_lead(now, memory) { NodeSet::EMPTY.with(node(self.node)) } else { NodeSet::EMPTY };
        self.candidates.union(own).nth(0).map(NodeId::index)
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.node;
        (0..self.parameters.nodes).filter(move |&peer| peer != own)
    }

    pub(crate) fn wiring(&self, peer: usize) -> &Wiring {
        self.wirings[peer].as_ref().expect("a started group is wired")
    }

    /// The decided entry at `index`, if this replica's own log holds it completely.
    pub fn entry<'m>(&self, memory: &'m Memory, index: u64) -> Option<&'m [u8]> {
        let slot = self.layout.entry(memory, index)?;
        let is_decided = index < self.decided && !self.layout.gap(memory).contains(index);
        (slot.kind == Kind::Call && is_decided).then_some(slot.entry)
    }

    /// Whether this replica's own log holds the decision for that index, be it an entry of the embedder or an
    /// empty one.
    pub fn holds(&self, memory: &Memory, index: u64) -> bool {
        let is_decided = index < self.decided && !self.layout.gap(memory).contains(index);
        is_decided && self.layout.entry(memory, index).is_some()
    }

    /// Whether the group has recycled the slot of this entry: no replica keeps it, except one that the leader has
    /// not reached yet.
    pub fn has_recycled(&self, memory: &Memory, index: u64) -> bool {
        index < Zeroed::parse(self.layout.get(memory, layout::ZEROED)).below
    }

    // Changes of the leader.

    /// The set of live peers, or of those among them that could lead, has changed.
    pub fn view(&mut self, alive: NodeSet, candidates: NodeSet, ports: &mut Ports<'_>) {
        let peers = NodeSet::first(self.parameters.nodes).without(node(self.node));
        self.alive = alive.intersection(peers);
        self.candidates = candidates.intersection(self.alive);
        if self.started {
            self.elect(ports);
        }
    }

    /// A peer's applied length and incarnation, as it reports beside its heartbeat.
    pub fn note_heartbeat(&mut self, peer: usize, incarnation: u32, applied: u64) {
        if let Some(follower) = self.followers.get_mut(peer) {
            follower.note_heartbeat(incarnation, applied);
            self.heartbeat_incarnations[peer] = incarnation;
        }
    }

    /// Keeps the replica from leading before `until`.
    pub fn pause_candidacy(&mut self, until: Instant, ports: &mut Ports<'_>) {
        self.candidacy_paused_until = until;
        self.elect(ports);
    }

    pub(crate) fn elect(&mut self, ports: &mut Ports<'_>) {
        self.takes_part = self.is_member(ports.memory);
        let leader = self.leader(ports.now, ports.memory);
        if leader == Some(self.node) {
            if self.role == Role::Follower {
                self.progress_at = ports.now;
                self.campaign(ports);
            }
            return;
        }
        if self.role != Role::Follower {
            self.retire(ports);
            self.role = Role::Follower;
        }
        if let Some(leader) = leader {
            self.grant(leader, ports);
        }
    }

    /// Starts to request permissions, beginning with its own: from now on no other replica may write to this log.
    pub(crate) fn campaign(&mut self, ports: &mut Ports<'_>) {
        self.retire(ports);
        self.catch_up(ports);
        self.apply(ports);
        self.revoke(ports.effects);
        self.role = Role::Requesting;
        self.counters.campaigns += 1;
        self.timeline = Timeline { asked: ports.now, granted: ports.now, leading: ports.now };
        for peer in self.peers() {
            self.ask(peer, ports);
        }
        self.consider(ports);
    }

    /// Stops leading, or trying to lead.
    fn retire(&mut self, ports: &mut Ports<'_>) {
        for peer in self.peers() {
            let wiring = self.wirings[peer].as_ref().expect("a started group is wired");
            self.links[peer].release(wiring, ports.effects);
            self.followers[peer] = Follower::default();
        }
        self.snapshot_for = None;
        (self.joining, self.joined) = ([0; NODES_MAX], [0; NODES_MAX]);
        self.seen = self.applied;
        while let Some((_, ticket)) = self.tickets.pop_front() {
            self.counters.abandoned += 1;
            ports.machine.abandoned(ticket, ports.effects);
        }
    }

    pub(crate) fn ask(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let wiring = self.wirings[peer].as_ref().expect("a started group is wired");
        let request = self.links[peer].ask(ports.now, self.number, wiring, ports.effects);
        send(peer, &Control::Request(request), ports.effects);
    }

    // Permissions.

    /// Handles a message of a peer.
    pub fn deliver(&mut self, from: usize, message: &Control, ports: &mut Ports<'_>) {
        if !self.started || from >= self.parameters.nodes || from == self.node {
            return;
        }
        match message {
            Control::Request(request) => self.requested(from, *request, ports),
            Control::Granted(granted) => self.granted(from, granted, ports),
        }
    }

    fn requested(&mut self, from: usize, request: Request, ports: &mut Ports<'_>) {
        let requests = &mut self.requests[from];
        if request.number <= requests.seen {
            self.counters.stale_requests += 1;
            return;
        }
        (requests.seen, requests.pending) = (request.number, Some(request));
        self.note_incarnation(from, (request.number >> 32) as u32, ports);
        self.elect(ports);
    }

    /// Grants write access to the log to the replica that leads, if it has requested it.
    fn grant(&mut self, leader: usize, ports: &mut Ports<'_>) {
        let Some(request) = self.requests[leader].pending.take() else { return };
        assert_eq!(self.role, Role::Follower, "who leads grants its log to nobody");
        if self.holder != Some(leader) {
            self.revoke(ports.effects);
        }
        let respond = self.wiring(leader).respond;
        if self.requests[leader].connection != request.connection {
            self.requests[leader].connection = request.connection;
            ports.effects.connect(respond, 0, request.psn);
        }
        ports.effects.access(respond, READ_AND_WRITE);
        self.holder = Some(leader);
        self.counters.granted += 1;
        let granted = Granted { group: self.number, number: request.number, incarnation: self.incarnation };
        send(leader, &Control::Granted(granted), ports.effects);
    }

    fn revoke(&mut self, effects: &mut Effects) {
        if let Some(holder) = self.holder.take() {
            self.counters.revoked += 1;
            if !self.parameters.planted(PlantedBug::GrantWithoutRevoke) {
                effects.access(self.wiring(holder).respond, READ);
            }
        }
    }

    fn granted(&mut self, from: usize, granted: &Granted, ports: &mut Ports<'_>) {
        self.note_incarnation(from, granted.incarnation, ports);
        if granted.incarnation == self.incarnations[from] && self.links[from].granted(granted.number) {
            let permitted = self.links.iter().filter(|link| link.state == State::Up).count() + 1;
            if self.role == Role::Requesting && permitted == self.parameters.majority() {
                self.timeline.granted = ports.now;
            }
            self.read_lines(from, ports);
        } else {
            self.counters.stale_grants += 1;
        }
    }

    /// Notes the incarnation with which a peer runs. If it is newer than the one known so far, the link to the peer has
    /// failed, and what was known of the peer as a follower is forgotten.
    pub(crate) fn note_incarnation(&mut self, peer: usize, incarnation: u32, ports: &mut Ports<'_>) {
        let former = self.incarnations[peer];
        self.incarnations[peer] = former.max(incarnation);
        if former != 0 && former < incarnation {
            self.lose(peer, ports);
        }
    }

    // Applying.

    /// Looks for new and decided entries in the replica's own log, and applies the decided ones.
    pub fn poll(&mut self, ports: &mut Ports<'_>) {
        if !self.started {
            return;
        }
        if self.role == Role::Follower {
            if self.parameters.delivery == Delivery::Polling {
                ports.memory.read(self.layout.line(0), layout::LINES);
            }
            self.catch_up(ports);
        }
        self.apply(ports);
        self.elect(ports);
    }

    /// Installs a snapshot that a leader has written here, and takes the number of decided entries from the
    /// leader's line and from the slots. A leader writes such a number to a log only after all these entries.
    fn catch_up(&mut self, ports: &mut Ports<'_>) {
        let next = self.layout.gap(ports.memory).to;
        let bytes = self.layout.get(ports.memory, layout::COPY_BYTES).checked_sub(1);
        let fits = next <= layout::NUMBER_MAX
            && bytes.is_none_or(|bytes| bytes <= self.layout.snapshot_bytes as u64);
        self.counters.malformed += u64::from(!fits);
        if let Some(bytes) = bytes
            && next > self.applied
            && fits
        {
            let area = self.layout.snapshot_area();
            let copy = &ports.memory.image()[area..area + bytes as usize];
            if ports.machine.restore(next, copy, ports.effects) {
                self.counters.snapshots_taken += 1;
                self.applied = next;
                self.decided = self.decided.max(next);
                self.layout.set(ports.memory, layout::APPLIED, next);
            }
        }
        let decided = self.layout.get(ports.memory, layout::DECIDED);
        self.learn_decided(decided);
        self.seen = self.seen.max(self.applied);
        while let Some(slot) = self.read(self.seen, ports.memory) {
            let decided = slot.decided;
            self.seen += 1;
            self.learn_decided(decided);
            if self.parameters.planted(PlantedBug::ApplyUndecided) {
                self.decided = self.decided.max(self.seen);
            }
        }
    }

    /// Notes that `decided` entries are decided. The number is limited to what fits in the ring, because a faulty
    /// peer may report more.
    fn learn_decided(&mut self, decided: u64) {
        self.decided = self.decided.max(decided.min(self.applied + self.parameters.slots));
    }

    /// The slot of an entry, if it was written completely. A follower that polls pays for an access to memory.
    fn read<'m>(&self, index: u64, memory: &'m mut Memory) -> Option<Slot<'m>> {
        match self.parameters.delivery {
            Delivery::Polling => {
                Slot::parse(memory.read(self.layout.slot(index), self.parameters.slot_bytes), index)
            }
            Delivery::WriteThrough => self.layout.entry(memory, index),
        }
    }

    /// Applies decided entries in order.
    pub(crate) fn apply(&mut self, ports: &mut Ports<'_>) {
        let before = self.applied;
        let gap = self.layout.gap(ports.memory);
        while self.applied < self.decided && !gap.contains(self.applied) {
            let index = self.applied;
            let Some(slot) = self.layout.entry(ports.memory, index) else { break };
            match slot.kind {
                Kind::Call => {
                    let ticket =
                        self.tickets.front().filter(|(at, _)| *at == index).map(|(_, ticket)| *ticket);
                    if !ports.machine.apply(index, slot.entry, ticket, ports.effects) {
                        break;
                    }
                    if ticket.is_some() {
                        self.tickets.pop_front();
                    }
                }
                Kind::Join => {
                    let join = Join::parse(slot.entry).filter(|join| join.node < NODES_MAX);
                    if let Some(join) = join
                        && self.role == Role::Leading
                        && index >= self.first
                    {
                        self.joined[join.node] = join.incarnation;
                    }
                }
                Kind::Nothing => {}
            }
            self.applied += 1;
        }
        if self.applied > before {
            self.counters.applied += self.applied - before;
            self.layout.set(ports.memory, layout::APPLIED, self.applied);
        }
    }

    // Time and completions.

    /// Handles the completion of a work request. Tags of other groups are ignored.
    pub fn done(&mut self, tag: u64, status: CompletionStatus, ports: &mut Ports<'_>) {
        let (group, peer) = tagged(tag);
        if group != self.number || peer >= self.links.len() {
            return;
        }
        match self.links[peer].done(tag, status) {
            Ended::Done(what) => self.completed(peer, what, ports),
            Ended::Failed => {
                self.counters.failures += 1;
                self.lose(peer, ports);
            }
            Ended::Stale => {}
        }
    }

    /// Handles a period of the timer: unanswered requests are repeated.
    pub fn tick(&mut self, ports: &mut Ports<'_>) {
        if !self.started {
            return;
        }
        self.elect(ports);
        if self.role == Role::Follower {
            return;
        }
        if self.role == Role::Leading && self.tail == self.decided {
            self.progress_at = ports.now;
        }
        if ports.now >= self.progress_at + self.parameters.patience {
            self.counters.stood_back += 1;
            self.pause_candidacy(ports.now + self.parameters.patience * CANDIDACY_PAUSE, ports);
            return;
        }
        for peer in self.peers() {
            // A leader without entries to write would not notice otherwise that a follower has restarted.
            self.note_incarnation(peer, self.heartbeat_incarnations[peer], ports);
            let link = &self.links[peer];
            if link.state != State::Up && ports.now >= link.asked_at + self.parameters.retry {
                self.ask(peer, ports);
            }
        }
        if self.role == Role::Leading {
            self.settle(ports);
            self.recycle(ports);
        }
    }
}

impl<'a> Ports<'a> {
    /// The resources that the embedder's engine has while it handles an event.
    pub fn new(
        now: Instant,
        effects: &'a mut Effects,
        memory: &'a mut Memory,
        machine: &'a mut dyn StateMachine,
    ) -> Self {
        Self { now, effects, memory, machine }
    }
}
