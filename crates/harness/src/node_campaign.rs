//! A fault campaign on the shipped node: everything except the engine, its clients and their check.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Serialize;
use weft_sim::{CostProfile, FaultKinds, FaultPlan, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};

use crate::{
    Assemble, Caller, ClosedLoops, Cluster, ClusterOf, FaultTimes, Findings, Judgement, Partings, Planted,
    ShippedParameters, add_faults, add_live_within, random_plan,
};

/// Length of a lease in campaigns and measurements.
pub const LEASE: Duration = Duration::from_ms(5);
/// Clock drift in parts per million: half of what leases allow for.
pub const DRIFT_PPM: u32 = 400;
/// Time of the first fault: the cluster has been serving for a while.
const FAULTS_FROM: Duration = Duration::from_ms(20);
/// Time at which all faults are over.
const FAULTS_UNTIL: Duration = Duration::from_ms(120);
/// Bound on the time from the last fault until every node is full. The campaign of the key-value store
/// explains it.
const LIVE_WITHIN: Duration = LEASE.saturating_mul(20);
/// Time for which the clients continue after that.
const CALM: Duration = Duration::from_ms(10);

/// Runs of a campaign.
#[derive(Clone, Debug)]
pub struct NodeCampaign {
    /// Nodes of each cluster, 1 to 16.
    pub nodes: usize,
    /// One run per seed.
    pub seeds: RangeInclusive<u64>,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Cost profile of the cards.
    pub profile: CostProfile,
    /// Kinds of faults in random plans.
    pub kinds: FaultKinds,
    /// A fixed plan instead of random ones.
    pub plan: Option<FaultPlan>,
    /// The bug that is planted around the engines, if any.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<crate::NodeBug>,
}

/// Result of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeCampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Network between the machines.
    pub network: &'static str,
    /// Cost profile of the cards.
    pub profile: &'static str,
    /// Nodes of each cluster.
    pub nodes: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
    /// Counts of the engine's clients, by name.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
    /// Views published.
    pub views: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Partial partitions that began while no other fault was active, and during which the other nodes were
    /// seen to serve in time.
    pub partial_partitions_checked: u64,
    /// The property that holds in all runs, or `violation`.
    pub checked: &'static str,
    /// Bound on the time from the last fault until every node is full again.
    pub live_within_bound_ns: u64,
    /// The longest such time of all runs.
    pub live_within_ns: u64,
    /// Violations.
    #[serde(flatten)]
    pub findings: Findings,
}

/// An engine's part of a campaign.
pub trait Subject {
    /// Assembles the card of a node and its host halves.
    type Assembly: Assemble;
    /// One of the clients.
    type Caller: Caller;

    /// Verdict if no violation was found.
    const HOLDS: &'static str;

    /// The engines of each card, in a cluster of `nodes` nodes. Clients call the first one.
    fn engines(&self, nodes: usize) -> Self::Assembly;

    /// The clients of each machine.
    fn clients(&self, nodes: usize, seed: u64) -> Vec<ClosedLoops<Self::Caller>>;

    /// Checks the answers of the clients and adds counts. From `calm_from` on, a time on the world's clock,
    /// there are no faults.
    fn judge(
        &self,
        cluster: &ClusterOf<Self::Caller, Self::Assembly>,
        calm_from: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String>;
}

impl NodeCampaign {
    /// A campaign with all kinds of faults, engines on FPGA cards, and one switch.
    pub const fn new(nodes: usize, seeds: RangeInclusive<u64>) -> Self {
        Self {
            nodes,
            seeds,
            network: NetworkProfile::SWITCH,
            profile: CostProfile::FPGA,
            kinds: FaultKinds::ALL,
            plan: None,
            #[cfg(feature = "planted-bugs")]
            node_bug: None,
        }
    }

    /// Runs the campaign. `progress` is called with the number of runs made; `replay` returns the command
    /// that repeats the run of a seed.
    ///
    /// # Errors
    /// The given plan does not fit the cluster.
    pub fn run<S: Subject>(
        &self,
        subject: &S,
        replay: impl Fn(u64) -> String,
        mut progress: impl FnMut(u64),
    ) -> Result<NodeCampaignResult, PlanError> {
        let mut result = NodeCampaignResult {
            world: "sim",
            network: self.network.name,
            profile: self.profile.name,
            nodes: self.nodes as u32,
            seed: *self.seeds.start(),
            live_within_bound_ns: LIVE_WITHIN.as_ns(),
            ..NodeCampaignResult::default()
        };
        let mut findings = Findings::default();
        for seed in self.seeds.clone() {
            let clients = subject.clients(self.nodes, seed);
            let machines: Vec<_> = (0..clients.len()).map(|index| format!("clients{index}")).collect();
            let others: Vec<_> =
                std::iter::once("membership0").chain(machines.iter().map(String::as_str)).collect();
            let plan = self.plan.clone().unwrap_or_else(|| {
                random_plan(seed, self.nodes, &others, &others[..1], FAULTS_FROM..FAULTS_UNTIL, self.kinds)
            });
            let parameters = ShippedParameters {
                nodes: self.nodes,
                seed,
                engines: subject.engines(self.nodes),
                network: self.network,
                profile: self.profile,
                lease: LEASE,
                drift_ppm: DRIFT_PPM,
                planted: Planted {
                    #[cfg(feature = "planted-bugs")]
                    bug: self.node_bug,
                },
            };
            let cluster = Cluster::shipped(parameters, &plan, clients)?;
            let end = plan.ends_at().max(Instant::ZERO + FAULTS_FROM);
            let partings = Partings::new(&plan, self.nodes, LEASE);
            findings.add(seed, (), || run(subject, cluster, (end, partings), &mut result), &replay);
            result.seeds_run += 1;
            progress(result.seeds_run);
        }
        result.checked = findings.checked(S::HOLDS);
        Ok(NodeCampaignResult { findings, ..result })
    }
}

/// Runs a cluster whose faults are over at `end`.
fn run<S: Subject>(
    subject: &S,
    mut cluster: ClusterOf<S::Caller, S::Assembly>,
    (end, mut partings): (Instant, Partings),
    result: &mut NodeCampaignResult,
) -> Judgement {
    cluster.for_each_driver(|now, clients| clients.begin(now, Duration::ZERO));
    let (mut wrong, live_within) =
        cluster.run_faults(&FaultTimes { end, live_within: LIVE_WITHIN, calm: CALM }, &mut partings);
    result.partial_partitions_checked += partings.checked();
    add_live_within(&mut result.live_within_ns, live_within);
    cluster.for_each_driver(|_, clients| clients.finish());
    cluster.run_until(cluster.world.now() + LIVE_WITHIN);
    if !cluster.drivers().all(|(_, clients)| clients.is_idle()) {
        wrong.push("some calls were not answered although all faults were over".to_owned());
    }
    wrong.extend(subject.judge(&cluster, end + LIVE_WITHIN, &mut result.counts));
    result.views += cluster.views().len() as u64;
    add_faults(&mut result.faults, &cluster.world);
    Judgement::of(&cluster.world, wrong)
}
