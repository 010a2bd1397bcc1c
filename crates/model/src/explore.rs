//! Explores all schedules of a small cluster with the explicit-state checker [stateright].
//!
//! A state is the whole cluster between two rounds; an action determines whose messages each node loses in the
//! next round. Three reductions keep the number of states small, and none leaves out a behaviour:
//!
//! - *Names.* No node is special, so the last nodes can be the faulty ones.
//! - *Losses without effect.* A node's behaviour in a round depends only on the messages that it receives, and the
//!   adversary chooses the losses of each node separately. So the losses of each node are tried separately; those
//!   that lead to the same state count as one choice, and an action combines one choice for each node.
//! - *Contents of rows.* The shipped protocol uses the contents of rows in two places. To decide, it counts the
//!   rows that contain a proposal. And it checks whether all rows are known and equal; since every row contains
//!   its owner, this means that all are full. So there are two cases. Either all rows are full, or this check
//!   never succeeds, and then the contents influence no lock, no suspicion and no time of a decision, only what is
//!   decided. In that case two decisions can differ only if they were made from different sets of rows, which
//!   [`Property::SameRows`] forbids. So for larger clusters, one choice of rows for each case suffices.
//!   [`Rows::All`] does not rely on this argument.
//!
//! States are identified by 64-bit fingerprints: among 10^8 states, two have the same with a probability of 3 in
//! 10,000.

use std::time::{Duration, Instant};

use stateright::{Checker, Model};

use crate::adversary::{Adversary, subsets};
use crate::cluster::Cluster;
use crate::property::Property;
use crate::protocol::{Protocol, all_of};
use crate::schedule::{Counterexample, Schedule};
use crate::search::search;

/// Which proposals the nodes hold at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All rows that the adversary can cause in the round of dissemination.
    All,
    /// One choice of rows for each case that the protocol can distinguish.
    Representative,
}

impl Rows {
    /// Name in the output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Representative => "representative",
        }
    }
}

/// Parameters of an exhaustive check.
#[derive(Clone, Debug)]
pub struct Exploration<P, const N: usize> {
    /// The protocol to check.
    pub protocol: P,
    /// Which messages may be lost.
    pub adversary: Adversary,
    /// The proposals that nodes hold at the beginning.
    pub rows: Rows,
    /// Number of rounds of the agreement.
    pub rounds: u8,
}

/// Result of an exhaustive check.
#[derive(Clone, Debug)]
pub struct Explored<const N: usize> {
    /// Number of distinct states.
    pub states: u64,
    /// Number of rounds run from one state to another, plus the number of initial states.
    pub transitions: u64,
    /// The properties that were checked in every state.
    pub properties: Vec<Property>,
    /// One minimised run for each property that failed. The check ends soon after the first failure.
    pub counterexamples: Vec<Counterexample<N>>,
    /// Duration of the check.
    pub took: Duration,
}

impl<P: Protocol, const N: usize> Exploration<P, N> {
    /// Runs the check. `progress` is called with the number of states from time to time.
    pub fn run(self, threads: usize, progress: impl FnMut(u64)) -> Explored<N> {
        let begin = Instant::now();
        let Self { adversary, .. } = self;
        let protocol = self.protocol.clone();
        let properties: Vec<_> =
            Property::ALL.into_iter().filter(|property| property.applies::<P>(adversary)).collect();
        let checker = search(self, threads, progress);
        let counterexamples = properties
            .iter()
            .filter_map(|property| {
                let path = checker.discovery(property.name())?.into_vec();
                let rows = path.first()?.0.rows;
                let losses = path.into_iter().filter_map(|(_, lost)| lost).collect();
                let schedule = Schedule { adversary, rows, losses };
                Some(schedule.counterexample(&protocol, *property).expect("a replay finds it again"))
            })
            .collect();
        Explored {
            states: checker.unique_state_count() as u64,
            transitions: checker.state_count() as u64,
            properties,
            counterexamples,
            took: begin.elapsed(),
        }
    }
}

impl<P: Protocol, const N: usize> Model for Exploration<P, N> {
    type State = Cluster<P::Node, N>;
    /// For each node, the senders whose messages it loses.
    type Action = [u8; N];

    fn init_states(&self) -> Vec<Self::State> {
        let rows = match self.rows {
            _ if !P::DISSEMINATES => vec![[all_of(N); N]],
            Rows::All => self.adversary.rows(),
            Rows::Representative => self.adversary.representative_rows(),
        };
        rows.into_iter().map(|rows| Cluster::new(&self.protocol, rows)).collect()
    }

    fn actions(&self, cluster: &Self::State, actions: &mut Vec<Self::Action>) {
        if cluster.round == self.rounds {
            return;
        }
        let messages = cluster.messages(&self.protocol);
        actions.push([0; N]);
        let mut results = Vec::with_capacity(1 << (N - 1));
        for node in 0..N {
            results.clear();
            let before = actions.len();
            for lost in subsets(self.adversary.droppable(N, node)) {
                let heard = all_of(N) & !lost;
                let result = (
                    cluster.round_of(&self.protocol, &messages, node, heard),
                    cluster.received_decision(heard),
                );
                if results.contains(&result) {
                    continue;
                }
                if lost != 0 {
                    actions.extend_from_within(..before);
                    actions[results.len() * before..].iter_mut().for_each(|action| action[node] = lost);
                }
                results.push(result);
            }
        }
    }

    fn next_state(&self, cluster: &Self::State, lost: Self::Action) -> Option<Self::State> {
        let mut next = cluster.clone();
        next.step(&self.protocol, &lost);
        Some(next)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        /// A property as the plain function that stateright requires, without captured variables.
        macro_rules! always {
            ($property:expr) => {
                stateright::Property::always($property.name(), |model: &Self, cluster: &Self::State| {
                    $property.holds(&model.protocol, model.adversary, cluster)
                })
            };
        }
        Property::ALL
            .into_iter()
            .filter(|property| property.applies::<P>(self.adversary))
            .map(|property| match property {
                Property::UniformAgreement => always!(Property::UniformAgreement),
                Property::SameRows => always!(Property::SameRows),
                Property::Validity => always!(Property::Validity),
                Property::Integrity => always!(Property::Integrity),
                Property::Termination => always!(Property::Termination),
                Property::Durability => always!(Property::Durability),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Quorums;
    use crate::random::{Losses, Search};
    use crate::shipped::Shipped;

    fn explore<const N: usize>(adversary: Adversary, rows: Rows, rounds: u8) -> Explored<N> {
        let explored = Exploration { protocol: Shipped::of(N), adversary, rows, rounds }.run(2, |_| {});
        let traces: Vec<_> = explored.counterexamples.iter().map(|found| &found.trace).collect();
        assert!(traces.is_empty(), "{traces:?}");
        explored
    }

    #[test]
    fn three_and_four_nodes_agree_whatever_is_lost() {
        explore::<3>(Adversary::Omissions { faulty: 0 }, Rows::All, 8);
        let three = explore::<3>(Adversary::Omissions { faulty: 0b100 }, Rows::All, 8);
        assert_eq!(three.properties, Property::ALL);
        assert!(three.states > 1_000, "{}", three.states);
        explore::<4>(Adversary::Omissions { faulty: 0b1000 }, Rows::All, 4);
        let any = explore::<3>(Adversary::AnyLink, Rows::All, 3);
        assert!(!any.properties.contains(&Property::Termination));
    }

    /// The number of states found without any reduction.
    fn naive<const N: usize>(exploration: &Exploration<Shipped, N>) -> usize {
        let mut seen: std::collections::HashSet<_> = exploration.init_states().into_iter().collect();
        let mut latest: Vec<_> = seen.iter().cloned().collect();
        while let Some(cluster) = latest.pop() {
            if cluster.round == exploration.rounds {
                continue;
            }
            let mut patterns = vec![[0; N]];
            for node in 0..N {
                patterns = patterns
                    .iter()
                    .flat_map(|pattern| {
                        subsets(exploration.adversary.droppable(N, node)).map(move |lost| {
                            let mut pattern = *pattern;
                            pattern[node] = lost;
                            pattern
                        })
                    })
                    .collect();
            }
            for lost in patterns {
                let mut next = cluster.clone();
                next.step(&exploration.protocol, &lost);
                if seen.insert(next.clone()) {
                    latest.push(next);
                }
            }
        }
        seen.len()
    }

    #[test]
    fn losses_that_nobody_notices_lead_nowhere_new() {
        for adversary in [Adversary::Omissions { faulty: 0b100 }, Adversary::AnyLink] {
            let exploration =
                Exploration { protocol: Shipped::of(3), adversary, rows: Rows::Representative, rounds: 4 };
            let all = naive::<3>(&exploration);
            assert_eq!(exploration.run(2, |_| {}).states, all as u64);
        }
    }

    #[test]
    fn what_rows_hold_influences_nothing_but_what_is_decided() {
        let protocol = Shipped { quorums: Quorums::of(5) };
        let search = Search::<_, 5> { protocol, losses: Losses::AnyLink, schedules: 0, seed: 3 };
        let rows_of_others = |number: u64| search.schedule(number + 1_000_000).rows;
        let mut compared = 0;
        for number in 0..2_000 {
            let schedule = search.schedule(number);
            let rows = [schedule.rows, rows_of_others(number)];
            if rows.contains(&[all_of(5); 5]) {
                continue;
            }
            compared += 1;
            let mut clusters = rows.map(|rows| Cluster::new(&protocol, rows));
            for lost in &schedule.losses {
                clusters.iter_mut().for_each(|cluster| cluster.step(&protocol, lost));
                for node in 0..5 {
                    let [one, other] = clusters.each_ref().map(|cluster| {
                        let view = protocol.view(&cluster.nodes[node]);
                        (view.known, view.suspected, view.locked, view.decision.is_some())
                    });
                    assert_eq!(one, other, "node {node} in schedule {number}");
                }
            }
        }
        assert!(compared > 500, "{compared}");
    }
}
