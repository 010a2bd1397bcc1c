//! The engines of a cluster, and their slots on each card.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use weft_time::Duration;

/// The most engines of a cluster: the number of slots of a card.
pub const ENGINES_MAX: usize = 16;
/// Default number of replicas of each shard, if there are as many nodes.
pub const DEFAULT_REPLICAS: usize = 3;
/// The longest name of an object or a log, and of a data type, in bytes.
pub const NAME_BYTES_MAX: usize = 32;
/// The most bytes that the hosts of all nodes and the names of all objects, their types and logs take in a message. It
/// is more than any number of engines takes on 16 nodes with IPv4 addresses.
pub const NAMES_BYTES_MAX: usize = 1_290;

/// As [`NAMES_BYTES_MAX`], for a cluster with keepers, who store these names in their register.
pub(crate) const KEPT_NAMES_BYTES_MAX: usize = 960;

/// The engines of a cluster, the same at all of its nodes. There are 1 to 16.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnginesConfig {
    /// The key-value store.
    pub kv: Option<KvConfig>,
    /// Transactions, whose procedures the nodes' program defines.
    pub transactions: Option<TransactionsConfig>,
    /// Replicated objects.
    pub objects: Vec<ObjectConfig>,
    /// Replicated logs.
    pub logs: Vec<LogConfig>,
    /// Synchronous rounds.
    pub rounds: Option<RoundsConfig>,
    /// The folder in which each node keeps the file with its data, if the cluster's one engine, the key-value store or
    /// transactions, keeps its data on disk.
    pub data_dir: Option<PathBuf>,
    /// Locks with fencing tokens.
    pub lock: Option<LockConfig>,
}

/// One engine of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineConfig<'a> {
    /// The key-value store.
    Kv(&'a KvConfig),
    /// Transactions.
    Transactions(&'a TransactionsConfig),
    /// A replicated object.
    Object(&'a ObjectConfig),
    /// A replicated log.
    Log(&'a LogConfig),
    /// Synchronous rounds.
    Rounds(&'a RoundsConfig),
    /// Locks with fencing tokens.
    Lock(&'a LockConfig),
}

/// The sizes of the key-value engine. All are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// The length of every key, in bytes.
    pub key_bytes: u32,
    /// The longest value, in bytes.
    pub value_bytes: u32,
    /// Number of keys for which the table is sized.
    pub capacity_keys: u32,
    /// How many nodes must have a write on disk; 0 if the nodes keep their data in memory only.
    pub durable_copies: u32,
    /// If a write is answered before it is on so many disks: how long these may lag, in whole milliseconds. `None` if
    /// it is answered after that, or if nothing is on disk.
    pub disk_lag: Option<Duration>,
}

impl KvConfig {
    /// Default sizes.
    pub const DEFAULT: Self =
        Self { key_bytes: 8, value_bytes: 1_024, capacity_keys: 65_536, durable_copies: 0, disk_lag: None };
    /// How long disks may lag by default, if writes are answered before they are on disk.
    pub const DEFAULT_LAG: Duration = Duration::from_ms(100);

    /// The numbers of nodes, out of `nodes`, that may have to have a write on disk: a majority to all. With fewer, a
    /// view without the nodes that have it could follow.
    pub const fn durable_copies_of(nodes: usize) -> RangeInclusive<usize> {
        nodes / 2 + 1..=nodes
    }
}

impl Default for KvConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Parameters of nodes that run transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionsConfig {
    /// Name under which the program has registered the procedures; the program defines which names exist.
    pub procedures: String,
    /// Number of objects on each shard, in the procedures' own unit.
    pub size: u64,
    /// Replicas of each shard: one more than the number of nodes that may fail at the same time.
    pub replicas: usize,
    /// File in which all reads and writes are recorded, for a checker. In the configuration of a cluster it is the
    /// common prefix of all nodes' files, in that of a node ([`super::ClusterConfig::node`]) the node's own file.
    pub record: Option<PathBuf>,
}

impl TransactionsConfig {
    /// The file in which a node records, from the common prefix of all nodes' files.
    #[must_use]
    pub fn record_of(record: &Path, node: usize) -> PathBuf {
        file_of(record, node)
    }
}

/// The file of a node, from the common prefix of all nodes' files.
pub(super) fn file_of(prefix: &Path, node: usize) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".node{node}"));
    name.into()
}

/// A replicated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectConfig {
    /// Name among the objects and logs of the cluster: 1 to 32 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Name of its replicated data type. The program defines which types exist.
    pub data_type: String,
}

/// A replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Name among the objects and logs of the cluster, as that of an object.
    pub name: String,
}

/// Synchronous rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsConfig {
    /// Length of a round: whole microseconds in the file.
    pub period: Duration,
}

impl RoundsConfig {
    /// Default values: a period of 1 ms.
    pub const DEFAULT: Self = Self { period: Duration::from_ms(1) };
}

/// Locks with fencing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockConfig {
    /// Most locks that can be held at a time.
    pub locks: u32,
}

impl LockConfig {
    /// Default sizes.
    pub const DEFAULT: Self = Self { locks: 1_024 };
}

impl EnginesConfig {
    /// The engines in the order of their slots, which number them in each node's card and in datagrams: the store,
    /// transactions, objects in the order of the file, logs in the order of the file, rounds, locks. An engine
    /// that is not configured takes no slot.
    pub fn slots(&self) -> Vec<EngineConfig<'_>> {
        let kv = self.kv.iter().map(EngineConfig::Kv);
        let transactions = self.transactions.iter().map(EngineConfig::Transactions);
        let objects = self.objects.iter().map(EngineConfig::Object);
        let logs = self.logs.iter().map(EngineConfig::Log);
        let rounds = self.rounds.iter().map(EngineConfig::Rounds);
        let lock = self.lock.iter().map(EngineConfig::Lock);
        kv.chain(transactions).chain(objects).chain(logs).chain(rounds).chain(lock).collect()
    }

    /// How many nodes have a write of the key-value store on disk when it is answered; 0 if nothing is on disk.
    pub fn durable_copies(&self) -> u32 {
        self.kv.map_or(0, |kv| kv.durable_copies)
    }

    /// How many of `nodes` nodes hold the same data, as the membership service needs it.
    ///
    /// Of every `replicas` neighbouring nodes, the service keeps one that is full in each view. The engine with
    /// the fewest replicas determines the number. A shard of `[transactions]` is on `replicas` neighbouring nodes;
    /// the keys of `[kv]` and the locks are on all nodes. A view that has a holder of every shard has a full node,
    /// and a full node holds all keys and locks. Objects, logs and rounds need no rule for views: they decide by
    /// majorities of all configured nodes, and count by themselves which nodes have lost their memory.
    pub fn replicas(&self, nodes: usize) -> usize {
        self.transactions.as_ref().map_or(nodes, |transactions| transactions.replicas)
    }
}

/// The name as in the file: `[kv]`, `[[log]] events`.
impl fmt::Display for EngineConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kv(_) => f.write_str("[kv]"),
            Self::Transactions(_) => f.write_str("[transactions]"),
            Self::Object(object) => write!(f, "[[object]] {}", object.name),
            Self::Log(log) => write!(f, "[[log]] {}", log.name),
            Self::Rounds(_) => f.write_str("[rounds]"),
            Self::Lock(_) => f.write_str("[lock]"),
        }
    }
}

/// Whether this is a valid name of an object, a log or a data type.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}
