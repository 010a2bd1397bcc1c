//! A replicated log as a service: an engine with one group.
//!
//! All integers of calls and answers are big-endian and aligned to their size. Fields marked zero are sent as zero
//! and ignored by receivers.
//!
//! ```text
//! Wire       0 group(1) peer(1) zero(6)   8 request(4) respond(4)   16 local address(8)   24 remote address(8)
//!            32 lkey(4) rkey(4)   40 call rkey(4) path mtu(4)         group 255 is the pulse
//! Append     0 origin(8)   8 sequence(8)   16 content
//! Read       0 index(8)
//! Subscribe, Status: empty
//! Answer     0 status(1) role(1) leader(1) flags(1) incarnation(4)   8 index(8)   16 decided(8)
//!            leader: 255 if none is known. flags: 1 takes part, 2 halted. index: of the entry; for Status: entries applied.
//!            A client on the network also gets 24 origin(8)   32 number(8): of the append; for a Read 0 and the index;
//!            otherwise 0 and 2^64 - 1. A host matches answers by tokens; a client may get an answer twice, or late
//! Entry      0 index(8)   8 origin(8)   16 sequence(8)   24 content
//! Restored   0 next(8)    the subscriber of this node does not get the entries before this one
//! ```
//!
//! Only the host may send Wire and Subscribe. From any other caller they are refused with BadRequest, and counted.
//!
//! **Exactly once.** A client numbers its appends and has at most [`SESSION_WINDOW`] of them outstanding. It
//! repeats an append, at whichever replica leads, until it is answered. The replicated state records which of the
//! client's numbers are in the log, so a repeated append is answered with the index that it already has. If an
//! append was proposed twice, its second entry has no effect and is not sent to subscribers. A client that reads
//! by index finds both entries, and recognises them by origin and sequence number. If there are too many clients,
//! the one that has been silent for longest is forgotten. So configure more sessions than clients that append
//! within the time in which a client repeats an append.

mod calls;

use std::collections::VecDeque;

use weft_session::{Seen, WINDOW, Window};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Capabilities, Configuration, Effects, Engine, EngineState, EngineStatus, Epoch, Event, Io,
    Message, NodeSet,
};

use crate::group::{CALL_LOG, Group, Refusal, Role};
use crate::machine::{Ports, StateMachine};
use crate::message::{Control, PULSE};
use crate::parameters::{Delivery, Parameters};
use crate::pulse::{Pulse, PulseParameters};
use crate::slot::word;

pub use calls::{Answer, Append, Call, Status, Subject, Wire, exactly};

/// The most appends of one client that are outstanding.
pub const SESSION_WINDOW: u64 = WINDOW;

const TIMER_PULSE: u32 = 0;
const TIMER_POLL: u32 = 1;
/// The number of the only group.
pub const GROUP: u8 = 0;
const SESSION_BYTES: usize = 8 + 16 * SESSION_WINDOW as usize;

/// Sizes and intervals of the service. All replicas use the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogParameters {
    /// Parameters of the group. Its `snapshot_bytes` is replaced by the size that the service needs.
    pub group: Parameters,
    /// Parameters of the heartbeats.
    pub pulse: PulseParameters,
    /// Interval at which a polling follower looks at its log.
    pub poll: Duration,
    /// Number of clients with a session, at least 1.
    pub sessions: usize,
}

impl Default for LogParameters {
    /// Three replicas, 16 clients.
    fn default() -> Self {
        Self {
            group: Parameters::default(),
            pulse: PulseParameters::default(),
            poll: Duration::from_ns(500),
            sessions: 16,
        }
    }
}

impl LogParameters {
    /// The same parameters for `nodes` replicas.
    #[must_use]
    pub fn with_nodes(mut self, nodes: usize) -> Self {
        (self.group.nodes, self.pulse.nodes) = (nodes, nodes);
        self
    }

    fn group(&self) -> Parameters {
        let snapshot_bytes = (self.sessions * SESSION_BYTES).next_multiple_of(64);
        Parameters { snapshot_bytes, ..self.group.clone() }
    }

    /// Bytes of memory that the engine takes.
    pub fn memory_bytes(&self) -> usize {
        Pulse::memory_bytes(&self.pulse) + Group::memory_bytes(&self.group())
    }
}

/// A replicated log as the engine of one node.
///
/// The engine is idle until the host has sent the connections to all peers ([`Call::Wire`]) and has configured it
/// for the first time. As a full member it is a founder, in incarnation 1. As a joining member it has lost its
/// memory and waits until a leader brings it up to date; its incarnation is then the epoch. So a process that
/// restarts must get a higher epoch. Later views change nothing: the replicas detect by themselves which of them
/// are alive, and majorities decide.
#[derive(Clone, Debug)]
pub struct Log {
    parameters: LogParameters,
    pulse: Pulse,
    group: Group,
    state: State,
    epoch: Epoch,
    dropped_malformed: u64,
    configurations_ignored: u64,
    /// Calls refused because only the host may make them.
    refused_strangers: u64,
}

impl Log {
    /// An engine without any configuration.
    ///
    /// # Panics
    /// If the parameters are out of range; see [`Parameters::check`].
    pub fn new(parameters: LogParameters) -> Self {
        let at = Pulse::memory_bytes(&parameters.pulse);
        Self {
            pulse: Pulse::new(parameters.pulse, 0),
            group: Group::new(&parameters.group(), GROUP, at),
            state: State::new(parameters.sessions),
            epoch: Epoch(0),
            dropped_malformed: 0,
            configurations_ignored: 0,
            refused_strangers: 0,
            parameters,
        }
    }

    /// The engine's replica of the log.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// State of the heartbeats between the nodes' engines.
    pub fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    fn configure(&mut self, now: Instant, configuration: Configuration, io: &mut Io<'_>) {
        let Configuration { node, view, .. } = configuration;
        let nodes = self.parameters.group.nodes;
        let index = node.index();
        if self.epoch != Epoch(0) {
            // From now on the replicas decide the membership among themselves.
            return;
        }
        let fits = index < nodes && view.members().minus(NodeSet::first(nodes)).is_empty();
        let wired = self.pulse.is_wired(index) && self.group.is_wired(index);
        if !fits || !wired || !view.members().contains(node) {
            self.configurations_ignored += 1;
            return;
        }
        // A process that did not take part in founding the cluster is joining before it is full.
        let founding = view.full.contains(node);
        self.epoch = if founding { Epoch(1) } else { view.epoch };
        self.pulse.start(index, self.epoch.0, founding, io.memory);
        let ports = &mut Ports::new(now, io.effects, io.memory, &mut self.state);
        self.group.start(index, self.epoch.0, founding, ports);
        io.effects.set_timer(TIMER_PULSE, now + self.parameters.pulse.period);
        if self.parameters.group.delivery == Delivery::Polling {
            io.effects.set_timer(TIMER_POLL, now + self.parameters.poll);
        }
    }

    fn answer(
        &self,
        to: Caller,
        subject: Subject,
        status: Status,
        index: u64,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        let role = match self.group.role() {
            Role::Follower => 0,
            Role::Requesting => 1,
            Role::Collecting { .. } => 2,
            Role::Leading => 3,
        };
        let answer = Answer {
            status,
            role,
            leader: self.group.leader(now, io.memory),
            member: self.group.is_member(io.memory),
            halted: self.group.is_halted(),
            incarnation: self.epoch.0,
            index,
            decided: self.group.decided(),
        };
        match to {
            Caller::Endpoint { .. } => {
                io.effects.reply(to, Call::Answer as u8, &[&answer.encode(), &subject.encode()]);
            }
            Caller::Host(_) | Caller::QueuePair(_) => {
                io.effects.reply(to, Call::Answer as u8, &[&answer.encode()]);
            }
        }
    }

    fn call(&mut self, now: Instant, caller: Caller, message: Message<'_>, io: &mut Io<'_>) {
        let payload = message.payload;
        let is_host = matches!(caller, Caller::Host(_));
        let (status, index) = match Call::parse(message.kind) {
            Some(Call::Wire | Call::Subscribe) if !is_host => {
                self.refused_strangers += 1;
                (Status::BadRequest, 0)
            }
            Some(Call::Append) => match self.append(now, caller, payload, io) {
                Ok(None) => return,
                Ok(Some(index)) => (Status::Ok, index),
                Err(status) => (status, 0),
            },
            Some(Call::Read) if payload.len() == 8 => {
                let index = word(payload, 0);
                match self.group.entry(io.memory, index) {
                    _ if index >= self.group.applied() => (Status::NoEntry, index),
                    Some(entry) => {
                        let bytes = index.to_be_bytes();
                        io.effects.reply(caller, Call::Entry as u8, &[&bytes, entry]);
                        return;
                    }
                    None if self.group.holds(io.memory, index) => (Status::Void, index),
                    None if self.group.has_recycled(io.memory, index) => (Status::Forgotten, index),
                    None => (Status::Skipped, index),
                }
            }
            Some(Call::Subscribe) if payload.is_empty() => {
                self.state.subscriber = Some(caller);
                (Status::Ok, self.group.applied())
            }
            Some(Call::Status) if payload.is_empty() => (Status::Ok, self.group.applied()),
            Some(Call::Wire) if self.epoch == Epoch(0) => match Wire::parse(payload) {
                Ok(Wire { group: PULSE, peer, wiring }) if peer < self.parameters.group.nodes => {
                    self.pulse.wire(peer, wiring);
                    (Status::Ok, 0)
                }
                Ok(Wire { group: GROUP, peer, wiring }) if peer < self.parameters.group.nodes => {
                    self.group.wire(peer, wiring);
                    (Status::Ok, 0)
                }
                _ => (Status::BadRequest, 0),
            },
            _ => (Status::BadRequest, 0),
        };
        self.answer(caller, Subject::of(message), status, index, now, io);
    }

    /// Proposes an append, or answers with its index if it is in the log already.
    fn append(
        &mut self,
        now: Instant,
        caller: Caller,
        payload: &[u8],
        io: &mut Io<'_>,
    ) -> Result<Option<u64>, Status> {
        let Ok(append) = Append::parse(payload) else { return Err(Status::BadRequest) };
        if self.group.is_leading() {
            match self.state.find(&append) {
                Seen::Same(&index) => return Ok(Some(index)),
                Seen::Old => return Err(Status::BadRequest),
                Seen::New => {}
            }
        }
        let ticket = self.state.tickets;
        // The proposal may be decided at once, so the caller is registered first.
        let subject = Subject::Append { origin: append.origin, sequence: append.sequence };
        self.state.waiting.push_back((ticket, caller, subject));
        let ports = &mut Ports::new(now, io.effects, io.memory, &mut self.state);
        match self.group.propose(ticket, payload, ports) {
            Ok(_) => {
                self.state.tickets += 1;
                Ok(None)
            }
            Err(refusal) => {
                self.state.waiting.pop_back();
                Err(match refusal {
                    Refusal::NotLeader(_) => Status::NotLeader,
                    Refusal::Full => Status::Busy,
                    Refusal::Length => Status::BadRequest,
                })
            }
        }
    }

    fn period(&mut self, now: Instant, io: &mut Io<'_>) {
        io.effects.set_timer(TIMER_PULSE, now + self.parameters.pulse.period);
        for peer in 0..self.parameters.group.nodes {
            let heads = self.pulse.heads(peer, io.memory);
            self.group.note_heartbeat(peer, heads.incarnation, heads.applied[usize::from(GROUP)]);
        }
        let could_lead = u8::from(self.group.could_lead(now, io.memory)) << GROUP;
        let changed = self.pulse.tick(now, could_lead, io.effects, io.memory);
        let ports = &mut Ports::new(now, io.effects, io.memory, &mut self.state);
        if changed {
            self.group.view(self.pulse.alive(), self.pulse.candidates(GROUP), ports);
        }
        self.group.tick(ports);
    }

    /// Answers callers that wait for results of an event, and notifies the subscriber.
    fn tell(&mut self, now: Instant, io: &mut Io<'_>) {
        while let Some((caller, subject, status, index)) = self.state.answers.pop_front() {
            self.answer(caller, subject, status, index, now, io);
        }
        self.pulse.set_applied(GROUP, self.group.applied(), io.memory);
    }
}

impl Engine for Log {
    const NEEDS: Capabilities = Capabilities::VERBS;

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Reset => *self = Self::new(self.parameters.clone()),
            Event::Configure(configuration) => self.configure(now, configuration, io),
            Event::Call { message, caller: Caller::QueuePair(_), .. } if message.kind == CALL_LOG => {
                self.group.poll(&mut Ports::new(now, io.effects, io.memory, &mut self.state));
            }
            Event::Call { caller, message, .. } => self.call(now, caller, message, io),
            Event::Deliver { from, message, .. } => match Control::parse(message.kind, message.payload) {
                Ok(control) if control.group() == PULSE => {
                    self.pulse.deliver(from.index(), &control, io.effects);
                }
                Ok(control) if control.group() == GROUP => {
                    let ports = &mut Ports::new(now, io.effects, io.memory, &mut self.state);
                    self.group.deliver(from.index(), &control, ports);
                }
                _ => self.dropped_malformed += 1,
            },
            Event::Done { tag, status } => {
                let changed = self.pulse.done(tag, status, io.memory);
                let ports = &mut Ports::new(now, io.effects, io.memory, &mut self.state);
                if changed {
                    self.group.view(self.pulse.alive(), self.pulse.candidates(GROUP), ports);
                }
                self.group.done(tag, status, ports);
            }
            Event::Timer { tag: TIMER_PULSE } => self.period(now, io),
            Event::Timer { tag: TIMER_POLL } => {
                io.effects.set_timer(TIMER_POLL, now + self.parameters.poll);
                self.group.poll(&mut Ports::new(now, io.effects, io.memory, &mut self.state));
            }
            Event::Timer { .. } => {}
        }
        self.tell(now, io);
    }

    fn status(&self) -> EngineStatus {
        let state = match (self.epoch, self.group.is_halted()) {
            (Epoch(0), _) => EngineState::Starting,
            (_, true) => EngineState::Lost,
            (_, false) if self.group.takes_part() => EngineState::Full,
            (_, false) => EngineState::Joining { synced: false },
        };
        EngineStatus { epoch: self.epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.group.counters().list();
        all.push(("dropped_malformed", self.dropped_malformed + self.state.malformed));
        all.push(("configurations_ignored", self.configurations_ignored));
        all.push(("refused_strangers", self.refused_strangers));
        all
    }
}

/// Counters of the service, in addition to its group's.
pub const COUNTER_HELP: &[(&str, &str)] = &[
    ("dropped_malformed", "Messages that are none, or not what a client may send."),
    ("configurations_ignored", "Configurations older than the one that holds."),
    ("refused_strangers", "Calls that only the host may make, of others."),
];

/// State that all replicas have in common, and the callers that wait at this one.
#[derive(Clone, Debug)]
struct State {
    /// Sessions of clients, at most `capacity`, in the order of their last entries.
    sessions: VecDeque<Session>,
    capacity: usize,
    subscriber: Option<Caller>,
    tickets: u64,
    waiting: VecDeque<(u64, Caller, Subject)>,
    answers: VecDeque<(Caller, Subject, Status, u64)>,
    /// Entries that are no valid appends.
    malformed: u64,
}

/// A client's latest entries, with their indices.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    origin: u64,
    entries: Window<u64>,
}

impl State {
    fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "the service remembers at least one client");
        Self {
            sessions: VecDeque::with_capacity(capacity),
            capacity,
            subscriber: None,
            tickets: 0,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            malformed: 0,
        }
    }

    /// Looks up an append in its client's session.
    fn find(&self, append: &Append<'_>) -> Seen<'_, u64> {
        let session = self.sessions.iter().find(|session| session.origin == append.origin);
        session.map_or(Seen::New, |session| session.entries.find(append.sequence))
    }

    /// Records an entry in its client's session. If an earlier entry has the same number, returns that one's index
    /// as an error.
    fn remember(&mut self, append: &Append<'_>, index: u64) -> Result<(), Option<u64>> {
        let found = self.sessions.iter().position(|session| session.origin == append.origin);
        let mut session = match found {
            Some(place) => self.sessions.remove(place).expect("it was just found"),
            None => {
                if self.sessions.len() == self.capacity {
                    self.sessions.pop_front();
                }
                Session { origin: append.origin, entries: Window::default() }
            }
        };
        let outcome = match session.entries.find(append.sequence) {
            Seen::Same(&index) => Err(Some(index)),
            Seen::Old => Err(None),
            Seen::New => Ok(()),
        };
        if outcome.is_ok() {
            session.entries.record(append.sequence, index);
        }
        self.sessions.push_back(session);
        outcome
    }

    fn take_waiting(&mut self, ticket: u64) -> (Caller, Subject) {
        let (first, caller, subject) = self.waiting.pop_front().expect("somebody waits for each ticket");
        assert_eq!(first, ticket, "tickets come back in order");
        (caller, subject)
    }
}

impl StateMachine for State {
    fn apply(&mut self, index: u64, entry: &[u8], ticket: Option<u64>, effects: &mut Effects) -> bool {
        let Ok(append) = Append::parse(entry) else {
            self.malformed += 1;
            if let Some(ticket) = ticket {
                let (caller, subject) = self.take_waiting(ticket);
                self.answers.push_back((caller, subject, Status::Abandoned, 0));
            }
            return true;
        };
        let outcome = self.remember(&append, index);
        if outcome.is_ok()
            && let Some(subscriber) = self.subscriber
        {
            effects.reply(subscriber, Call::Entry as u8, &[&index.to_be_bytes(), entry]);
        }
        if let Some(ticket) = ticket {
            let (caller, subject) = self.take_waiting(ticket);
            let (status, index) = match outcome {
                Ok(()) => (Status::Ok, index),
                Err(Some(index)) => (Status::Ok, index),
                Err(None) => (Status::BadRequest, 0),
            };
            self.answers.push_back((caller, subject, status, index));
        }
        true
    }

    fn abandoned(&mut self, ticket: u64, _: &mut Effects) {
        let (caller, subject) = self.take_waiting(ticket);
        self.answers.push_back((caller, subject, Status::Abandoned, 0));
    }

    fn snapshot(&mut self, _: u64, into: &mut [u8]) -> usize {
        for (session, bytes) in self.sessions.iter().zip(into.chunks_exact_mut(SESSION_BYTES)) {
            bytes[..8].copy_from_slice(&session.origin.to_be_bytes());
            for (entry, bytes) in session.entries.records().zip(bytes[8..].chunks_exact_mut(16)) {
                // An empty slot is encoded with an index that no entry has.
                let (sequence, index) = entry.map_or((0, u64::MAX), |(sequence, &index)| (sequence, index));
                bytes[..8].copy_from_slice(&sequence.to_be_bytes());
                bytes[8..].copy_from_slice(&index.to_be_bytes());
            }
        }
        self.sessions.len() * SESSION_BYTES
    }

    fn restore(&mut self, next: u64, from: &[u8], effects: &mut Effects) -> bool {
        self.sessions.clear();
        for bytes in from.chunks_exact(SESSION_BYTES).take(self.capacity) {
            let mut entries = [None; SESSION_WINDOW as usize];
            for (entry, bytes) in entries.iter_mut().zip(bytes[8..].chunks_exact(16)) {
                let (sequence, index) = (word(bytes, 0), word(bytes, 8));
                *entry = (index != u64::MAX).then_some((sequence, index));
            }
            self.sessions.push_back(Session { origin: word(bytes, 0), entries: entries.into() });
        }
        if let Some(subscriber) = self.subscriber {
            effects.reply(subscriber, Call::Restored as u8, &[&next.to_be_bytes()]);
        }
        true
    }
}
