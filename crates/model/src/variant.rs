//! A second implementation of the shipped consensus, in which bugs can be planted: they show what the checker can
//! detect. Without a planted bug, tests compare it with the shipped one, node by node and round by round.

use crate::protocol::{NODES_MAX, Protocol, Quorums, View, all_of, nodes_of};

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A node locks one round too early: |suspected| <= r + 1.
    LockEarly,
    /// A node accepts messages of a peer that suspects it.
    OneSidedSuspicion,
    /// A node withdraws its suspicion of another when it receives a message of that one again.
    ForgivingSuspicion,
    /// Half of the nodes suffice for a decision, instead of more than half.
    HalfDecides,
    /// A node decides as soon as it is locked.
    DecideAlone,
    /// Rows that a locked node does not know are ignored: if all *known* rows are equal, it decides.
    HastyUnanimity,
    /// One row is enough to decide a proposal.
    OneHolder,
    /// Repair (a) of the printed algorithm: it keeps the printed rule for locks, but rows are frozen at the lock,
    /// and a decision needs a quorum of locks on the same rows. Agreement holds, but some runs never decide.
    FrozenRows,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 8] = [
        Self::LockEarly,
        Self::OneSidedSuspicion,
        Self::ForgivingSuspicion,
        Self::HalfDecides,
        Self::DecideAlone,
        Self::HastyUnanimity,
        Self::OneHolder,
        Self::FrozenRows,
    ];

    /// Name in the output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LockEarly => "lock early",
            Self::OneSidedSuspicion => "one-sided suspicion",
            Self::ForgivingSuspicion => "forgiving suspicion",
            Self::HalfDecides => "half decides",
            Self::DecideAlone => "decide alone",
            Self::HastyUnanimity => "hasty unanimity",
            Self::OneHolder => "one holder",
            Self::FrozenRows => "frozen rows",
        }
    }
}

/// The consensus, with or without a bug.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The quorums with which it decides.
    pub quorums: Quorums,
    /// The bug that is planted; `None` for the correct consensus.
    pub bug: Option<Bug>,
}

/// State of a node that runs the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariantNode {
    node: u8,
    round: u8,
    /// The row of each node; 0 if it is not known.
    rows: [u8; NODES_MAX],
    suspected: u8,
    /// Senders whose messages of this round were accepted.
    accepted: u8,
    heard_locked: u8,
    locked: bool,
    /// Whether an accepted message of this round was from a locked node.
    heard_lock: bool,
    /// A decision that was received in this round.
    received_decision: Option<u8>,
    decision: Option<u8>,
}

/// Message that a node sends in a round.
#[derive(Clone, Copy, Debug)]
pub struct VariantMessage {
    rows: [u8; NODES_MAX],
    suspected: u8,
    locked: bool,
    decision: Option<u8>,
}

impl Variant {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Proposals that are in enough of the known rows.
    fn held(&self, rows: &[u8; NODES_MAX]) -> u8 {
        let holders = if self.has(Bug::OneHolder) { 1 } else { self.quorums.holders };
        nodes_of(all_of(self.quorums.nodes))
            .filter(|proposer| rows.iter().filter(|row| **row >> proposer & 1 == 1).count() >= holders)
            .fold(0, |set, proposer| set | 1 << proposer)
    }

    fn unanimous(&self, rows: &[u8; NODES_MAX]) -> bool {
        let known: Vec<u8> = rows.iter().copied().filter(|row| *row != 0).collect();
        let enough = known.len() == self.quorums.nodes || self.has(Bug::HastyUnanimity);
        enough && known.iter().all(|row| *row == known[0])
    }
}

impl Protocol for Variant {
    type Node = VariantNode;
    type Message = VariantMessage;

    const DISSEMINATES: bool = true;

    fn name(&self) -> &'static str {
        self.bug.map_or("rule again", Bug::name)
    }

    fn quorums(&self) -> Quorums {
        self.quorums
    }

    fn rounds_to_decide(&self, faults: u8) -> u8 {
        if faults == 0 { 1 } else { faults + 2 }
    }

    fn open(&self, node: usize, row: u8) -> VariantNode {
        let mut rows = [0; NODES_MAX];
        rows[node] = row;
        VariantNode {
            node: node as u8,
            round: 0,
            rows,
            suspected: 0,
            accepted: 0,
            heard_locked: 0,
            locked: false,
            heard_lock: false,
            received_decision: None,
            decision: None,
        }
    }

    fn message(&self, node: &VariantNode) -> Option<VariantMessage> {
        let VariantNode { rows, suspected, locked, decision, .. } = *node;
        Some(VariantMessage { rows, suspected, locked, decision })
    }

    fn receive(&self, node: &mut VariantNode, from: usize, message: &VariantMessage) {
        node.received_decision = node.received_decision.or(message.decision);
        let suspects = node.suspected >> from & 1 == 1 && !self.has(Bug::ForgivingSuspicion);
        let suspected = message.suspected >> node.node & 1 == 1
            && !self.has(Bug::OneSidedSuspicion)
            && !self.has(Bug::ForgivingSuspicion);
        if suspects || suspected {
            return;
        }
        node.accepted |= 1 << from;
        if !(self.has(Bug::FrozenRows) && node.locked) {
            for (mine, theirs) in node.rows.iter_mut().zip(message.rows) {
                assert!(*mine == 0 || theirs == 0 || *mine == theirs, "rows never change");
                *mine |= theirs;
            }
        }
        if message.locked {
            node.heard_lock = true;
            if !self.has(Bug::FrozenRows) || message.rows == node.rows {
                node.heard_locked |= 1 << from;
            }
        }
    }

    fn end_round(&self, node: &mut VariantNode) -> Option<u8> {
        let Quorums { nodes, decision, survival, .. } = self.quorums;
        let before = node.suspected;
        let missed = all_of(nodes) & !node.accepted & !(1 << node.node);
        node.suspected = if self.has(Bug::ForgivingSuspicion) { missed } else { before | missed };
        let suspected = node.suspected.count_ones() as usize;
        let active = nodes - suspected >= survival;
        let quiet = if self.has(Bug::FrozenRows) {
            node.suspected == before
        } else {
            suspected <= usize::from(node.round) + usize::from(self.has(Bug::LockEarly))
        };
        if active && (quiet || node.heard_lock) {
            node.locked = true;
            node.heard_locked |= 1 << node.node;
        }
        let quorum = match self.bug {
            Some(Bug::HalfDecides) => nodes / 2,
            Some(Bug::DecideAlone) => 1,
            _ => decision,
        };
        let by_lock = node.locked && node.heard_locked.count_ones() as usize >= quorum;
        let decides = if node.decision.is_some() {
            None
        } else if node.received_decision.is_some() {
            node.received_decision
        } else if active && (by_lock || self.unanimous(&node.rows)) {
            Some(self.held(&node.rows))
        } else {
            None
        };
        node.decision = node.decision.or(decides);
        node.round += 1;
        node.accepted = 0;
        node.heard_lock = false;
        node.received_decision = None;
        decides
    }

    fn view(&self, node: &VariantNode) -> View {
        let known = node.rows.iter().enumerate().filter(|(_, row)| **row != 0);
        View {
            known: known.fold(0, |set, (owner, _)| set | 1 << owner),
            suspected: node.suspected,
            locked: u8::from(node.locked) << node.node,
            decision: node.decision,
            running: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adversary::Adversary;
    use crate::cluster::Cluster;
    use crate::explore::{Exploration, Rows};
    use crate::property::Property;
    use crate::random::{Losses, Search};
    use crate::shipped::Shipped;

    fn agree<const N: usize>(losses: Losses) {
        let quorums = Quorums::of(N);
        let (shipped, rule) = (Shipped { quorums }, Variant { quorums, bug: None });
        let search = Search::<_, N> { protocol: shipped, losses, schedules: 0, seed: 5 };
        for number in 0..1_000 {
            let schedule = search.schedule(number);
            let mut one = Cluster::new(&shipped, schedule.rows);
            let mut other = Cluster::new(&rule, schedule.rows);
            for lost in &schedule.losses {
                one.step(&shipped, lost);
                other.step(&rule, lost);
                for node in 0..N {
                    let (one, other) = (shipped.view(&one.nodes[node]), rule.view(&other.nodes[node]));
                    assert_eq!(one, other, "node {node} in schedule {number}: {schedule:?}");
                }
                assert_eq!(one.decisions, other.decisions);
            }
        }
    }

    #[test]
    fn without_a_bug_it_is_the_shipped_consensus() {
        for losses in [Losses::Tolerated, Losses::AnyLink] {
            agree::<3>(losses);
            agree::<4>(losses);
            agree::<5>(losses);
            agree::<7>(losses);
            agree::<8>(losses);
        }
    }

    /// The smallest cluster in which a property fails, and that property.
    fn caught(bug: Bug) -> Option<(usize, Property)> {
        let variant = |nodes| Variant { quorums: Quorums::of(nodes), bug: Some(bug) };
        let rows = Rows::All;
        let adversary = Adversary::Omissions { faulty: 0b100 };
        let explored =
            Exploration::<_, 3> { protocol: variant(3), adversary, rows, rounds: 4 }.run(2, |_| {});
        if let Some(counterexample) = explored.counterexamples.first() {
            return Some((3, counterexample.property));
        }
        let adversary = Adversary::Omissions { faulty: 0b1000 };
        let explored =
            Exploration::<_, 4> { protocol: variant(4), adversary, rows, rounds: 4 }.run(2, |_| {});
        if let Some(counterexample) = explored.counterexamples.first() {
            return Some((4, counterexample.property));
        }
        let losses = Losses::Tolerated;
        let search = Search::<_, 7> { protocol: variant(7), losses, schedules: 20_000, seed: 1 };
        let searched = search.run(2, |_| {});
        searched.findings.first().map(|finding| (7, finding.counterexample.property))
    }

    #[test]
    fn every_bug_is_caught() {
        for bug in Bug::ALL {
            let caught = caught(bug);
            println!("{}: {caught:?}", bug.name());
            assert!(caught.is_some(), "{} went unnoticed", bug.name());
        }
    }

    #[test]
    fn frozen_rows_agree_but_need_not_end() {
        let protocol = Variant { quorums: Quorums::of(7), bug: Some(Bug::FrozenRows) };
        let search = Search::<_, 7> { protocol, losses: Losses::Tolerated, schedules: 20_000, seed: 1 };
        let searched = search.run(2, |_| {});
        let broken: Vec<_> =
            searched.findings.iter().map(|finding| finding.counterexample.property).collect();
        assert!(broken.contains(&Property::Termination), "{broken:?}");
        assert!(!broken.contains(&Property::UniformAgreement), "{broken:?}");
    }
}
