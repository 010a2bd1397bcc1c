//! The other algorithms on the same engine, in lock step: what the engine guarantees to the consensus, it
//! guarantees to them.

use crate::lock_step::{LockStep, node};
use weft_rounds::message::{Call, Phase, Round, Status};
use weft_rounds::{Algorithm, Detector, Members, Parameters, Reduce, Reduction};
use weft_waist::{Engine, Event, Message};

fn group<A: Algorithm>(nodes: usize) -> LockStep<A> {
    let parameters = Parameters { window: 4, value_bytes: 32, silence: 16, ..Parameters::default() };
    LockStep::new(nodes, parameters)
}

#[test]
fn numbers_are_reduced_at_all_nodes() {
    let mut group = group::<Reduce>(4);
    for (index, number) in [5u64, 1 << 40, 7, 2].into_iter().enumerate() {
        group.call(index, Call::Propose as u8, 0, &number.to_be_bytes());
    }
    group.rounds(4, |_, _| false);
    for index in 0..4 {
        let told = group.told(index);
        let [(_, proposer, bytes)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(*proposer, index);
        let reduction = Reduction::parse(bytes);
        assert_eq!((reduction.sum, reduction.maximum), (14 + (1 << 40), 1 << 40));
        assert_eq!(reduction.contributors, Members::first(4));
        assert_eq!(group.answers(index).iter().map(|answer| answer.status).collect::<Vec<_>>(), [Status::Ok]);
    }
}

#[test]
fn a_lossy_round_has_no_sum_anywhere_and_says_so() {
    let mut group = group::<Reduce>(3);
    group.rounds(1, |_, _| false);
    for index in 0..3 {
        group.call(index, Call::Propose as u8, 0, &9u64.to_be_bytes());
    }
    group.rounds(1, |_, _| false);
    group.rounds(1, |from, to| (from, to) == (2, 0));
    group.rounds(3, |_, _| false);
    for index in 0..3 {
        assert_eq!(group.told(index), []);
        assert_eq!(group.answers(index)[0].status, Status::Dropped);
    }
}

#[test]
fn crashed_members_are_removed_at_the_same_time_everywhere() {
    let mut group = group::<Detector>(5);
    group.rounds(5, |_, _| false);
    // In its last round, member 4's message reaches one member only.
    group.rounds(1, |from, to| from == 4 && to != 2);
    group.nodes[4] = None;
    group.rounds(30, |_, _| false);
    assert!(!group.told(0).is_empty());
    for index in 0..4 {
        assert_eq!(group.told(index), group.told(0), "all are told the same in the same instance");
        assert_eq!(group.members(index), Members::first(4));
    }
}

#[test]
fn a_node_that_omits_learns_that_it_is_suspected_and_stops() {
    let mut group = group::<Detector>(3);
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
    let mut group = group::<Detector>(3);
    group.rounds(2, |_, _| false);
    group.call(2, Call::Leave as u8, 0, &[]);
    group.rounds(40, |_, _| false);
    assert_eq!((group.phase(2), group.members(0)), (Phase::Left, Members::first(2)));
    group.join(2, 2);
    group.rounds(60, |_, _| false);
    assert_eq!((group.phase(2), group.members(0)), (Phase::Running, Members::first(3)));
    assert_eq!(group.members(2), Members::first(3));
}

#[test]
fn one_algorithm_does_not_listen_to_another() {
    let mut group = group::<Reduce>(2);
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
