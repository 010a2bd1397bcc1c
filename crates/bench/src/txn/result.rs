//! Results of a measurement of transactions, as JSON and as text.

use serde::Serialize;
use weft_results::table::{
    Table, faults_line, grouped, microseconds, three_digits, time_with_unit, with_prefix,
};
use weft_sim::{FaultPlan, PlanError};

use super::measure::{Measured, TxnBench};
use super::system::System;

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TxnResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// The workload.
    pub workload: &'static str,
    /// Size of the workload.
    pub scale: String,
    /// Unit of the throughput: `tx/s` if all transactions count, `new orders/s` if only new orders count.
    pub throughput_unit: &'static str,
    /// The system.
    pub system: System,
    /// Basis of the times.
    pub basis: String,
    /// Servers, each with a shard and clients.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replication: usize,
    /// Threads of the program on each host.
    pub host_threads: u32,
    /// Cores of the NIC that run the engine; null if it runs on the host.
    pub nic_cores: Option<u32>,
    /// Network between the servers.
    pub network: &'static str,
    /// Cost profile of the NIC.
    pub profile: &'static str,
    /// Rate of each server's link.
    pub link_bits_per_s: u64,
    /// Features of the design that are disabled (ablation).
    pub without: Vec<&'static str>,
    /// Seed of the transactions and their order.
    pub seed: u64,
    /// Measurements.
    #[serde(flatten)]
    pub measured: Measured,
    /// `holds`, `violation`, or `not checked` for strict serializability.
    pub checked: &'static str,
    /// Wall-clock time of loading, simulation and check, in seconds.
    pub wall_s: f64,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl TxnBench {
    /// Runs the measurement under the faults of a plan, without the plan's crashes. `progress` is called with
    /// the number of finished transactions.
    ///
    /// # Errors
    /// The plan does not fit the cluster.
    pub fn run(
        &self,
        plan: &FaultPlan,
        replay: String,
        progress: impl FnMut(u64),
    ) -> Result<TxnResult, PlanError> {
        let begin = std::time::Instant::now();
        let measured = self.measure_under(plan, progress)?;
        let profile = self.nic_profile();
        Ok(TxnResult {
            world: "sim",
            workload: self.workload.name(),
            scale: self.workload.scale(),
            throughput_unit: self.workload.unit(),
            system: self.system,
            basis: format!("cost profile `{}`: {}", profile.name, profile.basis),
            nodes: self.nodes,
            replication: self.replication,
            host_threads: self.threads(),
            nic_cores: self.cores(),
            network: self.network.name,
            profile: profile.name,
            link_bits_per_s: self.link_bits_per_s,
            without: self.without.iter().map(|part| part.name()).collect(),
            seed: self.seed,
            checked: match (measured.holds(), &measured.check) {
                (false, _) => "violation",
                (true, Some(_)) => "holds",
                (true, None) => "not checked",
            },
            measured,
            wall_s: begin.elapsed().as_secs_f64(),
            replay,
        })
    }
}

impl TxnResult {
    /// The result as text.
    pub fn to_text(&self) -> String {
        let measured = &self.measured;
        let table = Table::of(&measured.points)
            .numbers("open", "", |point| grouped(point.outstanding as u64))
            .numbers("throughput", &format!("{}/server", self.throughput_unit), |point| {
                with_prefix(point.throughput_per_server)
            })
            .numbers("p50", "µs", |point| microseconds(point.latency.p50_ns))
            .numbers("p99", "µs", |point| microseconds(point.latency.p99_ns))
            .numbers("retried", "%", |point| three_digits(point.attempts_lost_percent))
            .numbers("bytes", "/tx", |point| three_digits(point.bytes_per_transaction))
            .numbers("frames", "/tx", |point| three_digits(point.frames_per_transaction))
            .numbers("messages", "/tx", |point| three_digits(point.messages_per_transaction))
            .numbers("DMA", "/tx", |point| three_digits(point.dma_per_transaction))
            .numbers("vector", "", |point| three_digits(point.dma_vector))
            .numbers("link", "%", |point| three_digits(point.link_percent))
            .numbers("NIC", "%", |point| three_digits(point.nic_percent))
            .numbers("host", "%", |point| three_digits(point.host_percent));
        let kinds = Table::of(measured.points.last().iter().flat_map(|point| &point.kinds))
            .words("at the highest load", |kind| kind.kind)
            .numbers("committed", "", |kind| grouped(kind.committed))
            .numbers("given up", "", |kind| grouped(kind.aborted))
            .numbers("p50", "µs", |kind| microseconds(kind.latency.p50_ns))
            .numbers("p99", "µs", |kind| microseconds(kind.latency.p99_ns));
        let virtual_ns = measured.points.iter().map(|point| point.virtual_ns).sum();
        let without = match &self.without[..] {
            [] => String::new(),
            parts => format!(", without {}", parts.join(", ")),
        };
        let checked = match &measured.check {
            Some(report) => format!("{}: {} transactions", self.checked, grouped(report.transactions)),
            None => self.checked.to_string(),
        };
        let faults = faults_line(&measured.faults, "");
        let mut text = format!(
            "{table}\n{kinds}\n  workload    {}: {}, {} servers, {} replicas\n  system      {}, {}{} host threads, link {}b/s{without}\n  \
             peak        {} {} per server; median {} µs at the lowest load\n{faults}  checked     {checked}\n  took        {} virtual, {} s\n  \
             card        {}\n  log hash    {}\n  repeat      {}\n",
            self.workload,
            self.scale,
            self.nodes,
            self.replication,
            self.system,
            self.nic_cores.map_or_else(String::new, |cores| format!("{cores} NIC cores, ")),
            self.host_threads,
            with_prefix(self.link_bits_per_s as f64),
            with_prefix(measured.peak_throughput_per_server),
            self.throughput_unit,
            microseconds(measured.median_latency_low_load_ns),
            time_with_unit(virtual_ns),
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
