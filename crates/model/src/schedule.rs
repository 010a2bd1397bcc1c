//! A recorded run: it can be replayed, minimised, and printed.

use std::fmt::Write;

use crate::adversary::{Adversary, names};
use crate::cluster::Cluster;
use crate::property::Property;
use crate::protocol::{Protocol, View, all_of, nodes_of};

/// All that determines a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<const N: usize> {
    /// The adversary of the run.
    pub adversary: Adversary,
    /// For each node, the proposers whose proposals it holds after the round of dissemination.
    pub rows: [u8; N],
    /// For each round of the agreement and each node, the senders whose messages it loses.
    pub losses: Vec<[u8; N]>,
}

/// A run that violates a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample<const N: usize> {
    /// The property that the run violates.
    pub property: Property,
    /// The run. No loss can be left out of it.
    pub schedule: Schedule<N>,
    /// The run as text, round by round.
    pub trace: String,
}

impl<const N: usize> Schedule<N> {
    /// The first of `properties` that the run violates, and the number of rounds after which it does.
    pub fn breaks<P: Protocol>(&self, protocol: &P, properties: &[Property]) -> Option<(Property, usize)> {
        let mut cluster = Cluster::<P::Node, N>::new(protocol, self.rows);
        for (round, lost) in self.losses.iter().enumerate() {
            cluster.step(protocol, lost);
            if let Some(property) =
                properties.iter().find(|property| !property.holds(protocol, self.adversary, &cluster))
            {
                return Some((*property, round + 1));
            }
        }
        None
    }

    /// The smallest run near this one that violates the property. `None` if this one does not.
    pub fn counterexample<P: Protocol>(
        mut self,
        protocol: &P,
        property: Property,
    ) -> Option<Counterexample<N>> {
        // Deliver messages whose loss is not needed, until no more can be.
        loop {
            let (_, rounds) = self.breaks(protocol, &[property])?;
            self.losses.truncate(rounds);
            let before = self.clone();
            for node in 0..N {
                for from in nodes_of(all_of(N) & !self.rows[node]) {
                    self.keep_if_broken(protocol, property, |smaller| smaller.rows[node] |= 1 << from);
                }
                for round in 0..self.losses.len() {
                    for from in nodes_of(self.losses[round][node]) {
                        self.keep_if_broken(protocol, property, |smaller| {
                            smaller.losses[round][node] &= !(1 << from);
                        });
                    }
                }
            }
            if self == before {
                break;
            }
        }
        let trace = self.trace(protocol, property);
        Some(Counterexample { property, schedule: self, trace })
    }

    fn keep_if_broken<P: Protocol>(&mut self, protocol: &P, property: Property, change: impl Fn(&mut Self)) {
        let mut smaller = self.clone();
        change(&mut smaller);
        if smaller.breaks(protocol, &[property]).is_some() {
            *self = smaller;
        }
    }

    /// The run as text, round by round: which messages are lost, and which nodes receive rows, lock and decide.
    pub fn trace<P: Protocol>(&self, protocol: &P, property: Property) -> String {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("text grows");
        let quorums = protocol.quorums();
        let who = match self.adversary {
            Adversary::Omissions { faulty } => format!("faulty {}", names(faulty)),
            Adversary::AnyLink => "any link may lose".to_owned(),
        };
        line(format!(
            "{}: {N} nodes, t = {}, Q = {}, {who}",
            protocol.name(),
            quorums.faults,
            quorums.decision
        ));
        if P::DISSEMINATES {
            let lost: [u8; N] = std::array::from_fn(|node| all_of(N) & !self.rows[node]);
            line(format!("dissemination: {}", losses(&lost)));
            let rows: Vec<_> = self.rows.iter().map(|row| names(*row)).collect();
            line(format!("    rows {}", rows.join(" ")));
        }
        let mut cluster = Cluster::<P::Node, N>::new(protocol, self.rows);
        for (round, lost) in self.losses.iter().enumerate() {
            let before: [View; N] = std::array::from_fn(|node| protocol.view(&cluster.nodes[node]));
            line(format!("round {round}: {}", losses(lost)));
            cluster.step(protocol, lost);
            for (node, before) in before.iter().enumerate() {
                let after = protocol.view(&cluster.nodes[node]);
                let mut news = Vec::new();
                if after.known != before.known {
                    let what = if P::DISSEMINATES { "rows" } else { "values" };
                    news.push(format!(
                        "learns {}, knows {what} {}",
                        names(after.known & !before.known),
                        names(after.known)
                    ));
                }
                if after.suspected != before.suspected {
                    news.push(format!("suspects {}", names(after.suspected)));
                }
                let locked = |view: &View| view.locked >> node & 1 == 1;
                if locked(&after) && !locked(before) {
                    news.push("locks".to_owned());
                }
                if after.locked & !(1 << node) != before.locked & !(1 << node) {
                    news.push(format!("knows locked {}", names(after.locked)));
                }
                match (before.decision, after.decision) {
                    (None, Some(decision)) => news.push(format!("DECIDES {}", names(decision))),
                    (Some(old), Some(new)) if old != new => news.push(format!("CHANGES TO {}", names(new))),
                    _ => {}
                }
                if before.running && !after.running {
                    news.push("gives up".to_owned());
                }
                if !news.is_empty() {
                    line(format!("    node {node}{} {}", self.mark(node), news.join("; ")));
                }
            }
        }
        line(format!("violated: {}", property.name()));
        for (node, decision) in cluster.decisions.iter().enumerate() {
            let decision = decision.map_or("nothing".to_owned(), names);
            line(format!("    node {node}{} has decided {decision}", self.mark(node)));
        }
        text
    }

    /// Mark behind the number of a faulty node in the text of a run.
    fn mark(&self, node: usize) -> &'static str {
        match self.adversary {
            Adversary::Omissions { faulty } if faulty >> node & 1 == 1 => " (faulty)",
            _ => "",
        }
    }
}

/// The losses of a round as text: `loses 5→0,1,2  6→1`, or that all messages arrive.
pub(crate) fn losses<const N: usize>(lost: &[u8; N]) -> String {
    let links: Vec<_> = (0..N)
        .filter_map(|from| {
            let to: Vec<_> =
                (0..N).filter(|to| lost[*to] >> from & 1 == 1).map(|to| to.to_string()).collect();
            (!to.is_empty()).then(|| format!("{from}→{}", to.join(",")))
        })
        .collect();
    if links.is_empty() { "all arrive".to_owned() } else { format!("lost {}", links.join("  ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Quorums;
    use crate::variant::{Bug, Variant};

    #[test]
    fn a_counterexample_loses_nothing_in_vain() {
        let protocol = Variant { quorums: Quorums::of(3), bug: Some(Bug::OneHolder) };
        // Node 2's proposal reaches no other node, and many other messages are lost, too.
        let schedule = Schedule {
            adversary: Adversary::Omissions { faulty: 0b100 },
            rows: [0b011, 0b011, 0b100],
            losses: vec![[0b100, 0, 0b001], [0b100, 0, 0b010], [0, 0b100, 0], [0; 3]],
        };
        let counterexample =
            schedule.counterexample(&protocol, Property::Durability).expect("it is not held");
        let Schedule { rows, losses, .. } = counterexample.schedule;
        assert_eq!(rows[..2], [0b011, 0b011]);
        assert!(losses.iter().flatten().all(|lost| *lost == 0), "{losses:?}");
        let trace = counterexample.trace;
        for part in
            ["dissemination: lost 2→0,1", "round 0: all arrive", "DECIDES {0,1,2}", "violated: durability"]
        {
            assert!(trace.contains(part), "{part} is not in\n{trace}");
        }
    }
}
