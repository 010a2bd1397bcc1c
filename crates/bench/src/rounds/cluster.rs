//! A cluster of nodes with the rounds engine in their NICs, on a simulated network.

use std::cell::RefCell;
use std::rc::Rc;

use weft_nic::{CardConfig, SoftNic, SoftNicConfig};
use weft_sim::{
    CostProfile, Director, Execution, FaultPlan, Machine, MachineId, Machines, NetworkProfile, NicMachine,
    PlanError, World,
};
use weft_time::{Duration, Instant};
use weft_waist::{Engine, Memory};
use weft_wire::datagram;

use super::engines::{EngineParameters, NodeEngine};
use super::host::{Beginning, Books, HostLoad, ROUNDS_SLOT, RoundsHost};
use super::register::{self, RegisterClients};
use crate::node::{DATAGRAM_BYTES, address, clock, hardware, peers};

/// What a frame has beside its one message: Ethernet, IPv4, UDP, Weft's datagram.
const FRAME_OVERHEAD: usize = 14 + 20 + 8 + datagram::HEADER_BYTES + datagram::TRAILER_BYTES;

/// What a frame occupies of the wire beside its bytes, until its last bit is out: preamble and check sequence.
const WIRE_OVERHEAD: usize = 8 + 4;

/// A clock cycle of the engine's timers.
pub(super) const CYCLE: Duration = Duration::from_ns(4);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub(super) nodes: usize,
    pub(super) network: NetworkProfile,
    /// Clocks gain or lose up to this, in millionths.
    pub(super) drift_ppm: u32,
    /// What hosts propose; without it the nodes hold a register, and clients on a machine of their own ask for it.
    pub(super) load: Option<HostLoad>,
    pub(super) engine: EngineParameters,
    pub(super) seed: u64,
    pub(super) plan: FaultPlan,
}

/// When clients begin to ask: the cluster is founded by then.
const CLIENTS_BEGIN: Instant = Instant::from_ps(60_000_000);

/// A machine of the cluster.
pub(super) enum ClusterMachine {
    /// A node: its host and its card.
    Node(Box<NicMachine<SoftNic<NodeEngine>, RoundsHost>>),
    /// The clients of the register.
    Clients(Box<RegisterClients>),
}

impl ClusterMachine {
    fn inner(&self) -> &dyn Machine {
        match self {
            Self::Node(machine) => &**machine,
            Self::Clients(machine) => &**machine,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Machine {
        match self {
            Self::Node(machine) => &mut **machine,
            Self::Clients(machine) => &mut **machine,
        }
    }
}

impl Machine for ClusterMachine {
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
    pub(super) world: World<ClusterMachine>,
    pub(super) books: Rc<RefCell<Books>>,
    director: NodeBuilder,
    clients: Option<MachineId>,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        let books = Books::new(parameters.nodes);
        let director = NodeBuilder {
            nodes: parameters.nodes,
            load: parameters.load,
            engine: parameters.engine.clone(),
            books: Rc::clone(&books),
        };
        let mut world = World::new(parameters.seed, parameters.network.switch());
        for node in 0..parameters.nodes {
            let mut port = parameters.network.port(format!("node{node}"), hardware(node).0);
            port.clock = clock(parameters.seed, node, parameters.drift_ppm);
            world.add_machine(port, director.build(node, 0));
        }
        let clients = parameters.load.is_none().then(|| {
            let clients = RegisterClients::new(parameters.nodes, parameters.seed, CLIENTS_BEGIN);
            let port = parameters.network.port("clients0", register::HARDWARE.0);
            world.add_machine(port, ClusterMachine::Clients(Box::new(clients)))
        });
        world.set_plan(&parameters.plan)?;
        Ok(Self { world, books, director, clients })
    }

    /// The clients of the register.
    pub(super) fn clients(&self) -> Option<&RegisterClients> {
        match self.world.machine(self.clients?) {
            Some(ClusterMachine::Clients(clients)) => Some(clients),
            _ => None,
        }
    }

    /// Nobody proposes or asks anything new from now on.
    pub(super) fn end_load(&mut self) {
        self.books.borrow_mut().proposing = false;
        if let Some(clients) = self.clients {
            self.world.with_machine(clients, |machine, _| {
                if let ClusterMachine::Clients(clients) = machine {
                    clients.stop();
                }
            });
        }
    }

    /// The engine of a node that is there.
    fn engine(&self, node: usize) -> Option<&NodeEngine> {
        match self.world.machine(MachineId::new(node))? {
            ClusterMachine::Node(machine) => Some(machine.nic().card().engine(ROUNDS_SLOT).0),
            ClusterMachine::Clients(_) => None,
        }
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

    /// A counter of the engine of a node; `None` if the node is down.
    pub(super) fn counter(&self, node: usize, name: &str) -> Option<u64> {
        let counters = self.engine(node)?.counters();
        let found = counters.iter().find(|(known, _)| *known == name);
        Some(found.unwrap_or_else(|| panic!("an engine counts {name}")).1)
    }

    /// The sum of a counter over all nodes that run.
    pub(super) fn sum(&self, name: &str) -> u64 {
        (0..self.director.nodes).filter_map(|node| self.counter(node, name)).sum()
    }

    /// Whether a node is there.
    pub(super) fn is_up(&self, node: usize) -> bool {
        self.world.machine(MachineId::new(node)).is_some()
    }

    /// What the clock of a node shows.
    pub(super) fn local_now(&self, node: usize) -> Instant {
        self.world.local_now(MachineId::new(node))
    }
}

/// The shortest time, in whole cycles, from an engine's message of `bytes` bytes to its delivery at another engine of the same
/// profile, over an idle path.
pub(super) fn one_way(profile: &CostProfile, network: &NetworkProfile, bytes: usize) -> Duration {
    let stack = profile
        .receive
        .iter()
        .chain(profile.transmit)
        .fold(Duration::ZERO, |sum, part| sum + part.duration());
    let work = match profile.execution {
        // The work on the event that sends: at least one message.
        Execution::Pipeline { cycle, message_cycles, .. } => cycle.duration() * message_cycles.value,
        Execution::Cores { .. } | Execution::Verbs { .. } | Execution::Clocked { .. } => Duration::ZERO,
    };
    let on_wire = (FRAME_OVERHEAD + datagram::message_bytes(bytes)).max(60) + WIRE_OVERHEAD;
    // At 100 Gb/s, on both links.
    let wire = Duration::from_ps(80) * on_wire as u64 * 2;
    let all = stack + work + wire + network.least();
    CYCLE * (all.as_ps() / CYCLE.as_ps())
}

/// Cycles that a port of 100 Gb/s is busy with what a node says in a round of `bytes` bytes to each of `peers` others.
pub(super) fn port_cycles(peers: usize, bytes: usize) -> u64 {
    // 12 bytes of gap behind each frame.
    let on_wire = (FRAME_OVERHEAD + datagram::message_bytes(bytes)).max(60) + WIRE_OVERHEAD + 12;
    (Duration::from_ps(80) * (on_wire * peers) as u64).as_ps().div_ceil(CYCLE.as_ps())
}

/// Builds nodes, and brings those back, empty, that have crashed.
struct NodeBuilder {
    nodes: usize,
    load: Option<HostLoad>,
    engine: EngineParameters,
    books: Rc<RefCell<Books>>,
}

impl NodeBuilder {
    fn build(&self, node: usize, life: u32) -> ClusterMachine {
        let card = CardConfig {
            peers: peers(self.nodes),
            datagram_bytes: DATAGRAM_BYTES,
            transport: weft_rdma::Config {
                max_queue_pairs: 1,
                completion_queue_depth: 1,
                ..Default::default()
            },
            region_bytes: 0,
        };
        let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
        let mut nic = SoftNic::new(config, vec![(self.engine.build(), Memory::new(0))]);
        for peer in 0..self.nodes {
            nic.add_neighbour(address(peer), hardware(peer));
        }
        nic.add_neighbour(register::ADDRESS, register::HARDWARE);
        let beginning = if life == 0 { Beginning::Founder { starts: node == 0 } } else { Beginning::Joiner };
        let host = RoundsHost::new(node, self.nodes, life, beginning, self.load, Rc::clone(&self.books));
        ClusterMachine::Node(Box::new(NicMachine::new(nic, host, &CostProfile::FPGA)))
    }
}

impl Director<ClusterMachine> for NodeBuilder {
    fn may_crash(&mut self, _: &Machines<ClusterMachine>, _: MachineId) -> bool {
        true
    }

    fn crashed(&mut self, machine: MachineId, _: ClusterMachine) {
        self.books.borrow_mut().agreement.stopped(machine.index());
    }

    fn restart(&mut self, machine: MachineId, life: u32, now: Instant) -> ClusterMachine {
        self.books.borrow_mut().restarted(machine.index(), now);
        self.build(machine.index(), life)
    }
}
