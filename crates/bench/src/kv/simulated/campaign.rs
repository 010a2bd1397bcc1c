//! Fault campaigns: many seeds, each a cluster under a random plan of faults, each checked.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_check::Options;
use weft_kv::ReadPolicy;
use weft_sim::{FaultKinds, FaultPlan, PlanShape};
use weft_time::{Duration, Instant};

use super::checked;
use super::cluster::{Cluster, ClusterParameters, LEASE};
use super::nodes::NodeNic;
use crate::kv::Phase;
use crate::load::{Limit, Load};
use crate::rdma::NicModel;
use crate::result::Checked;
use crate::workload::{Distribution, Workload};

/// Faults begin when the cluster has been serving for a while,
const FAULTS_FROM: Duration = Duration::from_ms(20);
/// and are over at this time.
const FAULTS_UNTIL: Duration = Duration::from_ms(120);
/// So long after the last fault every node must serve again: the lease of whoever is still missing ends (with its margin
/// for clocks), a view without it is published, it learns that it must rejoin, joins in the next view, catches up
/// and becomes full in a third; each of these waits for a heartbeat or for the service's interval between views.
pub const LIVE_WITHIN: Duration = LEASE.saturating_mul(20);
/// After that the workload goes on, undisturbed, for this long.
const CALM: Duration = Duration::from_ms(5);
/// Clients of a campaign and what they ask for, over all of them.
const LOAD: Load = Load::Open { clients: 24, operations_per_s: 60_000.0 };
/// Few records, so that clients meet; not so few that one bucket holds them all.
const RECORDS: u64 = 64;
/// Violations that are described; all are counted.
const DESCRIBED_MAX: usize = 20;

/// Which runs to make.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Nodes of each cluster.
    pub nodes: usize,
    /// One run for each seed.
    pub seeds: std::ops::RangeInclusive<u64>,
    /// Which kinds of faults the random plans have.
    pub kinds: FaultKinds,
    /// This plan in place of random ones.
    pub plan: Option<FaultPlan>,
    /// What NIC the nodes have.
    pub nic: NodeNic,
    /// A bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_kv::PlantedBug>,
}

/// What came of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Which NIC.
    pub nic: NicModel,
    /// Where the engines run: on the `nic`, or in software on the `host`.
    pub engine_on: &'static str,
    /// Nodes of each cluster.
    pub nodes: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
    /// Operations in all histories.
    pub operations: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Views published.
    pub views: u64,
    /// Acknowledged writes that were not there in the end.
    pub lost_acknowledged_writes: u64,
    /// The worst verdict of all runs.
    pub checked: &'static str,
    /// Every node of every run must serve again so long after the last fault.
    pub live_within_bound_ns: u64,
    /// The longest that it took in any run.
    pub live_within_ns: u64,
    /// How many runs went wrong.
    pub violations_found: u64,
    /// What went wrong, at most the first 20.
    pub violations: Vec<CampaignViolation>,
    /// A hash over the log hashes of all runs, in order.
    pub log_hash: String,
}

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CampaignViolation {
    /// Its seed.
    pub seed: u64,
    /// What is wrong, in words; with the smallest bad window if the history is not linearizable.
    pub what: String,
    /// The command that repeats the run.
    pub replay: String,
}

/// What came of one seed.
struct SeedResult {
    operations: u64,
    faults: Vec<(&'static str, u64)>,
    views: u64,
    lost: u64,
    checked: Checked,
    /// Nothing if the cluster was not whole in time.
    live_within: Option<Duration>,
    what: Option<String>,
    log_hash: String,
}

impl Campaign {
    /// Runs it; `progress` is told how many seeds are done. `replay` names the command that repeats one seed.
    ///
    /// # Errors
    /// The given plan does not fit the cluster.
    pub fn run(
        &self,
        replay: impl Fn(u64) -> String,
        mut progress: impl FnMut(u64),
    ) -> Result<CampaignResult, weft_sim::PlanError> {
        let mut result = CampaignResult {
            world: "sim",
            nic: self.nic.model(),
            engine_on: self.nic.engine_on(),
            nodes: self.nodes as u32,
            seed: *self.seeds.start(),
            live_within_bound_ns: LIVE_WITHIN.as_ns(),
            ..CampaignResult::default()
        };
        let mut worst = Checked::Linearizable;
        let mut hashes = Vec::new();
        for seed in self.seeds.clone() {
            let run = self.run_seed(seed)?;
            result.seeds_run += 1;
            result.operations += run.operations;
            result.views += run.views;
            result.lost_acknowledged_writes += run.lost;
            for (kind, count) in run.faults {
                *result.faults.entry(kind.to_owned()).or_insert(0) += count;
            }
            match run.live_within {
                Some(time) => result.live_within_ns = result.live_within_ns.max(time.as_ns()),
                None => result.live_within_ns = u64::MAX,
            }
            if run.checked == Checked::NotLinearizable || worst == Checked::Linearizable {
                worst = run.checked;
            }
            if let Some(what) = run.what {
                result.violations_found += 1;
                if result.violations.len() < DESCRIBED_MAX {
                    result.violations.push(CampaignViolation { seed, what, replay: replay(seed) });
                }
            }
            hashes.extend_from_slice(run.log_hash.as_bytes());
            progress(result.seeds_run);
        }
        result.checked = match worst {
            Checked::Linearizable => "linearizable",
            Checked::NotLinearizable => "violation",
            Checked::Undecided | Checked::NotChecked => "undecided",
        };
        result.log_hash = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&hashes));
        Ok(result)
    }

    /// The plan of one seed.
    pub fn plan_of(&self, seed: u64) -> FaultPlan {
        self.plan.clone().unwrap_or_else(|| {
            let nodes: Vec<String> = (0..self.nodes).map(|node| format!("node{node}")).collect();
            let others = ["membership0".to_owned(), "clients0".to_owned()];
            FaultPlan::random(
                seed,
                &PlanShape {
                    machines: nodes.iter().cloned().chain(others).collect(),
                    crashable: nodes,
                    from_us: FAULTS_FROM.as_ns() / 1_000,
                    until_us: FAULTS_UNTIL.as_ns() / 1_000,
                    kinds: self.kinds,
                },
            )
        })
    }

    fn run_seed(&self, seed: u64) -> Result<SeedResult, weft_sim::PlanError> {
        let plan = self.plan_of(seed);
        let faults_end = plan.ends_at().max(Instant::ZERO + FAULTS_FROM);
        let workload = Workload::parse("mixed")
            .and_then(|workload| workload.with_records(RECORDS))
            .and_then(|workload| workload.with_value_bytes(64))
            .expect("the workload of campaigns exists")
            .with_distribution(Distribution::Zipfian);
        let mut cluster = Cluster::new(&ClusterParameters {
            nodes: self.nodes,
            workload,
            load: LOAD,
            reads: ReadPolicy::AnyReplica,
            seed,
            nic: self.nic,
            plan,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })?;

        let slice = Duration::from_us(500);
        cluster.begin(|_| Phase::Load);
        let loaded = cluster.finish(slice, Instant::ZERO + FAULTS_FROM, |_| {});
        assert!(loaded, "seed {seed}: a cluster without faults loads {RECORDS} records in {FAULTS_FROM}");
        let until = faults_end + LIVE_WITHIN + CALM;
        cluster.begin(|_| Phase::Run { limit: Limit::Until(until), warm_up: Duration::ZERO });
        cluster.run_until(faults_end);
        let live_within = live_within(&mut cluster, faults_end);
        let mut finished = cluster.finish(slice, until + LIVE_WITHIN, |_| {});
        if finished {
            cluster.begin(|_| Phase::ReadBack);
            finished = cluster.finish(slice, cluster.world.now() + LIVE_WITHIN, |_| {});
        }

        let state = cluster.describe();
        let digests = cluster.digests();
        let alike = digests.windows(2).all(|pair| pair[0] == pair[1]);
        let (faults, views) = (cluster.world.fault_counts().entries().to_vec(), cluster.views().len() as u64);
        let conserved = cluster.world.traffic().is_conserved();
        let log_hash = cluster.world.log_hash().to_string();
        let (_, history) = cluster.into_parts();
        let report = weft_check::check(&history, &Options::default());

        let mut wrong = Vec::new();
        if live_within.is_none() {
            wrong
                .push(format!("not every node served again within {LIVE_WITHIN} of the last fault: {state}"));
        }
        if !finished {
            wrong.push("some operations were not answered although all faults were over".to_owned());
        }
        if finished && live_within.is_some() && !alike {
            wrong.push(format!("the nodes hold different data in the end: digests {digests:016x?}"));
        }
        if !conserved {
            wrong.push("the simulator lost count of frames".to_owned());
        }
        if report.lost_acknowledged_writes > 0 {
            wrong.push(format!("{} acknowledged writes are lost", report.lost_acknowledged_writes));
        }
        wrong.extend(report.violations.iter().map(ToString::to_string));
        if report.verdict == weft_check::Verdict::Undecided {
            wrong.push("the check gave up".to_owned());
        }
        Ok(SeedResult {
            operations: report.operations,
            faults,
            views,
            lost: report.lost_acknowledged_writes,
            checked: checked(&report),
            live_within,
            what: (!wrong.is_empty()).then(|| wrong.join("\n")),
            log_hash,
        })
    }
}

/// How long after `faults_end` every node serves again; nothing if that takes longer than it may.
fn live_within(cluster: &mut Cluster, faults_end: Instant) -> Option<Duration> {
    let step = Duration::from_us(100);
    while !cluster.is_whole() {
        if cluster.world.now() >= faults_end + LIVE_WITHIN {
            return None;
        }
        let next = cluster.world.now() + step;
        cluster.run_until(next);
    }
    Some(cluster.world.now().saturating_since(faults_end))
}
