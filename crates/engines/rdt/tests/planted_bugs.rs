//! Each planted bug makes a run fail, which shows that the checks find it. Some bugs show in random runs. For
//! each of the others there is a schedule that fails with the bug and passes without it.
#![cfg(feature = "planted-bugs")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cluster::network::Faults;
use crate::cluster::{Cluster, Mischief, small};
use weft_rdt::replica::PlantedBug;
use weft_smr::Role;
use weft_time::Duration;

/// How a run fails, if it does.
fn failure(run: impl FnOnce()) -> Option<String> {
    let text = catch_unwind(AssertUnwindSafe(run)).err()?.downcast::<String>();
    Some(text.map_or("a panic".into(), |text| text.chars().take(160).collect()))
}

/// The first of some random runs that fails, and how.
fn violation(bug: Option<PlantedBug>, seeds: std::ops::Range<u64>) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| {
        let name = ["account", "2p-set", "auction", "g-counter"][seed as usize % 4];
        let mut parameters = small(name, [3, 5, 4][seed as usize / 4 % 3]);
        parameters.planted_bug = bug;
        let text = failure(|| {
            let mut cluster = Cluster::new(seed, parameters);
            cluster.network.faults = Faults { loss: 30, duplication: 50, late: 30 };
            let mischief = Mischief { crash: 40, cut: 60, stick: 40 };
            cluster.run_with(mischief, Duration::from_ms(3));
            cluster.bury_one();
            cluster.heal();
        })?;
        Some((seed, text))
    })
}

#[test]
fn random_runs_show_planted_bugs() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(violation(None, 0..16), None);
    for bug in [PlantedBug::MissingDependencies, PlantedBug::DeltaSummary, PlantedBug::AnswerBeforeMajority] {
        match violation(Some(bug), 0..400) {
            Some((seed, text)) => println!("{} is caught with seed {seed}: {text}", bug.name()),
            None => panic!("{} is not caught", bug.name()),
        }
    }
}

/// Runs a schedule on a cluster without faults. It must fail with the bug, and pass without it.
fn shows(bug: PlantedBug, name: &str, nodes: usize, schedule: fn(&mut Cluster)) {
    let run = |planted| {
        let mut parameters = small(name, nodes);
        parameters.planted_bug = planted;
        let mut cluster = Cluster::new(1, parameters);
        cluster.asking = false;
        cluster.run(Duration::from_us(100));
        schedule(&mut cluster);
        cluster.heal();
    };
    run(None);
    match failure(|| run(Some(bug))) {
        Some(text) => println!("{} is caught: {text}", bug.name()),
        None => panic!("{} is not caught", bug.name()),
    }
}

/// A sends a call to B only, and crashes. The remaining nodes must all get the call.
#[test]
fn a_replica_that_does_not_ask_for_the_calls_of_dead_peers_stays_behind() {
    shows(PlantedBug::NotUniform, "g-counter", 3, |cluster| {
        cluster.cut(0, &[2], true);
        cluster.invoke(0, "increment", [1, 0, 0, 0]);
        cluster.run(Duration::from_us(10));
        assert_eq!(cluster.answered.len(), 1);
        cluster.bury(0);
    });
}

/// A's call is answered, since A and B have it. A loses its memory, and rejoins where it can reach only C,
/// which never had the call.
#[test]
fn a_replica_that_joins_from_one_member_lacks_the_calls_of_another() {
    shows(PlantedBug::HastyJoin, "g-counter", 3, |cluster| {
        cluster.cut(0, &[2], true);
        cluster.invoke(0, "increment", [1, 0, 0, 0]);
        cluster.run(Duration::from_us(10));
        assert_eq!(cluster.answered.len(), 1);
        cluster.crash(0);
        cluster.cut(0, &[2], false);
        for (from, to) in [(1, 0), (0, 1), (1, 2), (2, 1)] {
            cluster.cut(from, &[to], true);
        }
        cluster.restart(0);
        cluster.run(Duration::from_us(400));
        if cluster.state(0).is_some_and(weft_rdt::replica::Replica::is_full) {
            cluster.invoke(0, "increment", [1, 0, 0, 0]);
            cluster.run(Duration::from_us(10));
        }
        for (from, to) in [(1, 0), (0, 1), (1, 2), (2, 1)] {
            cluster.cut(from, &[to], false);
        }
    });
}

/// A inserts an element, and only B gets the call. B removes the element, and all others get that call. A and
/// B lose their memory. So the others wait for ever for the insertion that the removal depends on.
#[test]
fn what_depends_on_what_is_lost_never_takes_effect() {
    shows(PlantedBug::UnstableDependencies, "2p-set", 5, |cluster| {
        cluster.cut(0, &[2, 3, 4], true);
        cluster.invoke(0, "insert", [5, 0, 0, 0]);
        cluster.until(|cluster| cluster.state(1).unwrap().observer().counts.summaries[0] == 1);
        cluster.invoke(1, "remove", [5, 0, 0, 0]);
        cluster.run(Duration::from_us(6));
        cluster.crash(0);
        cluster.crash(1);
        cluster.cut(0, &[2, 3, 4], false);
        cluster.run(Duration::from_us(100));
        cluster.restart(0);
        cluster.restart(1);
    });
}

/// A leads, and checks that it may delete an element which it has just added; no other node gets either call.
/// B starts to lead in the slot of A's addition, and crashes. When A leads again, the deletion follows the
/// start of B's term in the log. It was checked in a state that never existed, so it must not take effect.
#[test]
fn what_a_former_leader_has_checked_does_not_count() {
    shows(PlantedBug::StaleTerm, "movie", 3, |cluster| {
        cluster.cut(0, &[1, 2], true);
        cluster.cut(1, &[0], true);
        cluster.cut(2, &[0], true);
        cluster.invoke(0, "addCustomer", [5, 0, 0, 0]);
        cluster.invoke(0, "deleteCustomer", [5, 0, 0, 0]);
        cluster.until(|cluster| {
            let decided = |node| cluster.state(node).unwrap().group(0).decided();
            cluster.state(1).unwrap().is_leading(0) && decided(1) == 2 && decided(2) == 2
        });
        cluster.crash(1);
        let role = |cluster: &Cluster| cluster.state(0).unwrap().group(0).role();
        cluster.until(|cluster| role(cluster) == Role::Follower);
        cluster.until(|cluster| role(cluster) == Role::Requesting);
        cluster.cut(0, &[1, 2], false);
        cluster.cut(1, &[0], false);
        cluster.cut(2, &[0], false);
        cluster.until(|cluster| cluster.state(0).unwrap().is_leading(0));
        cluster.run(Duration::from_us(100));
        cluster.restart(1);
    });
}

/// C's call is decided, but C does not learn of it, because it grants access to its log to nobody. C sends
/// the call to the next leader again.
#[test]
fn a_call_that_is_decided_is_not_decided_again() {
    shows(PlantedBug::ForgottenCall, "movie", 5, |cluster| {
        cluster.network.loses = |from, _, kind, payload| {
            from == 2 && kind == weft_smr::message::Kind::Granted as u8 && payload[0] == 0
        };
        // The leader loses its present connection to C, and gets no new one.
        cluster.cut(0, &[2], true);
        cluster.run(Duration::from_us(20));
        cluster.invoke(0, "addCustomer", [3, 0, 0, 0]);
        cluster.run(Duration::from_us(20));
        cluster.cut(0, &[2], false);
        cluster.run(Duration::from_us(100));
        let decided = cluster.state(0).unwrap().group(0).decided();
        cluster.invoke(2, "addCustomer", [5, 0, 0, 0]);
        cluster.until(|cluster| cluster.state(1).unwrap().group(0).applied() > decided);
        cluster.crash(0);
        cluster.until(|cluster| cluster.state(1).unwrap().is_leading(0));
        cluster.run(Duration::from_us(100));
        cluster.network.loses = |_, _, _, _| false;
        cluster.restart(0);
    });
}
