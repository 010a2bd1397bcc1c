//! The soft key-value engine and the one in the gateware, compared event by event.
//!
//! A [`Pair`] is one node twice: the soft engine and the one in gates get the same events and must have the
//! same effects: messages byte by byte, in the same order to each destination, timers, status. [`Lockstep`]
//! is a cluster of pairs under a random schedule: clients, loss, duplication, reordering, views, crashes,
//! malformed messages. It models neither the membership service nor a realistic network, because twins must
//! agree under any schedule.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_gateware::{RtlKv, RtlKvConfig};
use weft_kv::message::{
    Acknowledge, Commit, Kind, Reply, Request, Sealed, StateChunk, StateRequest, What, Write,
};
use weft_kv::{Kv, Operation, Parameters, Status, hash};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message, NodeId, NodeSet,
    View,
};

use crate::said::Said;

/// Number of events in a trace, unless the environment variable `WEFT_KV_TRACE` is set.
const TRACE_EVENTS: usize = 40;

/// With at most this many undecided writes, every bucket has a free way, unless it is crowded.
const UNDECIDED_SURE: u64 = 20;

/// Bytes of a key.
const KEY_BYTES: usize = 8;

/// The numeric value of an environment variable.
fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).expect("a cluster has few nodes")
}

/// A message as readable text.
pub fn describe(kind: u8, payload: &[u8]) -> String {
    let text = match kind {
        1 => Request::parse(payload, KEY_BYTES).map(|request| {
            format!(
                "Request {:?} client {} request {} expected {:x} key {:x?} value {} bytes",
                request.operation,
                request.client,
                request.request,
                request.expected,
                request.key,
                request.value.len()
            )
        }),
        2 => Reply::parse(payload).map(|reply| {
            format!(
                "Reply {:?} client {} request {} version {:x} epoch {} full {:?} value {} bytes",
                reply.status,
                reply.client,
                reply.request,
                reply.version,
                reply.epoch.0,
                reply.full,
                reply.value.len()
            )
        }),
        3 => Write::parse(payload, KEY_BYTES).map(|write| {
            format!(
                "Write epoch {} number {} committed {} {:?} {:?} client {} request {} version {:x} key {:x?} value {} bytes",
                write.epoch.0,
                write.number,
                write.committed,
                write.operation,
                write.status,
                write.client,
                write.request,
                write.version,
                write.key,
                write.value.len()
            )
        }),
        4 => Acknowledge::parse(payload).map(|message| format!("{message:?}")),
        5 => Commit::parse(payload).map(|message| format!("{message:?}")),
        6 => Sealed::parse(payload).map(|message| {
            let cuts = message.cuts.iter().filter(|cut| cut.epoch.0 != 0);
            let cuts: Vec<_> = cuts.map(|cut| (cut.epoch.0, &cut.lengths[..8])).collect();
            format!(
                "Sealed epoch {} base {} {:?} heard {:?} accepted {:?} cuts {cuts:?}",
                message.epoch.0, message.base.0, message.base_members, message.heard, &message.accepted[..8]
            )
        }),
        7 => StateRequest::parse(payload).map(|message| format!("{message:?}")),
        8 => StateChunk::parse(payload).map(|chunk| {
            format!(
                "StateChunk epoch {} attempt {} {:?} from {} next {:x} last {} tag {} records {} bytes {}",
                chunk.epoch.0,
                chunk.attempt,
                chunk.what,
                chunk.from,
                chunk.next,
                chunk.last,
                chunk.tag,
                chunk.records.len(),
                describe_records(&chunk)
            )
        }),
        _ => Ok(format!("kind {kind}")),
    };
    text.unwrap_or_else(|error| format!("kind {kind}, malformed: {error}: {payload:02x?}"))
}

/// The keys in a chunk, each with its version, as text.
fn describe_records(chunk: &StateChunk<'_>) -> String {
    let (mut text, mut rest) = (String::new(), chunk.records);
    while chunk.what == What::Buckets && rest.len() >= 24 {
        let number = |at: usize| rest[at..at + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let _ = write!(text, "{:x}:{:x} ", number(16), number(0));
        let length = usize::from(rest[8]) << 8 | usize::from(rest[9]);
        rest = rest.get(24 + length.next_multiple_of(8)..).unwrap_or_default();
    }
    text
}

fn describe_event(event: &Event<'_>) -> String {
    match event {
        Event::Call { caller, message, last } => {
            format!("call of {caller:?} (last: {last}): {}", describe(message.kind, message.payload))
        }
        Event::Deliver { from, message, last } => {
            format!("from {from} (last: {last}): {}", describe(message.kind, message.payload))
        }
        Event::Configure(configuration) => format!(
            "configure {}: epoch {} full {:?} joining {:?} lease until {}",
            configuration.node,
            configuration.view.epoch.0,
            configuration.view.full,
            configuration.view.joining,
            configuration.lease_until
        ),
        event => format!("{event:?}"),
    }
}

/// One node, twice: the soft engine and the one in gates.
#[derive(Debug)]
pub struct Pair {
    soft: Kv,
    soft_memory: Memory,
    gates: RtlKv,
    gates_memory: Memory,
    events: u64,
    unsure: u64,
    trace_events: usize,
    trace: VecDeque<String>,
    effects: [Effects; 2],
}

impl Pair {
    /// Creates two engines that have no view yet.
    pub fn new(config: RtlKvConfig) -> Self {
        let parameters = Parameters {
            retransmit: config.retransmit,
            retransmit_max: config.retransmit_max,
            ..Parameters::gateware(config.buckets)
        };
        let soft_memory = Memory::new(parameters.memory_bytes());
        Self {
            soft: Kv::new(parameters),
            soft_memory,
            gates: RtlKv::new(config),
            gates_memory: Memory::new(config.memory_bytes()),
            events: 0,
            unsure: 0,
            trace_events: number("WEFT_KV_TRACE").unwrap_or(TRACE_EVENTS),
            trace: VecDeque::new(),
            effects: Default::default(),
        }
    }

    /// The soft engine. The other has the same state.
    pub fn soft(&self) -> &Kv {
        &self.soft
    }

    /// The engine in gates.
    pub fn gates(&self) -> &RtlKv {
        &self.gates
    }

    /// A digest of the soft engine's state.
    pub fn digest(&self) -> u64 {
        self.soft.state_digest(&self.soft_memory)
    }

    /// Gives both engines the same event. Returns the effects of the soft engine.
    ///
    /// # Panics
    /// If the effects differ; prints a trace.
    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> &Effects {
        self.handle_or_busy(now, event, false)
    }

    /// Like [`Pair::handle`]; but if `may_be_busy`, the gates may answer `Busy` instead. The soft engine is
    /// then restored to its state before the event.
    ///
    /// # Panics
    /// As [`Pair::handle`].
    pub fn handle_or_busy(&mut self, now: Instant, event: Event<'_>, may_be_busy: bool) -> &Effects {
        self.events += 1;
        if self.trace.len() >= self.trace_events {
            self.trace.pop_front();
        }
        let mut text = format!("  {} at {now}: {}\n", self.events, describe_event(&event));
        let before = may_be_busy.then(|| (self.soft.clone(), self.soft_memory.clone()));
        let [soft_effects, gates_effects] = &mut self.effects;
        soft_effects.clear();
        gates_effects.clear();
        if matches!(event, Event::Reset) {
            self.soft_memory.clear();
        }
        self.soft.handle(now, event, &mut Io { effects: soft_effects, memory: &mut self.soft_memory });
        let soft = Said::of(soft_effects);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.gates.handle(now, event, &mut Io { effects: gates_effects, memory: &mut self.gates_memory });
        }));
        if let Err(panic) = ran {
            eprintln!("{}the soft engine says\n{}", self.story(&text), soft.text(describe));
            resume_unwind(panic);
        }
        let gates = Said::of(gates_effects);
        if let Some((engine, memory)) = before
            && soft != gates
            && is_busy(&gates)
        {
            (self.soft, self.soft_memory) = (engine, memory);
            text.push_str("    Busy, where the soft engine knows more\n");
            self.trace.push_back(text);
            self.unsure += 1;
            return &self.effects[1];
        }
        let (soft_status, gates_status) = (self.soft.status(), self.gates.status());
        assert!(
            soft == gates && soft_status == gates_status,
            "{}the twins differ: the soft engine is {soft_status:?} and says\n{}the gates are {gates_status:?} and say\n{}first: {}",
            self.story(&text),
            soft.text(describe),
            gates.text(describe),
            soft.first_difference(&gates)
        );
        text.push_str(&soft.text(describe));
        self.trace.push_back(text);
        &self.effects[0]
    }

    fn story(&self, last: &str) -> String {
        let mut text = String::from("\nthe last events of this node, and what both said:\n");
        self.trace.iter().for_each(|line| text.push_str(line));
        text.push_str(last);
        text
    }

    /// How often the gates answered `Busy` although the soft engine knew whether there was room.
    pub fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Counters that both engines have with different values: name, soft, gates.
    pub fn different_counters(&self) -> Vec<(&'static str, u64, u64)> {
        let gates: BTreeMap<_, _> = self.gates.counters().into_iter().collect();
        let soft = self.soft.counters().into_iter();
        soft.filter_map(|(name, soft)| {
            let gates = *gates.get(name)?;
            (soft != gates).then_some((name, soft, gates))
        })
        .collect()
    }
}

/// Whether the only effect is a reply of `Busy`.
fn is_busy(said: &Said) -> bool {
    let mut answers = said.callers.values().flatten();
    let is_busy =
        |(_, payload): &(u8, Vec<u8>)| Reply::parse(payload).is_ok_and(|reply| reply.status == Status::Busy);
    said.peers.is_empty() && said.callers.len() == 1 && answers.all(is_busy)
}

/// Frequencies of the events in a schedule, as relative weights, or in a thousand.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Nodes of the cluster, at most 8.
    pub nodes: usize,
    /// Clients.
    pub clients: usize,
    /// Number of events, over all nodes, before the faults end and the final checks begin.
    pub steps: usize,
    /// Number of keys; no two of them prefer the same way of a bucket.
    pub keys: usize,
    /// Whether puts go to a bucket that is nearly full.
    pub crowded: bool,
    /// The longest value in bytes.
    pub value_bytes: usize,
    /// Weight of a client's new request.
    pub requests: u64,
    /// Weight of a client's retransmission.
    pub repeats: u64,
    /// Weight of a datagram's arrival.
    pub arrivals: u64,
    /// Weight of a timer.
    pub timers: u64,
    /// Weight of a lease's renewal or expiry.
    pub leases: u64,
    /// Weight of a new view.
    pub views: u64,
    /// Weight of a node's crash.
    pub crashes: u64,
    /// Weight of a long pause without events.
    pub pauses: u64,
    /// Datagrams lost, in a thousand.
    pub loss: u64,
    /// Datagrams duplicated, in a thousand.
    pub duplication: u64,
    /// Datagrams changed, in a thousand.
    pub mutation: u64,
    /// Whether datagrams arrive in random order.
    pub reordering: bool,
    /// Whether crashed nodes join again.
    pub joins: bool,
}

impl Profile {
    /// Client requests only, without faults.
    pub const CALM: Self = Self {
        nodes: 1,
        clients: 4,
        steps: 2_000,
        keys: 24,
        crowded: false,
        value_bytes: 200,
        requests: 100,
        repeats: 4,
        arrivals: 400,
        timers: 2,
        leases: 2,
        views: 0,
        crashes: 0,
        pauses: 0,
        loss: 0,
        duplication: 0,
        mutation: 0,
        reordering: false,
        joins: false,
    };

    /// A lossy network.
    pub const LOSSY: Self =
        Self { nodes: 3, loss: 50, duplication: 50, reordering: true, repeats: 10, timers: 10, ..Self::CALM };

    /// View changes, crashes and joins in addition.
    pub const ALL: Self = Self { views: 4, crashes: 1, pauses: 1, joins: true, ..Self::LOSSY };
}

#[derive(Clone, Debug)]
enum Packet {
    Peer { from: usize, to: usize, messages: Vec<(u8, Vec<u8>)> },
    Request { to: usize, client: usize, kind: u8, payload: Vec<u8> },
    Configure { to: usize, configuration: Configuration },
}

#[derive(Debug)]
struct Node {
    pair: Pair,
    /// The epoch in which the node started. The node gets later views only, in which it is a new incarnation.
    born: Epoch,
    timers: BTreeMap<u32, Instant>,
}

#[derive(Debug, Default)]
struct Actor {
    next: u64,
    said: VecDeque<(u64, Vec<u8>)>,
    versions: BTreeMap<u64, u64>,
}

/// A cluster of pairs under a random schedule.
#[derive(Debug)]
pub struct Lockstep {
    profile: Profile,
    config: RtlKvConfig,
    rng: Xoshiro256PlusPlus,
    now: Instant,
    nodes: Vec<Option<Node>>,
    packets: VecDeque<Packet>,
    view: View,
    actors: Vec<Actor>,
    keys: Vec<u64>,
    calm: bool,
    /// How often each kind of event occurred.
    pub counts: BTreeMap<String, u64>,
}

impl Lockstep {
    /// Creates a founded cluster.
    pub fn new(seed: u64, profile: Profile, config: RtlKvConfig) -> Self {
        let mut cluster = Self {
            profile,
            config,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: Instant::ZERO + Duration::from_us(1),
            nodes: (0..profile.nodes).map(|_| None).collect(),
            packets: VecDeque::new(),
            view: View::default(),
            actors: (0..profile.clients).map(|_| Actor { next: 1, ..Actor::default() }).collect(),
            keys: keys(profile.keys, profile.crowded, config.buckets),
            calm: false,
            counts: BTreeMap::new(),
        };
        cluster.found();
        cluster
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random(1000) < per_mille
    }

    fn note(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Founds the cluster again, with empty nodes.
    fn found(&mut self) {
        self.note("founded");
        self.packets.clear();
        self.view = View::default();
        let full = NodeSet::first(self.profile.nodes);
        (0..self.profile.nodes).for_each(|index| self.restart(index));
        self.view = View { epoch: Epoch(1), full, joining: NodeSet::EMPTY };
        (0..self.profile.nodes).for_each(|index| self.configure(index, self.view));
    }

    /// Starts a node with empty state: as a new process, or by a reset.
    fn restart(&mut self, index: usize) {
        if self.nodes[index].is_some() && self.chance(700) {
            self.handle(index, Event::Reset);
            let born = self.view.epoch;
            if let Some(node) = &mut self.nodes[index] {
                node.timers.clear();
                node.born = born;
            }
        } else {
            let power_on_seed = self.random(1 << 31) as u32;
            let pair = Pair::new(RtlKvConfig { power_on_seed, ..self.config });
            self.nodes[index] = Some(Node { pair, born: self.view.epoch, timers: BTreeMap::new() });
        }
    }

    fn configure(&mut self, index: usize, view: View) {
        let lease_until = self.now + Duration::from_ps(4_000 * self.random(10_000_000));
        self.handle(index, Event::Configure(Configuration { node: node(index), view, lease_until }));
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(node) = self.nodes[index].as_mut() else { return };
        // Each undecided put reserves a way. While these might fill a bucket, the gates do not know whether
        // there is room.
        let unsure = self.profile.crowded || node.pair.soft().undecided() > UNDECIDED_SURE;
        let may_be_busy = unsure && matches!(event, Event::Call { .. });
        let effects = node.pair.handle_or_busy(self.now, event, may_be_busy);
        let said = Said::of(effects);
        node.timers.extend(said.timers);
        for (to, messages) in said.peers {
            if to < self.profile.nodes {
                self.packets.push_back(Packet::Peer { from: index, to, messages });
            }
        }
        for (caller, messages) in said.callers {
            let Caller::Host(client) = caller else { panic!("only clients called") };
            for (_, payload) in messages {
                self.answered(client as usize, &payload);
            }
        }
    }

    fn answered(&mut self, client: usize, payload: &[u8]) {
        let reply = Reply::parse(payload).expect("an engine answers well");
        self.note(&format!("{:?}", reply.status));
        let actor = &mut self.actors[client];
        let key = actor.said.iter().find(|(request, _)| *request == reply.request);
        if let Some((_, request)) = key
            && let Ok(request) = Request::parse(request, KEY_BYTES)
            && matches!(reply.status, Status::Ok | Status::Mismatch)
        {
            let key = u64::from_be_bytes(request.key.try_into().expect("eight bytes"));
            actor.versions.insert(key, reply.version);
        }
    }

    /// Sends a new request of a random client.
    fn request(&mut self) {
        let client = self.random(self.profile.clients as u64) as usize;
        let place = self.random(self.keys.len() as u64) as usize;
        // The first key is requested more often.
        let place = if self.chance(400) { 0 } else { place };
        let key = self.keys[place];
        let most = self.profile.value_bytes as u64;
        let length = if self.chance(100) { most } else { 1 + self.random(most) };
        let operation = match self.random(100) {
            0..40 => Operation::Get,
            40..75 => Operation::Put,
            75..87 => Operation::Delete,
            _ => Operation::CompareAndSet,
        };
        let mut value = vec![0; length as usize];
        self.rng.fill_bytes(&mut value);
        if matches!(operation, Operation::Get | Operation::Delete) {
            value.clear();
        }
        let seldom = self.random(10);
        let actor = &mut self.actors[client];
        let expected = match operation {
            Operation::CompareAndSet if seldom > 0 => actor.versions.get(&key).copied().unwrap_or(0),
            Operation::CompareAndSet => seldom,
            _ => 0,
        };
        let request = actor.next;
        actor.next += 1;
        let message = Request {
            operation,
            client: 1000 + client as u64,
            request,
            expected,
            key: &key.to_be_bytes(),
            value: &value,
        };
        let payload = [&message.header()[..], message.key, message.value].concat();
        actor.said.push_back((request, payload.clone()));
        if actor.said.len() > 40 {
            actor.said.pop_front();
        }
        let leader = self.view.leader((hash(&key.to_be_bytes()) % 256) as u32).map_or(0, NodeId::index);
        let anywhere = operation == Operation::Get && self.chance(600) || self.chance(50);
        let to = if anywhere { self.random(self.profile.nodes as u64) as usize } else { leader };
        self.packets.push_back(Packet::Request { to, client, kind: Kind::Request as u8, payload });
    }

    /// Retransmits an old request.
    fn repeat(&mut self) {
        let client = self.random(self.profile.clients as u64) as usize;
        let (count, place) = (self.actors[client].said.len(), self.rng.next_u64() as usize);
        if count == 0 {
            return;
        }
        // Usually one of the latest.
        let back = if self.chance(800) { 1 + place % count.min(4) } else { 1 + place % count };
        let (_, payload) = self.actors[client].said[count - back].clone();
        let to = self.random(self.profile.nodes as u64) as usize;
        self.packets.push_back(Packet::Request { to, client, kind: Kind::Request as u8, payload });
    }

    /// Delivers the oldest datagram, or a random one.
    fn arrive(&mut self) {
        let count = self.packets.len() as u64;
        if count == 0 {
            return;
        }
        let reordered = !self.calm && self.profile.reordering && self.chance(500);
        let place = if reordered { self.random(count) as usize } else { 0 };
        let mut packet = if !self.calm && self.chance(self.profile.duplication) {
            self.packets[place].clone()
        } else {
            self.packets.remove(place).expect("it is there")
        };
        if !self.calm {
            if self.chance(self.profile.loss) {
                return;
            }
            if self.chance(self.profile.mutation) {
                self.mutate(&mut packet);
            }
        }
        match packet {
            Packet::Peer { from, to, messages } => {
                for (place, (kind, payload)) in messages.iter().enumerate() {
                    self.note(&format!("kind {kind}"));
                    let (message, last) = (Message { kind: *kind, payload }, place + 1 == messages.len());
                    self.handle(to, Event::Deliver { from: node(from), message, last });
                }
            }
            Packet::Request { to, client, kind, payload } => {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Call { caller: Caller::Host(client as u32), message, last: true });
            }
            Packet::Configure { to, configuration } => self.handle(to, Event::Configure(configuration)),
        }
    }

    /// Changes a datagram, as a faulty peer could: the checksum of the frame does not detect that.
    fn mutate(&mut self, packet: &mut Packet) {
        let dice = self.random(8);
        let (place, bit, length) = (self.rng.next_u64() as usize, self.random(8), self.random(80) as usize);
        let (kind, payload) = match packet {
            Packet::Peer { from, messages, .. } => {
                if dice == 0 {
                    *from = place % 8;
                }
                let index = place % messages.len();
                let (kind, payload) = &mut messages[index];
                (kind, payload)
            }
            Packet::Request { kind, payload, .. } => (kind, payload),
            Packet::Configure { .. } => return,
        };
        match dice {
            1 => *kind = (place % 256) as u8,
            2 => *kind = (place % 10) as u8,
            3 => payload.truncate(place % (payload.len() + 1)),
            4 => payload.resize(payload.len() + 1 + length, bit as u8),
            _ if payload.is_empty() => {}
            _ => {
                let at = place % payload.len().min(if dice == 5 { 16 } else { 64 });
                // The gates store stream numbers in 40 bits, so higher bits stay unchanged.
                let is_high = *kind != Kind::Request as u8 && matches!(at, 8..=10 | 16..=18 | 24..=26);
                payload[at] ^= u8::from(!is_high) << bit;
            }
        }
        self.note("mutated");
    }

    /// Fires the timer that is due next.
    fn timer(&mut self) {
        let due = self.nodes.iter().enumerate().flat_map(|(index, node)| {
            let timers = node.iter().flat_map(|node| &node.timers);
            timers.map(move |(tag, at)| (*at, index, *tag))
        });
        let Some((at, index, tag)) = due.min() else { return };
        let late = if self.calm { 0 } else { self.random(100) };
        self.now = self.now.max(at) + Duration::from_ns(4 * late);
        if let Some(node) = &mut self.nodes[index] {
            node.timers.remove(&tag);
        }
        self.note("timer");
        self.handle(index, Event::Timer { tag });
    }

    /// Whether the node started after the current view began.
    fn is_anew(&self, index: usize) -> bool {
        self.nodes[index].as_ref().is_some_and(|node| node.born >= self.view.epoch)
    }

    fn is_alive(&self, index: usize) -> bool {
        self.nodes[index].as_ref().is_some_and(|node| node.pair.soft().status().state == EngineState::Full)
    }

    /// Sends a node the view; it arrives at once or later.
    fn tell(&mut self, index: usize) {
        if self.is_anew(index) {
            return;
        }
        let configuration = Configuration {
            node: node(index),
            view: self.view,
            lease_until: self.now + Duration::from_ps(4_000 * self.random(10_000_000)),
        };
        self.packets.push_back(Packet::Configure { to: index, configuration });
    }

    /// Changes the view, if there is a reason, or sometimes without one.
    fn change_view(&mut self) {
        let View { epoch, full, joining } = self.view;
        let status = |cluster: &Self, index: usize| {
            cluster.nodes[index].as_ref().map(|node| node.pair.soft().status())
        };
        let (mut new_full, mut new_joining) = (full, joining);
        for index in 0..self.profile.nodes {
            let (this, status) = (node(index), status(self, index));
            let state = status.map(|status| status.state);
            let member = full.contains(this) || joining.contains(this);
            match state {
                None | Some(EngineState::Lost) if member => {
                    (new_full, new_joining) = (new_full.without(this), new_joining.without(this));
                }
                // The member has restarted and lost its state.
                Some(EngineState::Starting) if member && self.is_anew(index) => {
                    (new_full, new_joining) = (new_full.without(this), new_joining.without(this));
                }
                // A removed node restarts with empty state before it joins again.
                Some(EngineState::Lost | EngineState::Full) if !member && self.chance(500) => {
                    self.restart(index);
                }
                Some(EngineState::Starting) if !member && self.profile.joins && self.chance(500) => {
                    new_joining = new_joining.with(this);
                }
                Some(EngineState::Joining { synced: true })
                    if joining.contains(this) && status.is_some_and(|status| status.epoch == epoch) =>
                {
                    (new_full, new_joining) = (new_full.with(this), new_joining.without(this));
                }
                _ => {}
            }
        }
        if (new_full, new_joining) == (full, joining) && !self.calm && self.chance(100) {
            let victim = node(self.random(self.profile.nodes as u64) as usize);
            (new_full, new_joining) = (new_full.without(victim), new_joining.without(victim));
        }
        let holds = new_full.iter().any(|node| self.is_alive(node.index()));
        if !holds && !full.iter().any(|node| self.is_alive(node.index())) {
            // No node has the data any more.
            self.found();
            return;
        }
        if holds && (new_full, new_joining) != (full, joining) {
            self.view = View { epoch: Epoch(epoch.0 + 1), full: new_full, joining: new_joining };
            self.note("views");
        }
        for index in 0..self.profile.nodes {
            self.tell(index);
        }
    }

    fn crash(&mut self) {
        let victim = self.random(self.profile.nodes as u64) as usize;
        let others = self.view.full.without(node(victim));
        if others.iter().any(|node| self.is_alive(node.index())) {
            self.note("crashes");
            self.nodes[victim] = None;
            self.packets.retain(|packet| !matches!(packet, Packet::Configure { to, .. } if *to == victim));
        }
    }

    fn step(&mut self) {
        let profile = self.profile;
        let pause = Duration::from_ns(4 * self.random(500));
        self.now += pause;
        // More datagrams than this would be unrealistic.
        if self.packets.len() > 400 {
            self.arrive();
            return;
        }
        let mut dice = self.random(
            profile.requests
                + profile.repeats
                + profile.arrivals
                + profile.timers
                + profile.leases
                + profile.views
                + profile.crashes
                + profile.pauses,
        );
        let mut is = |weight| {
            let hit = dice < weight;
            dice = dice.wrapping_sub(weight);
            hit
        };
        if is(profile.requests) {
            self.request();
        } else if is(profile.repeats) {
            self.repeat();
        } else if is(profile.arrivals) {
            self.arrive();
        } else if is(profile.timers) {
            self.timer();
        } else if is(profile.leases) {
            let index = self.random(profile.nodes as u64) as usize;
            self.tell(index);
        } else if is(profile.views) {
            self.change_view();
        } else if is(profile.crashes) {
            self.crash();
        } else {
            let pause = Duration::from_ms(self.random(100_000));
            self.now += pause;
        }
        for index in 0..profile.nodes {
            if self.nodes[index].is_none() && profile.joins && self.chance(20) {
                self.restart(index);
            }
        }
    }

    /// Runs the schedule, then ends all faults, and reads every key at every node.
    ///
    /// # Panics
    /// If twins differ, or if the cluster does not recover although no datagram was changed.
    pub fn run(&mut self) {
        for _ in 0..self.profile.steps {
            self.step();
        }
        self.calm = true;
        for round in 0.. {
            for index in 0..self.profile.nodes {
                if self.nodes[index].is_none() && self.profile.joins {
                    self.restart(index);
                }
            }
            self.change_view();
            for _ in 0..20 {
                self.timer();
                let mut left = 20_000;
                while left > 0 && !self.packets.is_empty() {
                    left -= 1;
                    self.arrive();
                }
                assert!(self.packets.is_empty(), "the nodes never stop to talk: {:?}", self.packets);
            }
            if self.is_quiet() {
                break;
            }
            if round == 60 {
                let nodes = self.nodes.iter().flatten();
                let status: Vec<_> = nodes
                    .map(|node| (node.pair.soft().status(), node.pair.soft().undecided(), &node.timers))
                    .collect();
                assert!(
                    self.profile.mutation > 0,
                    "not in order again at {}: {:?} {status:?} {} datagrams",
                    self.now,
                    self.view,
                    self.packets.len()
                );
                break;
            }
        }
        self.read_everything();
    }

    fn is_quiet(&self) -> bool {
        self.packets.is_empty()
            && self.nodes.iter().flatten().all(|node| {
                let status = node.pair.soft().status();
                let member = status.state == EngineState::Full && status.epoch == self.view.epoch;
                node.pair.soft().undecided() == 0 && (member || !self.profile.joins)
            })
    }

    /// Compares the contents of all tables, including keys that no event has touched.
    fn read_everything(&mut self) {
        let client = 0;
        for index in 0..self.profile.nodes {
            if self.nodes[index].is_none() {
                continue;
            }
            let lease_until = self.now + Duration::from_secs(1);
            let configuration = Configuration { node: node(index), view: self.view, lease_until };
            self.handle(index, Event::Configure(configuration));
            for key in self.keys.clone() {
                self.now += Duration::from_ns(4);
                let message = Request {
                    operation: Operation::Get,
                    client: u64::MAX,
                    request: 1,
                    expected: 0,
                    key: &key.to_be_bytes(),
                    value: &[],
                };
                let payload = [&message.header()[..], message.key].concat();
                let message = Message { kind: Kind::Request as u8, payload: &payload };
                self.handle(index, Event::Call { caller: Caller::Host(client), message, last: true });
            }
        }
        while self.packets.pop_front().is_some() {}
        if self.profile.mutation == 0 && self.profile.joins {
            let digests: BTreeSet<_> = self.nodes.iter().flatten().map(|node| node.pair.digest()).collect();
            assert_eq!(digests.len(), 1, "replicas differ");
        }
    }

    /// How often the gates answered `Busy` although the soft engine knew whether there was room.
    pub fn unsure(&self) -> u64 {
        self.nodes.iter().flatten().map(|node| node.pair.unsure()).sum()
    }

    /// Counters of the gates that differ from the soft engine's, by node.
    pub fn different_counters(&self) -> Vec<(usize, &'static str, u64, u64)> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .flat_map(|(index, node)| {
                let different = node.iter().flat_map(|node| node.pair.different_counters());
                different.map(move |(name, soft, gates)| (index, name, soft, gates))
            })
            .collect()
    }
}

/// Keys of which no two prefer the same way of the same bucket, so twins store them in the same ways at
/// whatever time. Some share a bucket, and some of these even the tag. If `crowded`, most are in one bucket
/// and prefer ways that other keys prefer.
fn keys(count: usize, crowded: bool, buckets: u32) -> Vec<u64> {
    let place = |key: u64| {
        let hash = hash(&key.to_be_bytes());
        let tag = (hash >> 53).max(1);
        (hash as u32 & (buckets - 1), (hash >> 32) as u32 & 31, tag)
    };
    let mut keys = Vec::new();
    if crowded {
        let (bucket, ..) = place(1);
        keys.extend((1..).filter(|&key| place(key).0 == bucket).take(40));
        return keys;
    }
    let mut taken = BTreeSet::new();
    for key in 1.. {
        if keys.len() >= count {
            break;
        }
        let (bucket, way, tag) = place(key);
        // The first key is random; then come keys of the same bucket, two of them with the same tag; the
        // others are random.
        let first = keys.first().map(|&first| place(first));
        let wanted = match (keys.len(), first) {
            (1..=4, Some(first)) => bucket == first.0,
            (5..=6, Some(first)) => bucket == first.0 && tag == first.2,
            _ => true,
        };
        if wanted && taken.insert((bucket, way)) {
            keys.push(key);
        }
    }
    keys
}
