//! Properties of an agreement.

use serde::Serialize;

use crate::adversary::Adversary;
use crate::cluster::Cluster;
use crate::protocol::{Protocol, all_of, nodes_of};

/// A property that must hold in every reachable state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// No two nodes decide differently, faulty nodes included.
    UniformAgreement,
    /// No two nodes decide by themselves from different sets of rows: this implies agreement, whatever the rows
    /// contain.
    SameRows,
    /// Every decided value was proposed, and every proposal of a correct node is decided.
    Validity,
    /// A node decides at most once, and keeps its decision.
    Integrity,
    /// Correct nodes have decided after f + 2 rounds, or after one round if no node is faulty.
    Termination,
    /// Enough nodes hold every decided proposal, at least one correct node among them.
    Durability,
}

impl Property {
    /// All properties.
    pub const ALL: [Self; 6] = [
        Self::UniformAgreement,
        Self::SameRows,
        Self::Validity,
        Self::Integrity,
        Self::Termination,
        Self::Durability,
    ];

    /// Name of the property.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UniformAgreement => "uniform agreement",
            Self::SameRows => "same rows",
            Self::Validity => "validity",
            Self::Integrity => "integrity",
            Self::Termination => "termination",
            Self::Durability => "durability",
        }
    }

    /// Whether the property is meaningful for this protocol and adversary.
    pub fn applies<P: Protocol>(self, adversary: Adversary) -> bool {
        match self {
            Self::UniformAgreement | Self::Validity | Self::Integrity => true,
            Self::Termination => adversary.faults().is_some(),
            Self::SameRows | Self::Durability => P::DISSEMINATES,
        }
    }

    /// Whether the property holds in a state.
    pub fn holds<P: Protocol, const N: usize>(
        self,
        protocol: &P,
        adversary: Adversary,
        cluster: &Cluster<P::Node, N>,
    ) -> bool {
        let correct = adversary.correct(N);
        let mut decided = cluster.decisions.iter().flatten();
        match self {
            Self::UniformAgreement => {
                let first = decided.next();
                decided.all(|decision| Some(decision) == first)
            }
            Self::SameRows => !cluster.unlike,
            Self::Validity => decided.all(|decision| decision & !all_of(N) == 0 && correct & !decision == 0),
            Self::Integrity => !cluster.undone,
            Self::Termination => match adversary.faults() {
                Some(faults) if cluster.round >= protocol.rounds_to_decide(faults) => {
                    nodes_of(correct).all(|node| cluster.decisions[node].is_some())
                }
                _ => true,
            },
            Self::Durability => decided.all(|decision| {
                nodes_of(*decision).all(|proposer| {
                    let holders = (0..N).filter(|node| cluster.rows[*node] >> proposer & 1 == 1);
                    let holders = holders.fold(0u8, |set, node| set | 1 << node);
                    holders.count_ones() as usize >= protocol.quorums().holders
                        && (correct == 0 || holders & correct != 0)
                })
            }),
        }
    }
}
