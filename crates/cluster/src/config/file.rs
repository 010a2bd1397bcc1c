//! The configuration file as it is written, and the way from there to a checked configuration.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};

use super::{
    CoresConfig, DEFAULT_DATAGRAM_PORT, DEFAULT_LEASE, DEFAULT_ROCE_PORT, KvConfig, MembershipConfig,
    NodeConfig, PeerConfig, Peers, Ports, ServeConfig, check_ports,
};
use crate::message::LEASE_MAX;

/// The longest key, in bytes.
const KEY_BYTES_MAX: u32 = 256;
/// The longest value, in bytes: with its key and headers it must fit a UDP datagram.
const VALUE_BYTES_MAX: u32 = 32_768;
/// The most partitions: far more than nodes are enough to spread leadership evenly.
const PARTITIONS_MAX: u32 = 65_536;
/// The longest time to poll: more is a core that never sleeps in all but name.
const SPIN_US_MAX: u64 = 1_000_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    node: usize,
    listen: Ipv4Addr,
    ports: Option<PortsTable>,
    membership: MembershipTable,
    #[serde(default)]
    peers: Vec<PeerTable>,
    kv: Option<KvTable>,
    cores: Option<CoresTable>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortsTable {
    #[serde(default = "default_roce_port")]
    roce: u16,
    #[serde(default = "default_datagram_port")]
    datagram: u16,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MembershipTable {
    address: SocketAddrV4,
    #[serde(default)]
    serve: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_file: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    node: usize,
    address: Ipv4Addr,
    #[serde(default = "default_roce_port")]
    roce_port: u16,
    #[serde(default = "default_datagram_port")]
    datagram_port: u16,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KvTable {
    key_bytes: u32,
    value_bytes: u32,
    capacity_keys: u32,
    partitions: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoresTable {
    spin_us: u64,
}

const fn default_roce_port() -> u16 {
    DEFAULT_ROCE_PORT
}

const fn default_datagram_port() -> u16 {
    DEFAULT_DATAGRAM_PORT
}

impl Default for KvTable {
    fn default() -> Self {
        let KvConfig { key_bytes, value_bytes, capacity_keys, partitions } = KvConfig::default();
        Self { key_bytes, value_bytes, capacity_keys, partitions }
    }
}

impl From<&NodeConfig> for File {
    fn from(config: &NodeConfig) -> Self {
        let serve = config.membership.serve.as_ref();
        File {
            node: config.node.index(),
            listen: config.listen,
            ports: Some(PortsTable { roce: config.ports.roce, datagram: config.ports.datagram }),
            membership: MembershipTable {
                address: config.membership.address,
                serve: serve.is_some(),
                lease_ms: serve.map(|serve| serve.lease.as_ns() / 1_000_000),
                state_file: serve.and_then(|serve| serve.state_file.clone()),
            },
            peers: config
                .peers
                .iter()
                .map(|(node, peer)| PeerTable {
                    node: node.index(),
                    address: peer.address,
                    roce_port: peer.ports.roce,
                    datagram_port: peer.ports.datagram,
                })
                .collect(),
            kv: Some(KvTable {
                key_bytes: config.kv.key_bytes,
                value_bytes: config.kv.value_bytes,
                capacity_keys: config.kv.capacity_keys,
                partitions: config.kv.partitions,
            }),
            cores: Some(CoresTable { spin_us: config.cores.spin.as_ns() / 1_000 }),
        }
    }
}

impl File {
    /// The configuration that the file describes, or the first thing that is wrong with it.
    pub(super) fn check(self) -> Result<NodeConfig, String> {
        let ports = self
            .ports
            .map_or_else(Ports::default, |table| Ports { roce: table.roce, datagram: table.datagram });
        check_ports("[ports]", "roce", "datagram", ports)?;
        let peers = check_peers(self.peers)?;
        let node = NodeId::new(self.node).filter(|&node| peers.get(node).is_some()).ok_or_else(|| {
            format!("node = {}: [[peers]] does not list it; list every node, this one included", self.node)
        })?;
        if let Some(own) = peers.get(node) {
            check_own_peer(self.listen, ports, node, own)?;
        }
        let membership = self.membership.check()?;
        check_service_address(self.listen, &peers, &membership)?;
        Ok(NodeConfig {
            node,
            listen: self.listen,
            ports,
            membership,
            peers,
            kv: self.kv.unwrap_or_default().check()?,
            cores: self.cores.map_or_else(|| Ok(CoresConfig::default()), CoresTable::check)?,
        })
    }
}

impl MembershipTable {
    fn check(self) -> Result<MembershipConfig, String> {
        let address = self.address;
        if address.port() == 0 || address.ip().is_unspecified() {
            return Err(format!(
                "[membership] address = \"{address}\": nobody can send there; give the service's address and port"
            ));
        }
        if !self.serve {
            let stray = if self.lease_ms.is_some() { Some("lease_ms") } else { None };
            if let Some(field) = stray.or(self.state_file.as_ref().map(|_| "state_file")) {
                return Err(format!(
                    "[membership] {field}: only the process that runs the service decides it; remove it or set serve = true"
                ));
            }
            return Ok(MembershipConfig { address, serve: None });
        }
        let longest_ms = LEASE_MAX.as_ns() / 1_000_000;
        let lease = match self.lease_ms {
            None => DEFAULT_LEASE,
            Some(lease_ms) if (1..=longest_ms).contains(&lease_ms) => Duration::from_ms(lease_ms),
            Some(lease_ms) => {
                return Err(format!(
                    "[membership] lease_ms = {lease_ms}: a lease lasts 1 to {longest_ms} ms; 1000 suits most networks"
                ));
            }
        };
        if self.state_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err("[membership] state_file = \"\": name a file, or remove the line".to_owned());
        }
        Ok(MembershipConfig { address, serve: Some(ServeConfig { lease, state_file: self.state_file }) })
    }
}

impl KvTable {
    fn check(self) -> Result<KvConfig, String> {
        let Self { key_bytes, value_bytes, capacity_keys, partitions } = self;
        let ranges = [
            ("key_bytes", key_bytes, KEY_BYTES_MAX),
            ("value_bytes", value_bytes, VALUE_BYTES_MAX),
            ("capacity_keys", capacity_keys, u32::MAX),
            ("partitions", partitions, PARTITIONS_MAX),
        ];
        for (field, value, max) in ranges {
            if !(1..=max).contains(&value) {
                return Err(format!("[kv] {field} = {value}: give a number from 1 to {max}"));
            }
        }
        Ok(KvConfig { key_bytes, value_bytes, capacity_keys, partitions })
    }
}

impl CoresTable {
    fn check(self) -> Result<CoresConfig, String> {
        if self.spin_us > SPIN_US_MAX {
            return Err(format!("[cores] spin_us = {}: give a number from 0 to {SPIN_US_MAX}", self.spin_us));
        }
        Ok(CoresConfig { spin: Duration::from_us(self.spin_us) })
    }
}

fn check_peers(mut tables: Vec<PeerTable>) -> Result<Peers, String> {
    tables.sort_by_key(|peer| peer.node);
    if let Some(twice) = tables.windows(2).find(|pair| pair[0].node == pair[1].node) {
        return Err(format!(
            "[[peers]]: node {} is listed twice; give each node a number of its own",
            twice[0].node
        ));
    }
    // What is too many is said before what is missing.
    if tables.len() <= NODES_MAX
        && let Some((missing, _)) = tables.iter().enumerate().find(|(index, peer)| peer.node != *index)
    {
        return Err(format!(
            "[[peers]]: node {missing} is missing; number the nodes 0 to {}",
            tables.len() - 1
        ));
    }
    let place = |peer: PeerTable| PeerConfig {
        address: peer.address,
        ports: Ports { roce: peer.roce_port, datagram: peer.datagram_port },
    };
    Peers::new(tables.into_iter().map(place).collect())
}

fn check_own_peer(listen: Ipv4Addr, ports: Ports, node: NodeId, own: &PeerConfig) -> Result<(), String> {
    let place = format!("[[peers]] node {}", node.index());
    if !listen.is_unspecified() && own.address != listen {
        return Err(format!(
            "{place}: this node's address is {} here, but listen = \"{listen}\"; make them agree",
            own.address
        ));
    }
    for (field, here, there) in
        [("roce", ports.roce, own.ports.roce), ("datagram", ports.datagram, own.ports.datagram)]
    {
        if here != there {
            return Err(format!(
                "{place}: this node's {field}_port is {there} here, but [ports] {field} = {here}; make them agree"
            ));
        }
    }
    Ok(())
}

fn check_service_address(
    listen: Ipv4Addr,
    peers: &Peers,
    membership: &MembershipConfig,
) -> Result<(), String> {
    let address = membership.address;
    let place = format!("[membership] address = \"{address}\"");
    if membership.serve.is_some() && !listen.is_unspecified() && *address.ip() != listen {
        return Err(format!(
            "{place}: with serve = true it is at this node's address {listen}; correct it, or set serve = false"
        ));
    }
    let owner = peers.iter().find(|(_, peer)| {
        peer.address == *address.ip() && [peer.ports.roce, peer.ports.datagram].contains(&address.port())
    });
    match owner {
        Some((node, _)) => Err(format!(
            "{place}: port {} belongs to node {} already; choose another",
            address.port(),
            node.index()
        )),
        None => Ok(()),
    }
}
