//! Fault campaigns on the shipped node: everything except the engine, its clients and their check.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use weft_sim::{CostProfile, FaultPlan, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};

use crate::contender::CAMPAIGN_CLIENTS;
use crate::{
    Campaign, ClosedLoops, Cluster, Contender, ContenderCluster, ShippedNodes, ShippedParameters, Subject,
    Times, Trial, add_counts,
};

/// Length of a lease in campaigns and measurements.
pub const LEASE: Duration = Duration::from_ms(5);
/// Clock drift in parts per million: half of what leases allow for.
pub const DRIFT_PPM: u32 = 400;
/// Times of a run. Before the first fault, the cluster has been serving for a while. In the worst case the
/// lease of an unreachable node ends (with its margin for clock drift), a view without the node is published,
/// the node learns that it must rejoin, joins in a second view, catches up, and becomes full in a third. Each
/// step waits for a heartbeat or for the minimum interval between views.
pub const NODE_TIMES: Times = Times {
    faults: Duration::from_ms(20)..Duration::from_ms(120),
    faulty_until: Duration::from_ms(20),
    lease: Some(LEASE),
    live_within: Some(LIVE_WITHIN),
    step: Duration::from_us(100),
};
const LIVE_WITHIN: Duration = LEASE.saturating_mul(20);
/// Time for which the clients continue after that.
const CALM: Duration = Duration::from_ms(10);

/// A contender as the subject of a campaign, on nodes that are assembled as `weft start` does.
#[derive(Clone, Copy, Debug)]
pub struct OnNodes<'a, S> {
    /// The contender.
    pub contender: &'a S,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Cost profile of the cards.
    pub profile: CostProfile,
}

/// Figures of a campaign on such nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeFigures {
    /// Network between the machines.
    pub network: &'static str,
    /// Cost profile of the cards.
    pub profile: &'static str,
    /// Counts of the engine's clients, by name.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
}

impl AddAssign for NodeFigures {
    fn add_assign(&mut self, Self { network: _, profile: _, counts }: Self) {
        add_counts(&mut self.counts, counts);
    }
}

/// The run of a seed.
pub struct NodeTrial<'a, S: Contender> {
    contender: &'a S,
    cluster: ContenderCluster<S>,
    /// Time since which there are no faults, and every node should serve.
    calm_from: Instant,
}

impl<'a, S> OnNodes<'a, S> {
    /// With engines on FPGA cards, and one switch.
    pub const fn new(contender: &'a S) -> Self {
        Self { contender, network: NetworkProfile::SWITCH, profile: CostProfile::FPGA }
    }
}

impl<'a, S: Contender> Subject for OnNodes<'a, S> {
    type Trial = NodeTrial<'a, S>;
    type Figures = NodeFigures;
    type About = ();

    fn times(&self, _: &Campaign) -> Times {
        Times { lease: S::SERVES_BY_LEASES.then_some(LEASE), ..NODE_TIMES }
    }

    fn figures(&self, _: &Campaign) -> NodeFigures {
        NodeFigures { network: self.network.name, profile: self.profile.name, counts: BTreeMap::new() }
    }

    fn about(&self, _: &Campaign, _: u64) {}

    fn plan(&self, runs: &Campaign, seed: u64) -> FaultPlan {
        let machines = self.contender.campaign_clients(runs.nodes, seed).len();
        let failing = self.contender.failing_nodes(runs.nodes, seed);
        runs.plan_among(seed, |node| failing.contains(&node), machines, NODE_TIMES.faults)
    }

    fn trial(&self, runs: &Campaign, seed: u64, plan: &FaultPlan) -> Result<NodeTrial<'a, S>, PlanError> {
        let Self { contender, network, profile } = *self;
        let parameters = ShippedParameters {
            nodes: runs.nodes,
            seed,
            engines: contender.assembly(runs.nodes, CAMPAIGN_CLIENTS),
            network,
            profile,
            lease: LEASE,
            drift_ppm: DRIFT_PPM,
            planted: runs.planted,
        };
        let cluster = Cluster::shipped(parameters, plan, contender.campaign_clients(runs.nodes, seed))?;
        Ok(NodeTrial { contender, cluster, calm_from: Instant::FAR_FUTURE })
    }

    fn holds(&self) -> &'static str {
        S::HOLDS
    }
}

impl<S: Contender> Trial for NodeTrial<'_, S> {
    type Nodes = ShippedNodes<ClosedLoops<S::Caller>, S::Assembly>;
    type Figures = NodeFigures;

    fn cluster(&self) -> &Cluster<Self::Nodes> {
        &self.cluster
    }

    fn run_until(&mut self, until: Instant) {
        self.cluster.run_until(until);
    }

    fn begin(&mut self, _: Instant) {
        self.cluster.for_each_driver(|now, clients| clients.begin(now, Duration::ZERO));
    }

    /// A fault at the very end shows in the nodes a little later.
    fn faults_are_over(&mut self) -> Instant {
        let end = self.now();
        self.run_for(NODE_TIMES.step);
        end
    }

    fn settle(&mut self, faults_end: Instant, wrong: &mut Vec<String>) {
        self.calm_from = faults_end + LIVE_WITHIN;
        self.run_until(self.calm_from + CALM);
        self.cluster.for_each_driver(|_, clients| clients.finish());
        self.run_for(LIVE_WITHIN);
        if !self.cluster.drivers().all(|(_, clients)| clients.is_idle()) {
            wrong.push("some calls were not answered although all faults were over".to_owned());
        }
    }

    fn judge(self, figures: &mut NodeFigures, wrong: &mut Vec<String>) {
        wrong.extend(self.contender.judge_campaign(&self.cluster, self.calm_from, &mut figures.counts));
    }
}
