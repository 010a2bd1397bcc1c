//! Fault campaigns: for each seed a cluster with a random fault plan, whose history is checked.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_check::{History, Options, Start, lines};
#[cfg(feature = "planted-bugs")]
use weft_harness::NodeBug;
use weft_harness::{Findings, Judgement, Partings, Sealed, add_faults, add_live_within, random_plan};
use weft_kv::ReadPolicy;
use weft_results::Checked;
use weft_results::NicModel;
use weft_sim::{FaultKinds, FaultPlan, NetworkProfile};
use weft_time::{Duration, Instant};
use weft_workload::{Distribution, Workload};
use weft_workload::{Limit, Load};

use super::checked;
use super::cluster::{Cluster, ClusterParameters, LEASE};
#[cfg(feature = "planted-bugs")]
use super::disks::DiskBug;
use super::disks::DiskRegime;
use super::nodes::NodeNic;
use crate::kv::Phase;

/// Time of the first fault; the cluster has been serving for some time by then.
const FAULTS_FROM: Duration = Duration::from_ms(20);
/// Time at which all faults are over.
const FAULTS_UNTIL: Duration = Duration::from_ms(120);
/// Bound on the time from the last fault until every node serves again. In the worst case the lease of an
/// unreachable node ends (with its margin for clock drift), a view without the node is published, the node
/// learns that it must rejoin, joins in a second view, catches up, and becomes full in a third. Each step
/// waits for a heartbeat or for the minimum interval between views.
const LIVE_WITHIN: Duration = LEASE.saturating_mul(20);
/// Time for which the workload continues without faults after that.
const CALM: Duration = Duration::from_ms(5);
/// Interval between two checks of a run.
const STEP: Duration = Duration::from_us(100);
/// Load of a campaign, over all clients.
const LOAD: Load = Load::Open { clients: 24, operations_per_s: 60_000.0 };
/// Number of records: few, so that clients access the same records, but more than one bucket holds.
const RECORDS: u64 = 64;

/// Parameters of the runs.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Nodes of each cluster.
    pub nodes: usize,
    /// One run per seed.
    pub seeds: std::ops::RangeInclusive<u64>,
    /// Kinds of faults in random plans.
    pub kinds: FaultKinds,
    /// A fixed plan in place of random ones.
    pub plan: Option<FaultPlan>,
    /// NIC of the nodes.
    pub nic: NodeNic,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Whether frames are sealed by PSP.
    pub psp: bool,
    /// Whether the result keeps the histories, 64 bytes for each operation.
    pub keep_histories: bool,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_kv::PlantedBug>,
    /// Bug planted in the node's program or in the membership service.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<NodeBug>,
    /// Bug planted between the engine and its disk.
    #[cfg(feature = "planted-bugs")]
    pub disk_bug: Option<DiskBug>,
}

/// Results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// The NIC.
    pub nic: NicModel,
    /// Place of the engines: on the `nic`, or in software on the `host`.
    pub engine_on: &'static str,
    /// Network between the machines.
    pub network: &'static str,
    /// Cost profile of the nodes.
    pub profile: &'static str,
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
    /// Partial partitions that began while no other fault was active, and during which the other nodes were
    /// seen to serve in time.
    pub partial_partitions_checked: u64,
    /// Acknowledged writes that were lost at the end.
    pub lost_acknowledged_writes: u64,
    /// Effects of disk faults, if nodes have disks.
    #[serde(flatten)]
    pub disks: Option<DiskFindings>,
    /// The worst verdict of all runs.
    pub checked: &'static str,
    /// Bound on the time from the last fault until every node serves again.
    pub live_within_bound_ns: u64,
    /// The longest such time of all runs.
    pub live_within_ns: u64,
    /// Counts of sealed frames, if frames are sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psp: Option<Sealed>,
    /// Violations.
    #[serde(flatten)]
    pub findings: Findings,
    /// The histories, if they are kept. A run that an assertion ends has none.
    #[serde(skip)]
    pub histories: Vec<lines::Run>,
}

/// Effects of disk faults in a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskFindings {
    /// Number of power failures of several nodes at once.
    pub power_cuts: u64,
    /// Writes that were acknowledged as durable and were lost at the end.
    pub durable_writes_lost: u64,
    /// Number of runs in which any number of disks may be damaged.
    pub arbitrary_runs: u64,
    /// Number of these runs in which all data was lost and the cluster stopped.
    pub halted_runs: u64,
}

impl Campaign {
    /// Runs the campaign. `progress` is called with the number of runs made; `replay` returns the command
    /// that repeats the run of a seed.
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
            network: self.network.name,
            profile: self.nic.profile().name,
            nodes: self.nodes as u32,
            seed: *self.seeds.start(),
            live_within_bound_ns: LIVE_WITHIN.as_ns(),
            psp: self.psp.then(Sealed::default),
            disks: self.has_disks().then(DiskFindings::default),
            ..CampaignResult::default()
        };
        let mut worst = Checked::Linearizable;
        let mut findings = Findings::default();
        for seed in self.seeds.clone() {
            let plan = self.plan_of(seed);
            let faults_end = plan.ends_at().max(Instant::ZERO + FAULTS_FROM);
            let regime = self.has_disks().then(|| regime(seed));
            let partings = Partings::new(&plan, self.nodes, LEASE);
            let cluster = self.cluster(seed, plan, regime)?;
            // If a client did not finish, there is no history to check.
            let mut checked = Checked::NotChecked;
            let run = || {
                let (judgement, report, history) = run(cluster, regime, (faults_end, partings), &mut result);
                checked = report;
                if self.keep_histories {
                    result.histories.push(lines::Run { start: Start::Empty, seed: Some(seed), history });
                }
                judgement
            };
            findings.add(seed, (), run, &replay);
            if checked == Checked::NotLinearizable || worst == Checked::Linearizable {
                worst = checked;
            }
            result.seeds_run += 1;
            progress(result.seeds_run);
        }
        result.checked = match worst {
            Checked::Linearizable => "linearizable",
            Checked::NotLinearizable => "violation",
            _ => "undecided",
        };
        Ok(CampaignResult { findings, ..result })
    }

    /// The plan of one seed.
    pub fn plan_of(&self, seed: u64) -> FaultPlan {
        self.plan.clone().unwrap_or_else(|| {
            let others = ["membership0", "clients0"];
            random_plan(seed, self.nodes, &others, &others[..1], FAULTS_FROM..FAULTS_UNTIL, self.kinds)
        })
    }

    /// Whether the nodes have disks.
    fn has_disks(&self) -> bool {
        let of_plan = |plan: &FaultPlan| {
            plan.faults.iter().any(|fault| FaultKinds::NONE.with(fault.kind()).has_disks())
        };
        self.plan.as_ref().map_or(self.kinds.has_disks(), of_plan)
    }

    fn cluster(
        &self,
        seed: u64,
        plan: FaultPlan,
        disks: Option<DiskRegime>,
    ) -> Result<Cluster, weft_sim::PlanError> {
        let workload = Workload::parse("mixed")
            .and_then(|workload| workload.with_records(RECORDS))
            .and_then(|workload| workload.with_value_bytes(64))
            .expect("the workload of campaigns exists")
            .with_distribution(Distribution::Zipfian);
        Cluster::new(&ClusterParameters {
            nodes: self.nodes,
            workload,
            load: LOAD,
            reads: ReadPolicy::AnyReplica,
            seed,
            nic: self.nic,
            network: self.network,
            psp: self.psp,
            plan,
            disks,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            node_bug: self.node_bug,
            #[cfg(feature = "planted-bugs")]
            disk_bug: self.disk_bug,
        })
    }
}

/// Whether the run of this seed may damage any number of disks: every fourth does.
const fn regime(seed: u64) -> DiskRegime {
    if seed.is_multiple_of(4) { DiskRegime::Arbitrary } else { DiskRegime::OneGoodCopy }
}

/// Runs a cluster whose faults are over at `faults_end`, and adds its counts to the result. Returns the
/// violations, the verdict of the check, and the history.
fn run(
    mut cluster: Cluster,
    disks: Option<DiskRegime>,
    (faults_end, mut partings): (Instant, Partings),
    result: &mut CampaignResult,
) -> (Judgement, Checked, History) {
    let slice = Duration::from_us(500);
    cluster.begin(|_| Phase::Load);
    let loaded = cluster.finish(slice, Instant::ZERO + FAULTS_FROM, |_| {});
    assert!(loaded, "a cluster without faults loads {RECORDS} records in {FAULTS_FROM}");
    let until = faults_end + LIVE_WITHIN + CALM;
    cluster.begin(|_| Phase::Run { limit: Limit::Until(until), warm_up: Duration::ZERO });
    let (mut outside, mut parted) = (None, None);
    while cluster.machines.world.now() < faults_end {
        let next = (cluster.machines.world.now() + STEP).min(faults_end);
        cluster.run_until(next);
        let found =
            partings.look(next, || cluster.machines.while_parted(|node| cluster.serves_in_view(node)));
        parted = parted.or(found);
        if outside.is_none() {
            outside = cluster.serving_outside().next().map(|node| {
                format!("at {next} {node} serves by its lease, and the newest view is without it")
            });
        }
    }
    let live_within = live_within(&mut cluster, faults_end);
    let may_end = disks == Some(DiskRegime::Arbitrary);
    let has_ended = may_end && cluster.machines.phase() == Some(weft_cluster::Phase::Halted);
    if !has_ended {
        add_live_within(&mut result.live_within_ns, live_within);
    }
    let mut finished = !has_ended && cluster.finish(slice, until + LIVE_WITHIN, |_| {});
    if finished {
        cluster.begin(|_| Phase::ReadBack);
        finished = cluster.finish(slice, cluster.machines.world.now() + LIVE_WITHIN, |_| {});
    }

    let state = cluster.describe();
    let digests = cluster.digests();
    let alike = digests.windows(2).all(|pair| pair[0] == pair[1]);
    result.views += cluster.machines.views().len() as u64;
    result.partial_partitions_checked += partings.checked();
    add_faults(&mut result.faults, &cluster.machines.world);
    let power_cuts = cluster.machines.world.fault_counts().power;
    let mut judgement = Judgement::of(&cluster.machines.world, Vec::new());
    if let Some((sealed, watch)) = result.psp.as_mut().zip(cluster.watch.as_ref()) {
        let watch = watch.borrow();
        judgement.wrong.extend(watch.wrong());
        sealed.add(&watch, cluster.counters());
    }
    let (_, history) = cluster.into_parts();
    let report = weft_check::check(&history, &Options::default());
    result.operations += report.operations;
    result.lost_acknowledged_writes += report.lost_acknowledged_writes;
    if let Some(findings) = &mut result.disks {
        findings.power_cuts += power_cuts;
        // In this campaign every acknowledged write is durable at every member, so each lost write was a
        // durable one.
        findings.durable_writes_lost += report.lost_acknowledged_writes;
        findings.arbitrary_runs += u64::from(may_end);
        findings.halted_runs += u64::from(has_ended);
    }

    let wrong = &mut judgement.wrong;
    wrong.extend(outside.into_iter().chain(parted));
    if live_within.is_none() && !has_ended {
        wrong.push(format!("not every node served again within {LIVE_WITHIN} of the last fault: {state}"));
    }
    if !finished && !has_ended {
        wrong.push("some operations were not answered although all faults were over".to_owned());
    }
    if finished && live_within.is_some() && !alike {
        wrong.push(format!("the nodes hold different data in the end: digests {digests:016x?}"));
    }
    if report.lost_acknowledged_writes > 0 {
        wrong.push(format!("{} acknowledged writes are lost", report.lost_acknowledged_writes));
    }
    wrong.extend(report.violations.iter().map(ToString::to_string));
    if report.verdict == weft_check::Verdict::Undecided {
        wrong.push("the check gave up".to_owned());
    }
    (judgement, checked(&report), history)
}

/// Time after `faults_end` until every node serves again; `None` if that exceeds the bound.
fn live_within(cluster: &mut Cluster, faults_end: Instant) -> Option<Duration> {
    while !cluster.is_whole() {
        if cluster.machines.world.now() >= faults_end + LIVE_WITHIN {
            return None;
        }
        let next = cluster.machines.world.now() + STEP;
        cluster.run_until(next);
    }
    Some(cluster.machines.world.now().saturating_since(faults_end))
}
