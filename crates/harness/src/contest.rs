//! Engines of any type under the same load, on the same network.
//!
//! [`Contest::run`] measures a [`Contender`] on the shipped node, with closed loops of clients on a machine of
//! their own. Nothing in here knows an engine.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_results::histogram::{Latencies, Summary};
use weft_results::{Check, Machine, MeasuredRun, WorkloadDescription, World};
use weft_sim::{CostProfile, FaultPlan, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};
use weft_workload::Random;

use crate::contender::PAUSE_AFTER_FAILURE;
use crate::{
    Assemble, Caller, Campaign, CampaignResult, ClosedLoops, Cluster, ClusterOf, Contender, ContenderCluster,
    DRIFT_PPM, LEASE, NodeFigures, OnNodes, Pace, Planted, ShippedParameters, faults_of,
};

/// A client makes its next call as soon as the previous one has ended, with a pause only after a failed call.
const PACE: Pace = Pace { longest: None, after_failure: PAUSE_AFTER_FAILURE };
/// Time at which clients begin; the cluster serves by then.
pub const CLIENTS_BEGIN: Duration = Duration::from_ms(20);
/// Time-out: every call must end within this time after the last call has begun.
const CALLS_END_WITHIN: Duration = Duration::from_ms(100);
/// Interval at which a run checks whether all calls have ended.
const STEP: Duration = Duration::from_us(500);
/// Time after the last call within which its changes reach every node.
const SETTLE: Duration = Duration::from_ms(2);

/// The number of clients and the mix of their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Number of clients, each with one outstanding call.
    pub clients: u32,
    /// Updates in percent; the other calls are reads.
    pub updates: u8,
}

/// Parameters of a measurement that are the same for all contenders.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Nodes of each cluster.
    pub nodes: usize,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Cost profile of the nodes.
    pub profile: CostProfile,
    /// Faults; clients begin at [`CLIENTS_BEGIN`].
    pub plan: FaultPlan,
    /// Time of the measurement.
    pub length: Duration,
    /// Length of the warm-up before the measurement. Calls that begin in it are not measured.
    pub warm_up: Duration,
    /// Seed of everything random in the run.
    pub seed: u64,
}

/// Measurements of a contender at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Number of clients, each with one outstanding call.
    pub clients: u32,
    /// Completed calls per second.
    pub throughput_ops_per_s: f64,
    /// Latency of these calls, from the start of the call to the answer.
    pub latency: Summary,
    /// Calls that were refused or have timed out. They count in no other figure.
    pub failed: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Verdict of the check.
    pub checked: &'static str,
    /// Violations, in words.
    pub violations: Vec<String>,
    /// Hash of the event log of the run.
    pub log_hash: String,
    /// The full histogram of latencies.
    #[serde(skip)]
    pub latencies: Latencies,
}

impl Contest {
    /// A measurement without faults and warm-up, on a network with one switch, with engines on FPGA cards.
    pub fn new(nodes: usize, length: Duration, seed: u64) -> Self {
        Self {
            nodes,
            network: NetworkProfile::SWITCH,
            profile: CostProfile::FPGA,
            plan: FaultPlan::default(),
            length,
            warm_up: Duration::ZERO,
            seed,
        }
    }

    /// Runs a cluster for the warm-up and the length of the measurement, then lets its clients begin nothing new.
    /// Returns the cluster; calls may still be outstanding.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    ///
    /// # Panics
    /// If a cluster without faults does not serve when the clients begin.
    fn measure<C: Caller, A: Assemble>(
        &self,
        engines: A,
        clients: ClosedLoops<C>,
    ) -> Result<ClusterOf<C, A>, PlanError> {
        let parameters = ShippedParameters {
            nodes: self.nodes,
            seed: self.seed,
            engines,
            network: self.network,
            profile: self.profile,
            lease: LEASE,
            drift_ppm: DRIFT_PPM,
            planted: Planted::default(),
        };
        let mut cluster = Cluster::shipped(parameters, &self.plan, vec![clients])?;
        cluster.run_until(Instant::ZERO + CLIENTS_BEGIN);
        let is_faulty = !self.plan.faults.is_empty();
        assert!(is_faulty || cluster.is_whole(), "a cluster without faults serves after {CLIENTS_BEGIN}");
        cluster.for_each_driver(|now, clients| clients.begin(now, self.warm_up));
        cluster.run_until(cluster.world.now() + self.warm_up + self.length);
        cluster.for_each_driver(|_, clients| clients.finish());
        Ok(cluster)
    }

    /// Time by which all calls must have ended, in a cluster whose clients begin nothing new from now on.
    fn calls_end_at<C: Caller, A: Assemble>(&self, cluster: &ClusterOf<C, A>) -> Instant {
        self.plan.ends_at().max(cluster.world.now()) + CALLS_END_WITHIN
    }

    /// Measures the clients of a workload until all calls have ended, then calls `check` with the cluster.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn measure_workload<C: Caller, A: Assemble>(
        &self,
        workload: WorkloadDescription,
        engines: A,
        clients: ClosedLoops<C>,
        check: impl FnOnce(&ClusterOf<C, A>) -> Check,
    ) -> Result<MeasuredRun, PlanError> {
        let mut cluster = self.measure(engines, clients)?;
        cluster.run_until(self.calls_end_at(&cluster));
        let (_, clients) = cluster.drivers().next().expect("clients do not crash");
        let basis = format!("cost profile `{}`: {}", self.profile.name, self.profile.basis);
        let machine = Machine::simulated(self.network.name, basis);
        let description = workload.of_run(World::Sim, machine, self.nodes, self.seed);
        let mut run = MeasuredRun::new(description, clients.recorder(), check(&cluster));
        run.result.log_hash = Some(cluster.world.log_hash().to_string());
        run.result.faults = faults_of(&cluster.world);
        Ok(run)
    }

    /// Measures a contender under a load.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    ///
    /// # Panics
    /// If the number of nodes is not one that the engine takes, there is no client, the length is zero, or the engine
    /// copies from host memory (transactions do) and the cost profile has no DMA queues.
    pub fn run<T: Contender>(&self, contender: &T, load: Load) -> Result<Standing, PlanError> {
        assert!(load.clients > 0, "a measurement needs a client");
        assert!(load.updates <= 100, "{} is not a percentage", load.updates);
        assert!(self.length > Duration::ZERO, "a measurement needs a length");
        let clients = (0..load.clients).map(|number| contender.client(number, self.nodes));
        let clients = ClosedLoops::new(clients, load.updates, PACE, Random::new(self.seed, 0));
        let mut cluster = self.measure(contender.assembly(self.nodes, load.clients), clients)?;
        let until = self.calls_end_at(&cluster);
        let is_idle = |cluster: &ContenderCluster<T>| cluster.drivers().all(|(_, clients)| clients.is_idle());
        cluster.run_until(self.plan.ends_at().max(cluster.world.now()));
        while !is_idle(&cluster) && cluster.world.now() < until {
            cluster.run_until(cluster.world.now() + STEP);
        }
        // After faults, nodes may have to rejoin first.
        cluster.run_until(if self.plan.faults.is_empty() { cluster.world.now() + SETTLE } else { until });
        let mut violations = contender.judge(&cluster);
        let (_, clients) = cluster.drivers().next().expect("clients do not crash");
        if !clients.is_idle() {
            violations.push(format!("a call has not ended {CALLS_END_WITHIN} after the last one was begun"));
        }
        let recorder = clients.recorder();
        if recorder.operations() == 0 {
            violations.push("no call was answered while the measurement lasted".to_owned());
        }
        Ok(Standing {
            clients: load.clients,
            throughput_ops_per_s: recorder.operations() as f64 / self.length.as_secs_f64(),
            latency: recorder.overall().summary(),
            failed: recorder.by_kind().map(|(_, _, failed)| failed).sum(),
            faults: faults_of(&cluster.world),
            checked: if violations.is_empty() { T::HOLDS } else { "violation" },
            violations,
            log_hash: cluster.world.log_hash().to_string(),
            latencies: recorder.overall(),
        })
    }
}

/// A contender behind a trait object.
pub trait AnyContender {
    /// See [`Contest::run`].
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    fn measure(&self, contest: &Contest, load: Load) -> Result<Standing, PlanError>;

    /// Runs a fault campaign of the contender's clients on this network and these cards: see [`Campaign::run`].
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    fn campaign(
        &self,
        runs: &Campaign,
        ground: (NetworkProfile, CostProfile),
        replay: &dyn Fn(u64) -> String,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CampaignResult<NodeFigures>, PlanError>;
}

impl<T: Contender> AnyContender for T {
    fn measure(&self, contest: &Contest, load: Load) -> Result<Standing, PlanError> {
        contest.run(self, load)
    }

    fn campaign(
        &self,
        runs: &Campaign,
        ground: (NetworkProfile, CostProfile),
        replay: &dyn Fn(u64) -> String,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CampaignResult<NodeFigures>, PlanError> {
        let (network, profile) = ground;
        runs.run(&OnNodes { contender: self, network, profile }, replay, progress)
    }
}
