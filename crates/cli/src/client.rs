//! Options that all commands for a running cluster share.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use weft_client::{Client, Cluster, Error};
use weft_cluster::ClusterConfig;
use weft_time::Duration;

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};

/// The default name of a cluster's configuration file.
pub(crate) const CONFIG: &str = "weft.toml";

/// The cluster, the time limit, and the output of the answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientOptions {
    /// Configuration file of the cluster
    #[arg(long, value_name = "FILE", global = true, default_value = CONFIG)]
    pub config: PathBuf,
    /// Give up this many ms after the command has sent its request; retries are included
    #[arg(long, value_name = "MS", global = true, default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(1..=20_000))]
    give_up_ms: u64,
    /// Write the answer as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<Json>,
}

impl ClientOptions {
    /// Loads the configuration, after checking that the answer can be written.
    pub fn load(&self) -> Result<ClusterConfig, Failure> {
        output::check_json(self.json.as_ref())?;
        Ok(ClusterConfig::load(&self.config)?)
    }

    /// Time after which a call without an answer fails.
    pub const fn give_up(&self) -> Duration {
        Duration::from_ms(self.give_up_ms)
    }

    /// Opens a client of the cluster.
    pub fn open(&self, config: &ClusterConfig) -> Result<Client, Failure> {
        self.open_first(config, 0)
    }

    /// Opens a client of the cluster that calls node `first` first.
    pub fn open_first(&self, config: &ClusterConfig, first: usize) -> Result<Client, Failure> {
        let cluster = Cluster { give_up: self.give_up(), first, ..Cluster::from(config) };
        Ok(Client::open(&cluster)?)
    }

    /// Where the answer is written as JSON, if anywhere.
    pub const fn json(&self) -> Option<&Json> {
        self.json.as_ref()
    }

    /// Shows an answer as one line for people, and as JSON if the user wants it.
    pub fn deliver(&self, line: &str, object: &Value) -> Result<(), Failure> {
        output::deliver(self.json.as_ref(), || format!("{object:#}\n"), &format!("{line}\n"))
    }
}

/// Adds advice to an error. `read` says how the user finds out whether the call took effect.
pub(crate) fn failure(error: &Error, read: &str) -> Failure {
    match error {
        Error::Unknown { after } => Failure::new(format!(
            "no answer within {after}; it may still take effect: see whether the nodes run, then {read}"
        )),
        other => Failure::new(other.to_string()),
    }
}

/// The verdict on an answer that is either yes or no.
pub(crate) const fn verdict(is_yes: bool) -> Verdict {
    if is_yes { Verdict::Good } else { Verdict::Negative }
}

/// Bytes in readable form: as text if they are UTF-8, otherwise in hexadecimal.
pub(crate) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
