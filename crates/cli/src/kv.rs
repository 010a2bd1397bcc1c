//! `weft kv`: one request to a running cluster.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use weft_cluster::ClusterConfig;
use weft_kv::Task;
use weft_net::{Answer, Cluster, ask};
use weft_time::Duration;

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};
use crate::process::CONFIG;

/// Which cluster, and what to ask.
#[derive(Clone, Debug, Args)]
pub(crate) struct KvArguments {
    /// The configuration of the cluster
    #[arg(long, value_name = "FILE", global = true, default_value = CONFIG)]
    config: PathBuf,
    /// When to give up, in ms
    #[arg(long, value_name = "MS", global = true, default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(1..=20_000))]
    give_up_ms: u64,
    /// Where to write the answer as JSON: a file, or `-` for standard output
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<Json>,
    #[command(subcommand)]
    request: Request,
}

#[derive(Clone, Debug, Subcommand)]
enum Request {
    /// Read a key
    Get {
        /// The key: text of at most as many bytes as the cluster's keys have
        key: String,
    },
    /// Write a key
    Put {
        /// The key
        key: String,
        /// The value: text of at least one byte
        value: String,
    },
    /// Remove a key
    Delete {
        /// The key
        key: String,
    },
    /// Write a key if it has the expected version
    CompareAndSet {
        /// The key
        key: String,
        /// The version; 0 if the key must be absent
        #[arg(value_name = "VERSION")]
        expected: u64,
        /// The value
        value: String,
    },
}

impl KvArguments {
    /// Asks, and shows the answer. An answer that says no has an exit code of its own; no answer, or a refusal, is a failure.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        output::check_json(self.json.as_ref())?;
        let config = ClusterConfig::load(&self.config)?;
        let Some(kv) = config.engines.kv else {
            return Err(Failure::at(&self.config, "the cluster has no key-value store: there is no [kv]"));
        };
        let key_bytes = kv.key_bytes as usize;
        let (key, value) = match &self.request {
            Request::Get { key } | Request::Delete { key } => (key, None),
            Request::Put { key, value } | Request::CompareAndSet { key, value, .. } => (key, Some(value)),
        };
        let padded = pad(key, key_bytes)?;
        if let Some(value) = value
            && !(1..=kv.value_bytes as usize).contains(&value.len())
        {
            let (length, most) = (value.len(), kv.value_bytes);
            return Err(Failure::new(format!("the value has {length} bytes; the cluster takes 1 to {most}")));
        }
        let value = value.map_or(&[][..], String::as_bytes);
        let is_read = matches!(self.request, Request::Get { .. });
        let task = match self.request {
            Request::Get { .. } => Task::Get { key: &padded },
            Request::Put { .. } => Task::Put { key: &padded, value },
            Request::Delete { .. } => Task::Delete { key: &padded },
            Request::CompareAndSet { expected, .. } => Task::CompareAndSet { key: &padded, expected, value },
        };
        let cluster = Cluster {
            nodes: config.peers.iter().map(|(_, peer)| peer.datagram_address()).collect(),
            key_bytes,
            datagram_bytes: config.datagram_bytes(),
            give_up: Duration::from_ms(self.give_up_ms),
        };
        let answer = ask(&cluster, task)?;
        let (outcome, version, value) = match &answer {
            Answer::Value { version, value } => {
                ("found", Some(*version), Some(String::from_utf8_lossy(value)))
            }
            Answer::Done { version } => ("done", Some(*version), None),
            Answer::NotFound => ("not_found", None, None),
            Answer::Mismatch { version } => ("mismatch", Some(*version), None),
            Answer::Refused(why) => return Err(Failure::new(format!("refused: {why}"))),
            Answer::Unknown => {
                let after = cluster.give_up;
                let line = if is_read {
                    format!("no answer within {after}: see whether the nodes run")
                } else {
                    format!(
                        "no answer within {after}; the write may still take effect: see whether the nodes run, then read the key"
                    )
                };
                return Err(Failure::new(line));
            }
        };
        let mut human = outcome.replace('_', " ");
        if let Some(version) = version {
            let _ = write!(human, ", version {version}");
        }
        if let Some(value) = &value {
            let _ = write!(human, ": {value}");
        }
        human.push('\n');
        let as_json = || {
            let object = json!({ "key": key, "outcome": outcome, "version": version, "value": value });
            format!("{object:#}\n")
        };
        output::deliver(self.json.as_ref(), as_json, &human)?;
        let is_negative = matches!(answer, Answer::NotFound | Answer::Mismatch { .. });
        Ok(if is_negative { Verdict::Negative } else { Verdict::Good })
    }
}

/// A key's text, filled up with zeros.
fn pad(key: &str, key_bytes: usize) -> Result<Vec<u8>, Failure> {
    if key.is_empty() || key.len() > key_bytes {
        let length = key.len();
        return Err(Failure::new(format!("the key has {length} bytes; the cluster takes 1 to {key_bytes}")));
    }
    let mut padded = key.as_bytes().to_vec();
    padded.resize(key_bytes, 0);
    Ok(padded)
}
