//! Fault campaigns of the log: for each seed a cluster with random faults, which is checked.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_cluster::{AgentParameters, ServiceParameters};
#[cfg(feature = "planted-bugs")]
use weft_harness::NodeBug;
use weft_harness::{Findings, Judgement, Planted, add_faults, add_live_within, random_plan};
use weft_sim::{CostProfile, FaultKinds, FaultPlan, NetworkProfile};
use weft_smr::log::LogParameters;
use weft_smr::{Delivery, Parameters, PulseParameters};
use weft_time::{Duration, Instant};

use super::DRIFT_PPM;
use super::cluster::{Cluster, ClusterParameters};
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
/// Time from the last append until every append is answered and applied at all nodes.
const CALM: Duration = Duration::from_us(1_000);

/// Parameters of the runs.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Nodes of each cluster, 1 to 8.
    pub nodes: usize,
    /// One run per seed.
    pub seeds: std::ops::RangeInclusive<u64>,
    /// Kinds of injected faults.
    pub faults: FaultKinds,
    /// How followers detect new entries; `None`: it alternates with the seed.
    pub delivery: Option<Delivery>,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_smr::PlantedBug>,
    /// Bug planted in the node's program or in the membership service.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<NodeBug>,
}

/// Results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Nodes of each cluster.
    pub nodes: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
    /// Appends that were answered.
    pub appends: u64,
    /// Number of times that nodes became leader, in their last incarnations.
    pub leaderships: u64,
    /// Undecided entries of former leaders that a new leader has adopted.
    pub adopted: u64,
    /// Snapshots of the state that nodes have installed.
    pub snapshots: u64,
    /// Views published.
    pub views: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// `linearizable` or `violation`.
    pub checked: &'static str,
    /// Bound on the time from the last fault until every node is a full member again.
    pub live_within_bound_ns: u64,
    /// The longest such time of all runs.
    pub live_within_ns: u64,
    /// Violations.
    #[serde(flatten)]
    pub findings: Findings,
}

impl Campaign {
    /// Runs the campaign. `progress` is called with the number of finished seeds; `replay` returns the command that
    /// repeats the run of a seed.
    pub fn run(&self, replay: impl Fn(u64) -> String, mut progress: impl FnMut(u64)) -> CampaignResult {
        let mut result = CampaignResult {
            world: "sim",
            nodes: self.nodes as u32,
            seed: *self.seeds.start(),
            live_within_bound_ns: LIVE_WITHIN.as_ns(),
            ..CampaignResult::default()
        };
        let mut findings = Findings::default();
        for seed in self.seeds.clone() {
            findings.add(seed, (), || self.run_seed(seed, &mut result), &replay);
            result.seeds_run += 1;
            progress(result.seeds_run);
        }
        result.checked = findings.checked("linearizable");
        CampaignResult { findings, ..result }
    }

    fn log(&self, seed: u64) -> LogParameters {
        let delivery = [Delivery::WriteThrough, Delivery::Polling][seed as usize % 2];
        LogParameters {
            group: Parameters {
                nodes: self.nodes,
                slots: 64,
                slot_bytes: 128,
                delivery: self.delivery.unwrap_or(delivery),
                #[cfg(feature = "planted-bugs")]
                planted_bug: self.planted_bug,
                ..Parameters::default()
            },
            pulse: PulseParameters { nodes: self.nodes, ..PulseParameters::default() },
            ..LogParameters::default()
        }
    }

    fn plan(&self, seed: u64) -> FaultPlan {
        let service = ["membership0"];
        random_plan(seed, self.nodes, &service, &service, FAULTS_FROM..FAULTS_UNTIL, self.faults)
    }

    fn run_seed(&self, seed: u64, result: &mut CampaignResult) -> Judgement {
        let mut cluster = Cluster::new(&ClusterParameters {
            log: self.log(seed),
            network: NetworkProfile::DETPU,
            profile: CostProfile::FPGA_APPLICATION,
            drift_ppm: DRIFT_PPM,
            load: ClientLoad { clients: 4, outstanding: 3, roaming: true },
            service: Some((
                ServiceParameters::new(self.nodes, LEASE),
                AgentParameters { idle_interval: IDLE_INTERVAL, ..AgentParameters::default() },
            )),
            planted: Planted {
                #[cfg(feature = "planted-bugs")]
                bug: self.node_bug,
            },
            seed,
            plan: self.plan(seed),
        })
        .expect("the plan names nodes");
        let end = Instant::ZERO + FAULTS_UNTIL;
        cluster.run_until(end);
        let before = cluster.books.borrow().answered;
        let mut live = None;
        while cluster.now() < end + LIVE_WITHIN {
            let next = cluster.now() + Duration::from_us(50);
            cluster.run_until(next);
            let books = cluster.books.borrow();
            if live.is_none() && books.full() == self.nodes && books.answered > before {
                live = Some(next.saturating_since(end));
            }
        }
        let answered = cluster.books.borrow().answered;
        cluster.run_until(end + LIVE_WITHIN + Duration::from_us(200));
        let mut wrong = Vec::new();
        if cluster.books.borrow().answered == answered {
            wrong.push(format!("no append is answered any more: {}", describe(&cluster)));
        }
        cluster.books.borrow_mut().asking = false;
        let until = cluster.now() + CALM;
        cluster.run_until(until);

        add_live_within(&mut result.live_within_ns, live);
        if live.is_none() {
            wrong.push(format!("not every node took part within {LIVE_WITHIN}: {}", describe(&cluster)));
        }
        let outstanding = cluster.books.borrow().outstanding();
        if outstanding > 0 {
            wrong.push(format!("{outstanding} appends were not answered: {}", describe(&cluster)));
        }
        let applied: Vec<_> =
            (0..self.nodes).filter_map(|node| Some(cluster.log(node)?.group().applied())).collect();
        if applied.len() != self.nodes || applied.windows(2).any(|pair| pair[0] != pair[1]) {
            wrong.push(format!("the nodes have applied {applied:?} entries in the end"));
        }
        let books = cluster.books.borrow();
        wrong.extend(books.log.violations().iter().cloned());
        result.appends += books.answered;
        result.leaderships += cluster.sum("leaderships");
        result.adopted += cluster.sum("adopted");
        result.snapshots += cluster.sum("snapshots_taken");
        result.views += cluster.machines.views().len() as u64;
        add_faults(&mut result.faults, &cluster.machines.world);
        Judgement::of(&cluster.machines.world, wrong)
    }
}

fn describe(cluster: &Cluster) -> String {
    let describe = |node: usize| match cluster.log(node) {
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
    let nodes = (0..cluster.nodes()).map(describe).collect::<Vec<_>>().join("; ");
    format!("{}; {nodes}", cluster.machines.describe_service())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(nodes: usize, seeds: std::ops::RangeInclusive<u64>) -> Campaign {
        Campaign {
            nodes,
            seeds,
            faults: FaultKinds::ALL,
            delivery: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            #[cfg(feature = "planted-bugs")]
            node_bug: None,
        }
    }

    #[test]
    fn logs_agree_whatever_fails() {
        for nodes in [3, 5] {
            let result = campaign(nodes, 1..=4).run(|seed| seed.to_string(), |_| {});
            assert_eq!(result.findings.violations, [], "{nodes} nodes");
            assert!(result.appends > 1_000 && result.faults["crash"] > 0, "{result:?}");
        }
    }
}
