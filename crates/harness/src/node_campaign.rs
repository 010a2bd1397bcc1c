//! A fault campaign on the nodes that ship: all but the engine, its clients and what they must have been told.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Serialize;
use weft_sim::{CostProfile, FaultKinds, FaultPlan, PlanError};
use weft_time::{Duration, Instant};

use crate::{
    ClientProgram, Cluster, FaultTimes, Findings, Judgement, MakeEngines, Planted, ShippedNodes,
    ShippedParameters, add_faults, add_live_within, random_plan,
};

/// How long a lease of the membership service lasts in campaigns and measurements.
pub const LEASE: Duration = Duration::from_ms(5);
/// What clocks gain or lose, in millionths: half of what leases allow for.
pub const DRIFT_PPM: u32 = 400;
/// Faults begin when the cluster has been serving for a while,
const FAULTS_FROM: Duration = Duration::from_ms(20);
/// and are over at this time.
const FAULTS_UNTIL: Duration = Duration::from_ms(120);
/// So long after the last fault every node is full: see the campaign of the key-value store.
const LIVE_WITHIN: Duration = LEASE.saturating_mul(20);
/// After that the clients go on for so long.
const CALM: Duration = Duration::from_ms(10);

/// Which runs to make.
#[derive(Clone, Debug)]
pub struct NodeCampaign {
    /// Nodes of each cluster, 1 to 16.
    pub nodes: usize,
    /// One run for each seed.
    pub seeds: RangeInclusive<u64>,
    /// Which kinds of faults the random plans have.
    pub kinds: FaultKinds,
    /// This plan in place of random ones.
    pub plan: Option<FaultPlan>,
    /// A bug around the engines to run with.
    #[cfg(feature = "planted-bugs")]
    pub node_bug: Option<crate::NodeBug>,
}

/// What came of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeCampaignResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Nodes of each cluster.
    pub nodes: u32,
    /// The first seed.
    pub seed: u64,
    /// Runs made.
    pub seeds_run: u64,
    /// What the engine's clients counted, by name.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
    /// Views published.
    pub views: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// What holds of all runs, or `violation`.
    pub checked: &'static str,
    /// Every node of every run must be full again so long after the last fault.
    pub live_within_bound_ns: u64,
    /// The longest that it took in any run.
    pub live_within_ns: u64,
    /// What went wrong.
    #[serde(flatten)]
    pub findings: Findings,
}

/// What an engine brings to a campaign.
pub trait Subject {
    /// The clients of a machine.
    type Clients: ClientProgram;

    /// What is said if nothing is wrong.
    const HOLDS: &'static str;

    /// The engines of each card; clients call the first one.
    fn engines(&self) -> MakeEngines;

    /// The clients of each machine, which do nothing yet.
    fn clients(&self, nodes: usize, seed: u64) -> Vec<Self::Clients>;

    /// The clients of a machine begin.
    fn begin(now: Instant, clients: &mut Self::Clients);

    /// They begin nothing new.
    fn finish(clients: &mut Self::Clients);

    /// Nobody waits for an answer.
    fn is_idle(clients: &Self::Clients) -> bool;

    /// What is wrong with what the clients were told. Calm reigns from `calm_from` on, on the world's clock. Adds what
    /// there is to count.
    fn judge(
        &self,
        cluster: &Cluster<ShippedNodes<Self::Clients>>,
        calm_from: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String>;
}

impl NodeCampaign {
    /// Runs it; `progress` is told how many seeds are done. `replay` names the command that repeats one seed.
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
                engines: subject.engines(),
                profile: CostProfile::FPGA,
                lease: LEASE,
                drift_ppm: DRIFT_PPM,
                planted: Planted {
                    #[cfg(feature = "planted-bugs")]
                    bug: self.node_bug,
                },
            };
            let cluster = Cluster::shipped(parameters, &plan, clients)?;
            let end = plan.ends_at().max(Instant::ZERO + FAULTS_FROM);
            findings.add(seed, (), || run(subject, cluster, end, &mut result), &replay);
            result.seeds_run += 1;
            progress(result.seeds_run);
        }
        result.checked = findings.checked(S::HOLDS);
        Ok(NodeCampaignResult { findings, ..result })
    }
}

/// Makes the run of a cluster whose faults are over at `end`.
fn run<S: Subject>(
    subject: &S,
    mut cluster: Cluster<ShippedNodes<S::Clients>>,
    end: Instant,
    result: &mut NodeCampaignResult,
) -> Judgement {
    cluster.for_each_driver(S::begin);
    let (mut wrong, live_within) =
        cluster.run_faults(&FaultTimes { end, live_within: LIVE_WITHIN, calm: CALM });
    add_live_within(&mut result.live_within_ns, live_within);
    cluster.for_each_driver(|_, clients| S::finish(clients));
    cluster.run_until(cluster.world.now() + LIVE_WITHIN);
    if !cluster.drivers().all(|(_, clients)| S::is_idle(clients)) {
        wrong.push("some calls were not answered although all faults were over".to_owned());
    }
    wrong.extend(subject.judge(&cluster, end + LIVE_WITHIN, &mut result.counts));
    result.views += cluster.views().len() as u64;
    add_faults(&mut result.faults, &cluster.world);
    Judgement::of(&cluster.world, wrong)
}
