//! Every table and key that a file may have. The parser uses this list, and `docs/configuration.md` is generated
//! from it.

use weft_waist::NODES_MAX;

use super::engines::{KvConfig, LockConfig, RoundsConfig};
use super::{CoresConfig, DEFAULT_DATAGRAM_PORT, DEFAULT_LEASE, DEFAULT_MTU_BYTES, REDIS_PORT, RedisConfig};
use crate::identity::ClusterName;
use crate::lease::LEASE_MAX;
use crate::place::{Host, Place};
use crate::text::Text;

/// A table of the file.
pub(super) struct Table {
    pub name: &'static str,
    /// Whether the table is an array, `[[name]]`, whose elements are numbered from 0 in the order of the file.
    pub is_array: bool,
    pub is_required: bool,
    /// Purpose of the table, in a sentence.
    pub meaning: &'static str,
    pub keys: &'static [&'static Key],
}

/// A key of a table.
pub(super) struct Key {
    pub name: &'static str,
    pub form: Form,
    pub default: Default,
    /// Meaning of the key, in half a sentence.
    pub meaning: &'static str,
}

/// Form of a key's value.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Number {
        least: u64,
        most: u64,
    },
    /// An array of different numbers.
    Numbers {
        least: u64,
        most: u64,
    },
    /// A text in printable ASCII.
    Text {
        most: usize,
    },
    /// The name of a cluster.
    ClusterName,
    /// The name of an object, a log or a data type.
    Name,
    File,
    Folder,
    /// A host: an address or a name.
    Host,
    /// A host and a port.
    Place,
}

/// Value if the key is left out.
#[derive(Clone, Copy)]
pub(super) enum Default {
    Required,
    Number(u64),
    Text(&'static str),
    /// A default that is not a value in the file, in words.
    Told(&'static str),
}

const fn number(
    name: &'static str,
    (least, most): (u64, u64),
    default: Default,
    meaning: &'static str,
) -> Key {
    Key { name, form: Form::Number { least, most }, default, meaning }
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// The range of the time to poll. More than the maximum would be a core that hardly ever sleeps.
const SPIN_US: (u64, u64) = (0, 1_000_000);

pub(super) const CLUSTER_NAME: Key = Key {
    name: "name",
    form: Form::ClusterName,
    default: Default::Text(ClusterName::DEFAULT),
    meaning: "distinguishes its messages from those of other clusters on the same network",
};
/// The range of the MTU: from what every network can carry (RFC 791: 576 bytes) to the most that IPv4 can express.
pub(super) const MTU_BYTES: Key = number(
    "mtu_bytes",
    (576, 65_535),
    Default::Number(DEFAULT_MTU_BYTES as u64),
    "the longest IP packet between nodes and clients; `weft init` writes 65535 on loopback",
);

pub(super) const METRICS_PORT: Key = number(
    "metrics_port",
    (1, 65_535),
    Default::Told("none: no metrics are served"),
    "the TCP port of /metrics, /livez and /readyz at each node's address",
);

pub(super) const ENGINE_TABLES: Key = Key {
    name: "tables",
    form: Form::Text { most: 16 },
    default: Default::Text("on-demand"),
    meaning: "when a node takes memory for its engines' tables: `\"on-demand\"`, as they are written, in small pages; `\"preallocated\"`, all at start, in huge pages",
};

pub(super) const SERVICE_ADDRESS: Key = Key {
    name: "address",
    form: Form::Place,
    default: Default::Told("required, unless there are `coordinators`"),
    meaning: "where the service listens (UDP)",
};
pub(super) const SERVICE_NODE: Key = number(
    "node",
    (0, NODES_MAX as u64 - 1),
    Default::Told("none: `weft membership` runs it"),
    "the node whose process runs the service",
);
pub(super) const COORDINATORS: Key = Key {
    name: "coordinators",
    form: Form::Numbers { least: 0, most: NODES_MAX as u64 - 1 },
    default: Default::Told("none: one process is the service"),
    meaning: "1, 3 or 5 nodes that store the service's state: every node is a keeper then",
};
pub(super) const LEASE_MS: Key = number(
    "lease_ms",
    (1, LEASE_MAX.as_ns() / MS),
    Default::Number(DEFAULT_LEASE.as_ns() / MS),
    "how long a lease lasts: the failure of a machine stops writes for about that long",
);
pub(super) const STATE_FILE: Key = Key {
    name: "state_file",
    form: Form::File,
    default: Default::Told("`weft.membership.toml` beside `weft.toml`"),
    meaning: "the file with the state that the service needs after a restart",
};

pub(super) const NODE_ADDRESS: Key = Key {
    name: "address",
    form: Form::Host,
    default: Default::Required,
    meaning: "the node's own host, which no other node has: RoCE v2 is on its UDP port 4791",
};
pub(super) const DATAGRAM_PORT: Key = number(
    "datagram_port",
    (1, 65_535),
    Default::Number(DEFAULT_DATAGRAM_PORT as u64),
    "the UDP port of Weft's datagrams",
);
pub(super) const CORE: Key =
    number("core", (0, u32::MAX as u64), Default::Told("any core"), "run on this core of the machine only");
pub(super) const NODE_SPIN_US: Key =
    number("spin_us", SPIN_US, Default::Told("that of `[cores]`"), "as in `[cores]`, for this node");

pub(super) const SPIN: Key = number(
    "spin_us",
    SPIN_US,
    Default::Number(CoresConfig::DEFAULT.spin.as_ns() / US),
    "how long to poll before sleeping; 0: sleep at once",
);

pub(super) const KEY_BYTES: Key = number(
    "key_bytes",
    (1, 72),
    Default::Number(KvConfig::DEFAULT.key_bytes as u64),
    "the length of every key; shorter ones are filled up with zeros",
);
pub(super) const VALUE_BYTES: Key = number(
    "value_bytes",
    (1, 16_384),
    Default::Number(KvConfig::DEFAULT.value_bytes as u64),
    "the longest value: with its key and 104 bytes of headers it has to fit a packet",
);
pub(super) const CAPACITY_KEYS: Key = number(
    "capacity_keys",
    (1, u32::MAX as u64),
    Default::Number(KvConfig::DEFAULT.capacity_keys as u64),
    "how many keys the table is for; a put is refused if the bucket of its key is full",
);

pub(super) const DATA_DIR: Key = Key {
    name: "data_dir",
    form: Form::Folder,
    default: Default::Told("memory only"),
    meaning: "the folder of each node's data on disk",
};
pub(super) const DURABILITY: Key = Key {
    name: "durability",
    form: Form::Text { most: Text::BYTES_MAX },
    default: Default::Told("`\"sync\"` with a `data_dir`, otherwise `\"memory\"`"),
    meaning: "when a write is answered: `\"memory\"`, when all members have it; `\"async\"` the same, and it is on disk soon after; `\"sync\"`, when some also have it on disk",
};
pub(super) const DURABLE_COPIES: Key = number(
    "durable_copies",
    (1, NODES_MAX as u64),
    Default::Told("a majority of the nodes"),
    "how many nodes must have a write on disk: a majority to all, or all members if there are fewer",
);
pub(super) const LAG_MS: Key = number(
    "lag_ms",
    (1, 60_000),
    Default::Told("with `\"async\"`, 100"),
    "how long, in milliseconds, a write may be on too few disks before its leader takes no further one",
);

pub(super) const PROCEDURES: Key = Key {
    name: "procedures",
    form: Form::Text { most: Text::BYTES_MAX },
    default: Default::Required,
    meaning: "the set of procedures: `ledger`, `smallbank`, `retwis`, or one that your program registers",
};
pub(super) const SIZE: Key = number(
    "size",
    (1, i64::MAX as u64),
    Default::Required,
    "how many objects each shard holds; what an object is depends on the procedures",
);
pub(super) const REPLICAS: Key = number(
    "replicas",
    (1, NODES_MAX as u64),
    Default::Told("3, or all nodes if there are fewer"),
    "copies of each shard: one more than may fail at a time",
);
pub(super) const RECORD: Key = Key {
    name: "record",
    form: Form::File,
    default: Default::Told("nothing is recorded"),
    meaning: "the file, with `.node`*i* added to its name, in which node *i* records all reads and writes for a checker",
};

pub(super) const OBJECT_NAME: Key = Key {
    name: "name",
    form: Form::Name,
    default: Default::Required,
    meaning: "how clients name it; no other object or log has this name",
};
pub(super) const OBJECT_TYPE: Key = Key {
    name: "type",
    form: Form::Name,
    default: Default::Required,
    meaning: "its replicated data type: one of those of docs/data-types.md",
};

pub(super) const LOG_NAME: Key = Key {
    name: "name",
    form: Form::Name,
    default: Default::Required,
    meaning: "how clients name it; no other object or log has this name",
};

pub(super) const PERIOD_US: Key = number(
    "period_us",
    (1, 1_000_000),
    Default::Number(RoundsConfig::DEFAULT.period.as_ns() / US),
    "how long a round lasts",
);

pub(super) const LOCKS: Key = number(
    "locks",
    (1, 16_384),
    Default::Number(LockConfig::DEFAULT.locks as u64),
    "how many locks can be held at a time",
);

pub(super) const REDIS_PORT_KEY: Key = number(
    "port",
    (1, 65_535),
    Default::Number(REDIS_PORT as u64),
    "the TCP port for clients of Redis at each node's address",
);
pub(super) const PASSWORD: Key = Key {
    name: "password",
    form: Form::Text { most: Text::BYTES_MAX },
    default: Default::Told("none: clients of this machine only"),
    meaning: "what clients send with AUTH; it is stored and sent as plain text",
};
pub(super) const CLOCK_SKEW_MS: Key = number(
    "clock_skew_ms",
    (0, 3_600_000),
    Default::Number(RedisConfig::DEFAULT_CLOCK_SKEW.as_ns() / MS),
    "the largest difference between the nodes' wall clocks: a key set at a node that has died expires this much later",
);

pub(super) const KEY_FILE: Key = Key {
    name: "key_file",
    form: Form::File,
    default: Default::Required,
    meaning: "the file with the cluster key, which all nodes and clients have",
};

pub(super) const CLUSTER: Table = Table {
    name: "cluster",
    is_array: false,
    is_required: false,
    meaning: "Settings of the whole cluster.",
    keys: &[&CLUSTER_NAME, &MTU_BYTES, &METRICS_PORT, &ENGINE_TABLES],
};
pub(super) const MEMBERSHIP: Table = Table {
    name: "membership",
    is_array: false,
    is_required: true,
    meaning: "The membership service, which decides who takes part and grants leases.",
    keys: &[&SERVICE_ADDRESS, &SERVICE_NODE, &COORDINATORS, &LEASE_MS, &STATE_FILE],
};
pub(super) const NODE: Table = Table {
    name: "node",
    is_array: true,
    is_required: true,
    meaning: "A node of the cluster, 1 to 16 of them. The first is node 0, the next node 1, and so on.",
    keys: &[&NODE_ADDRESS, &DATAGRAM_PORT, &CORE, &NODE_SPIN_US],
};
pub(super) const CORES: Table = Table {
    name: "cores",
    is_array: false,
    is_required: false,
    meaning: "How the cores of all nodes wait for work.",
    keys: &[&SPIN],
};
pub(super) const KV: Table = Table {
    name: "kv",
    is_array: false,
    is_required: false,
    meaning: "The key-value store. An empty table turns it on with the default sizes.",
    keys: &[&KEY_BYTES, &VALUE_BYTES, &CAPACITY_KEYS, &DATA_DIR, &DURABILITY, &DURABLE_COPIES, &LAG_MS],
};
pub(super) const TRANSACTIONS: Table = Table {
    name: "transactions",
    is_array: false,
    is_required: false,
    meaning: "Transactions over shards, one for each node. They need packets of 1400 bytes or more.",
    keys: &[&PROCEDURES, &SIZE, &REPLICAS, &DATA_DIR, &RECORD],
};
pub(super) const OBJECT: Table = Table {
    name: "object",
    is_array: true,
    is_required: false,
    meaning: "A replicated object.",
    keys: &[&OBJECT_NAME, &OBJECT_TYPE],
};
pub(super) const LOG: Table = Table {
    name: "log",
    is_array: true,
    is_required: false,
    meaning: "A replicated log.",
    keys: &[&LOG_NAME],
};
pub(super) const ROUNDS: Table = Table {
    name: "rounds",
    is_array: false,
    is_required: false,
    meaning: "Consensus in synchronous rounds.",
    keys: &[&PERIOD_US],
};
pub(super) const LOCK: Table = Table {
    name: "lock",
    is_array: false,
    is_required: false,
    meaning: "Locks with a time to live and fencing tokens. An empty table turns them on.",
    keys: &[&LOCKS],
};

pub(super) const REDIS: Table = Table {
    name: "redis",
    is_array: false,
    is_required: false,
    meaning: "Lets clients of Redis use the store of [kv] through a port at every node: docs/redis.md.",
    keys: &[&REDIS_PORT_KEY, &PASSWORD, &CLOCK_SKEW_MS],
};

pub(super) const SECURITY: Table = Table {
    name: "security",
    is_array: false,
    is_required: false,
    meaning: "Seals all datagrams between nodes and clients. Without it, whoever reaches a port is trusted.",
    keys: &[&KEY_FILE],
};

/// All tables, in the order in which they are documented and written.
pub(super) const TABLES: [&Table; 12] = [
    &CLUSTER,
    &SECURITY,
    &MEMBERSHIP,
    &NODE,
    &CORES,
    &KV,
    &TRANSACTIONS,
    &OBJECT,
    &LOG,
    &ROUNDS,
    &LOCK,
    &REDIS,
];

impl Table {
    /// Header of the table in the file.
    pub fn header(&self) -> String {
        if self.is_array { format!("[[{}]]", self.name) } else { format!("[{}]", self.name) }
    }
}

impl Key {
    /// Description of a valid value.
    pub fn wanted(&self) -> String {
        match self.form {
            Form::Number { least, most } => format!("a number from {least} to {most}"),
            Form::Numbers { least, most } => format!("numbers from {least} to {most} in brackets"),
            Form::Text { most } => format!("1 to {most} printable characters in quotes"),
            Form::ClusterName => {
                format!("1 to {} letters, digits, dots, hyphens and underscores", ClusterName::BYTES_MAX)
            }
            Form::Name => {
                format!("1 to {} of a-z, 0-9, _ and - in quotes", super::engines::NAME_BYTES_MAX)
            }
            Form::File => "the name of a file in quotes, or remove the line".to_owned(),
            Form::Folder => "the name of a folder in quotes, or remove the line".to_owned(),
            Form::Host => Host::WANTED.to_owned(),
            Form::Place => Place::WANTED.to_owned(),
        }
    }
}
