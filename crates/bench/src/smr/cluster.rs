//! A cluster of nodes with replicated logs on their NICs, in a simulated network.

use std::cell::RefCell;
use std::rc::Rc;

use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{
    Builder, Cluster as Machines, ClusterHost, ClusterShape, MachineOf, NoClients, NodeHost, Planted, Views,
    address, incarnation, node_id, running, soft_nic,
};
use weft_nic::SoftNic;
use weft_node::{ConnectionParameters, Connections, Purpose, WiredHalf};
use weft_sim::{CostProfile, FaultPlan, LocalClock, NetworkProfile, NicMachine, PlanError, Stream};
use weft_smr::log::{Log, LogParameters};
use weft_time::{Duration, Instant};
use weft_verbs::PathMtu;
use weft_waist::{EngineState, Epoch, Memory, NodeSet, View};

use super::host::{ClientLoad, LOG_SLOT, LogHalf, RunRecord};

/// Parameters of the queue pairs: the shortest time-out that the verbs allow, 8.192 us, and the maximum
/// number of retries.
const TERMS: ConnectionParameters =
    ConnectionParameters { path_mtu: PathMtu::Bytes1024, timeout: 1, retry_cnt: 7, max_rd_atomic: 8 };

/// Time after which a host has received everything that its engine sent before.
const DRAIN: Duration = Duration::from_us(100);

/// Parameters of a cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub log: LogParameters,
    pub network: NetworkProfile,
    /// Cost profile of cards and hosts.
    pub profile: CostProfile,
    /// Maximum clock drift, in parts per million.
    pub drift_ppm: u32,
    pub load: ClientLoad,
    /// Parameters of the membership service and of the nodes' heartbeats; without them the first view is
    /// fixed.
    pub service: Option<(ServiceParameters, AgentParameters)>,
    pub planted: Planted,
    pub seed: u64,
    pub plan: FaultPlan,
}

pub(super) type LogMachine = NicMachine<SoftNic<Log>, NodeHost<LogHalf>>;

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub machines: Machines<LogNodes>,
    pub books: Rc<RefCell<RunRecord>>,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        let nodes = parameters.log.group.nodes;
        let books = RunRecord::new(nodes, parameters.load);
        let shape = ClusterShape {
            keepers: 1,
            nodes,
            service: parameters.service.map(|(service, _)| service),
            planted: parameters.planted,
            seed: parameters.seed,
            keys: None,
            switch: parameters.network.switch(),
            plan: parameters.plan.clone(),
        };
        let nodes = LogNodes {
            log: parameters.log.clone(),
            agent: parameters.service.map(|(_, agent)| agent),
            profile: parameters.profile,
            planted: parameters.planted,
            books: Rc::clone(&books),
        };
        let machines = Machines::new(&shape, nodes, [], |index, station| {
            let mut port = parameters.network.port(station.name(), station.hardware().0);
            port.clock = clock(parameters.seed, index as u64, parameters.drift_ppm);
            port
        })?;
        Ok(Self { machines, books })
    }

    /// Lets the hosts receive what their engines have sent, while the clients append nothing. Returns the violations
    /// of the run.
    pub fn drained(&mut self) -> Vec<String> {
        self.books.borrow_mut().asking = false;
        self.machines.run_until(self.machines.now() + DRAIN);
        let mut books = self.books.borrow_mut();
        books.log.ended();
        books.log.violations().to_vec()
    }

    /// The engine of a node, if it runs.
    pub fn log(&self, node: usize) -> Option<&Log> {
        Some(self.machines.node(node)?.nic().card().engine(LOG_SLOT).0)
    }
}

/// A clock with a random drift but no offset. All clocks must show nearly the same time, because a client
/// that moves between hosts reads the clocks of several hosts.
fn clock(seed: u64, machine: u64, drift_ppm: u32) -> LocalClock {
    let mut random = Stream::new(seed, "clock", machine);
    let drift = random.between(0, 2 * u64::from(drift_ppm)) as i32 - drift_ppm as i32;
    LocalClock::new(Duration::ZERO, drift)
}

/// The nodes of a cluster.
pub struct LogNodes {
    log: LogParameters,
    agent: Option<AgentParameters>,
    profile: CostProfile,
    planted: Planted,
    books: Rc<RefCell<RunRecord>>,
}

impl Builder for LogNodes {
    type Node = LogMachine;
    type Clients = NoClients;

    fn build(&mut self, node: usize, life: u32, _: Instant) -> LogMachine {
        let nodes = self.log.group.nodes;
        let (nic, wired) = card_with_log(&self.log, node, Memory::new(self.log.memory_bytes()));
        let views = self.agent.map_or(Views::Fixed(first_view(nodes)), |agent| Views::Service(agent, nodes));
        let half = LogHalf::new(node, wired, Rc::clone(&self.books));
        let host = NodeHost::new(node_id(node), incarnation(life), views, [half], self.planted);
        NicMachine::new(nic, host, &self.profile)
    }

    /// A node may crash if a majority of full nodes remains, because the log tolerates the loss of a
    /// minority.
    fn may_crash(&mut self, machines: &weft_sim::Machines<MachineOf<Self>>, victim: usize, _: &View) -> bool {
        let books = self.books.borrow();
        let others = running(machines).filter(|(node, _)| *node != victim);
        let full = others.filter(|(node, _)| books.states[*node] == EngineState::Full).count();
        full >= self.log.group.majority()
    }

    fn crashed(&mut self, node: usize, _: LogMachine) {
        self.books.borrow_mut().crashed(node);
    }
}

/// The first view, with all nodes as full members.
pub(crate) const fn first_view(nodes: usize) -> View {
    View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY }
}

/// The card of a node with a log in [`LOG_SLOT`], and the host half that passes the engine its queue pairs.
/// All nodes must be made with the same parameters, because they share queue pair numbers and keys.
pub(crate) fn card_with_log(log: &LogParameters, node: usize, memory: Memory) -> (SoftNic<Log>, WiredHalf) {
    let nodes = log.group.nodes;
    let purposes = Purpose::of_log(log);
    let queue_pairs = Connections::queue_pairs(nodes, purposes.len()).max(1);
    let transport = weft_rdma::Config { max_queue_pairs: queue_pairs, ..weft_rdma::Config::default() };
    let engine = (Log::new(log.clone()), memory);
    let stations = (0..nodes).map(ClusterHost::node).chain([ClusterHost::Membership]);
    let mut nic = soft_nic((node, nodes), transport, vec![engine], stations, None);
    let place = (LOG_SLOT, log.memory_bytes());
    let wires = Connections::wire(nic.card_mut(), place, (node, nodes), &purposes, TERMS, address)
        .expect("there is room for queue pairs");
    (nic, WiredHalf::new(wires, None))
}
