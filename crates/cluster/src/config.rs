//! The configuration of a cluster: one file, `weft.toml`, the same on every node.
//!
//! ```toml
//! [cluster]
//! name = "orders"
//!
//! [membership]                  # the membership service
//! address = "10.0.0.1:4794"
//! node = 0                      # node 0's process runs it; without this line `weft membership` does
//!                               # or only: coordinators = [0, 1, 2], and every node is a keeper of it
//!
//! [[node]]                      # node 0
//! address = "10.0.0.1"          # or a host name; RoCE v2 is on port 4791
//!
//! [[node]]                      # node 1
//! address = "10.0.0.2"
//! core = 3                      # it keeps to this core
//!
//! [kv]                          # the engines of every node's card: at least one of [kv], [transactions],
//! value_bytes = 1024            # [[object]], [[log]], [rounds] and [lock]
//!
//! [[log]]
//! name = "events"
//! ```
//!
//! `docs/configuration.md` describes every table and key; it is generated from the list that the parser uses
//! (`keys.rs`). No two nodes share an address: the port of RoCE v2 is fixed, and a datagram's source address
//! identifies the peer. A host's name ([`Host`]) stands for the address that it resolves to.
//!
//! [`ClusterConfig::load`] checks the file as a whole: the configuration that it returns is consistent.
//! [`ClusterConfig::node`] returns the part of it that one of the nodes uses, [`ClusterConfig::service`] that of
//! the membership service. Whether procedures and data types of the configured names exist is checked by the
//! program.

mod check;
mod earlier;
pub(crate) mod engines;
mod keys;
mod line;
mod read;
mod reference;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};

use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};

use crate::identity::ClusterName;
use crate::place::{Family, Host, Place};
use engines::{EnginesConfig, TransactionsConfig, file_of};
pub use reference::configuration_reference;

/// The UDP port of RoCE v2, as assigned by IANA. It cannot be configured, because the destination port identifies
/// a packet as RoCE v2.
pub const ROCE_PORT: u16 = 4791;
/// The metrics port in a configuration that `weft init` writes.
pub const METRICS_PORT: u16 = 9479;
/// Default TCP port for clients of Redis.
pub const REDIS_PORT: u16 = 6379;
/// Default UDP port of a membership service, and the port of every keeper.
pub const MEMBERSHIP_PORT: u16 = 4794;
/// Default UDP port of Weft's datagrams.
pub const DEFAULT_DATAGRAM_PORT: u16 = 4793;
/// Default length of a lease.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(1);
/// Default of the longest IP packet: that of Ethernet.
pub const DEFAULT_MTU_BYTES: u32 = 1_500;

/// Number of bytes by which a sealed datagram is longer.
pub const SEAL_BYTES: u32 = 40;

/// When a node takes memory for the tables of its engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// As they are written, in small pages.
    OnDemand,
    /// At start, in huge pages.
    Preallocated,
}

/// The configuration of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The cluster's name.
    pub name: ClusterName,
    /// The longest IP packet, in bytes, that the network between nodes and clients can carry; 576 to 65,535.
    pub mtu_bytes: u32,
    /// The TCP port at each node's address at which its metrics are served; `None` if they are not served.
    pub metrics_port: Option<u16>,
    /// When nodes take the memory of their tables.
    pub tables: Tables,
    /// Address and host of the membership service.
    pub membership: MembershipPlace,
    /// Every node of the cluster.
    pub peers: Peers,
    /// How the cores of each node wait, indexed by node; nodes beyond the last entry use [`CoresConfig::DEFAULT`].
    pub cores: Vec<CoresConfig>,
    /// Engines of the nodes.
    pub engines: EnginesConfig,
    /// The port for clients of Redis at each node; `None` if there is none.
    pub redis: Option<RedisConfig>,
    /// How datagrams are sealed; `None` if they are not.
    pub security: Option<SecurityConfig>,
}

/// How the datagrams between nodes and clients are sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityConfig {
    /// The file with the cluster key.
    pub key_file: PathBuf,
}

/// Number of bytes by which datagrams are longer with these settings.
fn seal_bytes(security: Option<&SecurityConfig>) -> u32 {
    security.map_or(0, |_| SEAL_BYTES)
}

/// The port for clients of Redis at each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// The TCP port at the node's address.
    pub port: u16,
    /// The password that clients send; without one, only clients on the node's own machine are accepted.
    pub password: Option<String>,
    /// How far the nodes' wall clocks may differ: whole milliseconds in the file.
    pub clock_skew: Duration,
}

impl RedisConfig {
    /// Default of how far the nodes' wall clocks may differ.
    pub const DEFAULT_CLOCK_SKEW: Duration = Duration::from_secs(1);
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self { port: REDIS_PORT, password: None, clock_skew: Self::DEFAULT_CLOCK_SKEW }
    }
}

/// Address and host of the membership service of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipPlace {
    /// Host and UDP port at which the service receives heartbeats; with keepers, those of node 0.
    pub address: Place,
    /// The node whose process runs the service; `None` if the service has its own process, or keepers.
    pub node: Option<NodeId>,
    /// The coordinators of the register in which keepers store the service's state, 1, 3 or 5 nodes: then every node
    /// runs a keeper. Empty if the service is one process.
    pub coordinators: Vec<NodeId>,
    /// Parameters of the service.
    pub serve: ServeConfig,
}

/// The part of a cluster's configuration that one of its nodes uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// This node; one of [`NodeConfig::peers`].
    pub node: NodeId,
    /// The longest IP packet, in bytes, that the network between nodes and clients can carry; 576 to 65,535.
    pub mtu_bytes: u32,
    /// The TCP port at the node's address at which its metrics are served; `None` if they are not served.
    pub metrics_port: Option<u16>,
    /// When the node takes the memory of its tables.
    pub tables: Tables,
    /// Address of the membership service.
    pub membership: MembershipConfig,
    /// Every node of the cluster.
    pub peers: Peers,
    /// Engines of the node. A `record` in it is the name of this node's own file.
    pub engines: EnginesConfig,
    /// How the node's cores wait.
    pub cores: CoresConfig,
    /// The node's port for clients of Redis; `None` if it has none.
    pub redis: Option<RedisConfig>,
    /// How datagrams are sealed; `None` if they are not.
    pub security: Option<SecurityConfig>,
}

/// Address of the membership service, and whether the process of this node runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipConfig {
    /// Host and UDP port at which the service receives heartbeats; with keepers, those of node 0.
    pub address: Place,
    /// As [`MembershipPlace::coordinators`].
    pub coordinators: Vec<NodeId>,
    /// Parameters of the service, if this process runs it, or a keeper of it.
    pub serve: Option<ServeConfig>,
}

/// Parameters of the membership service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// Length of a lease: whole milliseconds in the file.
    pub lease: Duration,
    /// File for the state that the service needs after a restart; a configuration that was loaded from a file
    /// always has one. Without it, a restarted service grants no lease to nodes that are still running. With keepers it
    /// is the common prefix of the coordinators' files: see [`ServiceConfig::coordinator_file`].
    pub state_file: Option<PathBuf>,
}

/// The part of a cluster's configuration that its membership service uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// Every node of the cluster.
    pub peers: Peers,
    /// Number of nodes that hold the same data: see [`EnginesConfig::replicas`].
    pub replicas: usize,
    /// How many nodes have a write of the key-value store on disk when it is answered; 0: none.
    pub durable_copies: u32,
    /// The host and UDP port to listen at; with keepers, those of node 0.
    pub address: Place,
    /// As [`MembershipPlace::coordinators`].
    pub coordinators: Vec<NodeId>,
    /// Parameters of the service.
    pub serve: ServeConfig,
    /// How datagrams are sealed; `None` if they are not.
    pub security: Option<SecurityConfig>,
}

/// Host and port of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// The node's address or name.
    pub address: Host,
    /// UDP port at which the node receives Weft's datagrams.
    pub datagram_port: u16,
}

impl PeerConfig {
    /// A node at `address` with the default port.
    pub fn new(address: impl Into<Host>) -> Self {
        Self { address: address.into(), datagram_port: DEFAULT_DATAGRAM_PORT }
    }

    /// Host and port at which the node receives Weft's datagrams.
    pub fn datagram_place(&self) -> Place {
        Place { host: self.address.clone(), port: self.datagram_port }
    }
}

/// The nodes of a cluster: 1 to 16, numbered without gaps, no two at the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(Vec<PeerConfig>);

/// How a node's cores wait for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresConfig {
    /// Time for which a core polls before it sleeps; zero to sleep at once.
    pub spin: Duration,
    /// The core to which the node is pinned, by the kernel's number; `None` for any.
    pub core: Option<u32>,
}

impl CoresConfig {
    /// Default of how a node's cores wait.
    pub const DEFAULT: Self = Self { spin: Duration::from_us(50), core: None };
}

impl Default for CoresConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a configuration cannot be used, in one line: the file, the line in it, the error, the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ConfigError {
    path: PathBuf,
    reason: String,
}

/// The configuration has no such node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no node {}: the configuration has nodes 0 to {}", node.index(), nodes - 1)]
pub struct NoSuchNode {
    /// The requested node.
    pub node: NodeId,
    /// Number of nodes in the configuration.
    pub nodes: usize,
}

impl ClusterConfig {
    /// A cluster with the default name on Ethernet, whose membership service has its own process at `address`.
    pub fn new(peers: Peers, address: impl Into<Place>, engines: EnginesConfig) -> Self {
        let serve = ServeConfig { lease: DEFAULT_LEASE, state_file: None };
        let (address, coordinators) = (address.into(), Vec::new());
        let membership = MembershipPlace { address, node: None, coordinators, serve };
        let cores = vec![CoresConfig::DEFAULT; peers.len()];
        let (name, mtu_bytes) = (ClusterName::default(), DEFAULT_MTU_BYTES);
        Self {
            name,
            mtu_bytes,
            metrics_port: None,
            tables: Tables::OnDemand,
            membership,
            peers,
            cores,
            engines,
            redis: None,
            security: None,
        }
    }

    /// Reads and checks a configuration file. Relative file names in it start at its folder.
    ///
    /// # Errors
    /// The first error in the file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let error = |reason| ConfigError { path: path.to_owned(), reason };
        let text = std::fs::read_to_string(path).map_err(|cause| {
            error(format!(
                "cannot be read ({cause}); name the cluster's file by --config, or write one with weft init"
            ))
        })?;
        Ok(Self::parse(&text).map_err(error)?.located_at(path))
    }

    /// The same configuration as that of a file with this path: relative names of files in it start at its folder, and
    /// it names the file of the membership service's state.
    #[must_use]
    pub fn located_at(self, path: &Path) -> Self {
        let mut config = self;
        let beside = |name: &Path| path.parent().map_or_else(|| name.to_owned(), |folder| folder.join(name));
        let state_file = &mut config.membership.serve.state_file;
        *state_file = Some(match state_file {
            Some(name) => beside(name),
            None if config.membership.coordinators.is_empty() => path.with_extension("membership.toml"),
            None => path.with_extension("coordinator"),
        });
        if let Some(transactions) = &mut config.engines.transactions {
            transactions.record = transactions.record.as_deref().map(beside);
        }
        if let Some(security) = &mut config.security {
            security.key_file = beside(&security.key_file);
        }
        config.engines.data_dir = config.engines.data_dir.as_deref().map(beside);
        config
    }

    /// Checks the text of a configuration file.
    ///
    /// # Errors
    /// The first error in the text, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        check::check(text)
    }

    /// The text of a configuration file that parses to this configuration. Times are rounded down to the file's
    /// units.
    ///
    /// # Panics
    /// If a file name is not UTF-8, which cannot happen in a configuration that was loaded from a file.
    pub fn to_toml(&self) -> String {
        write::write(self, false)
    }

    /// As [`ClusterConfig::to_toml`], with a comment beside each table and key.
    ///
    /// # Panics
    /// As [`ClusterConfig::to_toml`].
    pub fn to_commented_toml(&self) -> String {
        write::write(self, true)
    }

    /// The part of the configuration that `node` uses.
    ///
    /// # Errors
    /// There is no such node.
    pub fn node(&self, node: NodeId) -> Result<NodeConfig, NoSuchNode> {
        if self.peers.get(node).is_none() {
            return Err(NoSuchNode { node, nodes: self.peers.len() });
        }
        let MembershipPlace { address, node: server, coordinators, serve } = &self.membership;
        let mut engines = self.engines.clone();
        if let Some(record) = engines.transactions.as_mut().and_then(|engine| engine.record.as_mut()) {
            *record = TransactionsConfig::record_of(record, node.index());
        }
        Ok(NodeConfig {
            cluster: self.name,
            node,
            mtu_bytes: self.mtu_bytes,
            metrics_port: self.metrics_port,
            tables: self.tables,
            membership: MembershipConfig {
                address: address.clone(),
                coordinators: coordinators.clone(),
                serve: (*server == Some(node) || !coordinators.is_empty()).then(|| serve.clone()),
            },
            peers: self.peers.clone(),
            engines,
            cores: self.cores_of(node.index()),
            redis: self.redis.clone(),
            security: self.security.clone(),
        })
    }

    /// The part of the configuration that the membership service uses, wherever it runs.
    pub fn service(&self) -> ServiceConfig {
        ServiceConfig {
            cluster: self.name,
            peers: self.peers.clone(),
            replicas: self.engines.replicas(self.peers.len()),
            durable_copies: self.engines.durable_copies(),
            address: self.membership.address.clone(),
            coordinators: self.membership.coordinators.clone(),
            serve: self.membership.serve.clone(),
            security: self.security.clone(),
        }
    }

    /// Where the membership service receives heartbeats: one place, or that of each node's keeper.
    pub fn membership_places(&self) -> Vec<Place> {
        let MembershipPlace { address, coordinators, .. } = &self.membership;
        membership_places(&self.peers, address, coordinators)
    }

    /// How the cores of a node wait.
    fn cores_of(&self, node: usize) -> CoresConfig {
        self.cores.get(node).copied().unwrap_or_default()
    }

    /// The longest datagram, in bytes, that fits into one packet of the network: sealed, if datagrams are.
    pub fn datagram_bytes(&self) -> usize {
        (self.mtu_bytes - self.peers.header_bytes() - seal_bytes(self.security.as_ref())) as usize
    }
}

impl ServiceConfig {
    /// The version of IP that the configuration names; `None` if all hosts are known by name.
    pub fn family(&self) -> Option<Family> {
        self.peers.family().or_else(|| self.address.host.family())
    }

    /// The file in which the coordinator at `node` stores its state: the state file's name, with `.node`*i* added.
    /// `None` without a state file.
    pub fn coordinator_file(&self, node: NodeId) -> Option<PathBuf> {
        Some(file_of(self.serve.state_file.as_deref()?, node.index()))
    }
}

impl NodeConfig {
    /// As [`ServiceConfig::family`].
    pub fn family(&self) -> Option<Family> {
        self.peers.family().or_else(|| self.membership.address.host.family())
    }

    /// As [`ClusterConfig::membership_places`].
    pub fn membership_places(&self) -> Vec<Place> {
        let MembershipConfig { address, coordinators, .. } = &self.membership;
        membership_places(&self.peers, address, coordinators)
    }

    /// Address of this node.
    ///
    /// # Panics
    /// If the node is not in [`NodeConfig::peers`], because that was modified.
    pub fn own(&self) -> &PeerConfig {
        self.peers.get(self.node).expect("every node is one of the peers")
    }

    /// Number of nodes that hold the same data: see [`EnginesConfig::replicas`].
    pub fn replicas(&self) -> usize {
        self.engines.replicas(self.peers.len())
    }

    /// The configuration of the membership service, if the process of this node runs it or a keeper of it.
    pub fn service(&self) -> Option<ServiceConfig> {
        Some(ServiceConfig {
            cluster: self.cluster,
            peers: self.peers.clone(),
            replicas: self.replicas(),
            durable_copies: self.engines.durable_copies(),
            address: self.membership.address.clone(),
            coordinators: self.membership.coordinators.clone(),
            serve: self.membership.serve.clone()?,
            security: self.security.clone(),
        })
    }

    /// The longest datagram, in bytes, that fits into one packet of the network: sealed, if datagrams are.
    pub fn datagram_bytes(&self) -> usize {
        (self.mtu_bytes - self.peers.header_bytes() - seal_bytes(self.security.as_ref())) as usize
    }
}

impl Peers {
    /// Peers at these addresses, node 0 first.
    ///
    /// # Errors
    /// In one line: there are none or more than 16, or two share an address.
    pub fn new(peers: Vec<PeerConfig>) -> Result<Self, String> {
        match Self::check(&peers) {
            Ok(()) => Ok(Self(peers)),
            Err((Some(node), reason)) => Err(format!("[[node]] {node}: {reason}")),
            Err((None, reason)) => Err(reason),
        }
    }

    /// Checks the peers. The error is the index of the node concerned, if any, and the reason.
    fn check(peers: &[PeerConfig]) -> Result<(), (Option<usize>, String)> {
        if peers.is_empty() {
            return Err((None, "there is no [[node]]: write one for each node of the cluster".to_owned()));
        }
        if peers.len() > NODES_MAX {
            let reason = format!("it is one of {} nodes; a cluster has at most {NODES_MAX}", peers.len());
            return Err((Some(NODES_MAX), reason));
        }
        for (node, peer) in peers.iter().enumerate() {
            let refuse = |reason: String| Err((Some(node), reason));
            let PeerConfig { address, datagram_port } = peer;
            if *datagram_port == 0 {
                return refuse("datagram_port = 0: peers must know the port; give another number".to_owned());
            }
            if *datagram_port == ROCE_PORT {
                return refuse(format!("datagram_port = {ROCE_PORT}: that is RoCE v2's; choose another"));
            }
            if !address.is_reachable() {
                return refuse(format!(
                    "no datagram can be sent to address {address}; give the address at which the node is reached"
                ));
            }
            if let Some(other) = peers[..node].iter().position(|earlier| earlier.address == *address) {
                return refuse(format!(
                    "address {address} belongs to node {other} already; give each node an address of its own"
                ));
            }
            if let Some(reason) = contradiction(&peers[..node], address) {
                return refuse(reason);
            }
        }
        Ok(())
    }

    /// Host and port of `node`; `None` if there is no such node.
    pub fn get(&self, node: NodeId) -> Option<&PeerConfig> {
        self.0.get(node.index())
    }

    /// Number of nodes of the cluster.
    #[expect(clippy::len_without_is_empty, reason = "a cluster is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The version of IP of the nodes' addresses; `None` if all are known by name.
    pub fn family(&self) -> Option<Family> {
        self.0.iter().find_map(|peer| peer.address.family())
    }

    /// Bytes of the headers before a datagram: the most that they may be, if all nodes are known by name.
    fn header_bytes(&self) -> u32 {
        self.family().unwrap_or(Family::V6).header_bytes()
    }

    /// All nodes with their hosts, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &PeerConfig)> {
        (0..NODES_MAX).filter_map(NodeId::new).zip(&self.0)
    }
}

/// Where the keepers of these nodes receive heartbeats.
fn keeper_places(peers: &Peers) -> impl Iterator<Item = Place> {
    peers.iter().map(|(_, peer)| Place { host: peer.address.clone(), port: MEMBERSHIP_PORT })
}

fn membership_places(peers: &Peers, address: &Place, coordinators: &[NodeId]) -> Vec<Place> {
    if coordinators.is_empty() { vec![address.clone()] } else { keeper_places(peers).collect() }
}

/// Why a host does not go together with these nodes: one of them has an address of the other version of IP.
fn contradiction(peers: &[PeerConfig], host: &Host) -> Option<String> {
    let family = host.family()?;
    let differs = |peer: &PeerConfig| peer.address.family().is_some_and(|other| other != family);
    let node = peers.iter().position(differs)?;
    Some(format!(
        "{host} is an {family} address, and node {node} is at {}: all talk over one version of IP, so give addresses of one, \
         or names",
        peers[node].address
    ))
}

/// The error of a TOML text with its position, in one line.
pub(crate) fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&character| character != '\n').count() + 1;
            format!("line {line}, column {column}: {message}")
        }
        None => message,
    }
}
