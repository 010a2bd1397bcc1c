//! Reports of a node to its operator.

use std::fmt;

use weft_cluster::{Mismatch, Reason};
use weft_waist::NodeId;

/// An event of interest to an operator. It displays as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The membership service refuses the node for the time being.
    Refused(NodeId, Reason),
    /// The membership service belongs to another cluster, or the node's configuration differs from the members'. A
    /// node that was never a member then stops.
    Mismatch(NodeId, Mismatch),
    /// The node was excluded from a view, and restarts without data.
    Rejoins(NodeId, Reason),
    /// Another process runs the same node: this one has to stop.
    Taken(NodeId),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(node, reason) => write!(f, "node {} waits: {reason}", node.index()),
            Self::Mismatch(node, mismatch) => write!(f, "node {} waits: {mismatch}", node.index()),
            Self::Rejoins(node, reason) => write!(f, "node {} starts over: {reason}", node.index()),
            Self::Taken(node) => write!(f, "node {} stops: {}", node.index(), Reason::Taken),
        }
    }
}
