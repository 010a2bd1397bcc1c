//! Algorithm 3 of the detPU thesis **as printed** (appendix, "CKC uniform consensus algorithm"). Weft does not run
//! it: it shows that the checker finds the schedule that breaks its uniform agreement.
//!
//! The algorithm is implemented line by line, in lock step: a round's messages arrive together and are processed
//! as one batch (lines 16 to 22 for all of them, then lines 23 and 24). Three points need an interpretation.
//! `|locked| >= |Q|` compares with the same number as `|liveset| < Q`. A node's message to itself always arrives.
//! A node that has decided goes on sending, so that no correct node is left behind, and keeps its first decision,
//! because line 24 can be reached again with more values.

use crate::protocol::{Protocol, Quorums, View, all_of};

/// Algorithm 3 for a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Printed {
    /// Only `nodes` and `decision` (the printed Q) are used.
    pub quorums: Quorums,
}

/// The variables of line 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrintedNode {
    node: u8,
    /// V: the proposers whose values the node has.
    values: u8,
    /// prevLiveset: the nodes whose messages arrived in the last round.
    previously_live: u8,
    /// liveset: the nodes whose messages have arrived in this round.
    live: u8,
    locked: u8,
    /// Whether a locked node's message has arrived in this round.
    heard_lock: bool,
    decision: Option<u8>,
    /// Lines 11 and 12: whether the node left without a decision.
    quit: bool,
}

/// The message of line 14.
#[derive(Clone, Copy, Debug)]
pub struct PrintedMessage {
    values: u8,
    locked: u8,
    /// Bit mask of the receivers.
    to: u8,
}

impl Protocol for Printed {
    type Node = PrintedNode;
    type Message = PrintedMessage;

    const DISSEMINATES: bool = false;

    fn name(&self) -> &'static str {
        "printed"
    }

    fn quorums(&self) -> Quorums {
        self.quorums
    }

    fn open(&self, node: usize, row: u8) -> PrintedNode {
        PrintedNode {
            node: node as u8,
            values: row,
            previously_live: all_of(self.quorums.nodes),
            live: 1 << node,
            locked: 0,
            heard_lock: false,
            decision: None,
            quit: false,
        }
    }

    fn message(&self, node: &PrintedNode) -> Option<PrintedMessage> {
        let message = PrintedMessage { values: node.values, locked: node.locked, to: node.previously_live };
        (!node.quit).then_some(message)
    }

    fn receive(&self, node: &mut PrintedNode, from: usize, message: &PrintedMessage) {
        let sent = message.to >> node.node & 1 == 1;
        // Line 16.
        let listens = node.previously_live >> from & 1 == 1 && !node.quit;
        if sent && listens {
            node.live |= 1 << from;
            node.values |= message.values;
            node.locked |= message.locked;
            node.heard_lock |= message.locked != 0;
        }
    }

    fn end_round(&self, node: &mut PrintedNode) -> Option<u8> {
        if node.quit {
            return None;
        }
        // Lines 21 to 24.
        if node.live == node.previously_live || node.heard_lock {
            node.locked |= 1 << node.node;
        }
        let decides = node.decision.is_none() && node.locked.count_ones() as usize >= self.quorums.decision;
        if decides {
            node.decision = Some(node.values);
        }
        // Lines 10 to 15, which begin the next round.
        node.quit = (node.live.count_ones() as usize) < self.quorums.decision;
        node.previously_live = node.live;
        node.live = 1 << node.node;
        node.heard_lock = false;
        node.decision.filter(|_| decides)
    }

    fn view(&self, node: &PrintedNode) -> View {
        View {
            known: node.values,
            suspected: all_of(self.quorums.nodes) & !node.previously_live,
            locked: node.locked,
            decision: node.decision,
            running: !node.quit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adversary::Adversary;
    use crate::explore::{Exploration, Rows};
    use crate::property::Property;
    use crate::random::{Losses, Search};
    use crate::schedule::Schedule;

    const PRINTED: Printed = Printed { quorums: Quorums::of(7) };

    #[test]
    fn a_known_schedule_breaks_uniform_agreement() {
        let to = |nodes: &[usize], from: usize| {
            let mut lost = [0; 7];
            nodes.iter().for_each(|node| lost[*node] |= 1u8 << from);
            lost
        };
        let both = |one: [u8; 7], other: [u8; 7]| std::array::from_fn(|node| one[node] | other[node]);
        let schedule = Schedule {
            adversary: Adversary::Omissions { faulty: 0b111_0000 },
            rows: [0b111_1111; 7],
            losses: vec![both(to(&[0, 1, 2, 3, 5], 4), to(&[0, 2, 3], 6)), to(&[1], 6), to(&[1], 5)],
        };
        assert_eq!(schedule.breaks(&PRINTED, &Property::ALL), Some((Property::UniformAgreement, 3)));
        let counterexample = schedule.clone().counterexample(&PRINTED, Property::UniformAgreement);
        let counterexample = counterexample.expect("it does");
        assert_eq!(counterexample.schedule.losses.len(), 3);
        // Three correct nodes decide with node 4's value, and one without it.
        for line in ["node 0 has decided {0,1,2,3,4,5,6}", "node 1 has decided {0,1,2,3,5,6}"] {
            assert!(counterexample.trace.contains(line), "{}", counterexample.trace);
        }
    }

    #[test]
    fn a_search_finds_such_schedules_for_seven_nodes_and_for_six_none() {
        let losses = Losses::Tolerated;
        let found = Search::<_, 7> { protocol: PRINTED, losses, schedules: 40_000, seed: 1 }.run(2, |_| {});
        let properties: Vec<_> = found.findings.iter().map(|found| found.counterexample.property).collect();
        assert_eq!(properties, [Property::UniformAgreement]);
        let six = Printed { quorums: Quorums::of(6) };
        let none = Search::<_, 6> { protocol: six, losses, schedules: 40_000, seed: 1 }.run(2, |_| {});
        assert!(none.findings.is_empty(), "{none:?}");
    }

    #[test]
    fn few_nodes_do_not_show_it() {
        let adversary = Adversary::Omissions { faulty: 0b1000 };
        let protocol = Printed { quorums: Quorums::of(4) };
        let explored = Exploration::<_, 4> { protocol, adversary, rows: Rows::All, rounds: 6 }.run(2, |_| {});
        assert!(explored.counterexamples.is_empty(), "{explored:?}");
    }
}
