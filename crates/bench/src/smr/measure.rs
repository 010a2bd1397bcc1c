//! Measures the latency of appends, and the time until another node leads after a crash of the leader.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_harness::activity::{Activity, node_state};
use weft_harness::{Planted, faults_of};
use weft_results::NodeState;
use weft_results::histogram::Latencies;
use weft_sim::{CostProfile, Fault, FaultPlan, NetworkProfile, PlanError};
use weft_smr::log::LogParameters;
use weft_time::{Duration, Instant};

use super::DRIFT_PPM;
use super::cluster::{Cluster, ClusterParameters};
use super::host::ClientLoad;

/// Time of the earliest crash. Each run adds another delay.
const CRASH_AFTER: Duration = Duration::from_us(400);

/// Number of periods after which a heartbeat's READ counts as missed, if frames cross PCIe before software handles
/// them: with two crossings at each end, a READ takes longer than the default patience.
const PATIENCE_OVER_PCIE: u8 = 24;

/// Interval at which the activity is recorded.
const LOOK: Duration = Duration::from_us(10);

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct SmrBench {
    /// Nodes, 2 to 8.
    pub nodes: usize,
    /// Outstanding appends at the leader.
    pub outstanding: usize,
    /// The network between the cards.
    pub network: NetworkProfile,
    /// Cost profile of cards and hosts.
    pub profile: CostProfile,
    /// Faults while appends are measured. Their times count from the start of the run.
    pub plan: FaultPlan,
    /// Duration of the measurement of appends.
    pub length: Duration,
    /// Number of leaders to crash, each in a separate run.
    pub crashes: u64,
    /// Seed of the first run.
    pub seed: u64,
}

/// Times of the phases of one fail-over, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailOver {
    /// From the crash until the next leader suspects the crashed one and requests permissions.
    pub detected_ns: u64,
    /// From the request for permissions until a majority has revoked the old permission, granted the new one
    /// and acknowledged this.
    pub permission_ns: u64,
    /// From the acknowledgements of a majority until the new leader has read all entries that may be decided,
    /// and leads.
    pub takeover_ns: u64,
    /// From the start of its leadership until its first entry is decided, applied and answered.
    pub first_commit_ns: u64,
    /// The sum of these times.
    pub total_ns: u64,
}

/// Results of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmrResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Name of the cost profile.
    pub profile: &'static str,
    /// Name of the network.
    pub network: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// Outstanding appends at the leader.
    pub outstanding: usize,
    /// The seed of the first run.
    pub seed: u64,
    /// Faults injected while appends were measured, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Appends that were answered.
    pub appends: u64,
    /// Answered appends per second.
    pub appends_per_s: f64,
    /// Latency of an append, from the request to the answer, in nanoseconds.
    pub latency_ns: Quantiles,
    /// The full histogram of these latencies.
    #[serde(skip)]
    pub latencies: Latencies,
    /// Appends over time.
    #[serde(skip)]
    pub activity: Activity,
    /// Times of each fail-over, in the order of the seeds.
    pub fail_overs: Vec<FailOver>,
    /// Quantiles of the total times of the fail-overs.
    pub fail_over_ns: Quantiles,
    /// Quantiles of the times from the request for permissions to a majority of grants.
    pub permission_switch_ns: Quantiles,
    /// `linearizable`, or the violations.
    pub checked: String,
}

/// Quantiles of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// The minimum.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

impl Quantiles {
    pub(crate) fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let Some(last) = values.len().checked_sub(1) else { return Self::default() };
        let at = |per_cent: usize| values[(values.len() * per_cent).div_ceil(100).clamp(1, last + 1) - 1];
        Self { min: values[0], p50: at(50), p99: at(99), max: values[last] }
    }
}

impl SmrBench {
    fn cluster(&self, seed: u64, plan: FaultPlan) -> Result<Cluster, PlanError> {
        let mut log = LogParameters::default().with_nodes(self.nodes);
        if self.profile.wire_bus.is_some() {
            log.pulse.patience = PATIENCE_OVER_PCIE;
        }
        Cluster::new(&ClusterParameters {
            log,
            network: self.network,
            profile: self.profile,
            drift_ppm: DRIFT_PPM,
            load: ClientLoad { clients: self.nodes, outstanding: self.outstanding, roaming: false },
            service: None,
            planted: Planted::default(),
            seed,
            plan,
        })
    }

    /// Runs the measurement. `progress` is called with the number of runs done.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn run(&self, mut progress: impl FnMut(u64)) -> Result<SmrResult, PlanError> {
        let mut cluster = self.cluster(self.seed, self.plan.clone())?;
        let warm = Instant::ZERO + Duration::from_us(100);
        cluster.machines.run_until(warm);
        let before = {
            let mut books = cluster.books.borrow_mut();
            books.latencies = Latencies::new();
            books.answered
        };
        let mut activity = Activity::new(self.nodes, LOOK, &self.plan);
        while cluster.machines.now() < warm + self.length {
            cluster.machines.run_until((cluster.machines.now() + LOOK).min(warm + self.length));
            let books = cluster.books.borrow();
            activity.look(cluster.machines.now(), books.answered, |node| match cluster.machines.node(node) {
                Some(_) => node_state(books.states[node]),
                None => NodeState::Down,
            });
        }
        progress(1);
        let faults = faults_of(&cluster.machines.world);
        let (appends, latencies) = {
            let books = cluster.books.borrow();
            (books.answered - before, books.latencies.clone())
        };
        let mut violations = cluster.drained();
        let quantile = |q| latencies.at_quantile(q);
        let latency_ns =
            Quantiles { min: quantile(0.0), p50: quantile(0.5), p99: quantile(0.99), max: quantile(1.0) };
        let mut fail_overs = Vec::new();
        for number in 0..self.crashes {
            let seed = self.seed.wrapping_add(number);
            let (fail_over, mut wrong) = self.fail_over(seed, number);
            fail_overs.extend(fail_over);
            violations.append(&mut wrong);
            progress(2 + number);
        }
        let quantiles = |of: fn(&FailOver) -> u64| Quantiles::of(fail_overs.iter().map(of).collect());
        Ok(SmrResult {
            world: "sim",
            profile: self.profile.name,
            network: self.network.name,
            nodes: self.nodes,
            outstanding: self.outstanding,
            seed: self.seed,
            appends,
            appends_per_s: appends as f64 / self.length.as_secs_f64(),
            latency_ns,
            latencies,
            activity,
            faults,
            fail_over_ns: quantiles(|fail_over| fail_over.total_ns),
            permission_switch_ns: quantiles(|fail_over| fail_over.permission_ns),
            fail_overs,
            checked: if violations.is_empty() { "linearizable".to_owned() } else { violations.join("; ") },
        })
    }

    /// Crashes the leader, and measures the take-over by the next leader.
    fn fail_over(&self, seed: u64, number: u64) -> (Option<FailOver>, Vec<String>) {
        // The delay must not be a multiple of the heartbeat period or of the load's period.
        let at_us = CRASH_AFTER.as_ns() / 1_000 + number * 7;
        let crash = Fault::Crash { at_us, machine: "node0".to_owned() };
        let mut cluster =
            self.cluster(seed, FaultPlan { faults: vec![crash] }).expect("there is a first node");
        let crashed = Instant::ZERO + Duration::from_us(at_us);
        cluster.machines.run_until(crashed);
        let crashed_locally = cluster.machines.local_now(1);
        cluster.machines.run_until(crashed + Duration::from_us(1_000));
        let mut wrong = cluster.drained();
        let books = cluster.books.borrow();
        let timeline = cluster.log(1).map(|log| log.group().timeline());
        let (Some(timeline), Some(first)) = (timeline, books.first_answer_at[1]) else {
            wrong.push(format!("seed {seed}: no node leads after the crash"));
            return (None, wrong);
        };
        let between = |from: Instant, to: Instant| to.saturating_since(from).as_ns();
        let fail_over = FailOver {
            detected_ns: between(crashed_locally, timeline.asked),
            permission_ns: between(timeline.asked, timeline.granted),
            takeover_ns: between(timeline.granted, timeline.leading),
            first_commit_ns: between(timeline.leading, first),
            total_ns: between(crashed_locally, first),
        };
        (Some(fail_over), wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(nodes: usize, profile: CostProfile) -> SmrBench {
        SmrBench {
            nodes,
            outstanding: 4,
            network: NetworkProfile::DETPU,
            profile,
            plan: FaultPlan::default(),
            length: Duration::from_us(300),
            crashes: 5,
            seed: 1,
        }
    }

    #[test]
    fn another_node_leads_in_every_profile() {
        for profile in [CostProfile::FPGA, CostProfile::CORES, CostProfile::HOST_CARD] {
            let result = bench(3, profile).run(|_| {}).unwrap();
            assert_eq!(result.checked, "linearizable", "{}", profile.name);
            assert!(result.appends > 10 && result.fail_overs.len() == 5, "{}: {result:?}", profile.name);
        }
    }

    #[test]
    fn another_node_leads_within_fifty_microseconds() {
        for nodes in [3, 5, 8] {
            let result = bench(nodes, CostProfile::FPGA_APPLICATION).run(|_| {}).unwrap();
            assert_eq!(result.checked, "linearizable");
            assert_eq!(result.fail_overs.len(), 5);
            assert!(result.appends > 100, "{result:?}");
            assert!(result.fail_over_ns.max < 50_000, "{nodes} nodes: {result:?}");
        }
    }
}
