//! Reports of a node to its operator.

use std::fmt;

use weft_cluster::{Misfit, Reason};
use weft_waist::NodeId;

/// Something that an operator wants to know, as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The membership service refuses the node for the time being.
    Refused(NodeId, Reason),
    /// The membership service is another cluster's, or the node is configured in another way than the members. A node
    /// that was never a member stops then.
    Misfit(NodeId, Misfit),
    /// The node was left out of a view, and begins again without data.
    StartsOver(NodeId, Reason),
    /// Another process runs the same node: this one has to stop.
    Taken(NodeId),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(node, reason) => write!(f, "node {} waits: {reason}", node.index()),
            Self::Misfit(node, misfit) => write!(f, "node {} waits: {misfit}", node.index()),
            Self::StartsOver(node, reason) => write!(f, "node {} starts over: {reason}", node.index()),
            Self::Taken(node) => write!(f, "node {} stops: {}", node.index(), Reason::Taken),
        }
    }
}
