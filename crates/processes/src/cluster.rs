//! The processes of a run: a membership service and nodes, with their output.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use weft_cluster::{
    ClusterConfig, CoresConfig, DEFAULT_DATAGRAM_PORT, EnginesConfig, MEMBERSHIP_PORT, PeerConfig, Peers,
    SecurityConfig, Tables, TransactionsConfig,
};
use weft_kv::Role;
use weft_net::process::{ChildProcess, own_executable};
use weft_net::{Announcement, Announcer, write_new_key};
use weft_time::Duration;
use weft_waist::NodeId;

use crate::{MEMBERSHIP_COMMAND, NODE_COMMAND, RealBenchError};

/// Time within which a process must open its ports and the cluster must form, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time within which a process must end after it was requested to stop.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(20);
/// MTU of the loopback interface, 64 KiB.
pub(crate) const MTU_BYTES: u32 = 65_535;

/// Addresses of one run.
///
/// Every process that runs benchmarks has its own 32 loopback addresses, so that several can run at the same
/// time although the ports are fixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses(u32);

impl Addresses {
    /// Addresses of the process with this process identifier, in the upper half of 127.0.0.0/8. Other
    /// programs use the lower half.
    pub fn of_process(id: u32) -> Self {
        const BLOCKS: u32 = 1 << 18;
        Self(u32::from(Ipv4Addr::new(127, 128, 0, 0)) + ((id % BLOCKS) << 5))
    }

    pub fn membership(self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from(self.0 + 1), MEMBERSHIP_PORT)
    }

    pub fn clients(self) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + 2)
    }

    pub fn node(self, node: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + 3 + node)
    }

    /// Where a node receives Weft's datagrams.
    pub fn datagrams(self, node: u32) -> SocketAddrV4 {
        SocketAddrV4::new(self.node(node), DEFAULT_DATAGRAM_PORT)
    }
}

/// Parameters of a cluster of processes.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSettings {
    pub nodes: u32,
    /// Engines of the nodes. With transactions, each node records reads and writes in its file [`record_of`].
    pub engines: EnginesConfig,
    pub lease: Duration,
    pub spin: Duration,
    /// Whether datagrams are sealed under a new cluster key, which is in the file [`key_of`].
    pub sealed: bool,
    /// Assigns cores to the nodes.
    pub turns: CoreTurns,
}

/// Assigns the cores of the machine to polling processes in turn.
#[derive(Clone, Debug)]
pub(crate) struct CoreTurns(Vec<u32>);

impl CoreTurns {
    /// All cores that this process may use.
    pub fn of_machine() -> Self {
        Self(weft_net::cores())
    }

    /// The core of process number `place`, counted from 0.
    pub fn core(&self, place: u32) -> Option<u32> {
        let count = self.0.len().max(1);
        self.0.get(place as usize % count).copied()
    }
}

/// Name of the key file.
const KEY: &str = "weft.key";

/// File of the cluster key, if datagrams are sealed.
pub(crate) fn key_of(folder: &Path) -> PathBuf {
    folder.join(KEY)
}

/// Prefix of the names of the nodes' records.
const RECORDS: &str = "records";

/// File in which a node records reads and writes.
pub fn record_of(folder: &Path, node: usize) -> PathBuf {
    TransactionsConfig::record_of(&folder.join(RECORDS), node)
}

/// A cluster of processes. They are killed when it is dropped.
pub(crate) struct Cluster {
    membership: ChildProcess,
    /// The configuration of all processes.
    config: PathBuf,
    nodes: Vec<Node>,
    pub announcements: Vec<Announcement>,
    /// Counters that the nodes have printed when they stopped.
    pub counters: Vec<String>,
}

struct Node {
    process: Option<ChildProcess>,
    /// Number of announcements before the process was started, to skip those of its predecessor.
    since: usize,
}

impl Cluster {
    /// Starts all processes and waits until every node is a full member.
    pub fn start(
        folder: &Path,
        addresses: Addresses,
        settings: &ClusterSettings,
    ) -> Result<Self, RealBenchError> {
        let peers = (0..settings.nodes).map(|node| PeerConfig::new(addresses.node(node))).collect();
        let peers = Peers::new(peers).map_err(RealBenchError::Invalid)?;
        let mut config = ClusterConfig::new(peers, addresses.membership(), settings.engines.clone());
        config.mtu_bytes = MTU_BYTES;
        config.tables = Tables::Preallocated;
        config.membership.serve.lease = settings.lease;
        let core_of = |node| CoresConfig { spin: settings.spin, core: settings.turns.core(node) };
        config.cores = (0..settings.nodes).map(core_of).collect();
        if let Some(transactions) = &mut config.engines.transactions {
            transactions.record = Some(RECORDS.into());
        }
        if settings.sealed {
            let path = key_of(folder);
            write_new_key(&path).map_err(|source| RealBenchError::Folder { path, source })?;
            config.security = Some(SecurityConfig { key_file: KEY.into() });
        }
        let config = write(folder.join("weft.toml"), &config.to_toml())?;
        let mut membership = start("the membership service", MEMBERSHIP_COMMAND, &config, None)?;
        membership.wait_for_line("membership ready on ", START_LIMIT)?;
        let (nodes, announcements, counters) = (Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Self { membership, config, nodes, announcements, counters };
        for node in 0..settings.nodes {
            cluster.nodes.push(Node { process: None, since: 0 });
            cluster.start_node(node)?;
        }
        for node in &mut cluster.nodes {
            let process = node.process.as_mut().expect("it was just started");
            loop {
                let line = process.wait_for_line("", START_LIMIT)?;
                if let Ok(announcement) = line.parse::<Announcement>() {
                    cluster.announcements.push(announcement);
                    if matches!(announcement.announcer, Announcer::Node(_, Role::Full)) {
                        break;
                    }
                }
            }
        }
        Ok(cluster)
    }

    /// Starts the process of a node that is not running.
    pub fn start_node(&mut self, node: u32) -> Result<(), RealBenchError> {
        let place = &mut self.nodes[node as usize];
        let mut process = start(&format!("node {node}"), NODE_COMMAND, &self.config, Some(node))?;
        process.wait_for_line(&format!("node {node} ready on "), START_LIMIT)?;
        place.process = Some(process);
        place.since = self.announcements.len();
        Ok(())
    }

    /// Kills the processes of these nodes at the same time.
    pub fn kill_nodes(&mut self, nodes: &[usize]) {
        let killed = nodes.iter().filter_map(|node| self.nodes[*node].process.take());
        let mut killed: Vec<ChildProcess> = killed.collect();
        // Dropping them waits until they are gone.
        killed.iter_mut().for_each(ChildProcess::begin_kill);
    }

    /// Reads the output of the processes.
    ///
    /// # Errors
    /// A process has ended unexpectedly.
    pub fn listen(&mut self) -> Result<(), RealBenchError> {
        let nodes = self.nodes.iter_mut().filter_map(|node| node.process.as_mut());
        for process in nodes.chain([&mut self.membership]) {
            while let Some(line) = process.next_line(Duration::ZERO)? {
                self.announcements.extend(line.parse::<Announcement>());
            }
        }
        Ok(())
    }

    /// Waits until every running node is a full member of the newest view.
    pub fn wait_until_whole(&mut self) -> Result<(), RealBenchError> {
        let end = std::time::Instant::now() + std::time::Duration::from_nanos(START_LIMIT.as_ns());
        loop {
            self.listen()?;
            let is_full = |index: usize| {
                let node = NodeId::new(index).expect("a cluster has at most 16 nodes");
                let own = &self.announcements[self.nodes[index].since..];
                let last = own.iter().rev().find_map(|said| match said.announcer {
                    Announcer::Node(speaker, role) if speaker == node => Some(role),
                    _ => None,
                });
                last == Some(Role::Full)
            };
            if (0..self.nodes.len()).all(|index| self.nodes[index].process.is_none() || is_full(index)) {
                return Ok(());
            }
            if std::time::Instant::now() > end {
                return Err(RealBenchError::NotWhole(START_LIMIT));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Stops all processes and reads their remaining output.
    pub fn stop(&mut self) -> Result<(), RealBenchError> {
        for node in &mut self.nodes {
            if let Some(process) = &mut node.process {
                for line in process.stop(END_LIMIT)? {
                    match line.parse::<Announcement>() {
                        Ok(announcement) => self.announcements.push(announcement),
                        Err(_) => self.counters.push(line),
                    }
                }
            }
        }
        for line in self.membership.stop(END_LIMIT)? {
            self.announcements.extend(line.parse::<Announcement>());
        }
        self.announcements.sort_by_key(|announcement| announcement.at_ns);
        Ok(())
    }
}

fn start(
    name: &str,
    subcommand: &str,
    config: &Path,
    node: Option<u32>,
) -> Result<ChildProcess, RealBenchError> {
    let mut command = own_executable();
    command.arg(subcommand).arg("--config").arg(config);
    if let Some(node) = node {
        command.arg("--node").arg(node.to_string());
    }
    Ok(ChildProcess::start(name, command)?)
}

fn write(path: PathBuf, text: &str) -> Result<PathBuf, RealBenchError> {
    match fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(source) => Err(RealBenchError::Folder { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_do_not_share_addresses() {
        let (one, other) = (Addresses::of_process(1_000), Addresses::of_process(1_001));
        let all = |addresses: Addresses| {
            let nodes = (0..16).map(move |node| addresses.node(node));
            nodes.chain([addresses.clients(), *addresses.membership().ip()])
        };
        assert!(all(one).chain(all(Addresses::of_process(u32::MAX))).all(|address| address.is_loopback()));
        assert!(all(one).all(|address| all(other).all(|another| address != another)));
        let distinct: std::collections::HashSet<_> = all(one).collect();
        assert_eq!(distinct.len(), 18);
    }
}
