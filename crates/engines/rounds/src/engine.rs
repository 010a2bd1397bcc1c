//! The engine: runs the rounds for an algorithm and the service above it.

use weft_time::Instant;
use weft_waist::{Caller, Configuration, Engine, EngineState, EngineStatus, Epoch, Event, Io, Message};

use crate::algorithm::{Algorithm, Decision, Output};
use crate::counters::Counters;
use crate::lags::ArrivalLags;
use crate::members::{MEMBERS_MAX, Members};
use crate::membership::Membership;
use crate::message::{
    Call, Change, Head, Kind, Malformed, Period, Phase, Proposal, Round, SIGNAL_BYTES, Status, Timings,
};
use crate::parameters::{Parameters, PlantedBug};
use crate::service::{Context, Service, Streams};
use crate::timer::{CYCLE, Of, RoundTimer};

/// The engine's only timer: the end of a round, or the next request for admission.
const TIMER_ROUND: u32 = 0;

/// A synchronous algorithm as the engine of one node.
///
/// It is idle until the host configures it. As a full member of epoch 1 it is a founder and waits for the start;
/// as a joining member of any later epoch it asks the full members to add it. From then on the engines decide the
/// membership themselves. A process that has restarted must never receive epoch 1 with itself as a full member.
#[derive(Clone, Debug)]
pub struct Rounds<A, S = Streams> {
    parameters: Parameters,
    algorithm: A,
    service: S,
    counters: Counters,

    node: usize,
    phase: Phase,
    /// The epoch that the host has configured.
    configured: Epoch,
    /// The nodes with which to found the cluster, or which to ask for admission.
    contacts: Members,
    /// Whether a joining node has begun to ask for admission: no message of its former incarnation is in flight
    /// any more.
    asking: bool,

    membership: Membership,
    timer: RoundTimer,
    lags: ArrivalLags,
    /// The next round. The round before it is running, if `begun`.
    next: u64,
    begun: bool,
    /// Members whose message of the running round has arrived.
    heard: Members,
    /// Members whose message of the previous round has not arrived.
    missed: Members,
    /// By node: its message of the next round, which arrived early; empty if there is none.
    early: Vec<Vec<u8>>,
    /// Buffer in which the node's own message is composed.
    message: Vec<u8>,
}

impl<A: Algorithm, S: Service> Rounds<A, S> {
    /// An engine that is not configured yet.
    ///
    /// # Panics
    /// If the parameters are out of range; see [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Self {
        if let Err(error) = parameters.check() {
            panic!("{error}");
        }
        let algorithm = A::new(&parameters);
        let message_bytes = Round::proposal_at(algorithm.area_bytes()) + parameters.value_bytes;
        Self {
            algorithm,
            service: S::new(&parameters),
            counters: Counters::default(),
            node: 0,
            phase: Phase::Idle,
            configured: Epoch(0),
            contacts: Members::EMPTY,
            asking: false,
            membership: Membership::new(&parameters),
            timer: RoundTimer::new(parameters.period, parameters.one_way),
            next: 0,
            begun: false,
            lags: ArrivalLags::default(),
            heard: Members::EMPTY,
            missed: Members::EMPTY,
            early: (0..MEMBERS_MAX).map(|_| Vec::with_capacity(message_bytes)).collect(),
            message: vec![0; message_bytes],
            parameters,
        }
    }

    /// Phase of the node. It distinguishes more than [`Engine::status`] does.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The running round, `None` before the first.
    pub fn round(&self) -> Option<u64> {
        self.begun.then(|| self.next - 1)
    }

    /// The members of the running round, and the pending change.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The algorithm that runs in the rounds.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// The service above the algorithm.
    pub fn service(&self) -> &S {
        &self.service
    }

    fn context(&self) -> Context {
        Context {
            node: self.node,
            phase: self.phase,
            epoch: self.membership.epoch(),
            members: self.membership.members(),
        }
    }

    // Joining and leaving.

    fn configure(&mut self, now: Instant, configuration: Configuration, io: &mut Io<'_>) {
        let (node, view) = (configuration.node, configuration.view);
        let stopped = matches!(self.phase, Phase::Idle | Phase::Fenced | Phase::Left);
        let contacts =
            Members::from_nodes(view.full).filter(|full| full.len() <= self.parameters.members_max());
        match contacts {
            Some(contacts) if stopped && view.epoch > self.configured && node.index() < MEMBERS_MAX => {
                if view.joining.contains(node) {
                    (self.node, self.configured, self.contacts) = (node.index(), view.epoch, contacts);
                    self.join(now, io);
                } else if view.full.contains(node) && view.epoch == Epoch(1) && self.phase == Phase::Idle {
                    (self.node, self.configured, self.contacts) = (node.index(), view.epoch, contacts);
                    self.phase = Phase::Ready;
                } else {
                    self.counters.configurations_ignored += 1;
                }
            }
            _ => self.counters.configurations_ignored += 1,
        }
    }

    /// A founder begins its first round at `begin`.
    fn found(&mut self, begin: Instant, io: &mut Io<'_>) {
        self.enter(0, 1, self.contacts, begin, io);
    }

    /// The node takes part in the instances from `first` on.
    fn enter(&mut self, first: u64, epoch: u16, members: Members, begin: Instant, io: &mut Io<'_>) {
        self.phase = Phase::Running;
        self.membership.start(self.node, first, epoch, members);
        self.algorithm.start(self.node, first);
        self.service.start(self.node, first, first == 0, io);
        (self.next, self.begun, self.missed) = (first, false, Members::EMPTY);
        self.lags = ArrivalLags::default();
        self.early.iter_mut().for_each(Vec::clear);
        self.begin_at(begin, io);
    }

    /// Sets the timer so that the next round begins at `begin`.
    fn begin_at(&mut self, begin: Instant, io: &mut Io<'_>) {
        self.timer.arm(begin);
        io.effects.set_timer(TIMER_ROUND, begin);
    }

    /// Asks to be added, but first waits until no message of an earlier incarnation of this node can be in flight:
    /// two nodes with the same number must not take part in one instance.
    fn join(&mut self, now: Instant, io: &mut Io<'_>) {
        (self.phase, self.asking) = (Phase::Joining, false);
        io.effects.set_timer(TIMER_ROUND, now + self.timer.period() * self.parameters.slots());
    }

    fn ask(&mut self, now: Instant, io: &mut Io<'_>) {
        self.asking = true;
        self.send(self.contacts, Kind::Join, &[0; SIGNAL_BYTES], io);
        io.effects.set_timer(TIMER_ROUND, now + self.timer.period());
    }

    /// Handles that a member announces the next members: if this node is one of them, it has all that it needs to
    /// take part.
    fn invited(&mut self, now: Instant, head: &Head, io: &mut Io<'_>) {
        let Some((ahead, members)) = head.next else { return };
        if members.contains(self.node) && members.len() <= self.parameters.members_max() {
            let ahead = u64::from(ahead);
            let begin = self.timer.begin_of_sender(now) + self.timer.period() * ahead;
            self.enter(head.round + ahead, head.epoch.wrapping_add(1), members, begin, io);
        }
    }

    /// Stops the node: it sends and decides nothing until it joins again.
    fn stop(&mut self, phase: Phase, io: &mut Io<'_>) {
        self.phase = phase;
        self.service.stop(&self.context(), io);
    }

    fn send(&self, to: Members, kind: Kind, payload: &[u8], io: &mut Io<'_>) {
        io.effects.send(to.without(self.node).to_nodes(), kind as u8, &[payload]);
    }

    // Rounds.

    /// Ends the running round at its deadline.
    fn end_round(&mut self, io: &mut Io<'_>) {
        if self.begun {
            let unheard = self.membership.members().without(self.node).difference(self.heard);
            self.counters.unheard += unheard.len() as u64;
            if self.algorithm.end().is_err() {
                self.counters.fenced += 1;
                self.stop(Phase::Fenced, io);
                return;
            }
        }
        self.begin_round(io);
        if self.phase == Phase::Running {
            let (algorithm, mut outlet) = self.outlet(io);
            algorithm.settle(&mut outlet);
            self.take_early();
        }
    }

    /// Begins the next round and sends this node's message.
    fn begin_round(&mut self, io: &mut Io<'_>) {
        let round = self.next;
        self.missed =
            if self.begun { Members::first(MEMBERS_MAX).difference(self.heard) } else { Members::EMPTY };
        (self.next, self.begun, self.heard) = (round + 1, true, Members::EMPTY);
        self.counters.rounds += 1;
        self.counters.trimmed += u64::from(self.timer.advance());
        self.counters.epochs += u64::from(self.membership.advance(round));
        if self.membership.has_left() {
            self.stop(Phase::Left, io);
            return;
        }
        let members = self.membership.members();
        let area_bytes = self.algorithm.area_bytes();
        let (front, back) = self.message.split_at_mut(Round::proposal_at(area_bytes));
        let change = A::DECIDES_CHANGES.then(|| self.membership.propose()).flatten();
        let change = change.map(|change| change.encode());
        let proposal = match &change {
            Some(change) => Proposal { change: true, bytes: change },
            None if members.contains(self.node) => {
                let length = self.service.propose(round, back);
                Proposal { change: false, bytes: &back[..length] }
            }
            None => Proposal::default(),
        };
        front.fill(0);
        self.algorithm.begin(round, members, &proposal, &mut front[Round::HEAD..][..area_bytes]);
        let (epoch, next) = (self.membership.epoch(), self.membership.next());
        let head = Head { round, epoch, members, next, algorithm: A::ID };
        front[..Round::HEAD].copy_from_slice(&Round::head(&head, &proposal));
        io.effects.send(self.membership.audience().to_nodes(), Kind::Round as u8, &[front, proposal.bytes]);
        io.effects.set_timer(TIMER_ROUND, self.timer.deadline());
    }

    /// Processes the messages of the round that has just begun which had arrived early.
    fn take_early(&mut self) {
        for from in 0..MEMBERS_MAX {
            let mut bytes = std::mem::take(&mut self.early[from]);
            if let Ok(round) = self.parse(&bytes) {
                self.take(from, &round);
            }
            bytes.clear();
            self.early[from] = bytes;
        }
    }

    /// Processes a message of the running round.
    fn take(&mut self, from: usize, round: &Round<'_>) {
        let head = &round.head;
        if (head.epoch, head.members) != (self.membership.epoch(), self.membership.members()) {
            self.counters.dropped_contradiction += 1;
            return;
        }
        self.counters.messages += 1;
        self.heard = self.heard.with(from);
        self.membership.hear(from);
        if self.algorithm.receive(from, round.area, &round.proposal).is_err() {
            self.counters.dropped_contradiction += 1;
        }
    }

    fn parse<'a>(&self, bytes: &'a [u8]) -> Result<Round<'a>, Malformed> {
        let round = Round::parse(bytes, self.algorithm.area_bytes(), self.parameters.value_bytes)?;
        if round.head.algorithm == A::ID { Ok(round) } else { Err(Malformed::Field("algorithm")) }
    }

    /// Handles a message of any round at a node that takes part.
    fn hear(&mut self, now: Instant, from: usize, round: &Round<'_>, bytes: &[u8], io: &mut Io<'_>) {
        if !self.membership.audience().contains(from) {
            self.counters.dropped_not_member += 1;
            return;
        }
        let number = round.head.round;
        if !self.begun && number <= self.next {
            // This node has not begun its first round: it begins together with the sender's.
            let begin = self.timer.begin_of_sender(now) + self.timer.period() * (self.next - number);
            if begin < self.timer.deadline() {
                self.begin_at(begin, io);
            }
        }
        match self.arrival(number) {
            Arrival::Running if self.heard.contains(from) => self.counters.repeated += 1,
            Arrival::Running => {
                self.measure(now, from, Of::Running);
                self.timer.observe(now, Of::Running);
                self.take(from, round);
            }
            Arrival::Early if !self.early[from].is_empty() => self.counters.repeated += 1,
            Arrival::Early => {
                if self.begun {
                    self.measure(now, from, Of::Next);
                    self.timer.observe(now, Of::Next);
                }
                self.counters.early += 1;
                self.early[from].extend_from_slice(bytes);
            }
            Arrival::FarAhead => self.counters.far_ahead += 1,
            Arrival::Late => {
                self.counters.late += 1;
                if number + 2 == self.next && self.missed.contains(from) {
                    self.missed = self.missed.without(from);
                    self.measure(now, from, Of::Last);
                }
                if self.parameters.planted(PlantedBug::LateMessageCounts) && number + 2 == self.next {
                    self.take(from, round);
                }
            }
        }
    }

    fn measure(&mut self, now: Instant, from: usize, of: Of) {
        self.lags.measure(from, self.timer.lag(now, of));
    }

    /// Position of a round relative to this node's.
    fn arrival(&self, round: u64) -> Arrival {
        match (round + 1).checked_sub(self.next) {
            Some(0) if self.begun => Arrival::Running,
            Some(1) => Arrival::Early,
            Some(2..) => Arrival::FarAhead,
            Some(0) | None => Arrival::Late,
        }
    }

    // Events.

    fn deliver(
        &mut self,
        now: Instant,
        from: usize,
        message: Message<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), Malformed> {
        let bytes = message.payload;
        let is_contact = self.contacts.contains(from);
        match (Kind::parse(message.kind), self.phase) {
            (Some(Kind::Round), Phase::Running) => {
                let round = self.parse(bytes)?;
                self.hear(now, from, &round, bytes, io);
            }
            (Some(Kind::Round), Phase::Ready) if is_contact => {
                let round = self.parse(bytes)?;
                if round.head.round == 0 {
                    self.found(self.timer.begin_of_sender(now), io);
                    self.end_round(io);
                    self.hear(now, from, &round, bytes, io);
                } else {
                    // The others are founding the cluster without this node. It asks for admission; they will miss
                    // its messages, remove it, and then add it.
                    self.join(now, io);
                }
            }
            (Some(Kind::Round), Phase::Joining) if is_contact && self.asking => {
                let head = self.parse(bytes)?.head;
                self.invited(now, &head, io);
            }
            (Some(Kind::Start), Phase::Ready) if is_contact => {
                self.found(now, io);
                self.end_round(io);
            }
            (Some(Kind::Join), Phase::Running) => self.membership.ask(from),
            (None | Some(Kind::Fetch | Kind::Value), Phase::Running) => {
                if !self.service.deliver(from, message, &self.context(), io) {
                    let (algorithm, mut outlet) = self.outlet(io);
                    algorithm.deliver(from, message, &mut outlet)?;
                }
            }
            _ => self.counters.dropped_not_member += 1,
        }
        Ok(())
    }

    fn call(&mut self, now: Instant, caller: Caller, message: Message<'_>, io: &mut Io<'_>) {
        let is_host = matches!(caller, Caller::Host(_));
        let status = match (Call::parse(message.kind), self.phase) {
            (Some(call), _) if call.is_for_host() && !is_host => {
                self.counters.dropped_not_member += 1;
                Status::BadRequest
            }
            (Some(Call::Start), Phase::Ready) => {
                self.send(self.contacts, Kind::Start, &[0; SIGNAL_BYTES], io);
                self.found(now + self.parameters.one_way, io);
                Status::Ok
            }
            (Some(Call::Leave), Phase::Running) => {
                self.membership.leave();
                Status::Ok
            }
            (Some(Call::Status), _) => Status::Ok,
            (Some(Call::SetPeriod), _) => self.set_period(message.payload),
            (Some(Call::Timing), _) => {
                io.effects.reply(caller, Call::Timings as u8, &[&self.timings().encode()]);
                return;
            }
            (Some(Call::Start | Call::Leave), Phase::Fenced) => Status::Fenced,
            (Some(Call::Start | Call::Leave), _) => Status::NotRunning,
            _ => match self.service.call(caller, message, &self.context(), io) {
                Ok(()) => return,
                Err(status) => status,
            },
        };
        self.context().answer(caller, status, self.round().unwrap_or(0), io);
    }

    fn set_period(&mut self, payload: &[u8]) -> Status {
        let Ok(Period(cycles)) = Period::parse(payload) else { return Status::BadRequest };
        let period = CYCLE * u64::from(cycles);
        if !self.parameters.takes_period(period) {
            return Status::OutOfRange;
        }
        self.timer.set_period(period);
        self.lags = ArrivalLags::default();
        Status::Ok
    }

    /// When this node began its round, and when the others' messages arrived.
    pub fn timings(&self) -> Timings {
        let cycles = |ps: u64| ps / CYCLE.as_ps();
        let members = self.membership.members();
        let quorum = |members: Members| self.parameters.quorums(members.len()).decision;
        Timings {
            round: self.round().unwrap_or(0),
            begin: if self.begun { cycles(self.timer.begin().as_ps()) } else { 0 },
            period: cycles(self.timer.period().as_ps()) as u32,
            one_way: cycles(self.parameters.one_way.as_ps()) as u32,
            largest_lag: self.lags.largest(),
            node: self.node,
            missed: self.missed.intersection(members).without(self.node),
            decision_quorum: if members.is_empty() { 0 } else { quorum(members) },
            lags: self.lags.last(),
        }
    }

    /// The algorithm, and the sink for its output.
    fn outlet<'a, 'io>(&'a mut self, io: &'a mut Io<'io>) -> (&'a mut A, Outlet<'a, 'io, S>) {
        let Self { algorithm, membership, service, counters, node, phase, .. } = self;
        (algorithm, Outlet { membership, service, counters, node: *node, phase: *phase, io })
    }
}

/// A message's round, relative to the running round.
enum Arrival {
    Late,
    Running,
    Early,
    FarAhead,
}

/// Passes an algorithm's decisions to the service and the membership, and its messages to the network.
struct Outlet<'a, 'io, S> {
    membership: &'a mut Membership,
    service: &'a mut S,
    counters: &'a mut Counters,
    node: usize,
    phase: Phase,
    io: &'a mut Io<'io>,
}

impl<S> Outlet<'_, '_, S> {
    fn context(&self) -> Context {
        let (epoch, members) = (self.membership.epoch(), self.membership.members());
        Context { node: self.node, phase: self.phase, epoch, members }
    }
}

impl<S: Service> Output for Outlet<'_, '_, S> {
    fn send(&mut self, to: Members, kind: u8, payload: &[&[u8]]) {
        self.io.effects.send(to.without(self.node).to_nodes(), kind, payload);
    }

    fn decide(&mut self, decision: &Decision<'_>) {
        self.counters.decided += 1;
        if decision.proposal.change
            && let Ok(change) = Change::parse(decision.proposal.bytes)
        {
            self.membership.decided(decision.instance, decision.proposer, change);
        }
        self.service.decide(decision, &self.context(), self.io);
    }

    fn close(&mut self, instance: u64) {
        self.membership.closed(instance);
        self.service.close(instance, &self.context(), self.io);
    }
}

impl<A: Algorithm, S: Service> Engine for Rounds<A, S> {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Reset => {
                let counters = self.counters;
                *self = Self { counters, ..Self::new(self.parameters.clone()) };
            }
            Event::Configure(configuration) => self.configure(now, configuration, io),
            Event::Call { caller, message, .. } => self.call(now, caller, message, io),
            Event::Deliver { from, message, .. } if from.index() < MEMBERS_MAX => {
                if self.deliver(now, from.index(), message, io).is_err() {
                    self.counters.dropped_malformed += 1;
                }
            }
            Event::Deliver { .. } => self.counters.dropped_not_member += 1,
            Event::Timer { tag: TIMER_ROUND } => match self.phase {
                Phase::Running if now >= self.timer.deadline() => self.end_round(io),
                Phase::Joining => self.ask(now, io),
                _ => {}
            },
            // The engine sets no other timer and posts no work requests.
            Event::Timer { .. } | Event::Done { .. } => {}
        }
    }

    fn status(&self) -> EngineStatus {
        let (epoch, state) = match self.phase {
            Phase::Idle | Phase::Ready => (self.configured, EngineState::Starting),
            Phase::Joining => (self.configured, EngineState::Joining { synced: false }),
            Phase::Running => (Epoch(self.membership.epoch().into()), EngineState::Full),
            Phase::Fenced | Phase::Left => (Epoch(self.membership.epoch().into()), EngineState::Lost),
        };
        EngineStatus { epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.list()
    }
}
