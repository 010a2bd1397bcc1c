//! Fault campaigns of the log.

use std::ops::AddAssign;

use serde::Serialize;
use weft_cluster::{AgentParameters, ServiceParameters};
use weft_harness::{Campaign, Cluster as Machines, Subject, Times, Trial};
use weft_sim::{CostProfile, FaultPlan, NetworkProfile, PlanError};
use weft_smr::log::LogParameters;
use weft_smr::{Delivery, Parameters, PulseParameters};
use weft_time::{Duration, Instant};

use super::DRIFT_PPM;
use super::cluster::{Cluster, ClusterParameters, LogNodes};
use super::host::ClientLoad;

/// Time of the first fault; the cluster has been running for some time by then.
const FAULTS_FROM: Duration = Duration::from_us(200);
/// Time at which all faults are over.
const FAULTS_UNTIL: Duration = Duration::from_us(4_000);
/// Length of a lease: short enough that many leases end in a run. The log does not rely on leases, but a
/// restarted node waits for the end of the lease of its previous incarnation.
const LEASE: Duration = Duration::from_us(300);
/// Interval of the heartbeats of a node without a lease.
const IDLE_INTERVAL: Duration = Duration::from_us(20);
/// Bound on the time from the last fault until every node is a full member again and clients get answers.
const LIVE_WITHIN: Duration = Duration::from_us(3_000);
/// After that, a client must get an answer within this time.
const ANSWERED_WITHIN: Duration = Duration::from_us(200);
/// Time from the last append until every append is answered and applied at all nodes.
const CALM: Duration = Duration::from_us(1_000);
/// Interval between two checks of a run.
const STEP: Duration = Duration::from_us(50);

/// The log as the subject of a campaign, with 1 to 8 nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogSubject {
    /// How followers detect new entries; `None`: it alternates with the seed.
    pub delivery: Option<Delivery>,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_smr::PlantedBug>,
}

/// Figures of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogFigures {
    /// Appends that were answered.
    pub appends: u64,
    /// Number of times that nodes became leader, in their last incarnations.
    pub leaderships: u64,
    /// Undecided entries of former leaders that a new leader has adopted.
    pub adopted: u64,
    /// Snapshots of the state that nodes have installed.
    pub snapshots: u64,
}

impl AddAssign for LogFigures {
    fn add_assign(&mut self, Self { appends, leaderships, adopted, snapshots }: Self) {
        self.appends += appends;
        self.leaderships += leaderships;
        self.adopted += adopted;
        self.snapshots += snapshots;
    }
}

/// The run of a seed.
pub struct LogTrial {
    cluster: Cluster,
    /// Number of answers when the faults were over.
    answered_before: u64,
}

impl LogSubject {
    fn log(&self, nodes: usize, seed: u64) -> LogParameters {
        let delivery = [Delivery::WriteThrough, Delivery::Polling][seed as usize % 2];
        LogParameters {
            group: Parameters {
                nodes,
                slots: 64,
                slot_bytes: 128,
                delivery: self.delivery.unwrap_or(delivery),
                #[cfg(feature = "planted-bugs")]
                planted_bug: self.planted_bug,
                ..Parameters::default()
            },
            pulse: PulseParameters { nodes, ..PulseParameters::default() },
            ..LogParameters::default()
        }
    }
}

impl Subject for LogSubject {
    type Trial = LogTrial;
    type Figures = LogFigures;
    type About = ();

    fn times(&self, _: &Campaign) -> Times {
        Times {
            faults: FAULTS_FROM..FAULTS_UNTIL,
            faulty_until: FAULTS_UNTIL,
            lease: None,
            live_within: Some(LIVE_WITHIN),
            step: STEP,
        }
    }

    fn about(&self, _: &Campaign, _: u64) {}

    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<LogTrial, PlanError> {
        let cluster = Cluster::new(&ClusterParameters {
            log: self.log(runs.nodes, seed),
            network: NetworkProfile::DETPU,
            profile: CostProfile::FPGA_APPLICATION,
            drift_ppm: DRIFT_PPM,
            load: ClientLoad { clients: 4, outstanding: 3, roaming: true },
            service: Some((
                ServiceParameters::new(runs.nodes, LEASE),
                AgentParameters { idle_interval: IDLE_INTERVAL, ..AgentParameters::default() },
            )),
            planted: runs.planted,
            seed,
            plan: plan.clone(),
        })?;
        Ok(LogTrial { cluster, answered_before: 0 })
    }

    fn holds(&self) -> &'static str {
        "linearizable"
    }
}

impl Trial for LogTrial {
    type Nodes = LogNodes;
    type Figures = LogFigures;

    fn cluster(&self) -> &Machines<LogNodes> {
        &self.cluster.machines
    }

    fn run_until(&mut self, until: Instant) {
        self.cluster.machines.run_until(until);
    }

    fn faults_are_over(&mut self) -> Instant {
        self.answered_before = self.cluster.books.borrow().answered;
        self.now()
    }

    fn is_live(&mut self) -> bool {
        let books = self.cluster.books.borrow();
        books.full() == self.cluster.machines.nodes() && books.answered > self.answered_before
    }

    fn describe(&self) -> String {
        let describe = |node: usize| match self.cluster.log(node) {
            Some(log) => format!(
                "node{node} {:?}, part {}, alive {:?}, applied {} of {}",
                log.group().role(),
                log.group().takes_part(),
                log.pulse().alive(),
                log.group().applied(),
                log.group().decided()
            ),
            None => format!("node{node} is gone"),
        };
        let nodes = (0..self.cluster.machines.nodes()).map(describe).collect::<Vec<_>>().join("; ");
        format!("{}; {nodes}", self.cluster.machines.describe_service())
    }

    fn settle(&mut self, faults_end: Instant, wrong: &mut Vec<String>) {
        self.run_until(faults_end + LIVE_WITHIN);
        let answered = self.cluster.books.borrow().answered;
        self.run_for(ANSWERED_WITHIN);
        if self.cluster.books.borrow().answered == answered {
            wrong.push(format!("no append is answered any more: {}", self.describe()));
        }
        self.cluster.books.borrow_mut().asking = false;
        self.run_for(CALM);
        let outstanding = self.cluster.books.borrow().outstanding();
        if outstanding > 0 {
            wrong.push(format!("{outstanding} appends were not answered: {}", self.describe()));
        }
    }

    fn judge(self, figures: &mut LogFigures, wrong: &mut Vec<String>) {
        let Self { cluster, .. } = self;
        let applied: Vec<_> = (0..cluster.machines.nodes())
            .filter_map(|node| Some(cluster.log(node)?.group().applied()))
            .collect();
        if applied.len() != cluster.machines.nodes() || applied.windows(2).any(|pair| pair[0] != pair[1]) {
            wrong.push(format!("the nodes have applied {applied:?} entries in the end"));
        }
        let mut books = cluster.books.borrow_mut();
        books.log.ended();
        wrong.extend(books.log.violations().iter().cloned());
        let counters = cluster.machines.counters();
        figures.appends += books.answered;
        figures.leaderships += counters["leaderships"];
        figures.adopted += counters["adopted"];
        figures.snapshots += counters["snapshots_taken"];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_agree_whatever_fails() {
        for nodes in [3, 5] {
            let runs = Campaign::new(nodes, 1..=4);
            let result = runs.run(&LogSubject::default(), |seed| seed.to_string(), |_| {}).unwrap();
            assert_eq!(result.findings.violations, [], "{nodes} nodes");
            assert!(result.figures.appends > 1_000 && result.faults["crash"] > 0, "{result:?}");
        }
    }
}
