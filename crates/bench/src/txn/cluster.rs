//! A cluster of servers with their clients, in a simulated network.

use weft_harness::{DATAGRAM_BYTES, address, hardware, peers};
use weft_nic::{CardConfig, NoEngine, Peering, RdmaDriver, SoftNic, SoftNicConfig};
use weft_sim::{
    CostProfile, EngineOnHost, FaultPlan, HOST_DATAGRAMS, HostConfig, HostMeter, HostThreads, Machine,
    MachineId, NetworkProfile, NicMachine, NoCrashes, PlanError, SwitchConfig, Usage, World, Wrapper,
};
use weft_time::Duration;
use weft_txn::Wiring;
use weft_txn::{Key, Transactions, Version};
use weft_verbs::{
    AccessFlags, PathMtu, ProtectionDomain, QueuePairAttributes, QueuePairNumber, Region, Target,
};
use weft_waist::Memory;

use super::books::Shared;
use super::host::{NodeHost, SLOT};
use super::system::System;

/// Maximum number of outstanding READs of a server at a peer, and maximum number of posted work requests to a
/// peer.
const READS: u8 = 255;
const POSTS: u32 = 8_192;

/// Parameters of the machines of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machinery {
    pub(super) nodes: usize,
    pub(super) system: System,
    /// Cost profile of the NIC.
    pub(super) profile: CostProfile,
    /// Threads of the program on each host.
    pub(super) threads: u32,
    /// Whether messages share frames and packets.
    pub(super) aggregates: bool,
    /// Whether a core of the card waits for its DMA copies.
    pub(super) waits_for_dma: bool,
    pub(super) network: NetworkProfile,
    pub(super) link_bits_per_s: u64,
    pub(super) seed: u64,
}

/// Parts of a server.
pub(super) struct Server {
    pub(super) engine: Transactions,
    /// Memory near the engine.
    pub(super) memory: Memory,
    /// The program of its host.
    pub(super) host: NodeHost,
    /// Memory of the host, if the engine is on the card.
    pub(super) host_memory: Vec<u8>,
    /// CPU time of the engine's computations.
    pub(super) meter: HostMeter,
}

/// A server with its engine on the card or on the host.
pub(super) enum Node {
    Card(Box<NicMachine<SoftNic<Transactions>, HostThreads<NodeHost>>>),
    Host(Box<NicMachine<SoftNic<NoEngine>, EngineOnHost<Transactions, NodeHost>>>),
}

impl Wrapper for Node {
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
}

impl Node {
    pub(super) fn engine(&self) -> &Transactions {
        match self {
            Self::Card(machine) => machine.nic().card().engine(SLOT).0,
            Self::Host(machine) => machine.host().engine(),
        }
    }

    /// Mutable access to the engine. The checker takes records from it.
    pub(super) fn engine_mut(&mut self) -> &mut Transactions {
        match self {
            Self::Card(machine) => machine.parts_mut().0.card_mut().engine_mut(SLOT),
            Self::Host(machine) => machine.parts_mut().1.engine_mut(),
        }
    }

    /// Calls `each` with every object of the server's tables.
    pub(super) fn for_each_object(&self, mut each: impl FnMut(Key, Version, &[u8])) {
        match self {
            Self::Card(machine) => {
                let memory = machine.nic().card().image(Target::Host);
                machine.host().program().half().for_each(memory, each);
            }
            Self::Host(machine) => {
                let shards = machine.host().engine().shards();
                shards.iter().for_each(|(key, version, value)| each(key, version, value));
                shards.for_each(machine.nic().card().image(Target::Host), each);
            }
        }
    }

    pub(super) fn host(&self) -> &NodeHost {
        match self {
            Self::Card(machine) => machine.host().program(),
            Self::Host(machine) => machine.host().application(),
        }
    }

    fn usage(&self) -> &Usage {
        match self {
            Self::Card(machine) => machine.usage(),
            Self::Host(machine) => machine.usage(),
        }
    }

    fn host_busy(&self) -> Duration {
        match self {
            Self::Card(machine) => machine.host().busy(),
            Self::Host(machine) => machine.host().busy(),
        }
    }

    fn receive_drops(&self) -> u64 {
        match self {
            Self::Card(machine) => machine.receive_drops(),
            Self::Host(machine) => machine.receive_drops(),
        }
    }
}

/// Resources that all servers together have used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) nic_busy: Duration,
    pub(super) host_busy: Duration,
    pub(super) messages: u64,
    pub(super) host_packets: u64,
    pub(super) dma_copies: u64,
    pub(super) dma_vectors: u64,
    pub(super) dma_bytes: u64,
    /// Frames that were dropped because a buffer was full.
    pub(super) drops: u64,
}

impl Totals {
    /// Resources that were used since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            frames: self.frames - earlier.frames,
            bytes: self.bytes - earlier.bytes,
            nic_busy: self.nic_busy - earlier.nic_busy,
            host_busy: self.host_busy - earlier.host_busy,
            messages: self.messages - earlier.messages,
            host_packets: self.host_packets - earlier.host_packets,
            dma_copies: self.dma_copies - earlier.dma_copies,
            dma_vectors: self.dma_vectors - earlier.dma_vectors,
            dma_bytes: self.dma_bytes - earlier.dma_bytes,
            drops: self.drops - earlier.drops,
        }
    }
}

/// A cluster in a simulated world.
pub(super) struct Cluster {
    pub(super) world: World<Node>,
    pub(super) books: Shared,
    nodes: usize,
}

impl Cluster {
    /// A cluster of these servers, at time zero.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub(super) fn new(
        machinery: &Machinery,
        books: Shared,
        servers: impl Iterator<Item = Server>,
        plan: &FaultPlan,
    ) -> Result<Self, PlanError> {
        let network = machinery.network.with_cables();
        let forwarding_latency = network.switch().forwarding_latency;
        let switch = SwitchConfig { forwarding_latency, ..SwitchConfig::lossless() };
        let mut world = World::new(machinery.seed, switch);
        for (node, server) in servers.enumerate() {
            let mut port = network.port(format!("node{node}"), hardware(node).0);
            port.to_switch.bits_per_s = machinery.link_bits_per_s;
            port.from_switch.bits_per_s = machinery.link_bits_per_s;
            world.add_machine(port, machinery.node(node, server));
        }
        world.set_plan(plan)?;
        Ok(Self { world, books, nodes: machinery.nodes })
    }

    /// Runs the simulation for this time.
    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.world.run_until(until, &mut NoCrashes);
    }

    pub(super) fn node(&self, node: usize) -> &Node {
        self.world.machine(MachineId::new(node)).expect("nobody crashes")
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        (0..self.nodes).map(|node| self.node(node))
    }

    /// Notifies all hosts that the load has changed.
    pub(super) fn nudge(&mut self) {
        for node in 0..self.nodes {
            self.world.with_machine(MachineId::new(node), |node, now| match node {
                Node::Card(machine) => machine.with_host(now, |threads, commands| {
                    threads.with_program(now, commands, |host, commands| host.nudge(now, commands));
                }),
                Node::Host(machine) => machine.with_host(now, |process, commands| {
                    process.with_application(now, commands, |host, commands| host.nudge(now, commands));
                }),
            });
        }
    }

    /// Resources that all servers together have used so far.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (index, node) in self.nodes().enumerate() {
            let (to_switch, from_switch) = self.world.link_counters(MachineId::new(index));
            let usage = node.usage();
            totals.frames += to_switch.frames;
            totals.bytes += to_switch.bytes;
            totals.nic_busy += usage.busy;
            totals.host_busy += node.host_busy();
            totals.messages += usage.messages;
            totals.host_packets += usage.host_packets;
            totals.dma_copies += usage.dma_reads + usage.dma_writes;
            totals.dma_vectors += usage.dma_vectors;
            totals.dma_bytes += usage.dma_bytes;
            totals.drops += from_switch.queue_drops + node.receive_drops();
        }
        totals
    }
}

impl Machinery {
    /// Parameters of a card's transport: one queue pair for each other server, in order.
    fn transport(&self) -> weft_rdma::Config {
        weft_rdma::Config {
            max_queue_pairs: self.nodes.max(1),
            // One of the regions belongs to the card itself.
            max_regions: 2,
            // One queue pair represents those of all threads of a server.
            max_rd_atomic: READS,
            max_queue_depth: POSTS,
            window_packets: POSTS,
            completion_queue_depth: POSTS as usize * self.nodes,
            ..Default::default()
        }
    }

    fn node(&self, node: usize, server: Server) -> Node {
        let Server { engine, mut memory, mut host, host_memory, meter } = server;
        let card = CardConfig {
            peers: peers(self.nodes),
            datagram_bytes: DATAGRAM_BYTES,
            transport: self.transport(),
            region_bytes: 0,
        };
        let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
        let others = (0..self.nodes).filter(|other| *other != node);
        match self.system {
            System::Weft => {
                let mut nic = SoftNic::new(config, vec![(engine, memory)]);
                *nic.card_mut().region_memory().bytes_mut(Target::Host) = host_memory;
                nic.card_mut().set_aggregation(self.aggregates);
                nic.card_mut().set_meter(Box::new(meter));
                others.for_each(|other| nic.add_neighbour(address(other), hardware(other)));
                let host = HostThreads::new(host, self.threads);
                let mut machine = NicMachine::new(nic, host, &self.profile);
                machine.set_aggregation(self.aggregates);
                machine.set_waits_for_dma(self.waits_for_dma);
                Node::Card(Box::new(machine))
            }
            System::Fasst | System::DrtmH | System::DrtmHNoCache | System::DrtmR => {
                let mut nic: SoftNic<NoEngine> = SoftNic::new(config, Vec::new());
                let memory_bytes = memory.image().len();
                memory.exchange(nic.card_mut().region_memory().bytes_mut(Target::Host));
                let config = HostConfig {
                    hardware: hardware(node),
                    address: address(node),
                    peers: peers(self.nodes),
                    datagram_bytes: DATAGRAM_BYTES,
                };
                let peerings = if self.system.is_one_sided() {
                    self.connect(node, &mut nic, memory_bytes, &mut host)
                } else {
                    Vec::new()
                };
                let process = EngineOnHost::new(engine, host, config).with_threads(self.threads);
                let mut process = process.with_cost(&HOST_DATAGRAMS).with_meter(Box::new(meter));
                for other in others {
                    nic.add_neighbour(address(other), hardware(other));
                    process.add_neighbour(address(other), hardware(other));
                }
                for (queue_pair, peering) in peerings {
                    process.assign(queue_pair, peering);
                }
                Node::Host(Box::new(NicMachine::new(nic, process, &self.profile)))
            }
        }
    }

    /// Connects a server's card with the other cards, and passes queue pairs and keys to the program of its
    /// host. All cards are set up in the same way, so their queue pair numbers and keys are equal.
    fn connect(
        &self,
        node: usize,
        nic: &mut SoftNic<NoEngine>,
        memory_bytes: usize,
        host: &mut NodeHost,
    ) -> Vec<(QueuePairNumber, Peering)> {
        let others = (0..self.nodes).filter(|other| *other != node);
        let attributes = QueuePairAttributes { max_send_wr: POSTS, max_recv_wr: 1, ..Default::default() };
        let numbers: Vec<QueuePairNumber> =
            others.clone().map(|_| nic.create_queue_pair(attributes).expect("there is room")).collect();
        let region = Region {
            domain: ProtectionDomain(0),
            address: 0,
            length: memory_bytes as u64,
            access: AccessFlags::ALL,
            target: Target::Host,
            write_through: false,
            rpc: None,
        };
        let keys = nic.register_region(region).expect("there is room");
        let peering = |other: usize| Peering {
            destination: address(other),
            // The number of the peer's queue pair for this node.
            destination_qp_num: numbers[if node < other { node } else { node - 1 }],
            path_mtu: PathMtu::Bytes1024,
            timeout: 12,
            retry_cnt: 7,
            max_rd_atomic: READS,
        };
        let mut peerings = Vec::new();
        for (other, &queue_pair) in others.zip(&numbers) {
            let peering = peering(other);
            nic.connect(queue_pair, AccessFlags::ALL, peering.ready_to_receive(0), peering.ready_to_send(0))
                .expect("the queue pair is new");
            let (local_address, remote_address) = (0, 0);
            let wiring =
                Wiring { queue_pair, local_address, lkey: keys.lkey, remote_address, rkey: keys.rkey };
            host.wire(weft_txn::host_port::wire(other, &wiring));
            peerings.push((queue_pair, peering));
        }
        peerings
    }
}
