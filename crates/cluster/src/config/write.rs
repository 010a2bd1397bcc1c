//! Writes a configuration as the text of a file.

use std::fmt::{self, Write as _};
use std::path::Path;

use super::keys::{self, Key, Table};
use super::{ClusterConfig, CoresConfig, Tables};

/// The text of a file, line by line.
struct Writer {
    text: String,
    /// Whether each key gets a comment with its meaning.
    has_comments: bool,
    /// Whether the table being written is the first of its name: later ones repeat no comments.
    is_first: bool,
}

/// The text that parses to `config`.
pub(super) fn write(config: &ClusterConfig, has_comments: bool) -> String {
    let mut out = Writer { text: String::new(), has_comments, is_first: true };
    let ClusterConfig {
        name,
        mtu_bytes,
        metrics_port,
        tables,
        membership,
        peers,
        cores,
        engines,
        redis,
        security,
    } = config;
    out.table(&keys::CLUSTER);
    out.text(&keys::CLUSTER_NAME, name.as_str());
    out.line(&keys::MTU_BYTES, mtu_bytes);
    if let Some(port) = metrics_port {
        out.line(&keys::METRICS_PORT, port);
    }
    if *tables == Tables::Preallocated {
        out.text(&keys::ENGINE_TABLES, "preallocated");
    }

    if let Some(security) = security {
        out.table(&keys::SECURITY);
        out.file(&keys::KEY_FILE, &security.key_file);
    }

    out.table(&keys::MEMBERSHIP);
    if membership.coordinators.is_empty() {
        out.text(&keys::SERVICE_ADDRESS, &membership.address.to_string());
    } else {
        let numbers: Vec<_> = membership.coordinators.iter().map(|node| node.index()).collect();
        out.line(&keys::COORDINATORS, format_args!("{numbers:?}"));
    }
    if let Some(node) = membership.node {
        out.line(&keys::SERVICE_NODE, node.index());
    }
    out.line(&keys::LEASE_MS, membership.serve.lease.as_ns() / 1_000_000);
    if let Some(path) = membership.serve.state_file.as_ref().filter(|_| membership.coordinators.is_empty()) {
        out.file(&keys::STATE_FILE, path);
    }

    // A value that most nodes have in common is written once: that of the first node.
    let spin_us = |cores: &CoresConfig| cores.spin.as_ns() / 1_000;
    let usual_us = spin_us(&config.cores_of(0));
    for (node, peer) in peers.iter() {
        out.table(&keys::NODE);
        out.text(&keys::NODE_ADDRESS, &peer.address.to_string());
        out.line(&keys::DATAGRAM_PORT, peer.datagram_port);
        let own = config.cores_of(node.index());
        if let Some(core) = own.core {
            out.line(&keys::CORE, core);
        }
        if spin_us(&own) != usual_us {
            out.line(&keys::NODE_SPIN_US, spin_us(&own));
        }
    }
    if !cores.is_empty() {
        out.table(&keys::CORES);
        out.line(&keys::SPIN, usual_us);
    }

    if let Some(kv) = &engines.kv {
        out.table(&keys::KV);
        out.line(&keys::KEY_BYTES, kv.key_bytes);
        out.line(&keys::VALUE_BYTES, kv.value_bytes);
        out.line(&keys::CAPACITY_KEYS, kv.capacity_keys);
        if let Some(data_dir) = &engines.data_dir {
            out.file(&keys::DATA_DIR, data_dir);
            out.line(&keys::DURABLE_COPIES, kv.durable_copies);
            if let Some(lag) = kv.disk_lag {
                out.text(&keys::DURABILITY, "async");
                out.line(&keys::LAG_MS, lag.as_ns() / 1_000_000);
            }
        }
    }
    if let Some(transactions) = &engines.transactions {
        out.table(&keys::TRANSACTIONS);
        out.text(&keys::PROCEDURES, &transactions.procedures);
        out.line(&keys::SIZE, transactions.size);
        out.line(&keys::REPLICAS, transactions.replicas);
        if let Some(data_dir) = &engines.data_dir {
            out.file(&keys::DATA_DIR, data_dir);
        }
        if let Some(path) = &transactions.record {
            out.file(&keys::RECORD, path);
        }
    }
    for object in &engines.objects {
        out.table(&keys::OBJECT);
        out.text(&keys::OBJECT_NAME, &object.name);
        out.text(&keys::OBJECT_TYPE, &object.data_type);
    }
    for log in &engines.logs {
        out.table(&keys::LOG);
        out.text(&keys::LOG_NAME, &log.name);
    }
    if let Some(rounds) = &engines.rounds {
        out.table(&keys::ROUNDS);
        out.line(&keys::PERIOD_US, rounds.period.as_ns() / 1_000);
    }
    if let Some(lock) = &engines.lock {
        out.table(&keys::LOCK);
        out.line(&keys::LOCKS, lock.locks);
    }
    if let Some(redis) = redis {
        out.table(&keys::REDIS);
        out.line(&keys::REDIS_PORT_KEY, redis.port);
        if let Some(password) = &redis.password {
            out.text(&keys::PASSWORD, password);
        }
        out.line(&keys::CLOCK_SKEW_MS, redis.clock_skew.as_ns() / 1_000_000);
    }
    out.text
}

impl Writer {
    fn table(&mut self, table: &Table) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.is_first = !self.text.contains(&table.header());
        if self.has_comments && self.is_first {
            let _ = writeln!(self.text, "# {}", table.meaning);
        }
        let _ = writeln!(self.text, "{}", table.header());
    }

    fn line(&mut self, key: &Key, value: impl fmt::Display) {
        let line = format!("{} = {value}", key.name);
        if self.has_comments && self.is_first {
            let _ = writeln!(self.text, "{line:<COMMENT_COLUMN$} # {}", key.meaning.replace(['`', '*'], ""));
        } else {
            let _ = writeln!(self.text, "{line}");
        }
    }

    fn text(&mut self, key: &Key, text: &str) {
        self.line(key, toml::Value::from(text));
    }

    fn file(&mut self, key: &Key, path: &Path) {
        self.text(key, path.to_str().expect("the names of files in a configuration are UTF-8"));
    }
}

/// Column at which the comments behind keys begin.
const COMMENT_COLUMN: usize = 31;
