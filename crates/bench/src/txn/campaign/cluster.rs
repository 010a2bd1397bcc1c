//! A cluster with a membership service, whose nodes crash and restart.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weft_applications::Workload;
use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{
    Builder, Cluster as Nodes, ClusterHost, ClusterShape, MachineOf, NoClients, NodeHost, NodeProgram,
    Planted, SimulatedNode, Views, clock, incarnation, node_id, running, soft_nic,
};
use weft_nic::SoftNic;
use weft_node::{EngineLog, TransactionHalf, transaction_store};
use weft_sim::{
    CostProfile, Director, DiskFault, FaultPlan, HostMeter, HostThreads, MachineDisk, MachineId, Machines,
    NicMachine, PlanError, PortConfig, Stream, SwitchConfig,
};
use weft_time::{Duration, Instant};
use weft_txn::host::{Half, HalfParameters, HalfTables, Local};
use weft_txn::{Parameters, Placement, Transactions};
use weft_verbs::Target;
use weft_waist::{Engine, Memory, NODES_MAX, NodeId, NodeSet, View};

use super::books::{RunRecord, Shared};
use super::host::ClientHalf;
use super::steps::{SLOT, SharedTrigger, StepCrash};
use crate::disks::{DiskRegime, Disks};
use crate::txn::tables::Contents;

/// Maximum clock drift, in parts per million: half of what leases allow for.
const DRIFT_PPM: u32 = 400;
/// Maximum number of outstanding attempts and of requests of peers at a node: small, so that ring buffers
/// wrap around.
const WINDOW: usize = 64;
/// Size of the log in bytes: small, so that it wraps around.
const LOG_BYTES: usize = 1 << 14;
/// Size in bytes of a log that is often full.
const TIGHT_LOG_BYTES: usize = 1 << 13;
/// Interval at which a coordinator that finds such a log full repeats its request. The coordinator times out
/// before hosts make room in the log.
const TIGHT_LOG_REPEAT: Duration = Duration::from_us(10);
const TIGHT_LOG_TICK: Duration = Duration::from_us(2);
/// Number of threads of each host's program.
const THREADS: u32 = 2;

/// Interval of the heartbeats of a node without a lease.
const IDLE_INTERVAL: Duration = Duration::from_us(200);

/// Length of a lease: hundreds of transactions, and short enough that many leases end in a run of a few
/// milliseconds.
pub(super) const LEASE: Duration = Duration::from_us(500);

/// Parameters of a cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub(super) nodes: usize,
    pub(super) replication: usize,
    /// Maximum number of objects that are added to a node in a run.
    pub(super) inserts: u64,
    /// Clients of each node.
    pub(super) lanes: usize,
    /// Maximum pause of clients before the next call.
    pub(super) pause: Duration,
    /// Entries of each card's index.
    pub(super) index_entries: u32,
    /// Whether logs are so small that some records do not fit.
    pub(super) tight_logs: bool,
    /// Whether a transaction may run at another node's primary (multi-hop).
    pub(super) multi_hop: bool,
    /// Which transactions hosts execute themselves (Xenic section 4.2.4).
    pub(super) local: Local,
    pub(super) seed: u64,
    pub(super) plan: FaultPlan,
    /// Whether the nodes have disks.
    pub(super) has_disks: bool,
    #[cfg(feature = "planted-bugs")]
    pub(super) planted_bug: Option<weft_txn::PlantedBug>,
    pub(super) planted: Planted,
}

/// A node.
pub(super) type Node = NicMachine<SoftNic<Transactions>, HostThreads<NodeHost<ClientHalf>>>;

/// The engine of a node.
pub(super) fn engine(node: &Node) -> &Transactions {
    node.nic().card().engine(SLOT).0
}

/// The host half of a node.
pub(super) fn half(node: &Node) -> &Half {
    node.host().node().half(SLOT).half()
}

/// Moves the records of a node's engine to the record of the run.
fn take_records(node: &mut Node, books: &Shared) {
    let engine = node.parts_mut().0.card_mut().engine_mut(SLOT);
    books.borrow_mut().record(engine.take_records());
}

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) machines: Nodes<NodeBuilder>,
    pub(super) books: Shared,
    /// Number of crashes at steps of the protocol, by step.
    pub(super) step_crashes: BTreeMap<&'static str, u64>,
    /// Crashes at steps that are still to come, in reverse order of time.
    to_come: Vec<StepCrash>,
    /// The crash whose trigger is counting messages.
    watching: Option<StepCrash>,
    /// The crash whose message has arrived: time of the crash, node, and crash.
    imminent: Option<(Instant, usize, StepCrash)>,
    /// Crashed nodes that will be restarted, with the times.
    coming_back: Vec<(Instant, usize)>,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(
        parameters: &ClusterParameters,
        workload: Box<dyn Workload>,
        mut steps: Vec<StepCrash>,
    ) -> Result<Self, PlanError> {
        let books = Rc::new(RefCell::new(RunRecord::new(parameters.nodes, workload.audit())));
        let builder = NodeBuilder::new(parameters.clone(), workload, Rc::clone(&books));
        let ClusterParameters { nodes, replication, planted, .. } = *parameters;
        let shape = ClusterShape {
            keepers: 1,
            nodes,
            service: Some(ServiceParameters {
                replicas: replication,
                ..ServiceParameters::new(nodes, LEASE)
            }),
            planted,
            seed: parameters.seed,
            keys: None,
            switch: SwitchConfig::default(),
            plan: parameters.plan.clone(),
        };
        let mut machines = Nodes::new(&shape, builder, [], |index, station| {
            let mut port = PortConfig::new(station.name(), station.hardware().0);
            port.clock = clock(parameters.seed, index, DRIFT_PPM);
            port
        })?;
        let watch = Rc::clone(&machines.director.builder.watch);
        machines.world.add_tap(Box::new(watch));
        steps.reverse();
        Ok(Self {
            machines,
            books,
            step_crashes: BTreeMap::new(),
            to_come: steps,
            watching: None,
            imminent: None,
            coming_back: Vec::new(),
        })
    }

    /// Runs the simulation until `until`.
    pub(super) fn run_until(&mut self, until: Instant) {
        self.step_until(until);
        if self.machines.director.builder.disks.is_some() {
            self.machines.supervise(
                |node| node.host().program().has_ended(),
                |builder, node| builder.disks.as_ref().is_none_or(|disks| disks.is_repaired(node)),
            );
        }
    }

    fn step_until(&mut self, until: Instant) {
        loop {
            self.do_what_is_due();
            if self.machines.world.now() >= until && self.machines.world.next_at().is_none_or(|at| at > until)
            {
                return;
            }
            let next = self.next_due().map_or(until, |at| at.min(until));
            let Nodes { world, director, .. } = &mut self.machines;
            director.builder.now = world.next_at().unwrap_or(next);
            world.step(next, director);
            let fired = director.builder.watch.borrow_mut().take_fired();
            if let (Some(node), Some(crash)) = (fired, self.watching.take_if(|_| fired.is_some())) {
                self.imminent = Some((self.machines.world.now() + crash.delay, node, crash));
            }
        }
    }

    /// Time of the next crash or restart that is not an event of the world.
    fn next_due(&self) -> Option<Instant> {
        let step = self.to_come.last().filter(|_| self.is_free_to_watch()).map(|crash| crash.from);
        let crash = self.imminent.map(|(at, ..)| at);
        let back = self.coming_back.iter().map(|(at, _)| *at).min();
        [step, crash, back].into_iter().flatten().min()
    }

    fn is_free_to_watch(&self) -> bool {
        self.watching.is_none() && self.imminent.is_none()
    }

    fn do_what_is_due(&mut self) {
        let now = self.machines.world.now();
        if let Some((_, node, crash)) = self.imminent.take_if(|(at, ..)| *at <= now) {
            if self.crash(node) {
                *self.step_crashes.entry(crash.step.name).or_insert(0) += 1;
                self.coming_back.push((now + crash.down, node));
            } else {
                // This crash is not allowed now, because too many nodes are down. Watch for its message
                // again.
                self.watch(crash);
            }
        }
        while let Some(place) = self.coming_back.iter().position(|(at, _)| *at <= now) {
            let (_, node) = self.coming_back.swap_remove(place);
            self.restart(node);
        }
        if self.is_free_to_watch()
            && let Some(crash) = self.to_come.pop_if(|crash| crash.from <= now)
        {
            self.watch(crash);
        }
    }

    fn watch(&mut self, crash: StepCrash) {
        self.machines.director.builder.watch.borrow_mut().arm(&crash);
        self.watching = Some(crash);
    }

    /// Stops crashes at steps. Returns the time at which all crashed nodes are restarted.
    pub(super) fn no_more_steps(&mut self) -> Instant {
        self.machines.director.builder.watch.borrow_mut().disarm();
        self.to_come.clear();
        (self.watching, self.imminent) = (None, None);
        self.coming_back.iter().map(|(at, _)| *at).fold(self.machines.world.now(), Instant::max)
    }

    /// Crashes a node, unless too many nodes are down. Returns whether it crashed.
    fn crash(&mut self, node: usize) -> bool {
        let id = MachineId::new(node);
        let Nodes { world, director, .. } = &mut self.machines;
        director.builder.now = world.now();
        director.may_crash(world.machines(), id) && self.crash_anyway(node)
    }

    /// Crashes a node, even if too many nodes are down. Returns whether it crashed.
    pub(super) fn crash_anyway(&mut self, node: usize) -> bool {
        let id = MachineId::new(node);
        let Nodes { world, director, .. } = &mut self.machines;
        world.crash(id).map(|remains| director.crashed(id, remains)).is_some()
    }

    /// Restarts a node, unless it runs.
    pub(super) fn restart(&mut self, node: usize) {
        let id = MachineId::new(node);
        let Nodes { world, director, .. } = &mut self.machines;
        if world.machine(id).is_none() {
            let machine = director.node(node, world.incarnation(id), world.local_now(id));
            world.restart(id, machine);
        }
    }

    pub(super) const fn parameters(&self) -> &ClusterParameters {
        &self.machines.director.builder.parameters
    }

    /// Moves the records of all engines to the record of the run.
    pub(super) fn take_records(&mut self) {
        for node in 0..self.machines.nodes() {
            let books = Rc::clone(&self.books);
            self.machines.world.with_machine(MachineId::new(node), |machine, _| {
                take_records(machine.node_mut().expect("nodes come first"), &books);
            });
        }
    }
}

/// The sizes of a simulated disk, for snapshots as large as those of a node: batches of 128 KiB, and a log of a
/// megabyte, so that snapshots are taken.
fn disk_sizes(real: &weft_store::Parameters) -> weft_store::Parameters {
    weft_store::Parameters::new(32, 256, real.snapshot_sectors)
}

/// Builds nodes, and decides which nodes may crash.
pub struct NodeBuilder {
    parameters: ClusterParameters,
    workload: Box<dyn Workload>,
    engine: Parameters,
    placement: Placement,
    tables: HalfTables,
    disks: Option<Disks>,
    books: Shared,
    watch: SharedTrigger,
    /// The current time of the world.
    now: Instant,
}

impl NodeBuilder {
    fn new(parameters: ClusterParameters, workload: Box<dyn Workload>, books: Shared) -> Self {
        let mut engine = Parameters::new(parameters.nodes, parameters.replication);
        (engine.window, engine.operations, engine.log_bytes) = (WINDOW, WINDOW, LOG_BYTES);
        if parameters.tight_logs {
            engine.log_bytes = TIGHT_LOG_BYTES;
            (engine.repeat, engine.tick) = (TIGHT_LOG_REPEAT, TIGHT_LOG_TICK);
            // Without differences, whole values are logged, which fills the log sooner.
            engine.variant.log_differences = false;
        }
        engine.record = true;
        engine.has_disk = parameters.has_disks;
        engine.variant.multi_hop = parameters.multi_hop;
        #[cfg(feature = "planted-bugs")]
        {
            engine.bug = parameters.planted_bug;
        }
        let contents = Contents::count(&*workload, parameters.nodes, parameters.replication);
        let contents = contents.with_room(parameters.inserts);
        let (mut placement, tables) = contents.on_card(&engine);
        if let Placement::Card { index, .. } = &mut placement {
            index.entries = parameters.index_entries;
        }
        let disks = parameters.has_disks.then(|| {
            let sizes = disk_sizes(&transaction_store(&engine, &tables));
            Disks::new(parameters.nodes, parameters.seed, DiskRegime::OneGoodCopy, sizes)
        });
        Self {
            parameters,
            workload,
            engine,
            placement,
            tables,
            disks,
            books,
            watch: SharedTrigger::default(),
            now: Instant::ZERO,
        }
    }

    /// A node whose process has been started `life` times before. At the first start the node has its initial
    /// objects.
    fn node(&self, node: usize, life: u32) -> Node {
        let Self { parameters, workload, engine: sizes, placement, tables, .. } = self;
        let (log, disk) = self.open(node, life);
        let mut engine = Transactions::new(*sizes, workload.procedures(), *placement);
        let memory = Memory::new(Transactions::memory_bytes(sizes, placement));
        let (procedures, calls, tables) = (workload.procedures(), parameters.lanes, *tables);
        let local = parameters.local;
        let empty = move || {
            let calls = HalfParameters { calls, local, record: true, ..HalfParameters::default() };
            Half::new(procedures.clone(), calls, Some(tables))
        };
        let mut host_memory = vec![0; tables.table_address as usize + tables.table_bytes()];
        let has_data = log.as_ref().is_some_and(EngineLog::has_data);
        let loaded = (life == 0 || has_data).then(|| {
            let mut half = empty();
            for step in 0..parameters.replication {
                let shard = (node + parameters.nodes - step) % parameters.nodes;
                workload.load(shard, &mut |key, value| half.load(&mut host_memory, key, value));
            }
            half.reports(&host_memory).for_each(|report| engine.learn(&report));
            half.room().into_iter().for_each(|room| engine.learn_room(room));
            half
        });
        let meter = HostMeter::new(workload.procedures().names());
        let fresh = incarnation(life);
        let incarnation = log.as_ref().map_or(fresh, EngineLog::incarnation);
        let seed = parameters.seed ^ u64::from(life) << 32;
        // After each restart the node has new clients.
        let lanes = (0..parameters.lanes).map(|lane| life * parameters.lanes as u32 + lane as u32);
        let half = TransactionHalf::new(fresh.get(), loaded, Box::new(empty));
        let half = match log {
            Some(log) => half.with_log(log, node_id(node), sizes, tables),
            None => half,
        };
        let half = ClientHalf::new(
            node_id(node),
            half,
            lanes.map(|lane| workload.client(node, lane, seed)),
            (parameters.pause, Stream::new(seed, "pauses", node as u64)),
            clock(parameters.seed, node, DRIFT_PPM),
            meter.clone(),
            (Rc::clone(&self.books), Rc::clone(&self.watch)),
        );
        let agent = AgentParameters { idle_interval: IDLE_INTERVAL, ..AgentParameters::default() };
        let views = Views::Service(agent, parameters.nodes);
        let host = NodeHost::new(node_id(node), incarnation, views, [half], parameters.planted);
        let host = match disk {
            Some(disk) => host.with_disk(disk),
            None => host,
        };
        let others = (0..parameters.nodes).filter(|other| *other != node).map(ClusterHost::node);
        let place = (node, parameters.nodes);
        let mut nic = soft_nic(place, weft_rdma::Config::default(), vec![(engine, memory)], others, None);
        nic.card_mut().set_meter(Box::new(meter));
        *nic.card_mut().region_memory().bytes_mut(Target::Host) = host_memory;
        NicMachine::new(nic, HostThreads::new(host, THREADS), &CostProfile::CORES)
    }

    /// Opens the log of a node that starts, if the nodes have disks.
    fn open(&self, node: usize, life: u32) -> (Option<EngineLog>, Option<MachineDisk>) {
        let Some(disks) = &self.disks else { return (None, None) };
        let disk = disks.repaired(node_id(node));
        let open =
            EngineLog::of_transactions(disks.sizes(), Box::new(disk.clone()), incarnation(life), || {
                disk.wait()
            });
        let log = open.expect("a disk that works has been made for this store");
        if log.loss().is_some() {
            disk.is_whole_again();
        }
        (Some(log), Some(disk))
    }

    /// Whether each shard of the view has a replica whose data survives: in the memory of a node outside `without`, or
    /// on an undamaged disk outside `lost`.
    fn has_all_shards(
        &self,
        machines: &Machines<MachineOf<Self>>,
        without: NodeSet,
        lost: NodeSet,
        view: &View,
    ) -> bool {
        let Some(disks) = &self.disks else { return false };
        let in_memory: NodeSet = running(machines)
            .filter(|(index, node)| self.is_whole(*index, node, view))
            .map(|(index, _)| node_id(index))
            .filter(|id| !without.contains(*id))
            .collect();
        let is_lost = |id: NodeId| lost.contains(id) || disks.of(id.index()).is_damaged();
        // A node that is behind may be about to leave the view, because the membership service cannot know that the
        // disk of another one is damaged.
        let current: NodeSet = running(machines)
            .filter(|(_, node)| engine(node).status().epoch == view.epoch)
            .map(|(index, _)| node_id(index))
            .collect();
        let is_any_lost = view.full.iter().any(is_lost);
        let on_disk = |id: NodeId| !is_lost(id) && (!is_any_lost || current.contains(id));
        let ClusterParameters { nodes, replication, .. } = self.parameters;
        (0..nodes).all(|shard| {
            let replicas = (0..replication).map(|step| node_id((shard + step) % nodes));
            replicas.filter(|id| view.full.contains(*id)).any(|id| in_memory.contains(id) || on_disk(id))
        })
    }

    /// Whether a node has all shards that it replicates: it has a lease and is full, also in the newest view,
    /// which it may not have received yet.
    fn is_whole(&self, index: usize, node: &Node, view: &View) -> bool {
        let leased = clock(self.parameters.seed, index, DRIFT_PPM).local(self.now) < node.lease_until();
        view.full.contains(node_id(index)) && node.is_full() && leased
    }
}

impl Builder for NodeBuilder {
    type Node = Node;
    type Clients = NoClients;

    fn build(&mut self, node: usize, life: u32, _: Instant) -> Node {
        self.node(node, life)
    }

    /// At most f nodes may be down at a time. A restarted node counts as down until it has all its shards
    /// again.
    fn may_crash(&mut self, machines: &Machines<MachineOf<Self>>, victim: usize, view: &View) -> bool {
        if self.disks.is_some() {
            return self.has_all_shards(machines, NodeSet::EMPTY.with(node_id(victim)), NodeSet::EMPTY, view);
        }
        let whole =
            running(machines).filter(|(index, node)| *index != victim && self.is_whole(*index, node, view));
        let down = self.parameters.nodes - 1 - whole.count();
        down + 1 < self.parameters.replication
    }

    fn crashed(&mut self, node: usize, mut remains: Node) {
        if let Some(disks) = &self.disks {
            disks.of(node).kill_process();
        }
        take_records(&mut remains, &self.books);
        remains.parts_mut().1.program_mut().half_mut(SLOT).die();
    }

    fn may_lose_power(&mut self, machines: &Machines<MachineOf<Self>>, nodes: &[usize], view: &View) -> bool {
        let without = nodes.iter().map(|node| node_id(*node)).collect();
        self.has_all_shards(machines, without, NodeSet::EMPTY, view)
    }

    fn lost_power(&mut self, node: usize, remains: Option<Node>) {
        if let Some(disks) = &self.disks {
            disks.of(node).cut_power();
        }
        if let Some(remains) = remains {
            self.crashed(node, remains);
        }
    }

    fn disk_fault(
        &mut self,
        machines: &Machines<MachineOf<Self>>,
        node: usize,
        fault: DiskFault,
        view: &View,
    ) -> bool {
        let id = NodeSet::EMPTY.with(node_id(node));
        let may_be = match fault {
            // A damaged node may lose its memory at any time.
            _ if fault.is_damage() => self.has_all_shards(machines, NodeSet::first(NODES_MAX), id, view),
            DiskFault::Failing(true) | DiskFault::Full(true) => self.may_crash(machines, node, view),
            _ => true,
        };
        let is_allowed = |disks: &&Disks| may_be && !disks.would_lose_node(node, fault);
        let Some(disks) = self.disks.as_ref().filter(is_allowed) else { return false };
        disks.of(node).inject(fault);
        true
    }
}
