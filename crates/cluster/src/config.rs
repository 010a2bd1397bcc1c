//! The configuration files of a node and of a membership service of its own.
//!
//! ```toml
//! cluster = "weft"              # the cluster's name, the same on every node; optional
//! node = 0                      # who this node is
//! mtu_bytes = 1500              # optional: the longest IP packet between nodes and clients
//!
//! [membership]
//! address = "127.0.0.1:4794"    # where the membership service is
//! serve = true                  # this process runs it; only one does
//! lease_ms = 1000               # with serve: how long a lease lasts
//! state_file = "state.toml"     # with serve: what survives a restart of the service; node.state.toml beside node.toml unless told
//!
//! [[peers]]                     # every node of the cluster, this one included: 0, 1, 2, ...
//! node = 0
//! address = "127.0.0.1"         # where its ports are; RoCE v2 is on port 4791
//! datagram_port = 4793          # optional
//!
//! [kv]                          # optional; the same on every node
//! key_bytes = 8
//! value_bytes = 1024
//! capacity_keys = 65536
//!
//! [transactions]                # in place of [kv]: the node runs transactions; the same on every node
//! procedures = "ledger"         # which procedures and objects the program has registered under this name
//! size = 1000                   # how many objects there are on each shard, as these procedures count them
//! replicas = 3                  # of each shard; optional: 3, or as many as there are nodes
//! record = "node0.records"      # optional: a file for all that is read and written, for a checker
//!
//! [cores]                       # optional
//! spin_us = 50                  # how long to poll before sleeping; 0: sleep at once
//! core = 0                      # run on this core of the machine only; optional
//! ```
//!
//! Two nodes never share an address: the port of RoCE v2 is fixed, and the source address of a datagram is what tells a
//! peer.
//!
//! A membership service that runs in a process of its own has this file:
//!
//! ```toml
//! cluster = "weft"              # the cluster's name; optional
//! nodes = 3                     # how many nodes the cluster has
//! replicas = 3                  # how many of them hold the same data: [transactions] replicas; all of them unless told
//! address = "127.0.0.1:4794"
//! lease_ms = 1000               # optional, as state_file is
//! state_file = "state.toml"
//! ```
//!
//! What [`NodeConfig::load`] and [`ServiceConfig::load`] return has been checked as a whole: nothing in it contradicts
//! anything else.

mod file;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};

use crate::identity::ClusterName;
use crate::profile::{Application, Profile};
use crate::text::Text;
use file::{File, ServiceFile};

/// The UDP port of RoCE v2, as assigned by IANA. It cannot be configured: the destination port is what makes a packet
/// one of RoCE v2.
pub const ROCE_PORT: u16 = 4791;
/// The UDP port of Weft's datagrams unless configured otherwise.
pub const DEFAULT_DATAGRAM_PORT: u16 = 4793;
/// How long a lease lasts unless configured otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(1);
/// The longest IP packet unless configured otherwise: that of Ethernet.
pub const DEFAULT_MTU_BYTES: u32 = 1_500;

/// Bytes of an IPv4 and a UDP header.
const IP_UDP_BYTES: u32 = 28;

/// Everything that one node's process is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// Who this node is; one of [`NodeConfig::peers`].
    pub node: NodeId,
    /// The longest IP packet, in bytes, that the network between nodes and clients takes; 576 to 65,535.
    pub mtu_bytes: u32,
    /// Where the membership service is.
    pub membership: MembershipConfig,
    /// Every node of the cluster.
    pub peers: Peers,
    /// The key-value engine's sizes.
    pub kv: KvConfig,
    /// The transactions that the node runs, if it does not run the key-value engine.
    pub transactions: Option<TransactionsConfig>,
    /// How cores wait.
    pub cores: CoresConfig,
}

/// Where the membership service is, and whether this process runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipConfig {
    /// Its UDP address.
    pub address: SocketAddrV4,
    /// How to run it, if this process does.
    pub serve: Option<ServeConfig>,
}

/// How to run the embedded membership service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// How long a lease lasts: whole milliseconds in the file.
    pub lease: Duration,
    /// Where what must survive a restart of the service is stored; what is loaded from a file always has one. Without one, a restarted
    /// service grants nothing to nodes that still run.
    pub state_file: Option<PathBuf>,
}

/// Everything that the process of a membership service without a node is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// How many nodes the cluster has, 1 to 16.
    pub nodes: usize,
    /// How many nodes hold the same data: all of them in a key-value cluster.
    pub replicas: usize,
    /// The UDP address to listen at.
    pub address: SocketAddrV4,
    /// How to run the service.
    pub serve: ServeConfig,
}

/// Where one node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// The address of its ports.
    pub address: Ipv4Addr,
    /// The UDP port of its Weft datagrams.
    pub datagram_port: u16,
}

impl PeerConfig {
    /// A node at `address` with the default port.
    pub const fn new(address: Ipv4Addr) -> Self {
        Self { address, datagram_port: DEFAULT_DATAGRAM_PORT }
    }

    /// Where it takes Weft datagrams.
    pub const fn datagram_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.datagram_port)
    }
}

/// The nodes of a cluster: 1 to 16 of them, numbered without gaps, no two at the same address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers(Vec<PeerConfig>);

/// The sizes of the key-value engine. All are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// The length of every key, in bytes.
    pub key_bytes: u32,
    /// The longest value, in bytes.
    pub value_bytes: u32,
    /// For how many keys the table is built.
    pub capacity_keys: u32,
}

impl Default for KvConfig {
    fn default() -> Self {
        Self { key_bytes: 8, value_bytes: 1_024, capacity_keys: 65_536 }
    }
}

/// What a node that runs transactions is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionsConfig {
    /// The name of the registered procedures. Which names there are the program knows.
    pub procedures: String,
    /// How many objects there are on each shard, in these procedures' own measure.
    pub size: u64,
    /// Replicas of each shard: one more than may fail at a time.
    pub replicas: usize,
    /// Where everything that is read and written is recorded, for a checker.
    pub record: Option<PathBuf>,
}

/// Replicas of each shard unless configured otherwise, if there are as many nodes.
pub const DEFAULT_REPLICAS: usize = 3;

/// How the node's cores wait for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresConfig {
    /// How long a core polls before it sleeps; zero to sleep at once.
    pub spin: Duration,
    /// The core that the node keeps to, as the kernel numbers them; `None` for any.
    pub core: Option<u32>,
}

impl Default for CoresConfig {
    fn default() -> Self {
        Self { spin: Duration::from_us(50), core: None }
    }
}

/// Why a configuration cannot be used, in one line: the file, the place in it, what is wrong, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ConfigError {
    path: PathBuf,
    reason: String,
}

impl NodeConfig {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut config = load(path, Self::parse)?;
        if let Some(serve) = &mut config.membership.serve {
            serve.state_file.get_or_insert_with(|| state_file_beside(path));
        }
        Ok(config)
    }

    /// Checks the text of a configuration file.
    ///
    /// # Errors
    /// The first thing that is wrong, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        file.check()
    }

    /// The text of a configuration file that reads back as this. Times are rounded down to the file's units.
    ///
    /// # Panics
    /// If the name of the state file is not UTF-8, which no file that was read can lead to.
    pub fn to_toml(&self) -> String {
        let file = File::from(self);
        toml::to_string(&file).expect("numbers, names and tables have a TOML form")
    }

    /// Where this node is.
    ///
    /// # Panics
    /// If [`NodeConfig::peers`] has been changed and lacks it.
    pub fn own(&self) -> &PeerConfig {
        self.peers.get(self.node).expect("every node is one of the peers")
    }

    /// How many nodes hold the same data: the replicas of a shard, or all nodes where there are no shards.
    pub fn replicas(&self) -> usize {
        self.transactions.as_ref().map_or(self.peers.len(), |transactions| transactions.replicas)
    }

    /// What the nodes of the cluster must agree on.
    ///
    /// # Panics
    /// If the name of the procedures has been changed to none that a configuration may have.
    pub fn profile(&self) -> Profile {
        let application = match &self.transactions {
            None => Application::KeyValue {
                key_bytes: self.kv.key_bytes,
                value_bytes: self.kv.value_bytes,
                capacity_keys: self.kv.capacity_keys.into(),
            },
            Some(TransactionsConfig { procedures, size, .. }) => Application::Transactions {
                procedures: Text::new(procedures).expect("a checked name"),
                size: *size,
            },
        };
        let places: Vec<_> = self.peers.iter().map(|(_, peer)| peer.datagram_address()).collect();
        Profile::new(application, self.replicas(), self.mtu_bytes, &places)
    }

    /// The longest UDP payload, in bytes, that fits a packet of the network.
    pub const fn datagram_bytes(&self) -> usize {
        (self.mtu_bytes - IP_UDP_BYTES) as usize
    }
}

impl ServiceConfig {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut config = load(path, Self::parse)?;
        config.serve.state_file.get_or_insert_with(|| state_file_beside(path));
        Ok(config)
    }

    /// Checks the text of a configuration file.
    ///
    /// # Errors
    /// The first thing that is wrong, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: ServiceFile = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        file.check()
    }

    /// The text of a configuration file that reads back as this, as [`NodeConfig::to_toml`].
    ///
    /// # Panics
    /// As [`NodeConfig::to_toml`].
    pub fn to_toml(&self) -> String {
        toml::to_string(&ServiceFile::from(self)).expect("numbers and names have a TOML form")
    }
}

/// Where the state of a membership service is if its configuration does not say: `node0.state.toml` beside `node0.toml`.
fn state_file_beside(path: &Path) -> PathBuf {
    path.with_extension("state.toml")
}

fn load<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, ConfigError> {
    let error = |reason| ConfigError { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path)
        .map_err(|cause| error(format!("cannot be read ({cause}); give a configuration by --config")))?;
    parse(&text).map_err(error)
}

impl Peers {
    /// The peers at these places, node 0 first.
    ///
    /// # Errors
    /// What is wrong, in one line, if they are none or more than 16, or share an address.
    pub fn new(peers: Vec<PeerConfig>) -> Result<Self, String> {
        if peers.is_empty() {
            return Err(
                "[[peers]]: no node is listed; list every node of the cluster, this one included".to_owned()
            );
        }
        if peers.len() > NODES_MAX {
            return Err(format!("[[peers]]: {} nodes are listed; a cluster has at most 16", peers.len()));
        }
        for (node, peer) in peers.iter().enumerate() {
            let place = format!("[[peers]] node {node}");
            match peer.datagram_port {
                0 => {
                    return Err(format!(
                        "{place} datagram_port = 0: peers must know the port; give a number from 1 to 65535"
                    ));
                }
                ROCE_PORT => {
                    return Err(format!(
                        "{place} datagram_port = {ROCE_PORT}: that is RoCE v2's; choose another"
                    ));
                }
                _ => {}
            }
            if peer.address.is_unspecified() || peer.address.is_multicast() || peer.address.is_broadcast() {
                return Err(format!(
                    "{place}: nobody can send to address {}; give the address at which the node is reached",
                    peer.address
                ));
            }
            if let Some(other) = peers[..node].iter().position(|earlier| earlier.address == peer.address) {
                return Err(format!(
                    "{place}: address {} belongs to node {other} already; give each node an address of its own",
                    peer.address
                ));
            }
        }
        Ok(Self(peers))
    }

    /// Where `node` is; `None` if there is no such node.
    pub fn get(&self, node: NodeId) -> Option<&PeerConfig> {
        self.0.get(node.index())
    }

    /// How many nodes the cluster has.
    #[expect(clippy::len_without_is_empty, reason = "a cluster is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Every node and where it is, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &PeerConfig)> {
        (0..NODES_MAX).filter_map(NodeId::new).zip(&self.0)
    }
}

/// What is wrong with a TOML text and where, in one line.
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

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
node = 1

[membership]
address = "127.0.0.2:4794"
serve = true
lease_ms = 500
state_file = "state.toml"

[[peers]]
node = 0
address = "127.0.0.1"

[[peers]]
node = 1
address = "127.0.0.2"
datagram_port = 14793

[kv]
value_bytes = 64

[cores]
spin_us = 0
core = 1
"#;

    #[test]
    fn an_example_is_read_with_its_defaults() {
        let config = NodeConfig::parse(EXAMPLE).unwrap();
        assert_eq!(config.node, NodeId::new(1).unwrap());
        assert_eq!(config.peers.len(), 2);
        let other = config.peers.get(NodeId::new(0).unwrap()).unwrap();
        assert_eq!(*other, PeerConfig::new(Ipv4Addr::LOCALHOST));
        assert_eq!(config.own().datagram_address(), "127.0.0.2:14793".parse().unwrap());
        assert_eq!(config.kv, KvConfig { value_bytes: 64, ..KvConfig::default() });
        assert_eq!(config.cores, CoresConfig { spin: Duration::ZERO, core: Some(1) });
        assert_eq!(config.datagram_bytes(), 1_472);
        let serve = config.membership.serve.as_ref().unwrap();
        assert_eq!(serve.lease, Duration::from_ms(500));
        assert_eq!(NodeConfig::parse(&config.to_toml()), Ok(config));
    }

    const TRANSACTIONS: &str = "[transactions]\nprocedures = \"ledger\"\nsize = 10\n";

    #[test]
    fn a_node_runs_transactions_in_place_of_the_store() {
        let text = EXAMPLE.replace("[kv]\nvalue_bytes = 64\n", TRANSACTIONS);
        let config = NodeConfig::parse(&text).unwrap();
        let expected =
            TransactionsConfig { procedures: "ledger".to_owned(), size: 10, replicas: 2, record: None };
        assert_eq!(config.transactions, Some(expected));
        assert_eq!(NodeConfig::parse(&config.to_toml()), Ok(config));
        for (from, to, expected) in [
            ("size = 10", "size = 0", "[transactions] size = 0"),
            ("\"ledger\"", "\"\"", "name the registered procedures"),
            ("size = 10", "size = 10\nreplicas = 3", "with 2 nodes a shard has 1 to 2 replicas"),
            ("size = 10", "size = 10\nrecord = \"\"", "name a file"),
            ("size = 10", "size = 10\n[kv]", "not both; remove it or [kv]"),
            ("node = 1\n", "node = 1\nmtu_bytes = 1399\n", "packets of 1400 bytes"),
        ] {
            let reason = NodeConfig::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(reason.contains(expected), "{from} -> {to}: {reason}");
        }
    }

    #[test]
    fn a_service_of_its_own_has_a_file_of_its_own() {
        let config = ServiceConfig::parse("nodes = 3\naddress = \"127.0.0.1:4794\"").unwrap();
        let serve = ServeConfig { lease: DEFAULT_LEASE, state_file: None };
        assert_eq!(
            config,
            ServiceConfig {
                cluster: ClusterName::default(),
                nodes: 3,
                replicas: 3,
                address: "127.0.0.1:4794".parse().unwrap(),
                serve: serve.clone()
            }
        );
        let config =
            ServiceConfig { serve: ServeConfig { state_file: Some("state".into()), ..serve }, ..config };
        assert_eq!(ServiceConfig::parse(&config.to_toml()), Ok(config));
        let reason = |text: &str| ServiceConfig::parse(text).unwrap_err();
        assert!(reason("nodes = 0\naddress = \"127.0.0.1:4794\"").contains("a cluster has 1 to 16 nodes"));
        assert!(
            reason("nodes = 3\nreplicas = 4\naddress = \"127.0.0.1:1\"")
                .contains("3 nodes hold 1 to 3 copies")
        );
        assert!(reason("nodes = 3\naddress = \"127.0.0.1:0\"").contains("nobody can send there"));
        assert!(
            reason("nodes = 3\naddress = \"127.0.0.1:1\"\nlease_ms = 0")
                .contains("a lease lasts 1 to 3600000 ms")
        );
        assert!(reason(EXAMPLE).contains("unknown field"), "{}", reason(EXAMPLE));
    }

    #[test]
    fn a_cluster_has_a_name() {
        let config = NodeConfig::parse(EXAMPLE).unwrap();
        assert_eq!(config.cluster.as_str(), "weft");
        let named = NodeConfig::parse(&format!("cluster = \"ledger-2\"{EXAMPLE}")).unwrap();
        assert_eq!(named.cluster.as_str(), "ledger-2");
        assert_eq!(NodeConfig::parse(&named.to_toml()), Ok(named));
        let error = NodeConfig::parse(&format!("cluster = \"two words\"{EXAMPLE}")).unwrap_err();
        assert!(error.contains("a name has 1 to 32 letters"), "{error}");
        let service = "cluster = \"ledger-2\"\nnodes = 3\naddress = \"127.0.0.1:4794\"";
        assert_eq!(ServiceConfig::parse(service).unwrap().cluster.as_str(), "ledger-2");
    }

    #[test]
    fn the_file_and_the_reason_stand_on_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.toml");
        let message = || NodeConfig::load(&path).unwrap_err().to_string();
        assert!(message().contains("node.toml: cannot be read (No such file"), "{}", message());
        std::fs::write(&path, EXAMPLE.replace("spin_us", "spin")).unwrap();
        assert!(message().contains("node.toml: line 23, column 1: unknown field `spin`"), "{}", message());
        std::fs::write(&path, EXAMPLE).unwrap();
        assert!(NodeConfig::load(&path).is_ok());
    }

    #[test]
    fn a_service_has_a_state_file_beside_its_configuration_unless_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.toml");
        let state_file = || NodeConfig::load(&path).unwrap().membership.serve.map(|serve| serve.state_file);
        std::fs::write(&path, EXAMPLE).unwrap();
        assert_eq!(state_file(), Some(Some("state.toml".into())));
        let beside = directory.path().join("node.state.toml");
        std::fs::write(&path, EXAMPLE.replace("state_file = \"state.toml\"\n", "")).unwrap();
        assert_eq!(state_file(), Some(Some(beside.clone())));
        std::fs::write(&path, "nodes = 3\naddress = \"127.0.0.1:4794\"").unwrap();
        assert_eq!(ServiceConfig::load(&path).unwrap().serve.state_file, Some(beside));
    }

    #[test]
    fn every_contradiction_has_its_own_line() {
        let reason = |from: &str, to: &str| {
            assert!(EXAMPLE.contains(from), "{from}");
            let reason = NodeConfig::parse(&EXAMPLE.replacen(from, to, 1)).unwrap_err();
            assert!(!reason.contains('\n'), "{reason}");
            reason
        };
        let cases = [
            ("node = 1", "node = 2", "node = 2: [[peers]] does not list it"),
            ("node = 1", "node = -1", "line 2, column 8: invalid value"),
            ("node = 1", "node = \"one\"", "line 2, column 8: invalid type: string"),
            ("node = 1", "node = 1\nmtu_bytes = 100", "mtu_bytes = 100: give a number from 576 to 65535"),
            ("datagram_port = 14793", "datagram_port = 0", "datagram_port = 0: peers must know the port"),
            ("datagram_port = 14793", "datagram_port = 4791", "datagram_port = 4791: that is RoCE v2's"),
            ("node = 0\n", "node = 1\n", "node 1 is listed twice"),
            ("node = 0\n", "node = 2\n", "node 0 is missing; number the nodes 0 to 1"),
            ("address = \"127.0.0.1\"\n", "address = \"0.0.0.0\"\n", "nobody can send to address 0.0.0.0"),
            (
                "address = \"127.0.0.1\"\n",
                "address = \"127.0.0.2\"\n",
                "[[peers]] node 1: address 127.0.0.2 belongs to node 0 already",
            ),
            (
                "address = \"127.0.0.1\"\n",
                "address = \"localhost\"\n",
                "line 12, column 11: invalid IPv4 address syntax",
            ),
            ("127.0.0.2:4794", "127.0.0.2:0", "nobody can send there"),
            ("127.0.0.2:4794", "127.0.0.2:14793", "port 14793 belongs to node 1 already"),
            ("127.0.0.2:4794", "127.0.0.2:4791", "port 4791 belongs to node 1 already"),
            ("127.0.0.2:4794", "10.0.0.1:4794", "with serve = true it is at this node's address 127.0.0.2"),
            (
                "serve = true",
                "serve = false",
                "[membership] lease_ms: only the process that runs the service",
            ),
            ("lease_ms = 500", "lease_ms = 0", "[membership] lease_ms = 0: a lease lasts 1 to 3600000 ms"),
            ("lease_ms = 500", "lease_ms = 9223372036854775807", "a lease lasts 1 to 3600000 ms"),
            ("\"state.toml\"", "\"\"", "[membership] state_file = \"\""),
            ("value_bytes = 64", "value_bytes = 0", "[kv] value_bytes = 0: give a number from 1 to 16384"),
            (
                "value_bytes = 64",
                "value_bytes = 2000",
                "[kv] value_bytes = 2000: mtu_bytes = 1500 takes values of at most 1360 bytes",
            ),
            ("value_bytes = 64", "capacity_keys = 0", "[kv] capacity_keys = 0: give a number"),
            ("value_bytes = 64", "partitions = 8", "unknown field `partitions`"),
            ("spin_us = 0", "spin_us = 1000001", "[cores] spin_us = 1000001"),
        ];
        for (from, to, expected) in cases {
            let reason = reason(from, to);
            assert!(reason.contains(expected), "{from} -> {to}: {reason}");
        }
    }

    #[test]
    fn a_cluster_has_one_to_sixteen_nodes() {
        let without_peers = EXAMPLE.split("[[peers]]").next().unwrap();
        assert!(NodeConfig::parse(without_peers).unwrap_err().contains("no node is listed"));
        let mut many = without_peers.to_owned();
        for node in 0..17 {
            many += &format!("[[peers]]\nnode = {node}\naddress = \"10.0.0.{node}\"\n");
        }
        assert!(
            NodeConfig::parse(&many).unwrap_err().contains("17 nodes are listed; a cluster has at most 16")
        );
    }
}
