//! The nodes with their memory, the network between them, and the membership service.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use ahash::{AHashMap, RandomState};
use weft_kv::message::{Kind, Reply};
use weft_kv::{Kv, Parameters, partition};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, EngineState, Epoch, Event, Io, Memory, Message, NodeId,
    NodeSet, View,
};

use super::clients::{Clients, Key, Programs};
use super::{Budgets, NODES};

/// Always the same, so that a check explores the same states again.
const SEEDS: RandomState = RandomState::with_seeds(1, 2, 3, 4);
/// What firing a timer adds to the time: more than any interval.
const TICK_PS: u64 = 1_000;

pub(super) fn node(index: usize) -> NodeId {
    NodeId::new(index).expect("there are three")
}

/// A node's engine, with its memory and its timers.
#[derive(Clone, Debug)]
pub(super) struct Node {
    kv: Kv,
    memory: Memory,
    timers: BTreeSet<u32>,
    /// The view in which this life of the node begins: earlier ones are not for it.
    since: Epoch,
    /// A hash of all this. A step changes one node, so those of the others need not be computed again.
    digest: u64,
}

impl Node {
    fn new(parameters: &Parameters, since: Epoch) -> Arc<Self> {
        let memory = Memory::new(parameters.memory_bytes());
        let kv = Kv::new(parameters.clone());
        let mut node = Self { kv, memory, timers: BTreeSet::new(), since, digest: 0 };
        node.note_change();
        Arc::new(node)
    }

    fn note_change(&mut self) {
        let Self { kv, memory, timers, since, digest } = self;
        let mut hasher = SEEDS.build_hasher();
        (kv, timers, since).hash(&mut hasher);
        // Nearly all of the memory is zero.
        let lines = memory.image().chunks(64).enumerate();
        lines.filter(|(_, line)| line.iter().any(|byte| *byte != 0)).for_each(|line| line.hash(&mut hasher));
        *digest = hasher.finish();
    }

    pub(super) const fn kv(&self) -> &Kv {
        &self.kv
    }
}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// An event that a node handles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Input {
    Configure { view: View, lease_until: Instant },
    Deliver(Arc<Datagram>),
    Call { client: usize, payload: Vec<u8> },
    Fire { tag: u32 },
}

/// The result of an event at a node: the node afterwards, its messages, and its replies to clients.
#[derive(Debug)]
struct Step {
    node: Arc<Node>,
    sent: Vec<Arc<Datagram>>,
    replies: Vec<(usize, Vec<u8>)>,
}

impl Step {
    fn compute(now: u64, index: usize, former: &Node, input: &Input) -> Self {
        let mut next = former.clone();
        let event = match input {
            Input::Configure { view, lease_until } => {
                Event::Configure(Configuration { node: node(index), view: *view, lease_until: *lease_until })
            }
            Input::Deliver(datagram) => {
                let Datagram { from, kind, payload, .. } = &**datagram;
                Event::Deliver { from: node(*from), message: Message { kind: *kind, payload }, last: true }
            }
            Input::Call { client, payload } => Event::Call {
                caller: Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: *client as u16 },
                message: Message { kind: Kind::Request as u8, payload },
                last: true,
            },
            Input::Fire { tag } => {
                next.timers.remove(tag);
                Event::Timer { tag: *tag }
            }
        };
        let mut effects = Effects::default();
        let Node { kv, memory, timers, .. } = &mut next;
        kv.handle(Instant::from_ps(now), event, &mut Io { effects: &mut effects, memory });
        kv.forget_counters();
        memory.take_accesses();
        let (mut sent, mut replies) = (Vec::new(), Vec::new());
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    let datagram = |to: NodeId| Datagram {
                        from: index,
                        to: to.index(),
                        kind: *kind,
                        payload: payload.to_vec(),
                    };
                    sent.extend(to.iter().map(datagram).map(Arc::new));
                }
                Effect::Reply { to: Caller::Endpoint { port, .. }, kind, payload } => {
                    replies.push(((*port).into(), effects.message(*kind, payload).payload.to_vec()));
                }
                Effect::SetTimer { tag, .. } => drop(timers.insert(*tag)),
                effect => unreachable!("the engine without logs asks for {effect:?}"),
            }
        }
        next.note_change();
        Self { node: Arc::new(next), sent, replies }
    }
}

/// Everything that determines a step.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StepKey {
    now: u64,
    /// Index and digest of the node.
    index: usize,
    digest: u64,
    input: Input,
}

/// The steps of nodes that have been computed. A node takes the same step in many states of the cluster, and looking
/// it up takes much less time than copying the node and hashing it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Arc<Mutex<AHashMap<StepKey, Arc<Step>>>>);

impl Steps {
    fn of(&self, now: u64, index: usize, node: &Node, input: Input) -> Arc<Step> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = StepKey { now, index, digest: node.digest, input };
        if let Some(step) = known().get(&key) {
            return Arc::clone(step);
        }
        let step = Arc::new(Step::compute(now, index, node, &key.input));
        known().insert(key, Arc::clone(&step));
        step
    }
}

/// A message from node to node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datagram {
    /// Node that sent it.
    pub from: usize,
    /// Node that receives it.
    pub to: usize,
    /// Kind of the message.
    pub kind: u8,
    /// Content of the message.
    pub payload: Vec<u8>,
}

/// The cluster, its clients, and all messages that were sent.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct World {
    pub(super) nodes: [Arc<Node>; NODES],
    pub(super) clients: Clients,
    pub(super) datagrams: BTreeSet<Arc<Datagram>>,
    /// All views that the membership service has published.
    pub(super) views: Vec<View>,
    /// What is left.
    pub(super) budgets: Budgets,
    now: u64,
}

impl World {
    /// A cluster that is founded, with clients that have done nothing.
    pub(super) fn new(steps: &Steps, parameters: &Parameters, budgets: Budgets) -> Self {
        let founded = View { epoch: Epoch(1), full: NodeSet::first(NODES), joining: NodeSet::EMPTY };
        let mut world = Self {
            nodes: std::array::from_fn(|_| Node::new(parameters, Epoch(1))),
            clients: Clients::new(&budgets.programs),
            datagrams: BTreeSet::new(),
            views: vec![founded],
            budgets,
            now: 0,
        };
        // The service publishes no further view before all founders have the first one.
        (0..NODES).for_each(|index| world.learn(steps, index, founded));
        if budgets.joins {
            world.remove(steps, NODES - 1);
            world.begin_newest(steps);
            world.rejoin(NODES - 1);
            world.begin_newest(steps);
        }
        world
    }

    /// All members learn of the latest view, and the full ones end the epoch before it.
    fn begin_newest(&mut self, steps: &Steps) {
        let view = self.newest();
        view.members().iter().for_each(|node| self.learn(steps, node.index(), view));
        while let Some(sealed) = self.datagrams.iter().find(|datagram| datagram.kind == Kind::Sealed as u8) {
            let sealed = Arc::clone(sealed);
            self.datagrams.remove(&sealed);
            self.handle(steps, sealed.to, Input::Deliver(sealed));
        }
    }

    const fn programs(&self) -> &Programs {
        &self.budgets.programs
    }

    /// The latest view.
    pub(super) fn newest(&self) -> View {
        *self.views.last().expect("the first view exists")
    }

    /// Whether a node can be told of a view.
    pub(super) fn can_learn(&self, index: usize, view: &View) -> bool {
        let Node { kv, since, .. } = &*self.nodes[index];
        let epoch = kv.status().epoch;
        view.epoch > epoch && view.epoch >= *since && view.members().contains(node(index))
    }

    /// Whether a node that joins has all data in the latest view.
    pub(super) fn is_synced(&self, index: usize) -> bool {
        let (newest, status) = (self.newest(), self.nodes[index].kv.status());
        newest.joining.contains(node(index))
            && status.epoch == newest.epoch
            && status.state == EngineState::Joining { synced: true }
    }

    /// The nodes that lead a key in some view.
    pub(super) fn leaders(&self, key: Key) -> NodeSet {
        let partition = partition(&key.bytes());
        self.views.iter().filter_map(|view| view.leader(partition)).collect()
    }

    /// The timers of a node that are set.
    pub(super) fn timers(&self, index: usize) -> impl Iterator<Item = u32> {
        self.nodes[index].timers.iter().copied()
    }

    /// A node learns of a view. If it has been removed meanwhile, the lease that comes with the view has ended.
    pub(super) fn learn(&mut self, steps: &Steps, index: usize, view: View) {
        let is_member = self.newest().members().contains(node(index));
        let lease_until = if is_member { Instant::FAR_FUTURE } else { Instant::ZERO };
        self.handle(steps, index, Input::Configure { view, lease_until });
    }

    /// The service removes a node: its lease has ended, and it is not in the next view.
    pub(super) fn remove(&mut self, steps: &Steps, index: usize) {
        let known = self.nodes[index].kv.status().epoch;
        if let Some(view) = self.views.iter().find(|view| view.epoch == known) {
            self.handle(steps, index, Input::Configure { view: *view, lease_until: Instant::ZERO });
        }
        let View { epoch, full, joining } = self.newest();
        let (full, joining) = (full.without(node(index)), joining.without(node(index)));
        self.views.push(View { epoch: Epoch(epoch.0 + 1), full, joining });
    }

    /// A node that was removed begins a new life without data, and joins.
    fn rejoin(&mut self, index: usize) {
        let View { epoch, full, joining } = self.newest();
        let epoch = Epoch(epoch.0 + 1);
        self.nodes[index] = Node::new(self.nodes[index].kv.parameters(), epoch);
        self.views.push(View { epoch, full, joining: joining.with(node(index)) });
    }

    /// The service makes a node that has all data a full member.
    pub(super) fn promote(&mut self, index: usize) {
        let View { epoch, full, joining } = self.newest();
        let (full, joining) = (full.with(node(index)), joining.without(node(index)));
        self.views.push(View { epoch: Epoch(epoch.0 + 1), full, joining });
    }

    /// The world after a change.
    pub(super) fn after(&self, change: impl FnOnce(&mut Self)) -> Option<Self> {
        let mut next = self.clone();
        change(&mut next);
        Some(next)
    }

    /// The world after a message has arrived, or `None` if it is the same: most messages arrive again without an
    /// effect.
    pub(super) fn deliver(&self, steps: &Steps, datagram: Arc<Datagram>) -> Option<Self> {
        let index = datagram.to;
        let step = steps.of(self.now, index, &self.nodes[index], Input::Deliver(datagram));
        let is_known = step.node == self.nodes[index]
            && step.replies.is_empty()
            && step.sent.iter().all(|sent| self.datagrams.contains(sent));
        if is_known { None } else { self.after(|next| next.take(index, &step)) }
    }

    pub(super) fn fire(&mut self, steps: &Steps, index: usize, tag: u32) {
        self.now += TICK_PS;
        self.handle(steps, index, Input::Fire { tag });
    }

    /// The request of an operation arrives at a node.
    pub(super) fn call(&mut self, steps: &Steps, client: usize, place: usize, node: usize) {
        let payload = Clients::request(self.programs(), client, place);
        self.handle(steps, node, Input::Call { client, payload });
    }

    /// A node handles an event.
    fn handle(&mut self, steps: &Steps, index: usize, input: Input) {
        let step = steps.of(self.now, index, &self.nodes[index], input);
        self.take(index, &step);
    }

    fn take(&mut self, index: usize, step: &Step) {
        self.nodes[index] = Arc::clone(&step.node);
        self.datagrams.extend(step.sent.iter().cloned());
        for (client, reply) in &step.replies {
            let reply = Reply::parse(reply).expect("the engine wrote it");
            self.clients.answer(&self.budgets.programs, *client, &reply);
        }
    }
}
