//! Sets of at most eight nodes, and the quorums among them.

use std::fmt;

use weft_waist::{NodeId, NodeSet};

/// The most nodes that take part: a [`Members`] is one byte in a record.
pub const MEMBERS_MAX: usize = 8;

/// A set of nodes 0 to 7, bit *i* for node *i*.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members(u8);

impl Members {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Bit *i* stands for node *i*.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Bit *i* stands for node *i*.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Nodes 0 to `count` - 1.
    ///
    /// # Panics
    /// If `count` exceeds [`MEMBERS_MAX`].
    pub const fn first(count: usize) -> Self {
        assert!(count <= MEMBERS_MAX, "at most 8 nodes take part");
        Self(((1u16 << count) - 1) as u8)
    }

    /// `node` alone.
    ///
    /// # Panics
    /// If `node` is not below [`MEMBERS_MAX`].
    pub const fn only(node: usize) -> Self {
        assert!(node < MEMBERS_MAX, "nodes are numbered 0 to 7");
        Self(1 << node)
    }

    /// Whether `node` is in the set.
    pub const fn contains(self, node: usize) -> bool {
        node < MEMBERS_MAX && self.0 >> node & 1 == 1
    }

    /// Whether every node of `other` is in the set.
    pub const fn includes(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Number of nodes in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no node is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set and `node`.
    #[must_use]
    pub const fn with(self, node: usize) -> Self {
        Self(self.0 | Self::only(node).0)
    }

    /// The set less `node`.
    #[must_use]
    pub const fn without(self, node: usize) -> Self {
        Self(self.0 & !Self::only(node).0)
    }

    /// Nodes in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Nodes in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Nodes of this set that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The nodes in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MEMBERS_MAX).filter(move |&node| self.contains(node))
    }

    /// The same nodes as a [`NodeSet`] of `weft_waist`.
    pub const fn to_nodes(self) -> NodeSet {
        NodeSet::from_bits(self.0 as u16)
    }

    /// The same nodes, or `None` if one is numbered 8 or higher.
    pub const fn from_nodes(nodes: NodeSet) -> Option<Self> {
        if nodes.bits() >> MEMBERS_MAX == 0 { Some(Self(nodes.bits() as u8)) } else { None }
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<usize> for Members {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl From<NodeId> for Members {
    /// # Panics
    /// If the node is numbered 8 or higher.
    fn from(node: NodeId) -> Self {
        Self::only(node.index())
    }
}

/// Sizes of quorums. A consensus may run with other sizes than the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    /// Number of locked members with equal rows that make a decision: a strict majority, so that any two such sets
    /// share a member.
    pub decision: u8,
    /// A member that trusts fewer members than this, itself included, neither locks nor decides by itself.
    pub survival: u8,
    /// A value can be decided if this many members hold it: more than may fail, so that one of them survives.
    pub holders: u8,
}

impl Quorums {
    /// The most of `members` that may fail: less than half.
    pub const fn tolerated(members: usize) -> usize {
        members.saturating_sub(1) / 2
    }

    /// The quorums that tolerate the most failures among `members`.
    pub const fn of(members: usize) -> Self {
        let tolerated = Self::tolerated(members);
        Self {
            decision: (members / 2 + 1) as u8,
            survival: (members - tolerated) as u8,
            holders: (tolerated + 1) as u8,
        }
    }

    /// Whether a consensus among `members` with these quorums is safe, and can make progress despite some number
    /// of failures, possibly 0.
    pub const fn are_valid(self, members: usize) -> bool {
        let (decision, survival, holders) =
            (self.decision as usize, self.survival as usize, self.holders as usize);
        2 * decision > members
            && decision <= members
            && survival <= members
            && holders > Self::tolerated(members)
            && holders <= decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_eight() {
        let set = Members::from_iter([0, 3, 7]);
        assert_eq!(set.bits(), 0b1000_1001);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 7]);
        assert_eq!(set.difference(Members::first(4)), Members::only(7));
        assert!(set.includes(Members::only(3)) && !set.includes(Members::only(4)));
        assert!(!set.contains(8));
        assert_eq!(Members::first(8).len(), 8);
        assert_eq!(Members::from_nodes(set.to_nodes()), Some(set));
        assert_eq!(Members::from_nodes(NodeSet::first(9)), None);
    }

    #[test]
    fn default_quorums_tolerate_all_that_can_be() {
        for members in 1..=MEMBERS_MAX {
            let quorums = Quorums::of(members);
            assert!(quorums.are_valid(members), "{members}");
            // If as many members fail as may, the remaining ones can still decide.
            assert!(members - Quorums::tolerated(members) >= usize::from(quorums.decision));
        }
        assert_eq!(Quorums::of(5), Quorums { decision: 3, survival: 3, holders: 3 });
        assert!(!Quorums { decision: 2, ..Quorums::of(4) }.are_valid(4), "two halves would decide apart");
        assert!(!Quorums { holders: 1, ..Quorums::of(3) }.are_valid(3), "a value would die with its holder");
    }
}
