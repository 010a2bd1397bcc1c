//! Results of a measurement of real processes, as JSON and as text.

use serde::Serialize;
use weft_applications::Workload;
use weft_check::serializable::Report;
use weft_results::histogram::{Latencies, Summary};
use weft_results::table::{Table, grouped, microseconds, time_with_unit, with_prefix};

use super::NetTxnBench;
use super::check::Checked;
use super::clients::ClientRecord;

/// Results of one kind of transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindResult {
    /// Name of the kind.
    pub kind: &'static str,
    /// Committed transactions.
    pub committed: u64,
    /// Transactions that their procedure refused, after their reads were validated.
    pub refused: u64,
    /// Latency from the first call to the last answer, of committed and refused transactions.
    pub latency: Summary,
}

/// Results of a measurement over real processes.
#[derive(Clone, Debug, Serialize)]
pub struct NetTxnResult {
    /// `net`: all times are real.
    pub world: &'static str,
    /// The workload.
    pub workload: &'static str,
    /// Size of each shard.
    pub size: u64,
    /// Processes, each with a shard.
    pub nodes: usize,
    /// Replicas of each shard.
    pub replicas: usize,
    /// Number of clients, each with one outstanding transaction.
    pub clients: u32,
    /// Whether the nodes had their data on disk.
    pub on_disk: bool,
    /// The nodes that were killed at the same time and restarted.
    pub killed: Vec<usize>,
    /// How often.
    pub kills: u32,
    /// Length of the measurement in seconds.
    pub measured_s: f64,
    /// Ended transactions per second: committed, or refused by their procedure.
    pub throughput_ops_per_s: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latencies.
    pub p99_ns: u64,
    /// Latency from the first call to the last answer.
    pub latency: Summary,
    /// Results by kind of transaction.
    pub kinds: Vec<KindResult>,
    /// Calls with an unknown outcome.
    pub unknown: u64,
    /// Calls that no node has begun.
    pub not_begun: u64,
    /// The longest time without an answer to any client, in nanoseconds.
    pub longest_silence_ns: u64,
    /// `strictly serializable`, or `violation`.
    pub checked: &'static str,
    /// Result of the check of all transactions.
    pub check: Report,
    /// Further violations.
    pub wrong: Vec<String>,
    /// Counters of the nodes that were not killed, one line each.
    pub counters: Vec<String>,
    /// Seed of the calls of the clients.
    pub seed: u64,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl NetTxnResult {
    pub(super) fn new(
        bench: &NetTxnBench,
        workload: &dyn Workload,
        told: ClientRecord,
        checked: Checked,
        counters: Vec<String>,
        replay: String,
    ) -> Self {
        let mut all = Latencies::new();
        told.kinds.iter().for_each(|kind| all.merge(&kind.latencies));
        let latency = all.summary();
        let measured_s = told.measured.as_secs_f64();
        let kinds = workload.kinds().iter().zip(&told.kinds).map(|(kind, counted)| KindResult {
            kind,
            committed: counted.committed,
            refused: counted.refused,
            latency: counted.latencies.summary(),
        });
        let holds = !checked.report.is_violated() && checked.wrong.is_empty();
        Self {
            world: "net",
            workload: workload.name(),
            size: bench.size,
            nodes: bench.nodes,
            replicas: bench.replicas,
            clients: bench.clients,
            on_disk: bench.data_dir.is_some(),
            killed: bench.kill.clone(),
            kills: bench.kills,
            measured_s,
            throughput_ops_per_s: latency.operations as f64 / measured_s,
            p50_ns: latency.p50_ns,
            p99_ns: latency.p99_ns,
            latency,
            kinds: kinds.collect(),
            unknown: told.unknown,
            not_begun: told.not_begun,
            longest_silence_ns: told.longest_silence.as_ns(),
            checked: if holds { checked.report.checked() } else { "violation" },
            check: checked.report,
            wrong: checked.wrong,
            counters,
            seed: bench.seed,
            replay,
        }
    }

    /// Whether no violation was found.
    pub fn holds(&self) -> bool {
        self.checked != "violation"
    }

    /// The result as text.
    pub fn to_text(&self) -> String {
        let all = KindResult {
            kind: "all",
            committed: self.kinds.iter().map(|kind| kind.committed).sum(),
            refused: self.kinds.iter().map(|kind| kind.refused).sum(),
            latency: self.latency,
        };
        let table = Table::of(self.kinds.iter().chain([&all]))
            .words("transactions", |kind| kind.kind)
            .numbers("committed", "", |kind| grouped(kind.committed))
            .numbers("refused", "", |kind| grouped(kind.refused))
            .numbers("p50", "µs", |kind| microseconds(kind.latency.p50_ns))
            .numbers("p99", "µs", |kind| microseconds(kind.latency.p99_ns));
        let killed = match &self.killed[..] {
            [] => String::new(),
            [node] => format!("node {node} killed and started again, {}; ", times(self.kills)),
            nodes => {
                format!("{} nodes killed at once and started again, {}; ", nodes.len(), times(self.kills))
            }
        };
        let place = if self.on_disk { "data on disk" } else { "data in memory" };
        let mut text = format!(
            "{table}\n  workload    {} of size {} on each shard, {} processes on loopback, {} replicas, {place}, {} clients\n  \
             throughput  {} transactions/s over {:.1} s\n  faults      {killed}{} calls of unknown outcome, {} not begun; longest \
             silence {}\n  checked     {}: {} transactions of all clients, final state of every replica\n  repeat      {}\n",
            self.workload,
            grouped(self.size),
            self.nodes,
            self.replicas,
            self.clients,
            with_prefix(self.throughput_ops_per_s),
            self.measured_s,
            grouped(self.unknown),
            grouped(self.not_begun),
            time_with_unit(self.longest_silence_ns),
            self.checked,
            grouped(self.check.transactions),
            self.replay
        );
        for wrong in self.check.violations.iter().map(ToString::to_string).chain(self.wrong.clone()) {
            text += &format!("\n  wrong: {wrong}");
        }
        text
    }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}
