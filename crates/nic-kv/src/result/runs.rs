//! Results of the single runs.

use super::*;

/// Cycles of the operations with values of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeRun {
    /// Bytes of the value.
    pub bytes: u32,
    /// A read at a follower.
    pub read: Passage,
    /// A write that followers acknowledge at acceptance into their window.
    pub write: LeaderWrite,
    /// A write that followers acknowledge when it is in memory.
    pub write_after_memory: LeaderWrite,
}

/// A run that keeps a node busy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SaturationRun {
    /// Name of the load.
    pub load: String,
    /// `get` or `put`.
    pub operation: &'static str,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Operations per second that the node's outgoing link can carry: answers, and copies for followers, each
    /// in a frame of its own.
    pub limit_operations_per_s: f64,
    /// Measured throughput as a share of this limit.
    pub fraction_of_limit: f64,
    /// The measured throughput and latencies.
    #[serde(flatten)]
    pub measured: Saturation,
}

impl SaturationRun {
    pub(in super::super) fn new(
        load: &str,
        operation: Operation,
        nodes: usize,
        value_bytes: u32,
        limit: f64,
        measured: Saturation,
    ) -> Self {
        Self {
            load: load.into(),
            operation: if operation == Operation::Get { "get" } else { "put" },
            nodes,
            value_bytes,
            limit_operations_per_s: limit,
            fraction_of_limit: measured.operations_per_s / limit,
            measured,
        }
    }
}

/// Results of a cluster with this number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodesRun {
    /// Number of nodes.
    pub nodes: usize,
    /// A write on idle cards, which followers acknowledge at acceptance.
    pub write: LeaderWrite,
    /// Leader writes under load.
    pub saturation: Option<SaturationRun>,
}

impl NodesRun {
    /// Time of a leader's write with the paper's MACs and without the network: from the request until the
    /// last copy is acknowledged.
    pub(super) fn leader_write_ns(&self, bytes: u32) -> u64 {
        leader_parts(&self.write, bytes).total + self.write.copies_cycles * CYCLE_NS
    }
}

/// A cluster whose links lose frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossRun {
    /// Share of frames that each link loses.
    pub loss_per_link: f64,
    /// Frames lost.
    pub frames_lost: u64,
    /// Operations measured.
    pub operations: u64,
    /// Throughput in operations per second.
    pub throughput_ops_per_s: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latencies.
    pub p99_ns: u64,
    /// Whether the history is linearizable.
    pub checked: Checked,
    /// Acknowledged writes that a later read did not see.
    pub lost_acknowledged_writes: u64,
}

impl LossRun {
    pub(in super::super) fn new(loss: f64, result: &RunResult) -> Self {
        Self {
            loss_per_link: loss,
            frames_lost: result.faults.get("loss").copied().unwrap_or_default(),
            operations: result.operations,
            throughput_ops_per_s: result.throughput_ops_per_s,
            p50_ns: result.p50_ns,
            p99_ns: result.p99_ns,
            checked: result.checked,
            lost_acknowledged_writes: result.lost_acknowledged_writes.unwrap_or_default(),
        }
    }
}

/// Results of one client, with the engine on the NIC or on the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// `nic` or `host`.
    pub engine_on: &'static str,
    /// Median latency of gets.
    pub get_p50_ns: u64,
    /// Median latency of puts at the key's leader.
    pub put_p50_ns: u64,
    /// Operations measured.
    pub operations: u64,
    /// Whether the history is linearizable.
    pub checked: Checked,
}

impl Placed {
    pub(in super::super) fn new(engine_on: &'static str, result: &RunResult) -> Self {
        let p50 = |kind| result.by_operation.get(kind).map_or(0, |of| of.latency.summary.p50_ns);
        Self {
            engine_on,
            get_p50_ns: p50("get"),
            put_p50_ns: p50("put"),
            operations: result.operations,
            checked: result.checked,
        }
    }
}
