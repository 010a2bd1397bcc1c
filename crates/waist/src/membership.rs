//! Membership: nodes, sets of nodes, epochs and views.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_time::Instant;

/// The most nodes in a cluster: a [`NodeSet`] is one 16-bit register.
pub const NODES_MAX: usize = 16;

/// A node of the cluster: 0 to 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(u8);

impl NodeId {
    /// Node `index`, or `None` if `index` is too large.
    pub const fn new(index: usize) -> Option<Self> {
        if index < NODES_MAX { Some(Self(index as u8)) } else { None }
    }

    /// Index of the node, 0 to 15.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}", self.0)
    }
}

/// A set of nodes, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSet(u16);

impl NodeSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set in which bit *i* stands for node *i*.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The set as an integer: bit *i* stands for node *i*.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Nodes 0 to `count` - 1.
    ///
    /// # Panics
    /// If `count` exceeds [`NODES_MAX`].
    pub const fn first(count: usize) -> Self {
        assert!(count <= NODES_MAX, "a cluster has at most 16 nodes");
        Self(((1u32 << count) - 1) as u16)
    }

    /// Whether `node` is in the set.
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 >> node.0 & 1 == 1
    }

    /// Number of nodes in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no node is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This set with `node` added.
    #[must_use]
    pub const fn with(self, node: NodeId) -> Self {
        Self(self.0 | 1 << node.0)
    }

    /// This set without `node`.
    #[must_use]
    pub const fn without(self, node: NodeId) -> Self {
        Self(self.0 & !(1 << node.0))
    }

    /// The nodes in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The nodes in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes of this set that are not in the other.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The nodes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..NODES_MAX as u8).map(NodeId).filter(move |&node| self.contains(node))
    }

    /// The `rank`-th node in ascending order, counted from 0.
    pub fn nth(self, rank: usize) -> Option<NodeId> {
        self.iter().nth(rank)
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(NodeId::index)).finish()
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// The number of a view. Epoch 0 precedes the first view. Messages of older epochs are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// The membership from one epoch to the next, as the membership service decides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// Number of the view. Every change of `full` or `joining` starts a new epoch.
    pub epoch: Epoch,
    /// Nodes that hold all data: they serve, lead and acknowledge.
    pub full: NodeSet,
    /// Nodes that are catching up: they acknowledge, but neither serve nor lead.
    pub joining: NodeSet,
}

impl View {
    /// All nodes whose acknowledgement a write needs.
    pub const fn members(&self) -> NodeSet {
        self.full.union(self.joining)
    }

    /// The partition map: which node leads `partition`. All nodes and clients compute it from the view, so
    /// the map itself is never sent. `None` if no node holds the data.
    pub fn leader(&self, partition: u32) -> Option<NodeId> {
        let count = self.full.len();
        if count == 0 { None } else { self.full.nth(partition as usize % count) }
    }
}

/// Content of an engine's membership registers, written by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The node's own identity.
    pub node: NodeId,
    /// The current view.
    pub view: View,
    /// The end of the node's lease, on this node's clock. Before it, the membership service lets no later
    /// view serve without this node. After it, the node must not serve reads or accept writes.
    pub lease_until: Instant,
}

/// The state of an engine in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineState {
    /// Empty, and not configured yet.
    Starting,
    /// Catching up as a joining member.
    Joining {
        /// The engine holds all data of the epoch that it reports.
        synced: bool,
    },
    /// Holds all data.
    Full,
    /// A full member between two epochs that has on its disk everything that was committed. It waits for the others.
    Sealed,
    /// The engine can no longer catch up. It must be restarted with empty memory.
    Lost,
    /// The engine has recovered from its disk what it had there of the epoch that it reports, and may lack the last
    /// committed writes. It continues in a later view, when enough members are there that together lack none.
    Restored,
}

impl fmt::Display for EngineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Joining { synced: false } => "joining",
            Self::Joining { synced: true } => "synced",
            Self::Full => "full",
            Self::Sealed => "sealed",
            Self::Lost => "lost",
            Self::Restored => "restored",
        })
    }
}

/// An engine's report to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineStatus {
    /// The epoch that the engine has been configured with; 0 before the first. A full member that keeps its data on
    /// disk reports an epoch only once its beginning is durable.
    pub epoch: Epoch,
    /// The state in that epoch.
    pub state: EngineState,
}

impl EngineStatus {
    /// An empty engine that has not been configured.
    pub const STARTING: Self = Self { epoch: Epoch(0), state: EngineState::Starting };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaders_are_spread_over_the_full_members() {
        let node = |index| NodeId::new(index).unwrap();
        let view = View {
            epoch: Epoch(3),
            full: NodeSet::from_iter([node(0), node(2), node(5)]),
            joining: NodeSet::from_iter([node(1)]),
        };
        let leaders: Vec<_> = (0..6).map(|partition| view.leader(partition).unwrap().index()).collect();
        assert_eq!(leaders, [0, 2, 5, 0, 2, 5]);
        assert_eq!(View::default().leader(0), None);
        assert_eq!(view.members().len(), 4);
    }

    #[test]
    fn sets_of_all_sixteen_nodes() {
        assert_eq!(NodeSet::first(16).len(), 16);
        assert_eq!(NodeSet::first(0), NodeSet::EMPTY);
        assert_eq!(NodeId::new(16), None);
    }
}
