//! A cluster whose engines write to each other's memories, on cards and in processes with RDMA cards.

#![allow(dead_code, reason = "each user takes a part")]

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{CardConfig, HostCommand, HostEvent, NoEngine, Peering, RdmaDriver, SoftNic, SoftNicConfig};
use weft_sim::{Commands, CostProfile, EngineOnHost, HAMBAND_PROCESS, Host, HostConfig, Machine, NicMachine};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Operation, PathMtu, ProtectionDomain, QueuePairAttributes,
    QueuePairNumber, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};
use weft_waist::{
    Caller, Capabilities, Engine, EngineStatus, Event, Io, Memory, NODES_MAX, NodeId, NodeSet, engine_address,
};
use weft_wire::datagram;
use weft_wire::ethernet::MacAddress;

/// Answered at once.
pub const QUERY: u8 = 0;
/// Written to all peers, and answered when a majority has it.
pub const UPDATE: u8 = 1;
/// Sent to all peers by datagram, and not answered.
pub const GREET: u8 = 2;
/// Revokes the peers' write permission; answered.
pub const CLOSE: u8 = 3;
/// Connects to all peers with the PSNs of the next generation, and grants write permission; answered.
pub const RECONNECT: u8 = 4;
/// Sets a timer, and is answered when it fires.
pub const ALARM: u8 = 5;
/// Makes the engine poll its memory; answered when node 0's first update has arrived.
pub const AWAIT: u8 = 6;

/// Interval between polls.
pub const LOOKS_EVERY: Duration = Duration::from_ns(100);

/// Time after which an alarm fires.
pub const ALARM_AFTER: Duration = Duration::from_us(3);

const LOOK: u32 = 2;
const SLOT_BYTES: usize = 64;
const SLOTS: u64 = 64;
const RING_BYTES: usize = SLOT_BYTES * SLOTS as usize;
/// Bytes of an engine's memory: a ring for each node.
pub const MEMORY_BYTES: usize = RING_BYTES * NODES_MAX;
const GENERATION: u32 = 1 << 20;
const READ_AND_WRITE: AccessFlags = AccessFlags::REMOTE_READ.with(AccessFlags::REMOTE_WRITE);

/// The connection of an engine to a peer.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub queue_pair: QueuePairNumber,
    pub rkey: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    caller: Option<Caller>,
    sequence: u64,
    have: u32,
}

/// Writes each update into its own ring at all peers.
#[derive(Debug)]
pub struct Replicator {
    node: usize,
    lkey: u32,
    /// Address of its memory for verbs.
    base: u64,
    pub peers: Vec<Peer>,
    generation: u32,
    sequence: u64,
    pending: [Pending; SLOTS as usize],
    alarm: Option<Caller>,
    awaits: Option<Caller>,
    pub failed: Vec<CompletionStatus>,
    pub heard: Vec<(NodeId, Instant)>,
}

impl Replicator {
    fn new(node: usize, base: u64) -> Self {
        Self {
            node,
            lkey: 0,
            base,
            peers: Vec::new(),
            generation: 0,
            sequence: 0,
            pending: [Pending { caller: None, sequence: 0, have: 0 }; SLOTS as usize],
            alarm: None,
            awaits: None,
            failed: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// Offset in every memory of the slot of an update.
    pub fn slot(node: usize, sequence: u64) -> usize {
        node * RING_BYTES + (sequence % SLOTS) as usize * SLOT_BYTES
    }

    fn connect(&self, io: &mut Io<'_>) {
        let psn = self.generation * GENERATION;
        for peer in &self.peers {
            io.effects.connect(peer.queue_pair, psn, psn);
            io.effects.access(peer.queue_pair, READ_AND_WRITE);
        }
    }

    fn update(&mut self, caller: Caller, payload: &[u8], io: &mut Io<'_>) {
        self.sequence += 1;
        let at = Self::slot(self.node, self.sequence);
        let mut slot = [0; SLOT_BYTES];
        slot[..payload.len()].copy_from_slice(payload);
        io.memory.image_mut()[at..at + SLOT_BYTES].copy_from_slice(&slot);
        self.pending[(self.sequence % SLOTS) as usize] =
            Pending { caller: Some(caller), sequence: self.sequence, have: 1 };
        let address = self.base + at as u64;
        for peer in &self.peers {
            let remote = RemoteAddress { address, rkey: peer.rkey };
            let local = LocalBuffer { address, length: SLOT_BYTES as u32, lkey: self.lkey };
            let write = Operation::Write { remote, immediate: None };
            io.effects.post(peer.queue_pair, WorkRequest::new(self.sequence, write, local));
        }
    }
}

impl Engine for Replicator {
    const NEEDS: Capabilities = Capabilities::VERBS;

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Configure(_) => self.connect(io),
            Event::Call { caller, message, .. } => match message.kind {
                QUERY => io.effects.reply(caller, QUERY, &[message.payload]),
                UPDATE => self.update(caller, message.payload, io),
                GREET => {
                    let nodes = (0..=self.peers.len()).filter(|node| *node != self.node);
                    let all = nodes.filter_map(NodeId::new).fold(NodeSet::EMPTY, NodeSet::with);
                    io.effects.send(all, GREET, &[message.payload]);
                }
                CLOSE => {
                    for peer in &self.peers {
                        io.effects.access(peer.queue_pair, AccessFlags::REMOTE_READ);
                    }
                    io.effects.reply(caller, CLOSE, &[]);
                }
                RECONNECT => {
                    self.generation += 1;
                    self.connect(io);
                    io.effects.reply(caller, RECONNECT, &[]);
                }
                ALARM => {
                    self.alarm = Some(caller);
                    io.effects.set_timer(1, now + ALARM_AFTER);
                }
                AWAIT => {
                    self.awaits = Some(caller);
                    io.effects.set_timer(LOOK, now + LOOKS_EVERY);
                }
                kind => panic!("no call has kind {kind}"),
            },
            Event::Deliver { from, .. } => self.heard.push((from, now)),
            Event::Done { tag, status } => {
                if status != CompletionStatus::Success {
                    self.failed.push(status);
                    return;
                }
                let pending = &mut self.pending[(tag % SLOTS) as usize];
                if pending.sequence != tag {
                    return;
                }
                pending.have += 1;
                if pending.have as usize > self.peers.len().div_ceil(2)
                    && let Some(caller) = pending.caller.take()
                {
                    io.effects.reply(caller, UPDATE, &[]);
                }
            }
            Event::Timer { tag: LOOK } => {
                if io.memory.read(Self::slot(0, 1), SLOT_BYTES)[0] == 0 {
                    io.effects.set_timer(LOOK, now + LOOKS_EVERY);
                } else if let Some(caller) = self.awaits.take() {
                    io.effects.reply(caller, AWAIT, &[]);
                }
            }
            Event::Timer { .. } => {
                let caller = self.alarm.take().expect("somebody set it");
                io.effects.reply(caller, ALARM, &[]);
            }
            Event::Reset => {}
        }
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::STARTING
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Where the engines run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On the card, without a bus between application and engine.
    Card,
    /// In a process on the host of an RDMA card.
    Host,
    /// As `Host`, on this number of threads.
    Threads(u32),
    /// As `Host`, on two cores, one of which polls memory.
    TwoCores,
}

/// A node of either placement, with the application `A`.
#[derive(Debug)]
pub enum Node<A> {
    Card(Box<NicMachine<SoftNic<Replicator>, A>>),
    Host(Box<NicMachine<SoftNic<NoEngine>, EngineOnHost<Replicator, A>>>),
}

impl<A: Host> Node<A> {
    pub fn application(&self) -> &A {
        match self {
            Self::Card(machine) => machine.host(),
            Self::Host(machine) => machine.host().application(),
        }
    }

    pub fn engine(&self) -> &Replicator {
        match self {
            Self::Card(machine) => machine.nic().card().engine(0).0,
            Self::Host(machine) => machine.host().engine(),
        }
    }

    /// Counters of the engine's host.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Card(machine) => machine.nic().card().counters(),
            Self::Host(machine) => machine.host().counters(),
        }
    }

    pub fn memory(&self) -> &[u8] {
        match self {
            Self::Card(machine) => machine.nic().card().engine(0).1.image(),
            Self::Host(machine) => machine.nic().card().image(Target::Host),
        }
    }

    pub fn act(&mut self, now: Instant, act: impl FnOnce(&mut A, &mut Commands)) {
        match self {
            Self::Card(machine) => machine.with_host(now, act),
            Self::Host(machine) => {
                machine.with_host(now, |host, commands| host.with_application(now, commands, act));
            }
        }
    }

    pub fn call(&mut self, now: Instant, token: u32, kind: u8, payload: &[u8]) {
        self.act(now, |_, commands| {
            commands.submit(HostCommand::Call { engine: 0, token, kind, payload });
        });
    }
}

macro_rules! either {
    ($self:ident, $machine:ident => $do:expr) => {
        match $self {
            Node::Card($machine) => $do,
            Node::Host($machine) => $do,
        }
    };
}

impl<A: Host> Machine for Node<A> {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        either!(self, machine => machine.receive(now, frame));
    }

    fn next_deadline(&self) -> Option<Instant> {
        either!(self, machine => machine.next_deadline())
    }

    fn wake(&mut self, now: Instant) {
        either!(self, machine => machine.wake(now));
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        either!(self, machine => machine.poll_frame(frame))
    }
}

pub fn hardware(node: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, 1 + node as u8])
}

pub fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + node as u8)
}

fn peers_of(nodes: usize) -> [Option<SocketAddrV4>; NODES_MAX] {
    std::array::from_fn(|node| (node < nodes).then(|| SocketAddrV4::new(address(node), datagram::UDP_PORT)))
}

fn soft_nic_config(nodes: usize, node: usize, region_bytes: usize) -> SoftNicConfig {
    let card = CardConfig {
        peers: peers_of(nodes),
        datagram_bytes: 1_472,
        transport: weft_rdma::Config::default(),
        region_bytes,
    };
    SoftNicConfig { hardware: hardware(node), address: address(node), card }
}

/// Creates a queue pair for each peer, and the region over the engine's memory.
fn open(
    driver: &mut impl RdmaDriver,
    peers: usize,
    target: Target,
    base: u64,
) -> (Vec<QueuePairNumber>, RegionKeys) {
    let region = Region {
        domain: ProtectionDomain(0),
        address: base,
        length: MEMORY_BYTES as u64,
        access: AccessFlags::ALL,
        target,
        write_through: false,
        rpc: None,
    };
    let keys = driver.register_region(region).expect("there is room");
    let queue_pair = |_| driver.create_queue_pair(QueuePairAttributes::default()).expect("there is room");
    ((0..peers).map(queue_pair).collect(), keys)
}

/// The nodes of a cluster. The caller must make them connect (RECONNECT).
pub fn nodes<A: Host>(placement: Placement, nodes: usize, application: impl Fn(usize) -> A) -> Vec<Node<A>> {
    let others = |node: usize| (0..nodes).filter(move |other| *other != node);
    // All nodes are set up alike, so they have the same numbers and keys.
    let (target, base) = match placement {
        Placement::Card => (Target::Hbm, engine_address(0, 0)),
        Placement::Host | Placement::Threads(_) | Placement::TwoCores => (Target::Host, 0),
    };
    let peering = |node: usize, other: usize, numbers: &[QueuePairNumber]| Peering {
        destination: address(other),
        // The peer's queue pair for this node.
        destination_qp_num: numbers[if node < other { node } else { node - 1 }],
        path_mtu: PathMtu::Bytes1024,
        timeout: 3,
        retry_cnt: 7,
        max_rd_atomic: 4,
    };
    let prepare = |engine: &mut Replicator, numbers: &[QueuePairNumber], keys: RegionKeys| {
        engine.lkey = keys.lkey;
        let peer = |queue_pair: &QueuePairNumber| Peer { queue_pair: *queue_pair, rkey: keys.rkey };
        engine.peers = numbers.iter().map(peer).collect();
    };
    let place = |node: usize| match placement {
        Placement::Card => {
            let (numbers, keys) = {
                let mut model: SoftNic<NoEngine> = SoftNic::new(soft_nic_config(nodes, node, 0), Vec::new());
                open(&mut model, nodes - 1, target, base)
            };
            let mut engine = Replicator::new(node, base);
            prepare(&mut engine, &numbers, keys);
            let mut nic =
                SoftNic::new(soft_nic_config(nodes, node, 0), vec![(engine, Memory::new(MEMORY_BYTES))]);
            assert_eq!(open(&mut nic, nodes - 1, target, base), (numbers.clone(), keys));
            for (other, number) in others(node).zip(&numbers) {
                nic.add_neighbour(address(other), hardware(other));
                nic.card_mut().assign(*number, 0, peering(node, other, &numbers));
            }
            Node::Card(Box::new(NicMachine::new(nic, application(node), &CostProfile::FPGA_APPLICATION)))
        }
        Placement::Host | Placement::Threads(_) | Placement::TwoCores => {
            let mut nic: SoftNic<NoEngine> =
                SoftNic::new(soft_nic_config(nodes, node, MEMORY_BYTES), Vec::new());
            let (numbers, keys) = open(&mut nic, nodes - 1, target, base);
            let mut engine = Replicator::new(node, base);
            prepare(&mut engine, &numbers, keys);
            let config = HostConfig {
                hardware: hardware(node),
                address: address(node),
                peers: peers_of(nodes),
                datagram_bytes: 1_472,
            };
            let mut host = EngineOnHost::new(engine, application(node), config);
            if let Placement::Threads(threads) = placement {
                host = host.with_threads(threads);
            }
            if placement == Placement::TwoCores {
                host = host.with_two_cores(&HAMBAND_PROCESS);
            }
            for (other, number) in others(node).zip(&numbers) {
                nic.add_neighbour(address(other), hardware(other));
                host.add_neighbour(address(other), hardware(other));
                host.assign(*number, peering(node, other, &numbers));
            }
            Node::Host(Box::new(NicMachine::new(nic, host, &CostProfile::RDMA_CARD)))
        }
    };
    (0..nodes).map(place).collect()
}

/// An application that records replies and their times.
#[derive(Debug, Default)]
pub struct Listener {
    pub answered: Vec<(Instant, u32, u8)>,
}

impl Host for Listener {
    fn handle(&mut self, now: Instant, event: HostEvent, _: &mut Commands) {
        if let HostEvent::Reply { token, kind, .. } = event {
            self.answered.push((now, token, kind));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn wake(&mut self, _: Instant, _: &mut Commands) {}
}
