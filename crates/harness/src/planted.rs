//! Known bugs in nodes and in the membership service, which campaigns plant.

use weft_cluster::{Keeper, Server};
use weft_node::Node;
use weft_wire::frame::Endpoint;

/// A known bug in the code around the engines.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeBug {
    /// A node that rejoins does not empty its engines.
    EnginesKept,
    /// A lease counts from the receipt of the grant, not from the sending of the heartbeat.
    LeaseFromReceipt,
    /// The membership service answers before it has stored its state.
    AnswerBeforeStored,
    /// The membership service hears nothing while it stores a change, and takes that time for the silence of members.
    DeafWhileStoring,
    /// While the membership service stores a view, it renews the leases of members that are not in it.
    RemovedRenewed,
    /// The membership service assumes that every node holds everything, where a node holds only the shards that it
    /// replicates.
    WrongReplicas,
    /// A restarted node connects the queue pairs of its engines with the PSNs of its first incarnation.
    WiredToFormerIncarnation,
    /// A restarted node gets the keys of its first incarnation, with which its card counts nonces from 0
    /// again.
    KeysOfFormerLife,
    /// The membership service keeps members that cannot communicate with each other.
    PartitionedKept,
    /// A keeper goes on granting leases when its term has ended.
    TermOverrun,
    /// A keeper takes the membership service over without waiting for the end of the holder's term.
    SuccessorInHaste,
}

#[cfg(feature = "planted-bugs")]
impl NodeBug {
    /// All bugs.
    pub const ALL: [Self; 11] = [
        Self::EnginesKept,
        Self::LeaseFromReceipt,
        Self::AnswerBeforeStored,
        Self::DeafWhileStoring,
        Self::RemovedRenewed,
        Self::WrongReplicas,
        Self::WiredToFormerIncarnation,
        Self::KeysOfFormerLife,
        Self::PartitionedKept,
        Self::TermOverrun,
        Self::SuccessorInHaste,
    ];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EnginesKept => "engines-kept",
            Self::LeaseFromReceipt => "lease-from-receipt",
            Self::AnswerBeforeStored => "answer-before-stored",
            Self::DeafWhileStoring => "deaf-while-storing",
            Self::RemovedRenewed => "removed-renewed",
            Self::WrongReplicas => "wrong-replicas",
            Self::WiredToFormerIncarnation => "wired-to-former-incarnation",
            Self::KeysOfFormerLife => "keys-of-former-life",
            Self::PartitionedKept => "parted-kept",
            Self::TermOverrun => "term-overrun",
            Self::SuccessorInHaste => "successor-in-haste",
        }
    }
}

/// The planted bug of a cluster, if this build has any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// The bug.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<NodeBug>,
}

#[cfg(feature = "planted-bugs")]
impl Planted {
    /// The node, with the bug planted if it is a bug of nodes.
    pub fn node<H: weft_node::HostHalf>(self, node: Node<H>) -> Node<H> {
        use weft_node::PlantedBug;
        match self.bug {
            Some(NodeBug::EnginesKept) => node.with_planted_bug(PlantedBug::EnginesKept),
            Some(NodeBug::WiredToFormerIncarnation) => {
                node.with_planted_bug(PlantedBug::WiredToFormerIncarnation)
            }
            Some(NodeBug::LeaseFromReceipt) => {
                node.with_planted_bug(PlantedBug::Cluster(weft_cluster::PlantedBug::LeaseFromReceipt))
            }
            _ => node,
        }
    }

    /// The membership service, with the bug planted if it is a bug of the service.
    pub fn server(self, server: Server<Endpoint>) -> Server<Endpoint> {
        use weft_cluster::PlantedBug;
        match self.bug {
            Some(NodeBug::AnswerBeforeStored) => server.with_planted_bug(PlantedBug::AnswerBeforeStored),
            Some(NodeBug::DeafWhileStoring) => server.with_planted_bug(PlantedBug::DeafWhileStoring),
            Some(NodeBug::RemovedRenewed) => server.with_planted_bug(PlantedBug::RemovedRenewed),
            Some(NodeBug::PartitionedKept) => server.with_planted_bug(PlantedBug::PartitionedKept),
            _ => server,
        }
    }

    /// The keeper, with the bug planted if it is a bug of keepers.
    pub fn keeper(self, keeper: Keeper<Endpoint>) -> Keeper<Endpoint> {
        match self.bug {
            Some(NodeBug::TermOverrun) => keeper.with_planted_bug(weft_cluster::PlantedBug::TermOverrun),
            Some(NodeBug::SuccessorInHaste) => {
                keeper.with_planted_bug(weft_cluster::PlantedBug::SuccessorInHaste)
            }
            _ => keeper,
        }
    }

    /// Number of replicas of a shard with which the membership service is configured.
    pub fn replicas(self, replicas: usize, nodes: usize) -> usize {
        if self.bug == Some(NodeBug::WrongReplicas) { nodes } else { replicas }
    }
}

#[cfg(not(feature = "planted-bugs"))]
impl Planted {
    /// The node, with its planted bug if any.
    pub fn node<H>(self, node: Node<H>) -> Node<H> {
        node
    }

    /// The membership service, with its planted bug if any.
    pub fn server(self, server: Server<Endpoint>) -> Server<Endpoint> {
        server
    }

    /// The keeper, with its planted bug if any.
    pub fn keeper(self, keeper: Keeper<Endpoint>) -> Keeper<Endpoint> {
        keeper
    }

    /// Number of replicas of a shard with which the membership service is configured.
    pub const fn replicas(self, replicas: usize, _: usize) -> usize {
        replicas
    }
}
