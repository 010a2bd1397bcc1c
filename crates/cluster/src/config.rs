//! The configuration file of a node.
//!
//! ```toml
//! node = 0                      # who this node is
//! listen = "127.0.0.1"          # the address of its ports
//!
//! [ports]                       # optional; these are the defaults
//! roce = 4791
//! datagram = 4793
//!
//! [membership]
//! address = "127.0.0.1:4794"    # where the membership service is
//! serve = true                  # this process runs it; only one does
//! lease_ms = 1000               # with serve: how long a lease lasts
//! state_file = "state.toml"     # with serve: what survives a restart of the service; optional
//!
//! [[peers]]                     # every node of the cluster, this one included: 0, 1, 2, ...
//! node = 0
//! address = "127.0.0.1"
//! roce_port = 4791              # optional, as above
//! datagram_port = 4793
//!
//! [kv]                          # optional; the same on every node
//! key_bytes = 8
//! value_bytes = 1024
//! capacity_keys = 65536
//! partitions = 64
//!
//! [cores]                       # optional
//! spin_us = 50                  # how long to poll before sleeping; 0: sleep at once
//! ```
//!
//! What [`NodeConfig::load`] returns has been checked as a whole: nothing in it contradicts anything else.

mod file;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};

use file::File;

/// The UDP port of RoCE v2, as assigned by IANA.
pub const DEFAULT_ROCE_PORT: u16 = 4791;
/// The UDP port of Weft's datagrams unless configured otherwise.
pub const DEFAULT_DATAGRAM_PORT: u16 = 4793;
/// How long a lease lasts unless configured otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(1);

/// Everything that one node's process is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Who this node is; one of [`NodeConfig::peers`].
    pub node: NodeId,
    /// The address of its ports; unspecified (0.0.0.0) for all of the machine's.
    pub listen: Ipv4Addr,
    /// Its ports.
    pub ports: Ports,
    /// Where the membership service is.
    pub membership: MembershipConfig,
    /// Every node of the cluster.
    pub peers: Peers,
    /// The key-value engine's sizes.
    pub kv: KvConfig,
    /// How cores wait.
    pub cores: CoresConfig,
}

/// The UDP ports of a node. They differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// RoCE v2.
    pub roce: u16,
    /// Weft's datagrams.
    pub datagram: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { roce: DEFAULT_ROCE_PORT, datagram: DEFAULT_DATAGRAM_PORT }
    }
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
    /// Where what must survive a restart of the service is stored. Without one, a restarted service
    /// grants nothing to nodes that still run.
    pub state_file: Option<PathBuf>,
}

/// Where one node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its ports.
    pub ports: Ports,
}

/// The nodes of a cluster: 1 to 16 of them, numbered without gaps, no two at the same address and port.
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
    /// Over how many partitions leadership is spread.
    pub partitions: u32,
}

impl Default for KvConfig {
    fn default() -> Self {
        Self { key_bytes: 8, value_bytes: 1_024, capacity_keys: 65_536, partitions: 64 }
    }
}

/// How the node's cores wait for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresConfig {
    /// How long a core polls before it sleeps; zero to sleep at once.
    pub spin: Duration,
}

impl Default for CoresConfig {
    fn default() -> Self {
        Self { spin: Duration::from_us(50) }
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
        let error = |reason| ConfigError { path: path.to_owned(), reason };
        let text =
            std::fs::read_to_string(path).map_err(|cause| error(format!("cannot be read: {cause}")))?;
        Self::parse(&text).map_err(error)
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
}

impl Peers {
    /// The peers at these places, node 0 first.
    ///
    /// # Errors
    /// What is wrong, in one line, if they are none or more than 16, or share an address and port.
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
            check_ports(&place, "roce_port", "datagram_port", peer.ports)?;
            if peer.address.is_unspecified() || peer.address.is_multicast() || peer.address.is_broadcast() {
                return Err(format!(
                    "{place}: nobody can send to address {}; give the address at which the node is reached",
                    peer.address
                ));
            }
            for (other, earlier) in peers[..node].iter().enumerate() {
                let taken = [earlier.ports.roce, earlier.ports.datagram];
                let shared =
                    [peer.ports.roce, peer.ports.datagram].into_iter().find(|port| taken.contains(port));
                if let Some(port) = shared.filter(|_| peer.address == earlier.address) {
                    return Err(format!(
                        "{place}: {}:{port} belongs to node {other} already; give one of them another port",
                        peer.address
                    ));
                }
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

fn check_ports(place: &str, roce: &str, datagram: &str, ports: Ports) -> Result<(), String> {
    if ports.roce == 0 || ports.datagram == 0 {
        let field = if ports.roce == 0 { roce } else { datagram };
        return Err(format!("{place} {field} = 0: peers must know the port; give a number from 1 to 65535"));
    }
    if ports.roce == ports.datagram {
        return Err(format!(
            "{place}: {roce} and {datagram} are both {}; give them different ports",
            ports.roce
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"
node = 1
listen = "127.0.0.1"

[ports]
roce = 14791
datagram = 14793

[membership]
address = "127.0.0.1:4794"
serve = true
lease_ms = 500
state_file = "state.toml"

[[peers]]
node = 0
address = "127.0.0.1"

[[peers]]
node = 1
address = "127.0.0.1"
roce_port = 14791
datagram_port = 14793

[kv]
value_bytes = 64

[cores]
spin_us = 0
"#;

    #[test]
    fn an_example_is_read_with_its_defaults() {
        let config = NodeConfig::parse(EXAMPLE).unwrap();
        assert_eq!(config.node, NodeId::new(1).unwrap());
        assert_eq!(config.peers.len(), 2);
        assert_eq!(config.peers.get(NodeId::new(0).unwrap()).unwrap().ports, Ports::default());
        assert_eq!(config.kv, KvConfig { value_bytes: 64, ..KvConfig::default() });
        assert_eq!(config.cores.spin, Duration::ZERO);
        let serve = config.membership.serve.as_ref().unwrap();
        assert_eq!(serve.lease, Duration::from_ms(500));
        assert_eq!(NodeConfig::parse(&config.to_toml()), Ok(config));
    }

    #[test]
    fn the_file_and_the_reason_stand_on_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.toml");
        let message = || NodeConfig::load(&path).unwrap_err().to_string();
        assert!(message().contains("node.toml: cannot be read: No such file"), "{}", message());
        std::fs::write(&path, EXAMPLE.replace("spin_us", "spin")).unwrap();
        assert!(message().contains("node.toml: line 29, column 1: unknown field `spin`"), "{}", message());
        std::fs::write(&path, EXAMPLE).unwrap();
        assert!(NodeConfig::load(&path).is_ok());
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
            (
                "listen = \"127.0.0.1\"",
                "listen = \"localhost\"",
                "line 3, column 10: invalid IPv4 address syntax",
            ),
            ("listen = \"127.0.0.1\"", "", "missing field `listen`"),
            ("listen = \"127.0.0.1\"", "listen = \"127.0.0.2\"", "make them agree"),
            ("roce = 14791", "roce = 14793", "[ports]: roce and datagram are both 14793"),
            ("roce = 14791", "roce = 0", "[ports] roce = 0: peers must know the port"),
            ("roce = 14791", "roce = 4791", "this node's roce_port is 14791 here, but [ports] roce = 4791"),
            ("node = 0\n", "node = 1\n", "node 1 is listed twice"),
            ("node = 0\n", "node = 2\n", "node 0 is missing; number the nodes 0 to 1"),
            ("address = \"127.0.0.1\"\n", "address = \"0.0.0.0\"\n", "nobody can send to address 0.0.0.0"),
            (
                "address = \"127.0.0.1\"\n",
                "address = \"127.0.0.1\"\nroce_port = 14793\n",
                "[[peers]] node 1: 127.0.0.1:14793 belongs to node 0 already",
            ),
            ("127.0.0.1:4794", "127.0.0.1:0", "nobody can send there"),
            ("127.0.0.1:4794", "127.0.0.1:14793", "port 14793 belongs to node 1 already"),
            ("127.0.0.1:4794", "10.0.0.1:4794", "with serve = true it is at this node's address 127.0.0.1"),
            (
                "serve = true",
                "serve = false",
                "[membership] lease_ms: only the process that runs the service",
            ),
            ("lease_ms = 500", "lease_ms = 0", "[membership] lease_ms = 0: a lease lasts 1 to 3600000 ms"),
            ("lease_ms = 500", "lease_ms = 9223372036854775807", "a lease lasts 1 to 3600000 ms"),
            ("\"state.toml\"", "\"\"", "[membership] state_file = \"\""),
            ("value_bytes = 64", "value_bytes = 0", "[kv] value_bytes = 0: give a number from 1 to 32768"),
            ("value_bytes = 64", "capacity_keys = 0", "[kv] capacity_keys = 0: give a number"),
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
