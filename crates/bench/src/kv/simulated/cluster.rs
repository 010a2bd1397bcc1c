//! A simulated cluster: its machines in a world, and what is asked of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weft_check::History;
use weft_cluster::{Phase as ServicePhase, ServiceParameters};
use weft_kv::{Parameters, ReadPolicy};
use weft_sim::{Director, FaultPlan, MachineId, Machines, PlanError, PortConfig, SwitchConfig, World};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, EngineStatus, NodeId, NodeSet, View};

use super::machines::{ClientMachine, ClusterMachine};
use super::nodes::{NodeBuilder, NodeMachine, NodeNic};
use super::timeline::Turns;
use crate::histogram::Recorder;
use crate::kv::{Driver, DriverParameters, Phase};
use crate::load::Load;
#[cfg(feature = "planted-bugs")]
use crate::node::NodeBug;
use crate::node::{MembershipMachine, Planted, SharedDisk, Station, StatusChange, clock};
use crate::workload::{Lane, Workload};

/// Machines that clients run on.
const CLIENT_MACHINES_MAX: u32 = 4;

/// Clocks of nodes and of the membership service gain or lose up to this, in millionths; half of what the service's leases
/// allow for.
const DRIFT_PPM: u32 = 400;

/// How long a lease lasts in simulated clusters: hundreds of round trips, so that a loss of some heartbeats costs
/// nothing, and short enough that a campaign sees many leases end.
pub const LEASE: Duration = Duration::from_ms(5);

/// How long a simulated client waits for an answer before it asks again.
const CLIENT_TIMEOUT: Duration = Duration::from_us(250);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterParameters {
    /// Nodes, 1 to 16.
    pub nodes: usize,
    /// What clients do.
    pub workload: Workload,
    /// When they do it, over all client machines.
    pub load: Load,
    /// Whom they ask to read.
    pub reads: ReadPolicy,
    /// Decides everything.
    pub seed: u64,
    /// What NIC the nodes have.
    pub nic: NodeNic,
    /// What goes wrong.
    pub plan: FaultPlan,
    /// A bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_kv::PlantedBug>,
    /// A bug around the engines to run with.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<NodeBug>,
}

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) world: World<ClusterMachine>,
    pub(super) nodes: Vec<MachineId>,
    pub(super) clients: Vec<MachineId>,
    pub(super) turns: Rc<RefCell<Turns>>,
    membership: MachineId,
    director: ClusterDirector,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        let engine = engine_parameters(parameters);
        let client_machines = parameters.load.clients().min(CLIENT_MACHINES_MAX);
        let nodes: Vec<NodeId> = NodeSet::first(parameters.nodes).iter().collect();
        let stations: Vec<Station> = nodes
            .iter()
            .map(|node| Station::Node(*node))
            .chain([Station::Membership])
            .chain((0..client_machines).map(|index| Station::Clients(index as u8)))
            .collect();
        let planted = Planted {
            #[cfg(feature = "planted-bugs")]
            bug: parameters.node_bug,
        };
        let builder = NodeBuilder { stations: stations.clone(), engine, nic: parameters.nic, planted };
        let director = ClusterDirector { builder, disk: SharedDisk::default(), former: Rc::default() };
        let mut world = World::new(parameters.seed, SwitchConfig::default());
        let mut ids = Vec::new();
        for (index, &station) in stations.iter().enumerate() {
            let mut port = PortConfig::new(station.name(), station.hardware().0);
            if !matches!(station, Station::Clients(_)) {
                port.clock = clock(parameters.seed, index, DRIFT_PPM);
            }
            let machine = match station {
                Station::Node(id) => director.node(id, 0),
                Station::Membership => director.membership(Instant::ZERO),
                Station::Clients(index) => {
                    let driver = driver(parameters, u32::from(index), client_machines);
                    ClusterMachine::Clients(Box::new(ClientMachine::new(station, driver)))
                }
            };
            ids.push(world.add_machine(port, machine));
        }
        world.set_plan(&parameters.plan)?;
        let turns = Rc::new(RefCell::new(Turns::default()));
        world.add_tap(Box::new(Rc::clone(&turns)));
        Ok(Self {
            world,
            turns,
            nodes: ids[..nodes.len()].to_vec(),
            membership: ids[nodes.len()],
            clients: ids[nodes.len() + 1..].to_vec(),
            director,
        })
    }

    /// Lets time pass until `until`.
    pub(super) fn run_until(&mut self, until: Instant) {
        self.world.run_until(until, &mut self.director);
    }

    /// Begins a phase at all clients.
    pub(super) fn begin(&mut self, phase: impl Fn(u32) -> Phase) {
        let highest = self.drivers().map(Driver::highest_record).max().unwrap_or(0);
        for (index, &id) in self.clients.iter().enumerate() {
            self.world.with_machine(id, |machine, now| {
                if let ClusterMachine::Clients(machine) = machine {
                    machine.driver.extend_records(highest);
                    machine.driver.begin(now, phase(index as u32));
                }
            });
        }
    }

    /// Lets time pass, in slices, until all clients are through with their phase or `limit` has come; says which.
    /// `progress` is told the number of operations completed.
    pub(super) fn finish(&mut self, slice: Duration, limit: Instant, mut progress: impl FnMut(u64)) -> bool {
        loop {
            let now = self.world.now();
            if self.drivers().all(|driver| driver.is_finished(now)) {
                return true;
            }
            if now >= limit {
                return false;
            }
            self.run_until((now + slice).min(limit));
            progress(self.completed());
        }
    }

    /// Whether every node serves in the newest view.
    pub(super) fn is_whole(&self) -> bool {
        let view = self.view();
        view.full.len() == self.nodes.len()
            && self.nodes.iter().all(|&id| {
                self.node(id).is_some_and(|node| {
                    let leased = self.world.local_now(id) < node.host().node().lease_until();
                    node.serves() && node.status().epoch == view.epoch && leased
                })
            })
    }

    /// Nodes that serve by their leases although the newest view is without them.
    pub(super) fn serving_outside(&self) -> impl Iterator<Item = &str> {
        let members = self.view().members();
        let outside = (0..).zip(&self.nodes).filter(move |(index, id)| {
            !members.contains(NodeId::new(*index).expect("a cluster has at most 16 nodes"))
                && self.node(**id).is_some_and(|node| {
                    node.serves() && self.world.local_now(**id) < node.host().node().lease_until()
                })
        });
        outside.map(|(_, id)| self.world.name(*id))
    }

    /// The newest view and what each node makes of it, in words: why a cluster is not whole.
    pub(super) fn describe(&self) -> String {
        let view = self.view();
        let nodes = self.nodes.iter().map(|&id| match self.node(id) {
            None => format!("{} is down", self.world.name(id)),
            Some(node) => {
                let refusal = node
                    .host()
                    .node()
                    .refusal()
                    .map_or(String::new(), |reason| format!(", refused: {reason}"));
                format!("{} is {} in {}{refusal}", self.world.name(id), node.describe(), node.status().epoch)
            }
        });
        let service = self.phase();
        let nodes: Vec<String> = nodes.collect();
        format!(
            "the service is {service:?} in {}, full {:?}, joining {:?}; {}",
            view.epoch,
            view.full,
            view.joining,
            nodes.join("; ")
        )
    }

    /// Digests of what the nodes hold, as far as their memories can be looked into: equal if they hold the same.
    pub(super) fn digests(&self) -> Vec<u64> {
        self.nodes.iter().filter_map(|&id| self.node(id)?.digest()).collect()
    }

    /// Operations of the current run completed.
    pub(super) fn completed(&self) -> u64 {
        self.drivers().map(Driver::completed).sum()
    }

    /// The newest view.
    pub(super) fn view(&self) -> View {
        self.director.disk.borrow().view()
    }

    /// All views and when, in the world's time, they were published.
    pub(super) fn views(&self) -> Vec<(Instant, View)> {
        let clock = self.world.clock(self.membership);
        self.director.disk.borrow().published().iter().map(|(at, view)| (clock.world(*at), *view)).collect()
    }

    /// What a node was over time, in the world's time, over all its lives.
    pub(super) fn status_changes(&self, id: MachineId) -> Vec<StatusChange> {
        let clock = self.world.clock(id);
        let former = self.director.former.borrow();
        let former = former.get(&id).into_iter().flatten();
        let current = self.node(id).into_iter().flat_map(|node| node.host().changes());
        former.chain(current).map(|change| StatusChange { at: clock.world(change.at), ..*change }).collect()
    }

    /// Counters of all nodes that run, added up by name.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for node in self.nodes.iter().filter_map(|&id| self.node(id)) {
            for (name, count) in node.counters() {
                *sums.entry(name).or_insert(0) += count;
            }
        }
        sums
    }

    /// What all clients have measured, and what happened.
    pub(super) fn into_parts(mut self) -> (Recorder, History) {
        let mut recorders = Vec::new();
        let mut histories = Vec::new();
        for id in std::mem::take(&mut self.clients) {
            if let Some(ClusterMachine::Clients(machine)) = self.world.crash(id) {
                let (recorder, history) = machine.driver.into_parts();
                recorders.push(recorder);
                histories.push(history);
            }
        }
        let merged = recorders.into_iter().reduce(|mut all, one| {
            all.merge(&one);
            all
        });
        let history = History::merge(histories).expect("a simulated history fits into one");
        (merged.expect("a cluster has clients"), history)
    }

    fn node(&self, id: MachineId) -> Option<&NodeMachine> {
        self.world.machine(id)?.node()
    }

    /// Where the membership service stands, unless it is down.
    fn phase(&self) -> Option<ServicePhase> {
        match self.world.machine(self.membership) {
            Some(ClusterMachine::Membership(machine)) => Some(machine.phase()),
            _ => None,
        }
    }

    fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.clients.iter().filter_map(|&id| match self.world.machine(id) {
            Some(ClusterMachine::Clients(machine)) => Some(&machine.driver),
            _ => None,
        })
    }
}

/// Engine sizes for a workload: a table with room for twice its records, and pauses in proportion to a simulated
/// round trip of a few microseconds. Gates have sizes of their own, which all nodes must share.
fn engine_parameters(parameters: &ClusterParameters) -> Parameters {
    let workload = parameters.workload;
    let sizes = Parameters::for_keys(2 * workload.records());
    let sizes = if parameters.nic.has_engine_in_gates() {
        Parameters::gateware(sizes.buckets)
    } else {
        Parameters { value_bytes_max: workload.value_bytes(), ..sizes }
    };
    Parameters {
        retransmit: Duration::from_us(100),
        retransmit_max: Duration::from_ms(1),
        #[cfg(feature = "planted-bugs")]
        planted_bug: parameters.planted_bug,
        ..sizes
    }
}

fn driver(parameters: &ClusterParameters, index: u32, machines: u32) -> Driver {
    let total = parameters.load.clients();
    let clients = total / machines + u32::from(index < total % machines);
    let load = match parameters.load {
        Load::Closed { .. } => Load::Closed { clients },
        Load::Open { operations_per_s, .. } => {
            Load::Open { clients, operations_per_s: operations_per_s / f64::from(machines) }
        }
    };
    Driver::new(DriverParameters {
        workload: parameters.workload,
        load,
        lane: Lane::new(index, machines),
        seed: parameters.seed.wrapping_add(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        first_client: u64::from(index + 1) << 32,
        nodes: NodeSet::first(parameters.nodes),
        reads: parameters.reads,
        timeout: CLIENT_TIMEOUT,
        give_up: Duration::from_secs(1),
    })
}

/// Lets nodes crash as long as the data survives, and brings them back empty.
struct ClusterDirector {
    builder: NodeBuilder,
    /// The membership service's.
    disk: SharedDisk,
    /// What crashed nodes had been.
    former: Rc<RefCell<BTreeMap<MachineId, Vec<StatusChange>>>>,
}

impl ClusterDirector {
    fn node(&self, id: NodeId, life: u32) -> ClusterMachine {
        ClusterMachine::Node(Box::new(self.builder.build(id, life)))
    }

    /// The membership service in a process that begins at `now` on its machine's clock.
    fn membership(&self, now: Instant) -> ClusterMachine {
        let parameters = ServiceParameters::new(self.builder.nodes(), LEASE);
        let disk = Rc::clone(&self.disk);
        let machine = MembershipMachine::new(parameters, disk, now, self.builder.planted);
        ClusterMachine::Membership(Box::new(machine))
    }
}

impl Director<ClusterMachine> for ClusterDirector {
    /// A node may crash if another one holds all data in the newest view: with the last copy the data would be gone, as the
    /// protocol says. The membership service always may; clients may not.
    fn may_crash(&mut self, machines: &Machines<ClusterMachine>, victim: MachineId) -> bool {
        match self.builder.stations[victim.index()] {
            Station::Node(_) => {}
            Station::Membership => return true,
            Station::Clients(_) => return false,
        }
        let view = self.disk.borrow().view();
        machines.iter().filter_map(|(id, machine)| Some((id, machine.node()?))).any(|(id, node)| {
            let EngineStatus { epoch, state } = node.status();
            id != victim
                && view.full.contains(NodeId::new(id.index()).expect("nodes come first"))
                && state == EngineState::Full
                && epoch == view.epoch
        })
    }

    fn crashed(&mut self, machine: MachineId, remains: ClusterMachine) {
        if let ClusterMachine::Node(node) = remains {
            self.former.borrow_mut().entry(machine).or_default().extend(node.host().changes());
        }
    }

    fn restart(&mut self, machine: MachineId, life: u32, now: Instant) -> ClusterMachine {
        match self.builder.stations[machine.index()] {
            Station::Node(id) => self.node(id, life),
            Station::Membership => self.membership(now),
            Station::Clients(_) => unreachable!("clients do not crash"),
        }
    }
}
