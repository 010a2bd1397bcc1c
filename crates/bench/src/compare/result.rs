//! The result of a comparison, as JSON and as text.

use serde::Serialize;
use weft_harness::Standing;
use weft_results::table::{Table, grouped, microseconds, with_prefix};

use super::{CompareBench, EngineName};

/// The semantics of an engine's calls, which the figures of engines do not share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Basis {
    /// The engine.
    pub engine: &'static str,
    /// The call that updates.
    pub update: String,
    /// Replicas that have an update when it is answered.
    pub acknowledged_by: &'static str,
    /// Consistency of a read.
    pub reads: &'static str,
    /// The property that holds in all runs of the engine, or `violation`.
    pub checked: &'static str,
    /// Violations, as text.
    pub violations: Vec<String>,
}

/// Results of an engine at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The engine.
    pub engine: String,
    /// Number of clients, each with one outstanding call.
    pub clients: u32,
    /// Completed calls per second.
    pub throughput_ops_per_s: f64,
    /// Mean latency of these calls.
    pub mean_ns: f64,
    /// Median latency of these calls.
    pub p50_ns: u64,
    /// 99th percentile of their latencies.
    pub p99_ns: u64,
    /// 99.9th percentile of their latencies.
    pub p999_ns: u64,
    /// Their maximum latency.
    pub max_ns: u64,
    /// Calls measured.
    pub operations: u64,
    /// Calls that were refused or timed out.
    pub failed: u64,
    /// Faults injected.
    pub faults: u64,
    /// Hash of the event log of the run.
    pub log_hash: String,
}

impl Point {
    /// The point of an engine with this name.
    pub fn new(engine: &str, standing: &Standing) -> Self {
        let latency = standing.latency;
        Self {
            engine: engine.to_owned(),
            clients: standing.clients,
            throughput_ops_per_s: standing.throughput_ops_per_s,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p99_ns: latency.p99_ns,
            p999_ns: latency.p999_ns,
            max_ns: latency.max_ns,
            operations: latency.operations,
            failed: standing.failed,
            faults: standing.faults.values().sum(),
            log_hash: standing.log_hash.clone(),
        }
    }
}

/// Results of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// Network between the machines.
    pub network: &'static str,
    /// Cost profile of the nodes.
    pub profile: &'static str,
    /// Nodes of each cluster.
    pub nodes: usize,
    /// Share of updates in percent; the other calls are reads.
    pub updates_percent: u8,
    /// Number of faults in the plan, which is the same for all engines.
    pub planned_faults: usize,
    /// Seed of each run.
    pub seed: u64,
    /// Virtual time of each measurement.
    pub measured_ns: u64,
    /// The semantics of each engine's calls.
    pub engines: Vec<Basis>,
    /// Results of each engine at each load.
    pub points: Vec<Point>,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// The command that repeats the comparison.
    pub replay: String,
}

impl Comparison {
    pub(super) fn new(
        bench: &CompareBench,
        measured: &[(EngineName, Vec<Standing>)],
        replay: String,
    ) -> Self {
        let basis = |(engine, standings): &(EngineName, Vec<Standing>)| Basis {
            engine: engine.name(),
            update: engine.update(bench.value_bytes),
            acknowledged_by: engine.acknowledged(),
            reads: engine.reads().unwrap_or("none"),
            checked: standings
                .iter()
                .map(|standing| standing.checked)
                .reduce(|all, one| if one == "violation" { one } else { all })
                .unwrap_or("not checked"),
            violations: standings.iter().flat_map(|standing| standing.violations.clone()).collect(),
        };
        let engines: Vec<_> = measured.iter().map(basis).collect();
        let points = measured
            .iter()
            .flat_map(|(engine, standings)| standings.iter().map(|it| Point::new(engine.name(), it)));
        let contest = &bench.contest;
        Self {
            world: "sim",
            network: contest.network.name,
            profile: contest.profile.name,
            nodes: contest.nodes,
            updates_percent: bench.updates,
            planned_faults: contest.plan.faults.len(),
            seed: contest.seed,
            measured_ns: contest.length.as_ns(),
            points: points.collect(),
            checked: if engines.iter().all(|basis| basis.violations.is_empty()) {
                "holds"
            } else {
                "violation"
            },
            engines,
            replay,
        }
    }

    /// The result as text.
    pub fn to_text(&self) -> String {
        let bases = Table::of(&self.engines)
            .words("engine", |basis| basis.engine)
            .words("update", |basis| basis.update.clone())
            .words("acknowledged by", |basis| basis.acknowledged_by)
            .words("read", |basis| {
                if self.updates_percent == 100 { "–".to_owned() } else { basis.reads.to_owned() }
            })
            .words("checked", |basis| basis.checked);
        let points = Table::of(&self.points)
            .words("engine", |point| point.engine.clone())
            .numbers("clients", "", |point| grouped(point.clients.into()))
            .numbers("throughput", "ops/s", |point| with_prefix(point.throughput_ops_per_s))
            .numbers("p50", "µs", |point| microseconds(point.p50_ns))
            .numbers("p99", "µs", |point| microseconds(point.p99_ns))
            .numbers("p99.9", "µs", |point| microseconds(point.p999_ns))
            .numbers("failed", "", |point| grouped(point.failed))
            .numbers("faults", "", |point| grouped(point.faults));
        let violations = self.engines.iter().flat_map(|basis| {
            basis.violations.iter().map(|violation| format!("\n{}: {violation}\n", basis.engine))
        });
        format!(
            "{bases}\n{points}\n  same for all  {} nodes, network {}, profile {}, {} % updates, {} planned faults, seed {}\n  \
             clients     on a machine of their own, one call under way each; times are virtual\n  repeat      {}\n{}",
            self.nodes,
            self.network,
            self.profile,
            self.updates_percent,
            self.planned_faults,
            self.seed,
            self.replay,
            violations.collect::<String>(),
        )
    }
}
