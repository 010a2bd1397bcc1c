//! All checks that `weft check rounds` runs, and their results.

use std::time::Instant;

use serde::Serialize;

use crate::adversary::{Adversary, names};
use crate::explore::{Exploration, Rows};
use crate::pipeline::Pipelines;
use crate::printed::Printed;
use crate::property::Property;
use crate::protocol::{Protocol, Quorums, all_of};
use crate::random::{Losses, Search};
use crate::schedule::Counterexample;
use crate::shipped::Shipped;
use crate::violation::Violation;

/// The largest cluster that is checked exhaustively.
pub const EXHAUSTIVE_MAX: usize = 5;
/// The smallest cluster that is checked exhaustively.
pub const EXHAUSTIVE_MIN: usize = 3;

/// Parameters of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Sizes of the clusters that are checked exhaustively: [`EXHAUSTIVE_MIN`] to [`EXHAUSTIVE_MAX`] nodes each.
    pub nodes: Vec<usize>,
    /// Number of random schedules for each of 6 and 7 nodes, and for each kind of losses.
    pub random: u64,
    /// Seed of the random schedules.
    pub seed: u64,
    /// Number of threads that run the checks.
    pub threads: usize,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// `shipped` or `printed`.
    pub protocol: &'static str,
    /// `exhaustive` or `random`.
    pub method: &'static str,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Number of nodes that may be faulty.
    pub t: usize,
    /// The links that lose messages, as text.
    pub losses: String,
    /// The proposals that nodes hold at the beginning: `all` choices, `representative` or `random` ones; `None` if
    /// there is no dissemination.
    pub rows: Option<&'static str>,
    /// Number of instances in flight.
    pub instances: usize,
    /// Rounds of the longest run.
    pub rounds: u64,
    /// Number of distinct states, if the check was exhaustive.
    pub states: Option<u64>,
    /// Number of rounds of the whole cluster that were run.
    pub transitions: u64,
    /// Number of random schedules, if the check was random.
    pub schedules: Option<u64>,
    /// The properties that were checked in every state.
    pub properties: Vec<&'static str>,
    /// Whether all of them held.
    pub holds: bool,
    /// The violations, each with a minimised run.
    pub violations: Vec<Violation>,
    /// Duration of the check in seconds.
    pub seconds: f64,
}

/// The result of all checks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Whether the consensus that ships violated no property.
    pub shipped_stands: bool,
    /// Whether the algorithm as printed violates uniform agreement. `None` if the random schedules of seven nodes
    /// that show it were not run.
    pub printed_falls: Option<bool>,
    /// Number of states in all checks.
    pub states_explored: u64,
    /// Number of random schedules.
    pub schedules: u64,
    /// Seed of the random schedules.
    pub seed: u64,
    /// The result of each check.
    pub checks: Vec<Check>,
}

impl Outcome {
    /// Whether the result is as expected: the shipped consensus is correct, and the printed algorithm is not.
    pub fn is_good(&self) -> bool {
        self.shipped_stands && self.printed_falls != Some(false)
    }
}

impl Suite {
    /// Runs all checks. `progress` gets the name of the current check, the number of finished states or schedules,
    /// and their total number (0 if unknown).
    ///
    /// # Panics
    /// If a size of a cluster is out of range.
    pub fn run(&self, mut progress: impl FnMut(&str, u64, u64)) -> Outcome {
        let mut checks = Vec::new();
        for &nodes in &self.nodes {
            match nodes {
                3 => self.exhaust::<3>(&mut checks, &mut progress),
                4 => self.exhaust::<4>(&mut checks, &mut progress),
                5 => self.exhaust::<5>(&mut checks, &mut progress),
                _ => panic!("{nodes} nodes are too many, or too few, for an exhaustive check"),
            }
        }
        if self.nodes.contains(&3) {
            checks.push(self.pipelines(&mut progress));
        }
        if self.random > 0 {
            self.search::<6>(&mut checks, &mut progress);
            self.search::<7>(&mut checks, &mut progress);
        }
        let uniform = Property::UniformAgreement.name();
        let of = |protocol: &'static str| checks.iter().filter(move |check| check.protocol == protocol);
        Outcome {
            shipped_stands: of("shipped").all(|check| check.holds),
            printed_falls: (self.random > 0).then(|| {
                of("printed")
                    .flat_map(|check| &check.violations)
                    .any(|violation| violation.property == uniform)
            }),
            states_explored: checks.iter().filter_map(|check| check.states).sum(),
            schedules: checks.iter().filter_map(|check| check.schedules).sum(),
            seed: self.seed,
            checks,
        }
    }

    fn exhaust<const N: usize>(&self, checks: &mut Vec<Check>, progress: &mut impl FnMut(&str, u64, u64)) {
        let quorums = Quorums::of(N);
        // Three and four nodes run the rounds of the longer window. Five nodes run those of the shorter one, which
        // two faults need.
        let rounds = if N == EXHAUSTIVE_MAX { 4 } else { 8 };
        let any_rounds = if N == 3 { 8 } else { 4 };
        // Nodes are interchangeable, so the last ones are the faulty ones.
        let last = |count: usize| Adversary::Omissions { faulty: all_of(N) & !(all_of(N) >> count) };
        for faults in 0..=quorums.faults {
            let rows = if faults == 2 { Rows::Representative } else { Rows::All };
            checks.push(self.explore::<_, N>(Shipped { quorums }, last(faults), rows, rounds, progress));
        }
        // With losses on any link, five nodes have too many states.
        if N < EXHAUSTIVE_MAX {
            let rows = if N == 3 { Rows::All } else { Rows::Representative };
            let any = Adversary::AnyLink;
            checks.push(self.explore::<_, N>(Shipped { quorums }, any, rows, any_rounds, progress));
        }
        checks.push(self.explore::<_, N>(Printed { quorums }, last(quorums.faults), Rows::All, 4, progress));
    }

    fn explore<P: Protocol, const N: usize>(
        &self,
        protocol: P,
        adversary: Adversary,
        rows: Rows,
        rounds: u8,
        progress: &mut impl FnMut(&str, u64, u64),
    ) -> Check {
        let (name, quorums) = (protocol.name(), protocol.quorums());
        let losses = match adversary {
            Adversary::Omissions { faulty: 0 } => "none".to_owned(),
            Adversary::Omissions { faulty } => format!("from and to {}", names(faulty)),
            Adversary::AnyLink => "any link".to_owned(),
        };
        let label = format!("{name}, {N} nodes, losses: {losses}");
        let exploration = Exploration::<P, N> { protocol, adversary, rows, rounds };
        let explored = exploration.run(self.threads, |states| progress(&label, states, 0));
        Check {
            protocol: name,
            method: "exhaustive",
            nodes: N,
            t: quorums.faults,
            losses,
            rows: P::DISSEMINATES.then(|| rows.name()),
            instances: 1,
            rounds: rounds.into(),
            states: Some(explored.states),
            transitions: explored.transitions,
            schedules: None,
            properties: explored.properties.into_iter().map(Property::name).collect(),
            holds: explored.counterexamples.is_empty(),
            violations: explored
                .counterexamples
                .into_iter()
                .map(|counterexample| Violation::new(counterexample, None))
                .collect(),
            seconds: explored.took.as_secs_f64(),
        }
    }

    fn pipelines(&self, progress: &mut impl FnMut(&str, u64, u64)) -> Check {
        let begin = Instant::now();
        let pipelines = Pipelines::default();
        let explored =
            pipelines.clone().run(self.threads, |states| progress("shipped, pipelined", states, 0));
        Check {
            protocol: "shipped",
            method: "exhaustive",
            nodes: Pipelines::NODES,
            t: Quorums::of(Pipelines::NODES).faults,
            losses: format!("from and to {} in {} rounds", names(Pipelines::FAULTY), pipelines.lossy_rounds),
            rows: Some("all"),
            instances: Pipelines::WINDOW,
            rounds: pipelines.rounds,
            states: Some(explored.states),
            transitions: explored.transitions,
            schedules: None,
            properties: Pipelines::PROPERTIES.to_vec(),
            holds: explored.violations.is_empty(),
            violations: explored.violations,
            seconds: begin.elapsed().as_secs_f64(),
        }
    }

    fn search<const N: usize>(&self, checks: &mut Vec<Check>, progress: &mut impl FnMut(&str, u64, u64)) {
        let quorums = Quorums::of(N);
        let shipped = Shipped { quorums };
        checks.push(self.random::<_, N>(shipped, Losses::Tolerated, progress));
        checks.push(self.random::<_, N>(shipped, Losses::AnyLink, progress));
        checks.push(self.random::<_, N>(Printed { quorums }, Losses::Tolerated, progress));
    }

    fn random<P: Protocol, const N: usize>(
        &self,
        protocol: P,
        losses: Losses,
        progress: &mut impl FnMut(&str, u64, u64),
    ) -> Check {
        let (name, faults) = (protocol.name(), protocol.quorums().faults);
        let who = match losses {
            Losses::Tolerated => format!("from and to any {faults} or fewer"),
            Losses::AnyLink => "any link".to_owned(),
        };
        let label = format!("{name}, {N} nodes, random losses: {who}");
        let search = Search::<P, N> { protocol, losses, schedules: self.random, seed: self.seed };
        let searched = search.run(self.threads, |done| progress(&label, done, self.random));
        Check {
            protocol: name,
            method: "random",
            nodes: N,
            t: faults,
            losses: who,
            rows: P::DISSEMINATES.then_some("random"),
            instances: 1,
            rounds: faults as u64 + 2,
            states: None,
            transitions: searched.rounds,
            schedules: Some(searched.schedules),
            properties: searched.properties.into_iter().map(Property::name).collect(),
            holds: searched.findings.is_empty(),
            violations: searched
                .findings
                .into_iter()
                .map(|finding| {
                    Violation::new(finding.counterexample, Some((finding.violations, finding.schedule)))
                })
                .collect(),
            seconds: searched.took.as_secs_f64(),
        }
    }
}

impl Violation {
    fn new<const N: usize>(counterexample: Counterexample<N>, random: Option<(u64, u64)>) -> Self {
        let Counterexample { property, schedule, trace } = counterexample;
        Self {
            property: property.name(),
            schedules: random.map(|(schedules, _)| schedules),
            schedule: random.map(|(_, number)| number),
            losses: schedule.losses.iter().map(|lost| lost.to_vec()).collect(),
            trace,
        }
    }
}
