//! The configuration files as they are written, and the way from there to a checked configuration.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};

use super::{
    CoresConfig, DEFAULT_DATAGRAM_PORT, DEFAULT_LEASE, DEFAULT_MTU_BYTES, DEFAULT_REPLICAS, IP_UDP_BYTES,
    KvConfig, MembershipConfig, NodeConfig, PeerConfig, Peers, ROCE_PORT, ServeConfig, ServiceConfig,
    TransactionsConfig,
};
use crate::identity::ClusterName;
use crate::message::LEASE_MAX;
use crate::text::Text;

/// The longest key, in bytes.
const KEY_BYTES_MAX: u32 = 64;
/// The longest value, in bytes.
const VALUE_BYTES_MAX: u32 = 16_384;
/// What may stand beside key and value in a datagram: the headers of the datagram and of the longest message.
const HEADERS_BYTES: u32 = 104;
/// What every network takes (RFC 791: 576 bytes), and what IPv4 can express.
const MTU_BYTES: std::ops::RangeInclusive<u32> = 576..=65_535;
/// The shortest packets with which nodes can run transactions: a message has all keys of one, or the longest value.
const TRANSACTIONS_MTU_BYTES: u32 = 1_400;
/// The longest time to poll: more is a core that never sleeps in all but name.
const SPIN_US_MAX: u64 = 1_000_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    node: usize,
    #[serde(default = "default_mtu_bytes")]
    mtu_bytes: u32,
    membership: MembershipTable,
    #[serde(default)]
    peers: Vec<PeerTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv: Option<KvTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transactions: Option<TransactionsTable>,
    cores: Option<CoresTable>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
    nodes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<usize>,
    address: SocketAddrV4,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_file: Option<PathBuf>,
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
    #[serde(default = "default_datagram_port")]
    datagram_port: u16,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct KvTable {
    key_bytes: u32,
    value_bytes: u32,
    capacity_keys: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransactionsTable {
    procedures: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoresTable {
    #[serde(default = "default_spin_us")]
    spin_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    core: Option<u32>,
}

const fn default_datagram_port() -> u16 {
    DEFAULT_DATAGRAM_PORT
}

const fn default_mtu_bytes() -> u32 {
    DEFAULT_MTU_BYTES
}

fn default_spin_us() -> u64 {
    CoresConfig::default().spin.as_ns() / 1_000
}

impl Default for KvTable {
    fn default() -> Self {
        let KvConfig { key_bytes, value_bytes, capacity_keys } = KvConfig::default();
        Self { key_bytes, value_bytes, capacity_keys }
    }
}

fn lease_ms(serve: &ServeConfig) -> u64 {
    serve.lease.as_ns() / 1_000_000
}

impl From<&NodeConfig> for File {
    fn from(config: &NodeConfig) -> Self {
        let serve = config.membership.serve.as_ref();
        File {
            cluster: Some(config.cluster.to_string()),
            node: config.node.index(),
            mtu_bytes: config.mtu_bytes,
            membership: MembershipTable {
                address: config.membership.address,
                serve: serve.is_some(),
                lease_ms: serve.map(lease_ms),
                state_file: serve.and_then(|serve| serve.state_file.clone()),
            },
            peers: config
                .peers
                .iter()
                .map(|(node, peer)| PeerTable {
                    node: node.index(),
                    address: peer.address,
                    datagram_port: peer.datagram_port,
                })
                .collect(),
            kv: config.transactions.is_none().then_some(KvTable {
                key_bytes: config.kv.key_bytes,
                value_bytes: config.kv.value_bytes,
                capacity_keys: config.kv.capacity_keys,
            }),
            transactions: config.transactions.as_ref().map(|transactions| TransactionsTable {
                procedures: transactions.procedures.clone(),
                size: transactions.size,
                replicas: Some(transactions.replicas),
                record: transactions.record.clone(),
            }),
            cores: Some(CoresTable { spin_us: config.cores.spin.as_ns() / 1_000, core: config.cores.core }),
        }
    }
}

impl From<&ServiceConfig> for ServiceFile {
    fn from(config: &ServiceConfig) -> Self {
        Self {
            cluster: Some(config.cluster.to_string()),
            nodes: config.nodes,
            replicas: Some(config.replicas),
            address: config.address,
            lease_ms: Some(lease_ms(&config.serve)),
            state_file: config.serve.state_file.clone(),
        }
    }
}

impl File {
    /// The configuration that the file describes, or the first thing that is wrong with it.
    pub(super) fn check(self) -> Result<NodeConfig, String> {
        if !MTU_BYTES.contains(&self.mtu_bytes) {
            let (least, most) = (MTU_BYTES.start(), MTU_BYTES.end());
            return Err(format!("mtu_bytes = {}: give a number from {least} to {most}", self.mtu_bytes));
        }
        let peers = check_peers(self.peers)?;
        let (node, own) =
            NodeId::new(self.node).and_then(|node| Some((node, *peers.get(node)?))).ok_or_else(|| {
                format!(
                    "node = {}: [[peers]] does not list it; list every node, this one included",
                    self.node
                )
            })?;
        let membership = self.membership.check()?;
        check_service_address(own.address, &peers, &membership)?;
        if self.kv.is_some() && self.transactions.is_some() {
            return Err("[transactions]: a node runs transactions or the key-value engine, not both; remove it or [kv]".to_owned());
        }
        let transactions =
            self.transactions.map(|table| table.check(peers.len(), self.mtu_bytes)).transpose()?;
        Ok(NodeConfig {
            cluster: check_cluster(self.cluster)?,
            node,
            mtu_bytes: self.mtu_bytes,
            membership,
            peers,
            // Nobody has asked for the key-value engine's usual sizes where it does not run.
            kv: match transactions {
                Some(_) => KvConfig::default(),
                None => self.kv.unwrap_or_default().check(self.mtu_bytes)?,
            },
            transactions,
            cores: self.cores.map_or_else(|| Ok(CoresConfig::default()), CoresTable::check)?,
        })
    }
}

impl ServiceFile {
    /// The configuration that the file describes, or the first thing that is wrong with it.
    pub(super) fn check(self) -> Result<ServiceConfig, String> {
        let Self { cluster, nodes, replicas, address, lease_ms, state_file } = self;
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(format!("nodes = {nodes}: a cluster has 1 to 16 nodes"));
        }
        let replicas = replicas.unwrap_or(nodes);
        if !(1..=nodes).contains(&replicas) {
            return Err(format!("replicas = {replicas}: {nodes} nodes hold 1 to {nodes} copies"));
        }
        check_address("address", address)?;
        let (cluster, serve) = (check_cluster(cluster)?, check_serve("", lease_ms, state_file)?);
        Ok(ServiceConfig { cluster, nodes, replicas, address, serve })
    }
}

impl MembershipTable {
    fn check(self) -> Result<MembershipConfig, String> {
        let address = self.address;
        check_address("[membership] address", address)?;
        if !self.serve {
            let stray = if self.lease_ms.is_some() { Some("lease_ms") } else { None };
            if let Some(field) = stray.or(self.state_file.as_ref().map(|_| "state_file")) {
                return Err(format!(
                    "[membership] {field}: only the process that runs the service decides it; remove it or set serve = true"
                ));
            }
            return Ok(MembershipConfig { address, serve: None });
        }
        let serve = check_serve("[membership] ", self.lease_ms, self.state_file)?;
        Ok(MembershipConfig { address, serve: Some(serve) })
    }
}

fn check_cluster(name: Option<String>) -> Result<ClusterName, String> {
    let Some(name) = name else { return Ok(ClusterName::default()) };
    ClusterName::new(&name).ok_or_else(|| {
        format!(
            "cluster = {name:?}: a name has 1 to {} letters, digits, dots, hyphens and underscores",
            ClusterName::BYTES_MAX
        )
    })
}

fn check_address(place: &str, address: SocketAddrV4) -> Result<(), String> {
    if address.port() == 0 || address.ip().is_unspecified() {
        return Err(format!(
            "{place} = \"{address}\": nobody can send there; give the service's address and port"
        ));
    }
    Ok(())
}

fn check_serve(
    place: &str,
    lease_ms: Option<u64>,
    state_file: Option<PathBuf>,
) -> Result<ServeConfig, String> {
    let longest_ms = LEASE_MAX.as_ns() / 1_000_000;
    let lease = match lease_ms {
        None => DEFAULT_LEASE,
        Some(lease_ms) if (1..=longest_ms).contains(&lease_ms) => Duration::from_ms(lease_ms),
        Some(lease_ms) => {
            return Err(format!(
                "{place}lease_ms = {lease_ms}: a lease lasts 1 to {longest_ms} ms; 1000 suits most networks"
            ));
        }
    };
    if state_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
        return Err(format!("{place}state_file = \"\": name a file, or remove the line"));
    }
    Ok(ServeConfig { lease, state_file })
}

impl KvTable {
    fn check(self, mtu_bytes: u32) -> Result<KvConfig, String> {
        let Self { key_bytes, value_bytes, capacity_keys } = self;
        let ranges = [
            ("key_bytes", key_bytes, KEY_BYTES_MAX),
            ("value_bytes", value_bytes, VALUE_BYTES_MAX),
            ("capacity_keys", capacity_keys, u32::MAX),
        ];
        for (field, value, max) in ranges {
            if !(1..=max).contains(&value) {
                return Err(format!("[kv] {field} = {value}: give a number from 1 to {max}"));
            }
        }
        // Messages are padded to whole words.
        let room = (mtu_bytes - IP_UDP_BYTES - HEADERS_BYTES - key_bytes.next_multiple_of(8)) & !7;
        if value_bytes > room {
            return Err(format!(
                "[kv] value_bytes = {value_bytes}: mtu_bytes = {mtu_bytes} takes values of at most {room} bytes"
            ));
        }
        Ok(KvConfig { key_bytes, value_bytes, capacity_keys })
    }
}

impl TransactionsTable {
    fn check(self, nodes: usize, mtu_bytes: u32) -> Result<TransactionsConfig, String> {
        let Self { procedures, size, replicas, record } = self;
        let replicas = replicas.unwrap_or(DEFAULT_REPLICAS.min(nodes));
        if procedures.is_empty() {
            return Err("[transactions] procedures = \"\": name the registered procedures".to_owned());
        }
        if Text::new(&procedures).is_none() {
            let most = Text::BYTES_MAX;
            return Err(format!(
                "[transactions] procedures = {procedures:?}: a name has at most {most} printable characters"
            ));
        }
        if size == 0 {
            return Err("[transactions] size = 0: give the objects of a shard, 1 or more".to_owned());
        }
        if !(1..=nodes).contains(&replicas) {
            return Err(format!(
                "[transactions] replicas = {replicas}: with {nodes} nodes a shard has 1 to {nodes} replicas"
            ));
        }
        if mtu_bytes < TRANSACTIONS_MTU_BYTES {
            return Err(format!(
                "mtu_bytes = {mtu_bytes}: transactions need packets of {TRANSACTIONS_MTU_BYTES} bytes or more"
            ));
        }
        if record.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err("[transactions] record = \"\": name a file, or remove the line".to_owned());
        }
        Ok(TransactionsConfig { procedures, size, replicas, record })
    }
}

impl CoresTable {
    fn check(self) -> Result<CoresConfig, String> {
        if self.spin_us > SPIN_US_MAX {
            return Err(format!("[cores] spin_us = {}: give a number from 0 to {SPIN_US_MAX}", self.spin_us));
        }
        Ok(CoresConfig { spin: Duration::from_us(self.spin_us), core: self.core })
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
    let place = |peer: PeerTable| PeerConfig { address: peer.address, datagram_port: peer.datagram_port };
    Peers::new(tables.into_iter().map(place).collect())
}

fn check_service_address(own: Ipv4Addr, peers: &Peers, membership: &MembershipConfig) -> Result<(), String> {
    let address = membership.address;
    let place = format!("[membership] address = \"{address}\"");
    if membership.serve.is_some() && *address.ip() != own {
        return Err(format!(
            "{place}: with serve = true it is at this node's address {own}; correct it, or set serve = false"
        ));
    }
    let owner = peers.iter().find(|(_, peer)| {
        peer.address == *address.ip() && [ROCE_PORT, peer.datagram_port].contains(&address.port())
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
