//! The result of one run, which tables and reports show and which is written as JSON.
//!
//! Benchmarks of several engines write this format. Keys are in snake case and end with their unit. The keys
//! at the top are always present; `log_hash` is null if the run cannot be replayed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::NicModel;
use crate::file::{FORMAT, NeighbourFile, ResultError, to_json, write_whole};
use crate::histogram::{Latencies, QuantilePoint, Recorder, Summary};
use crate::timeline::{Lane, Mark, Timeline};

/// Number of points of a distribution for each halving of the share of longer latencies.
const POINTS_PER_HALVING: u32 = 4;

/// Whether a run is simulated or uses real processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum World {
    /// Virtual time; links and costs are models.
    Sim,
    /// Real time; packets are sent over sockets.
    Net,
}

/// Whether figures are simulated or real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineKind {
    /// Times follow from cost models.
    Simulated,
    /// Cycles were counted on Verilated gateware.
    Verilated,
    /// Times were taken from a clock.
    Real,
}

/// Basis of the run's times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Whether the figures are simulated or real.
    pub kind: MachineKind,
    /// The processor, or the cost models.
    pub description: String,
}

impl Machine {
    /// A simulated machine: `network` is the name of its network, and `basis` says what the costs of its nodes
    /// are based on.
    pub fn simulated(network: &str, basis: impl fmt::Display) -> Self {
        let description = format!("virtual time; network `{network}`; {basis}");
        Self { kind: MachineKind::Simulated, description }
    }
}

/// Verdict of the check of the recorded history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// The history was checked and is linearizable.
    Linearizable,
    /// The history was checked and is not linearizable.
    NotLinearizable,
    /// The locks were checked: no two clients held one at the same time, and tokens grew.
    Exclusive,
    /// The locks were checked, and two clients held one at the same time, or a token did not grow.
    NotExclusive,
    /// The check ended without a verdict, because the history is too long.
    Undecided,
    /// No check was made.
    NotChecked,
}

/// One run. The order of the fields is the order in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    format: String,
    /// Operations measured per second.
    pub throughput_ops_per_s: f64,
    /// Half of the operations took at most this.
    pub p50_ns: u64,
    /// 99 % of the operations took at most this.
    pub p99_ns: u64,
    /// 99.9 % of the operations took at most this.
    pub p999_ns: u64,
    /// Verdict of the check of the history.
    pub checked: Checked,
    /// In `sim`: the hash of the event log. Two runs with the same hash were the same run.
    pub log_hash: Option<String>,
    /// Seed of the run.
    pub seed: u64,
    /// The NIC.
    pub nic: String,
    /// The world.
    pub world: World,
    /// Number of nodes.
    pub nodes: u32,
    /// The workload.
    pub workload: String,
    /// Operations measured.
    pub operations: u64,
    /// Acknowledged writes that a later read did not return; null if that was not checked.
    pub lost_acknowledged_writes: Option<u64>,
    /// The command that repeats the run.
    pub replay: String,
    /// Basis of the times.
    pub machine: Machine,
    /// Further parameters: clients, value_bytes, records, ...
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Violations that the check has found, as text; empty if there are none.
    #[serde(default)]
    pub check_report: String,
    /// The length of the measured part.
    pub measured_ns: u64,
    /// Latencies of all operations together.
    pub latency: LatencyResult,
    /// Latencies and failures by kind of operation.
    pub by_operation: BTreeMap<String, OperationResult>,
    /// Operations completed over time, warm-up included.
    pub timeline: Timeline,
    /// Events of the cluster in order of time: faults, repairs and view changes.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Faults injected, by kind.
    #[serde(default)]
    pub faults: BTreeMap<String, u64>,
    /// State of each node over time.
    #[serde(default)]
    pub lanes: Vec<Lane>,
    /// Files that belong to the run; their paths are relative to this file's folder.
    #[serde(default)]
    pub files: Vec<NeighbourFile>,
}

/// A distribution of latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// The usual figures.
    #[serde(flatten)]
    pub summary: Summary,
    /// The whole distribution, denser towards the tail.
    pub distribution: Vec<QuantilePoint>,
}

impl From<&Latencies> for LatencyResult {
    fn from(latencies: &Latencies) -> Self {
        Self { summary: latencies.summary(), distribution: latencies.distribution(POINTS_PER_HALVING) }
    }
}

/// Results of one kind of operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationResult {
    /// Operations that were refused or have timed out. They count in no other figure.
    pub failed: u64,
    /// Latencies of the operations that succeeded.
    #[serde(flatten)]
    pub latency: LatencyResult,
}

/// Description of a run, before it is measured.
#[derive(Clone, Debug)]
pub struct Description {
    /// The world.
    pub world: World,
    /// The NIC.
    pub nic: String,
    /// Number of nodes.
    pub nodes: u32,
    /// The workload.
    pub workload: String,
    /// Seed of the run.
    pub seed: u64,
    /// The command that repeats the run.
    pub replay: String,
    /// Basis of the times.
    pub machine: Machine,
    /// Further parameters.
    pub parameters: BTreeMap<String, serde_json::Value>,
}

/// Description of an engine's workload for the result of a run.
#[derive(Clone, Debug)]
pub struct WorkloadDescription {
    /// Name of the workload.
    pub name: &'static str,
    /// Parameters of the workload: clients, value_bytes, records, ...
    pub parameters: Vec<(&'static str, serde_json::Value)>,
    /// The command that repeats the run.
    pub replay: String,
}

impl WorkloadDescription {
    /// The description of a run with engines on soft NICs.
    pub fn of_run(self, world: World, machine: Machine, nodes: usize, seed: u64) -> Description {
        let parameters = self.parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
        Description {
            world,
            nic: NicModel::Soft.to_string(),
            nodes: nodes as u32,
            workload: self.name.to_owned(),
            seed,
            replay: self.replay,
            machine,
            parameters: parameters.collect(),
        }
    }
}

/// Result of the check of a run.
#[derive(Clone, Debug)]
pub struct Check {
    /// The verdict.
    pub checked: Checked,
    /// Violations, in words.
    pub violations: Vec<String>,
}

impl RunResult {
    /// A result with the measurements of `recorder`. The caller sets the verdict and the fields that only
    /// some runs have.
    pub fn new(description: Description, recorder: &Recorder) -> Self {
        let Description { world, nic, nodes, workload, seed, replay, machine, parameters } = description;
        let overall = LatencyResult::from(&recorder.overall());
        let by_operation = recorder
            .by_kind()
            .filter(|(_, latencies, failed)| latencies.operations() + failed > 0)
            .map(|(name, latencies, failed)| {
                (name.to_owned(), OperationResult { failed, latency: latencies.into() })
            })
            .collect();
        let throughput = recorder.throughput();
        Self {
            format: FORMAT.into(),
            throughput_ops_per_s: recorder.throughput_ops_per_s(),
            p50_ns: overall.summary.p50_ns,
            p99_ns: overall.summary.p99_ns,
            p999_ns: overall.summary.p999_ns,
            checked: Checked::NotChecked,
            log_hash: None,
            seed,
            nic,
            world,
            nodes,
            workload,
            operations: recorder.operations(),
            lost_acknowledged_writes: None,
            replay,
            machine,
            parameters,
            check_report: String::new(),
            measured_ns: recorder.measured().as_ns(),
            latency: overall,
            by_operation,
            timeline: Timeline {
                bucket_ns: throughput.width().as_ns(),
                measured_from_ns: recorder.warm_up().as_ns(),
                operations: throughput.buckets().to_vec(),
            },
            marks: Vec::new(),
            faults: BTreeMap::new(),
            lanes: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The time from the beginning of the run to the last recorded event, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        let timeline = self.timeline.bucket_ns.saturating_mul(self.timeline.operations.len() as u64);
        let lanes = self.lanes.iter().flat_map(|lane| &lane.states).map(|span| span.to_ns);
        let marks = self.marks.iter().map(|mark| mark.at_ns);
        lanes.chain(marks).chain([timeline]).max().unwrap_or(0)
    }

    /// Writes the result to `path` atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ResultError> {
        write_whole(path, to_json(self).as_bytes())
    }

    /// Reads a result from a file.
    ///
    /// # Errors
    /// The file cannot be read, was cut off, or contains something else. The error is one line that says what
    /// to do.
    pub fn read(path: &Path) -> Result<Self, ResultError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ResultError::Unreadable { path: path.into(), reason: error.to_string() })?;
        Self::from_json(&text, path)
    }

    /// Whether `text` is the result of a run, in this or another version of the format.
    pub fn is_in(text: &str) -> bool {
        let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
        let format = value.as_ref().and_then(|value| value.get("format")?.as_str());
        format.is_some_and(|format| format.starts_with("weft-result-"))
    }

    /// Parses a result from the text of the file `path`.
    ///
    /// # Errors
    /// The same as those of [`RunResult::read`].
    pub fn from_json(text: &str, path: &Path) -> Result<Self, ResultError> {
        let path = PathBuf::from(path);
        let value: serde_json::Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) if error.is_eof() => return Err(ResultError::Truncated { path }),
            Err(_) => return Err(ResultError::Foreign { path }),
        };
        match value.get("format").and_then(serde_json::Value::as_str) {
            Some(FORMAT) => {}
            Some(other) if other.starts_with("weft-result-") => {
                return Err(ResultError::OtherVersion { path, format: other.into() });
            }
            _ => return Err(ResultError::Foreign { path }),
        }
        serde_json::from_value(value)
            .map_err(|error| ResultError::Damaged { path, reason: error.to_string() })
    }
}

/// A run's result with the full histogram of latencies, of which the result itself keeps only some points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredRun {
    /// The result.
    #[serde(flatten)]
    pub result: RunResult,
    /// Latencies of all operations.
    #[serde(skip)]
    pub latencies: Latencies,
}

impl MeasuredRun {
    /// Measurements of a run that was checked.
    pub fn new(description: Description, recorder: &Recorder, check: Check) -> Self {
        let mut result = RunResult::new(description, recorder);
        result.checked = check.checked;
        result.check_report = check.violations.join("\n");
        Self { result, latencies: recorder.overall() }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Net => "net",
        })
    }
}

impl fmt::Display for MachineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simulated => "simulated",
            Self::Verilated => "Verilated",
            Self::Real => "real",
        })
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linearizable => "linearizable",
            Self::NotLinearizable => "NOT LINEARIZABLE",
            Self::Exclusive => "exclusive",
            Self::NotExclusive => "NOT EXCLUSIVE",
            Self::Undecided => "undecided",
            Self::NotChecked => "not checked",
        })
    }
}
