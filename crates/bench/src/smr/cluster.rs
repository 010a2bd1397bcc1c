//! A cluster of nodes with replicated logs in their NICs, on a simulated network.

use std::cell::RefCell;
use std::rc::Rc;

use weft_nic::{CardConfig, Peering, SoftNic, SoftNicConfig};
use weft_rdma::{AccessFlags, PathMtu, QueuePairAttributes, QueuePairNumber, Region, RegionKeys, Target};
use weft_sim::{
    CostProfile, Director, FaultPlan, LocalClock, MachineId, Machines, NetworkProfile, NicMachine, PlanError,
    Stream, World,
};
use weft_smr::log::{Log, LogParameters, Wire};
use weft_smr::message::PULSE;
use weft_smr::{Wiring, log};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, Memory, engine_address};

use super::host::{Books, ClientLoad, LOG_SLOT, LogHost};
use crate::node::{DATAGRAM_BYTES, address, hardware, peers};

/// 8.192 us: the least that there is.
const TIMEOUT: u8 = 1;
const RETRIES: u8 = 7;
const PATH_MTU: PathMtu = PathMtu::Bytes1024;

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub(super) struct ClusterParameters {
    pub log: LogParameters,
    pub network: NetworkProfile,
    /// Clocks gain or lose up to this, in millionths.
    pub drift_ppm: u32,
    pub load: ClientLoad,
    pub seed: u64,
    pub plan: FaultPlan,
}

pub(super) type LogMachine = NicMachine<SoftNic<Log>, LogHost>;

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub world: World<LogMachine>,
    pub books: Rc<RefCell<Books>>,
    director: NodeBuilder,
}

impl Cluster {
    /// A cluster at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn new(parameters: &ClusterParameters) -> Result<Self, PlanError> {
        let nodes = parameters.log.group.nodes;
        let books = Books::new(nodes, parameters.load);
        let director = NodeBuilder { log: parameters.log.clone(), books: Rc::clone(&books) };
        let mut world = World::new(parameters.seed, parameters.network.switch());
        for node in 0..nodes {
            let mut port = parameters.network.port(format!("node{node}"), hardware(node).0);
            port.clock = clock(parameters.seed, node as u64, parameters.drift_ppm);
            world.add_machine(port, director.build(node, 0));
        }
        world.set_plan(&parameters.plan)?;
        Ok(Self { world, books, director })
    }

    pub fn run_until(&mut self, until: Instant) {
        self.world.run_until(until, &mut self.director);
    }

    /// The engine of a node, if it runs.
    pub fn log(&self, node: usize) -> Option<&Log> {
        let id = self.world.machine_named(&format!("node{node}"))?;
        Some(self.world.machine(id)?.nic().card().engine(LOG_SLOT).0)
    }

    pub fn nodes(&self) -> usize {
        self.director.log.group.nodes
    }

    /// One of the engines' counters, summed.
    pub fn sum(&self, name: &str) -> u64 {
        let count = |node| {
            let counters = self.log(node)?.group().counters().list();
            counters.into_iter().find(|(known, _)| *known == name).map(|(_, count)| count)
        };
        (0..self.nodes()).filter_map(count).sum()
    }
}

/// A clock that runs a little too fast or too slow. All show nearly the same: clients that go from host to host read them.
fn clock(seed: u64, node: u64, drift_ppm: u32) -> LocalClock {
    let mut random = Stream::new(seed, "clock", node);
    let drift = random.between(0, 2 * u64::from(drift_ppm)) as i32 - drift_ppm as i32;
    LocalClock::new(Duration::ZERO, drift)
}

/// The queue pairs of a node towards a peer, for one purpose.
#[derive(Clone, Copy)]
struct Ends {
    request: QueuePairNumber,
    respond: QueuePairNumber,
}

/// Builds nodes, and brings those back, empty, that have crashed.
struct NodeBuilder {
    log: LogParameters,
    books: Rc<RefCell<Books>>,
}

impl NodeBuilder {
    fn build(&self, node: usize, life: u32) -> LogMachine {
        let nodes = self.log.group.nodes;
        let (nic, wires) = card_with_log(&self.log, node, Memory::new(self.log.memory_bytes()));
        let host = LogHost::new(node, nodes, life, wires, Rc::clone(&self.books));
        NicMachine::new(nic, host, &CostProfile::FPGA_APPLICATION)
    }
}

/// The card of a node with a log in [`LOG_SLOT`], and what the engine is to be told of its peers. All nodes must be made alike.
pub(crate) fn card_with_log(log: &LogParameters, node: usize, memory: Memory) -> (SoftNic<Log>, Vec<Wire>) {
    let nodes = log.group.nodes;
    let posts = log.group.posts_max() as u32;
    let card = CardConfig {
        peers: peers(nodes),
        datagram_bytes: DATAGRAM_BYTES,
        transport: weft_rdma::Config { max_queue_pairs: 4 * nodes, ..weft_rdma::Config::default() },
        region_bytes: 0,
    };
    let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
    let bytes = log.memory_bytes();
    let mut nic = SoftNic::new(config, vec![(Log::new(log.clone()), memory)]);
    let card = nic.card_mut();
    let region = Region {
        target: Target::Hbm,
        address: engine_address(LOG_SLOT, 0),
        ..Region::host(0, bytes as u64, AccessFlags::ALL)
    };
    let transport = card.transport();
    let keys = transport.register_region(region).expect("there is room for regions");
    let calling = Region { rpc: Some(LOG_SLOT), ..region };
    let call_keys = transport.register_region(calling).expect("there is room for regions");
    // All nodes make theirs in the same order, so that what a node's are called is known to all.
    let attributes = QueuePairAttributes { max_send_wr: posts, ..QueuePairAttributes::default() };
    let mut make = || transport.create_queue_pair(attributes).expect("there is room for queue pairs");
    let ends: Vec<[Ends; 2]> =
        (0..nodes).map(|_| [(); 2].map(|()| Ends { request: make(), respond: make() })).collect();
    let mut wires = Vec::new();
    for peer in (0..nodes).filter(|peer| *peer != node) {
        for (purpose, group) in [log::GROUP, PULSE].into_iter().enumerate() {
            let (own, theirs) = (ends[peer][purpose], ends[node][purpose]);
            for (queue_pair, other) in [(own.request, theirs.respond), (own.respond, theirs.request)] {
                card.assign(queue_pair, LOG_SLOT, peering(peer, other));
            }
            wires.push(Wire { group, peer, wiring: wiring(own, keys, call_keys) });
        }
    }
    for peer in 0..nodes {
        nic.add_neighbour(address(peer), hardware(peer));
    }
    (nic, wires)
}

fn peering(peer: usize, destination_qp_num: QueuePairNumber) -> Peering {
    Peering {
        destination: address(peer),
        destination_qp_num,
        path_mtu: PATH_MTU,
        timeout: TIMEOUT,
        retry_cnt: RETRIES,
        max_rd_atomic: 8,
    }
}

/// All nodes register the same regions first, so that their keys are the same.
fn wiring(ends: Ends, keys: RegionKeys, call_keys: RegionKeys) -> Wiring {
    let address = engine_address(LOG_SLOT, 0);
    Wiring {
        request: ends.request,
        respond: ends.respond,
        local_address: address,
        lkey: keys.lkey,
        remote_address: address,
        rkey: keys.rkey,
        call_rkey: call_keys.rkey,
        path_mtu: PATH_MTU.bytes(),
    }
}

impl Director<LogMachine> for NodeBuilder {
    /// A minority may have lost its memory at a time: that is what is tolerated.
    fn may_crash(&mut self, _: &Machines<LogMachine>, machine: MachineId) -> bool {
        let books = self.books.borrow();
        let others = books.states.iter().enumerate().filter(|(node, _)| *node != machine.index());
        let full = others.filter(|(_, state)| **state == EngineState::Full).count();
        full >= self.log.group.majority()
    }

    fn crashed(&mut self, machine: MachineId, _: LogMachine) {
        self.books.borrow_mut().crashed(machine.index());
    }

    fn restart(&mut self, machine: MachineId, life: u32, _: Instant) -> LogMachine {
        self.build(machine.index(), life)
    }
}
