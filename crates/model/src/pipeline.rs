//! Many instances in flight: which values nodes release, in which order, and which nodes fence themselves.
//!
//! The complete [`Ckc`] runs here, with its window, its proposals and the fetching of missing ones, on three
//! nodes, one of which is faulty. A link loses all messages of a round or none: the round's message with its
//! records for all instances in flight, and the requests and answers after it. Since an instance begins in every
//! round, every loss has an effect, and states hardly ever coincide. So all losses are tried for a few rounds,
//! followed by some rounds without losses.

use std::fmt::Write;
use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};
use weft_rounds::message::{Kind, Proposal};
use weft_rounds::{Algorithm, Ckc, Decision, Instance, Members, Output, Parameters};
use weft_waist::Message;

use crate::adversary::{Adversary, names, subsets};
use crate::protocol::nodes_of;
use crate::schedule::losses;
use crate::search::search;
use crate::violation::Violation;

const NODES: usize = 3;
const WINDOW: usize = 4;
const RECORD_BYTES: usize = 12;

const SAME_PREFIX: &str = "same prefix";
const WHOLE: &str = "values whole";
const NO_CONTRADICTION: &str = "no contradiction";
const CORRECT_RUN: &str = "correct nodes run";
const CORRECT_RELEASE: &str = "correct nodes release";

/// An exhaustive check of the pipelined consensus.
#[derive(Clone, Debug)]
pub struct Pipelines {
    /// Number of rounds in which messages may be lost.
    pub lossy_rounds: u64,
    /// Total number of rounds. No message is lost in the later ones.
    pub rounds: u64,
    parameters: Parameters,
}

/// Result of the check.
#[derive(Clone, Debug)]
pub struct PipelinesExplored {
    /// Number of distinct states.
    pub states: u64,
    /// Number of rounds run from one state to another.
    pub transitions: u64,
    /// The properties that were violated.
    pub violations: Vec<Violation>,
}

impl Pipelines {
    /// Nodes of the cluster.
    pub const NODES: usize = NODES;
    /// Bit mask of the faulty node, the last one.
    pub const FAULTY: u8 = 1 << (NODES - 1);
    /// Number of rounds of an instance.
    pub const WINDOW: usize = WINDOW;
    /// The properties that are checked in every state: what one node has released is a prefix of what another has;
    /// each released value is the one that was proposed; no node sends contradictory messages; no correct node is
    /// fenced; and a correct node releases an instance at most six rounds after it began. These are f + 2 rounds
    /// of consensus, and two in which the node may request a value from the faulty node and then from the correct
    /// one.
    pub const PROPERTIES: [&'static str; 5] =
        [SAME_PREFIX, WHOLE, NO_CONTRADICTION, CORRECT_RUN, CORRECT_RELEASE];

    /// A check of `rounds` rounds; messages may be lost in the first `lossy_rounds`.
    pub fn new(lossy_rounds: u64, rounds: u64) -> Self {
        let parameters = Parameters { window: WINDOW as u64, value_bytes: 8, ..Parameters::default() };
        Self { lossy_rounds, rounds, parameters }
    }

    /// Runs the check. `progress` is called with the number of states from time to time.
    pub fn run(self, threads: usize, progress: impl FnMut(u64)) -> PipelinesExplored {
        let checker = search(self, threads, progress);
        let violations = Self::PROPERTIES
            .into_iter()
            .filter_map(|property| {
                let path = checker.discovery(property)?.into_vec();
                let trace = trace(property, &path);
                let losses = path.iter().filter_map(|(_, lost)| Some((*lost)?.to_vec())).collect();
                Some(Violation { property, schedules: None, schedule: None, losses, trace })
            })
            .collect();
        PipelinesExplored {
            states: checker.unique_state_count() as u64,
            transitions: checker.state_count() as u64,
            violations,
        }
    }
}

impl Default for Pipelines {
    /// Two windows of rounds, with losses in the first window.
    fn default() -> Self {
        Self::new(WINDOW as u64, 2 * WINDOW as u64)
    }
}

/// The cluster before a round.
#[derive(Clone, Debug)]
pub struct Pipeline {
    round: u64,
    nodes: [Node; NODES],
    contradiction: bool,
}

#[derive(Clone, Debug)]
struct Node {
    ckc: Ckc,
    seen: Seen,
}

/// The outputs of a node so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    fenced: bool,
    /// For each complete instance, the proposers whose values were released.
    released: Vec<u8>,
    /// The proposers whose values were released so far in the incomplete instance.
    open: u8,
    /// Whether a released value differs from the proposed one.
    changed: bool,
    /// Instance and proposer of each value that arrived outside a round. Together with the rows, this determines
    /// which values the node holds.
    fetched: Vec<(u64, u8)>,
}

/// Collects the messages that a node sends outside rounds, and the values that it releases.
struct Outbox<'a> {
    seen: &'a mut Seen,
    sent: Vec<(u8, u8, Vec<u8>)>,
}

impl Output for Outbox<'_> {
    fn send(&mut self, to: Members, kind: u8, payload: &[&[u8]]) {
        self.sent.push((to.bits(), kind, payload.concat()));
    }

    fn decide(&mut self, decision: &Decision<'_>) {
        let Decision { instance, proposer, proposal } = *decision;
        self.seen.open |= 1 << proposer;
        self.seen.changed |= proposal.bytes != value(instance, proposer) || proposal.change;
        self.seen.changed |= instance != self.seen.released.len() as u64;
    }

    fn close(&mut self, instance: u64) {
        self.seen.changed |= instance != self.seen.released.len() as u64;
        self.seen.released.push(std::mem::take(&mut self.seen.open));
    }
}

/// The proposal of a node in an instance.
fn value(instance: u64, proposer: usize) -> [u8; 8] {
    (instance << 8 | proposer as u64).to_be_bytes()
}

impl Node {
    /// Calls the algorithm, and returns the messages that it sends.
    fn call(&mut self, call: impl FnOnce(&mut Ckc, &mut Outbox<'_>)) -> Vec<(u8, u8, Vec<u8>)> {
        let mut outbox = Outbox { seen: &mut self.seen, sent: Vec::new() };
        call(&mut self.ckc, &mut outbox);
        outbox.sent
    }
}

impl Pipeline {
    /// Runs a complete round.
    fn step(&mut self, lost: &[u8; NODES]) {
        let members = Members::first(NODES);
        let arrives = |from: usize, to: usize| from != to && lost[to] >> from & 1 == 0;
        let mut areas = [None; NODES];
        // Sender, receivers, kind and content of messages outside the round.
        let mut mail = Vec::new();
        for (from, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| !node.seen.fenced) {
            let mut area = [0; WINDOW * RECORD_BYTES];
            let bytes = value(self.round, from);
            node.ckc.begin(self.round, members, &Proposal { change: false, bytes: &bytes }, &mut area);
            areas[from] = Some(area);
            let sent = node.call(|ckc, outbox| ckc.settle(outbox));
            mail.extend(sent.into_iter().map(|(to, kind, payload)| (from, to, kind, payload)));
        }
        for (to, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| !node.seen.fenced) {
            for (from, area) in areas.iter().enumerate().filter(|(from, _)| arrives(*from, to)) {
                let bytes = value(self.round, from);
                let proposal = Proposal { change: false, bytes: &bytes };
                if let Some(area) = area {
                    self.contradiction |= node.ckc.receive(from, area, &proposal).is_err();
                }
            }
        }
        // Deliver requests first, then the answers to them.
        while !mail.is_empty() {
            for (from, receivers, kind, payload) in std::mem::take(&mut mail) {
                for to in nodes_of(receivers).filter(|to| arrives(from, *to)) {
                    let node = &mut self.nodes[to];
                    if node.seen.fenced {
                        continue;
                    }
                    if kind == Kind::Value as u8 {
                        let instance = u64::from_be_bytes(payload[..8].try_into().expect("eight bytes"));
                        node.seen.fetched.push((instance, payload[8]));
                        node.seen.fetched.sort_unstable();
                        node.seen.fetched.dedup();
                    }
                    let sent = node.call(|ckc, outbox| {
                        let message = Message { kind, payload: &payload };
                        ckc.deliver(from, message, outbox).expect("nodes understand each other");
                    });
                    mail.extend(sent.into_iter().map(|(back, kind, payload)| (to, back, kind, payload)));
                }
            }
        }
        for node in self.nodes.iter_mut().filter(|node| !node.seen.fenced) {
            node.seen.fenced = node.ckc.end().is_err();
        }
        self.round += 1;
    }

    fn correct(&self) -> impl Iterator<Item = &Node> {
        let correct = |(node, _): &(usize, &Node)| Pipelines::FAULTY >> node & 1 == 0;
        self.nodes.iter().enumerate().filter(correct).map(|(_, node)| node)
    }
}

/// The identity of a node's state: its outputs, and its instances, latest first.
type Remembered<'a> = (&'a Seen, [Option<&'a Instance>; 2 * WINDOW]);

impl Pipeline {
    /// All state that later behaviour depends on. The values that a node holds follow from the rows and the
    /// fetched values.
    fn key(&self) -> (u64, bool, [Remembered<'_>; NODES]) {
        let remembered = self.nodes.each_ref().map(|node| {
            let consensus = |back| node.ckc.consensus(self.round.checked_sub(1 + back as u64)?);
            (&node.seen, std::array::from_fn(consensus))
        });
        (self.round, self.contradiction, remembered)
    }
}

impl Hash for Pipeline {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for Pipeline {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Model for Pipelines {
    type State = Pipeline;
    /// For each node, the senders whose messages it loses.
    type Action = [u8; NODES];

    fn init_states(&self) -> Vec<Pipeline> {
        let nodes = std::array::from_fn(|node| {
            let mut ckc = Ckc::new(&self.parameters);
            assert_eq!(ckc.area_bytes(), WINDOW * RECORD_BYTES, "the areas have room");
            ckc.start(node, 0);
            Node { ckc, seen: Seen::default() }
        });
        vec![Pipeline { round: 0, nodes, contradiction: false }]
    }

    fn actions(&self, pipeline: &Pipeline, actions: &mut Vec<Self::Action>) {
        if pipeline.round == self.rounds {
            return;
        }
        let adversary = Adversary::Omissions { faulty: Self::FAULTY };
        actions.push([0; NODES]);
        if pipeline.round >= self.lossy_rounds {
            return;
        }
        for node in 0..NODES {
            let before = actions.clone();
            for lost in subsets(adversary.droppable(NODES, node)).skip(1) {
                actions.extend(before.iter().map(|action| {
                    let mut action = *action;
                    action[node] = lost;
                    action
                }));
            }
        }
    }

    fn next_state(&self, pipeline: &Pipeline, lost: Self::Action) -> Option<Pipeline> {
        let mut next = pipeline.clone();
        next.step(&lost);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAME_PREFIX, |_, pipeline: &Pipeline| {
                let released = pipeline.nodes.iter().map(|node| &node.seen.released);
                let longest =
                    released.clone().max_by_key(|released| released.len()).expect("there are nodes");
                released.into_iter().all(|released| longest.starts_with(released))
            }),
            Property::always(WHOLE, |_, pipeline: &Pipeline| {
                pipeline.nodes.iter().all(|node| !node.seen.changed)
            }),
            Property::always(NO_CONTRADICTION, |_, pipeline: &Pipeline| !pipeline.contradiction),
            Property::always(CORRECT_RUN, |_, pipeline: &Pipeline| {
                pipeline.correct().all(|node| !node.seen.fenced)
            }),
            Property::always(CORRECT_RELEASE, |_, pipeline: &Pipeline| {
                pipeline.correct().all(|node| node.seen.released.len() as u64 + 6 >= pipeline.round)
            }),
        ]
    }
}

/// The run as text.
fn trace(property: &str, path: &[(Pipeline, Option<[u8; NODES]>)]) -> String {
    let mut text = format!("shipped, pipelined: {NODES} nodes, faulty {}\n", names(Pipelines::FAULTY));
    for (pipeline, lost) in path {
        let Pipeline { round, nodes, .. } = pipeline;
        for (number, Node { seen, .. }) in nodes.iter().enumerate() {
            let released: Vec<_> = seen.released.iter().map(|values| names(*values)).collect();
            let fenced = if seen.fenced { "fenced, " } else { "" };
            writeln!(text, "    node {number}: {fenced}released {}", released.join(" ")).expect("text grows");
        }
        if let Some(lost) = lost {
            writeln!(text, "round {round}: {}", losses(lost)).expect("text grows");
        }
    }
    writeln!(text, "violated: {property}").expect("text grows");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_release_the_same_in_order() {
        let explored = Pipelines::new(3, 8).run(2, |_| {});
        assert_eq!(explored.violations, []);
        // Sixteen patterns of losses in each lossy round lead to different states.
        assert!(explored.states > 1 << 12, "{}", explored.states);
    }

    #[test]
    fn without_losses_three_rounds_after_a_proposal_it_is_released() {
        let model = Pipelines::new(0, 8);
        let mut pipeline = model.init_states().remove(0);
        for round in 1..=8 {
            pipeline.step(&[0; NODES]);
            // A value is proposed in round r, decided at the end of r + 1, and released when r + 2 begins.
            let released = vec![0b111; (round as usize).saturating_sub(2)];
            assert!(pipeline.nodes.iter().all(|node| node.seen.released == released && !node.seen.fenced));
        }
    }

    #[test]
    fn a_node_that_hears_nobody_fences_itself() {
        let mut pipeline = Pipelines::default().init_states().remove(0);
        for _ in 0..=WINDOW {
            pipeline.step(&[0b100, 0b100, 0b011]);
        }
        let fenced = pipeline.nodes.each_ref().map(|node| node.seen.fenced);
        assert_eq!(fenced, [false, false, true]);
    }
}
