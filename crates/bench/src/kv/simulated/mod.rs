//! The key-value store in a simulated cluster: benchmarks and fault campaigns.

mod campaign;
mod cluster;
mod disks;
mod nodes;
mod timeline;
mod turns;

pub use campaign::{StoreFigures, StoreSubject};
pub use cluster::ClusterParameters;
#[cfg(feature = "planted-bugs")]
pub use disks::DiskBug;
pub use nodes::NodeNic;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::json;
use thiserror::Error;
use weft_check::{History, Options, Report};
use weft_kv::ReadPolicy;
use weft_sim::PlanError;
use weft_time::{Duration, Instant};

use self::cluster::Cluster;
use crate::kv::Phase;
pub use weft_harness::capture::CaptureWindow;
use weft_harness::capture::{Capture, CaptureError};
use weft_harness::faults_of;
use weft_results::histogram::Latencies;
use weft_results::{Checked, Description, Machine, RunResult, World};
use weft_workload::{Limit, Load};

/// A run in the simulator.
#[derive(Clone, Debug)]
pub struct SimulatedBench {
    /// The cluster and its clients.
    pub cluster: ClusterParameters,
    /// End of the workload.
    pub limit: BenchLimit,
    /// Operations that were to start within this time are not measured.
    pub warm_up: Duration,
    /// Folder for the captures, one pcapng file per port; and the part of the run to capture.
    pub capture: Option<(PathBuf, CaptureWindow)>,
    /// The command that repeats the run.
    pub replay: String,
}

/// End of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchLimit {
    /// The workload ends after this number of operations of all clients together.
    Operations(u64),
    /// The workload ends after this virtual time.
    After(Duration),
}

/// Reason why a simulated run failed.
#[derive(Debug, Error)]
pub enum SimulatedError {
    /// The fault plan does not fit the cluster.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The cluster never served, or stopped serving.
    #[error(
        "the cluster stood still: {0} was not over after {1} of virtual time; look at the fault plan, or report it with the seed"
    )]
    Stalled(&'static str, Duration),
    /// A capture could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

/// Results of a run.
#[derive(Debug)]
pub struct SimulatedRun {
    /// The measurements.
    pub result: RunResult,
    /// Histogram of the latencies of all operations.
    pub latencies: Latencies,
    /// The history of all requests and answers.
    pub history: History,
    /// The check of the history for linearizability.
    pub report: Report,
    /// Counters of all nodes, added up.
    pub counters: BTreeMap<String, u64>,
}

/// Time-out of a phase, in virtual time.
const PHASE_MAX: Duration = Duration::from_secs(600);

impl SimulatedBench {
    /// Runs the benchmark. `progress` is called with the number of completed operations.
    ///
    /// # Errors
    /// See [`SimulatedError`].
    pub fn run(&self, mut progress: impl FnMut(u64)) -> Result<SimulatedRun, SimulatedError> {
        let mut cluster = Cluster::new(&self.cluster)?;
        let capture = self.capture.as_ref().map(|(folder, window)| {
            let capture = Rc::new(RefCell::new(Capture::new(folder.clone(), *window)));
            cluster.machines.world.add_tap(Box::new(Rc::clone(&capture)));
            capture
        });
        let slice = Duration::from_us(200);
        cluster.begin(|_| Phase::Load);
        phase(&mut cluster, "loading the records", slice, |_| {})?;

        let begin = cluster.machines.world.now();
        let clients = cluster.machines.client_machines().count() as u64;
        cluster.begin(|index| Phase::Run {
            limit: self.limit_of(index.into(), clients, begin),
            warm_up: self.warm_up,
        });
        phase(&mut cluster, "the workload", slice, &mut progress)?;
        let end = cluster.machines.world.now();
        if let Some(capture) = capture {
            capture.borrow_mut().finish()?;
        }

        // Faults may outlast the workload; the final state can be read only when the cluster is whole.
        cluster.run_until(self.cluster.plan.ends_at().max(cluster.machines.world.now()));
        cluster.begin(|_| Phase::ReadBack);
        phase(&mut cluster, "reading back", slice, |_| {})?;

        let log_hash = cluster.machines.world.log_hash().to_string();
        let faults = faults_of(&cluster.machines.world);
        let counters = cluster.machines.counters();
        let (marks, lanes) = timeline::of(&cluster, begin, end);
        let (recorder, history) = cluster.into_parts();
        let report = weft_check::check(&history, &Options::default());

        let mut result = RunResult::new(self.description(), &recorder);
        result.checked = checked(&report);
        result.check_report =
            report.violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        result.lost_acknowledged_writes = Some(report.lost_acknowledged_writes);
        result.log_hash = Some(log_hash);
        result.marks = marks;
        result.lanes = lanes;
        result.faults = faults;
        Ok(SimulatedRun { result, latencies: recorder.overall(), history, report, counters })
    }

    fn limit_of(&self, index: u64, machines: u64, begin: Instant) -> Limit {
        match self.limit {
            BenchLimit::Operations(all) => {
                Limit::Operations(all / machines + u64::from(index < all % machines))
            }
            BenchLimit::After(time) => Limit::Until(begin + time),
        }
    }

    fn description(&self) -> Description {
        let ClusterParameters { nodes, workload, load, reads, seed, nic, network, .. } = &self.cluster;
        let load_name = match load {
            Load::Closed { .. } => json!("closed loop"),
            Load::Open { operations_per_s, .. } => json!(format!("open loop, {operations_per_s:.0} ops/s")),
        };
        let parameters = [
            ("clients", json!(load.clients())),
            ("load", load_name),
            ("records", json!(workload.records())),
            ("value_bytes", json!(workload.value_bytes())),
            ("distribution", json!(workload.distribution().to_string())),
            ("reads", json!(reads_name(*reads))),
            ("engine_on", json!(nic.engine_on())),
            ("profile", json!(nic.profile().name)),
            ("network", json!(network.name)),
            ("acknowledged", json!("by every live replica")),
        ];
        Description {
            world: World::Sim,
            nic: nic.model().to_string(),
            nodes: *nodes as u32,
            workload: workload.name().into(),
            seed: *seed,
            replay: self.replay.clone(),
            machine: Machine::simulated(network.name, nic.basis()),
            parameters: parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

/// Name of a policy for reads.
pub fn reads_name(reads: ReadPolicy) -> String {
    match reads {
        ReadPolicy::Leader => "leader".into(),
        ReadPolicy::AnyReplica => "any replica".into(),
        ReadPolicy::Prefer(node) => node.to_string(),
    }
}

/// The verdict of a check for a result.
pub fn checked(report: &Report) -> Checked {
    match report.verdict {
        weft_check::Verdict::Linearizable => Checked::Linearizable,
        weft_check::Verdict::Violation => Checked::NotLinearizable,
        weft_check::Verdict::Undecided => Checked::Undecided,
    }
}

fn phase(
    cluster: &mut Cluster,
    name: &'static str,
    slice: Duration,
    progress: impl FnMut(u64),
) -> Result<(), SimulatedError> {
    let limit = cluster.machines.world.now() + PHASE_MAX;
    if cluster.finish(slice, limit, progress) {
        Ok(())
    } else {
        Err(SimulatedError::Stalled(name, PHASE_MAX))
    }
}
