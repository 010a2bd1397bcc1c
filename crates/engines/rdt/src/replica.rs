//! A replica of an object: the engine that sends each call along the path that its method allows.
//!
//! - A **reducible** call is combined with the origin's earlier calls into a cumulative *summary*, which the
//!   origin WRITEs to the other replicas. They apply the difference to the summary that they have applied
//!   before.
//! - An **irreducible** call is written to the origin's *ring* at each replica, in order, with a vector of
//!   the calls that it depends on. It takes effect at a replica once these have taken effect there.
//! - A **conflicting** call is sent to the leader of its group. The leader checks it and appends it to the
//!   group's log ([`weft_smr`]). All replicas apply or refuse it in the order of the log.
//!
//! A call is checked once, where it is issued; the definition's verdicts say why that is enough. Queries are
//! answered at once, from the replica's own state. PROTOCOL.md has the protocol and its proof: when an update
//! is answered, what survives which crashes, and how a node rejoins.
//!
//! The design is that of SafarDB (section 4), Hamband and Hamsaz. Where they are silent or unsafe, this
//! engine differs.

mod calls;
mod counters;
mod delivery;
mod fold;
mod layout;
mod leader;
pub mod message;
mod observer;
mod parameters;
mod placement;
mod recovery;
mod state;
mod stream;
mod vector;

use std::collections::VecDeque;

use weft_smr::link::Link;
use weft_smr::message::{Control, PULSE};
use weft_smr::{CALL_LOG, Delivery, Group, NODES_MAX, Ports, Pulse, Wiring};
use weft_time::Instant;
use weft_waist::{
    Caller, Capabilities, Configuration, Engine, EngineState, EngineStatus, Epoch, Event, Io, Memory, NodeId,
    NodeSet,
};

pub use counters::Counters;
pub use message::{Answer, Ask, Call, Status};
pub use observer::{Counts, NoObserver, Observer};
pub use parameters::{
    CommitRule, FOLD_MAX, OnHost, PlantedBug, ReplicaParameters, ReplicaParametersError, SCANNED_MAX,
    Summaries, WINDOW_MAX,
};

use fold::Fold;
use layout::{Header, Layout};
use leader::Queue;
use message::{CALL_ENTRY, CALL_SUMMARY, DATA, Datagram, Incarnations};
use recovery::Join;
use state::{Machine, State};
use stream::{Peer, Posted, Stream};

use crate::object::Object;

const TIMER_PULSE: u32 = 0;
const TIMER_POLL: u32 = 1;

pub(crate) fn node(index: usize) -> NodeId {
    NodeId::new(index).expect("there are at most eight replicas")
}

/// Phase of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The replica is not configured.
    Starting,
    /// The replica has lost its memory, and fetches state from its peers.
    Joining,
    /// The replica holds every update that was answered, and serves.
    Full,
    /// The replica holds everything that it has acknowledged, but it needs a snapshot for calls that it
    /// missed.
    Lagging,
    /// The replica has state that all others have lost. It must be restarted with empty memory.
    Lost,
}

/// A replica of an object, as the engine of one node.
///
/// It is idle until the host has done two things. First, for each of [`ReplicaParameters::purposes`], the
/// host passes in the queue pairs to all peers ([`Call::Wire`]). Then it configures the replica. A full
/// member is a founder, in incarnation 1. A joining member has lost its memory; the view's epoch becomes its
/// incarnation number, so a restarted process must get a view with a higher epoch. Later views change
/// nothing: the replicas find out by themselves which peers are alive.
#[derive(Clone, Debug)]
pub struct Replica<W = NoObserver> {
    parameters: ReplicaParameters,
    layout: Layout,
    phase: Phase,
    epoch: Epoch,
    /// The peers that are alive, according to heartbeats.
    alive: NodeSet,
    /// The incarnation of each node that this replica knows of.
    incarnations: Incarnations,
    /// The incarnations for which this replica has examined everything that was written under older
    /// permissions; and, by origin, the number of ring entries that were here then.
    fenced: Incarnations,
    received: [u64; NODES_MAX],
    pulse: Pulse,
    groups: Vec<Group>,
    state: State<W>,
    wirings: [Option<Wiring>; NODES_MAX],
    links: Vec<Link<Posted>>,
    peers: Vec<Peer>,
    stream: Stream,
    fold: Fold,
    queues: Vec<Queue>,
    join: Join,
    /// Whether the header has changed and is to be written.
    unpublished: bool,
    /// The origin whose summaries were read last by the timer.
    scanned: usize,
}

impl Replica {
    /// An engine that is not configured.
    ///
    /// # Panics
    /// If the parameters are out of range; see [`ReplicaParameters::check`].
    pub fn new(parameters: ReplicaParameters) -> Self {
        Self::with_observer(parameters, NoObserver)
    }
}

impl<W: Observer> Replica<W> {
    /// The same, with an observer that is notified of each call that takes effect.
    ///
    /// # Panics
    /// If the parameters are out of range; see [`ReplicaParameters::check`].
    pub fn with_observer(parameters: ReplicaParameters, observer: W) -> Self {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        let layout = Layout::new(&parameters);
        let log = parameters.log();
        let log_bytes = Group::memory_bytes(&log);
        let group = |number: usize| Group::new(&log, number as u8, layout.groups + number * log_bytes);
        let count = parameters.kind.group_count();
        Self {
            phase: Phase::Starting,
            epoch: Epoch(0),
            alive: NodeSet::EMPTY,
            incarnations: [0; NODES_MAX],
            fenced: [0; NODES_MAX],
            received: [0; NODES_MAX],
            pulse: Pulse::new(parameters.pulse(), 0),
            groups: (0..count).map(group).collect(),
            state: State::new(&parameters, &layout, observer),
            wirings: [None; NODES_MAX],
            links: (0..parameters.nodes).map(|_| Link::new(parameters::POSTS_MAX)).collect(),
            peers: vec![Peer::default(); parameters.nodes],
            stream: Stream::new(&parameters),
            fold: Fold::new(),
            queues: (0..count).map(|_| Queue::new(parameters.nodes)).collect(),
            join: Join::default(),
            unpublished: false,
            scanned: 0,
            layout,
            parameters,
        }
    }

    /// The observer.
    pub fn observer(&self) -> &W {
        &self.state.observer
    }

    /// The observer, mutable.
    pub fn observer_mut(&mut self) -> &mut W {
        &mut self.state.observer
    }

    /// The object, in this replica's state.
    pub fn object(&self) -> &Object {
        &self.state.object
    }

    /// Whether the replica serves.
    pub fn is_full(&self) -> bool {
        self.phase == Phase::Full
    }

    /// This node's replica of a group's log.
    pub fn group(&self, number: usize) -> &Group {
        &self.groups[number]
    }

    /// The heartbeats.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Whether this node leads a group.
    pub fn is_leading(&self, group: usize) -> bool {
        self.groups[group].is_leading()
    }

    /// Number of groups that this node leads, and number of all groups.
    pub fn groups_led(&self) -> (usize, usize) {
        (self.groups.iter().filter(|group| group.is_leading()).count(), self.groups.len())
    }

    /// The replica's progress, for debugging.
    pub fn describe(&self) -> String {
        let peers: Vec<_> =
            self.others().map(|peer| (peer, &self.links[peer].state, &self.peers[peer])).collect();
        format!(
            "{:?} incarnations {:?} {:?}\n   {:?}\n   {:?}",
            self.phase, self.incarnations, self.stream, self.join, peers
        )
    }

    fn me(&self) -> usize {
        self.state.node
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<W> {
        let own = self.state.node;
        (0..self.parameters.nodes).filter(move |&peer| peer != own)
    }

    fn is_alive(&self, peer: usize) -> bool {
        self.alive.contains(node(peer))
    }

    fn configure(&mut self, now: Instant, configuration: Configuration, io: &mut Io<'_>) {
        let Configuration { node, view, .. } = configuration;
        let nodes = self.parameters.nodes;
        let index = node.index();
        if self.epoch != Epoch(0) {
            // Later views are ignored: the replicas determine the membership among themselves.
            return;
        }
        let fits = index < nodes && view.members().minus(NodeSet::first(nodes)).is_empty();
        let is_wired = self.pulse.is_wired(index)
            && self.groups.iter().all(|group| group.is_wired(index))
            && (0..nodes).all(|peer| peer == index || self.wirings[peer].is_some());
        if !fits || !is_wired || !view.members().contains(node) {
            self.state.counters.configurations_ignored += 1;
            return;
        }
        // A process that did not exist when the cluster was founded must join first.
        let founding = view.full.contains(node);
        self.epoch = if founding { Epoch(1) } else { view.epoch };
        let incarnation = self.epoch.0;
        (self.state.node, self.state.incarnation) = (index, incarnation);
        self.incarnations[..nodes].fill(if founding { incarnation } else { 0 });
        self.incarnations[index] = incarnation;
        self.fenced = self.incarnations;
        self.links.iter_mut().for_each(|link| link.start(incarnation));
        (self.phase, self.state.joining) =
            if founding { (Phase::Full, false) } else { (Phase::Joining, true) };
        self.pulse.start(index, incarnation, founding, io.memory);
        self.alive = self.pulse.alive();
        for group in 0..self.groups.len() {
            let mut machine = Machine { state: &mut self.state, group };
            let ports = &mut Ports::new(now, io.effects, io.memory, &mut machine);
            self.groups[group].set_ineligible(!founding);
            self.groups[group].start(index, incarnation, founding, ports);
        }
        for peer in self.others() {
            self.connect(peer, now, io);
        }
        self.unpublished = true;
        io.effects.set_timer(TIMER_PULSE, now + self.parameters.pulse.period);
        if self.polls() {
            io.effects.set_timer(TIMER_POLL, now + self.parameters.poll);
        }
    }

    fn polls(&self) -> bool {
        self.parameters.entries == Delivery::Polling
            || self.parameters.summaries == Summaries::Buffered
            || self.parameters.log.delivery == Delivery::Polling
    }

    /// Runs `act` on a group.
    fn with_group(
        &mut self,
        group: usize,
        now: Instant,
        io: &mut Io<'_>,
        act: impl FnOnce(&mut Group, &mut Ports<'_>),
    ) {
        let mut machine = Machine { state: &mut self.state, group };
        act(&mut self.groups[group], &mut Ports::new(now, io.effects, io.memory, &mut machine));
        // Log entries that are not calls count as applied too.
        let has_none = self.state.joining && !self.state.has_snapshot;
        let (applied, state) = (self.groups[group].applied(), &mut self.state.groups[group]);
        if !has_none && state.included >= state.needs && state.included < applied {
            state.included = applied;
            self.state.moved = true;
        }
    }

    /// Handles a change of the set of live peers, or of the peers that could lead.
    fn view(&mut self, now: Instant, io: &mut Io<'_>) {
        self.alive = self.pulse.alive();
        let alive = self.alive;
        for group in 0..self.groups.len() {
            let candidates = self.pulse.candidates(group as u8);
            self.with_group(group, now, io, |group, ports| group.view(alive, candidates, ports));
        }
    }

    /// The heartbeat timer has expired.
    fn period(&mut self, now: Instant, io: &mut Io<'_>) {
        io.effects.set_timer(TIMER_PULSE, now + self.parameters.pulse.period);
        let groups = self.groups.len();
        if groups > 0 {
            for peer in self.others() {
                let heads = self.pulse.heads(peer, io.memory);
                for (number, group) in self.groups.iter_mut().enumerate() {
                    group.note_heartbeat(peer, heads.incarnation, heads.applied[number]);
                }
            }
        }
        let could_lead = self
            .groups
            .iter()
            .enumerate()
            .fold(0, |bits, (number, group)| bits | u8::from(group.could_lead(now, io.memory)) << number);
        if self.pulse.tick(now, could_lead, io.effects, io.memory) {
            self.view(now, io);
        }
        if self.parameters.summaries == Summaries::Unbuffered {
            // Peers rely on the counts that this replica publishes, even if no client accesses the object, so
            // summaries are read here too. One origin at a time: to read the summaries of all may take longer
            // than a period.
            self.scanned = (self.scanned + 1) % self.parameters.nodes;
            if self.scanned != self.me() && self.layout.slots > 0 {
                self.scan_of(self.scanned, io);
                self.state.tell_absorbed(self.scanned);
            }
        }
        self.send_folded(io);
        for group in 0..groups {
            self.with_group(group, now, io, Group::tick);
            self.ask_leader(group, now, io);
            self.lead(group, now, io);
        }
        self.look_behind_fence(io);
        for peer in self.others() {
            self.keep_connected(peer, now, io);
        }
        match self.phase {
            Phase::Joining | Phase::Lagging => self.keep_joining(now, io),
            Phase::Full => self.look_after_the_dead(now, io),
            Phase::Starting | Phase::Lost => {}
        }
    }

    /// The polling timer has expired: the replica reads what peers have written to its memory.
    fn poll(&mut self, now: Instant, io: &mut Io<'_>) {
        io.effects.set_timer(TIMER_POLL, now + self.parameters.poll);
        if self.parameters.summaries == Summaries::Buffered {
            self.scan_some(io);
        }
        if self.parameters.entries == Delivery::Polling {
            for origin in self.others() {
                self.look_into_ring(origin, io);
            }
        }
        if self.parameters.log.delivery == Delivery::Polling {
            for group in 0..self.groups.len() {
                self.with_group(group, now, io, Group::poll);
            }
        }
    }

    fn called(&mut self, now: Instant, kind: u8, payload: &[u8], io: &mut Io<'_>) {
        match kind {
            CALL_LOG => {
                for group in 0..self.groups.len() {
                    self.with_group(group, now, io, Group::poll);
                }
            }
            CALL_SUMMARY => self.summary_came(payload),
            // All rings are examined afterwards, so the ring that was written need not be known.
            CALL_ENTRY => self.state.moved = true,
            _ => self.state.counters.malformed += 1,
        }
    }

    fn deliver(&mut self, now: Instant, from: usize, kind: u8, payload: &[u8], io: &mut Io<'_>) {
        if from >= self.parameters.nodes || from == self.me() {
            self.state.counters.malformed += 1;
            return;
        }
        if let Ok(control) = Control::parse(kind, payload) {
            match control.group() {
                PULSE => self.pulse.deliver(from, &control, io.effects),
                group if usize::from(group) < self.groups.len() => {
                    self.with_group(group.into(), now, io, |group, ports| {
                        group.deliver(from, &control, ports);
                    });
                }
                _ => self.state.counters.malformed += 1,
            }
            return;
        }
        match Datagram::parse(kind, payload) {
            Ok(Datagram::Connect(request, incarnations)) => {
                self.requested(from, &request, &incarnations, now, io)
            }
            Ok(Datagram::Connected(granted, incarnations)) => {
                self.granted(from, &granted, &incarnations, now, io)
            }
            Ok(Datagram::Incarnations(incarnations)) => {
                self.note_incarnations(&incarnations, now, io);
            }
            Ok(Datagram::Forward(forward)) => self.forwarded(from, &forward, now, io),
            Ok(Datagram::Outdated { incarnation, forked }) if incarnation == self.state.incarnation => {
                self.state.is_behind |= !forked;
                if !forked {
                    self.join.told_by = self.join.told_by.with(node(from));
                }
                self.state.is_forked |= forked;
            }
            Ok(Datagram::Outdated { .. }) => {}
            Ok(Datagram::Ask { incarnation, attempt }) => {
                self.give_snapshot(from, incarnation, attempt, now, io)
            }
            Ok(Datagram::Ready { attempt, bytes }) => self.snapshot_is_ready(from, attempt, bytes, now, io),
            Err(_) => self.state.counters.malformed += 1,
        }
    }

    fn done(&mut self, now: Instant, tag: u64, status: weft_verbs::CompletionStatus, io: &mut Io<'_>) {
        match weft_smr::link::tagged(tag) {
            (PULSE, _) => {
                let changed = self.pulse.done(tag, status, io.memory);
                if changed {
                    self.view(now, io);
                }
            }
            (DATA, peer) if peer < self.links.len() => self.posted_ended(peer, tag, status, now, io),
            (group, _) if usize::from(group) < self.groups.len() => {
                self.with_group(group.into(), now, io, |group, ports| group.done(tag, status, ports));
            }
            _ => {}
        }
    }

    /// Delivers calls that became deliverable because another call took effect.
    fn settle(&mut self, now: Instant, io: &mut Io<'_>) {
        while std::mem::take(&mut self.state.moved) {
            self.unpublished = true;
            for origin in self.others() {
                self.deliver_ring(origin, io.memory);
            }
            if self.phase == Phase::Joining {
                // A joining replica may have found own calls that wait for other origins' calls.
                self.deliver_ring(self.me(), io.memory);
            }
            for group in 0..self.groups.len() {
                if std::mem::take(&mut self.state.groups[group].blocked) {
                    self.with_group(group, now, io, Group::poll);
                }
                self.lead(group, now, io);
            }
            self.release(io);
        }
        if self.state.is_behind || self.state.is_forked {
            self.fall_behind();
        }
    }

    /// Called when this replica lacks calls that peers can no longer send, or has state that the others have
    /// lost.
    fn fall_behind(&mut self) {
        let is_forked = std::mem::take(&mut self.state.is_forked);
        self.state.is_behind = false;
        match self.phase {
            Phase::Joining => self.join.begin_again(),
            Phase::Full | Phase::Lagging if is_forked => self.phase = Phase::Lost,
            Phase::Full => self.begin_to_lag(),
            Phase::Starting | Phase::Lagging | Phase::Lost => {}
        }
    }

    /// Whether the replica has its memory, so that peers may rely on what it has acknowledged.
    fn is_member(&self) -> bool {
        matches!(self.phase, Phase::Full | Phase::Lagging)
    }

    fn publish(&mut self, memory: &mut Memory) {
        if std::mem::take(&mut self.unpublished) {
            let header = Header {
                incarnation: self.state.incarnation,
                full: self.is_member(),
                incarnations: self.fenced,
                written: self.state.written,
                summaries: self.state.summaries,
                entries: self.state.entries,
                received: self.received,
            };
            header.write(memory, self.layout.header());
        }
        for (number, group) in self.groups.iter().enumerate() {
            self.pulse.set_applied(number as u8, group.applied(), memory);
        }
    }
}

impl<W: Observer + Clone> Engine for Replica<W> {
    const NEEDS: Capabilities = Capabilities::VERBS;

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        if let Event::Reset = event {
            *self = Self::with_observer(self.parameters.clone(), self.state.observer.clone());
            return;
        }
        if self.phase == Phase::Lost {
            if let Event::Call { caller, message, .. } = event
                && !matches!(caller, Caller::QueuePair(_))
            {
                self.call(now, caller, message, io);
                self.tell(now, io);
            }
            return;
        }
        match event {
            Event::Reset => unreachable!("it was handled"),
            Event::Configure(configuration) => self.configure(now, configuration, io),
            Event::Call { caller: Caller::QueuePair(_), message, .. } => {
                if self.phase != Phase::Starting {
                    self.called(now, message.kind, message.payload, io);
                }
            }
            Event::Call { caller, message, .. } => self.call(now, caller, message, io),
            Event::Deliver { from, message, .. } => {
                if self.phase != Phase::Starting {
                    self.deliver(now, from.index(), message.kind, message.payload, io);
                }
            }
            Event::Done { tag, status } => self.done(now, tag, status, io),
            Event::Timer { tag: TIMER_PULSE } => self.period(now, io),
            Event::Timer { tag: TIMER_POLL } => self.poll(now, io),
            Event::Timer { .. } => {}
        }
        self.settle(now, io);
        self.publish(io.memory);
        io.memory.count_host(self.state.placement.take());
        self.tell(now, io);
    }

    fn status(&self) -> EngineStatus {
        let state = match self.phase {
            Phase::Starting => EngineState::Starting,
            Phase::Joining | Phase::Lagging => EngineState::Joining { synced: self.phase == Phase::Lagging },
            Phase::Full => EngineState::Full,
            Phase::Lost => EngineState::Lost,
        };
        EngineStatus { epoch: self.epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.state.counters.list();
        for group in &self.groups {
            all.extend(group.counters().list());
        }
        all
    }
}

/// Client calls that wait for an answer: number, caller, and the client's sequence.
type Waiting = VecDeque<(u64, Caller, u32)>;
