//! The other algorithms in the same rounds, in lock step: what the engine keeps for the consensus it keeps for them.

use weft_rounds::message::{Answer, Call, Phase, Round, Status, Value};
use weft_rounds::{Algorithm, Detector, Members, Parameters, Reduce, Reduction, Rounds};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// Nodes whose clocks agree: every round's messages arrive in the middle of it.
struct LockStep<A: Algorithm> {
    now: Instant,
    parameters: Parameters,
    nodes: Vec<Option<Rounds<A>>>,
    flights: Vec<(usize, usize, u8, Vec<u8>)>,
    /// By node: what it was told, and how its proposals ended.
    told: Vec<Vec<(u64, usize, Vec<u8>)>>,
    answers: Vec<Vec<Answer>>,
}

impl<A: Algorithm> LockStep<A> {
    fn new(nodes: usize) -> Self {
        let parameters = Parameters { window: 4, value_bytes: 32, silence: 16, ..Parameters::default() };
        let mut group = Self {
            now: Instant::ZERO,
            nodes: (0..nodes).map(|_| Some(Rounds::new(parameters.clone()))).collect(),
            parameters,
            flights: Vec::new(),
            told: vec![Vec::new(); nodes],
            answers: vec![Vec::new(); nodes],
        };
        for index in 0..nodes {
            group.configure(
                index,
                View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY },
            );
            group.call(index, Call::Subscribe, &[]);
        }
        group.call(0, Call::Start, &[]);
        group.now += group.parameters.one_way;
        group.deliver(&|_, _| false);
        group.timer(0);
        group.answers.iter_mut().for_each(Vec::clear);
        group
    }

    fn configure(&mut self, index: usize, view: View) {
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        self.handle(index, Event::Configure(configuration));
    }

    fn call(&mut self, index: usize, kind: Call, payload: &[u8]) {
        let message = Message { kind: kind as u8, payload };
        self.handle(index, Event::Call { caller: Caller::Host(kind as u32), message, last: true });
    }

    fn timer(&mut self, index: usize) {
        self.handle(index, Event::Timer { tag: 0 });
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let Some(engine) = self.nodes[index].as_mut() else { return };
        let (mut effects, mut memory) = (Effects::default(), Memory::new(0));
        engine.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut memory });
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let bytes = effects.message(*kind, payload).payload.to_vec();
                    self.flights.extend(to.iter().map(|to| (index, to.index(), *kind, bytes.clone())));
                }
                Effect::Reply { kind, payload, .. } => {
                    let bytes = effects.message(*kind, payload).payload;
                    if *kind == Call::Decided as u8 {
                        let value = Value::parse(bytes, 32).unwrap();
                        self.told[index].push((
                            value.instance,
                            value.proposer,
                            value.proposal.bytes.to_vec(),
                        ));
                    } else {
                        self.answers[index].push(Answer::parse(bytes).unwrap());
                    }
                }
                _ => {}
            }
        }
    }

    fn deliver(&mut self, lost: &dyn Fn(usize, usize) -> bool) {
        for (from, to, kind, payload) in std::mem::take(&mut self.flights) {
            if !lost(from, to) {
                let message = Message { kind, payload: &payload };
                self.handle(to, Event::Deliver { from: node(from), message, last: true });
            }
        }
    }

    /// Some rounds: their messages arrive, unless they are lost, then they end.
    fn rounds(&mut self, count: u64, lost: impl Fn(usize, usize) -> bool) {
        for _ in 0..count {
            self.deliver(&lost);
            self.now += self.parameters.period;
            for index in 0..self.nodes.len() {
                self.timer(index);
            }
        }
    }

    fn phase(&self, index: usize) -> Phase {
        self.nodes[index].as_ref().unwrap().phase()
    }

    fn members(&self, index: usize) -> Members {
        self.nodes[index].as_ref().unwrap().membership().members()
    }
}

#[test]
fn numbers_are_reduced_at_all_nodes() {
    let mut group = LockStep::<Reduce>::new(4);
    for (index, number) in [5u64, 1 << 40, 7, 2].into_iter().enumerate() {
        group.call(index, Call::Propose, &number.to_be_bytes());
    }
    group.rounds(4, |_, _| false);
    for index in 0..4 {
        let [(_, proposer, bytes)] = &group.told[index][..] else { panic!("{:?}", group.told[index]) };
        assert_eq!(*proposer, index);
        let reduction = Reduction::parse(bytes);
        assert_eq!((reduction.sum, reduction.maximum), (14 + (1 << 40), 1 << 40));
        assert_eq!(reduction.contributors, Members::first(4));
        assert_eq!(group.answers[index].iter().map(|answer| answer.status).collect::<Vec<_>>(), [Status::Ok]);
    }
}

#[test]
fn a_lossy_round_has_no_sum_anywhere_and_says_so() {
    let mut group = LockStep::<Reduce>::new(3);
    group.rounds(1, |_, _| false);
    for index in 0..3 {
        group.call(index, Call::Propose, &9u64.to_be_bytes());
    }
    group.rounds(1, |_, _| false);
    group.rounds(1, |from, to| (from, to) == (2, 0));
    group.rounds(3, |_, _| false);
    assert!(group.told.iter().all(Vec::is_empty), "{:?}", group.told);
    assert!(group.answers.iter().all(|answers| answers[0].status == Status::Dropped), "{:?}", group.answers);
}

#[test]
fn crashed_members_are_removed_at_the_same_time_everywhere() {
    let mut group = LockStep::<Detector>::new(5);
    group.rounds(5, |_, _| false);
    // It is heard by one member only in its last round.
    group.rounds(1, |from, to| from == 4 && to != 2);
    group.nodes[4] = None;
    group.rounds(30, |_, _| false);
    assert!(!group.told[0].is_empty());
    for index in 0..4 {
        assert_eq!(group.told[index], group.told[0], "all are told the same in the same instance");
        assert_eq!(group.members(index), Members::first(4));
    }
}

#[test]
fn who_omits_learns_that_it_is_suspected_and_stops() {
    let mut group = LockStep::<Detector>::new(3);
    group.rounds(3, |_, _| false);
    group.rounds(1, |from, to| (from, to) == (1, 2));
    group.rounds(30, |_, _| false);
    assert_eq!(group.phase(1), Phase::Fenced);
    assert_eq!(
        (group.members(0), group.members(2)),
        (Members::from_iter([0, 2]), Members::from_iter([0, 2]))
    );
}

#[test]
fn nodes_leave_and_come_back() {
    let mut group = LockStep::<Detector>::new(3);
    group.rounds(2, |_, _| false);
    group.call(2, Call::Leave, &[]);
    group.rounds(40, |_, _| false);
    assert_eq!((group.phase(2), group.members(0)), (Phase::Left, Members::first(2)));
    group.configure(
        2,
        View { epoch: Epoch(2), full: NodeSet::first(2), joining: NodeSet::EMPTY.with(node(2)) },
    );
    group.rounds(60, |_, _| false);
    assert_eq!((group.phase(2), group.members(0)), (Phase::Running, Members::first(3)));
    assert_eq!(group.members(2), Members::first(3));
}

#[test]
fn one_algorithm_does_not_listen_to_another() {
    let mut group = LockStep::<Reduce>::new(2);
    group.rounds(1, |_, _| false);
    let (_, _, kind, mut bytes) = group.flights.remove(0);
    bytes[14] = Detector::ID;
    assert!(Round::parse(&bytes, Reduction::BYTES, 32).is_ok());
    let to = 1;
    group
        .handle(to, Event::Deliver { from: node(0), message: Message { kind, payload: &bytes }, last: true });
    let counters = group.nodes[to].as_ref().unwrap().counters();
    assert!(counters.contains(&("dropped_malformed", 1)), "{counters:?}");
}
