//! A cluster of nodes with the rounds engine on their NICs, in a simulated network.

use std::cell::RefCell;
use std::rc::Rc;

use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{
    Builder, Cluster as Nodes, ClusterHost, ClusterShape, DATAGRAM_BYTES, KeyHolder, Keys, MachineOf,
    NodeHost, Planted, SharedKeys, Views, clock, incarnation, no_queue_pairs, node_id, soft_nic,
};
use weft_nic::SoftNic;
use weft_node::{RoundsHalf, RoundsPauses};
use weft_rounds::ClientServerParameters;
use weft_sim::{CostProfile, FaultPlan, Machines, NetworkProfile, NicMachine, PlanError};
use weft_time::{Duration, Instant};
use weft_waist::{Engine, Epoch, Memory, NodeSet, View};

use super::engines::{EngineParameters, NodeEngine};
use super::host::{HostLoad, ProposerHalf, ROUNDS_SLOT, RunRecord};
use super::register::{self, Answers, RegisterClients};
use crate::smr::first_view;

/// Number of clients and of decisions that a host keeps for the protocol server, which no client uses here.
const FRONT_CLIENTS: usize = 1;
const FRONT_DECISIONS: usize = 8;

/// Parameters of a cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub(super) nodes: usize,
    pub(super) network: NetworkProfile,
    /// Cost profile of the cards.
    pub(super) profile: CostProfile,
    /// Maximum clock drift, in parts per million.
    pub(super) drift_ppm: u32,
    /// Proposals of the hosts; `None`: the nodes serve a register to clients on a separate machine.
    pub(super) load: Option<HostLoad>,
    pub(super) engine: EngineParameters,
    /// Parameters of the membership service and of the nodes' heartbeats; without them the first view is
    /// fixed.
    pub(super) service: Option<(ServiceParameters, AgentParameters)>,
    pub(super) pauses: RoundsPauses,
    /// Interval of key rotation, if frames are sealed by PSP.
    pub(super) rotation: Option<Duration>,
    /// Bug planted in the node's program or in the membership service.
    pub(super) planted: Planted,
    pub(super) seed: u64,
    pub(super) plan: FaultPlan,
}

/// Time of the clients' first requests. The cluster has started by then.
const CLIENTS_BEGIN: Instant = Instant::from_ps(60_000_000);

/// A node: its host and its card.
type NodeMachine = NicMachine<SoftNic<NodeEngine>, NodeHost<ProposerHalf>>;

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) machines: Nodes<RoundsNodes>,
    pub(super) books: Rc<RefCell<RunRecord>>,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        let books = RunRecord::new(parameters.nodes);
        let keys = parameters.rotation.map(|rotation| {
            let stations = (0..parameters.nodes).map(ClusterHost::node).chain([ClusterHost::Clients(0)]);
            Keys::shared(parameters.seed, stations, rotation, parameters.planted)
        });
        let shape = ClusterShape {
            keepers: 1,
            nodes: parameters.nodes,
            service: parameters.service.map(|(service, _)| service),
            planted: parameters.planted,
            keys: keys.clone(),
            seed: parameters.seed,
            switch: parameters.network.switch(),
            plan: parameters.plan.clone(),
        };
        let nodes = RoundsNodes { parameters: parameters.clone(), keys, books: Rc::clone(&books) };
        let clients = parameters.load.is_none();
        let clients = clients.then(|| register::clients(parameters.nodes, parameters.seed, CLIENTS_BEGIN));
        let machines = Nodes::new(&shape, nodes, clients, |index, station| {
            let mut port = parameters.network.port(station.name(), station.hardware().0);
            if !matches!(station, ClusterHost::Clients(_)) {
                port.clock = clock(parameters.seed, index, parameters.drift_ppm);
            }
            port
        })?;
        Ok(Self { machines, books })
    }

    /// The answers that the clients of the register received.
    pub(super) fn clients(&self) -> Option<Answers<'_>> {
        self.machines.clients().next().map(|clients| Answers(&clients.driver))
    }

    /// Stops new proposals and requests.
    pub(super) fn end_load(&mut self) {
        self.books.borrow_mut().proposing = false;
        for clients in self.machines.client_machines() {
            let stop = |machine: &mut MachineOf<RoundsNodes>| {
                machine.clients_mut().map(|clients| clients.driver.finish())
            };
            self.machines.world.with_machine(clients, |machine, _| stop(machine));
        }
    }

    /// The engine of a node, if the node runs.
    fn engine(&self, node: usize) -> Option<&NodeEngine> {
        Some(self.machines.node(node)?.nic().card().engine(ROUNDS_SLOT).0)
    }

    /// A counter of the engine of a node; `None` if the node is down.
    pub(super) fn counter(&self, node: usize, name: &str) -> Option<u64> {
        let counters = self.engine(node)?.counters();
        let found = counters.iter().find(|(known, _)| *known == name);
        Some(found.unwrap_or_else(|| panic!("an engine counts {name}")).1)
    }
}

/// The nodes of a cluster.
pub struct RoundsNodes {
    parameters: ClusterParameters,
    keys: Option<SharedKeys>,
    books: Rc<RefCell<RunRecord>>,
}

impl Builder for RoundsNodes {
    type Node = NodeMachine;
    type Clients = RegisterClients;

    fn build(&mut self, node: usize, life: u32, now: Instant) -> NodeMachine {
        let ClusterParameters { nodes, load, ref engine, service, pauses, planted, .. } = self.parameters;
        if life > 0 {
            self.books.borrow_mut().restarted(node, now);
        }
        let stations =
            (0..nodes).map(ClusterHost::node).chain([ClusterHost::Membership, ClusterHost::Clients(0)]);
        let holder = self.keys.as_ref().map(|keys| KeyHolder::new(keys, ClusterHost::node(node)));
        let engines = vec![(engine.build(), Memory::new(0))];
        let nic = soft_nic((node, nodes), no_queue_pairs(), engines, stations, holder.as_ref());
        let front = ClientServerParameters {
            first_session: incarnation(life).get(),
            clients: FRONT_CLIENTS,
            value_bytes: engine.parameters.value_bytes,
            kept: FRONT_DECISIONS,
            answer_bytes: DATAGRAM_BYTES,
        };
        let half = ProposerHalf::new(
            (node, life),
            RoundsHalf::new(nodes, front, pauses),
            load,
            Rc::clone(&self.books),
        );
        let alone = if life == 0 { first_view(nodes) } else { joining_view(node, life, nodes) };
        let views = service.map_or(Views::Fixed(alone), |(_, agent)| Views::Service(agent, nodes));
        let host = NodeHost::new(node_id(node), incarnation(life), views, [half], planted);
        let host = host.with_keys(holder);
        NicMachine::new(nic, host, &self.parameters.profile)
    }

    fn may_crash(&mut self, _: &Machines<MachineOf<Self>>, _: usize, _: &View) -> bool {
        true
    }

    fn crashed(&mut self, node: usize, remains: NodeMachine) {
        let waiting = remains.host().node().half(ROUNDS_SLOT).waiting();
        self.books.borrow_mut().crashed(node, waiting);
    }
}

/// The view in which a restarted node requests to rejoin.
fn joining_view(node: usize, life: u32, nodes: usize) -> View {
    let full = NodeSet::first(nodes).without(node_id(node));
    View { epoch: Epoch(1 + life), full, joining: NodeSet::EMPTY.with(node_id(node)) }
}
