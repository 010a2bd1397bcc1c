//! The result of a measurement of replicated data types, as JSON and as text.

use serde::Serialize;
use weft_results::table::{Column, Table, faults_line, grouped, three_digits, time_with_unit};
use weft_sim::{CostProfile, FaultPlan, PlanError};

use super::measure::{Measured, RdtBench};
use super::system::{Callers, Commit, Configuration, System};

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RdtResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// The data type.
    #[serde(rename = "type")]
    pub name: &'static str,
    /// `crdt`, `wrdt` or `keyed`.
    pub class: &'static str,
    /// Where engines and applications run.
    pub system: System,
    /// How calls reach the objects.
    pub configuration: Configuration,
    /// When a call without conflicts is answered.
    pub commit: Commit,
    /// Which clients make which calls.
    pub callers: Callers,
    /// The guarantee that an answer gives.
    pub promises: &'static str,
    /// Basis of the times.
    pub basis: String,
    /// Replicas, each with a client.
    pub nodes: u32,
    /// Percentage of the operations that call a method.
    pub updates_percent: u8,
    /// Number of operations requested.
    pub operations: u64,
    /// Outstanding operations of a client.
    pub outstanding: usize,
    /// Records or accounts, if the type has keys.
    pub keys: Option<usize>,
    /// Zipf skew of the keys.
    pub skew: Option<f64>,
    /// Network between the cards.
    pub network: &'static str,
    /// Cost profile of the cards.
    pub profile: &'static str,
    /// Seed of operations and delays.
    pub seed: u64,
    /// Measurements.
    #[serde(flatten)]
    pub measured: Measured,
    /// `holds`, or `violation`.
    pub checked: &'static str,
    /// Wall-clock time of the simulation, in seconds.
    pub wall_s: f64,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl RdtBench {
    /// Runs the measurement with the faults of the plan, whose times count from when all clients have begun.
    /// `progress` is called with the number of operations answered so far.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    ///
    /// # Panics
    /// If there are faults and the system has one log for all operations.
    pub fn run(
        &self,
        plan: &FaultPlan,
        replay: String,
        progress: impl FnMut(u64),
    ) -> Result<RdtResult, PlanError> {
        let begin = std::time::Instant::now();
        let measured = match plan.faults.is_empty() {
            true => self.measure(progress),
            false => self.measure_under(plan, progress)?,
        };
        let profile = match self.system {
            System::Weft | System::WeftLog => self.card.profile(),
            System::Waverunner => self.card.behind_bus(),
            System::Hamband => &CostProfile::RDMA_CARD,
        };
        let keyed = self.name.class() == "keyed";
        Ok(RdtResult {
            world: "sim",
            name: self.name.name(),
            class: self.name.class(),
            system: self.system,
            configuration: self.configuration,
            commit: self.commit,
            callers: self.callers,
            promises: self.system.promises(self.commit),
            basis: format!("cost profile `{}`: {}", profile.name, profile.basis),
            nodes: self.nodes as u32,
            updates_percent: self.updates,
            operations: self.operations,
            outstanding: self.outstanding,
            keys: keyed.then_some(self.keys),
            skew: keyed.then_some(self.skew),
            network: self.network().name,
            profile: profile.name,
            seed: self.seed,
            checked: if measured.holds() { "holds" } else { "violation" },
            measured,
            wall_s: begin.elapsed().as_secs_f64(),
            replay,
        })
    }
}

impl RdtResult {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let measured = &self.measured;
        let mut table = Table::new([
            Column::words("operations"),
            Column::numbers("count", ""),
            Column::numbers("mean", "ns"),
            Column::numbers("p50", "ns"),
            Column::numbers("p99", "ns"),
            Column::numbers("longest", "ns"),
        ]);
        let mut row = |name: String, summary: &weft_results::histogram::Summary| {
            table.row([
                name,
                grouped(summary.operations),
                three_digits(summary.mean_ns),
                grouped(summary.p50_ns),
                grouped(summary.p99_ns),
                grouped(summary.max_ns),
            ]);
        };
        row("all".into(), &measured.response);
        row("queries".into(), &measured.queries);
        row("updates".into(), &measured.updates);
        for method in &measured.methods {
            row(format!("  {} ({})", method.method, method.category.name()), &method.response);
        }
        if let (Some(leaders), Some(followers)) = (&measured.leaders, &measured.followers) {
            row("at leaders".into(), leaders);
            row("at followers".into(), followers);
        }
        let mut text = format!(
            "{table}\n  type        {} ({}), {} nodes, {} % updates, of which {} % refused\n  \
             system      {}, configuration {}, commit {}, callers {}, {} open per client, network {}\n  \
             throughput  {} operations/µs by the replica that takes longest, {} by the sum of all\n  \
             promises    {}\n{}  checked     {}: {} calls, {} queries, {} steps of replicas\n  took        {} virtual, {} s\n  card        {}\n  log hash    {}\n  repeat      {}\n",
            self.name,
            self.class,
            self.nodes,
            self.updates_percent,
            three_digits(measured.refused_percent),
            self.system,
            self.configuration,
            self.commit,
            self.callers,
            self.outstanding,
            self.network,
            three_digits(measured.operations_per_us),
            three_digits(measured.operations_per_us_sum),
            self.promises,
            faults_line(
                &measured.faults,
                &format!("{} calls unanswered", grouped(measured.check.unanswered))
            ),
            self.checked,
            grouped(measured.check.calls),
            grouped(measured.check.queries),
            grouped(measured.check.steps),
            time_with_unit(measured.virtual_ns),
            three_digits(self.wall_s),
            self.basis,
            measured.log_hash,
            self.replay
        );
        for wrong in measured.findings() {
            text += &format!("\n  wrong: {wrong}");
        }
        text
    }
}
