//! A cluster of replicas in the simulated network of `weft-smr`'s tests, with clients and hosts, and the
//! checks of a run: every call takes effect once at every replica, where it is permissible, in an order that
//! its method allows; and no answered call is lost.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../smr/tests/network/mod.rs"]
pub mod network;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use network::{Faults, Network, node, wiring};
use weft_rdt::definition::ParameterKind;
use weft_rdt::replica::message::DATA;
use weft_rdt::replica::{
    Answer, Ask, Call, CommitRule, Counts, Observer, Replica, ReplicaParameters, Status,
};
use weft_rdt::{Arguments, Bounds, Category, Object, Type};
use weft_smr::PulseParameters;
use weft_smr::log::Wire;
use weft_time::{Duration, Instant};
use weft_waist::{Caller, Configuration, Engine, EngineState, Epoch, Event, Message, NodeSet, View};

/// Token flag of hosts' requests. Tokens of clients are smaller.
const HOST: u32 = 1 << 31;
/// Number of elements of each sort.
const ELEMENTS: usize = 24;

/// Identifies a call: node, incarnation, and the client's number.
type Name = (usize, u32, u32);

/// A call with the arguments that its checking replica has filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    name: Name,
    method: usize,
    arguments: Arguments,
}

/// All calls that took effect at some replica, in the order that all replicas must follow.
#[derive(Debug, Default)]
pub struct History {
    summarized: [Vec<Made>; 8],
    entries: [Vec<Made>; 8],
    groups: [Vec<Made>; 6],
    names: BTreeSet<Name>,
    /// Calls whose node made them and then lost its memory.
    pub lost: BTreeSet<Name>,
    pub effects: u64,
}

impl History {
    fn push(list: &mut Vec<Made>, names: &mut BTreeSet<Name>, made: Made) {
        assert!(names.insert(made.name), "{made:?} takes effect twice");
        list.push(made);
    }

    /// The origin makes a call after `known` earlier ones. Calls beyond those in the list are lost. After a
    /// snapshot, the origin may report a call a second time.
    fn continue_behind(&mut self, summarized: bool, origin: usize, known: usize, made: Made) {
        let list = if summarized { &mut self.summarized[origin] } else { &mut self.entries[origin] };
        if list.get(known) == Some(&made) {
            return;
        }
        for lost in list.drain(known..) {
            assert_ne!(lost.name.1, made.name.1, "{lost:?} is forgotten by its own incarnation");
            self.lost.insert(lost.name);
        }
        Self::push(list, &mut self.names, made);
    }
}

/// Watches one replica, and applies every call to an object of its own as well.
#[derive(Clone, Debug)]
pub struct Watcher {
    me: usize,
    incarnation: u32,
    parameters: Rc<ReplicaParameters>,
    history: Rc<RefCell<History>>,
    shadow: Object,
    pub counts: Counts,
}

impl Watcher {
    fn make(&mut self, made: Made) {
        let Made { method, arguments, .. } = made;
        let refusing: Vec<_> = self.shadow.refusing(method, &arguments).collect();
        assert!(refusing.is_empty(), "at {}: {made:?} is not permissible: {refusing:?}", self.me);
        self.shadow.apply(method, &arguments);
    }

    fn check(&self, object: &Object) {
        let broken: Vec<_> = object.broken().collect();
        assert!(broken.is_empty(), "at {}: {broken:?}", self.me);
    }
}

impl Observer for Watcher {
    fn applied(
        &mut self,
        origin: usize,
        incarnation: u32,
        sequence: u32,
        method: usize,
        arguments: &Arguments,
        object: &Object,
    ) {
        let made = Made { name: (origin, incarnation, sequence), method, arguments: *arguments };
        let history = self.history.clone();
        let history = &mut *history.borrow_mut();
        history.effects += 1;
        let (list, count) = if let Some(group) = self.parameters.kind.coordination(method).group {
            let count = &mut self.counts.groups[group];
            if *count as usize == history.groups[group].len() {
                History::push(&mut history.groups[group], &mut history.names, made);
            }
            (&history.groups[group], count)
        } else if self.parameters.is_summarized(method) {
            assert_eq!(origin, self.me, "others' summaries are absorbed");
            let count = &mut self.counts.summaries[origin];
            history.continue_behind(true, origin, *count as usize, made);
            (&history.summarized[origin], count)
        } else {
            let count = &mut self.counts.entries[origin];
            // A joining replica also reports its own calls of former incarnations.
            if (origin, incarnation) == (self.me, self.incarnation) {
                history.continue_behind(false, origin, *count as usize, made);
            }
            (&history.entries[origin], count)
        };
        let known = || list.iter().position(|other| *other == made);
        assert_eq!(
            list.get(*count as usize),
            Some(&made),
            "at {}, call {count}, known as {:?}",
            self.me,
            known()
        );
        *count += 1;
        self.make(made);
        self.check(object);
    }

    fn absorbed(&mut self, origin: usize, count: u64, object: &Object) {
        let history = self.history.clone();
        for index in self.counts.summaries[origin]..count {
            let made = history.borrow().summarized[origin].get(index as usize).copied();
            let made = made.unwrap_or_else(|| panic!("{} absorbs call {index} of {origin}", self.me));
            self.make(made);
        }
        self.counts.summaries[origin] = count;
        self.check(object);
    }

    fn restored(&mut self, object: &Object, counts: &Counts) {
        let history = self.history.clone();
        let history = history.borrow();
        self.counts = *counts;
        self.shadow = Object::new(&self.parameters.kind);
        let mut apply = |list: &[Made], count: u64| {
            for made in &list[..count as usize] {
                self.shadow.apply(made.method, &made.arguments);
            }
        };
        for origin in 0..8 {
            apply(&history.summarized[origin], counts.summaries[origin]);
            apply(&history.entries[origin], counts.entries[origin]);
        }
        for group in 0..6 {
            apply(&history.groups[group], counts.groups[group]);
        }
        self.check(object);
    }
}

/// A type with small universes.
pub fn kind(name: &str) -> std::sync::Arc<Type> {
    Type::shipped(name, &Bounds::uniform(ELEMENTS)).unwrap()
}

/// Sizes so small that rings wrap.
pub fn small(name: &str, nodes: usize) -> ReplicaParameters {
    let mut parameters = ReplicaParameters::new(kind(name), nodes);
    (parameters.window, parameters.ring) = (8, 32);
    parameters.log = weft_smr::Parameters {
        slots: 32,
        window: 4,
        retry: Duration::from_us(15),
        patience: Duration::from_us(150),
        ..weft_smr::Parameters::default()
    };
    parameters.pulse =
        PulseParameters { nodes, period: Duration::from_us(2), patience: 4, retry: Duration::from_us(20) };
    parameters.poll = Duration::from_us(1);
    parameters
}

/// Faults besides those of the network, as probabilities per mille and 20 us: a node crashes, a link is cut
/// for a while, a node is slow for a while.
#[derive(Clone, Copy, Debug)]
pub struct Mischief {
    pub crash: u64,
    pub cut: u64,
    pub stick: u64,
}

struct Client {
    next: u32,
    outstanding: BTreeMap<u32, Instant>,
}

pub struct Cluster {
    pub network: Network<Replica<Watcher>>,
    parameters: Rc<ReplicaParameters>,
    pub history: Rc<RefCell<History>>,
    clients: Vec<Client>,
    epoch: u32,
    incarnations: Vec<u32>,
    /// Nodes that never restart.
    gone: BTreeSet<usize>,
    /// Nodes that are not full yet.
    forgetful: BTreeSet<usize>,
    restart_at: BTreeMap<usize, Instant>,
    heal_links_at: BTreeMap<(usize, usize), Instant>,
    pub answered: BTreeSet<Name>,
    /// Number of answered calls that are lost, as commit rule `local` allows.
    pub lost_answers: usize,
    pub statuses: BTreeMap<u8, u64>,
    pub crashes: u64,
    pub lost_nodes: u64,
    pub slowest: Duration,
    pub asking: bool,
    sums: BTreeMap<&'static str, u64>,
}

impl Cluster {
    pub fn new(seed: u64, parameters: ReplicaParameters) -> Self {
        let nodes = parameters.nodes;
        let mut cluster = Self {
            network: Network::new(seed, nodes),
            history: Rc::default(),
            clients: (0..nodes).map(|_| Client { next: 1, outstanding: BTreeMap::new() }).collect(),
            epoch: 1,
            incarnations: vec![1; nodes],
            gone: BTreeSet::new(),
            forgetful: BTreeSet::new(),
            restart_at: BTreeMap::new(),
            heal_links_at: BTreeMap::new(),
            answered: BTreeSet::new(),
            lost_answers: 0,
            statuses: BTreeMap::new(),
            crashes: 0,
            lost_nodes: 0,
            slowest: Duration::ZERO,
            asking: true,
            sums: BTreeMap::new(),
            parameters: Rc::new(parameters),
        };
        for index in 0..nodes {
            cluster.start(index);
        }
        cluster
    }

    pub fn nodes(&self) -> usize {
        self.parameters.nodes
    }

    fn start(&mut self, index: usize) {
        let watcher = Watcher {
            me: index,
            incarnation: self.epoch,
            parameters: self.parameters.clone(),
            history: self.history.clone(),
            shadow: Object::new(&self.parameters.kind),
            counts: Counts::default(),
        };
        let engine = Replica::with_observer((*self.parameters).clone(), watcher);
        self.network.start(index, engine, self.parameters.memory_bytes());
        for peer in (0..self.nodes()).filter(|peer| *peer != index) {
            for group in self.parameters.purposes() {
                let purpose = if group == DATA { 14 } else { group.min(15) };
                let wire = Wire { group, peer, wiring: wiring(purpose, peer) };
                self.call(index, HOST, Call::Wire, &wire.encode());
            }
        }
        let all = NodeSet::first(self.nodes());
        let this = NodeSet::EMPTY.with(node(index));
        let view = if self.epoch == 1 {
            View { epoch: Epoch(1), full: all, joining: NodeSet::EMPTY }
        } else {
            View { epoch: Epoch(self.epoch), full: all.without(node(index)), joining: this }
        };
        self.incarnations[index] = self.epoch;
        self.clients[index] = Client { next: 1, outstanding: BTreeMap::new() };
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        self.network.handle(index, Event::Configure(configuration));
    }

    pub fn crash(&mut self, index: usize) {
        self.crashes += 1;
        self.take_replies();
        for (name, count) in self.state(index).expect("it runs").counters() {
            *self.sums.entry(name).or_default() += count;
        }
        self.network.crash(index);
        self.forgetful.insert(index);
        self.clients[index].outstanding.clear();
    }

    pub fn restart(&mut self, index: usize) {
        self.epoch += 1;
        self.start(index);
    }

    fn call(&mut self, index: usize, token: u32, kind: Call, payload: &[u8]) {
        let message = Message { kind: kind as u8, payload };
        self.network.handle(index, Event::Call { caller: Caller::Host(token), message, last: true });
    }

    pub fn state(&self, index: usize) -> Option<&Replica<Watcher>> {
        self.network.nodes[index].as_ref().map(|node| &node.engine)
    }

    // Calls of clients.

    fn arguments(&mut self, index: usize, method: usize) -> Arguments {
        let kind = self.parameters.kind.clone();
        let method = &kind.definition().methods[method];
        let mut arguments = Arguments::default();
        for (place, parameter) in method.parameters.iter().enumerate() {
            arguments[place] = match parameter.kind {
                ParameterKind::Element(_) => self.network.random(ELEMENTS as u64) as i64,
                ParameterKind::Amount => self.network.random(20) as i64,
                ParameterKind::Integer => self.network.random(40) as i64 - 20,
                _ => 0,
            };
            if method.unique.last() == Some(&place) && matches!(parameter.kind, ParameterKind::Element(_)) {
                let nodes = self.nodes() as u64;
                let own = self.network.random(ELEMENTS as u64 / nodes) * nodes + index as u64;
                arguments[place] = own as i64;
            }
        }
        arguments
    }

    fn ask_all(&mut self) {
        for index in 0..self.nodes() {
            let full = self.state(index).is_some_and(Replica::is_full);
            if !self.asking || !full || self.clients[index].outstanding.len() >= 6 {
                continue;
            }
            if self.network.chance(250) {
                let queries = self.parameters.kind.definition().queries.len() as u64;
                let query = self.network.random(queries) as usize;
                let ask = Ask { sequence: 0, method: query as u8, arguments: Arguments::default() };
                self.call(index, HOST, Call::Query, &ask.encode());
            }
            let method = self.network.random(self.parameters.kind.method_count() as u64) as usize;
            let arguments = self.arguments(index, method);
            let sequence = self.clients[index].next;
            self.clients[index].next += 1;
            let now = self.network.now;
            self.clients[index].outstanding.insert(sequence, now);
            let ask = Ask { sequence: sequence.into(), method: method as u8, arguments };
            self.call(index, sequence, Call::Invoke, &ask.encode());
        }
    }

    /// The client of a node makes this call.
    pub fn invoke(&mut self, index: usize, method: &str, arguments: Arguments) {
        let method = self.parameters.kind.definition().method(method).expect("the type has it");
        let sequence = self.clients[index].next;
        self.clients[index].next += 1;
        let now = self.network.now;
        self.clients[index].outstanding.insert(sequence, now);
        let ask = Ask { sequence: sequence.into(), method: method as u8, arguments };
        self.call(index, sequence, Call::Invoke, &ask.encode());
        self.take_replies();
    }

    /// Cuts the links from one node to others, or restores them.
    pub fn cut(&mut self, from: usize, to: &[usize], is_cut: bool) {
        for &to in to {
            self.network.cut.insert((from, to), is_cut);
        }
    }

    /// Runs until a condition holds.
    pub fn until(&mut self, condition: impl Fn(&Self) -> bool) {
        for _ in 0..5_000 {
            if condition(self) {
                return;
            }
            self.run(Duration::from_us(1));
        }
        panic!("it does not come to that: {}", self.describe());
    }

    fn take_replies(&mut self) {
        while let Some((index, to, _, payload)) = self.network.replies.pop_front() {
            let answer = Answer::parse(&payload).unwrap();
            let Caller::Host(token) = to else { panic!("only hosts ask") };
            if token == HOST {
                assert_eq!(answer.status, Status::Done);
                continue;
            }
            if answer.incarnation != self.incarnations[index] {
                continue;
            }
            let asked_at = self.clients[index].outstanding.remove(&(answer.sequence as u32));
            let asked_at = asked_at.unwrap_or_else(|| panic!("{index} answers {answer:?} twice"));
            *self.statuses.entry(answer.status as u8).or_default() += 1;
            self.slowest = self.slowest.max(self.network.now - asked_at);
            let name = (index, answer.incarnation, answer.sequence as u32);
            let took_effect = self.history.borrow().names.contains(&name);
            match answer.status {
                Status::Done => {
                    assert!(took_effect, "{name:?} is answered and has not happened");
                    self.answered.insert(name);
                }
                Status::BadRequest => panic!("{name:?} is a bad request"),
                _ => assert!(!took_effect, "{name:?} is refused and has happened"),
            }
        }
    }

    // Running the cluster, with faults.

    pub fn run(&mut self, length: Duration) {
        let until = self.network.now + length;
        while self.network.now < until {
            let next = (self.network.now + Duration::from_us(2)).min(until);
            self.network.run_until(next, |_| {});
            self.take_replies();
            self.ask_all();
            self.take_replies();
            for index in 0..self.nodes() {
                let Some(state) = self.state(index) else { continue };
                match state.status().state {
                    EngineState::Full => {
                        self.forgetful.remove(&index);
                    }
                    EngineState::Lost => {
                        // Its host restarts it.
                        self.lost_nodes += 1;
                        self.crash(index);
                        let after = self.network.now + Duration::from_us(50);
                        self.restart_at.insert(index, after);
                    }
                    _ => {}
                }
            }
            self.undo(self.network.now);
        }
    }

    pub fn run_with(&mut self, mischief: Mischief, length: Duration) {
        let until = self.network.now + length;
        while self.network.now < until {
            self.run(Duration::from_us(20));
            let now = self.network.now;
            let nodes = self.nodes();
            let victim = self.network.random(nodes as u64) as usize;
            let other = self.network.random(nodes as u64) as usize;
            if self.network.chance(mischief.crash)
                && self.state(victim).is_some()
                && (self.forgetful.contains(&victim) || self.forgetful.len() + 1 < nodes.div_ceil(2))
            {
                self.crash(victim);
                let after = Duration::from_us(1 + self.network.random(400));
                self.restart_at.insert(victim, now + after);
            }
            if self.network.chance(mischief.cut) && victim != other {
                let after = Duration::from_us(20 + self.network.random(400));
                for link in [(victim, other), (other, victim)] {
                    // About half of the cuts affect both directions.
                    if self.network.chance(700) {
                        self.network.cut.insert(link, true);
                        self.heal_links_at.insert(link, now + after);
                    }
                }
            }
            if self.network.chance(mischief.stick) {
                let length = Duration::from_us(self.network.random(200));
                self.network.stick(victim, length);
            }
        }
    }

    fn undo(&mut self, now: Instant) {
        let due: Vec<_> = self.heal_links_at.iter().filter(|(_, at)| **at <= now).map(|(l, _)| *l).collect();
        for link in due {
            self.heal_links_at.remove(&link);
            self.network.cut.insert(link, false);
        }
        let due: Vec<_> = self.restart_at.iter().filter(|(_, at)| **at <= now).map(|(n, _)| *n).collect();
        for node in due {
            self.restart_at.remove(&node);
            self.restart(node);
        }
    }

    /// If all nodes are full, crashes a random node in the middle of its work, and never restarts it.
    pub fn bury_one(&mut self) {
        self.undo(Instant::FAR_FUTURE);
        for _ in 0..200 {
            self.run(Duration::from_us(20));
            if self.forgetful.is_empty() {
                break;
            }
        }
        if self.forgetful.is_empty() {
            let victim = self.network.random(self.nodes() as u64) as usize;
            self.ask_all();
            self.bury(victim);
        }
    }

    /// Crashes a node and never restarts it.
    pub fn bury(&mut self, victim: usize) {
        self.crash(victim);
        self.gone.insert(victim);
    }

    /// Ends all faults, and then checks that all nodes are full, all calls are answered, all states are
    /// equal, and no answered call is missing. By commit rule `local`, non-conflicting calls of crashed
    /// incarnations may be missing.
    pub fn heal(&mut self) {
        self.undo(Instant::FAR_FUTURE);
        self.network.faults = Faults::default();
        self.asking = true;
        self.run(Duration::from_ms(4));
        let before = self.answered.len();
        self.run(Duration::from_ms(1));
        assert!(self.answered.len() > before, "{}", self.describe());
        self.asking = false;
        self.run(Duration::from_ms(2));
        assert!(self.restart_at.is_empty(), "{}", self.describe());
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        assert_eq!(outstanding, 0, "{}", self.describe());
        let remaining: Vec<_> = (0..self.nodes()).filter(|index| !self.gone.contains(index)).collect();
        let counts = self.state(remaining[0]).expect("it runs").observer().counts;
        let history = self.history.borrow();
        let mut names = BTreeSet::new();
        let mut take = |list: &[Made], count: u64, complete: bool| {
            assert!(!complete || list.len() as u64 == count, "{count}: {}", self.describe());
            names.extend(list[..count as usize].iter().map(|made| made.name));
        };
        for origin in 0..self.nodes() {
            // Calls that a crashed node had not sent to any other node are lost.
            let complete = !self.gone.contains(&origin);
            take(&history.summarized[origin], counts.summaries[origin], complete);
            take(&history.entries[origin], counts.entries[origin], complete);
        }
        for (list, count) in history.groups.iter().zip(counts.groups) {
            take(list, count, true);
        }
        let lost: Vec<Name> = self.answered.difference(&names).copied().collect();
        for name in &lost {
            // Conflicting calls are in the log when they are answered, so they are never among the lost ones.
            let (origin, incarnation, _) = *name;
            let has_crashed = self.gone.contains(&origin) || self.incarnations[origin] != incarnation;
            let may_be = self.parameters.commit == CommitRule::Local && has_crashed;
            assert!(may_be, "{name:?} was answered and is lost");
        }
        for &index in &remaining {
            let state = self.state(index).expect("it runs");
            assert!(state.is_full(), "{index}: {}", self.describe());
            assert_eq!(state.observer().counts, counts, "{index}: {}", self.describe());
            assert_eq!(state.object().words(), state.observer().shadow.words(), "at {index}");
        }
        drop(history);
        self.lost_answers = lost.len();
    }

    pub fn describe(&self) -> String {
        let describe = |index| match self.state(index) {
            Some(replica) => format!(
                "\n{index}: {:?} {:?} alive {:?} outstanding {:?} groups {:?}\n   {}",
                replica.status().state,
                replica.observer().counts,
                replica.pulse().alive(),
                self.clients[index].outstanding.len(),
                (0..self.parameters.kind.group_count())
                    .map(|group| {
                        let group = replica.group(group);
                        (group.role(), group.takes_part(), group.applied(), group.decided())
                    })
                    .collect::<Vec<_>>(),
                replica.describe(),
            ),
            None => format!("\n{index}: gone"),
        };
        (0..self.nodes()).map(describe).collect()
    }

    /// Sums of the nodes' counters, over all their incarnations.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = self.sums.clone();
        for (name, count) in self.network.nodes.iter().flatten().flat_map(|node| node.engine.counters()) {
            *sums.entry(name).or_default() += count;
        }
        sums
    }
}

/// Whether a type has methods of this category.
pub fn has(kind: &Type, category: Category) -> bool {
    (0..kind.method_count()).any(|method| kind.coordination(method).category == category)
}
