//! Adversaries: which messages may be lost.

use crate::protocol::{all_of, nodes_of};

/// The links that may lose messages. A crashed node is a case of this: all its links lose all messages from some
/// round on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adversary {
    /// General omissions: the links from and to these nodes, which are faulty. The others are correct.
    Omissions {
        /// Bit mask of the faulty nodes.
        faulty: u8,
    },
    /// Any link between two nodes. No protocol can make progress under this, but no nodes may disagree.
    AnyLink,
}

impl Adversary {
    /// The correct nodes, for which all guarantees hold.
    pub fn correct(self, nodes: usize) -> u8 {
        match self {
            Self::Omissions { faulty } => all_of(nodes) & !faulty,
            Self::AnyLink => 0,
        }
    }

    /// The nodes whose messages `node` may lose.
    pub fn droppable(self, nodes: usize, node: usize) -> u8 {
        let others = all_of(nodes) & !(1 << node);
        match self {
            Self::Omissions { faulty } if faulty >> node & 1 == 0 => faulty,
            Self::Omissions { .. } | Self::AnyLink => others,
        }
    }

    /// Number of faulty nodes. `None` if any link may lose messages: then no node has guarantees of progress.
    pub fn faults(self) -> Option<u8> {
        match self {
            Self::Omissions { faulty } => Some(faulty.count_ones() as u8),
            Self::AnyLink => None,
        }
    }

    /// All outcomes of the dissemination round that this adversary allows. An outcome has one row per node:
    /// the bit mask of the proposers whose proposals the node then holds.
    pub fn rows<const N: usize>(self) -> Vec<[u8; N]> {
        let mut all = vec![[0; N]];
        for node in 0..N {
            let droppable = self.droppable(N, node);
            let certain = all_of(N) & !droppable;
            all = all
                .iter()
                .flat_map(|rows| {
                    subsets(droppable).map(move |lost| {
                        let mut rows = *rows;
                        rows[node] = certain | droppable & !lost;
                        rows
                    })
                })
                .collect();
        }
        all
    }

    /// Rows for a check that need not try all: one set without losses, and one in which the rows differ as much as
    /// the adversary can make them. [`explore`](crate::explore) says why these suffice.
    pub fn representative_rows<const N: usize>(self) -> Vec<[u8; N]> {
        let full = [all_of(N); N];
        let mut uneven = full;
        for (node, row) in uneven.iter_mut().enumerate() {
            let kept = match self {
                // The first two nodes hold all proposals, the others only those that cannot be lost.
                Self::Omissions { .. } if node < 2 => all_of(N),
                Self::Omissions { .. } => 0,
                // Each node holds its own proposal and its successor's.
                Self::AnyLink => 1 << ((node + 1) % N),
            };
            *row &= kept | !self.droppable(N, node);
        }
        if uneven == full { vec![full] } else { vec![full, uneven] }
    }
}

/// All subsets of a set, the empty one first.
pub(crate) fn subsets(set: u8) -> impl Iterator<Item = u8> {
    let mut next = Some(0u8);
    std::iter::from_fn(move || {
        let subset = next?;
        // The next number with bits only in `set`; it wraps to 0 after the last.
        let following = subset.wrapping_sub(set) & set;
        next = (following != 0).then_some(following);
        Some(subset)
    })
}

/// A set of nodes as text.
pub(crate) fn names(set: u8) -> String {
    let names: Vec<_> = nodes_of(set).map(|node| node.to_string()).collect();
    format!("{{{}}}", names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_complete_and_begin_with_none() {
        assert_eq!(subsets(0).collect::<Vec<_>>(), [0]);
        assert_eq!(subsets(0b1010).collect::<Vec<_>>(), [0, 0b0010, 0b1000, 0b1010]);
        assert_eq!(subsets(u8::MAX).count(), 256);
    }

    #[test]
    fn rows_are_all_that_omissions_can_leave() {
        let adversary = Adversary::Omissions { faulty: 0b100 };
        let rows = adversary.rows::<3>();
        // Four links start or end at the faulty node.
        assert_eq!(rows.len(), 1 << 4);
        for rows in &rows {
            assert!(rows[0] & 0b011 == 0b011 && rows[1] & 0b011 == 0b011 && rows[2] & 0b100 != 0);
        }
        assert_eq!(Adversary::AnyLink.rows::<3>().len(), 1 << 6);
        assert_eq!(Adversary::Omissions { faulty: 0 }.rows::<5>(), [[0b11111; 5]]);
    }

    #[test]
    fn the_representative_rows_are_among_all() {
        for adversary in [Adversary::Omissions { faulty: 0b1000 }, Adversary::AnyLink] {
            let all = adversary.rows::<4>();
            let chosen = adversary.representative_rows::<4>();
            assert_eq!(chosen.len(), 2);
            assert!(chosen.iter().all(|rows| all.contains(rows)));
        }
    }
}
