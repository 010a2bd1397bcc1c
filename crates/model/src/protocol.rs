//! The interface between the checker and a synchronous protocol: one agreement, at one node.

use std::fmt::Debug;
use std::hash::Hash;

/// The most nodes of a cluster: a set of nodes is one byte, bit k for node k.
pub const NODES_MAX: usize = 8;

/// The nodes in a set, in order.
pub fn nodes_of(set: u8) -> impl Iterator<Item = usize> {
    (0..NODES_MAX).filter(move |node| set >> node & 1 == 1)
}

/// The set of the nodes 0 to `nodes` - 1.
pub fn all_of(nodes: usize) -> u8 {
    debug_assert!((1..=NODES_MAX).contains(&nodes));
    u8::MAX >> (NODES_MAX - nodes)
}

/// The number of tolerated faults, and the quorums that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The most of them that may be faulty.
    pub faults: usize,
    /// Number of locked nodes that make a decision: a strict majority.
    pub decision: usize,
    /// Number of nodes that a node must trust in order to lock or decide by itself.
    pub survival: usize,
    /// Number of known rows that must contain a proposal so that it is decided.
    pub holders: usize,
}

impl Quorums {
    /// The default quorums: any minority may be faulty.
    pub const fn of(nodes: usize) -> Self {
        let faults = (nodes - 1) / 2;
        Self { nodes, faults, decision: nodes / 2 + 1, survival: nodes - faults, holders: faults + 1 }
    }
}

/// The observable state of a node between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The nodes whose rows (or values) the node has.
    pub known: u8,
    /// The nodes whose messages the node ignores.
    pub suspected: u8,
    /// The nodes that this node knows to be locked, itself included.
    pub locked: u8,
    /// Its decision, as a set of proposers.
    pub decision: Option<u8>,
    /// Whether it takes part; a node that has left sends nothing.
    pub running: bool,
}

/// A synchronous protocol that decides once, on a set of proposers. In each round every node sends one message to
/// all, processes the messages of the round that arrive, and ends the round.
pub trait Protocol: Clone + Debug + Send + Sync + 'static {
    /// The state of one node.
    type Node: Clone + Debug + Eq + Hash + Send + Sync + 'static;
    /// The message that a node sends in a round.
    type Message: Clone;

    /// Whether the proposals are sent in a separate round before, so that each node begins with a *row* (the
    /// proposers whose proposals it holds), and the nodes agree on the rows.
    const DISSEMINATES: bool;

    /// Name in the output.
    fn name(&self) -> &'static str;
    /// The quorums in force.
    fn quorums(&self) -> Quorums;
    /// Number of rounds after which the correct nodes have decided if `faults` nodes are faulty.
    fn rounds_to_decide(&self, faults: u8) -> u8 {
        faults + 2
    }
    /// A node at the beginning. `row` is the set of proposers whose proposals it holds, itself included; only
    /// itself if the protocol does not disseminate.
    fn open(&self, node: usize, row: u8) -> Self::Node;
    /// The message that the node sends in the round that begins. `None` if it has left.
    fn message(&self, node: &Self::Node) -> Option<Self::Message>;
    /// Processes a message of the current round.
    fn receive(&self, node: &mut Self::Node, from: usize, message: &Self::Message);
    /// Ends the round. Returns the node's decision if it decides in this round.
    fn end_round(&self, node: &mut Self::Node) -> Option<u8>;
    /// The observable state of the node.
    fn view(&self, node: &Self::Node) -> View;
}
