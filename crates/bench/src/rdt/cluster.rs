//! A cluster of replicas with their clients, on a simulated network.

use weft_nic::{CardConfig, NoEngine, Peering, RdmaDriver, SoftNic, SoftNicConfig};
use weft_rdma::{
    AccessFlags, PathMtu, ProtectionDomain, QueuePairAttributes, QueuePairNumber, Region, RegionKeys, Target,
};
use weft_rdt::replica::{CommitRule, Replica, ReplicaParameters, Summaries};
use weft_rdt::{MethodSet, Object};
use weft_sim::{
    Commands, CostProfile, Director, EngineOnHost, FaultPlan, HAMBAND_PROCESS, HOST_PROCESS, HostConfig,
    Machine, MachineId, Machines, NetworkProfile, NicMachine, PlanError, World,
};
use weft_smr::log::Wire;
use weft_smr::{Delivery, Wiring};
use weft_time::{Duration, Instant};
use weft_waist::{Engine, EngineState, Memory, engine_address};

use super::books::{Books, Probe, Shared};
use super::host::{ClientHost, Pace, SLOT};
use super::hybrid::Split;
use super::reference::Subject;
use super::system::{Card, Commit, Configuration, System};
use super::workload::Workload;
use crate::node::{DATAGRAM_BYTES, address, clock, hardware, peers};

/// After how long the engine in a process asks its peers again.
const HOST_RETRY: Duration = Duration::from_ms(100);
/// After how long it asks a leader again, who may have been busy with connections.
const HOST_ASK_AGAIN: Duration = Duration::from_us(500);
/// From one heartbeat of a process to the next.
const HOST_PULSE: Duration = Duration::from_us(50);
/// How often a process looks at what has been written into its memory: the core that does looks always, and one look at all of eight
/// nodes takes about so long.
const HOST_POLL: Duration = Duration::from_ns(250);

/// The engine of every node.
pub(super) type NodeEngine = Replica<Probe>;

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub(super) nodes: usize,
    pub(super) system: System,
    pub(super) configuration: Configuration,
    pub(super) commit: Commit,
    /// Whose passages the FPGA cards have.
    pub(super) card: Card,
    pub(super) network: NetworkProfile,
    /// Clocks begin anywhere, and gain or lose up to this, in millionths. Nothing: all are the world's.
    pub(super) drift_ppm: Option<u32>,
    pub(super) workload: Workload,
    pub(super) pace: Pace,
    /// From one heartbeat to the next, on cards; nothing: the engine's default.
    pub(super) heartbeat: Option<Duration>,
    /// Operations of each node.
    pub(super) quota: Vec<u64>,
    /// Whether what a node that crashes has not done is done by the others.
    pub(super) redistribute: bool,
    /// Which keys lie in the host's memory, and what is folded.
    pub(super) split: Option<Split>,
    pub(super) seed: u64,
    pub(super) plan: FaultPlan,
    /// A bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub(super) planted_bug: Option<weft_rdt::replica::PlantedBug>,
}

/// What the on-chip memory of a card holds for an engine beside the object. An Alveo U280 has 2,016 blocks of 36 Kb and 960 of 288 Kb
/// (SafarDB, appendix C.6), 42 MiB; the rest is left to the transport and to the object.
const ON_CHIP_BYTES: usize = 16 << 20;

impl ClusterParameters {
    /// Whether engines are processes beside an RDMA card.
    fn is_on_host(&self) -> bool {
        self.system == System::Hamband
    }

    /// Whether the memory of an engine is on its card's chip: in configuration `rpc`, whose point it is to spare accesses to memory. In
    /// the others it is in HBM.
    fn keeps_on_chip(&self) -> bool {
        !self.is_on_host() && self.configuration == Configuration::Rpc
    }

    /// Whether a chip holds it. Of a split object it has a part only, as much as fits.
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
            // Summaries of many slots do not fit on a chip, rings do: any reducible call may go through the ring.
            parameters.reduce = MethodSet::EMPTY;
        }
        if let Some(period) = self.heartbeat {
            parameters.pulse.period = period;
        }
        if self.is_on_host() {
            // A driver takes more than a millisecond to connect a queue pair, and all of them are connected one after the other: who
            // asks again sooner begins anew each time. And a core has other things to do than to look after hearts.
            parameters.retry = HOST_RETRY;
            parameters.ask_again = HOST_ASK_AGAIN;
            parameters.log.retry = HOST_RETRY;
            parameters.log.patience = HOST_RETRY * 4;
            parameters.pulse.retry = HOST_RETRY;
            parameters.pulse.period = HOST_PULSE;
            parameters.poll = HOST_POLL;
            // While its core looks through all, however long that takes, the card goes on.
            parameters.scan = usize::MAX;
        }
        #[cfg(feature = "planted-bugs")]
        {
            parameters.planted_bug = self.planted_bug;
        }
        parameters
    }
}

/// A node of either placement.
pub(super) enum Node {
    /// Engine and application on the card.
    Card(Box<NicMachine<SoftNic<NodeEngine>, ClientHost>>),
    /// Engine and application in a process beside an RDMA card.
    Host(Box<NicMachine<SoftNic<NoEngine>, EngineOnHost<NodeEngine, ClientHost>>>),
}

impl Node {
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

    fn engine(&self) -> &NodeEngine {
        match self {
            Self::Card(machine) => machine.nic().card().engine(SLOT).0,
            Self::Host(machine) => machine.host().engine(),
        }
    }
}

impl Machine for Node {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.inner_mut().receive(now, frame);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner().next_deadline()
    }

    fn wake(&mut self, now: Instant) {
        self.inner_mut().wake(now);
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        self.inner_mut().poll_frame(frame)
    }
}

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) world: World<Node>,
    pub(super) books: Shared,
    director: NodeBuilder,
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
        // What is folded reaches others in another order than that in which it was called.
        let is_exact = faultless && parameters.split.is_none_or(|split| split.fold == 1);
        let subject = subject.with_summaries(summaries, is_exact);
        let comes_back =
            parameters.plan.faults.iter().any(|fault| matches!(fault, weft_sim::Fault::Restart { .. }));
        // A process may fall so far behind that it needs a copy of the state, without any fault.
        let keep = comes_back || parameters.is_on_host() || !(faultless || parameters.redistribute);
        let books = Books::new(&subject, parameters.nodes, &parameters.quota, keep);
        let director = NodeBuilder::new(parameters.clone(), subject, books.clone());
        let mut world = World::new(parameters.seed, parameters.network.switch());
        for node in 0..parameters.nodes {
            let mut port = parameters.network.port(format!("node{node}"), hardware(node).0);
            if let Some(drift_ppm) = parameters.drift_ppm {
                port.clock = clock(parameters.seed, node, drift_ppm);
            }
            world.add_machine(port, director.build(node, true));
        }
        world.set_plan(&parameters.plan)?;
        Ok(Self { world, books, director })
    }

    /// Lets time pass until all replicas are connected and agree on leaders, shortly before their clients begin. Who makes a connection,
    /// or changes a permission, in a process has a heart that stands still meanwhile: others may take over, which changes
    /// permissions again, and who is not connected when clients begin is left behind.
    pub(super) fn connect(&mut self) {
        let connecting = self.connecting();
        let mut begins_at = connecting;
        loop {
            self.books.borrow_mut().begins_at = Instant::ZERO + begins_at;
            self.run_until(Instant::ZERO + (begins_at - connecting / 10));
            let before = self.changes();
            self.run_until(Instant::ZERO + (begins_at - connecting / 100));
            if self.is_connected() && self.changes() == before {
                return;
            }
            assert!(begins_at < connecting * 100, "replicas do not find each other: {}", self.describe());
            begins_at += connecting;
        }
    }

    /// Whether each replica may write to all others.
    fn is_connected(&self) -> bool {
        let nodes = self.director.parameters.nodes as u64;
        self.sum("connected") - self.sum("failures") >= nodes * (nodes - 1)
    }

    /// How often anything has changed about connections, permissions and leaders.
    fn changes(&self) -> u64 {
        const CHANGES: [&str; 6] =
            ["connected", "failures", "campaigns", "leaderships", "granted", "revoked"];
        let engines = (0..self.director.parameters.nodes).filter_map(|node| self.engine(node));
        let counters = engines.flat_map(NodeEngine::counters);
        counters.filter(|(name, _)| CHANGES.contains(name)).map(|(_, count)| count).sum()
    }

    /// A time in which all connections are made, unless one has to be asked for again.
    pub(super) fn connecting(&self) -> Duration {
        if !self.director.parameters.is_on_host() {
            return Duration::from_us(200);
        }
        // One after the other, and some of them again.
        let each = HOST_PROCESS.connect.duration() + HOST_PROCESS.access.duration();
        each * 3 * self.director.connections.numbers.len() as u64
    }

    /// Lets time pass.
    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.run_until(until);
    }

    /// Lets time pass until `until`.
    pub(super) fn run_until(&mut self, until: Instant) {
        self.world.run_until(until, &mut self.director);
    }

    /// The engine of a node that runs.
    pub(super) fn engine(&self, node: usize) -> Option<&NodeEngine> {
        self.world.machine(MachineId::new(node)).map(Node::engine)
    }

    /// The state of the object at a node that runs and serves.
    pub(super) fn object(&self, node: usize) -> Option<&Object> {
        let engine = self.engine(node)?;
        (engine.status().state == EngineState::Full).then(|| engine.object())
    }

    /// Who leads any group.
    pub(super) fn leads(&self, node: usize) -> bool {
        let groups = self.director.subject.kind().group_count();
        self.engine(node).is_some_and(|engine| (0..groups).any(|group| engine.is_leading(group)))
    }

    /// How far the replicas are, for people who look for a fault.
    pub(super) fn describe(&self) -> String {
        let of = |node| Some(format!("node{node} {}", self.engine(node)?.describe()));
        (0..self.director.parameters.nodes).filter_map(of).collect::<Vec<_>>().join("; ")
    }

    /// The sum of a counter over all nodes that run.
    pub(super) fn sum(&self, name: &str) -> u64 {
        let engines = (0..self.director.parameters.nodes).filter_map(|node| self.engine(node));
        let of = |engine: &NodeEngine| {
            let counters = engine.counters();
            let found = counters.iter().find(|(known, _)| *known == name);
            found.unwrap_or_else(|| panic!("an engine counts {name}")).1
        };
        engines.map(of).sum()
    }

    /// Gives nodes more operations: those that run at most so many each.
    pub(super) fn set_quota(&mut self, quota: u64) {
        for node in &mut self.books.borrow_mut().nodes {
            node.quota = quota;
        }
    }

    /// Lets the clients of all nodes that run read once, so that replicas take in what they have put off.
    pub(super) fn read_everywhere(&mut self) {
        self.act(ClientHost::read);
    }

    /// Lets the clients of all nodes that run look again whether they have something to do.
    pub(super) fn nudge(&mut self) {
        self.act(ClientHost::nudge);
    }

    fn act(&mut self, act: fn(&mut ClientHost, Instant, &mut Commands)) {
        for node in 0..self.director.parameters.nodes {
            let machine = MachineId::new(node);
            if self.world.machine(machine).is_none() {
                continue;
            }
            self.world.with_machine(machine, |node, now| match node {
                Node::Card(machine) => machine.with_host(now, |host, commands| act(host, now, commands)),
                Node::Host(machine) => machine.with_host(now, |process, commands| {
                    process.with_application(now, commands, |host, commands| act(host, now, commands));
                }),
            });
        }
    }
}

/// The queue pairs of a card for its engine: for each purpose and each other node, in order, one for requests of that node and
/// one for those of the other. Every card has the same numbers.
#[derive(Clone, Debug)]
struct Connections {
    nodes: usize,
    purposes: Vec<u8>,
    numbers: Vec<QueuePairNumber>,
}

impl Connections {
    /// The queue pair at `node`, for that purpose (by its index) and towards `other`, on which `node` or the other makes requests.
    fn number(&self, purpose: usize, node: usize, other: usize, own_requests: bool) -> QueuePairNumber {
        let others = self.nodes - 1;
        let place = if other < node { other } else { other - 1 };
        self.numbers[2 * (purpose * others + place) + usize::from(!own_requests)]
    }
}

/// Where a card has the memory of its engine: what verbs must name.
#[derive(Clone, Copy, Debug)]
struct Regions {
    base: u64,
    plain: RegionKeys,
    /// The same, calling the engine.
    calling: RegionKeys,
}

/// Before the regions are registered.
const NO_KEYS: RegionKeys = RegionKeys { lkey: 0, rkey: 0 };

/// Builds nodes, and brings those back, empty, that have crashed.
struct NodeBuilder {
    parameters: ClusterParameters,
    subject: Subject,
    engine: ReplicaParameters,
    books: Shared,
    connections: Connections,
    regions: Regions,
}

impl NodeBuilder {
    fn new(parameters: ClusterParameters, subject: Subject, books: Shared) -> Self {
        let engine = parameters.replica(&subject);
        let mut builder = Self {
            connections: Connections {
                nodes: parameters.nodes,
                purposes: engine.purposes(),
                numbers: Vec::new(),
            },
            regions: Regions { base: 0, plain: NO_KEYS, calling: NO_KEYS },
            parameters,
            subject,
            engine,
            books,
        };
        // All cards are set up alike: the numbers and keys of one are those of every other.
        let mut model: SoftNic<NoEngine> = SoftNic::new(builder.card(0), Vec::new());
        (builder.connections.numbers, builder.regions) = builder.open(&mut model);
        builder
    }

    fn card(&self, node: usize) -> SoftNicConfig {
        let queue_pairs = 2 * (self.parameters.nodes - 1) * self.connections.purposes.len();
        let region_bytes = if self.parameters.is_on_host() { self.engine.memory_bytes() } else { 0 };
        let card = CardConfig {
            peers: peers(self.parameters.nodes),
            datagram_bytes: DATAGRAM_BYTES,
            transport: weft_rdma::Config {
                max_queue_pairs: queue_pairs.max(1),
                max_regions: 8,
                completion_queue_depth: 8_192,
                ..Default::default()
            },
            region_bytes,
        };
        SoftNicConfig { hardware: hardware(node), address: address(node), card }
    }

    /// Creates the queue pairs of a card and registers the engine's memory.
    fn open(&self, driver: &mut impl RdmaDriver) -> (Vec<QueuePairNumber>, Regions) {
        let mut numbers = Vec::new();
        for &purpose in &self.connections.purposes {
            let depth = self.engine.posts_max(purpose) as u32;
            for _ in 0..2 * (self.parameters.nodes - 1) {
                let attributes =
                    QueuePairAttributes { max_send_wr: depth, max_recv_wr: 1, ..Default::default() };
                numbers.push(driver.create_queue_pair(attributes).expect("there is room"));
            }
        }
        // What of it is on chip the memory itself knows.
        let (base, target) = match self.parameters.is_on_host() {
            true => (0, Target::Host),
            false => (engine_address(SLOT, 0), Target::Hbm),
        };
        let mut register = |rpc| {
            let region = Region {
                domain: ProtectionDomain(0),
                address: base,
                length: self.engine.memory_bytes() as u64,
                access: AccessFlags::ALL,
                target,
                write_through: false,
                rpc,
            };
            driver.register_region(region).expect("there is room")
        };
        // A commodity card calls nobody.
        let calls = (!self.parameters.is_on_host()).then_some(SLOT);
        let regions = Regions { base, plain: register(None), calling: register(calls) };
        (numbers, regions)
    }

    /// Whom each queue pair of a node is for.
    fn peerings(&self, node: usize) -> Vec<(QueuePairNumber, Peering)> {
        let connections = &self.connections;
        let mut peerings = Vec::new();
        for purpose in 0..connections.purposes.len() {
            for other in (0..self.parameters.nodes).filter(|other| *other != node) {
                for own_requests in [true, false] {
                    let peering = Peering {
                        destination: address(other),
                        destination_qp_num: connections.number(purpose, other, node, !own_requests),
                        path_mtu: PathMtu::Bytes1024,
                        // 33 us, four times: a peer that says nothing for so long is given up, and connected again.
                        timeout: 3,
                        retry_cnt: 4,
                        max_rd_atomic: 4,
                    };
                    peerings.push((connections.number(purpose, node, other, own_requests), peering));
                }
            }
        }
        peerings
    }

    /// What the engine of a node is told of its connections.
    fn wires(&self, node: usize) -> Vec<Vec<u8>> {
        let (connections, regions) = (&self.connections, &self.regions);
        let mut wires = Vec::new();
        for (purpose, &group) in connections.purposes.iter().enumerate() {
            for peer in (0..self.parameters.nodes).filter(|peer| *peer != node) {
                let wiring = Wiring {
                    request: connections.number(purpose, node, peer, true),
                    respond: connections.number(purpose, node, peer, false),
                    local_address: regions.base,
                    lkey: regions.plain.lkey,
                    remote_address: regions.base,
                    rkey: regions.plain.rkey,
                    call_rkey: regions.calling.rkey,
                    path_mtu: 1_024,
                };
                wires.push(Wire { group, peer, wiring }.encode().to_vec());
            }
        }
        wires
    }

    fn build(&self, node: usize, founder: bool) -> Node {
        let workload = self.parameters.workload.client(node, &self.subject);
        let host = ClientHost::new(
            node,
            self.parameters.nodes,
            founder,
            self.books.clone(),
            self.wires(node),
            workload,
            self.parameters.pace,
        );
        let probe = Probe { node, books: self.books.clone() };
        let engine = Replica::with_witness(self.engine.clone(), probe);
        let others = (0..self.parameters.nodes).filter(|other| *other != node);
        match self.parameters.is_on_host() {
            false => {
                let memory = self.parameters.memory(&self.engine);
                let mut nic = SoftNic::new(self.card(node), vec![(engine, memory)]);
                let opened = self.open(&mut nic);
                assert_eq!(opened.0, self.connections.numbers, "all cards are alike");
                others.for_each(|other| nic.add_neighbour(address(other), hardware(other)));
                for (number, peering) in self.peerings(node) {
                    nic.card_mut().assign(number, SLOT, peering);
                }
                Node::Card(Box::new(NicMachine::new(nic, host, self.parameters.card.profile())))
            }
            true => {
                let mut nic: SoftNic<NoEngine> = SoftNic::new(self.card(node), Vec::new());
                let opened = self.open(&mut nic);
                assert_eq!(opened.0, self.connections.numbers, "all cards are alike");
                let config = HostConfig {
                    hardware: hardware(node),
                    address: address(node),
                    peers: peers(self.parameters.nodes),
                    datagram_bytes: DATAGRAM_BYTES,
                };
                let mut process = EngineOnHost::new(engine, host, config).with_two_cores(&HAMBAND_PROCESS);
                for other in others {
                    nic.add_neighbour(address(other), hardware(other));
                    process.add_neighbour(address(other), hardware(other));
                }
                for (number, peering) in self.peerings(node) {
                    process.assign(number, peering);
                }
                Node::Host(Box::new(NicMachine::new(nic, process, &CostProfile::RDMA_CARD)))
            }
        }
    }
}

impl Director<Node> for NodeBuilder {
    fn may_crash(&mut self, machines: &Machines<Node>, machine: MachineId) -> bool {
        // Memory is lost with a crash: as long as a majority of all nodes has not forgotten anything, nothing is lost.
        let serving = machines
            .iter()
            .filter(|(id, node)| *id != machine && node.engine().status().state == EngineState::Full);
        serving.count() > self.parameters.nodes / 2
    }

    fn crashed(&mut self, machine: MachineId, _: Node) {
        let node = machine.index();
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

    fn restart(&mut self, machine: MachineId, _: u32, _: Instant) -> Node {
        self.build(machine.index(), false)
    }
}
