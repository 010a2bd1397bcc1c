//! Simulated clusters: nodes that a campaign of their engine builds, the membership service, and client machines.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weft_cluster::{KeeperParameters, Phase, ServiceParameters};
use weft_sim::{
    Director, DiskFault, FaultPlan, Machine, MachineId, Machines, PlanError, PortConfig, SwitchConfig, World,
    Wrapper,
};
use weft_time::{Duration, Instant};
use weft_waist::{Epoch, NODES_MAX, View};

use crate::keepers::{CoordinatorMachine, KeeperMachine};
use crate::station::{COORDINATORS, node_id};
use crate::{
    ClusterHost, KeyHolder, MembershipMachine, Planted, SealedClients, SharedDisk, SharedKeys, Watch,
    add_counts,
};

/// Interval at which a supervisor checks whether the program of a node has ended.
const SUPERVISION: Duration = Duration::from_us(100);

/// Builds the nodes of a cluster, and tells which crashes the cluster tolerates.
pub trait Builder {
    /// A node: its card and its host.
    type Node: Machine;
    /// A machine that clients run on; [`NoClients`] if they are on the nodes' hosts.
    type Clients: Machine;

    /// A node with empty memory. `life` counts the starts of its process, from 0; `now` is the time on its
    /// clock.
    fn build(&mut self, node: usize, life: u32, now: Instant) -> Self::Node;

    /// Whether a node may crash now without breaking a guarantee of the cluster. `view` is the newest view,
    /// if there is a membership service.
    fn may_crash(&mut self, machines: &Machines<MachineOf<Self>>, victim: usize, view: &View) -> bool;

    /// Called when a node has crashed. `remains` is its state before the crash, for statistics only.
    fn crashed(&mut self, node: usize, remains: Self::Node) {
        let _ = (node, remains);
    }

    /// Whether these nodes may lose power together now.
    fn may_lose_power(&mut self, machines: &Machines<MachineOf<Self>>, nodes: &[usize], view: &View) -> bool {
        nodes.iter().all(|&node| self.may_crash(machines, node, view))
    }

    /// Called when a node has lost power. `remains` is its state before, or `None` if it was down.
    fn lost_power(&mut self, node: usize, remains: Option<Self::Node>) {
        if let Some(remains) = remains {
            self.crashed(node, remains);
        }
    }

    /// Whether this fault may be injected into the disk of a node. False if the node has no disk.
    fn disk_fault(
        &mut self,
        machines: &Machines<MachineOf<Self>>,
        node: usize,
        fault: DiskFault,
        view: &View,
    ) -> bool {
        let _ = (machines, node, fault, view);
        false
    }
}

/// What campaigns ask of a node.
pub trait SimulatedNode: Machine {
    /// Whether the node holds all data, and serves while its lease lasts.
    fn is_full(&self) -> bool;

    /// Whether the node is full in this epoch.
    fn is_full_in(&self, epoch: Epoch) -> bool;

    /// End of the node's lease, on the node's clock.
    fn lease_until(&self) -> Instant;

    /// State of the node as text, for error messages.
    fn describe(&self) -> String;

    /// Counters of the node, by name.
    fn counters(&self) -> Vec<(String, u64)>;
}

/// A machine of a cluster with this builder.
pub type MachineOf<B> = ClusterMachine<<B as Builder>::Node, <B as Builder>::Clients>;

/// Stands for the type of client machines in clusters whose clients run on the nodes' hosts.
#[derive(Clone, Copy, Debug)]
pub enum NoClients {}

impl Machine for NoClients {
    fn receive(&mut self, _: Instant, _: &[u8]) {
        match *self {}
    }

    fn next_deadline(&self) -> Option<Instant> {
        match *self {}
    }

    fn wake(&mut self, _: Instant) {
        match *self {}
    }

    fn poll_frame(&mut self, _: &mut Vec<u8>) -> Option<Instant> {
        match *self {}
    }
}

/// One machine of a cluster.
pub enum ClusterMachine<N, C> {
    /// A node.
    Node(Box<N>),
    /// The membership service, if it is one process.
    Membership(Box<MembershipMachine>),
    /// A keeper of the membership service.
    Keeper(Box<KeeperMachine>),
    /// A coordinator of the keepers' register.
    Coordinator(Box<CoordinatorMachine>),
    /// Clients.
    Clients(Box<SealedClients<C>>),
}

impl<N, C> ClusterMachine<N, C> {
    /// The node, if this machine is a node.
    pub fn node(&self) -> Option<&N> {
        if let Self::Node(machine) = self { Some(machine) } else { None }
    }

    /// Mutable access to the node, if this machine is a node.
    pub fn node_mut(&mut self) -> Option<&mut N> {
        if let Self::Node(machine) = self { Some(machine) } else { None }
    }

    /// The clients, if this machine runs them.
    pub fn clients(&self) -> Option<&C> {
        if let Self::Clients(sealed) = self { Some(&sealed.machine) } else { None }
    }

    /// Mutable access to the clients, if this machine runs them.
    pub fn clients_mut(&mut self) -> Option<&mut C> {
        if let Self::Clients(sealed) = self { Some(&mut sealed.machine) } else { None }
    }
}

impl<N: Machine, C: Machine> Wrapper for ClusterMachine<N, C> {
    fn inner(&self) -> &dyn Machine {
        match self {
            Self::Node(machine) => &**machine,
            Self::Membership(machine) => &**machine,
            Self::Keeper(machine) => &**machine,
            Self::Coordinator(machine) => &**machine,
            Self::Clients(machine) => &**machine,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Machine {
        match self {
            Self::Node(machine) => &mut **machine,
            Self::Membership(machine) => &mut **machine,
            Self::Keeper(machine) => &mut **machine,
            Self::Coordinator(machine) => &mut **machine,
            Self::Clients(machine) => &mut **machine,
        }
    }
}

/// The running nodes, with their numbers.
pub fn running<N: Machine, C: Machine>(
    machines: &Machines<ClusterMachine<N, C>>,
) -> impl Iterator<Item = (usize, &N)> {
    machines.iter().filter_map(|(id, machine)| Some((id.index(), machine.node()?)))
}

/// Parameters of a cluster, without those for building its nodes.
#[derive(Clone)]
pub struct ClusterShape {
    /// Nodes, 1 to 16.
    pub nodes: usize,
    /// The membership service; without one the nodes have fixed views.
    pub service: Option<ServiceParameters>,
    /// Number of keepers of the membership service, which store its state in a register on three coordinators; 1 if
    /// it is one process with a disk.
    pub keepers: usize,
    /// The bug that is planted around the engines, if any.
    pub planted: Planted,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// The keys of all machines, if their frames are sealed.
    pub keys: Option<SharedKeys>,
    /// The network between the machines.
    pub switch: SwitchConfig,
    /// Faults of the run.
    pub plan: FaultPlan,
}

/// A cluster in a simulated world: first the nodes, then the membership service with its coordinators, then the
/// clients.
pub struct Cluster<B: Builder> {
    /// The simulated world, for observers and for injected events.
    pub world: World<MachineOf<B>>,
    /// Makes the nodes.
    pub director: ClusterDirector<B>,
    /// The observer of sealed frames, if frames are sealed.
    pub watch: Option<Rc<RefCell<Watch>>>,
}

impl<B: Builder> Cluster<B> {
    /// A cluster at time zero. `port` gives the switch port of a machine by its index.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn new(
        shape: &ClusterShape,
        builder: B,
        clients: impl IntoIterator<Item = B::Clients>,
        port: impl Fn(usize, ClusterHost) -> PortConfig,
    ) -> Result<Self, PlanError> {
        assert!((1..=NODES_MAX).contains(&shape.nodes), "a cluster has 1 to 16 nodes");
        let mut director = ClusterDirector {
            builder,
            nodes: shape.nodes,
            service: shape.service,
            keepers: shape.keepers,
            disk: SharedDisk::default(),
            planted: shape.planted,
            keys: shape.keys.clone(),
            stopped: Vec::new(),
        };
        let mut world = World::new(shape.seed, shape.switch);
        for node in 0..shape.nodes {
            let machine = director.builder.build(node, 0, Instant::ZERO);
            world.add_machine(port(node, ClusterHost::node(node)), ClusterMachine::Node(Box::new(machine)));
        }
        assert!(shape.keepers == 1 || shape.keys.is_none(), "keepers distribute no keys");
        for station in director.membership_stations() {
            let index = world.machines().len();
            let machine = director.membership(station, index, 0, Instant::ZERO);
            world.add_machine(port(index, station), machine);
        }
        for (index, machine) in (0..).zip(clients) {
            let station = ClusterHost::Clients(index);
            let holder = shape.keys.as_ref().map(|keys| KeyHolder::new(keys, station));
            let sealed = SealedClients::new(machine, holder);
            let port = port(world.machines().len(), station);
            world.add_machine(port, ClusterMachine::Clients(Box::new(sealed)));
        }
        world.set_plan(&shape.plan)?;
        let watch = shape.keys.as_ref().map(|keys| Rc::new(RefCell::new(Watch::new(keys))));
        if let Some(watch) = &watch {
            world.add_tap(Box::new(Rc::clone(watch)));
        }
        Ok(Self { world, director, watch })
    }

    /// The time of the world.
    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// Runs the simulation for this time.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now() + time);
    }

    /// Runs the simulation until `until`.
    pub fn run_until(&mut self, until: Instant) {
        self.world.run_until(until, &mut self.director);
    }

    /// Runs until `until` and acts as an operator: a node whose program has ended is restarted as soon as
    /// `is_repaired` holds for it.
    pub fn supervise_until(
        &mut self,
        until: Instant,
        has_ended: impl Fn(&B::Node) -> bool,
        is_repaired: impl Fn(&B, usize) -> bool,
    ) {
        while self.world.now() < until {
            self.run_until((self.world.now() + SUPERVISION).min(until));
            self.supervise(&has_ended, &is_repaired);
        }
    }

    /// Does once what [`Cluster::supervise_until`] does while it runs.
    pub fn supervise(
        &mut self,
        has_ended: impl Fn(&B::Node) -> bool,
        is_repaired: impl Fn(&B, usize) -> bool,
    ) {
        let ended: Vec<usize> =
            self.running().filter(|(_, node)| has_ended(node)).map(|(index, _)| index).collect();
        for node in ended {
            if let Some(ClusterMachine::Node(remains)) = self.world.stop(MachineId::new(node)) {
                self.director.builder.crashed(node, *remains);
                self.director.stopped.push(node);
            }
        }
        let stopped = std::mem::take(&mut self.director.stopped);
        for node in stopped {
            if is_repaired(&self.director.builder, node) {
                self.world.start_again(MachineId::new(node), &mut self.director);
            } else {
                self.director.stopped.push(node);
            }
        }
    }

    /// Number of nodes, running or not.
    pub const fn nodes(&self) -> usize {
        self.director.nodes
    }

    /// A node, if it runs.
    pub fn node(&self, node: usize) -> Option<&B::Node> {
        self.world.machine(MachineId::new(node))?.node()
    }

    /// The running nodes, with their numbers.
    pub fn running(&self) -> impl Iterator<Item = (usize, &B::Node)> {
        running(self.world.machines())
    }

    /// The machines of the clients.
    pub fn client_machines(&self) -> impl Iterator<Item = MachineId> + use<B> {
        let first = self.nodes() + self.director.membership_stations().len();
        (first..self.world.machines().len()).map(MachineId::new)
    }

    /// The clients.
    pub fn clients(&self) -> impl Iterator<Item = &B::Clients> {
        self.client_machines().filter_map(|id| self.world.machine(id)?.clients())
    }

    /// Time on a node's clock.
    pub fn local_now(&self, node: usize) -> Instant {
        self.world.local_now(MachineId::new(node))
    }

    /// Phase of the membership service, unless it is down.
    pub fn phase(&self) -> Option<Phase> {
        self.membership_ids().find_map(|id| match self.world.machine(id)? {
            ClusterMachine::Membership(machine) => Some(machine.phase()),
            ClusterMachine::Keeper(machine) => machine.phase(self.world.local_now(id)),
            _ => None,
        })
    }

    /// The machines of the membership service.
    fn membership_ids(&self) -> impl Iterator<Item = MachineId> + use<B> {
        (self.nodes()..).map(MachineId::new).take(self.director.membership_stations().len())
    }

    /// What shows that more than one keeper holds the membership service, if anything does.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let holds = |id: &MachineId| match self.world.machine(*id) {
            Some(ClusterMachine::Keeper(machine)) => machine.phase(self.world.local_now(*id)).is_some(),
            _ => false,
        };
        let holders = self.membership_ids().filter(holds).count();
        let at = self.now();
        let several = (holders > 1)
            .then(|| format!("at {at} {holders} keepers hold the membership service at the same time"));
        several.or_else(|| self.director.disk.borrow().contradiction())
    }

    /// The newest view of the membership service.
    pub fn view(&self) -> View {
        self.director.view()
    }

    /// All published views, with the time of publication on the world's clock.
    pub fn views(&self) -> Vec<(Instant, View)> {
        let disk = self.director.disk.borrow();
        let on_world = |&(machine, at, view): &(usize, Instant, View)| {
            (self.world.clock(MachineId::new(machine)).world(at), view)
        };
        disk.published().iter().map(on_world).collect()
    }

    /// The state of the membership service as text, for error messages.
    pub fn describe_service(&self) -> String {
        let View { epoch, full, joining } = self.view();
        format!("the service is {:?} in {epoch}, full {full:?}, joining {joining:?}", self.phase())
    }
}

impl<B: Builder<Node: SimulatedNode>> Cluster<B> {
    /// Whether a node is full and its lease has not ended.
    fn serves(&self, index: usize, node: &B::Node) -> bool {
        node.is_full() && self.local_now(index) < node.lease_until()
    }

    /// Whether a node serves in the newest view.
    pub fn serves_in_view(&self, index: usize) -> bool {
        let view = self.view();
        let serves = |node| self.serves(index, node) && node.is_full_in(view.epoch);
        view.full.contains(node_id(index)) && self.node(index).is_some_and(serves)
    }

    /// Whether every node serves in the newest view.
    pub fn is_whole(&self) -> bool {
        (0..self.nodes()).all(|index| self.serves_in_view(index))
    }

    /// A node that still serves because of its lease, although it is not in the newest view.
    pub(crate) fn serving_outside(&self) -> Option<usize> {
        let members = self.view().members();
        let is_outside = |(index, node): &(usize, &B::Node)| {
            !members.contains(node_id(*index)) && self.serves(*index, node)
        };
        self.running().find(is_outside).map(|(index, _)| index)
    }

    /// The newest view and the state of each node as text, for error messages.
    pub fn describe(&self) -> String {
        let nodes = (0..self.nodes()).map(|index| match self.node(index) {
            None => format!("node{index} is down"),
            Some(node) => format!("node{index} is {}", node.describe()),
        });
        format!("{}; {}", self.describe_service(), nodes.collect::<Vec<_>>().join("; "))
    }

    /// The sum of a counter over all running nodes.
    ///
    /// # Panics
    /// If a node lacks the counter.
    pub fn sum(&self, name: &str) -> u64 {
        let of = |node: &B::Node| node.counters().into_iter().find(|(known, _)| known == name);
        self.running().map(|(_, node)| of(node).unwrap_or_else(|| panic!("nodes count {name}")).1).sum()
    }

    /// Counters of all running nodes, added up by name.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        add_counts(&mut sums, self.running().flat_map(|(_, node)| node.counters()));
        sums
    }
}

/// Restarts machines after a crash: nodes with empty memory, the membership service with its stored state.
pub struct ClusterDirector<B> {
    /// Makes the nodes.
    pub builder: B,
    nodes: usize,
    service: Option<ServiceParameters>,
    keepers: usize,
    disk: SharedDisk,
    planted: Planted,
    keys: Option<SharedKeys>,
    /// Nodes whose program has ended.
    stopped: Vec<usize>,
}

impl<B: Builder> ClusterDirector<B> {
    /// The newest view of the membership service.
    pub fn view(&self) -> View {
        self.disk.borrow().view()
    }

    /// The machines of the membership service, which follow the nodes.
    fn membership_stations(&self) -> Vec<ClusterHost> {
        self.service.map_or_else(Vec::new, |_| ClusterHost::membership(self.keepers))
    }

    /// A process of the membership service on the machine of number `machine`, which starts at `now` on that
    /// machine's clock, for the time number `life`, from 0.
    fn membership(&self, station: ClusterHost, machine: usize, life: u32, now: Instant) -> MachineOf<B> {
        let parameters = self.service.expect("there is a membership service");
        let replicas = self.planted.replicas(parameters.replicas, self.nodes);
        let service = ServiceParameters { replicas, ..parameters };
        let disk = Rc::clone(&self.disk);
        match station {
            ClusterHost::Keeper(number) => {
                // Half a lease: a successor follows before the leases of the nodes have ended.
                let parameters =
                    KeeperParameters { service, coordinators: COORDINATORS, term: service.lease / 2 };
                let keeper = KeeperMachine::new(number, machine, life, parameters, disk, self.planted);
                ClusterMachine::Keeper(Box::new(keeper))
            }
            ClusterHost::Coordinator(number) => {
                ClusterMachine::Coordinator(Box::new(CoordinatorMachine::new(number, disk)))
            }
            _ => {
                let one = MembershipMachine::new(service, machine, disk, now, self.planted);
                ClusterMachine::Membership(Box::new(one.with_keys(self.keys.clone())))
            }
        }
    }

    /// A node whose process starts for the time number `life`, from 0.
    pub fn node(&mut self, node: usize, life: u32, now: Instant) -> MachineOf<B> {
        ClusterMachine::Node(Box::new(self.builder.build(node, life, now)))
    }
}

impl<B: Builder> Director<MachineOf<B>> for ClusterDirector<B> {
    /// The machines of the membership service may always crash; clients never crash.
    fn may_crash(&mut self, machines: &Machines<MachineOf<B>>, victim: MachineId) -> bool {
        match machines.get(victim) {
            Some(ClusterMachine::Node(_)) => {
                let view = self.view();
                self.builder.may_crash(machines, victim.index(), &view)
            }
            Some(
                ClusterMachine::Membership(_) | ClusterMachine::Keeper(_) | ClusterMachine::Coordinator(_),
            ) => true,
            Some(ClusterMachine::Clients(_)) | None => false,
        }
    }

    fn crashed(&mut self, machine: MachineId, remains: MachineOf<B>) {
        if let ClusterMachine::Node(node) = remains {
            self.builder.crashed(machine.index(), *node);
        }
    }

    fn may_lose_power(&mut self, machines: &Machines<MachineOf<B>>, which: &[MachineId]) -> bool {
        let nodes: Vec<usize> =
            which.iter().map(|machine| machine.index()).filter(|&index| index < self.nodes).collect();
        let view = self.view();
        nodes.is_empty() || self.builder.may_lose_power(machines, &nodes, &view)
    }

    fn lost_power(&mut self, machine: MachineId, remains: Option<MachineOf<B>>) {
        if machine.index() < self.nodes {
            let node = remains.and_then(|machine| match machine {
                ClusterMachine::Node(node) => Some(*node),
                _ => None,
            });
            self.builder.lost_power(machine.index(), node);
        }
    }

    fn disk_fault(
        &mut self,
        machines: &Machines<MachineOf<B>>,
        machine: MachineId,
        fault: DiskFault,
    ) -> bool {
        let Some(station) = machine.index().checked_sub(self.nodes) else {
            let view = self.view();
            return self.builder.disk_fault(machines, machine.index(), fault, &view);
        };
        match (self.membership_stations().get(station), fault) {
            (Some(ClusterHost::Membership), DiskFault::Slow(times)) => {
                self.disk.borrow_mut().slow_down(times);
                true
            }
            _ => false,
        }
    }

    fn restart(&mut self, machine: MachineId, life: u32, now: Instant) -> MachineOf<B> {
        if machine.index() < self.nodes {
            return self.node(machine.index(), life, now);
        }
        let station = self.membership_stations().get(machine.index() - self.nodes).copied();
        self.membership(station.expect("clients do not crash"), machine.index(), life, now)
    }
}
