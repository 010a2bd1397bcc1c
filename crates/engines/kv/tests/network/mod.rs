//! A small deterministic network: engines, clients, a membership service, and all faults between them, from one
//! seed. There is no NIC in it, so that it tests only the protocol. It uses an engine only as a [`Replica`]: the
//! tests of another crate include this module by its path and run the engine in gateware.
#![allow(dead_code)]

pub mod backups;
pub mod disk;
pub mod history;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_kv::{Client, ClientParameters, Kv, Outcome, Parameters, ReadPolicy, Role, Task};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message, NodeId,
    NodeSet, View,
};

use disk::Disk;
use history::{History, Kind};
use weft_kv::journal;

const HEARTBEAT: Duration = Duration::from_ms(2);
const LEASE: Duration = Duration::from_ms(10);

/// Size of a datagram's payload: one chunk of [`small`] and little more fits.
const DATAGRAM_BYTES: usize = 600;

pub fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// Parameters so small that runs reach every limit.
pub fn small() -> Parameters {
    Parameters {
        buckets: 256,
        ways: 4,
        value_bytes_max: 64,
        window: 8,
        waiting_reads: 8,
        sessions: 64,
        retransmit: Duration::from_us(200),
        retransmit_max: Duration::from_ms(2),
        burst: 4,
        chunk_bytes: 512,
        ..Parameters::default()
    }
}

/// What the network needs of an engine beyond the trait [`Engine`].
pub trait Replica: Engine {
    /// A new engine of a node, without a view.
    fn start(node: usize, parameters: &Parameters) -> Self;

    /// Whether it is a full member, not in a view change, with nothing undecided.
    fn is_settled(&self) -> bool;

    /// A digest of the committed content: equal at two replicas if they hold the same data.
    fn digest(&self, memory: &Memory) -> u64;
}

impl Replica for Kv {
    fn start(_: usize, parameters: &Parameters) -> Self {
        Self::new(parameters.clone())
    }

    fn is_settled(&self) -> bool {
        self.role() == Role::Full && self.undecided() == 0
    }

    fn digest(&self, memory: &Memory) -> u64 {
        self.state_digest(memory)
    }
}

/// Faults and their frequency, as probabilities in parts per thousand.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    /// The longest extra delay of a datagram; delays reorder datagrams.
    pub delay: Duration,
    /// The longest delay of the rare datagrams that arrive very late.
    pub late: Duration,
    pub crashes: bool,
    pub partitions: bool,
    /// From time to time all nodes lose power at once. Single nodes lose it just after an engine has logged a
    /// record that must be durable before it acts on it. This needs disks ([`Parameters::durable_copies`]).
    pub power: bool,
}

impl Faults {
    pub const NONE: Self = Self {
        loss: 0,
        duplication: 0,
        delay: Duration::ZERO,
        late: Duration::ZERO,
        crashes: false,
        partitions: false,
        power: false,
    };
    pub const ALL: Self = Self {
        loss: 30,
        duplication: 30,
        delay: Duration::from_us(60),
        late: Duration::from_ms(3),
        crashes: true,
        partitions: true,
        power: false,
    };
}

struct Node<E> {
    engine: E,
    memory: Memory,
    timers: BTreeMap<u32, Instant>,
    incarnation: u64,
}

/// Messages of one datagram, as (kind, payload).
type Messages = Vec<(u8, Vec<u8>)>;

#[derive(Clone, Debug)]
enum Packet {
    Peer { from: usize, to: usize, messages: Messages },
    Request { client: usize, to: usize, kind: u8, payload: Vec<u8> },
    Reply { client: usize, kind: u8, payload: Vec<u8> },
    Grant { to: usize, incarnation: u64, configuration: Configuration },
    Heartbeat { from: usize, incarnation: u64, epoch: Epoch, state: EngineState },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Packet(usize),
    Timer { node: usize, incarnation: u64, tag: u32 },
    Beat { node: usize },
    Client { client: usize },
    Reader,
    Mischief,
    Restart { node: usize },
    Flushed { node: usize, life: u64 },
    Cut { node: usize, life: u64 },
}

/// The membership service's record of a node.
#[derive(Clone, Copy, Default)]
struct Member {
    incarnation: u64,
    lease_until: Instant,
    synced_in: Epoch,
    /// The newest epochs that it received, reported to have begun, and to have sealed its former epoch for.
    granted: Epoch,
    opened: Epoch,
    sealed: Epoch,
    lost: bool,
}

/// A client that keeps some requests outstanding.
struct Actor {
    client: Client,
    outstanding: BTreeMap<u64, history::Operation>,
    /// For counters and deleted keys: the latest version that was read, and the number in its value.
    seen: BTreeMap<u64, (u64, u64)>,
    left: u64,
}

pub struct Network<E = Kv> {
    pub now: Instant,
    rng: Xoshiro256PlusPlus,
    faults: Faults,
    parameters: Parameters,
    nodes: Vec<Option<Node<E>>>,
    /// Cut links, indexed [from][to]; the last index is the membership service.
    cut: Vec<Vec<bool>>,
    packets: Vec<Option<Packet>>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    effects: Effects,
    view: View,
    /// As the membership service keeps them.
    holders: Vec<(Epoch, NodeSet)>,
    members: Vec<Member>,
    incarnations: u64,
    actors: Vec<Actor>,
    /// A client that reads backups; its number follows those of the actors.
    reader: Option<backups::Reader>,
    pub history: History,
    keys: u64,
    /// The bytes of keys that are not simply their numbers.
    names: BTreeMap<u64, [u8; 8]>,
    /// Disks of the nodes, and how often each node was started.
    disks: Vec<Disk>,
    lives: Vec<u64>,
    pub power_cuts: u64,
    pub restored: u64,
    pub snapshots: u64,
    pub crashes: u64,
    pub partitions: u64,
    pub events: u64,
    /// When the faults end.
    heal_at: Instant,
}

impl<E: Replica> Network<E> {
    pub fn new(
        seed: u64,
        nodes: usize,
        clients: usize,
        operations: u64,
        faults: Faults,
        parameters: Parameters,
    ) -> Self {
        let policies = [ReadPolicy::AnyReplica, ReadPolicy::Leader, ReadPolicy::Prefer(node(nodes - 1))];
        let actors = (0..clients)
            .map(|index| {
                let all = NodeSet::first(nodes);
                Actor {
                    client: Client::new(ClientParameters {
                        reads: policies[index % 3],
                        timeout: Duration::from_us(400),
                        timeout_max: Duration::from_ms(4),
                        pause: Duration::from_us(100),
                        give_up: Duration::from_ms(if index % 4 == 3 { 3 } else { 10_000 }),
                        ..ClientParameters::new(1000 + index as u64, all)
                    }),
                    outstanding: BTreeMap::new(),
                    seen: BTreeMap::new(),
                    left: operations,
                }
            })
            .collect();
        let mut network = Self {
            now: Instant::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            faults,
            parameters,
            nodes: (0..nodes).map(|_| None).collect(),
            cut: vec![vec![false; nodes + 1]; nodes + 1],
            packets: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            effects: Effects::default(),
            view: View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY },
            holders: vec![(Epoch(1), NodeSet::first(nodes))],
            members: vec![Member::default(); nodes],
            incarnations: 0,
            actors,
            reader: None,
            history: History::default(),
            keys: 6,
            names: BTreeMap::new(),
            disks: (0..nodes).map(|_| Disk::default()).collect(),
            lives: vec![0; nodes],
            power_cuts: 0,
            restored: 0,
            snapshots: 0,
            crashes: 0,
            partitions: 0,
            events: 0,
            heal_at: Instant::ZERO + Duration::from_ms(120),
        };
        for index in 0..nodes {
            network.start(index);
            network.members[index] = Member {
                incarnation: network.incarnations,
                lease_until: Instant::ZERO + LEASE,
                ..Member::default()
            };
            // The cluster is founded before the faults begin: a founder that never received epoch 1 would be lost.
            let lease_until = Instant::ZERO + LEASE;
            let configuration = Configuration { node: node(index), view: network.view, lease_until };
            network.handle(index, Event::Configure(configuration));
        }
        for client in 0..clients {
            network.schedule(Duration::from_us(100 + client as u64), Due::Client { client });
        }
        network.schedule(Duration::from_ms(1), Due::Mischief);
        network
    }

    /// Uses more keys than usual, all in two buckets with different leaders.
    pub fn crowd(&mut self) {
        self.keys = 12;
        let mut names = [7, 8].map(|bucket| {
            (0u64..).map(u64::to_be_bytes).filter(move |name| weft_kv::hash(name) % 256 == bucket)
        });
        let all = (0..self.keys).chain(history::DELETED..history::DELETED + self.keys);
        for (place, key) in all.chain([history::COUNTERS, history::COUNTERS + 1]).enumerate() {
            self.names.extend(names[place % 2].next().map(|name| (key, name)));
        }
    }

    /// Lets a client read backups while the others work, with `window` parts outstanding.
    pub fn read_backups(&mut self, window: u64) {
        let number = 1000 + self.actors.len() as u64;
        self.reader = Some(backups::Reader::new(number, NodeSet::first(self.nodes.len()), window));
        self.schedule(Duration::from_us(300), Due::Reader);
    }

    /// Numbers of backups that were read, and of those that had to be begun again.
    pub fn backups(&self) -> (u64, u64) {
        self.reader.as_ref().map_or((0, 0), |reader| (reader.backups.len() as u64, reader.begun_again))
    }

    fn name(&self, key: u64) -> [u8; 8] {
        self.names.get(&key).copied().unwrap_or(key.to_be_bytes())
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random(1000) < per_mille
    }

    fn schedule(&mut self, after: Duration, due: Due) {
        self.sequence += 1;
        self.due.push(Reverse((self.now + after, self.sequence, due)));
    }

    fn start(&mut self, index: usize) {
        self.incarnations += 1;
        self.lives[index] += 1;
        self.disks[index] = Disk::default();
        let engine = E::start(index, &self.parameters);
        let memory = Memory::new(self.parameters.memory_bytes());
        self.nodes[index] =
            Some(Node { engine, memory, timers: BTreeMap::new(), incarnation: self.incarnations });
        self.schedule(Duration::from_us(1), Due::Beat { node: index });
    }

    /// Cuts the power of a node: of the records in its log that were not flushed, some are lost.
    fn crash(&mut self, index: usize) {
        let Some(node) = self.nodes[index].take() else { return };
        self.crashes += 1;
        if self.parameters.is_durable() {
            let torn = self.random(1_000) as usize;
            let disk = &mut self.disks[index];
            disk.cut(torn);
            disk.left_by = Some(node.incarnation);
        }
    }

    /// Cuts the power of a node and restores it before the lease has ended.
    fn cut_power(&mut self, index: usize, life: u64) {
        if self.calm() || self.lives[index] != life || self.nodes[index].is_none() {
            return;
        }
        self.crash(index);
        let after = Duration::from_us(self.random(2_000));
        self.schedule(after, Due::Restart { node: index });
    }

    /// Restarts a node with the content of its disk, or empty.
    fn restart(&mut self, index: usize) {
        let disk = std::mem::take(&mut self.disks[index]);
        let Some(incarnation) = disk.left_by else { return self.start(index) };
        self.lives[index] += 1;
        let mut engine = E::start(index, &self.parameters);
        let mut memory = Memory::new(self.parameters.memory_bytes());
        let mut effects = Effects::default();
        let call = |engine: &mut E, memory: &mut Memory, kind, payload: &[u8], effects: &mut Effects| {
            let event = Event::Call {
                caller: Caller::Host(journal::HOST),
                message: Message { kind, payload },
                last: true,
            };
            engine.handle(self.now, event, &mut Io { effects, memory });
        };
        for record in disk.found() {
            call(&mut engine, &mut memory, weft_kv::message::Kind::Restore as u8, record, &mut effects);
        }
        call(&mut engine, &mut memory, weft_kv::message::Kind::Restored as u8, &[], &mut effects);
        assert_eq!(effects.iter().count(), 0, "a node that comes back says nothing");
        if engine.status().state == EngineState::Lost {
            return self.start(index);
        }
        self.restored += 1;
        self.disks[index] = disk.kept();
        self.nodes[index] = Some(Node { engine, memory, timers: BTreeMap::new(), incarnation });
        self.schedule(Duration::from_us(1), Due::Beat { node: index });
    }

    /// Duration of a flush; one in ten is slow.
    fn flush_time(&mut self) -> Duration {
        let most = if self.chance(100) { 3_000 } else { 200 };
        Duration::from_us(20 + self.random(most))
    }

    fn flushed(&mut self, index: usize, life: u64) {
        if self.lives[index] != life || self.nodes[index].is_none() {
            return;
        }
        let (records, more) = self.disks[index].flushed();
        self.tell_log(index, weft_kv::message::Kind::Durable as u8, &records.to_be_bytes());
        if more {
            let delay = self.flush_time();
            self.schedule(delay, Due::Flushed { node: index, life });
        }
        if let Some(question) = self.disks[index].asks() {
            self.tell_log(index, weft_kv::message::Kind::Snapshot as u8, &question);
        }
        self.snapshots += u64::from(std::mem::take(&mut self.disks[index].has_replaced));
    }

    fn tell_log(&mut self, index: usize, kind: u8, payload: &[u8]) {
        // The engine may have been restarted meanwhile; then it must recognise the message as old.
        let message = Message { kind, payload };
        self.handle(index, Event::Call { caller: Caller::Host(journal::HOST), message, last: true });
    }

    fn calm(&self) -> bool {
        self.now >= self.heal_at
    }

    /// Sends a packet over the link between two endpoints, with the link's faults.
    fn transmit(&mut self, link: Option<(usize, usize)>, packet: Packet) {
        let faults = if self.calm() { Faults::NONE } else { self.faults };
        if link.is_some_and(|(from, to)| self.cut[from][to]) || self.chance(faults.loss) {
            return;
        }
        let copies = 1 + u64::from(self.chance(faults.duplication));
        for copy in 0..copies {
            let late = copy > 0 && faults.late > Duration::ZERO && self.chance(500);
            let most = if late { faults.late } else { faults.delay };
            let delay = Duration::from_us(5) + Duration::from_ps(self.random(most.as_ps().max(1)));
            let index = self.free.pop().unwrap_or_else(|| {
                self.packets.push(None);
                self.packets.len() - 1
            });
            self.packets[index] = Some(packet.clone());
            self.schedule(delay, Due::Packet(index));
        }
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(node) = self.nodes[index].as_mut() else { return };
        let mut effects = std::mem::take(&mut self.effects);
        effects.clear();
        node.engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut node.memory });
        let incarnation = node.incarnation;
        // Messages to the same peer are packed into datagrams, as a NIC does.
        let mut datagrams: BTreeMap<usize, Vec<Messages>> = BTreeMap::new();
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    for peer in to.iter() {
                        assert_ne!(peer.index(), index, "no engine sends to itself");
                        let payload = effects.message(*kind, payload).payload.to_vec();
                        let datagrams = datagrams.entry(peer.index()).or_default();
                        let room = |open: &&mut Messages| {
                            let bytes: usize = open.iter().map(|(_, payload)| payload.len()).sum();
                            bytes + payload.len() <= DATAGRAM_BYTES
                        };
                        match datagrams.last_mut().filter(room) {
                            Some(open) => open.push((*kind, payload)),
                            None => datagrams.push(vec![(*kind, payload)]),
                        }
                    }
                }
                Effect::Reply { to: Caller::Host(journal::HOST), kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    let life = self.lives[index];
                    // The founding is not disturbed: a founder without its first record would be lost.
                    let begins = self.view.epoch > Epoch(1) && disk::begins_epoch(*kind, payload);
                    if self.faults.power && begins && self.chance(200) {
                        let after = Duration::from_us(self.random(200));
                        self.schedule(after, Due::Cut { node: index, life });
                    }
                    if self.disks[index].take(*kind, payload) {
                        let delay = self.flush_time();
                        self.schedule(delay, Due::Flushed { node: index, life });
                    }
                }
                Effect::Reply { to, kind, payload } => {
                    let Caller::Host(client) = to else { panic!("only clients called") };
                    let payload = effects.message(*kind, payload).payload.to_vec();
                    self.transmit(None, Packet::Reply { client: *client as usize, kind: *kind, payload });
                }
                Effect::SetTimer { tag, at } => {
                    self.nodes[index].as_mut().unwrap().timers.insert(*tag, *at);
                    let after = at.saturating_since(self.now);
                    self.schedule(after, Due::Timer { node: index, incarnation, tag: *tag });
                }
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => {
                    panic!("this engine has no queue pairs and leaves the host's memory alone")
                }
            }
        }
        for (to, datagrams) in datagrams {
            for messages in datagrams {
                self.transmit(Some((index, to)), Packet::Peer { from: index, to, messages });
            }
        }
        self.effects = effects;
        // The engine is lost: restart it, as the node's agent would.
        if self.nodes[index].as_ref().unwrap().engine.status().state == EngineState::Lost {
            self.start(index);
        }
    }

    fn packet(&mut self, packet: Packet) {
        match packet {
            Packet::Peer { from, to, messages } => {
                for (place, (kind, payload)) in messages.iter().enumerate() {
                    let message = Message { kind: *kind, payload };
                    let last = place + 1 == messages.len();
                    self.handle(to, Event::Deliver { from: node(from), message, last });
                }
            }
            Packet::Request { client, to, kind, payload } => {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Call { caller: Caller::Host(client as u32), message, last: true });
            }
            Packet::Reply { client, kind, payload } if client == self.actors.len() => {
                let reader = self.reader.as_mut().expect("only the reader has this number");
                if let Some(completion) = reader.client.receive(self.now, kind, &payload).unwrap() {
                    reader.take(self.now, completion.outcome);
                }
                self.drive_reader();
            }
            Packet::Reply { client, kind, payload } => {
                let completion = self.actors[client].client.receive(self.now, kind, &payload).unwrap();
                if let Some(completion) = completion {
                    let outcome = history::Outcome::from(completion.outcome);
                    self.complete(client, completion.request.0, outcome);
                }
                self.drive(client);
            }
            Packet::Grant { to, incarnation, configuration } => {
                if self.nodes[to].as_ref().is_some_and(|node| node.incarnation == incarnation) {
                    self.handle(to, Event::Configure(configuration));
                }
            }
            Packet::Heartbeat { from, incarnation, epoch, state } => {
                self.heartbeat(from, incarnation, epoch, state)
            }
        }
    }

    // The membership service.

    fn heartbeat(&mut self, from: usize, incarnation: u64, epoch: Epoch, state: EngineState) {
        let service = self.nodes.len();
        let member = &mut self.members[from];
        let listed = self.view.members().contains(node(from));
        if incarnation < member.incarnation {
            return;
        }
        if incarnation > member.incarnation {
            if listed {
                // The old incarnation is gone; its lease has to end before a view may exclude it.
                self.review();
                return;
            }
            *member = Member { incarnation, ..Member::default() };
        }
        if state == EngineState::Restored && listed {
            if !self.view.full.contains(node(from)) {
                self.start(from);
                return;
            }
            // The restarted node may have led in this epoch and written entries that no other node can count:
            // start a new epoch.
            if epoch == self.view.epoch {
                self.publish(self.view.full, self.view.joining);
            }
        }
        let member = &mut self.members[from];
        match state {
            EngineState::Joining { synced: true } => member.synced_in = epoch,
            EngineState::Full | EngineState::Restored => member.opened = epoch,
            EngineState::Sealed => member.sealed = epoch,
            _ => {}
        }
        let all_begun =
            self.view.full.iter().all(|node| self.members[node.index()].opened == self.view.epoch);
        if all_begun || state == (EngineState::Joining { synced: true }) && epoch == self.view.epoch {
            self.holders = vec![(self.view.epoch, self.view.full)];
        }
        let member = &mut self.members[from];
        member.lost |= state == EngineState::Lost;
        member.lease_until = member.lease_until.max(self.now + LEASE);
        if !listed {
            self.publish(self.view.full, self.view.joining.with(node(from)));
        }
        self.review();
        if self.view.members().contains(node(from)) {
            self.members[from].lease_until = self.members[from].lease_until.max(self.now + LEASE);
            self.members[from].granted = self.view.epoch;
            let configuration =
                Configuration { node: node(from), view: self.view, lease_until: self.now + LEASE };
            self.transmit(Some((service, from)), Packet::Grant { to: from, incarnation, configuration });
        }
    }

    /// Whether the running incarnation is the one that the service lists, and has the data.
    fn has_data(&self, index: usize) -> bool {
        let incarnation = self.members[index].incarnation;
        match &self.nodes[index] {
            Some(node) => node.incarnation == incarnation,
            None => self.disks[index].left_by == Some(incarnation),
        }
    }

    /// Whether the others have all data if this node loses its disk.
    fn may_lose_disk(&self, victim: usize) -> bool {
        let victim = NodeSet::EMPTY.with(node(victim));
        self.is_safe(self.view.full.minus(victim), victim)
    }

    /// Of `full` members, the number that have together all data on their disks.
    fn quorum(&self, full: usize) -> usize {
        full + 1 - self.parameters.durable_copies.min(full)
    }

    /// Whether `rest` has all data, as the membership service knows it; it does not remove the last node with data,
    /// which here would only end the test.
    fn is_safe(&self, rest: NodeSet, leave: NodeSet) -> bool {
        let rest: NodeSet = rest.iter().filter(|other| self.has_data(other.index())).collect();
        if !self.parameters.is_durable() {
            return !rest.is_empty();
        }
        let (epoch, full) = (self.view.epoch, self.view.full);
        let of = |node: NodeId| &self.members[node.index()];
        let begun = rest.iter().map(|node| of(node).opened).max().unwrap_or(Epoch(0));
        let ends = self.holders.iter().skip(1).map(|(since, _)| *since).chain([Epoch(u32::MAX)]);
        let mut later = self.holders.iter().zip(ends).filter(|(_, end)| *end > begun).map(|(held, _)| held.1);
        later.all(|held| rest.intersection(held).len() >= self.quorum(held.len()))
            || rest.iter().any(|node| of(node).sealed == epoch)
                && leave.intersection(full).iter().any(|node| of(node).granted < epoch)
    }

    fn publish(&mut self, full: NodeSet, joining: NodeSet) {
        self.view = View { epoch: Epoch(self.view.epoch.0 + 1), full, joining };
        if self.holders.last().is_none_or(|last| last.1 != full) {
            self.holders.push((self.view.epoch, full));
        }
    }

    /// Removes nodes that were silent for longer than their lease, and makes joining nodes full that are ready.
    fn review(&mut self) {
        let silent = |member: &Member| member.lease_until + Duration::from_ms(1) < self.now;
        let gone: NodeSet =
            self.view.members().iter().filter(|node| silent(&self.members[node.index()])).collect();
        let (mut full, mut joining) = (self.view.full.minus(gone), self.view.joining.minus(gone));
        let (epoch, leaving) = (self.view.epoch, self.view.full.minus(full));
        if !leaving.is_empty() && !self.is_safe(full, leaving) {
            let knows = |node: NodeId| {
                let member = &self.members[node.index()];
                member.opened == epoch || member.sealed == epoch
            };
            if full.iter().any(|node| self.has_data(node.index()) && knows(node)) {
                self.publish(self.view.full, self.view.joining);
            }
            return;
        }
        for node in joining.iter() {
            if self.members[node.index()].synced_in == self.view.epoch {
                (full, joining) = (full.with(node), joining.without(node));
            }
        }
        if (full, joining) == (self.view.full, self.view.joining) {
            return;
        }
        self.publish(full, joining);
    }

    // Clients.

    fn complete(&mut self, client: usize, request: u64, outcome: history::Outcome) {
        let actor = &mut self.actors[client];
        let mut operation = actor.outstanding.remove(&request).expect("a request ends once");
        if operation.key >= history::DELETED
            && let history::Outcome::Value { version, value } = &outcome
        {
            actor.seen.insert(operation.key, (*version, u64::from_be_bytes(value[..8].try_into().unwrap())));
        }
        operation.returned = self.now;
        operation.outcome = outcome;
        self.history.operations.push(operation);
    }

    fn drive(&mut self, client: usize) {
        while self.actors[client].left > 0 && self.actors[client].outstanding.len() < 4 {
            if !self.actors[client].client.can_start() {
                break;
            }
            self.start_operation(client);
        }
        let mut payload = Vec::new();
        while let Some((to, kind)) = self.actors[client].client.poll_transmit(&mut payload) {
            let payload = std::mem::take(&mut payload);
            self.transmit(None, Packet::Request { client, to: to.index(), kind, payload });
        }
        if let Some(deadline) = self.actors[client].client.next_deadline() {
            let after = deadline.saturating_since(self.now);
            self.schedule(after, Due::Client { client });
        }
    }

    fn drive_reader(&mut self) {
        let is_busy = !self.is_done();
        let Some(reader) = &mut self.reader else { return };
        if !reader.is_busy() && is_busy {
            reader.begin(self.now);
        }
        let mut messages = Vec::new();
        let mut payload = Vec::new();
        while let Some((to, kind)) = reader.client.poll_transmit(&mut payload) {
            messages.push((to.index(), kind, std::mem::take(&mut payload)));
        }
        let deadline = reader.client.next_deadline();
        let client = self.actors.len();
        for (to, kind, payload) in messages {
            self.transmit(None, Packet::Request { client, to, kind, payload });
        }
        if let Some(deadline) = deadline {
            self.schedule(deadline.saturating_since(self.now), Due::Reader);
        }
    }

    fn start_operation(&mut self, client: usize) {
        let (dice, index, length) = (self.random(100), self.random(self.keys), 1 + self.random(40) as usize);
        let actor = &mut self.actors[client];
        actor.left -= 1;
        // Every value is written by one request only: it contains the client and a number.
        let number = actor.left;
        let mut value = [(client as u64).to_be_bytes(), number.to_be_bytes()].concat();
        value.resize(16 + length, 0xaa);
        let (key, kind, expected) = match dice {
            0..35 => (index, Kind::Get, 0),
            35..55 => (index, Kind::Put, 0),
            55..65 => (history::DELETED + index, Kind::Get, 0),
            65..75 => (history::DELETED + index, Kind::Put, 0),
            75..79 => (history::DELETED + index, Kind::Delete, 0),
            79..82 if self.parameters.beyond_gates => {
                let key = history::DELETED + index;
                match actor.seen.get(&key) {
                    Some(&(version, _)) => (key, Kind::CompareAndDelete, version),
                    None => (key, Kind::Delete, 0),
                }
            }
            79..82 => (history::DELETED + index, Kind::Delete, 0),
            _ => {
                let key = history::COUNTERS + index % 2;
                let (version, count) = actor.seen.get(&key).copied().unwrap_or((0, 0));
                value = (count + 1).to_be_bytes().to_vec();
                (key, if dice < 90 { Kind::Get } else { Kind::CompareAndSet }, version)
            }
        };
        let name = self.name(key);
        let actor = &mut self.actors[client];
        let task = match kind {
            Kind::Get => Task::Get { key: &name },
            Kind::Put => Task::Put { key: &name, value: &value },
            Kind::Delete => Task::Delete { key: &name },
            Kind::CompareAndSet => Task::CompareAndSet { key: &name, expected, value: &value },
            Kind::CompareAndDelete => Task::CompareAndDelete { key: &name, expected },
        };
        let request = actor.client.start(self.now, task).expect("it said that it can");
        actor.outstanding.insert(
            request.0,
            history::Operation {
                key,
                kind,
                value,
                expected,
                invoked: self.now,
                returned: Instant::FAR_FUTURE,
                outcome: history::Outcome::Unknown,
            },
        );
    }

    // Faults.

    fn mischief(&mut self) {
        if self.calm() {
            return;
        }
        let nodes = self.nodes.len();
        if self.faults.crashes && self.chance(60) {
            let victim = self.random(nodes as u64) as usize;
            // The last full member is never crashed, because the data would be lost with it.
            let others = self.view.full.without(node(victim));
            if self.nodes[victim].is_some() && others.iter().any(|node| self.has_data(node.index())) {
                self.crash(victim);
                if self.parameters.is_durable() && self.may_lose_disk(victim) && self.chance(300) {
                    self.disks[victim] = Disk::default();
                }
                let after = Duration::from_us(self.random(30_000));
                self.schedule(after, Due::Restart { node: victim });
            }
        }
        if self.faults.power && self.chance(20) {
            self.power_cuts += 1;
            for victim in 0..nodes {
                self.crash(victim);
                let after = Duration::from_us(self.random(20_000));
                self.schedule(after, Due::Restart { node: victim });
            }
        }
        if self.faults.partitions && self.chance(40) {
            self.partitions += 1;
            let (victim, one_way) = (self.random(nodes as u64) as usize, self.chance(500));
            for other in 0..=nodes {
                if other != victim && self.chance(700) {
                    self.cut[victim][other] = true;
                    self.cut[other][victim] = !one_way;
                }
            }
        }
        if self.chance(40) {
            self.cut.iter_mut().flatten().for_each(|cut| *cut = false);
        }
        self.schedule(Duration::from_us(500), Due::Mischief);
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, due))) = self.due.pop() else { return false };
        if !self.calm() && at >= self.heal_at {
            self.cut.iter_mut().flatten().for_each(|cut| *cut = false);
        }
        self.now = at;
        self.events += 1;
        match due {
            Due::Packet(index) => {
                let packet = self.packets[index].take().expect("a packet arrives once");
                self.free.push(index);
                self.packet(packet);
            }
            Due::Timer { node: index, incarnation, tag } => {
                let Some(node) = self.nodes[index].as_mut() else { return true };
                if node.incarnation == incarnation && node.timers.get(&tag).is_some_and(|&timer| timer <= at)
                {
                    node.timers.remove(&tag);
                    self.handle(index, Event::Timer { tag });
                }
            }
            Due::Beat { node: index } => {
                let service = self.nodes.len();
                if let Some(node) = &self.nodes[index] {
                    let status = node.engine.status();
                    let beat = Packet::Heartbeat {
                        from: index,
                        incarnation: node.incarnation,
                        epoch: status.epoch,
                        state: status.state,
                    };
                    self.transmit(Some((index, service)), beat);
                    self.schedule(HEARTBEAT, Due::Beat { node: index });
                }
            }
            Due::Client { client } => {
                while let Some(completion) = self.actors[client].client.handle_deadline(self.now) {
                    self.complete(client, completion.request.0, completion.outcome.into());
                }
                self.drive(client);
            }
            Due::Reader => {
                if let Some(reader) = &mut self.reader {
                    while let Some(completion) = reader.client.handle_deadline(self.now) {
                        reader.take(self.now, completion.outcome);
                    }
                }
                self.drive_reader();
            }
            Due::Mischief => self.mischief(),
            Due::Restart { node } if self.nodes[node].is_some() => {}
            Due::Restart { node } => self.restart(node),
            Due::Flushed { node, life } => self.flushed(node, life),
            Due::Cut { node, life } => self.cut_power(node, life),
        }
        true
    }

    /// Runs until all operations have ended and all nodes are full members with nothing undecided.
    pub fn run(&mut self) {
        let limit = self.heal_at + Duration::from_secs(5);
        while self.now < limit {
            assert!(self.step(), "clients and heartbeats keep the network busy");
            if self.calm() && self.events.is_multiple_of(64) && self.is_quiet() {
                break;
            }
        }
        let states: Vec<_> = self.nodes.iter().flatten().map(|node| node.engine.status()).collect();
        let left: u64 = self.actors.iter().map(|actor| actor.left + actor.outstanding.len() as u64).sum();
        assert!(
            self.is_quiet(),
            "not live again by {}: {:?} {states:?}, {left} operations left",
            self.now,
            self.view
        );
        self.check();
    }

    /// Panics if the clients' history or the replicas' content is wrong.
    fn check(&mut self) {
        self.history.check();
        self.check_state();
        for backup in self.reader.iter().flat_map(|reader| &reader.backups) {
            backups::check(&self.history, backup, |key| self.name(key));
        }
    }

    /// Whether the clients have done all that they do.
    fn is_done(&self) -> bool {
        self.actors.iter().all(|actor| actor.left == 0 && actor.outstanding.is_empty())
    }

    fn is_quiet(&self) -> bool {
        self.is_done()
            && self.nodes.iter().flatten().count() == self.nodes.len()
            && self
                .nodes
                .iter()
                .flatten()
                .all(|node| node.engine.is_settled() && node.engine.status().epoch == self.view.epoch)
    }

    /// Checks that all replicas are equal, and that each counter has counted every increment once.
    fn check_state(&mut self) {
        let digests: Vec<_> =
            self.nodes.iter().flatten().map(|node| node.engine.digest(&node.memory)).collect();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "replicas differ: {digests:x?}");
        for key in [history::COUNTERS, history::COUNTERS + 1] {
            let counts: Vec<_> = (0..self.nodes.len()).map(|index| self.read(index, key)).collect();
            assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
            self.history.check_counter(key, counts[0]);
        }
    }

    /// Reads a counter at a node directly, without the network.
    fn read(&mut self, index: usize, key: u64) -> u64 {
        let all = NodeSet::first(self.nodes.len());
        let mut client = Client::new(ClientParameters {
            reads: ReadPolicy::Prefer(node(index)),
            ..ClientParameters::new(u64::MAX, all)
        });
        client.start(self.now, Task::Get { key: &self.name(key) }).unwrap();
        let mut payload = Vec::new();
        let (to, kind) = client.poll_transmit(&mut payload).unwrap();
        assert_eq!(to, node(index));
        let target = self.nodes[index].as_mut().unwrap();
        let mut effects = Effects::default();
        let message = Message { kind, payload: &payload };
        let event = Event::Call { caller: Caller::Host(0), message, last: true };
        target.engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut target.memory });
        let Some(Effect::Reply { kind, payload, .. }) = effects.iter().next() else {
            panic!("a read is answered")
        };
        match client
            .receive(self.now, *kind, effects.message(*kind, payload).payload)
            .unwrap()
            .unwrap()
            .outcome
        {
            Outcome::Value { value, .. } => u64::from_be_bytes(value.try_into().unwrap()),
            Outcome::NotFound => 0,
            outcome => panic!("{outcome:?}"),
        }
    }

    /// The engines' counters, summed over the nodes.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.nodes.iter().flatten().flat_map(|node| node.engine.counters()) {
            *sums.entry(name).or_default() += count;
        }
        sums
    }
}
