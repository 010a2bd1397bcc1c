//! A loss that is beyond the tolerated faults: one round is lost on every link. All members stop, report it, and
//! are founded again.

use crate::lock_step::LockStep;
use weft_rounds::message::{Call, Phase, Status};
use weft_rounds::{Ckc, Members, Parameters};
use weft_waist::{Engine, EngineState, Epoch, Event, NodeSet, View};

fn group(nodes: usize, window: u64) -> LockStep<Ckc> {
    LockStep::new(nodes, Parameters { window, value_bytes: 32, silence: 16, ..Parameters::default() })
}

fn counter(group: &LockStep<Ckc>, index: usize, name: &str) -> u64 {
    let counters = group.nodes[index].as_ref().unwrap().counters();
    counters.iter().find(|(counter, _)| *counter == name).expect("a counter").1
}

fn propose(group: &mut LockStep<Ckc>, value: &[u8]) {
    (0..group.nodes.len()).for_each(|index| group.call(index, Call::Propose as u8, 7, value));
}

/// A cluster that has decided something and has then lost one round on all links.
fn stopped(nodes: usize, window: u64) -> LockStep<Ckc> {
    let mut group = group(nodes, window);
    propose(&mut group, b"before");
    group.rounds(6, |_, _| false);
    assert!((0..nodes).all(|index| group.told(index).len() == nodes));
    group.rounds(1, |_, _| true);
    // The instance that began in the previous round has only the rounds of its window left.
    propose(&mut group, b"begun");
    group.rounds(window - 2, |_, _| false);
    assert!((0..nodes).all(|index| group.phase(index) == Phase::Running));
    group.replies.clear();
    propose(&mut group, b"waiting");
    group.rounds(1, |_, _| false);
    group
}

#[test]
fn one_round_that_is_lost_on_every_link_stops_all() {
    for (nodes, window) in [(2, 4), (3, 4), (5, 4), (6, 4), (8, 8)] {
        let mut group = stopped(nodes, window);
        for index in 0..nodes {
            assert_eq!(group.phase(index), Phase::Fenced);
            assert_eq!(
                (counter(&group, index, "fenced"), counter(&group, index, "unheard")),
                (1, nodes as u64 - 1)
            );
            assert_eq!(group.nodes[index].as_ref().unwrap().status().state, EngineState::Lost);
            assert_eq!(group.told(index), []);
            let said: Vec<_> = group.answers(index).iter().map(|one| one.status).collect();
            assert_eq!(said, [Status::Fenced, Status::NotRunning], "what has begun may have been decided");
            let answered = group.answers(index).len();
            for call in [Call::Status, Call::Propose, Call::Start] {
                group.call(index, call as u8, 7, if call == Call::Propose { b"after" } else { b"" });
            }
            let said: Vec<_> =
                group.answers(index)[answered..].iter().map(|one| (one.status, one.phase)).collect();
            let all = [Status::Ok, Status::Fenced, Status::Fenced];
            assert_eq!(said, all.map(|status| (status, Phase::Fenced)));
        }
    }
}

#[test]
fn nobody_lets_fenced_nodes_in_but_they_can_be_founded_again() {
    let mut group = stopped(3, 4);
    for index in 0..3 {
        group.join(index, 2);
    }
    group.rounds(200, |_, _| false);
    assert!((0..3).all(|index| group.phase(index) == Phase::Joining), "there is nobody who could decide it");
    group.replies.clear();
    let founding = View { epoch: Epoch(1), full: NodeSet::first(3), joining: NodeSet::EMPTY };
    for index in 0..3 {
        group.handle(index, Event::Reset);
        group.configure(index, founding);
        group.call(index, Call::Subscribe as u8, 0, &[]);
    }
    group.call(1, Call::Start as u8, 0, &[]);
    group.now += group.parameters.one_way;
    group.deliver(&mut |_, _| false);
    group.handle(1, Event::Timer { tag: 0 });
    propose(&mut group, b"again");
    group.rounds(6, |_, _| false);
    for index in 0..3 {
        assert_eq!((group.phase(index), group.members(index)), (Phase::Running, Members::first(3)));
        assert!(group.told(index).len() == 3 && group.told(index) == group.told(0));
    }
}
