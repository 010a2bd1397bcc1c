//! `weft kv`: one request to a running cluster.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::json;
use weft_client::{CompareAndSet, Error, Versioned};
use weft_resp::Record;

use crate::client::{ClientOptions, verdict};
use crate::failure::{Failure, Verdict};

/// The cluster, and the request.
#[derive(Clone, Debug, Args)]
pub(crate) struct KvArguments {
    #[command(flatten)]
    options: ClientOptions,
    #[command(subcommand)]
    request: Request,
}

#[derive(Clone, Debug, Subcommand)]
enum Request {
    /// Read a key
    Get {
        /// The key: text, at most key_bytes of the configuration long
        key: String,
    },
    /// Write a key
    Put {
        /// The key
        key: String,
        /// The value: text, at least one byte
        value: String,
    },
    /// Delete a key
    Delete {
        /// The key
        key: String,
    },
    /// Delete a key if its version is the expected one
    CompareAndDelete {
        /// The key
        key: String,
        /// The expected version
        #[arg(value_name = "VERSION", value_parser = clap::value_parser!(u64).range(1..))]
        expected: u64,
    },
    /// Write a key if its version is the expected one
    CompareAndSet {
        /// The key
        key: String,
        /// The expected version; 0 if the key must be absent
        #[arg(value_name = "VERSION")]
        expected: u64,
        /// The value
        value: String,
    },
}

impl KvArguments {
    /// Sends the request, and shows the answer. An answer of no has an exit code of its own; a refusal or a missing
    /// answer is a failure.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let options = &self.options;
        let config = options.load()?;
        let Some(kv) = config.engines.kv else {
            return Err(Failure::at(&options.config, "the cluster has no key-value store: there is no [kv]"));
        };
        let key_bytes = kv.key_bytes as usize;
        let (key, value) = match &self.request {
            Request::Get { key } | Request::Delete { key } | Request::CompareAndDelete { key, .. } => {
                (key, None)
            }
            Request::Put { key, value } | Request::CompareAndSet { key, value, .. } => (key, Some(value)),
        };
        // If the cluster has a Redis protocol server, keys and values are encoded as its Redis clients encode
        // them.
        let is_door = config.redis.is_some();
        let padded = if is_door { door_key(key, key_bytes) } else { pad(key, key_bytes) }?;
        let header = if is_door { weft_resp::HEADER_BYTES_MAX } else { 0 };
        let (least, most) = (usize::from(!is_door), kv.value_bytes as usize - header);
        if let Some(value) = value
            && !(least..=most).contains(&value.len())
        {
            let length = value.len();
            return Err(Failure::new(format!(
                "the value has {length} bytes; the cluster takes {least} to {most}"
            )));
        }
        let value = value.map_or(&[][..], String::as_bytes).to_vec();
        let value = if is_door { Record { value, expires_ms: None }.encode() } else { value };
        let value = &value[..];
        let is_read = matches!(self.request, Request::Get { .. });
        let store = options.open(&config)?.kv()?;
        let answer = match self.request {
            Request::Get { .. } => store.get(&padded).wait().map(|found| match found {
                Some(Versioned { version, value }) => ("found", Some(version), Some(value)),
                None => ("not_found", None, None),
            }),
            Request::Put { .. } => store.put(&padded, value).wait().map(done),
            Request::Delete { .. } => {
                store.delete(&padded).wait().map(|version| version.map_or(("not_found", None, None), done))
            }
            Request::CompareAndSet { expected, .. } => {
                store.compare_and_set(&padded, expected, value).wait().map(compared)
            }
            Request::CompareAndDelete { expected, .. } => {
                store.compare_and_delete(&padded, expected).wait().map(compared)
            }
        };
        let (outcome, version, value) = match answer {
            Err(Error::Unknown { after } | Error::NotBegun { after }) if is_read => {
                return Err(Failure::new(format!("no answer within {after}: see whether the nodes run")));
            }
            Err(Error::Unknown { after }) => {
                return Err(Failure::new(format!(
                    "no answer within {after}; the write may still take effect: see whether the nodes run, then read the key"
                )));
            }
            answer => answer?,
        };
        let decoded = |value: Vec<u8>| match Record::decode(&value).filter(|_| is_door) {
            Some(record) => record.value,
            None => value,
        };
        let value = value.map(|value| String::from_utf8_lossy(&decoded(value)).into_owned());
        let mut human = outcome.replace('_', " ");
        if let Some(version) = version {
            let _ = write!(human, ", version {version}");
        }
        if let Some(value) = &value {
            let _ = write!(human, ": {value}");
        }
        let object = json!({ "key": key, "outcome": outcome, "version": version, "value": value });
        options.deliver(&human, &object)?;
        Ok(verdict(!matches!(outcome, "not_found" | "mismatch")))
    }
}

/// Output of a write that took effect.
const fn done(version: u64) -> (&'static str, Option<u64>, Option<Vec<u8>>) {
    ("done", Some(version), None)
}

/// Output of a compare-and-set.
const fn compared(outcome: CompareAndSet) -> (&'static str, Option<u64>, Option<Vec<u8>>) {
    match outcome {
        CompareAndSet::Done { version } => done(version),
        CompareAndSet::Mismatch { version } => ("mismatch", Some(version), None),
    }
}

/// A key in the encoding of the Redis protocol server.
fn door_key(key: &str, key_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut field = Vec::with_capacity(key_bytes);
    if weft_kv::key::write(key.as_bytes(), key_bytes, &mut field) {
        return Ok(field);
    }
    let (length, most) = (key.len(), weft_kv::key::longest(key_bytes));
    Err(Failure::new(format!(
        "the key has {length} bytes; with key_bytes = {key_bytes} in [kv] it has at most {most}"
    )))
}

/// A key padded with zeros.
fn pad(key: &str, key_bytes: usize) -> Result<Vec<u8>, Failure> {
    if key.is_empty() || key.len() > key_bytes {
        let length = key.len();
        return Err(Failure::new(format!(
            "the key has {length} bytes; with key_bytes = {key_bytes} in [kv] it has 1 to {key_bytes}"
        )));
    }
    let mut padded = key.as_bytes().to_vec();
    padded.resize(key_bytes, 0);
    Ok(padded)
}
