//! A cluster of replicas with their clients, on a simulated network.

use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{
    Builder, Cluster as Nodes, ClusterHost, ClusterShape, DATAGRAM_BYTES, MachineOf, NoClients, NodeHost,
    Planted, SimulatedNode, Views, address, clock, hardware, incarnation, node_id, peers, running,
};
use weft_nic::{CardConfig, NoEngine, SoftNic, SoftNicConfig};
use weft_node::{ConnectionParameters, Connections, EngineMemory, HostIo, Purpose, WiredHalf};
use weft_rdt::replica::{CommitRule, Replica, ReplicaParameters, Summaries};
use weft_rdt::{MethodSet, Object};
use weft_sim::{
    Commands, CostProfile, EngineOnHost, FaultPlan, HAMBAND_PROCESS, HOST_PROCESS, HostConfig, Machine,
    MachineId, Machines, NetworkProfile, NicMachine, PlanError, Wrapper,
};
use weft_smr::Delivery;
use weft_smr::log::Wire;
use weft_time::{Duration, Instant};
use weft_verbs::{PathMtu, Target};
use weft_waist::{Engine, EngineState, Epoch, Memory, View};

use super::books::{Probe, RunRecord, Shared};
use super::host::{ClientHalf, Pace, SLOT};
use super::reference::Subject;
use super::split::Split;
use super::system::{Card, Commit, Configuration, System};
use super::workload::Workload;
use crate::smr::first_view;

/// Interval at which an engine in a process repeats a request to its peers.
const HOST_RETRY: Duration = Duration::from_ms(100);
/// Interval at which an engine in a process repeats a request to a leader, which may have been busy with
/// connections.
const HOST_ASK_AGAIN: Duration = Duration::from_us(500);
/// Period of the heartbeats of a process.
const HOST_PULSE: Duration = Duration::from_us(50);
/// Interval at which a process polls its memory. A core polls all the time, and one pass over the memory of
/// eight nodes takes about this long.
const HOST_POLL: Duration = Duration::from_ns(250);

/// The engine of every node.
pub type NodeEngine = Replica<Probe>;

/// Parameters of a cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub(super) nodes: usize,
    pub(super) system: System,
    pub(super) configuration: Configuration,
    pub(super) commit: Commit,
    /// The cost profile of FPGA cards.
    pub(super) card: Card,
    pub(super) network: NetworkProfile,
    /// Maximum clock drift in parts per million, with random offsets; `None`: all clocks show the world's
    /// time.
    pub(super) drift_ppm: Option<u32>,
    pub(super) workload: Workload,
    pub(super) pace: Pace,
    /// Period of heartbeats on cards; `None`: the engine's default.
    pub(super) heartbeat: Option<Duration>,
    /// Operations of each node.
    pub(super) quota: Vec<u64>,
    /// Whether the other nodes take over the remaining operations of a crashed node.
    pub(super) redistribute: bool,
    /// Parameters of the membership service and of the nodes' heartbeats; without them the first view is
    /// fixed.
    pub(super) service: Option<(ServiceParameters, AgentParameters)>,
    /// Bug planted in the node's program or in the membership service.
    pub(super) planted: Planted,
    /// Keys in the host's memory, and folding of calls.
    pub(super) split: Option<Split>,
    pub(super) seed: u64,
    pub(super) plan: FaultPlan,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub(super) planted_bug: Option<weft_rdt::replica::PlantedBug>,
}

/// Bytes of a card's on-chip memory for an engine, without the object. An Alveo U280 has 2,016 blocks of 36
/// Kb and 960 of 288 Kb (SafarDB, appendix C.6), together 42 MiB. The transport and the object need the rest.
const ON_CHIP_BYTES: usize = 16 << 20;

impl ClusterParameters {
    /// Whether engines are processes beside an RDMA card.
    fn is_on_host(&self) -> bool {
        self.system == System::Hamband
    }

    /// Whether the memory of an engine is on the chip of its card. It is in configuration `rpc`, whose
    /// purpose is to avoid accesses to HBM.
    fn keeps_on_chip(&self) -> bool {
        !self.is_on_host() && self.configuration == Configuration::Rpc
    }

    /// Whether the engine's memory fits on the chip. Of a split object, only the part that fits is on the
    /// chip.
    fn fits_on_chip(&self, engine: &ReplicaParameters) -> bool {
        self.split.is_some() || engine.memory_bytes() - engine.snapshot_area().len() <= ON_CHIP_BYTES
    }

    /// The memory of an engine on a card.
    fn memory(&self, engine: &ReplicaParameters) -> Memory {
        let bytes = engine.memory_bytes();
        match self.keeps_on_chip() && self.fits_on_chip(engine) {
            true => Memory::on_chip_except(bytes, engine.snapshot_area()),
            false => Memory::new(bytes),
        }
    }

    /// The engines' parameters.
    pub(super) fn replica(&self, subject: &Subject) -> ReplicaParameters {
        let mut parameters = ReplicaParameters::new(subject.kind().clone(), self.nodes);
        if let Some(split) = self.split {
            parameters.fold = split.fold;
            parameters.on_host = split.on_host(subject);
        }
        let (summaries, delivery) = match self.configuration {
            Configuration::Write => (Summaries::Unbuffered, Delivery::Polling),
            Configuration::Buffered => (Summaries::Buffered, Delivery::Polling),
            Configuration::Rpc => (Summaries::Rpc, Delivery::WriteThrough),
        };
        parameters.summaries = summaries;
        parameters.entries = delivery;
        parameters.log.delivery = delivery;
        parameters.commit = match self.commit {
            Commit::Majority => CommitRule::Majority,
            Commit::Local => CommitRule::Local,
        };
        if self.keeps_on_chip() && !self.fits_on_chip(&parameters) {
            // Summaries with many slots do not fit in on-chip memory, but the rings do. Reducible calls may
            // always take the ring, so here all of them do.
            parameters.reduce = MethodSet::EMPTY;
        }
        if let Some(period) = self.heartbeat {
            parameters.pulse.period = period;
        }
        if self.is_on_host() {
            // A driver takes more than a millisecond to connect a queue pair, and connects one after the
            // other. A request that is repeated sooner would restart the connection each time. Heartbeats of
            // a process are less frequent, because its core has other work.
            parameters.retry = HOST_RETRY;
            parameters.ask_again = HOST_ASK_AGAIN;
            parameters.log.retry = HOST_RETRY;
            parameters.log.patience = HOST_RETRY * 4;
            parameters.pulse.retry = HOST_RETRY;
            parameters.pulse.period = HOST_PULSE;
            parameters.poll = HOST_POLL;
            // A poll reads the whole memory; the card handles requests meanwhile.
            parameters.scan = usize::MAX;
        }
        #[cfg(feature = "planted-bugs")]
        {
            parameters.planted_bug = self.planted_bug;
        }
        parameters
    }
}

/// The engine and its application as a process.
type Process = EngineOnHost<NodeEngine, NodeHost<ClientHalf>>;

/// A node of one of the two placements.
pub enum Node {
    /// Engine and application on the card.
    Card(Box<NicMachine<SoftNic<NodeEngine>, NodeHost<ClientHalf>>>),
    /// Engine and application in a process beside an RDMA card.
    Host(Box<NicMachine<SoftNic<NoEngine>, Process>>),
}

impl Wrapper for Node {
    fn inner(&self) -> &dyn Machine {
        match self {
            Self::Card(machine) => &**machine,
            Self::Host(machine) => &**machine,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Machine {
        match self {
            Self::Card(machine) => &mut **machine,
            Self::Host(machine) => &mut **machine,
        }
    }
}

impl Node {
    fn engine(&self) -> &NodeEngine {
        match self {
            Self::Card(machine) => machine.nic().card().engine(SLOT).0,
            Self::Host(machine) => machine.host().engine(),
        }
    }
}

impl SimulatedNode for Node {
    fn is_full(&self) -> bool {
        self.engine().status().state == EngineState::Full
    }

    /// Replicas do not rely on leases.
    fn is_full_in(&self, _: Epoch) -> bool {
        self.is_full()
    }

    fn lease_until(&self) -> Instant {
        Instant::FAR_FUTURE
    }

    fn describe(&self) -> String {
        self.engine().describe()
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.engine().counters().into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) machines: Nodes<Replicas>,
    pub(super) books: Shared,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        assert!(!parameters.system.is_ordered(), "{} has no replicas of this kind", parameters.system);
        let subject = parameters.workload.subject();
        let engine = parameters.replica(&subject);
        let methods = 0..subject.kind().method_count();
        let summaries = methods.filter(|&method| engine.is_summarized(method)).collect();
        let faultless = parameters.plan.faults.is_empty();
        // Replicas receive folded calls in another order than that of the calls.
        let is_exact = faultless && parameters.split.is_none_or(|split| split.fold == 1);
        let subject = subject.with_summaries(summaries, is_exact);
        let only_crashes =
            parameters.plan.faults.iter().all(|fault| matches!(fault, weft_sim::Fault::Crash { .. }));
        // A process may fall behind so far that it needs a copy of the state, even without a fault.
        let keep = parameters.is_on_host() || !only_crashes || !(faultless || parameters.redistribute);
        let books = RunRecord::new(&subject, parameters.nodes, &parameters.quota, keep);
        let shape = ClusterShape {
            keepers: 1,
            nodes: parameters.nodes,
            service: parameters.service.map(|(service, _)| service),
            planted: parameters.planted,
            seed: parameters.seed,
            keys: None,
            switch: parameters.network.switch(),
            plan: parameters.plan.clone(),
        };
        let replicas = Replicas::new(parameters.clone(), subject, books.clone());
        let machines = Nodes::new(&shape, replicas, [], |index, station| {
            let mut port = parameters.network.port(station.name(), station.hardware().0);
            if let Some(drift_ppm) = parameters.drift_ppm {
                port.clock = clock(parameters.seed, index, drift_ppm);
            }
            port
        })?;
        Ok(Self { machines, books })
    }

    pub(super) fn parameters(&self) -> &ClusterParameters {
        &self.machines.director.builder.parameters
    }

    /// Runs until all replicas are connected and agree on leaders, shortly before their clients begin. A
    /// process sends no heartbeats while it makes a connection or changes a permission, so other replicas may
    /// suspect it and take over, which changes permissions again. A replica that is not connected when
    /// clients begin would fall behind.
    pub(super) fn connect(&mut self) {
        let connecting = self.connecting();
        let mut begins_at = connecting;
        loop {
            self.books.borrow_mut().begins_at = Instant::ZERO + begins_at;
            self.machines.run_until(Instant::ZERO + (begins_at - connecting / 10));
            let before = self.changes();
            self.machines.run_until(Instant::ZERO + (begins_at - connecting / 100));
            if self.is_connected() && self.changes() == before {
                return;
            }
            assert!(
                begins_at < connecting * 100,
                "replicas do not find each other: {}",
                self.machines.describe()
            );
            begins_at += connecting;
        }
    }

    /// Whether each replica is connected to all others.
    fn is_connected(&self) -> bool {
        let nodes = self.machines.nodes() as u64;
        self.machines.sum("connected") - self.machines.sum("failures") >= nodes * (nodes - 1)
    }

    /// Number of changes of connections, permissions and leaders.
    fn changes(&self) -> u64 {
        const CHANGES: [&str; 6] =
            ["connected", "failures", "campaigns", "leaderships", "granted", "revoked"];
        let engines = (0..self.machines.nodes()).filter_map(|node| self.engine(node));
        let counters = engines.flat_map(NodeEngine::counters);
        counters.filter(|(name, _)| CHANGES.contains(name)).map(|(_, count)| count).sum()
    }

    /// Time that suffices to make all connections, if no request has to be repeated.
    pub(super) fn connecting(&self) -> Duration {
        if !self.parameters().is_on_host() {
            return Duration::from_us(200);
        }
        // A host connects its queue pairs one after the other. The factor of three allows for repeated
        // attempts.
        let each = HOST_PROCESS.connect.duration() + HOST_PROCESS.access.duration();
        each * 3 * self.machines.director.builder.queue_pairs() as u64
    }

    /// The engine of a node that runs.
    pub(super) fn engine(&self, node: usize) -> Option<&NodeEngine> {
        self.machines.node(node).map(Node::engine)
    }

    /// The state of the object at a node that runs and serves.
    pub(super) fn object(&self, node: usize) -> Option<&Object> {
        let engine = self.engine(node)?;
        (engine.status().state == EngineState::Full).then(|| engine.object())
    }

    /// Whether a node leads a group.
    pub(super) fn leads(&self, node: usize) -> bool {
        let groups = self.machines.director.builder.subject.kind().group_count();
        self.engine(node).is_some_and(|engine| (0..groups).any(|group| engine.is_leading(group)))
    }

    /// Sets the number of operations that each node still has to begin.
    pub(super) fn set_quota(&mut self, quota: u64) {
        for node in &mut self.books.borrow_mut().nodes {
            node.quota = quota;
        }
    }

    /// Makes the clients of all running nodes read once, so that replicas apply delayed effects.
    pub(super) fn read_everywhere(&mut self) {
        self.act(ClientHalf::read);
    }

    /// Makes the clients of all running nodes check for new operations.
    pub(super) fn nudge(&mut self) {
        self.act(ClientHalf::nudge);
    }

    fn act(&mut self, act: fn(&mut ClientHalf, Instant, &mut HostIo<'_>)) {
        for node in 0..self.machines.nodes() {
            if self.machines.node(node).is_none() {
                continue;
            }
            self.machines.world.with_machine(MachineId::new(node), |machine, now| {
                let act = |host: &mut NodeHost<ClientHalf>, commands: &mut Commands| {
                    host.act(SLOT, commands, |half, io| act(half, now, io));
                };
                match machine.node_mut() {
                    Some(Node::Card(machine)) => machine.with_host(now, act),
                    Some(Node::Host(machine)) => machine.with_host(now, |process, commands| {
                        process.with_application(now, commands, act);
                    }),
                    None => unreachable!("nodes come first"),
                }
            });
        }
    }
}

/// Parameters of the queue pairs: a time-out of 33 us and four retries. A peer that does not acknowledge
/// within that time is disconnected and connected again.
const TERMS: ConnectionParameters =
    ConnectionParameters { path_mtu: PathMtu::Bytes1024, timeout: 3, retry_cnt: 4, max_rd_atomic: 4 };

/// The replicas of a cluster.
pub struct Replicas {
    parameters: ClusterParameters,
    subject: Subject,
    engine: ReplicaParameters,
    purposes: Vec<Purpose>,
    books: Shared,
}

impl Replicas {
    fn new(parameters: ClusterParameters, subject: Subject, books: Shared) -> Self {
        let engine = parameters.replica(&subject);
        Self { purposes: Purpose::of_object(&engine), parameters, subject, engine, books }
    }

    /// Queue pairs of a card.
    fn queue_pairs(&self) -> usize {
        Connections::queue_pairs(self.parameters.nodes, self.purposes.len())
    }

    fn card(&self, node: usize) -> SoftNicConfig {
        let region_bytes = if self.parameters.is_on_host() { self.engine.memory_bytes() } else { 0 };
        let card = CardConfig {
            peers: peers(self.parameters.nodes),
            datagram_bytes: DATAGRAM_BYTES,
            transport: weft_rdma::Config {
                max_queue_pairs: self.queue_pairs().max(1),
                max_regions: 8,
                completion_queue_depth: 8_192,
                ..Default::default()
            },
            region_bytes,
        };
        SoftNicConfig { hardware: hardware(node), address: address(node), card }
    }

    /// Source of a node's views. Without a membership service the node founds the cluster, or joins it after
    /// a restart with an epoch that no node has used.
    fn views(&self, node: usize, life: u32) -> Views {
        let nodes = self.parameters.nodes;
        match (&self.parameters.service, life) {
            (Some((_, agent)), _) => Views::Service(*agent, nodes),
            (None, 0) => Views::Fixed(first_view(nodes)),
            (None, _) => Views::Fixed(self.books.borrow_mut().joining_view(node, nodes)),
        }
    }

    fn host(&self, node: usize, life: u32, wires: Vec<Wire>) -> NodeHost<ClientHalf> {
        let workload = self.parameters.workload.client(node, &self.subject);
        let half = ClientHalf::new(
            (node, self.parameters.nodes),
            self.books.clone(),
            // With a membership service, the shipped program handles the loss of state.
            (WiredHalf::new(wires, None), self.parameters.service.is_none()),
            workload,
            self.parameters.pace,
        );
        let views = self.views(node, life);
        NodeHost::new(node_id(node), incarnation(life), views, [half], self.parameters.planted)
    }
}

impl Builder for Replicas {
    type Node = Node;
    type Clients = NoClients;

    fn build(&mut self, node: usize, life: u32, _: Instant) -> Node {
        let nodes = self.parameters.nodes;
        let probe = Probe { node, books: self.books.clone() };
        let engine = Replica::with_observer(self.engine.clone(), probe);
        let others =
            (0..nodes).filter(|other| *other != node).map(ClusterHost::node).chain([ClusterHost::Membership]);
        if !self.parameters.is_on_host() {
            let memory = self.parameters.memory(&self.engine);
            let place = (SLOT, self.engine.memory_bytes());
            let mut nic = SoftNic::new(self.card(node), vec![(engine, memory)]);
            let wires =
                Connections::wire(nic.card_mut(), place, (node, nodes), &self.purposes, TERMS, address)
                    .expect("there is room for queue pairs");
            others.for_each(|other| nic.add_neighbour(other.address(), other.hardware()));
            let host = self.host(node, life, wires);
            return Node::Card(Box::new(NicMachine::new(nic, host, self.parameters.card.profile())));
        }
        let mut nic: SoftNic<NoEngine> = SoftNic::new(self.card(node), Vec::new());
        // A commodity card does not call the engine when a WRITE arrives.
        let bytes = self.engine.memory_bytes() as u64;
        let memory = EngineMemory { target: Target::Host, address: 0, bytes, calls: None };
        let connections = Connections::open(&mut nic, nodes, &self.purposes, memory)
            .expect("there is room for queue pairs");
        let config = HostConfig {
            hardware: hardware(node),
            address: address(node),
            peers: peers(nodes),
            datagram_bytes: DATAGRAM_BYTES,
        };
        let host = self.host(node, life, connections.wires(node, TERMS));
        let mut process = EngineOnHost::new(engine, host, config).with_two_cores(&HAMBAND_PROCESS);
        for other in others {
            nic.add_neighbour(other.address(), other.hardware());
            process.add_neighbour(other.address(), other.hardware());
        }
        for (number, peering) in connections.peerings(node, TERMS, address) {
            process.assign(number, peering);
        }
        Node::Host(Box::new(NicMachine::new(nic, process, &CostProfile::RDMA_CARD)))
    }

    fn may_crash(&mut self, machines: &Machines<MachineOf<Self>>, victim: usize, _: &View) -> bool {
        // A node that crashes loses its memory, so a majority of all nodes must keep theirs.
        let serving = running(machines).filter(|(node, machine)| {
            *node != victim && machine.engine().status().state == EngineState::Full
        });
        serving.count() > self.parameters.nodes / 2
    }

    fn crashed(&mut self, node: usize, _: Node) {
        let mut books = self.books.borrow_mut();
        books.stopped(node);
        if self.parameters.redistribute {
            let left = std::mem::take(&mut books.nodes[node].quota);
            books.nodes[node].is_done = true;
            let running =
                books.nodes.iter_mut().enumerate().filter(|(other, books)| *other != node && books.lives > 0);
            let others = (self.parameters.nodes - 1) as u64;
            for (place, (_, other)) in running.enumerate() {
                other.quota += left / others + u64::from((place as u64) < left % others);
            }
        }
    }
}
