//! `weft init`: the configuration of a new cluster.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use clap::Args;
use weft_cluster::{
    ClusterConfig, ClusterName, DEFAULT_DATAGRAM_PORT, DEFAULT_REPLICAS, EnginesConfig, Host, KvConfig,
    LockConfig, LogConfig, MEMBERSHIP_PORT, METRICS_PORT, ObjectConfig, PeerConfig, Peers, Place, REDIS_PORT,
    ROCE_PORT, RedisConfig, SecurityConfig, TransactionsConfig,
};
use weft_net::{found_coordinators, write_new_key};
use weft_waist::{NODES_MAX, NodeId};

use crate::client::CONFIG;
use crate::failure::{Failure, Verdict};
use crate::output;

/// The file with the cluster key, beside the configuration.
const KEY_FILE: &str = "weft.key";

/// The largest IP packet on the loopback interface, as far as IPv4 can express it.
const LOOPBACK_MTU_BYTES: u32 = 65_535;

/// Cluster to write a configuration for.
#[derive(Clone, Debug, Args)]
pub(crate) struct InitArguments {
    /// Number of nodes, on free loopback addresses of this machine
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "addresses",
          value_parser = clap::value_parser!(u16).range(1..=NODES_MAX as i64))]
    nodes: u16,
    /// Put all nodes on this machine (the default without --addresses)
    #[arg(long, conflicts_with = "addresses")]
    loopback: bool,
    /// Addresses or names of the nodes' hosts, node 0 first
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    addresses: Vec<Host>,
    /// Configure the membership service as a process of its own at ADDRESS (`weft membership`), so that the cluster
    /// survives the loss of any one node. Without this option and --keepers node 0 runs it, and the cluster does not
    /// survive the loss of node 0. ADDRESS is required with --addresses [default: a free loopback address]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    membership: Option<Option<Host>>,
    /// Make every node a keeper of the membership service, so that the cluster survives the loss of any one node. The
    /// first 1, 3 or 5 nodes are coordinators, which store the state of the service; a majority of them must run. Each
    /// of them needs the file that is written for it beside weft.toml
    #[arg(long, conflicts_with = "membership")]
    keepers: bool,
    /// Accept clients of Redis on port 6379 of each node
    #[arg(long)]
    redis: bool,
    /// Seal all datagrams between nodes and clients under a new key, in the file weft.key beside weft.toml
    #[arg(long)]
    sealed: bool,
    /// Name of the cluster
    #[arg(long, value_name = "NAME", default_value = ClusterName::DEFAULT, value_parser = parse_name)]
    name: ClusterName,
    /// Folder for weft.toml, created if necessary
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

fn parse_name(text: &str) -> Result<ClusterName, String> {
    let most = ClusterName::BYTES_MAX;
    ClusterName::new(text)
        .ok_or_else(|| format!("a name has 1 to {most} letters, digits, dots, hyphens and underscores"))
}

impl InitArguments {
    /// Writes the configuration file, and prints how to start the cluster.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let path = self.dir.join(CONFIG);
        if path.exists() {
            return Err(Failure::at(&path, "it is there already; remove it, or choose another --dir"));
        }
        let is_loopback = self.addresses.is_empty();
        let mut addresses = if is_loopback {
            let own = usize::from(self.membership == Some(None));
            free_addresses(usize::from(self.nodes) + own, self.redis)?.into_iter().map(Host::from).collect()
        } else {
            self.addresses.clone()
        };
        let service = match &self.membership {
            Some(None) if !is_loopback => {
                return Err(Failure::new("give --membership an address of its own beside --addresses"));
            }
            Some(None) => addresses.pop(),
            Some(address) => address.clone(),
            None => None,
        };
        let mut config = configuration(self.name, &addresses, service).map_err(Failure::new)?;
        if self.keepers {
            add_keepers(&mut config);
        }
        if is_loopback {
            config.mtu_bytes = LOOPBACK_MTU_BYTES;
        }
        if self.redis {
            add_redis(&mut config, is_loopback);
        }
        if self.sealed {
            config.security = Some(SecurityConfig { key_file: KEY_FILE.into() });
        }
        // This text is checked and then written, so the file is known to be valid.
        let text = text(&config);
        let config = ClusterConfig::parse(&text)
            .map_err(|reason| Failure::new(format_args!("--addresses: {reason}")))?
            .located_at(&path);
        fs::create_dir_all(&self.dir)
            .map_err(|error| Failure::at(&self.dir, format_args!("cannot be created: {error}")))?;
        found_coordinators(&config.service())
            .map_err(|error| Failure::new(format_args!("{error}; choose another --dir")))?;
        if let Some(SecurityConfig { key_file }) = &config.security {
            write_new_key(key_file).map_err(|error| not_written(key_file, &error))?;
        }
        write_new(&path, &text)?;
        output::print(&instructions(&path, &addresses, &config, is_loopback))?;
        Ok(Verdict::Good)
    }
}

/// A cluster with an engine of every kind but rounds. Node 0 runs the membership service, unless `service` gives the
/// address of a separate process.
fn configuration(
    name: ClusterName,
    addresses: &[Host],
    service: Option<Host>,
) -> Result<ClusterConfig, String> {
    let peers = Peers::new(addresses.iter().cloned().map(PeerConfig::new).collect())?;
    let has_service = service.is_some();
    let transactions = TransactionsConfig {
        procedures: "ledger".to_owned(),
        size: 1_000,
        replicas: DEFAULT_REPLICAS.min(addresses.len()),
        record: None,
    };
    let engines = EnginesConfig {
        kv: Some(KvConfig::DEFAULT),
        transactions: Some(transactions),
        objects: vec![ObjectConfig { name: "likes".to_owned(), data_type: "pn-counter".to_owned() }],
        logs: vec![LogConfig { name: "events".to_owned() }],
        rounds: None,
        data_dir: None,
        lock: Some(LockConfig::DEFAULT),
    };
    let mut config = ClusterConfig::new(
        peers,
        Place::new(service.unwrap_or_else(|| addresses[0].clone()), MEMBERSHIP_PORT),
        engines,
    );
    config.name = name;
    config.metrics_port = Some(METRICS_PORT);
    config.membership.node = if has_service { None } else { NodeId::new(0) };
    config.membership.serve.state_file = Some(Path::new(CONFIG).with_extension("membership.toml"));
    Ok(config)
}

/// Makes every node a keeper, and as many of them coordinators as there can be.
fn add_keepers(config: &mut ClusterConfig) {
    let most = config.peers.len();
    let count = [5, 3, 1].into_iter().find(|count| *count <= most).expect("a cluster has nodes");
    let membership = &mut config.membership;
    (membership.node, membership.serve.state_file) = (None, None);
    membership.coordinators = (0..count).filter_map(NodeId::new).collect();
}

/// Adds the Redis protocol server, and a store with the sizes that Redis clients expect: keys of up to 64 bytes, and
/// values of up to 4 KiB on loopback, or as much as an Ethernet packet holds elsewhere.
fn add_redis(config: &mut ClusterConfig, is_loopback: bool) {
    let value_bytes = if is_loopback { 4_096 } else { 1_024 } + weft_resp::HEADER_BYTES_MAX as u32;
    config.engines.kv = Some(KvConfig { key_bytes: 64 + 1, value_bytes, ..KvConfig::DEFAULT });
    config.redis = Some(RedisConfig::default());
}

fn text(config: &ClusterConfig) -> String {
    format!(
        "# The configuration of a cluster: the same file on every node. Every key: docs/configuration.md.\n\n{}\n\
         # Synchronous rounds: remove the signs of a comment to have them, too.\n# [rounds]\n# period_us = 1000\n",
        config.to_commented_toml()
    )
}

/// Consecutive addresses of the loopback interface at which all ports that a node opens are free.
fn free_addresses(count: usize, redis: bool) -> Result<Vec<Ipv4Addr>, Failure> {
    // Each cluster gets a block of 32 addresses, in a range that programs do not use by default.
    const BLOCK: u32 = 32;
    let first = u32::from(Ipv4Addr::new(127, 16, 0, 0));
    let blocks = (0..1_024).map(|block| first + block * BLOCK + 1);
    let blocks = blocks.map(|first| (first..).take(count).map(Ipv4Addr::from).collect::<Vec<_>>());
    let is_free = |address: &Ipv4Addr| {
        let ports = [DEFAULT_DATAGRAM_PORT, ROCE_PORT, MEMBERSHIP_PORT];
        ports.iter().all(|port| UdpSocket::bind(SocketAddrV4::new(*address, *port)).is_ok())
            && TcpListener::bind(SocketAddrV4::new(*address, METRICS_PORT)).is_ok()
            && (!redis || TcpListener::bind(SocketAddrV4::new(*address, REDIS_PORT)).is_ok())
    };
    blocks.into_iter().find(|block| block.iter().all(is_free)).ok_or_else(|| {
        Failure::new("no free loopback addresses are found in 127.16.0.0/16; give --addresses")
    })
}

/// Writes a new file. If the file exists, this is an error, so a second command overwrites nothing.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::at(path, "it is there already; remove it, or choose another --dir")
        }
        _ => Failure::at(path, format_args!("cannot be written: {error}")),
    }
}

fn instructions(path: &Path, addresses: &[Host], config: &ClusterConfig, is_loopback: bool) -> String {
    let ClusterConfig { membership, redis, security, .. } = config;
    let config = path.display();
    let place = if is_loopback { "in a terminal for each node" } else { "copy it to every node, and there" };
    let mut text = format!("{config} is written");
    if !membership.coordinators.is_empty() && !is_loopback {
        text += ", and weft.coordinator.node* beside it: move each of these to the node in its name, and nowhere else";
    }
    if security.is_some() && !is_loopback {
        let _ = write!(
            text,
            ", and {KEY_FILE} beside it: copy it, too, to every node and client, and to nobody else"
        );
    }
    let _ = writeln!(text, "; start the nodes, {place}:");
    if membership.node.is_none() && membership.coordinators.is_empty() {
        let _ = writeln!(text, "    weft membership --config {config}");
    }
    for node in 0..addresses.len() {
        let _ = writeln!(text, "    weft start --config {config} --node {node}");
    }
    let _ = writeln!(text, "then ask any of them:\n    weft kv --config {config} put greeting hello");
    if redis.is_some() {
        let _ = writeln!(text, "    redis-cli -h {} set greeting hello", addresses[0]);
    }
    let _ = writeln!(text, "    weft txn --config {config} call deposit 0/1 --input 100");
    if membership.node.is_some() && addresses.len() > 1 {
        text += "the cluster survives the loss of any node but node 0, which runs the membership service; with --keepers of any\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_was_meant() {
        let addresses = [1, 2, 3].map(|host| Host::from(Ipv4Addr::new(10, 0, 0, host)));
        let config = configuration(ClusterName::new("orders").unwrap(), &addresses, None).unwrap();
        for is_loopback in [false, true] {
            let mut with_redis = config.clone();
            with_redis.mtu_bytes = if is_loopback { LOOPBACK_MTU_BYTES } else { with_redis.mtu_bytes };
            add_redis(&mut with_redis, is_loopback);
            assert_eq!(ClusterConfig::parse(&super::text(&with_redis)), Ok(with_redis));
        }
        let text = text(&config);
        assert_eq!(ClusterConfig::parse(&text).as_ref(), Ok(&config));
        let with_rounds = text.replace("# [rounds]\n# period_us", "[rounds]\nperiod_us");
        assert!(ClusterConfig::parse(&with_rounds).unwrap().engines.rounds.is_some());
        let mut kept = config.clone();
        add_keepers(&mut kept);
        assert_eq!(kept.membership.coordinators, [0, 1, 2].map(|node| NodeId::new(node).unwrap()));
        let commented = super::text(&kept);
        assert!(commented.lines().all(|line| line.chars().count() <= 120), "{commented}");
        assert_eq!(ClusterConfig::parse(&commented), Ok(kept));
        let service: Host = "service.example".parse().unwrap();
        let apart = configuration(ClusterName::default(), &addresses, Some(service.clone())).unwrap();
        assert_eq!(ClusterConfig::parse(&super::text(&apart)).as_ref(), Ok(&apart));
        assert_eq!((apart.membership.node, apart.membership.address.host.clone()), (None, service));
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn addresses_that_are_in_use_are_passed_over() {
        let first = free_addresses(2, true).unwrap();
        let _holder = UdpSocket::bind(SocketAddrV4::new(first[1], ROCE_PORT)).unwrap();
        let second = free_addresses(2, true).unwrap();
        assert!(second.iter().all(|address| !first.contains(address)), "{first:?} {second:?}");
    }

    #[test]
    fn the_types_and_procedures_of_the_file_exist() {
        let config = configuration(ClusterName::default(), &[Ipv4Addr::LOCALHOST.into()], None).unwrap();
        for object in &config.engines.objects {
            assert!(weft_rdt::types::by_name(&object.data_type).is_some(), "{}", object.data_type);
        }
        assert!(crate::txn::registered(config.engines.transactions.as_ref().unwrap(), 1).is_ok());
    }
}
