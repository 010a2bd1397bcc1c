//! The nodes with their memory, the network between them, and the membership service.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::sync::Arc;

use ahash::RandomState;
use weft_kv::message::{Kind, Reply};
use weft_kv::{Kv, Parameters, partition};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
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
    /// A hash of all this. A step changes one node, so those of the others need not be computed again.
    digest: u64,
}

impl Node {
    fn new(parameters: &Parameters) -> Arc<Self> {
        let memory = Memory::new(parameters.memory_bytes());
        let kv = Kv::new(parameters.clone());
        let mut node = Self { kv, memory, timers: BTreeSet::new(), digest: 0 };
        node.note_change();
        Arc::new(node)
    }

    fn note_change(&mut self) {
        let Self { kv, memory, timers, digest } = self;
        let mut hasher = SEEDS.build_hasher();
        (kv, timers).hash(&mut hasher);
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
    pub(super) datagrams: BTreeSet<Datagram>,
    /// All views that the membership service has published.
    pub(super) views: Vec<View>,
    /// What is left.
    pub(super) budgets: Budgets,
    now: u64,
}

impl World {
    /// A cluster that is founded, with clients that have done nothing.
    pub(super) fn new(parameters: &Parameters, budgets: Budgets) -> Self {
        let founded = View { epoch: Epoch(1), full: NodeSet::first(NODES), joining: NodeSet::EMPTY };
        let mut world = Self {
            nodes: std::array::from_fn(|_| Node::new(parameters)),
            clients: Clients::new(&budgets.programs),
            datagrams: BTreeSet::new(),
            views: vec![founded],
            budgets,
            now: 0,
        };
        // The service publishes no further view before all founders have the first one.
        (0..NODES).for_each(|index| world.learn(index, founded));
        world
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
        view.epoch > self.nodes[index].kv.status().epoch && view.full.contains(node(index))
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

    fn configure(&mut self, index: usize, view: View, lease_until: Instant) {
        self.handle(index, Event::Configure(Configuration { node: node(index), view, lease_until }));
    }

    /// A node learns of a view. If it has been removed meanwhile, the lease that comes with the view has ended.
    pub(super) fn learn(&mut self, index: usize, view: View) {
        let is_member = self.newest().full.contains(node(index));
        self.configure(index, view, if is_member { Instant::FAR_FUTURE } else { Instant::ZERO });
    }

    /// The service removes a node: its lease has ended, and it is not in the next view.
    pub(super) fn remove(&mut self, index: usize) {
        let known = self.nodes[index].kv.status().epoch;
        if let Some(view) = self.views.iter().find(|view| view.epoch == known) {
            self.configure(index, *view, Instant::ZERO);
        }
        let View { epoch, full, joining } = self.newest();
        self.views.push(View { epoch: Epoch(epoch.0 + 1), full: full.without(node(index)), joining });
    }

    pub(super) fn deliver(&mut self, datagram: &Datagram) {
        let message = Message { kind: datagram.kind, payload: &datagram.payload };
        self.handle(datagram.to, Event::Deliver { from: node(datagram.from), message, last: true });
    }

    pub(super) fn fire(&mut self, index: usize, tag: u32) {
        self.now += TICK_PS;
        Arc::make_mut(&mut self.nodes[index]).timers.remove(&tag);
        self.handle(index, Event::Timer { tag });
    }

    /// The request of an operation arrives at a node.
    pub(super) fn call(&mut self, client: usize, place: usize, node: usize) {
        let payload = Clients::request(self.programs(), client, place);
        let caller = Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: client as u16 };
        let message = Message { kind: Kind::Request as u8, payload: &payload };
        self.handle(node, Event::Call { caller, message, last: true });
    }

    /// A node handles an event.
    fn handle(&mut self, index: usize, event: Event<'_>) {
        let mut effects = Effects::default();
        let node = Arc::make_mut(&mut self.nodes[index]);
        let Node { kv, memory, timers, .. } = node;
        kv.handle(Instant::from_ps(self.now), event, &mut Io { effects: &mut effects, memory });
        kv.forget_counters();
        memory.take_accesses();
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
                    self.datagrams.extend(to.iter().map(datagram));
                }
                Effect::Reply { to: Caller::Endpoint { port, .. }, kind, payload } => {
                    let reply =
                        Reply::parse(effects.message(*kind, payload).payload).expect("the engine wrote it");
                    self.clients.answer(&self.budgets.programs, (*port).into(), &reply);
                }
                Effect::SetTimer { tag, .. } => drop(timers.insert(*tag)),
                effect => unreachable!("the engine without logs asks for {effect:?}"),
            }
        }
        node.note_change();
    }
}
