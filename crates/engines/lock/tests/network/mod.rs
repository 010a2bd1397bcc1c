//! A small deterministic network of engines, clients and a membership service, with random faults from one
//! seed. It has no NICs and no sessions, so that it tests only the protocol.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_check::locks::{Hold, Violation, check};
use weft_lock::message::{Answer, AnswerKind, Call};
use weft_lock::{Lock, Name, Parameters};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message, NodeId,
    NodeSet, View,
};

const LEASE: Duration = Duration::from_ms(2);
const HEARTBEAT: Duration = Duration::from_us(400);
/// Time at which all faults are over. The run ends later.
const CALM_FROM: Instant = Instant::from_ps(60_000_000_000);
const END: Instant = Instant::from_ps(90_000_000_000);
const TTL: Duration = Duration::from_us(900);
const LOCKS: u64 = 2;
const CLIENTS: usize = 6;

enum Step {
    /// A message to a node, with the sender, the incarnation of the node, kind and payload.
    Deliver {
        to: usize,
        from: usize,
        kind: u8,
        payload: Vec<u8>,
    },
    Call {
        to: usize,
        client: usize,
        attempt: u64,
    },
    Answer {
        client: usize,
        attempt: u64,
        answer: Answer,
    },
    Timer {
        node: usize,
        life: u32,
        tag: u32,
    },
    Heartbeat {
        node: usize,
    },
    Client {
        client: usize,
        attempt: u64,
    },
    Fault,
}

struct Node {
    engine: Option<Lock>,
    life: u32,
    /// The incarnation that the view lists.
    listed: u32,
    lease_until: Instant,
    /// End of a partition from all nodes and the membership service, and possibly from clients.
    cut_until: Instant,
    reaches_clients: bool,
    restart_at: Instant,
}

#[derive(Clone, Copy)]
struct Client {
    attempt: u64,
    node: usize,
    begun: Instant,
    asks: Option<Call>,
    owner: u64,
    lock: u64,
    /// The index of its latest hold.
    holds: Option<usize>,
    renewals: u64,
}

pub struct Network {
    random: Xoshiro256PlusPlus,
    now: Instant,
    order: u64,
    queue: BinaryHeap<Reverse<(Instant, u64)>>,
    steps: BTreeMap<u64, Step>,
    nodes: Vec<Node>,
    view: View,
    clients: Vec<Client>,
    parameters: Parameters,
    pub holds: Vec<Hold>,
    counters: BTreeMap<&'static str, u64>,
}

impl Network {
    pub fn new(seed: u64, nodes: usize, parameters: Parameters) -> Self {
        let node = || Node {
            engine: Some(Lock::new(parameters.clone())),
            life: 0,
            listed: 0,
            lease_until: Instant::ZERO,
            cut_until: Instant::ZERO,
            reaches_clients: true,
            restart_at: Instant::ZERO,
        };
        let client = |owner| Client {
            attempt: 0,
            node: 0,
            begun: Instant::ZERO,
            asks: None,
            owner,
            lock: 0,
            holds: None,
            renewals: 0,
        };
        let mut network = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: Instant::ZERO,
            order: 0,
            queue: BinaryHeap::new(),
            steps: BTreeMap::new(),
            nodes: (0..nodes).map(|_| node()).collect(),
            view: View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY },
            clients: (0..CLIENTS as u64).map(|index| client(index << 32)).collect(),
            parameters: parameters.clone(),
            holds: Vec::new(),
            counters: BTreeMap::new(),
        };
        (0..nodes).for_each(|node| network.at(Duration::ZERO, Step::Heartbeat { node }));
        (0..CLIENTS)
            .for_each(|client| network.at(Duration::from_us(500), Step::Client { client, attempt: 0 }));
        network.at(Duration::from_ms(3), Step::Fault);
        network
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn at(&mut self, after: Duration, step: Step) {
        self.order += 1;
        self.queue.push(Reverse((self.now + after, self.order)));
        self.steps.insert(self.order, step);
    }

    /// Sends a message, which may be lost, late or duplicated while there are faults.
    fn transmit(&mut self, step: impl Fn() -> Step) {
        let faulty = self.now < CALM_FROM;
        let copies = if faulty { [1, 1, 1, 1, 1, 1, 1, 1, 0, 2][self.below(10) as usize] } else { 1 };
        for _ in 0..copies {
            let late = if faulty && self.below(50) == 0 { 1_000 } else { 20 };
            let delay = Duration::from_us(2 + self.below(late));
            self.at(delay, step());
        }
    }

    fn is_cut(&self, node: usize) -> bool {
        self.now < self.nodes[node].cut_until
    }

    fn is_member(&self, id: NodeId) -> bool {
        let node = &self.nodes[id.index()];
        self.view.members().contains(id) && node.listed == node.life
    }

    fn reaches_clients(&self, node: usize) -> bool {
        !self.is_cut(node) || self.nodes[node].reaches_clients
    }

    /// Runs to the end, and returns violations of the rules of locks.
    pub fn run(&mut self) -> Vec<Violation> {
        while let Some(Reverse((at, order))) = self.queue.pop()
            && at < END
        {
            self.now = at;
            let step = self.steps.remove(&order).expect("it is queued");
            self.take(step);
        }
        check(&self.holds)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Deliver { to, from, kind, payload } => {
                if !self.is_cut(to) && !self.is_cut(from) {
                    let from = NodeId::new(from).unwrap();
                    let last = self.below(4) > 0;
                    let message = Message { kind, payload: &payload };
                    self.event(to, Event::Deliver { from, message, last });
                }
            }
            Step::Call { to, client, attempt } => {
                let Client { attempt: current, asks: Some(call), .. } = self.clients[client] else { return };
                if current == attempt && self.reaches_clients(to) {
                    let mut payload = Vec::new();
                    let kind = call.encode(&mut payload) as u8;
                    let message = Message { kind, payload: &payload };
                    // The token identifies the client and its attempt.
                    let caller = Caller::Host((client as u32) << 24 | attempt as u32);
                    self.event(to, Event::Call { caller, message, last: true });
                }
            }
            Step::Answer { client, attempt, answer } => self.answered(client, attempt, answer),
            Step::Timer { node, life, tag } => {
                if self.nodes[node].life == life {
                    self.event(node, Event::Timer { tag });
                }
            }
            Step::Heartbeat { node } => self.heartbeat(node),
            Step::Client { client, attempt } => {
                if self.clients[client].attempt == attempt {
                    self.go_on(client);
                }
            }
            Step::Fault => self.fault(),
        }
    }

    fn event(&mut self, node: usize, event: Event<'_>) {
        let Some(engine) = &mut self.nodes[node].engine else { return };
        let mut effects = Effects::default();
        engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut Memory::new(0) });
        let life = self.nodes[node].life;
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    for to in to.iter() {
                        let (to, kind) = (to.index(), *kind);
                        self.transmit(|| Step::Deliver { to, from: node, kind, payload: payload.to_vec() });
                    }
                }
                Effect::Reply { to: Caller::Host(token), kind, payload } => {
                    let answer =
                        Answer::parse(*kind, effects.message(*kind, payload).payload).expect("an answer");
                    let (client, attempt) = ((token >> 24) as usize, u64::from(token & 0xff_ffff));
                    if self.reaches_clients(node) {
                        self.transmit(|| Step::Answer { client, attempt, answer });
                    }
                }
                Effect::SetTimer { tag, at } => {
                    let after = at.saturating_since(self.now);
                    self.at(after, Step::Timer { node, life, tag: *tag });
                }
                other => panic!("the engine does not {other:?}"),
            }
        }
    }

    /// Acts as the membership service and as the lease holder of a node.
    fn heartbeat(&mut self, node: usize) {
        self.at(HEARTBEAT, Step::Heartbeat { node });
        let id = NodeId::new(node).unwrap();
        if self.nodes[node].engine.is_none() && self.now >= self.nodes[node].restart_at {
            self.nodes[node].engine = Some(Lock::new(self.parameters.clone()));
            self.nodes[node].life += 1;
        }
        // A node that is not in the view restarts when it learns of the view.
        let is_member = self.is_member(id);
        if let Some(engine) = self.nodes[node].engine.as_ref().filter(|_| !is_member && !self.is_cut(node))
            && engine.status().state != EngineState::Starting
        {
            engine.counters().into_iter().for_each(|(name, n)| *self.counters.entry(name).or_default() += n);
            self.nodes[node].engine = Some(Lock::new(self.parameters.clone()));
            self.nodes[node].life += 1;
        }
        // Publishes a view without nodes whose lease has ended; restarted nodes join in it and get the data.
        let View { full, joining, .. } = self.view;
        let status = |node: NodeId| self.nodes[node.index()].engine.as_ref().map(|engine| engine.status());
        let is_over = |node: &NodeId| self.now >= self.nodes[node.index()].lease_until + LEASE / 10;
        let gone: NodeSet = if self.now == Instant::ZERO {
            NodeSet::EMPTY
        } else {
            full.union(joining).iter().filter(is_over).collect()
        };
        let synced: NodeSet = joining
            .iter()
            .filter(|node| {
                status(*node).is_some_and(|status| {
                    status.epoch == self.view.epoch && status.state == EngineState::Joining { synced: true }
                })
            })
            .collect();
        let fresh: NodeSet = NodeSet::first(self.nodes.len())
            .minus(full.union(joining))
            .iter()
            .filter(|node| status(*node).is_some_and(|status| status.state == EngineState::Starting))
            .filter(|node| !self.is_cut(node.index()))
            .collect();
        if !full.minus(gone).is_empty() && !gone.union(synced).union(fresh).is_empty() {
            let full = full.union(synced).minus(gone);
            let joining = joining.union(fresh).minus(synced).minus(gone);
            self.view = View { epoch: Epoch(self.view.epoch.0 + 1), full, joining };
            for node in fresh.iter().map(NodeId::index) {
                self.nodes[node].lease_until = self.now + LEASE;
                self.nodes[node].listed = self.nodes[node].life;
            }
        }
        if !self.is_cut(node) && self.is_member(id) && self.nodes[node].engine.is_some() {
            self.nodes[node].lease_until = self.now + LEASE;
            let configuration = Configuration { node: id, view: self.view, lease_until: self.now + LEASE };
            self.event(node, Event::Configure(configuration));
        }
    }

    fn fault(&mut self) {
        if self.now >= CALM_FROM {
            return;
        }
        let gap = Duration::from_us(1_000 + self.below(6_000));
        self.at(gap, Step::Fault);
        let node = self.below(self.nodes.len() as u64) as usize;
        let lasts = Duration::from_us(self.below(8_000));
        let others = self.view.full.without(NodeId::new(node).unwrap());
        let (cuts, reaches_clients) = (self.below(2) == 0, self.below(2) == 0);
        let has_data = |node: NodeId| {
            let status = self.nodes[node.index()].engine.as_ref().map(Engine::status);
            status.is_some_and(|it| it.epoch == self.view.epoch && it.state == EngineState::Full)
                && !self.is_cut(node.index())
        };
        if cuts {
            let node = &mut self.nodes[node];
            (node.cut_until, node.reaches_clients) = (self.now + lasts, reaches_clients);
        } else if others.iter().any(has_data) {
            self.nodes[node].engine = None;
            self.nodes[node].restart_at = self.now + lasts;
        }
    }

    /// The client's next action: it repeats a call, renews, releases or acquires.
    fn go_on(&mut self, index: usize) {
        let nodes = self.nodes.len() as u64;
        let choice = self.below(10);
        let lock = self.below(LOCKS);
        let client = &mut self.clients[index];
        client.attempt += 1;
        if client.asks.is_some() && choice < 9 {
            client.node = (client.node + 1) % nodes as usize;
        } else {
            let name = |lock: u64| Name::new(&lock.to_be_bytes()).unwrap();
            let (owner, now) = (client.owner, self.now);
            client.begun = now;
            client.asks = Some(match client.holds {
                Some(hold) if choice < 9 && client.renewals < 20 => {
                    client.renewals += 1;
                    Call::Renew { name: name(client.lock), token: self.holds[hold].token }
                }
                Some(hold) => {
                    let hold = &mut self.holds[hold];
                    hold.until_ns = hold.until_ns.min(now.as_ps() / 1_000).max(hold.returned_ns);
                    client.holds = None;
                    Call::Release { name: name(client.lock), token: hold.token }
                }
                None => {
                    (client.owner, client.lock, client.renewals) = (owner + 1, lock, 0);
                    Call::Acquire { name: name(lock), owner: owner + 1, ttl: TTL }
                }
            });
        }
        let (to, attempt) = (client.node, client.attempt);
        self.transmit(|| Step::Call { to, client: index, attempt });
        self.at(Duration::from_us(300), Step::Client { client: index, attempt });
    }

    fn answered(&mut self, index: usize, attempt: u64, answer: Answer) {
        let now_ns = self.now.as_ps() / 1_000;
        // Some holders pause beyond their time to live.
        let pause = Duration::from_us([100, 300, 600, 1_000][self.below(4) as usize]);
        let client = &mut self.clients[index];
        let Some(call) = client.asks.filter(|_| client.attempt == attempt) else { return };
        if !matches!(answer.kind, AnswerKind::Elsewhere | AnswerKind::Busy)
            && let Some(hold) = client.holds
        {
            // From now on the client relies on this answer.
            let hold = &mut self.holds[hold];
            hold.until_ns = hold.until_ns.min(now_ns).max(hold.returned_ns);
        }
        let pause = match answer.kind {
            AnswerKind::Elsewhere | AnswerKind::Busy => Duration::from_us(30),
            AnswerKind::Granted => {
                let until_ns = (client.begun + answer.time).as_ps() / 1_000;
                let is_renewal = !matches!(call, Call::Acquire { .. });
                self.holds.push(Hold {
                    lock: client.lock,
                    owner: client.owner,
                    token: answer.token,
                    invoked_ns: client.begun.as_ps() / 1_000,
                    returned_ns: now_ns,
                    until_ns: until_ns.max(now_ns),
                    is_renewal,
                });
                (client.holds, client.asks) = (Some(self.holds.len() - 1), None);
                pause
            }
            AnswerKind::Held | AnswerKind::Free | AnswerKind::Lost | AnswerKind::Full => {
                (client.holds, client.asks) = (None, None);
                Duration::from_us(50)
            }
            AnswerKind::BadRequest => panic!("{call:?} is in range"),
        };
        client.attempt += 1;
        let attempt = client.attempt;
        self.at(pause, Step::Client { client: index, attempt });
    }

    /// Whether every node is a full member of the newest view and all tables are equal. To be called at the
    /// end.
    pub fn is_whole(&self) -> bool {
        let engines: Vec<_> = self.nodes.iter().filter_map(|node| node.engine.as_ref()).collect();
        let is_full = |engine: &&Lock| {
            let status = engine.status();
            status.epoch == self.view.epoch && status.state == EngineState::Full
        };
        engines.len() == self.nodes.len() && engines.iter().all(is_full)
    }

    /// Locks that were granted or renewed after all faults.
    pub fn held_in_calm(&self) -> usize {
        self.holds.iter().filter(|hold| hold.invoked_ns > (CALM_FROM + LEASE * 4).as_ps() / 1_000).count()
    }

    /// Sums of the counters of all engines of the run.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = self.counters.clone();
        for engine in self.nodes.iter().filter_map(|node| node.engine.as_ref()) {
            engine.counters().into_iter().for_each(|(name, count)| *sums.entry(name).or_default() += count);
        }
        sums
    }
}

/// Parameters with sizes so small that a run reaches every limit.
pub fn small() -> Parameters {
    Parameters { locks: 2, window: 2, waiting: 2, ..Parameters::default() }
}
