//! Three nodes, each with a keeper, and three coordinators, on clocks of their own, in a network that loses, doubles
//! and delays messages. Keepers are killed, paused and parted; coordinators and nodes crash.

use std::collections::{BTreeMap, BTreeSet};

use weft_cluster::{
    Action, Agent, AgentParameters, Incarnation, Keeper, KeeperParameters, Membership, Origin,
    ServiceParameters,
};
use weft_register::{Acceptor, Coordinator};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, EngineStatus, Epoch, NodeId, NodeSet, View};

const NODES: usize = 3;
const COORDINATORS: usize = 3;
const LEASE: Duration = Duration::from_ms(100);
const TERM: Duration = Duration::from_ms(50);
/// How long faults strike, and how long they have been over when the run ends.
const STRIKES: u64 = Duration::from_secs(6).as_ps();
const LENGTH: u64 = Duration::from_secs(8).as_ps();
const MS: u64 = Duration::from_ms(1).as_ps();

/// What a run has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Number of keepers that have held the service, one after the other.
    pub terms: u32,
    /// Number of views.
    pub views: u32,
    /// The longest time without a node that held a lease in the newest view, once there was one.
    pub stall_ms: u64,
}

#[derive(Clone, Copy)]
struct Clock {
    offset: u64,
    ppm: i64,
}

impl Clock {
    fn read(self, real: u64) -> Instant {
        let drift = i128::from(real) * i128::from(self.ppm) / 1_000_000;
        Instant::from_ps((i128::from(real) + i128::from(self.offset) + drift) as u64)
    }

    /// A real time at which the clock shows at least `local`.
    fn when(self, local: Instant) -> u64 {
        if local == Instant::FAR_FUTURE {
            return u64::MAX;
        }
        let since = i128::from(local.as_ps()) - i128::from(self.offset);
        let mut real = (since * 1_000_000 / i128::from(1_000_000 + self.ppm)).max(0) as u64;
        while self.read(real) < local {
            real += 1;
        }
        real
    }
}

struct Random(u64);

impl Random {
    /// The next number of SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Node(usize),
    Keeper(usize),
    Coordinator(usize),
}

struct Host {
    clock: Clock,
    agent: Agent,
    engine: EngineStatus,
    synced_at: u64,
    next_incarnation: Incarnation,
    /// The greatest term that has answered this agent.
    term: u32,
    keeper: Option<Keeper<usize>>,
    keeper_lives: u64,
    paused_until: u64,
}

pub struct World {
    real: u64,
    random: Random,
    hosts: Vec<Host>,
    coordinators: Vec<Option<Coordinator<usize>>>,
    disks: Vec<Vec<u8>>,
    flight: BTreeMap<(u64, u64), (End, End, Vec<u8>)>,
    packets: u64,
    /// Links that are cut, and what starts again, by time.
    cut: BTreeSet<(End, End)>,
    repairs: BTreeMap<(u64, u64), Repair>,
    next_fault: u64,
    views: BTreeMap<Epoch, View>,
    incarnations: BTreeMap<(Epoch, usize), Incarnation>,
    served: Option<u64>,
    found: Found,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<weft_cluster::PlantedBug>,
}

enum Repair {
    Keeper(usize),
    Coordinator(usize),
    Node(usize),
    Link(End, End),
}

fn parameters() -> KeeperParameters {
    let service = ServiceParameters::new(NODES, LEASE);
    KeeperParameters { service, coordinators: COORDINATORS, term: TERM }
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let disks: Vec<_> = (0..COORDINATORS)
            .map(|number| {
                let cluster = weft_cluster::ClusterId::default().0;
                Acceptor::default().encode(cluster, number as u8)
            })
            .collect();
        let hosts = (0..NODES).map(|node| {
            let clock = Clock { offset: random.below(1 << 40), ppm: random.below(901) as i64 - 450 };
            Host {
                clock,
                agent: agent(node, Incarnation::FIRST),
                engine: EngineStatus::STARTING,
                synced_at: 0,
                next_incarnation: Incarnation::FIRST.next(),
                term: 0,
                keeper: None,
                keeper_lives: 0,
                paused_until: 0,
            }
        });
        let mut world = Self {
            real: 0,
            hosts: hosts.collect(),
            random,
            coordinators: (0..COORDINATORS).map(|_| None).collect(),
            disks,
            flight: BTreeMap::new(),
            packets: 0,
            cut: BTreeSet::new(),
            repairs: BTreeMap::new(),
            next_fault: 0,
            views: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            served: None,
            found: Found::default(),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        };
        world.next_fault = 500 * MS + world.random.below(100 * MS);
        (0..COORDINATORS).for_each(|number| world.start_coordinator(number));
        world
    }

    #[cfg(feature = "planted-bugs")]
    pub fn with_planted_bug(mut self, bug: weft_cluster::PlantedBug) -> Self {
        self.planted_bug = Some(bug);
        for host in &mut self.hosts {
            host.agent = host.agent.clone().with_planted_bug(bug);
        }
        self
    }

    pub fn run(mut self) -> Result<Found, String> {
        (0..NODES).for_each(|node| self.start_keeper(node));
        while self.real < LENGTH {
            let next = self.next_time();
            self.real = self.real.max(next);
            self.step();
            self.check().map_err(|violation| format!("at {} ms: {violation}", self.real / MS))?;
        }
        let serving = (0..NODES).filter(|&node| self.serves(node)).count();
        if serving < NODES {
            return Err(format!("{serving} nodes serve two seconds after the last fault"));
        }
        Ok(self.found)
    }

    fn next_time(&self) -> u64 {
        let arrival = self.flight.first_key_value().map_or(u64::MAX, |((time, _), _)| *time);
        let repair = self.repairs.first_key_value().map_or(u64::MAX, |((time, _), _)| *time);
        let hosts = self.hosts.iter().map(|host| {
            let agent = host.clock.when(host.agent.next_deadline());
            let keeper = host
                .keeper
                .as_ref()
                .map_or(u64::MAX, |keeper| host.clock.when(keeper.next_deadline()).max(host.paused_until));
            let joins = host.engine.state == EngineState::Joining { synced: false };
            agent.min(keeper).min(if joins { host.synced_at } else { u64::MAX })
        });
        hosts.min().unwrap_or(u64::MAX).min(arrival).min(repair).min(self.next_fault)
    }

    fn step(&mut self) {
        while let Some(entry) = self.repairs.first_entry().filter(|entry| entry.key().0 <= self.real) {
            match entry.remove() {
                Repair::Keeper(node) => self.start_keeper(node),
                Repair::Coordinator(number) => self.start_coordinator(number),
                // Most come back by themselves, when the service has refused them.
                Repair::Node(node) if self.hosts[node].engine.state == EngineState::Lost => {
                    self.start_node(node)
                }
                Repair::Node(_) => {}
                Repair::Link(one, other) => {
                    self.cut.remove(&(one, other));
                }
            }
        }
        if self.real >= self.next_fault {
            self.next_fault = u64::MAX;
            if self.real < STRIKES {
                self.next_fault = self.real + self.random.below(100 * MS);
                self.strike();
            }
        }
        while let Some(entry) = self.flight.first_entry().filter(|entry| entry.key().0 <= self.real) {
            let (from, to, bytes) = entry.remove();
            self.arrive(from, to, bytes);
        }
        for node in 0..NODES {
            self.attend(node);
            self.keep(node, |keeper, now| keeper.tick(now));
        }
    }

    fn arrive(&mut self, from: End, to: End, bytes: Vec<u8>) {
        match to {
            End::Coordinator(number) => {
                let End::Keeper(keeper) = from else { return };
                let Some(coordinator) = &mut self.coordinators[number] else { return };
                coordinator.receive(keeper, &bytes).expect("keepers send well-formed requests");
                if let Some(state) = coordinator.take_unsaved() {
                    self.disks[number] = state;
                }
                while let Some((to, datagram)) =
                    self.coordinators[number].as_mut().and_then(Coordinator::poll_transmit)
                {
                    self.send(End::Coordinator(number), End::Keeper(to), &datagram);
                }
            }
            End::Keeper(node) => {
                // What arrives during a pause waits in the socket.
                if self.real < self.hosts[node].paused_until {
                    self.packets += 1;
                    let key = (self.hosts[node].paused_until, self.packets);
                    self.flight.insert(key, (from, to, bytes));
                    return;
                }
                self.keep(node, |keeper, now| match from {
                    // Answers to an earlier life of the keeper are ignored.
                    End::Coordinator(_) => drop(keeper.receive_answer(now, &bytes)),
                    End::Node(from) => {
                        let received = keeper.receive_from(now, from, &bytes, |_| Origin::Own);
                        received.expect("nodes send well-formed heartbeats");
                    }
                    End::Keeper(_) => unreachable!("keepers do not speak to each other"),
                });
            }
            End::Node(node) => {
                let host = &mut self.hosts[node];
                // Late answers, and those of earlier terms, are refused.
                let _ = host.agent.receive(host.clock.read(self.real), &bytes);
                self.attend(node);
            }
        }
    }

    /// What a keeper's host does after every call.
    fn keep(&mut self, node: usize, call: impl FnOnce(&mut Keeper<usize>, Instant)) {
        let host = &mut self.hosts[node];
        let now = host.clock.read(self.real);
        if self.real < host.paused_until {
            return;
        }
        let Some(keeper) = &mut host.keeper else { return };
        call(keeper, now);
        let (mut to_nodes, mut to_coordinators) = (Vec::new(), Vec::new());
        while let Some((to, datagram)) = keeper.poll_transmit(now) {
            to_nodes.push((to, datagram.to_vec()));
        }
        while let Some((to, datagram)) = keeper.poll_request() {
            to_coordinators.push((usize::from(to), datagram.to_vec()));
        }
        for (to, datagram) in to_nodes {
            self.send(End::Keeper(node), End::Node(to), &datagram);
        }
        for (to, datagram) in to_coordinators {
            self.send(End::Keeper(node), End::Coordinator(to), &datagram);
        }
    }

    /// What a node's host does after every event.
    fn attend(&mut self, node: usize) {
        let catching_up = self.random.below(100 * MS);
        let host = &mut self.hosts[node];
        let now = host.clock.read(self.real);
        if let Some(configuration) = host.agent.poll_configuration() {
            let view = configuration.view;
            if view.epoch > host.engine.epoch && host.engine.state != EngineState::Lost {
                host.engine.epoch = view.epoch;
                host.engine.state = if view.full.contains(configuration.node) {
                    EngineState::Full
                } else {
                    host.synced_at = self.real + catching_up;
                    EngineState::Joining { synced: false }
                };
            }
        }
        if host.engine.state == (EngineState::Joining { synced: false }) && self.real >= host.synced_at {
            host.engine.state = EngineState::Joining { synced: true };
        }
        host.agent.engine_status(now, host.engine);
        match host.agent.poll_action() {
            Some(Action::Restart { incarnation }) => {
                host.next_incarnation = incarnation.max(host.next_incarnation);
                self.start_node(node);
                return;
            }
            Some(Action::Stop) => {
                self.start_node(node);
                return;
            }
            None => {}
        }
        if let Some(datagram) = host.agent.poll_transmit(now) {
            let keeper = host.agent.keeper();
            self.send(End::Node(node), End::Keeper(keeper), &datagram);
        }
    }

    fn start_node(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        let incarnation = host.next_incarnation;
        host.next_incarnation = incarnation.next();
        host.agent = agent(node, incarnation);
        host.term = 0;
        host.engine = EngineStatus::STARTING;
        #[cfg(feature = "planted-bugs")]
        if let Some(bug) = self.planted_bug {
            host.agent = host.agent.clone().with_planted_bug(bug);
        }
    }

    fn start_keeper(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        host.keeper_lives += 1;
        let incarnation = Incarnation::new(host.keeper_lives).expect("it has lived");
        let keeper = Keeper::new(NodeId::new(node).expect("there are three"), incarnation, parameters());
        #[cfg(feature = "planted-bugs")]
        let keeper = match self.planted_bug {
            Some(bug) => keeper.with_planted_bug(bug),
            None => keeper,
        };
        host.keeper = Some(keeper);
        self.keep(node, |keeper, now| keeper.tick(now));
    }

    fn start_coordinator(&mut self, number: usize) {
        let cluster = weft_cluster::ClusterId::default().0;
        let acceptor = Acceptor::decode(cluster, number as u8, &self.disks[number]);
        let acceptor = acceptor.expect("the coordinator has written it");
        self.coordinators[number] = Some(Coordinator::new(cluster, number as u8, acceptor));
    }

    fn strike(&mut self) {
        let node = self.random.below(NODES as u64) as usize;
        let number = self.random.below(COORDINATORS as u64) as usize;
        // The holder is struck most often.
        let holder = (0..NODES).find(|&node| self.holds(node)).unwrap_or(node);
        let keeper = if self.random.below(3) > 0 { holder } else { node };
        let length = self.random.below(200 * MS);
        let until = (self.real + length, self.packets);
        match self.random.below(6) {
            0 => {
                self.hosts[keeper].keeper = None;
                self.repairs.insert(until, Repair::Keeper(keeper));
            }
            1 => self.hosts[keeper].paused_until = self.real + length,
            2 => {
                for link in [
                    (End::Keeper(keeper), End::Coordinator(number)),
                    (End::Keeper(keeper), End::Coordinator((number + 1) % COORDINATORS)),
                ] {
                    self.packets += 1;
                    self.cut.insert(link);
                    self.repairs.insert((until.0, self.packets), Repair::Link(link.0, link.1));
                }
            }
            3 => {
                let link = (End::Node(node), End::Keeper(keeper));
                self.cut.insert(link);
                self.repairs.insert(until, Repair::Link(link.0, link.1));
            }
            4 => {
                self.coordinators[number] = None;
                self.repairs.insert(until, Repair::Coordinator(number));
            }
            _ => {
                // The last full member does not crash: its data would be lost.
                let full = self.views.last_key_value().map_or(NodeSet::EMPTY, |(_, view)| view.full);
                let others = full.without(NodeId::new(node).expect("there are three"));
                if others.iter().any(|other| self.serves(other.index())) {
                    self.hosts[node].engine.state = EngineState::Lost;
                    self.repairs.insert(until, Repair::Node(node));
                }
            }
        }
        self.packets += 1;
    }

    fn holds(&self, node: usize) -> bool {
        let host = &self.hosts[node];
        let now = host.clock.read(self.real);
        host.keeper.as_ref().is_some_and(|keeper| keeper.held(now).is_some())
    }

    /// Whether a node has a lease, and an engine that serves.
    fn serves(&self, node: usize) -> bool {
        let host = &self.hosts[node];
        let has_lease = host.clock.read(self.real) < host.agent.lease_until();
        has_lease && host.engine.state != EngineState::Lost
    }

    fn check(&mut self) -> Result<(), String> {
        let holders: Vec<_> = (0..NODES).filter(|&node| self.holds(node)).collect();
        if holders.len() > 1 {
            return Err(format!("keepers {holders:?} hold the service at the same time"));
        }
        for &holder in &holders {
            let keeper = self.hosts[holder].keeper.as_ref().expect("it holds the service");
            let view = keeper.view();
            self.found.terms = self.found.terms.max(keeper.term());
            let newest = self.views.last_key_value().map_or(Epoch(0), |(epoch, _)| *epoch);
            if view.epoch < newest {
                return Err(format!("keeper {holder} holds the service in {}, after {newest}", view.epoch));
            }
            if view.epoch == Epoch(0) {
                continue;
            }
            let known = *self.views.entry(view.epoch).or_insert(view);
            if known != view {
                return Err(format!("{} has two views", view.epoch));
            }
            self.found.views = view.epoch.0;
            for member in view.members().iter() {
                let server = keeper.held(self.hosts[holder].clock.read(self.real)).expect("it holds it");
                // A view that is not stored yet has another epoch, and may have other incarnations.
                if server.service().view() == view
                    && let Some(incarnation) = server.service().incarnation(member)
                {
                    self.incarnations.insert((view.epoch, member.index()), incarnation);
                }
            }
        }
        let newest = self.views.last_key_value().map_or_else(View::default, |(_, view)| *view);
        let mut is_served = false;
        for node in 0..NODES {
            let host = &mut self.hosts[node];
            if host.agent.term() < host.term {
                return Err(format!("node {node} listens to term {} after {}", host.agent.term(), host.term));
            }
            host.term = host.agent.term();
            if self.serves(node) {
                let agent = &self.hosts[node].agent;
                if !newest.members().contains(agent.node()) {
                    return Err(format!("node {node} has a lease but is not in {newest:?}"));
                }
                let registered = self.incarnations.get(&(newest.epoch, node));
                if registered.is_some_and(|registered| *registered != agent.incarnation()) {
                    return Err(format!("a past life of node {node} has a lease"));
                }
                is_served |= agent.view().epoch == newest.epoch;
            }
        }
        if is_served {
            let since = self.served.replace(self.real).unwrap_or(self.real);
            self.found.stall_ms = self.found.stall_ms.max((self.real - since) / MS);
        }
        Ok(())
    }

    fn send(&mut self, from: End, to: End, datagram: &[u8]) {
        let is_cut = self.cut.contains(&(from, to)) || self.cut.contains(&(to, from));
        let copies = 1 + u64::from(self.random.below(20) == 0);
        for _ in 0..copies {
            if is_cut || self.random.below(50) == 0 {
                continue;
            }
            // One message in fifty takes longer than a term.
            let longest = if self.random.below(50) == 0 { 80 * MS } else { MS };
            let arrival = self.real + MS / 20 + self.random.below(longest);
            self.packets += 1;
            self.flight.insert((arrival, self.packets), (from, to, datagram.to_vec()));
        }
    }
}

fn agent(node: usize, incarnation: Incarnation) -> Agent {
    let node = NodeId::new(node).expect("there are three");
    Agent::new(node, incarnation, AgentParameters { keepers: NODES, ..AgentParameters::default() })
}
