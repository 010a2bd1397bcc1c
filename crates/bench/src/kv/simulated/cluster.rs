//! A simulated cluster of the key-value store, with methods to run and to inspect it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use weft_check::{Cut, History};
use weft_cluster::ServiceParameters;
use weft_harness::{
    ClientMachine, Cluster as Nodes, ClusterHost, ClusterMachine, ClusterShape, DRIFT_PPM, Keys, LEASE,
    MACHINES_IN_GATES, Planted, StatusChange, clock,
};
use weft_kv::{Parameters, ReadPolicy};
use weft_results::NicModel;
use weft_results::histogram::Recorder;
use weft_sim::{FaultPlan, MachineId, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, Epoch, NodeSet};
use weft_workload::Load;
use weft_workload::{ClientShare, Workload};

#[cfg(feature = "planted-bugs")]
use super::disks::DiskBug;
use super::disks::StoreDisks;
use super::nodes::{NodeBuilder, NodeNic};
use super::turns::Turns;
use crate::disks::DiskRegime;
use crate::kv::{Driver, DriverParameters, Phase};

/// Maximum number of client machines.
const CLIENT_MACHINES_MAX: u32 = 4;

/// Interval of key rotation where frames are sealed. It is longer than a lease, so that a node with a lease
/// is never two generations behind.
const ROTATION: Duration = Duration::from_ms(10);

/// Undecided writes of a leader whose nodes have disks: few, so that slow disks reach every limit.
const WINDOW_ON_DISKS: usize = 64;

/// Time until a simulated client repeats an unanswered request.
const CLIENT_TIMEOUT: Duration = Duration::from_us(250);

/// Parts of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterParameters {
    /// Nodes, 1 to 16.
    pub nodes: usize,
    /// Number of keepers of the membership service; 1 if it is one process.
    pub keepers: usize,
    /// Workload of the clients.
    pub workload: Workload,
    /// Load of the clients, over all client machines.
    pub load: Load,
    /// Nodes that clients send reads to.
    pub reads: ReadPolicy,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// NIC of the nodes.
    pub nic: NodeNic,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Whether frames are sealed by PSP.
    pub psp: bool,
    /// Faults.
    pub plan: FaultPlan,
    /// Limits of disk faults, if the nodes have disks.
    pub disks: Option<DiskRegime>,
    /// How many nodes have a write on disk when it is answered; 0 if the nodes have no disks.
    pub durable_copies: usize,
    /// If writes are answered before they are on so many disks: how long these may lag.
    pub disk_lag: Option<Duration>,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_kv::PlantedBug>,
    /// Bug planted in the node's program or in the membership service.
    pub planted: Planted,
    /// Bug planted between the engine and its disk.
    #[cfg(feature = "planted-bugs")]
    pub disk_bug: Option<DiskBug>,
}

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) machines: Nodes<NodeBuilder>,
    pub(super) turns: Rc<RefCell<Turns>>,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        let network = parameters.network.with_cables();
        let client_machines = client_machines(parameters);
        let stations = (0..parameters.nodes)
            .map(ClusterHost::node)
            .chain(ClusterHost::membership(parameters.keepers))
            .chain((0..client_machines).map(|index| ClusterHost::Clients(index as u8)));
        let stations: Vec<ClusterHost> = stations.collect();
        let planted = parameters.planted;
        let keys = parameters
            .psp
            .then(|| Keys::shared(parameters.seed, stations.iter().copied(), ROTATION, planted));
        let builder = NodeBuilder {
            stations,
            keepers: parameters.keepers,
            keys: keys.clone(),
            engine: engine_parameters(parameters),
            nic: parameters.nic,
            planted,
            former: BTreeMap::new(),
            disks: disks(parameters),
            recovered: BTreeSet::new(),
        };
        let shape = ClusterShape {
            nodes: parameters.nodes,
            keepers: parameters.keepers,
            service: Some(ServiceParameters {
                durable_copies: parameters.durable_copies,
                ..ServiceParameters::new(parameters.nodes, LEASE)
            }),
            planted,
            keys,
            seed: parameters.seed,
            switch: network.switch(),
            plan: parameters.plan.clone(),
        };
        let clients = (0..client_machines).map(|index| {
            let driver = driver(parameters, index, client_machines);
            ClientMachine::new(ClusterHost::Clients(index as u8), driver)
        });
        let mut machines = Nodes::new(&shape, builder, clients, |index, station| {
            let mut port = network.port(station.name(), station.hardware().0);
            if !matches!(station, ClusterHost::Clients(_)) {
                port.clock = clock(parameters.seed, index, DRIFT_PPM);
            }
            port
        })?;
        let turns = Rc::new(RefCell::new(Turns::default()));
        machines.world.add_tap(Box::new(Rc::clone(&turns)));
        Ok(Self { machines, turns })
    }

    /// Runs the simulation until `until`.
    pub(super) fn run_until(&mut self, until: Instant) {
        if self.machines.director.builder.disks.is_none() {
            return self.machines.run_until(until);
        }
        self.machines.supervise_until(
            until,
            |node| node.host().has_ended(),
            |builder, node| builder.disks.as_ref().is_none_or(|disks| disks.inner().is_repaired(node)),
        );
    }

    /// Starts a phase at all clients.
    pub(super) fn begin(&mut self, phase: impl Fn(u32) -> Phase) {
        let highest = self.drivers().map(Driver::highest_record).max().unwrap_or(0);
        for (index, id) in (0..).zip(self.machines.client_machines()) {
            self.machines.world.with_machine(id, |machine, now| {
                if let Some(machine) = machine.clients_mut() {
                    machine.driver.extend_records(highest);
                    machine.driver.begin(now, phase(index));
                }
            });
        }
    }

    /// Runs, in slices, until all clients have finished their phase or until `limit`. Returns whether they have
    /// finished. `progress` is called with the number of completed operations.
    pub(super) fn finish(&mut self, slice: Duration, limit: Instant, mut progress: impl FnMut(u64)) -> bool {
        loop {
            let now = self.machines.world.now();
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

    /// Digests of the state of the nodes whose memory is readable. Equal states have equal digests.
    pub(super) fn digests(&self) -> Vec<u64> {
        self.machines.running().filter_map(|(_, node)| node.digest()).collect()
    }

    /// Number of completed operations of the current run.
    pub(super) fn completed(&self) -> u64 {
        self.drivers().map(Driver::completed).sum()
    }

    /// Changes of a node's status over all its incarnations, on the world's clock.
    pub(super) fn status_changes(&self, node: usize) -> Vec<StatusChange> {
        let clock = self.machines.world.clock(MachineId::new(node));
        let former = self.machines.director.builder.former.get(&node).into_iter().flatten();
        let current = self.machines.node(node).into_iter().flat_map(|node| node.host().changes());
        former.chain(current).map(|change| StatusChange { at: clock.world(change.at), ..*change }).collect()
    }

    /// The losses of the memory of all nodes, after which they went on from disks alone.
    pub(super) fn cuts(&self) -> Vec<Cut> {
        let recovered = &self.machines.director.builder.recovered;
        let running = self.machines.running().filter_map(|(_, node)| node.recovered_from_disks());
        let epochs: BTreeSet<Epoch> = recovered.iter().copied().chain(running).collect();
        let changes: Vec<_> = (0..self.machines.nodes()).flat_map(|node| self.status_changes(node)).collect();
        let cut = |epoch: Epoch| {
            let serves = |change: &&StatusChange| {
                change.status.epoch > epoch && change.status.state == EngineState::Full
            };
            let served_again = changes.iter().filter(serves).map(|change| change.at).min()?;
            let first_version = weft_kv::version(Epoch(epoch.0 + 1), 0);
            Some(Cut { served_again_ns: served_again.as_ns(), first_version })
        };
        epochs.into_iter().filter_map(cut).collect()
    }

    /// Measurements and history of all clients.
    pub(super) fn into_parts(mut self) -> (Recorder, History) {
        let mut recorders = Vec::new();
        let mut histories = Vec::new();
        for id in self.machines.client_machines() {
            if let Some(ClusterMachine::Clients(machine)) = self.machines.world.crash(id) {
                let (recorder, history) = machine.machine.driver.into_parts();
                recorders.push(recorder);
                histories.push(history);
            }
        }
        let history = History::merge(histories).expect("a simulated history fits into one");
        (Recorder::merged(recorders).expect("a cluster has clients"), history)
    }

    fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.machines.clients().map(|machine| &machine.driver)
    }
}

/// Engine parameters for a workload: a table with room for twice its records, and time-outs in proportion to
/// a simulated round trip of a few microseconds. The engine in gates has fixed sizes, which all nodes must
/// use then.
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
        durable_copies: parameters.durable_copies,
        disk_lag: parameters.disk_lag,
        window: if parameters.disks.is_some() { WINDOW_ON_DISKS } else { sizes.window },
        #[cfg(feature = "planted-bugs")]
        planted_bug: parameters.planted_bug,
        ..sizes
    }
}

fn disks(parameters: &ClusterParameters) -> Option<StoreDisks> {
    let disks =
        StoreDisks::new(parameters.nodes, parameters.seed, parameters.disks?, parameters.durable_copies);
    #[cfg(feature = "planted-bugs")]
    let disks = disks.with_planted_bug(parameters.disk_bug);
    Some(disks)
}

/// Number of client machines: fewer than [`CLIENT_MACHINES_MAX`] if cards in gates have no room for so many keys.
fn client_machines(parameters: &ClusterParameters) -> u32 {
    let machines = parameters.load.clients().min(CLIENT_MACHINES_MAX);
    if parameters.psp && parameters.nic.model() == NicModel::Rtl {
        assert!(
            parameters.nodes < MACHINES_IN_GATES,
            "cards in gates have keys for {MACHINES_IN_GATES} nodes and client machines"
        );
        return machines.min((MACHINES_IN_GATES - parameters.nodes) as u32);
    }
    machines
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
        lane: ClientShare::new(index, machines),
        seed: parameters.seed.wrapping_add(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        first_client: u64::from(index + 1) << 32,
        nodes: NodeSet::first(parameters.nodes),
        reads: parameters.reads,
        compares_deletes: !parameters.nic.has_engine_in_gates(),
        timeout: CLIENT_TIMEOUT,
        give_up: Duration::from_secs(1),
    })
}
