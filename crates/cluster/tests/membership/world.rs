//! A small simulation of hosts, their agents and one membership service: real time in picoseconds, a clock for
//! each of them, and a network that loses, duplicates and delays messages. After every step it checks the
//! invariants.

use std::collections::BTreeMap;

use weft_cluster::{
    Action, Agent, AgentParameters, Durable, Incarnation, Membership, Message, Server, Service,
    ServiceParameters,
};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, EngineStatus, Epoch, NodeId, View};

/// A clock that began at `offset_ps` and gains `ppm` parts per million.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset_ps: u64,
    pub ppm: i64,
}

impl Clock {
    fn read(self, real: u64) -> Instant {
        let gained = i128::from(real) * i128::from(self.ppm) / 1_000_000;
        Instant::from_ps(self.offset_ps + u64::try_from(i128::from(real) + gained).unwrap())
    }

    /// The first real time at which the clock shows `local`.
    fn when(self, local: Instant) -> u64 {
        if local == Instant::FAR_FUTURE {
            return u64::MAX;
        }
        let shown = u128::from(local.as_ps().saturating_sub(self.offset_ps));
        let mut real =
            (shown * 1_000_000 / u128::try_from(1_000_000 + self.ppm).unwrap()).saturating_sub(2) as u64;
        while self.read(real) < local {
            real += 1;
        }
        real
    }
}

/// SplitMix64: one seed determines a whole run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// Faults of the network on messages.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub loss_percent: u64,
    pub duplicate_percent: u64,
    pub delay_min: Duration,
    pub delay_max: Duration,
    /// One message in a hundred takes up to this long.
    pub straggler_max: Duration,
}

pub struct Host {
    pub agent: Option<Agent>,
    pub engine: Option<EngineStatus>,
    /// No message from this host arrives.
    pub mute: bool,
    /// No message arrives at this host.
    pub deaf: bool,
    /// When the engine, if it is joining, will have fetched its data.
    synced_at: u64,
    clock: Clock,
    next_incarnation: Incarnation,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HostName {
    Service,
    Node(usize),
}

pub struct World {
    pub real: u64,
    pub random: Random,
    pub network: Network,
    pub hosts: Vec<Host>,
    pub log: Vec<String>,
    pub server: Option<Server<usize>>,
    pub sync_max: Duration,
    pub unsaved_crash_percent: u64,
    /// The longest time that the service's disk takes.
    pub store_max: Duration,
    /// The snapshot that is being stored, and when the disk says that it is done.
    storing: Option<(u64, Durable)>,
    parameters: ServiceParameters,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<weft_cluster::PlantedBug>,
    service_clock: Clock,
    saved: Option<Durable>,
    flight: BTreeMap<(u64, u64), (HostName, Vec<u8>)>,
    packets: u64,
    views: BTreeMap<Epoch, View>,
    said: BTreeMap<(bool, usize), String>,
}

impl World {
    pub fn new(seed: u64, parameters: ServiceParameters, network: Network, clocks: &[Clock]) -> Self {
        let (service_clock, node_clocks) = clocks.split_first().unwrap();
        let host = |&clock| Host {
            agent: None,
            engine: None,
            mute: false,
            deaf: false,
            synced_at: 0,
            clock,
            next_incarnation: Incarnation::FIRST,
        };
        Self {
            real: 0,
            random: Random(seed),
            network,
            hosts: node_clocks.iter().map(host).collect(),
            log: Vec::new(),
            server: Some(Server::new(Service::new(parameters))),
            sync_max: parameters.lease,
            unsaved_crash_percent: 0,
            store_max: Duration::ZERO,
            storing: None,
            parameters,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            service_clock: *service_clock,
            saved: None,
            flight: BTreeMap::new(),
            packets: 0,
            views: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    pub fn view(&self) -> View {
        self.saved.as_ref().map_or_else(View::default, Durable::view)
    }

    pub fn halted(&self) -> bool {
        self.saved.as_ref().is_some_and(Durable::halted)
    }

    /// Starts the node with an empty engine, if it is not running.
    pub fn start(&mut self, node: usize) {
        if self.hosts[node].agent.is_none() {
            let incarnation = self.hosts[node].next_incarnation;
            self.incarnate(node, incarnation);
        }
    }

    pub fn crash(&mut self, node: usize) {
        self.hosts[node].agent = None;
        self.hosts[node].engine = None;
    }

    pub fn lose_engine(&mut self, node: usize) {
        if let Some(engine) = &mut self.hosts[node].engine {
            engine.state = EngineState::Lost;
        }
    }

    /// What the disk has not stored by then may be lost, or stored nevertheless.
    pub fn crash_service(&mut self) {
        self.server = None;
        if let Some((_, durable)) = self.storing.take()
            && self.random.percent(50)
        {
            self.publish(durable);
        }
    }

    /// Starts the service from its saved state; before its first view there is no saved state.
    pub fn start_service(&mut self) {
        if self.server.is_none() {
            let now = self.service_clock.read(self.real);
            let service = match &self.saved {
                Some(durable) => {
                    let durable = Durable::from_toml(&durable.to_toml()).unwrap();
                    Service::restore(self.parameters, &durable, now).unwrap()
                }
                None => Service::new(self.parameters),
            };
            self.server = Some(self.serving(service));
        }
    }

    #[cfg(feature = "planted-bugs")]
    pub fn with_planted_bug(self, bug: weft_cluster::PlantedBug) -> Self {
        let mut world = Self { planted_bug: Some(bug), ..self };
        world.server = Some(world.serving(Service::new(world.parameters)));
        world
    }

    fn serving(&self, service: Service) -> Server<usize> {
        let server = Server::new(service);
        #[cfg(feature = "planted-bugs")]
        if let Some(bug) = self.planted_bug {
            return server.with_planted_bug(bug);
        }
        server
    }

    /// Whether the lease of a node that runs has not ended on its clock.
    pub fn has_lease(&self, node: usize) -> bool {
        let host = &self.hosts[node];
        host.agent.as_ref().is_some_and(|agent| host.clock.read(self.real) < agent.lease_until())
    }

    /// Runs all events up to `end`, in picoseconds.
    pub fn run_until(&mut self, end: u64) {
        loop {
            let next = self.next_time();
            if next > end {
                self.real = end;
                return;
            }
            self.real = self.real.max(next);
            self.step();
            self.check_leases();
        }
    }

    fn next_time(&self) -> u64 {
        let arrival = self.flight.first_key_value().map_or(u64::MAX, |((time, _), _)| *time);
        let service = self.server.as_ref().map_or(u64::MAX, |it| self.service_clock.when(it.next_deadline()));
        let hosts = self.hosts.iter().map(|host| {
            let agent = host.agent.as_ref().map_or(u64::MAX, |agent| host.clock.when(agent.next_deadline()));
            let is_joining =
                host.engine.is_some_and(|engine| engine.state == EngineState::Joining { synced: false });
            if is_joining { agent.min(host.synced_at) } else { agent }
        });
        let disk = self.storing.as_ref().map_or(u64::MAX, |(at, _)| *at);
        hosts.min().unwrap_or(u64::MAX).min(arrival).min(service).min(disk)
    }

    fn step(&mut self) {
        while let Some(entry) = self.flight.first_entry().filter(|entry| entry.key().0 <= self.real) {
            let (place, bytes) = entry.remove();
            match place {
                HostName::Service => {
                    let from = Message::decode(&bytes).map(|(_, message)| match message {
                        Message::Heartbeat { heartbeat, .. } => heartbeat.node.index(),
                        other => panic!("a service is sent {other}"),
                    });
                    let now = self.service_clock.read(self.real);
                    if let Some(server) = &mut self.server {
                        server.receive(now, from.unwrap(), &bytes).unwrap();
                    }
                    self.serve();
                }
                HostName::Node(node) => {
                    let host = &mut self.hosts[node];
                    if let Some(agent) = &mut host.agent {
                        // The agent refuses datagrams that arrive late or twice, or were meant for an earlier
                        // incarnation.
                        let _ = agent.receive(host.clock.read(self.real), &bytes);
                    }
                    self.attend(node);
                }
            }
        }
        if let Some(server) = &mut self.server {
            server.tick(self.service_clock.read(self.real));
        }
        self.serve();
        for node in 0..self.hosts.len() {
            self.attend(node);
        }
    }

    /// What the service's host does after every call: it begins to store the snapshot, and sends.
    fn serve(&mut self) {
        let Some(server) = &mut self.server else { return };
        // A service may crash before it has stored a view: then no node has received the view, and it never
        // existed.
        if server.service().has_unsaved() && self.random.percent(self.unsaved_crash_percent) {
            return self.crash_service();
        }
        if let Some(durable) = server.take_unsaved() {
            assert!(self.storing.is_none(), "one change at a time");
            let takes = self.random.below(self.store_max.as_ps().max(1));
            self.storing = Some((self.real + takes, durable));
        }
        if let Some((_, durable)) = self.storing.take_if(|(at, _)| *at <= self.real) {
            self.publish(durable);
            self.server.as_mut().expect("it stores").stored(self.service_clock.read(self.real));
        }
        while let Some((node, datagram)) = self.server.as_mut().and_then(Server::poll_transmit) {
            self.send(HostName::Node(node), &datagram);
        }
    }

    fn publish(&mut self, durable: Durable) {
        let before = self.view();
        let view = durable.view();
        if durable.halted() {
            assert_eq!(view, before);
            self.say(format!("cluster halted at {}", view.epoch));
        } else {
            assert_eq!(view.epoch.0, before.epoch.0 + 1, "epochs grow one by one");
            assert!(self.views.insert(view.epoch, view).is_none(), "an epoch has one view");
            self.say(format!("{}: full {:?} joining {:?}", view.epoch, view.full, view.joining));
            assert!(!view.full.is_empty());
            if before.epoch > Epoch(0) {
                self.check_data_holders(&before, &durable);
            }
        }
        self.saved = Some(durable);
        self.check_leases();
    }

    /// A full member was a member with the same incarnation before. So a returning node is joining first, and the
    /// last engine that holds the data is not removed.
    fn check_data_holders(&self, before: &View, durable: &Durable) {
        let saved = self.saved.as_ref().unwrap();
        for node in durable.view().full.iter() {
            let (old, new) = (saved.nodes()[node.index()], durable.nodes()[node.index()]);
            assert!(before.members().contains(node), "{node} becomes full without having joined");
            assert_eq!(old.incarnation, new.incarnation, "{node} becomes full with an empty engine");
        }
    }

    /// Checks, when a view without some node is published and at all other times, that every engine whose lease
    /// has not ended by its own clock is in the newest view, in its own incarnation.
    fn check_leases(&self) {
        let view = self.view();
        for (index, host) in self.hosts.iter().enumerate() {
            let Some(agent) = &host.agent else { continue };
            let known = agent.view();
            if known.epoch > Epoch(0) {
                assert_eq!(
                    self.views.get(&known.epoch),
                    Some(&known),
                    "an agent has a view that was not published"
                );
            }
            // A lost engine serves no requests, whatever lease it has.
            let serves = host.engine.is_some_and(|engine| engine.state != EngineState::Lost);
            if serves && host.clock.read(self.real) < agent.lease_until() {
                assert!(
                    view.members().contains(agent.node()),
                    "node {index} has a lease but is not in {view:?}"
                );
                let registered = self.saved.as_ref().unwrap().nodes()[index].incarnation;
                assert_eq!(registered, Some(agent.incarnation()), "a past life of node {index} has a lease");
            }
        }
    }

    /// What a node's host does after every event.
    fn attend(&mut self, node: usize) {
        loop {
            let catching_up = self.random.below(self.sync_max.as_ps().max(1));
            // A former incarnation of a full member may still be in the view: its successor has no data to copy.
            let epoch = self.hosts[node].engine.map_or(Epoch(0), |engine| engine.epoch);
            let is_source = |host: &Host| {
                host.engine.is_some_and(|engine| engine.state == EngineState::Full && engine.epoch >= epoch)
            };
            let has_source = self.hosts.iter().any(is_source);
            let host = &mut self.hosts[node];
            let now = host.clock.read(self.real);
            let (Some(agent), Some(engine)) = (&mut host.agent, &mut host.engine) else { return };
            if let Some(configuration) = agent.poll_configuration() {
                let view = configuration.view;
                if view.epoch > engine.epoch && engine.state != EngineState::Lost {
                    let is_founder = engine.state == EngineState::Starting && view.epoch == Epoch(1);
                    let is_whole =
                        matches!(engine.state, EngineState::Full | EngineState::Joining { synced: true });
                    engine.epoch = view.epoch;
                    engine.state = if view.full.contains(configuration.node) {
                        assert!(is_founder || is_whole, "node {node} has no data and is full in {view:?}");
                        EngineState::Full
                    } else {
                        host.synced_at = self.real + catching_up;
                        EngineState::Joining { synced: false }
                    };
                }
            }
            if engine.state == (EngineState::Joining { synced: false }) && self.real >= host.synced_at {
                if has_source {
                    engine.state = EngineState::Joining { synced: true };
                } else {
                    host.synced_at = self.real + Duration::from_ms(1).as_ps();
                }
            }
            agent.engine_status(now, *engine);
            match agent.poll_action() {
                Some(Action::Restart { incarnation }) => {
                    self.incarnate(node, incarnation);
                    continue;
                }
                // A late message of the node's former incarnation made the service take that one for alive: start
                // the node again.
                Some(Action::Stop) => {
                    let incarnation = host.next_incarnation;
                    self.incarnate(node, incarnation);
                    continue;
                }
                None => {}
            }
            if let Some(datagram) = agent.poll_transmit(now) {
                self.send(HostName::Service, &datagram);
            }
            return;
        }
    }

    fn incarnate(&mut self, node: usize, incarnation: Incarnation) {
        let host = &mut self.hosts[node];
        host.next_incarnation = incarnation.next();
        host.agent = Some(Agent::new(NodeId::new(node).unwrap(), incarnation, AgentParameters::default()));
        host.engine = Some(EngineStatus::STARTING);
    }

    fn send(&mut self, to: HostName, datagram: &[u8]) {
        let (_, message) = Message::decode(datagram).unwrap();
        let node = match (to, &message) {
            (HostName::Node(node), _) => node,
            (HostName::Service, Message::Heartbeat { heartbeat, .. }) => heartbeat.node.index(),
            (HostName::Service, other) => panic!("an agent sends {other}"),
        };
        // Messages that repeat the previous one are left out, so that the dialogue stays readable.
        let text = message.to_string();
        if self.said.insert((to == HostName::Service, node), text.clone()).as_ref() != Some(&text) {
            self.say(if to == HostName::Service { format!("  -> {text}") } else { format!("  <- {text}") });
        }
        let cut = if to == HostName::Service { self.hosts[node].mute } else { self.hosts[node].deaf };
        let copies = 1 + u64::from(self.random.percent(self.network.duplicate_percent));
        for _ in 0..copies {
            if cut || self.random.percent(self.network.loss_percent) {
                continue;
            }
            let Network { delay_min, delay_max, straggler_max, .. } = self.network;
            let longest = if self.random.percent(1) { straggler_max } else { delay_max };
            let spread = longest.as_ps().saturating_sub(delay_min.as_ps()) + 1;
            let arrival = self.real + delay_min.as_ps() + self.random.below(spread);
            self.packets += 1;
            self.flight.insert((arrival, self.packets), (to, datagram.to_vec()));
        }
    }

    fn say(&mut self, line: String) {
        self.log.push(format!("{:>5} ms {line}", self.real / 1_000_000_000));
    }
}
