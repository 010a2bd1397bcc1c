//! What happened when in a run: operations, faults, and the states of nodes.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_time::Instant;

/// Operations completed over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The width of a bucket.
    pub bucket_ns: u64,
    /// Start of the measured part, in nanoseconds since the start of the run.
    pub measured_from_ns: u64,
    /// Operations completed in each bucket from the beginning of the run on.
    pub operations: Vec<u64>,
}

/// An event at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Nanoseconds since the beginning of the run.
    pub at_ns: u64,
    /// Kind of the event.
    pub kind: MarkKind,
    /// The node concerned; null if the event concerns all nodes.
    pub node: Option<u32>,
    /// Description in words: for example, `node1 crashes` or `epoch 3`.
    pub label: String,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The beginning of a fault: a crash, a cut link.
    Fault,
    /// The end of a fault: a restart, a restored link.
    Repair,
    /// The membership service publishes a view.
    ViewChange,
}

/// State of one node over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Name of the node.
    pub name: String,
    /// States of the node, one after the other.
    pub states: Vec<StateSpan>,
    /// Leadership of the node, one span after the other.
    #[serde(default)]
    pub leads: Vec<LeadSpan>,
}

/// A node's state for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSpan {
    /// Nanoseconds since the beginning of the run.
    pub from_ns: u64,
    /// Nanoseconds since the beginning of the run.
    pub to_ns: u64,
    /// State of the node.
    pub state: NodeState,
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node serves.
    Serving,
    /// The node copies state from other nodes, or waits until it may serve.
    Joining,
    /// The node's lease or epoch has ended, so it answers no request.
    Fenced,
    /// The node is down.
    Down,
}

/// Leadership of a node for a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadSpan {
    /// Nanoseconds since the beginning of the run.
    pub from_ns: u64,
    /// Nanoseconds since the beginning of the run.
    pub to_ns: u64,
    /// Epoch of the view in which the node leads.
    pub epoch: u64,
    /// Number of partitions that the node leads.
    pub led: u32,
    /// Number of all partitions.
    pub partitions: u32,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serving => "serving",
            Self::Joining => "joining",
            Self::Fenced => "fenced",
            Self::Down => "down",
        })
    }
}

/// Nanoseconds since the start of a run, for marks and spans.
pub fn since_ns(begin: Instant, at: Instant) -> u64 {
    at.saturating_since(begin).as_ns()
}
