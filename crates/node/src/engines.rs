//! The list of all engines that a node can have.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_cluster::Incarnation;
use weft_kv::{Kv, Role};
use weft_lock::Lock;
use weft_nic::{Card, CardConfig};
use weft_rdt::replica::{Replica, ReplicaParameters};
use weft_rounds::{Ckc, ClientServerParameters, Rounds};
use weft_smr::log::{Log, LogParameters};
use weft_store::{Disk, DiskError, RecoveryError};
use weft_time::Instant;
use weft_txn::Transactions;
use weft_verbs::Target;
use weft_waist::{
    Capabilities, Configuration, Engine, EngineState, EngineStatus, Event, Io, Memory, NODES_MAX, NodeId,
};
use weft_wire::datagram;

use crate::half::{HostHalf, HostIo, NoHalf};
use crate::kv::{KvHalf, store_parameters};
use crate::log::{EngineLog, FoundAgain};
use crate::processes::SESSIONS;
use crate::rounds::{RoundsHalf, RoundsPauses};
use crate::sessions::SessionHalf;
use crate::transactions::{Application, TransactionHalf, TransactionSizes, found};
use crate::wired::WiredHalf;
use crate::wiring::{ConnectionParameters, Connections, Purpose};

/// An engine of a node.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a card has a few of them, made once")]
pub enum NodeEngine {
    /// The key-value store.
    KeyValue(Kv),
    /// Transactions of the registered application.
    Transactions(Transactions),
    /// A replicated log.
    Log(Log),
    /// A replicated object.
    Object(Replica),
    /// Consensus in synchronous rounds.
    Rounds(Rounds<Ckc>),
    /// Locks with fencing tokens.
    Lock(Lock),
}

/// Makes the same call to any of the engines.
macro_rules! each {
    ($node_engine:expr, $engine:ident => $result:expr) => {
        match $node_engine {
            NodeEngine::KeyValue($engine) => $result,
            NodeEngine::Transactions($engine) => $result,
            NodeEngine::Log($engine) => $result,
            NodeEngine::Object($engine) => $result,
            NodeEngine::Rounds($engine) => $result,
            NodeEngine::Lock($engine) => $result,
        }
    };
}

impl NodeEngine {
    /// Role of the engine in its view, for operators.
    pub fn role(&self) -> Role {
        if let Self::KeyValue(engine) = self {
            return engine.role();
        }
        let acts = if let Self::Transactions(engine) = self { engine.acts() } else { true };
        match self.status().state {
            EngineState::Starting => Role::Outside,
            EngineState::Joining { .. } => Role::Joining,
            EngineState::Full if acts => Role::Full,
            EngineState::Full | EngineState::Sealed | EngineState::Restored => Role::Sealed,
            EngineState::Lost => Role::Lost,
        }
    }

    /// Number of shards that this node leads, and number of all shards; both 0 if the engine has no leaders.
    pub fn shards_led(&self) -> (u32, u32) {
        match self {
            Self::KeyValue(engine) => (engine.partitions_led(), weft_kv::PARTITIONS),
            Self::Transactions(engine) => engine.shards_led(),
            Self::Log(engine) => (engine.group().is_leading().into(), 1),
            Self::Object(engine) => {
                let (leads, groups) = engine.groups_led();
                (leads as u32, groups as u32)
            }
            Self::Rounds(_) => (0, 0),
            Self::Lock(engine) => (engine.leads().into(), 1),
        }
    }

    /// The description of one of the engine's counters; empty if there is no counter of this name.
    pub fn counter_help(&self, counter: &str) -> &'static str {
        let (own, more): (_, &[(&str, &str)]) = match self {
            Self::KeyValue(_) => (weft_kv::COUNTER_HELP, &[]),
            Self::Transactions(_) => (weft_txn::Counters::HELP, &[]),
            Self::Log(_) => (weft_smr::Counters::HELP, weft_smr::log::COUNTER_HELP),
            Self::Object(_) => (weft_rdt::replica::Counters::HELP, weft_smr::Counters::HELP),
            Self::Rounds(_) => (weft_rounds::COUNTER_HELP, &[]),
            Self::Lock(_) => (weft_lock::COUNTER_HELP, &[]),
        };
        let found = own.iter().chain(more).find(|(name, _)| *name == counter);
        found.map_or("", |(_, help)| help.trim_start())
    }

    /// The transactions engine, if it is one.
    pub const fn transactions_mut(&mut self) -> Option<&mut Transactions> {
        if let Self::Transactions(engine) = self { Some(engine) } else { None }
    }
}

impl Engine for NodeEngine {
    const NEEDS: Capabilities = Capabilities::ALL;

    fn needs(&self) -> Capabilities {
        each!(self, engine => engine.needs())
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        each!(self, engine => engine.handle(now, event, io));
    }

    fn status(&self) -> EngineStatus {
        each!(self, engine => engine.status())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        each!(self, engine => engine.counters())
    }

    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        each!(self, engine => engine.waits_for(peer))
    }
}

/// The host half of a node's engine. An engine's host half is the part of it that runs on the host.
#[derive(Debug)]
pub enum NodeHalf {
    /// The half of an engine that runs completely on the card.
    None(NoHalf),
    /// The half of the key-value store with a log on disk.
    KeyValue(KvHalf),
    /// The half of transactions.
    Transactions(TransactionHalf),
    /// The half of an engine with queue pairs of its own.
    Wired(WiredHalf),
    /// The half of the rounds.
    Rounds(RoundsHalf),
    /// The half of an engine whose clients have sessions on the host.
    Sessions(SessionHalf),
}

impl NodeHalf {
    /// The error of the disk that makes the node stop, if there was one.
    pub fn failure(&self) -> Option<&DiskError> {
        match self {
            Self::KeyValue(half) => half.failure(),
            Self::Transactions(half) => half.failure(),
            _ => None,
        }
    }

    /// What the engine continues with that was restored from its disk, or why nothing was. `None` if there was nothing
    /// on it, or while the node does not serve with it.
    pub fn found_again(&self) -> Option<FoundAgain> {
        match self {
            Self::KeyValue(half) => half.found_again().copied().map(FoundAgain::Store),
            Self::Transactions(half) => half.found_again(),
            _ => None,
        }
    }

    fn inner(&self) -> &dyn HostHalf {
        match self {
            Self::None(half) => half,
            Self::KeyValue(half) => half,
            Self::Transactions(half) => half,
            Self::Wired(half) => half,
            Self::Rounds(half) => half,
            Self::Sessions(half) => half,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn HostHalf {
        match self {
            Self::None(half) => half,
            Self::KeyValue(half) => half,
            Self::Transactions(half) => half,
            Self::Wired(half) => half,
            Self::Rounds(half) => half,
            Self::Sessions(half) => half,
        }
    }
}

impl HostHalf for NodeHalf {
    fn keeps_data_without_lease(&self) -> bool {
        self.inner().keeps_data_without_lease()
    }

    fn follows_views(&self) -> bool {
        self.inner().follows_views()
    }

    fn begin(&mut self, io: &mut HostIo<'_>) {
        self.inner_mut().begin(io);
    }

    fn configure(&mut self, now: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        self.inner_mut().configure(now, configuration, io);
    }

    fn status(&mut self, now: Instant, status: EngineStatus, io: &mut HostIo<'_>) {
        self.inner_mut().status(now, status, io);
    }

    fn replied(&mut self, now: Instant, token: u32, message: (u8, &[u8]), io: &mut HostIo<'_>) {
        self.inner_mut().replied(now, token, message, io);
    }

    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        io: &mut HostIo<'_>,
    ) {
        self.inner_mut().requested(now, from, message, serves, io);
    }

    fn sessions(&self) -> Option<(usize, usize)> {
        self.inner().sessions()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner().next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.inner_mut().handle_deadline(now);
    }

    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        self.inner_mut().settle(now, io);
    }

    fn rejoin(&mut self, now: Instant, incarnation: Incarnation, io: &mut HostIo<'_>) {
        self.inner_mut().rejoin(now, incarnation, io);
    }
}

/// An engine to be placed on a card, with its parameters.
pub enum EngineChoice<'a> {
    /// The key-value store, with its log on disk if it has one.
    KeyValue(weft_kv::Parameters, Option<Box<EngineLog>>),
    /// Transactions of an application, with their log on disk if they have one.
    Transactions(&'a dyn Application, TransactionSizes, Option<Box<EngineLog>>),
    /// A replicated log.
    Log(LogParameters),
    /// A replicated object.
    Object(ReplicaParameters),
    /// Consensus in synchronous rounds.
    Rounds(weft_rounds::Parameters, RoundsPauses),
    /// Locks with fencing tokens.
    Lock(weft_lock::Parameters),
}

/// Parameters of a card in a cluster. All nodes must have the same engines in the same order.
#[derive(Clone, Debug)]
pub struct CardParameters {
    /// The node to which the card belongs.
    pub node: NodeId,
    /// Number of the first session with a client: greater than those of earlier processes of the node, whatever its
    /// incarnation is.
    pub first_session: u64,
    /// The address at which each node receives Weft's datagrams, node 0 first.
    pub peers: Vec<SocketAddrV4>,
    /// The longest datagram, in bytes.
    pub datagram_bytes: usize,
    /// Parameters with which queue pairs are connected.
    pub connection: ConnectionParameters,
}

/// Number of decisions of the rounds that a node keeps for readers.
const DECISIONS_KEPT: usize = 4_096;

/// Number of regions reserved for the card's own answers and for the operator.
const SPARE_REGIONS: usize = 4;

/// Bytes behind each region target of the card. A node registers no region of its own, so a small size suffices.
const REGION_BYTES: usize = 64 << 10;

impl EngineChoice<'_> {
    /// Purposes of the engine's queue pairs; empty if it has none.
    fn purposes(&self) -> Vec<Purpose> {
        match self {
            Self::KeyValue(..) | Self::Transactions(..) | Self::Rounds(..) | Self::Lock(_) => Vec::new(),
            Self::Log(log) => Purpose::of_log(log),
            Self::Object(object) => Purpose::of_object(object),
        }
    }

    /// The sizes of the engine's log on disk; `None` if an engine of its kind has none.
    pub fn log_sizes(&self) -> Option<weft_store::Parameters> {
        match self {
            Self::KeyValue(parameters, _) => Some(store_parameters(parameters)),
            Self::Transactions(application, sizes, _) => Some(sizes.log(*application)),
            Self::Log(_) | Self::Object(_) | Self::Rounds(..) | Self::Lock(_) => None,
        }
    }

    /// Opens the engine's log of these sizes on a disk, or creates one for a node that starts without data, in
    /// incarnation `fresh`. The engine will begin with what is there. `wait` returns when a flush may have ended.
    ///
    /// # Errors
    /// See [`EngineLog::of_store`].
    ///
    /// # Panics
    /// If an engine of this kind has no log on disk.
    pub fn open_log(
        &mut self,
        sizes: weft_store::Parameters,
        disk: Box<dyn Disk + Send>,
        fresh: Incarnation,
        wait: impl FnMut(),
    ) -> Result<&EngineLog, RecoveryError> {
        let (place, log) = match self {
            Self::KeyValue(_, place) => (place, EngineLog::of_store(sizes, disk, fresh, wait)?),
            Self::Transactions(_, _, place) => (place, EngineLog::of_transactions(sizes, disk, fresh, wait)?),
            Self::Log(_) | Self::Object(_) | Self::Rounds(..) | Self::Lock(_) => {
                panic!("an engine of this kind has no log on disk")
            }
        };
        Ok(place.insert(Box::new(log)))
    }

    /// The most nodes of a cluster that has this engine.
    pub const fn nodes_max(&self) -> usize {
        match self {
            Self::KeyValue(..) | Self::Transactions(..) | Self::Lock(_) => NODES_MAX,
            Self::Log(_) | Self::Object(_) => weft_smr::NODES_MAX,
            Self::Rounds(..) => weft_rounds::MEMBERS_MAX,
        }
    }
}

/// Makes a card with its engines in slots, and their host halves.
///
/// # Panics
/// If there are more nodes than an engine allows ([`EngineChoice::nodes_max`]), or an engine's parameters are out
/// of range.
pub fn assemble(
    parameters: &CardParameters,
    engines: Vec<EngineChoice<'_>>,
) -> (Card<NodeEngine>, Vec<NodeHalf>) {
    let CardParameters { node, first_session, ref peers, datagram_bytes, connection } = *parameters;
    let nodes = peers.len();
    let purposes: Vec<_> = engines.iter().map(EngineChoice::purposes).collect();
    let mut made = Vec::new();
    let mut halves = Vec::new();
    let mut host_memory = Vec::new();
    let mut memory_bytes = Vec::new();
    let mut sessions: Vec<_> = engines.iter().map(|_| None).collect();
    let message_bytes = message_bytes_of(datagram_bytes);
    for (slot, choice) in engines.into_iter().enumerate() {
        assert!(nodes <= choice.nodes_max(), "an engine has at most {} nodes", choice.nodes_max());
        let (engine, memory, half) = match choice {
            EngineChoice::KeyValue(parameters, log) => {
                let memory = Memory::new(parameters.memory_bytes());
                let half = log.map_or(NodeHalf::None(NoHalf), |log| NodeHalf::KeyValue(KvHalf::new(*log)));
                (NodeEngine::KeyValue(Kv::new(parameters)), memory, half)
            }
            EngineChoice::Transactions(application, sizes, log) => {
                let log = log.map(|log| *log);
                let (engine, memory, half, host) = found(node, first_session, (application, &sizes), log);
                assert!(host_memory.is_empty(), "one engine of a card has the host's memory");
                host_memory = host;
                (NodeEngine::Transactions(engine), memory, NodeHalf::Transactions(half))
            }
            EngineChoice::Log(parameters) => {
                let memory = Memory::new(parameters.memory_bytes());
                (NodeEngine::Log(Log::new(parameters)), memory, NodeHalf::None(NoHalf))
            }
            EngineChoice::Object(parameters) => {
                let memory = Memory::new(parameters.memory_bytes());
                sessions[slot] = Some(SessionHalf::new(first_session, weft_rdt::client::CALLS));
                (NodeEngine::Object(Replica::new(parameters)), memory, NodeHalf::None(NoHalf))
            }
            EngineChoice::Rounds(parameters, pauses) => {
                let clients = ClientServerParameters {
                    first_session,
                    clients: SESSIONS,
                    value_bytes: parameters.value_bytes,
                    kept: DECISIONS_KEPT,
                    answer_bytes: message_bytes,
                };
                let engine = NodeEngine::Rounds(Rounds::new(parameters));
                (engine, Memory::new(0), NodeHalf::Rounds(RoundsHalf::new(nodes, clients, pauses)))
            }
            EngineChoice::Lock(parameters) => {
                let half = SessionHalf::new(first_session, weft_lock::CLIENT_CALLS);
                (NodeEngine::Lock(Lock::new(parameters)), Memory::new(0), NodeHalf::Sessions(half))
            }
        };
        memory_bytes.push(memory.image().len());
        made.push((engine, memory));
        halves.push(half);
    }
    let mut card = Card::new(card_config(parameters, &purposes, datagram_bytes), made);
    *card.region_memory().bytes_mut(Target::Host) = host_memory;
    let address = |peer: usize| -> Ipv4Addr { *peers[peer].ip() };
    for (slot, purposes) in (0u8..).zip(&purposes).filter(|(_, purposes)| !purposes.is_empty()) {
        let place = (slot, memory_bytes[usize::from(slot)]);
        let wires = Connections::wire(&mut card, place, (node.index(), nodes), purposes, connection, address)
            .expect("the card is made with room for all queue pairs");
        halves[usize::from(slot)] =
            NodeHalf::Wired(WiredHalf::new(wires, sessions[usize::from(slot)].take()));
    }
    for (slot, half) in (0u8..).zip(&halves) {
        let on_host = match half {
            NodeHalf::None(_) | NodeHalf::KeyValue(_) => false,
            NodeHalf::Transactions(_) | NodeHalf::Rounds(_) | NodeHalf::Sessions(_) => true,
            NodeHalf::Wired(half) => half.has_sessions(),
        };
        if on_host {
            card.serve_clients_on_host(slot);
        }
    }
    (card, halves)
}

fn card_config(parameters: &CardParameters, purposes: &[Vec<Purpose>], datagram_bytes: usize) -> CardConfig {
    let nodes = parameters.peers.len();
    let queue_pairs: usize =
        purposes.iter().map(|purposes| Connections::queue_pairs(nodes, purposes.len())).sum();
    let mut peers = [None; NODES_MAX];
    for (place, peer) in peers.iter_mut().zip(&parameters.peers) {
        *place = Some(*peer);
    }
    CardConfig {
        peers,
        datagram_bytes,
        transport: weft_rdma::Config {
            max_queue_pairs: queue_pairs.max(1),
            max_regions: 2 * purposes.len() + SPARE_REGIONS,
            ..weft_rdma::Config::default()
        },
        region_bytes: REGION_BYTES,
    }
}

/// The longest message that fits alone into a datagram of `datagram_bytes`, in bytes.
pub(crate) const fn message_bytes_of(datagram_bytes: usize) -> usize {
    datagram_bytes - (datagram::HEADER_BYTES + datagram::MESSAGE_HEADER_BYTES + datagram::TRAILER_BYTES)
}
