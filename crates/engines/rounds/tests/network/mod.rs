//! A small deterministic network: engines with their own clocks, links that omit messages, hosts that propose, and
//! all faults between them, from one seed. It uses an engine only through calls and answers: the tests of another
//! crate include this module by its path and run the engine in gateware.
#![allow(dead_code)]

pub mod order;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_rounds::message::{Answer, Call, Phase, Status, Timings, Value};
use weft_rounds::{Ckc, Members, Parameters, Rounds};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

use order::Order;

/// The range of one-way delays between two nodes: as detPU measured between two MACs, rounded to cycles.
const ONE_WAY: [Duration; 2] = [Duration::from_ns(1_384), Duration::from_ns(1_412)];

/// Interval at which a host asks its node for its status.
const HOST: Duration = Duration::from_us(10);

pub fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// Parameters so small that runs reach every limit.
pub fn small(window: u64) -> Parameters {
    Parameters { window, value_bytes: 64, queue: 2, silence: 4 * window, ..Parameters::default() }
}

/// What the network needs of an engine beyond the trait [`Engine`].
pub trait Replica: Engine {
    /// A new engine of a node, without a view.
    fn start(node: usize, parameters: &Parameters) -> Self;
}

impl Replica for Rounds<Ckc> {
    fn start(_: usize, parameters: &Parameters) -> Self {
        Self::new(parameters.clone())
    }
}

/// Faults and their frequency, as probabilities in parts per thousand.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The nodes that omit to send or to receive. The faults below affect only links from or to them.
    pub faulty: Members,
    /// A message is lost.
    pub omission: u64,
    /// At each message, a link switches between delivering everything and nothing.
    pub cut: u64,
    /// A message is late by up to three rounds.
    pub late: u64,
    /// A message arrives twice, the second time up to 20 rounds later.
    pub duplication: u64,
    /// Faulty nodes crash and restart.
    pub crashes: bool,
    /// Clocks run fast or slow by up to this many parts per million.
    pub drift: u64,
}

impl Faults {
    pub const NONE: Self = Self {
        faulty: Members::EMPTY,
        omission: 0,
        cut: 0,
        late: 0,
        duplication: 0,
        crashes: false,
        drift: 100,
    };

    /// All faults, at these nodes.
    pub const fn all(faulty: Members) -> Self {
        Self { faulty, omission: 50, cut: 10, late: 20, duplication: 20, crashes: true, drift: 100 }
    }
}

/// A clock that runs a little fast or slow.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: u64,
    /// Deviation in parts per million.
    drift: i64,
}

impl Clock {
    fn local(&self, now: Instant) -> Instant {
        let drift = i128::from(now.as_ps()) * i128::from(self.drift) / 1_000_000;
        Instant::from_ps((i128::from(now.as_ps()) + i128::from(self.offset) + drift) as u64)
    }

    /// The network's time at which the clock shows `local`, or just after.
    fn world(&self, local: Instant) -> Instant {
        let since = i128::from(local.as_ps()) - i128::from(self.offset);
        let mut now =
            Instant::from_ps((since * 1_000_000 / i128::from(1_000_000 + self.drift)).max(0) as u64);
        while self.local(now) < local {
            now += Duration::from_ps(1);
        }
        now
    }
}

struct Node<E> {
    engine: E,
    memory: Memory,
    timers: BTreeMap<u32, Instant>,
    incarnation: u64,
    clock: Clock,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Packet { from: usize, to: usize, kind: u8, payload: Vec<u8> },
    Timer { node: usize, incarnation: u64, tag: u32 },
    Host { node: usize },
    Mischief,
    Restart { node: usize },
}

/// A node's host: it founds the cluster or joins it, and proposes one value after the other.
#[derive(Clone, Debug, Default)]
struct Host {
    phase: Option<Phase>,
    /// Proposals without an answer, oldest first, and when they were made.
    outstanding: Vec<(u64, Instant)>,
    next: u64,
    /// Incarnation of the node. Scheduled checks of an earlier incarnation are ignored.
    incarnation: u64,
}

pub struct Network<E = Rounds<Ckc>> {
    pub now: Instant,
    rng: Xoshiro256PlusPlus,
    pub faults: Faults,
    parameters: Parameters,
    nodes: Vec<Option<Node<E>>>,
    hosts: Vec<Host>,
    /// The last timings that each node reported.
    pub timings: Vec<Option<Timings>>,
    cut: BTreeMap<(usize, usize), bool>,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    incarnations: u64,
    /// The last epoch that a host gave its node.
    epoch: u32,
    pub order: Order,
    /// When the faults end, and when the hosts stop proposing.
    heal_at: Instant,
    propose_until: Instant,
    /// Nodes whose proposals must be decided, and in time.
    pub correct: Members,
    /// The longest time from a proposal to its answer at a correct node.
    pub slowest: Duration,
    pub crashes: u64,
    pub fences: u64,
    pub joins: u64,
    pub leaves: u64,
    pub lost: u64,
    pub events: u64,
}

impl<E: Replica> Network<E> {
    /// A network of `nodes` founders; nodes and links have faults for `length`.
    pub fn new(seed: u64, nodes: usize, faults: Faults, length: Duration, parameters: Parameters) -> Self {
        let heal_at = Instant::ZERO + length;
        let mut network = Self {
            now: Instant::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            faults,
            parameters,
            nodes: (0..nodes).map(|_| None).collect(),
            hosts: vec![Host::default(); nodes],
            timings: vec![None; nodes],
            cut: BTreeMap::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            incarnations: 0,
            epoch: 1,
            order: Order::new(nodes),
            heal_at,
            propose_until: heal_at + Duration::from_us(400),
            correct: Members::first(nodes).difference(faults.faulty),
            slowest: Duration::ZERO,
            crashes: 0,
            fences: 0,
            joins: 0,
            leaves: 0,
            lost: 0,
            events: 0,
        };
        let view = View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY };
        for index in 0..nodes {
            network.start(index);
            network.configure(index, view);
            let after = Duration::from_us(8) + Duration::from_ns(network.random(10_000));
            network.schedule(after, Due::Host { node: index });
        }
        network.schedule(Duration::from_us(60), Due::Mischief);
        network.call(0, Call::Start, &[]);
        network
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random(1000) < per_mille
    }

    fn schedule(&mut self, after: Duration, due: Due) {
        self.schedule_at(self.now + after, due);
    }

    fn schedule_at(&mut self, at: Instant, due: Due) {
        self.sequence += 1;
        self.due.push(Reverse((at, self.sequence, due)));
    }

    fn start(&mut self, index: usize) {
        self.incarnations += 1;
        let drift = self.faults.drift;
        let clock = Clock {
            offset: self.random(1_000_000_000),
            drift: self.random(2 * drift + 1) as i64 - drift as i64,
        };
        let engine = E::start(index, &self.parameters);
        let timers = BTreeMap::new();
        let incarnation = self.incarnations;
        self.nodes[index] = Some(Node { engine, memory: Memory::new(0), timers, incarnation, clock });
        self.order.begin(index);
        self.hosts[index] = Host { next: self.hosts[index].next, incarnation, ..Host::default() };
        self.call(index, Call::Subscribe, &[]);
    }

    fn configure(&mut self, index: usize, view: View) {
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        self.handle(index, Event::Configure(configuration));
    }

    /// The host of a node has it ask for admission.
    fn join(&mut self, index: usize) {
        self.joins += 1;
        self.epoch += 1;
        let joining = NodeSet::EMPTY.with(node(index));
        let full = NodeSet::first(self.nodes.len()).without(node(index));
        self.order.begin(index);
        self.configure(index, View { epoch: Epoch(self.epoch), full, joining });
    }

    pub fn call(&mut self, index: usize, kind: Call, payload: &[u8]) {
        let message = Message { kind: kind as u8, payload };
        self.handle(index, Event::Call { caller: Caller::Host(kind as u32), message, last: true });
    }

    pub fn calm(&self) -> bool {
        self.now >= self.heal_at
    }

    /// Sends a message over the link between two nodes, with the link's faults.
    fn transmit(&mut self, from: usize, to: usize, kind: u8, payload: &[u8]) {
        let faults = self.faults;
        let affected = !self.calm()
            && (faults.faulty.contains(from) || faults.faulty.contains(to))
            && self.order.len() > 0;
        if affected {
            let change = self.chance(faults.cut);
            let cut = self.cut.entry((from, to)).or_default();
            *cut ^= change;
            if *cut || self.chance(faults.omission) {
                self.lost += 1;
                return;
            }
        }
        let spread = (ONE_WAY[1] - ONE_WAY[0]).as_ps();
        let mut delay = ONE_WAY[0] + Duration::from_ps(self.random(spread));
        if affected && self.chance(faults.late) {
            delay += Duration::from_ps(self.random(3 * self.parameters.period.as_ps()));
        }
        let packet = Due::Packet { from, to, kind, payload: payload.to_vec() };
        if self.chance(faults.duplication) {
            let again = Duration::from_ps(self.random(20 * self.parameters.period.as_ps()));
            self.schedule(delay + again, packet.clone());
        }
        self.schedule(delay, packet);
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(node) = self.nodes[index].as_mut() else { return };
        let (incarnation, clock) = (node.incarnation, node.clock);
        let mut effects = Effects::default();
        let now = clock.local(self.now);
        node.engine.handle(now, event, &mut Io { effects: &mut effects, memory: &mut node.memory });
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    for peer in to.iter() {
                        assert_ne!(peer.index(), index, "no engine sends to itself");
                        self.transmit(index, peer.index(), *kind, payload);
                    }
                }
                Effect::Reply { kind, payload, to } => {
                    let payload = effects.message(*kind, payload).payload;
                    self.reply(index, *to, *kind, payload);
                }
                Effect::SetTimer { tag, at } => {
                    self.nodes[index].as_mut().expect("it runs").timers.insert(*tag, *at);
                    self.schedule_at(
                        clock.world(*at).max(self.now),
                        Due::Timer { node: index, incarnation, tag: *tag },
                    );
                }
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => {
                    panic!("the engine has no queue pairs and leaves the host's memory alone")
                }
            }
        }
    }

    // Hosts.

    fn reply(&mut self, index: usize, to: Caller, kind: u8, payload: &[u8]) {
        if kind == Call::Decided as u8 {
            let value = Value::parse(payload, self.parameters.value_bytes).unwrap();
            self.order.decided(index, &value);
            return;
        }
        if kind == Call::Timings as u8 {
            self.timings[index] = Some(Timings::parse(payload).unwrap());
            return;
        }
        assert_eq!(kind, Call::Answer as u8);
        let answer = Answer::parse(payload).unwrap();
        if to != Caller::Host(Call::Propose as u32) {
            let phase = self.hosts[index].phase.replace(answer.phase);
            self.fences += u64::from(answer.phase == Phase::Fenced && phase != Some(Phase::Fenced));
            return;
        }
        if matches!(answer.status, Status::Busy | Status::NotRunning) {
            // The answer is to the last proposal, or to all that are queued: nothing happened.
            self.hosts[index].outstanding.pop();
            return;
        }
        let (number, since) = self.hosts[index].outstanding.remove(0);
        let proposal = order::value(index, number);
        match answer.status {
            Status::Ok => self.order.acknowledged(index, answer.number, &proposal),
            Status::Dropped => self.order.dropped(index, answer.number, &proposal),
            Status::Fenced => {}
            status => panic!("a proposal is answered with {status:?}"),
        }
        if self.correct.contains(index) {
            assert_eq!(answer.status, Status::Ok, "node {index} is correct, at {}", self.now);
            self.slowest = self.slowest.max(self.now - since);
        }
    }

    fn host(&mut self, index: usize) {
        self.schedule(HOST, Due::Host { node: index });
        if self.nodes[index].is_none() {
            return;
        }
        self.call(index, Call::Status, &[]);
        match self.hosts[index].phase.expect("a node answers") {
            Phase::Fenced | Phase::Left => {
                assert!(!self.correct.contains(index), "node {index} is correct and stops at {}", self.now);
                self.join(index);
            }
            Phase::Running if self.now < self.propose_until => {
                let faulty = self.faults.faulty.contains(index);
                if !self.calm() && faulty && self.faults.crashes && self.chance(5) {
                    self.leaves += 1;
                    self.call(index, Call::Leave, &[]);
                }
                while self.hosts[index].outstanding.len() < self.parameters.queue {
                    let host = &mut self.hosts[index];
                    let number = host.next;
                    host.next += 1;
                    host.outstanding.push((number, self.now));
                    self.call(index, Call::Propose, &order::value(index, number));
                    if self.chance(500) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }

    fn mischief(&mut self) {
        if self.calm() {
            return;
        }
        self.schedule(Duration::from_us(20), Due::Mischief);
        for victim in self.faults.faulty.iter() {
            if self.faults.crashes && self.nodes[victim].is_some() && self.chance(60) {
                self.crashes += 1;
                self.nodes[victim] = None;
                let after = Duration::from_us(1 + self.random(300));
                self.schedule(after, Due::Restart { node: victim });
            }
        }
    }

    // The event loop.

    fn step(&mut self) {
        let Reverse((at, _, due)) = self.due.pop().expect("hosts keep the network busy");
        self.now = at;
        self.events += 1;
        match due {
            Due::Packet { from, to, kind, payload } => {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Deliver { from: node(from), message, last: true });
            }
            Due::Timer { node: index, incarnation, tag } => {
                let Some(node) = self.nodes[index].as_mut() else { return };
                let now = node.clock.local(at);
                let due = node.timers.get(&tag).is_some_and(|&timer| timer <= now);
                if node.incarnation == incarnation && due {
                    node.timers.remove(&tag);
                    self.handle(index, Event::Timer { tag });
                }
            }
            Due::Host { node } => self.host(node),
            Due::Mischief => self.mischief(),
            Due::Restart { node } => {
                self.start(node);
                self.join(node);
            }
        }
    }

    /// Runs until `length` has passed.
    pub fn run_for(&mut self, length: Duration) {
        let until = self.now + length;
        while self.due.peek().is_some_and(|Reverse((at, ..))| *at < until) {
            self.step();
        }
        self.now = until;
    }

    /// Runs until the faults are over and the nodes have had time to recover; then checks that all nodes take part
    /// again and got the same decisions.
    pub fn run(&mut self) {
        self.run_for(self.heal_at + Duration::from_ms(3) - Instant::ZERO);
        let phases: Vec<_> = self.hosts.iter().map(|host| host.phase).collect();
        assert!(phases.iter().all(|phase| *phase == Some(Phase::Running)), "{phases:?}");
        assert!(self.hosts.iter().all(|host| host.outstanding.is_empty()), "{:?}", self.hosts);
        self.order.check_complete();
    }

    /// Runs until the faults are over, and checks only that no two nodes got different decisions.
    pub fn run_broken(&mut self) {
        self.run_for(self.heal_at + Duration::from_ms(1) - Instant::ZERO);
        self.order.check();
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
