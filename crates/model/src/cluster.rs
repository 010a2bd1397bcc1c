//! One agreement in a whole cluster, round by round.

use std::array;

use crate::protocol::{Protocol, all_of, nodes_of};

/// The states of all nodes between two rounds, and the history that the properties need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster<S, const N: usize> {
    /// Number of rounds that have ended.
    pub round: u8,
    /// State of each node.
    pub nodes: [S; N],
    /// The row of each node: the proposers whose proposals it held before round 0, bit k for node k.
    pub rows: [u8; N],
    /// First decision of each node.
    pub decisions: [Option<u8>; N],
    /// The rows that were known to the first node that decided by itself.
    pub basis: Option<u8>,
    /// Whether a node decided twice, or lost its decision.
    pub undone: bool,
    /// Whether two nodes decided by themselves from different rows.
    pub unlike: bool,
}

impl<S: Clone, const N: usize> Cluster<S, N> {
    /// The cluster at the beginning.
    pub fn new<P: Protocol<Node = S>>(protocol: &P, rows: [u8; N]) -> Self {
        let nodes = array::from_fn(|node| {
            assert!(rows[node] >> node & 1 == 1, "a node holds its own proposal");
            protocol.open(node, if P::DISSEMINATES { rows[node] } else { 1 << node })
        });
        Self { round: 0, nodes, rows, decisions: [None; N], basis: None, undone: false, unlike: false }
    }

    /// The messages of all nodes in the round that begins.
    pub(crate) fn messages<P: Protocol<Node = S>>(&self, protocol: &P) -> [Option<P::Message>; N] {
        array::from_fn(|node| protocol.message(&self.nodes[node]))
    }

    /// Runs a round at one node, which receives the messages of the nodes in `heard`.
    pub(crate) fn round_of<P: Protocol<Node = S>>(
        &self,
        protocol: &P,
        messages: &[Option<P::Message>; N],
        node: usize,
        heard: u8,
    ) -> (S, Option<u8>) {
        let mut state = self.nodes[node].clone();
        for from in nodes_of(heard & all_of(N) & !(1 << node)) {
            if let Some(message) = &messages[from] {
                protocol.receive(&mut state, from, message);
            }
        }
        let decided = protocol.end_round(&mut state);
        (state, decided)
    }

    /// Whether a node that receives these nodes' messages receives a decision.
    pub(crate) fn received_decision(&self, heard: u8) -> bool {
        nodes_of(heard & all_of(N)).any(|from| self.decisions[from].is_some())
    }

    /// Runs the next round. Node i loses the messages of the nodes in `lost[i]`.
    pub fn step<P: Protocol<Node = S>>(&mut self, protocol: &P, lost: &[u8; N]) {
        let messages = self.messages(protocol);
        let rounds: [_; N] =
            array::from_fn(|node| self.round_of(protocol, &messages, node, all_of(N) & !lost[node]));
        let told: [_; N] = array::from_fn(|node| self.received_decision(all_of(N) & !lost[node]));
        for (node, (state, decided)) in rounds.into_iter().enumerate() {
            self.record(protocol, node, decided, &state, told[node]);
            self.nodes[node] = state;
        }
        self.round += 1;
    }

    /// Compares a node's decision with the recorded ones.
    fn record<P: Protocol<Node = S>>(
        &mut self,
        protocol: &P,
        node: usize,
        decided: Option<u8>,
        state: &S,
        told: bool,
    ) {
        let view = protocol.view(state);
        if decided.is_some() {
            self.undone |= self.decisions[node].is_some();
            self.decisions[node] = self.decisions[node].or(decided);
            // If all rows are equal, it does not matter which of them are known.
            let all_equal = P::DISSEMINATES && self.rows == [all_of(N); N];
            if !told && !all_equal {
                let basis = *self.basis.get_or_insert(view.known);
                self.unlike |= basis != view.known;
            }
        }
        self.undone |= view.decision != self.decisions[node];
    }
}
