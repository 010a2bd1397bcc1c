//! A small deterministic network of cards and hosts, with loss, duplication, delay and crashes.
//!
//! A copy to or from the host's memory takes effect at its start or at its end, chosen at random. No message
//! between a card and its host is lost. The checker gets all reads and writes.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod workload;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_check::serializable::{self, Access, Fate, History, Options, Transaction};
use weft_time::{Duration, Instant};
use weft_txn::Wiring;
use weft_txn::host::{Half, HalfParameters, HalfTables, Local};
use weft_txn::host_port::{HostKind, HostMessage};
use weft_txn::message::Status;
use weft_txn::store::{IndexParameters, Layout, Precision, Shape};
use weft_txn::{
    LINKED_TABLES, LOADED, LinkedShape, LinkedTable, Outcome, Parameters, Placement, Recorded, Request,
    TransactionId, Transactions,
};
use weft_verbs::{CompletionStatus, Operation, QueuePairNumber};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, EngineState, EngineStatus, Epoch, Event, Io, Memory,
    Message, NodeId, NodeSet, View,
};

pub const LOG_BYTES: usize = 1 << 16;
const TABLE_ADDRESS: u64 = LOG_BYTES as u64;

pub fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// For each node, calls `crash` for every `step`-th event, before which the node is to crash. Stops when
/// `crash` returns that the run ended before that event.
pub fn before_events(step: usize, nodes: usize, mut crash: impl FnMut(usize, u64) -> bool) {
    for victim in 0..nodes {
        let events = (1 + victim as u64..).step_by(step);
        let runs = events.take_while(|&event| crash(victim, event)).count();
        assert!(runs > 25, "the crashes are among the transactions");
    }
}

/// What the network does to messages: probabilities per mille.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    /// Probability of a delay of up to 30 us.
    pub late: u64,
}

/// Parameters of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub parameters: Parameters,
    /// Number of index entries on the card, if the tables are in the host's memory; `None` if the engine
    /// holds the tables.
    pub entries: Option<u32>,
    pub faults: Faults,
    /// Whether peers access the engine's tables with one-sided verbs.
    pub linked: bool,
    /// Slots in a segment of the host's table.
    pub segment_slots: u32,
    /// Overflow pages of the host's table.
    pub pages: u32,
    /// The longest value that the host's table takes, in bytes.
    pub value_bytes_max: usize,
    /// Whether hosts execute transactions alone if they can; half of the calls allow it.
    pub local: bool,
}

impl Setup {
    pub fn new(nodes: usize, replicas: usize, entries: Option<u32>) -> Self {
        let mut parameters = Parameters::new(nodes, replicas);
        parameters.window = 256;
        parameters.operations = 64;
        parameters.log_bytes = LOG_BYTES;
        parameters.record = true;
        Self {
            parameters,
            entries,
            faults: Faults::default(),
            linked: false,
            segment_slots: 4,
            pages: 64,
            value_bytes_max: 1024,
            local: false,
        }
    }

    fn half(&self) -> HalfParameters {
        let local = if self.local { Local::Unshipped } else { Local::Nothing };
        HalfParameters { local, record: self.parameters.record, ..HalfParameters::default() }
    }

    fn shape(&self) -> Shape {
        Shape {
            slots: 128,
            segment_slots: self.segment_slots,
            displacement: Some(8),
            slot_bytes: 64,
            pages: self.pages,
            page_slots: 4,
            blocks: 128,
            value_bytes_max: self.value_bytes_max,
        }
    }

    fn placement(&self, node: usize) -> Placement {
        if self.linked {
            let table = LinkedTable { buckets: 8, linked: 16, value_bytes_max: 1024 };
            let shape = LinkedShape { tables: [table; LINKED_TABLES], bucket_slots: 2 };
            return Placement::Linked { node, shape };
        }
        self.entries.map_or(Placement::Host, |entries| Placement::Card {
            shape: self.shape(),
            index: IndexParameters {
                precision: Precision::Runs,
                ahead: 0,
                entries,
                value_bytes_max: self.value_bytes_max,
            },
            table_address: TABLE_ADDRESS,
        })
    }

    fn tables(&self) -> Option<HalfTables> {
        self.entries.map(|_| HalfTables {
            shape: self.shape(),
            table_address: TABLE_ADDRESS,
            precision: Precision::Runs,
            log_address: 0,
            log_bytes: self.parameters.log_bytes,
        })
    }
}

pub struct Node {
    pub engine: Transactions,
    memory: Memory,
    pub half: Half,
    host: Vec<u8>,
    timers: BTreeMap<u32, Instant>,
    /// The time of the last event towards the host: messages on the bus keep their order.
    up: Instant,
    down: Instant,
    /// When each attempt began, by its token.
    begun: BTreeMap<u32, Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Datagram {
        from: usize,
        to: usize,
        kind: u8,
        payload: Vec<u8>,
    },
    HostRead {
        node: usize,
        tag: u64,
        memory: usize,
        host: usize,
        bytes: Option<Vec<u8>>,
        length: usize,
    },
    HostWrite {
        node: usize,
        tag: u64,
        memory: usize,
        host: usize,
        bytes: Option<Vec<u8>>,
        length: usize,
    },
    ToCard {
        node: usize,
        token: u32,
        kind: u8,
        payload: Vec<u8>,
    },
    ToHost {
        node: usize,
        token: u32,
        kind: u8,
        payload: Vec<u8>,
    },
    Timer {
        node: usize,
        tag: u32,
    },
    Wake {
        node: usize,
    },
    Verb {
        node: usize,
        peer: usize,
        tag: u64,
        near: usize,
        far: usize,
        length: usize,
        is_read: bool,
        swap: Option<(u64, u64)>,
        bytes: Option<Vec<u8>>,
    },
    VerbEnd {
        node: usize,
        tag: u64,
        near: usize,
        bytes: Vec<u8>,
    },
    Configure {
        node: usize,
        view: (u32, u16, u16),
    },
    Return {
        node: usize,
    },
}

impl Due {
    /// The node in which the event happens.
    fn of_node(&self) -> Option<usize> {
        match self {
            Self::Datagram { .. } | Self::Return { .. } => None,
            // A rejoined node does not get events of its former incarnation.
            Self::Configure { node, .. } => Some(*node),
            Self::Verb { node, .. } | Self::VerbEnd { node, .. } => Some(*node),
            Self::HostRead { node, .. } | Self::HostWrite { node, .. } => Some(*node),
            Self::ToCard { node, .. } | Self::ToHost { node, .. } => Some(*node),
            Self::Timer { node, .. } | Self::Wake { node } => Some(*node),
        }
    }
}

pub struct Network {
    pub setup: Setup,
    pub now: Instant,
    rng: Xoshiro256PlusPlus,
    pub nodes: Vec<Option<Node>>,
    pub view: View,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    pub events: u64,
    /// Whether to print all events.
    pub trace: bool,
    /// A node, and the event before which it crashes.
    pub crash_at: Option<(usize, u64)>,
    /// A node that is cut off: messages to it and from it are lost.
    pub cut_off: Option<usize>,
    /// Time after which a crashed node rejoins with empty memory.
    pub comes_back: Option<Duration>,
    /// Calls that a node which rejoins keeps under way.
    pub concurrency: usize,
    /// Calls that clients will still make, at all nodes together.
    pub calls_left: u64,
    pub finished: Vec<(usize, Outcome)>,
    records: BTreeMap<TransactionId, Recorded>,
    begun: BTreeMap<TransactionId, Instant>,
    fates: BTreeMap<TransactionId, Fate>,
    sums: Vec<u64>,
}

impl Network {
    pub fn new(seed: u64, setup: Setup) -> Self {
        let nodes = setup.parameters.nodes;
        let mut network = Self {
            setup,
            now: Instant::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            nodes: Vec::new(),
            view: View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY },
            due: BinaryHeap::new(),
            sequence: 0,
            events: 0,
            trace: false,
            crash_at: None,
            cut_off: None,
            comes_back: None,
            concurrency: 0,
            calls_left: 0,
            finished: Vec::new(),
            records: BTreeMap::new(),
            begun: BTreeMap::new(),
            fates: BTreeMap::new(),
            sums: Vec::new(),
        };
        for index in 0..nodes {
            let fresh = network.fresh(index, true);
            network.nodes.push(Some(fresh));
        }
        for index in 0..nodes {
            if setup.linked {
                network.wire(index);
            }
            network.configure(index);
        }
        network
    }

    /// Whether a founding node replicates a shard.
    fn replicates(&self, index: usize, shard: usize) -> bool {
        let nodes = self.setup.parameters.nodes;
        (index + nodes - shard) % nodes < self.setup.parameters.replicas
    }

    fn fresh(&self, index: usize, loaded: bool) -> Node {
        let (parameters, placement, tables) =
            (self.setup.parameters, self.setup.placement(index), self.setup.tables());
        let mut engine = Transactions::new(parameters, workload::procedures(), placement);
        let mut memory = Memory::new(Transactions::memory_bytes(&parameters, &placement));
        let mut half = Half::new(workload::procedures(), self.setup.half(), tables);
        let mut host = vec![0; LOG_BYTES + tables.map_or(0, |tables| tables.table_bytes())];
        let objects = workload::load(parameters.nodes).filter(|(key, _)| self.replicates(index, key.shard()));
        for (key, value) in objects.filter(|_| loaded) {
            match tables {
                None if self.setup.linked => engine.load_linked(&mut memory, key, &value),
                None => engine.load(key, &value),
                Some(_) => half.load(&mut host, key, &value),
            }
        }
        half.reports(&host).for_each(|report| engine.learn(&report));
        half.room().into_iter().for_each(|room| engine.learn_room(room));
        Node {
            memory,
            engine,
            half,
            host,
            timers: BTreeMap::new(),
            up: Instant::ZERO,
            down: Instant::ZERO,
            begun: BTreeMap::new(),
        }
    }

    /// Configures how an engine reaches its peers' memory.
    fn wire(&mut self, index: usize) {
        for peer in (0..self.setup.parameters.nodes).filter(|peer| *peer != index) {
            let queue_pair = QueuePairNumber(peer as u32);
            let wiring =
                Wiring { queue_pair, local_address: 1 << 20, lkey: 1, remote_address: 1 << 24, rkey: 2 };
            let payload = weft_txn::host_port::wire(peer, &wiring);
            let message = Message { kind: HostKind::Wire as u8, payload: &payload };
            self.handle(index, Event::Call { caller: Caller::Host(0), message, last: true });
        }
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random(1000) < per_mille
    }

    fn schedule(&mut self, at: Instant, due: Due) {
        self.sequence += 1;
        self.due.push(Reverse((at, self.sequence, due)));
    }

    fn nanoseconds(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_ns(from + self.random(to - from))
    }

    pub fn configure(&mut self, index: usize) {
        let configuration =
            Configuration { node: node(index), view: self.view, lease_until: Instant::FAR_FUTURE };
        self.handle(index, Event::Configure(configuration));
    }

    /// A node crashes. After a while the other nodes continue without it, each when it gets the new view.
    pub fn crash(&mut self, index: usize) {
        if self.nodes[index].take().is_some() {
            self.remove(index);
            if let Some(after) = self.comes_back {
                self.schedule(self.now + after, Due::Return { node: index });
            }
        }
    }

    /// A node is cut off shortly before its lease ends. The others continue without it, and it continues
    /// alone until its lease ends.
    pub fn isolate(&mut self, index: usize) {
        self.cut_off = Some(index);
        let lease_until = self.now + self.nanoseconds(5_000, 45_000);
        let configuration = Configuration { node: node(index), view: self.view, lease_until };
        self.handle(index, Event::Configure(configuration));
        self.remove(index);
    }

    fn remove(&mut self, index: usize) {
        let (full, joining) = (self.view.full.without(node(index)), self.view.joining.without(node(index)));
        self.change_view(full, joining, (50_000, 120_000));
    }

    /// A node rejoins with empty memory; its clients make other calls.
    pub fn rejoin(&mut self, index: usize) {
        assert!(self.nodes[index].is_none(), "it is dead");
        // Drops the events that were under way between the former node's card and host.
        self.due.retain(|Reverse((_, _, due))| due.of_node() != Some(index));
        let fresh = self.fresh(index, false);
        self.nodes[index] = Some(fresh);
        self.change_view(self.view.full, self.view.joining.with(node(index)), (1_000, 100_000));
        for _ in 0..self.concurrency {
            self.call_next(index);
        }
        self.drain_host(index);
    }

    /// Starts a new view, as the membership service does: joining nodes that are synced become full. Without
    /// a full node there is no further view.
    fn change_view(&mut self, full: NodeSet, joining: NodeSet, within_ns: (u64, u64)) {
        let synced = self.synced().intersection(joining);
        let full = full.union(synced);
        if full.is_empty() {
            return;
        }
        let joining = NodeSet::from_bits(joining.bits() & !full.bits());
        self.view = View { epoch: Epoch(self.view.epoch.0 + 1), full, joining };
        let view = (self.view.epoch.0, full.bits(), joining.bits());
        for other in 0..self.nodes.len() {
            if self.nodes[other].is_some() && self.cut_off != Some(other) {
                let at = self.now + self.nanoseconds(within_ns.0, within_ns.1);
                self.schedule(at, Due::Configure { node: other, view });
            }
        }
    }

    /// The joining nodes that report in this view that they are synced.
    fn synced(&self) -> NodeSet {
        let says = EngineStatus { epoch: self.view.epoch, state: EngineState::Joining { synced: true } };
        self.alive().filter(|(_, node)| node.engine.status() == says).map(|(index, _)| node(index)).collect()
    }

    /// Removes joining nodes that are lost, as the membership service does: their tables lack room for the
    /// copy.
    fn expel(&mut self) {
        let says = EngineStatus { epoch: self.view.epoch, state: EngineState::Lost };
        let lost = |&(index, running): &(usize, &Node)| {
            self.view.joining.contains(node(index)) && running.engine.status() == says
        };
        let Some((index, running)) = self.alive().find(lost) else { return };
        assert!(running.engine.counted().strays > 0, "node {index} is lost for no reason");
        self.nodes[index] = None;
        self.remove(index);
    }

    fn promote(&mut self) {
        if !self.view.joining.is_empty() && !self.synced().is_empty() {
            self.change_view(self.view.full, self.view.joining, (1_000, 100_000));
        }
    }

    // Events of engines, and their effects.

    pub fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(node) = self.nodes[index].as_mut() else { return };
        let mut effects = Effects::default();
        node.engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut node.memory });
        for recorded in node.engine.take_records() {
            let id = recorded.id;
            if let Some(former) = self.records.insert(id, recorded) {
                panic!("{id} was recorded twice, first as {former:?}");
            }
        }
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    for peer in to.iter() {
                        assert_ne!(peer.index(), index, "no engine sends to itself");
                        self.datagram(index, peer.index(), *kind, payload);
                    }
                }
                Effect::Reply { kind, payload, to } => {
                    let Caller::Host(token) = *to else { panic!("only the host calls") };
                    let payload = effects.message(*kind, payload).payload.to_vec();
                    let at = self.now + self.nanoseconds(300, 900);
                    let up = &mut self.nodes[index].as_mut().unwrap().up;
                    *up = at.max(*up);
                    let at = *up;
                    self.schedule(at, Due::ToHost { node: index, token, kind: *kind, payload });
                }
                Effect::SetTimer { tag, at } => {
                    self.nodes[index].as_mut().unwrap().timers.insert(*tag, *at);
                    self.schedule((*at).max(self.now), Due::Timer { node: index, tag: *tag });
                }
                Effect::HostRead { tag, host, memory, length } => {
                    let (host, memory, length) = (*host as usize, *memory as usize, *length as usize);
                    let early = self.chance(500);
                    let bytes =
                        early.then(|| self.nodes[index].as_ref().unwrap().host[host..host + length].to_vec());
                    let at = self.now + self.nanoseconds(300, 3_000);
                    self.schedule(at, Due::HostRead { node: index, tag: *tag, memory, host, bytes, length });
                }
                Effect::HostWrite { tag, memory, host, length } => {
                    let (host, memory, length) = (*host as usize, *memory as usize, *length as usize);
                    let early = self.chance(500);
                    let node = self.nodes[index].as_ref().unwrap();
                    let bytes = early.then(|| node.memory.image()[memory..memory + length].to_vec());
                    let at = self.now + self.nanoseconds(300, 3_000);
                    self.schedule(at, Due::HostWrite { node: index, tag: *tag, memory, host, bytes, length });
                }
                Effect::Post { queue_pair, request } => {
                    let (peer, tag) = (queue_pair.0 as usize, request.id);
                    let near = (request.local.address - (1 << 20)) as usize;
                    let length = request.local.length as usize;
                    let at = self.now + self.nanoseconds(700, 2_500);
                    let mut swap = None;
                    let (far, is_read) = match request.operation {
                        Operation::CompareSwap { remote, compare, swap: new } => {
                            swap = Some((compare, new));
                            (remote.address, true)
                        }
                        Operation::Read { remote } => (remote.address, true),
                        Operation::Write { remote, immediate: None } => (remote.address, false),
                        other => panic!("this engine posts no {other:?}"),
                    };
                    let far = (far - (1 << 24)) as usize;
                    // A retransmitted packet is read from memory again.
                    let early = !is_read && self.chance(500);
                    let memory = &self.nodes[index].as_ref().unwrap().memory;
                    let bytes = early.then(|| memory.image()[near..near + length].to_vec());
                    self.schedule(
                        at,
                        Due::Verb { node: index, peer, tag, near, far, length, is_read, swap, bytes },
                    );
                }
                other => panic!("this engine has no {other:?}"),
            }
        }
    }

    fn datagram(&mut self, from: usize, to: usize, kind: u8, payload: &[u8]) {
        let faults = self.setup.faults;
        if self.cut_off.is_some_and(|node| node == from || node == to) || self.chance(faults.loss) {
            return;
        }
        let copies = 1 + usize::from(self.chance(faults.duplication));
        for _ in 0..copies {
            let mut delay = self.nanoseconds(700, 2_000);
            if self.chance(faults.late) {
                delay += self.nanoseconds(0, 30_000);
            }
            self.schedule(self.now + delay, Due::Datagram { from, to, kind, payload: payload.to_vec() });
        }
    }

    // Messages and calls of hosts.

    fn drain_host(&mut self, index: usize) {
        loop {
            let Some(node) = self.nodes[index].as_mut() else { return };
            if let Some(message) = node.half.poll_card(&node.host) {
                if [HostKind::Begin as u8, HostKind::Local as u8].contains(&message.kind) {
                    node.begun.insert(message.token, self.now);
                }
                let at = self.now + self.nanoseconds(300, 900);
                let down = &mut self.nodes[index].as_mut().unwrap().down;
                let at = if message.kind == HostKind::Local as u8 {
                    // The host takes its time for this message, and later ones may leave before it.
                    at.max(*down) + self.nanoseconds(0, 40_000)
                } else {
                    *down = at.max(*down);
                    *down
                };
                let (token, kind, payload) = (message.token, message.kind, message.payload);
                self.schedule(at, Due::ToCard { node: index, token, kind, payload });
            } else if let Some(finished) = node.half.poll_finished() {
                if let Outcome::Committed { answer } = &finished.outcome
                    && answer.len() == 8
                {
                    self.sums.push(u64::from_be_bytes(answer[..].try_into().unwrap()));
                }
                self.finished.push((index, finished.outcome));
                self.call_next(index);
            } else {
                break;
            }
        }
        if let Some(at) = self.nodes[index].as_ref().unwrap().half.next_deadline() {
            self.schedule(at.max(self.now), Due::Wake { node: index });
        }
    }

    fn call_next(&mut self, index: usize) {
        if self.calls_left == 0 {
            return;
        }
        self.calls_left -= 1;
        let nodes = self.setup.parameters.nodes;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.rng.next_u64());
        let mut random = |below| rng.next_u64() % below;
        let request = if self.setup.local && random(2) == 0 {
            workload::random_on_host(nodes, index, random)
        } else {
            workload::random(nodes, index, random)
        };
        self.call(index, request);
    }

    pub fn call(&mut self, index: usize, request: Request) {
        if let Some(node) = self.nodes[index].as_mut() {
            node.half.call(request).expect("few calls");
        }
    }

    /// Calls a transaction in the middle of a run.
    pub fn call_now(&mut self, index: usize, request: Request) {
        self.call(index, request);
        self.drain_host(index);
    }

    /// Each node keeps `concurrency` random calls under way, until all nodes have made `calls`.
    pub fn start(&mut self, concurrency: usize, calls: u64) {
        (self.calls_left, self.concurrency) = (calls, concurrency);
        for index in 0..self.nodes.len() {
            for _ in 0..concurrency {
                self.call_next(index);
            }
            self.drain_host(index);
        }
    }

    fn told(&mut self, index: usize, token: u32, kind: u8, payload: &[u8]) {
        if let Ok(HostMessage::Outcome { id, status, .. }) = HostMessage::parse(kind, payload) {
            // An engine that was not configured does not know its own number.
            if id == TransactionId::none(node(id.coordinator())) {
                return;
            }
            let node = self.nodes[index].as_ref().unwrap();
            let fate = match status {
                Status::Ok => Fate::Committed { ended_ps: self.now.as_ps() },
                _ => Fate::Aborted,
            };
            self.begun.insert(id, node.begun[&token]);
            let former = self.fates.insert(id, fate);
            assert!(former.is_none(), "{id} ended twice");
        }
    }

    // Running the network, and checking the result.

    pub fn step(&mut self) -> bool {
        let Some(Reverse((at, _, due))) = self.due.pop() else { return false };
        self.now = at;
        self.events += 1;
        if self.trace {
            println!("{} {} {due:?}", self.events, self.now);
        }
        if let Some((index, event)) = self.crash_at
            && self.events == event
        {
            self.crash(index);
        }
        match due {
            Due::Datagram { from, to, kind, payload } => {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Deliver { from: node(from), message, last: true });
            }
            Due::HostRead { node: index, tag, memory, host, bytes, length } => {
                let Some(node) = self.nodes[index].as_mut() else { return true };
                let bytes = bytes.unwrap_or_else(|| node.host[host..host + length].to_vec());
                node.memory.image_mut()[memory..memory + length].copy_from_slice(&bytes);
                self.handle(index, Event::Done { tag, status: CompletionStatus::Success });
            }
            Due::HostWrite { node: index, tag, memory, host, bytes, length } => {
                let Some(node) = self.nodes[index].as_mut() else { return true };
                let bytes = bytes.unwrap_or_else(|| node.memory.image()[memory..memory + length].to_vec());
                node.host[host..host + length].copy_from_slice(&bytes);
                self.handle(index, Event::Done { tag, status: CompletionStatus::Success });
            }
            Due::ToCard { node, token, kind, payload } => {
                let message = Message { kind, payload: &payload };
                self.handle(node, Event::Call { caller: Caller::Host(token), message, last: true });
            }
            Due::ToHost { node: index, token, kind, payload } => {
                if self.nodes[index].is_none() {
                    return true;
                }
                self.told(index, token, kind, &payload);
                let now = self.now;
                let node = self.nodes[index].as_mut().unwrap();
                node.half.receive(now, token, kind, &payload, &mut node.host).expect("a message of the card");
                self.drain_host(index);
            }
            Due::Verb { node: index, peer, tag, near, far, length, is_read, swap, bytes } => {
                let image = |network: &Self, node: usize, at: usize| {
                    network.nodes[node].as_ref().expect("no node dies here").memory.image()[at..at + length]
                        .to_vec()
                };
                let bytes = if is_read {
                    let old = image(self, peer, far);
                    if let Some((compare, new)) = swap
                        && old[..] == compare.to_le_bytes()
                    {
                        let memory = &mut self.nodes[peer].as_mut().expect("as above").memory;
                        memory.image_mut()[far..far + 8].copy_from_slice(&new.to_le_bytes());
                    }
                    old
                } else {
                    let bytes = bytes.unwrap_or_else(|| image(self, index, near));
                    let memory = &mut self.nodes[peer].as_mut().expect("as above").memory;
                    memory.image_mut()[far..far + length].copy_from_slice(&bytes);
                    Vec::new()
                };
                let at = self.now + self.nanoseconds(700, 2_500);
                self.schedule(at, Due::VerbEnd { node: index, tag, near, bytes });
            }
            Due::VerbEnd { node: index, tag, near, bytes } => {
                let memory = &mut self.nodes[index].as_mut().expect("no node dies here").memory;
                memory.image_mut()[near..near + bytes.len()].copy_from_slice(&bytes);
                self.handle(index, Event::Done { tag, status: CompletionStatus::Success });
            }
            Due::Timer { node, tag } => {
                let Some(running) = self.nodes[node].as_mut() else { return true };
                if running.timers.get(&tag).is_some_and(|at| *at <= self.now) {
                    running.timers.remove(&tag);
                    self.handle(node, Event::Timer { tag });
                }
            }
            Due::Wake { node } => {
                let now = self.now;
                let Some(running) = self.nodes[node].as_mut() else { return true };
                if running.half.next_deadline().is_some_and(|at| at <= now) {
                    running.half.wake(now);
                    self.drain_host(node);
                }
            }
            Due::Configure { node: index, view: (epoch, full, joining) } => {
                let view = View {
                    epoch: Epoch(epoch),
                    full: NodeSet::from_bits(full),
                    joining: NodeSet::from_bits(joining),
                };
                let configuration =
                    Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
                self.handle(index, Event::Configure(configuration));
            }
            Due::Return { node } => self.rejoin(node),
        }
        self.expel();
        self.promote();
        true
    }

    /// Runs until no event is left. Returns `false` if that takes more than `events` events.
    pub fn settle(&mut self, events: u64) -> bool {
        let last = self.events + events;
        while self.events < last {
            if !self.step() {
                return true;
            }
        }
        false
    }

    /// The state of all nodes, for the message of a failing test.
    pub fn describe(&self) -> String {
        let status = |(index, node): (usize, &Node)| {
            let state = node.engine.status();
            format!(
                "\n{index}: {} {}, {} calls, quiet {}",
                state.epoch,
                state.state,
                node.half.under_way(),
                node.engine.is_quiet()
            )
        };
        format!("{:?}{}", self.view, self.alive().map(status).collect::<String>())
    }

    pub fn alive(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(index, node)| Some((index, node.as_ref()?)))
    }

    /// All objects at a node.
    pub fn objects(&self, index: usize) -> Vec<(weft_txn::Key, weft_txn::Version, Vec<u8>)> {
        let node = self.nodes[index].as_ref().expect("it lives");
        let mut objects: Vec<_> =
            node.engine.shards().iter().map(|(key, version, value)| (key, version, value.to_vec())).collect();
        node.engine.shards().for_each(node.memory.image(), |key, version, value| {
            objects.push((key, version, value.to_vec()))
        });
        node.half.for_each(&node.host, |key, version, value| objects.push((key, version, value.to_vec())));
        objects
    }

    /// Checks that nothing is under way any more, and that the whole history is correct.
    pub fn check(&self) -> serializable::Report {
        for (index, node) in self.alive() {
            assert!(node.engine.is_quiet(), "node {index} still has something under way");
            assert!(!node.engine.shards().holds_locks(&node.memory), "node {index} has locks left");
            assert_eq!(node.half.under_way(), 0, "node {index} has calls that were not answered");
            self.check_hints(index, node);
        }
        self.history()
    }

    /// Checks that a card has the right information on its host's table: the free room, and where objects
    /// lie.
    fn check_hints(&self, index: usize, node: &Node) {
        if node.half.room().is_none() {
            return;
        }
        let shards = node.engine.shards();
        assert_eq!(shards.room(), node.half.room(), "node {index} does not know what is free");
        let layout = Layout::new(self.setup.shape()).expect("a table");
        let objects = self.objects(index).into_iter();
        let segments: BTreeSet<u32> = objects.map(|(key, ..)| layout.segment(key.bits())).collect();
        let reports = node.half.reports(&node.host).filter(|report| segments.contains(&report.segment));
        reports.for_each(|report| assert!(shards.knows(&report), "node {index} does not know {report:?}"));
    }

    /// The checker's report on the whole history.
    pub fn history(&self) -> serializable::Report {
        let name = |id: TransactionId| serializable::TransactionId {
            coordinator: id.coordinator() as u16,
            epoch: id.epoch().0,
            sequence: id.sequence(),
        };
        let accesses = |list: &[(weft_txn::Key, weft_txn::Version, Option<Vec<u8>>)]| -> Vec<Access> {
            list.iter()
                .map(|(key, version, value)| match value {
                    Some(value) => Access::present(key.bits(), version.bits(), value),
                    None => Access::absent(key.bits(), version.bits()),
                })
                .collect()
        };
        let mut history = History::default();
        for (id, recorded) in &self.records {
            let fate = self.fates.get(id).copied().unwrap_or(Fate::Unknown);
            let (reads, writes) = (accesses(&recorded.reads), accesses(&recorded.writes));
            let started_ps = self.begun.get(id).map_or(0, |at| at.as_ps());
            history.record(&Transaction { id: name(*id), started_ps, fate, reads: &reads, writes: &writes });
        }
        let options = Options { initial_version: LOADED.bits(), ..Options::default() };
        for (index, node) in self.alive() {
            if matches!(node.engine.status().state, EngineState::Joining { .. }) {
                continue;
            }
            let (nodes, replicas) = (self.setup.parameters.nodes, self.setup.parameters.replicas);
            let holds = move |key: u64| {
                let shard = (key >> 56) as usize;
                (index + nodes - shard) % nodes < replicas
            };
            let state = self
                .objects(index)
                .into_iter()
                .map(|(key, version, value)| Access::present(key.bits(), version.bits(), &value));
            history.final_state(&format!("node {index}"), holds, state, &options);
        }
        serializable::check(history, &options)
    }

    /// The sum of all accounts in shards that some node still holds.
    pub fn money(&self) -> u64 {
        let mut balances = BTreeMap::new();
        for (index, _) in self.alive() {
            for (key, version, value) in self.objects(index) {
                if key.local() < workload::ACCOUNTS {
                    let balance = u64::from_be_bytes(value[..8].try_into().unwrap());
                    let former = balances.insert(key, (version, balance));
                    assert!(
                        former.is_none_or(|former| former == (version, balance)),
                        "replicas of {key} differ"
                    );
                }
            }
        }
        balances.values().map(|(_, balance)| balance).sum()
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.alive()
            .flat_map(|(_, node)| node.engine.counters())
            .filter(|(counter, _)| *counter == name)
            .map(|(_, count)| count)
            .sum()
    }
}
