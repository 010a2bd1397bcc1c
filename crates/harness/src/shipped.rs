//! Clusters of the shipped node, assembled as `weft start` does, with any of its engines.

use std::marker::PhantomData;
use std::rc::Rc;

use weft_cluster::{AgentParameters, ServiceParameters};
use weft_nic::{Card, CardConfig, SoftNic};
use weft_node::{
    CardParameters, ConnectionParameters, EngineChoice, HostHalf, NoHalf, NodeEngine, NodeHalf, assemble,
};
use weft_sim::{CostProfile, FaultPlan, LocalClock, Machines, NetworkProfile, NicMachine, PlanError};
use weft_time::{Duration, Instant};
use weft_verbs::PathMtu;
use weft_waist::{Engine, Memory, NODES_MAX, View};

use crate::{
    Builder, CALLED_SLOT, ClientMachine, ClientProgram, ClosedLoops, Cluster, ClusterHost, ClusterShape,
    DATAGRAM_BYTES, MachineOf, NodeHost, Planted, SimulatedHalf, SimulatedNode, Views, clock, incarnation,
    node_id, peers, running,
};

/// Parameters of the queue pairs: a time-out of 262 us and seven retries. Real processes use 67 ms to allow
/// for the scheduling of an operating system, which would outlast the faults of a simulated run.
const TERMS: ConnectionParameters =
    ConnectionParameters { path_mtu: PathMtu::Bytes1024, timeout: 6, retry_cnt: 7, max_rd_atomic: 4 };

/// A node: NIC with its engines, and the program on its host.
type NodeOf<A> = NicMachine<SoftNic<<A as Assemble>::Engine>, NodeHost<<A as Assemble>::Half>>;

/// Assembles the card of a node, each time its process starts.
pub trait Assemble {
    /// An engine of the card.
    type Engine: Engine;
    /// The host half of an engine.
    type Half: SimulatedHalf;

    /// The card with its engines, and their host halves in slot order.
    fn assemble(&self, card: &CardParameters) -> (Card<Self::Engine>, Vec<Self::Half>);
}

/// Returns the shipped engines of a card; called for each card.
pub type MakeEngines = Rc<dyn Fn() -> Vec<EngineChoice<'static>>>;

impl Assemble for MakeEngines {
    type Engine = NodeEngine;
    type Half = NodeHalf;

    fn assemble(&self, card: &CardParameters) -> (Card<NodeEngine>, Vec<NodeHalf>) {
        assemble(card, self())
    }
}

/// A card with one engine of any type. The function makes the engine and the memory near it; the host has no
/// part in the engine's work.
#[derive(Clone, Copy, Debug)]
pub struct OneEngine<F>(pub F);

impl<E: Engine, F: Fn() -> (E, Memory)> Assemble for OneEngine<F> {
    type Engine = E;
    type Half = NoHalf;

    fn assemble(&self, card: &CardParameters) -> (Card<E>, Vec<NoHalf>) {
        let mut peers = [None; NODES_MAX];
        for (place, peer) in peers.iter_mut().zip(&card.peers) {
            *place = Some(*peer);
        }
        let config = CardConfig {
            peers,
            datagram_bytes: card.datagram_bytes,
            transport: weft_rdma::Config::default(),
            region_bytes: 0,
        };
        (Card::new(config, vec![(self.0)()]), vec![NoHalf])
    }
}

/// Parameters of a cluster.
#[derive(Clone)]
pub struct ShippedParameters<A = MakeEngines> {
    /// Nodes, 1 to 16.
    pub nodes: usize,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// The engines of each card; the clients call the first one.
    pub engines: A,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Cost profile of the cards.
    pub profile: CostProfile,
    /// Length of a lease.
    pub lease: Duration,
    /// Maximum drift of the clocks of all machines, including those of clients, in parts per million.
    pub drift_ppm: u32,
    /// The bug that is planted around the engines, if any.
    pub planted: Planted,
}

/// Builds nodes as `weft start` does.
pub struct ShippedNodes<C, A = MakeEngines> {
    parameters: ShippedParameters<A>,
    stations: Vec<ClusterHost>,
    clients: PhantomData<C>,
}

impl<C: ClientProgram, A: Assemble> Builder for ShippedNodes<C, A> {
    type Node = NodeOf<A>;
    type Clients = ClientMachine<C>;

    fn build(&mut self, node: usize, life: u32, _: Instant) -> NodeOf<A> {
        let (incarnation, node) = (incarnation(life), node_id(node));
        let card = CardParameters {
            node,
            first_session: incarnation.get(),
            peers: peers(self.parameters.nodes).into_iter().flatten().collect(),
            datagram_bytes: DATAGRAM_BYTES,
            connection: TERMS,
        };
        let (card, halves) = self.parameters.engines.assemble(&card);
        let station = ClusterHost::Node(node);
        let mut nic = SoftNic::with_card(station.hardware(), station.address(), card);
        for neighbour in &self.stations {
            nic.add_neighbour(neighbour.address(), neighbour.hardware());
        }
        let views = Views::Service(AgentParameters::default(), self.parameters.nodes);
        let host = NodeHost::new(node, incarnation, views, halves, self.parameters.planted);
        NicMachine::new(nic, host, &self.parameters.profile)
    }

    /// A node may crash if another node is full in the newest view. With engines that do not rely on leases,
    /// a majority of other nodes must be full.
    fn may_crash(&mut self, machines: &Machines<MachineOf<Self>>, victim: usize, view: &View) -> bool {
        let holds_all = |(index, node): &(usize, &NodeOf<A>)| {
            *index != victim && view.full.contains(node_id(*index)) && node.is_full_in(view.epoch)
        };
        let outlives = |(_, node): (usize, &NodeOf<A>)| {
            let node = node.host().node();
            (0..node.slots()).any(|slot| node.half(slot).keeps_data_without_lease())
        };
        let needed = if running(machines).any(outlives) { self.parameters.nodes / 2 + 1 } else { 1 };
        running(machines).filter(holds_all).count() >= needed
    }
}

/// A simulated cluster with closed loops of clients.
pub type ClusterOf<C, A> = Cluster<ShippedNodes<ClosedLoops<C>, A>>;

impl<C: ClientProgram, A: Assemble> Cluster<ShippedNodes<C, A>> {
    /// A cluster of the shipped node at time zero, with a machine for each of the client programs.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn shipped(
        parameters: ShippedParameters<A>,
        plan: &FaultPlan,
        clients: Vec<C>,
    ) -> Result<Self, PlanError> {
        let ShippedParameters { nodes, seed, network, lease, drift_ppm, planted, .. } = parameters;
        let network = network.with_cables();
        let client_stations = (0..clients.len()).map(|index| ClusterHost::Clients(index as u8));
        let stations =
            (0..nodes).map(ClusterHost::node).chain([ClusterHost::Membership]).chain(client_stations.clone());
        let shape = ClusterShape {
            keepers: 1,
            nodes,
            service: Some(ServiceParameters::new(nodes, lease)),
            planted,
            seed,
            keys: None,
            switch: network.switch(),
            plan: plan.clone(),
        };
        let builder = ShippedNodes { parameters, stations: stations.collect(), clients: PhantomData };
        let clients =
            client_stations.zip(clients).map(|(station, driver)| ClientMachine::new(station, driver));
        Self::new(&shape, builder, clients, |index, station| {
            let mut port = network.port(station.name(), station.hardware().0);
            port.clock = clock(seed, index, drift_ppm);
            port
        })
    }

    /// The engines that clients call, of all running nodes.
    pub fn called_engines(&self) -> impl Iterator<Item = (usize, &A::Engine)> {
        self.running().map(|(index, node)| (index, node.nic().card().engine(CALLED_SLOT).0))
    }

    /// The client program of each machine, with the machine's clock.
    pub fn drivers(&self) -> impl Iterator<Item = (LocalClock, &C)> {
        let of = |id| Some((self.world.clock(id), &self.world.machine(id)?.clients()?.driver));
        self.client_machines().filter_map(of)
    }

    /// Calls `tell` with the client program of each machine and the time on the machine's clock.
    pub fn for_each_driver(&mut self, mut tell: impl FnMut(Instant, &mut C)) {
        for id in self.client_machines() {
            self.world.with_machine(id, |machine, now| {
                if let Some(machine) = machine.clients_mut() {
                    tell(now, &mut machine.driver);
                }
            });
        }
    }
}
