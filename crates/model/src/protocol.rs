//! The interface for the checker: one agreement of a synchronous protocol, at one node.

use std::fmt::Debug;
use std::hash::Hash;

/// The most nodes of a cluster: a set of nodes is one byte, bit k for node k.
pub const NODES_MAX: usize = 8;

/// The nodes of a set, in order.
pub fn nodes_of(set: u8) -> impl Iterator<Item = usize> {
    (0..NODES_MAX).filter(move |node| set >> node & 1 == 1)
}

/// The set of all of `nodes` nodes.
pub fn all_of(nodes: usize) -> u8 {
    debug_assert!((1..=NODES_MAX).contains(&nodes));
    u8::MAX >> (NODES_MAX - nodes)
}

/// Number of tolerated faults, and the quorums that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// The most of them that may be faulty.
    pub faults: usize,
    /// Number of locked nodes that decide: a strict majority.
    pub decision: usize,
    /// Number of nodes that a node must trust in order to lock or decide by itself.
    pub survival: usize,
    /// Number of known rows that must contain a proposal for it to be decided.
    pub holders: usize,
}

impl Quorums {
    /// The usual ones: any minority may be faulty.
    pub const fn of(nodes: usize) -> Self {
        let faults = (nodes - 1) / 2;
        Self { nodes, faults, decision: nodes / 2 + 1, survival: nodes - faults, holders: faults + 1 }
    }
}

/// Observable state of a node between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Nodes whose rows (or values) the node knows.
    pub known: u8,
    /// Whom the node no longer listens to.
    pub suspected: u8,
    /// Nodes that are locked as far as this one knows, itself included.
    pub locked: u8,
    /// What it has decided: a set of proposers.
    pub decision: Option<u8>,
    /// Whether it takes part; a node that has given up sends nothing.
    pub running: bool,
}

/// A synchronous protocol that agrees once, on a set of proposers. In each round every node sends one message to all,
/// takes the messages of the round that arrive, and ends the round.
pub trait Protocol: Clone + Debug + Send + Sync + 'static {
    /// The state of one node.
    type Node: Clone + Debug + Eq + Hash + Send + Sync + 'static;
    /// What it sends in a round.
    type Message: Clone;

    /// Whether the proposals travel in a round of their own before, so that the nodes begin with *rows* (whose
    /// proposals each holds), and agree on those.
    const DISSEMINATES: bool;

    /// What results call it.
    fn name(&self) -> &'static str;
    /// The quorums in force.
    fn quorums(&self) -> Quorums;
    /// After how many rounds the correct nodes have decided if so many nodes are faulty.
    fn rounds_to_decide(&self, faults: u8) -> u8 {
        faults + 2
    }
    /// A node at the beginning. `row` is the set of proposers whose proposals it holds, itself among them; only
    /// itself if the protocol does not disseminate.
    fn open(&self, node: usize, row: u8) -> Self::Node;
    /// What the node sends in the round that begins. None if it has given up.
    fn message(&self, node: &Self::Node) -> Option<Self::Message>;
    /// A message of the current round arrives.
    fn receive(&self, node: &mut Self::Node, from: usize, message: &Self::Message);
    /// The round ends. What the node decides in it, if it does.
    fn end_round(&self, node: &mut Self::Node) -> Option<u8>;
    /// What can be seen of the node.
    fn view(&self, node: &Self::Node) -> View;
}
