//! A node crashes before an event of a run, rejoins with empty memory, copies its shards and becomes full
//! again. One run is made for each of many events. Nothing is lost or reported twice, in the end each shard
//! is led by its own node, and all replicas have the same objects.

use crate::network::workload::{ACCOUNTS, BALANCE, sum_of_all, sum_of_shard};
use crate::network::{Faults, Network, Setup, before_events};
use weft_time::Duration;
use weft_txn::Outcome;
use weft_waist::{Engine, EngineState, NodeSet};

fn returning(seed: u64, setup: Setup) -> Network {
    let mut network = Network::new(seed, setup);
    let after = 20 + network.random(300);
    network.comes_back = Some(Duration::from_us(after));
    network
}

/// Checks that all nodes are full members, every shard is served, and the history is correct.
fn check(network: &mut Network, at: &str) {
    let nodes = network.setup.parameters.nodes;
    assert_eq!(network.view.full, NodeSet::first(nodes), "{at}: not all are back");
    for (index, node) in network.alive() {
        let status = node.engine.status();
        assert_eq!(
            (status.epoch, status.state),
            (network.view.epoch, EngineState::Full),
            "{at}: node {index}"
        );
        assert_eq!(node.engine.lost_shards().count(), 0, "{at}: node {index}");
    }
    let report = network.check();
    assert!(!report.is_violated(), "{at}: {report:#?}");
    let total = nodes as u64 * ACCOUNTS * BALANCE;
    assert_eq!(network.money(), total, "{at}");
    network.finished.clear();
    for index in 0..nodes {
        network.call(index, sum_of_all(nodes));
    }
    network.start(0, 0);
    assert!(network.settle(100_000), "{at}: shards are not served");
    let answer = Outcome::Committed { answer: total.to_be_bytes().to_vec() };
    assert_eq!(network.finished.len(), nodes, "{at}");
    assert!(network.finished.iter().all(|(_, outcome)| *outcome == answer), "{at}: {:?}", network.finished);
    assert!(!network.check().is_violated(), "{at}");
}

/// Runs with a crash of `victim` before event `event`. Returns `false` if the run ended before that event.
fn crash(seed: u64, setup: Setup, calls: u64, victim: usize, event: u64) -> bool {
    let mut network = returning(seed, setup);
    network.crash_at = Some((victim, event));
    network.start(3, calls);
    let at = format!("seed {seed}, node {victim} before event {event}");
    assert!(network.settle(1_000_000), "{at}: no end: {}", network.describe());
    let happened = network.events >= event;
    network.crash_at = None;
    check(&mut network, &at);
    happened
}

fn at_every(step: usize, seed: u64, setup: Setup, calls: u64) {
    let nodes = setup.parameters.nodes;
    before_events(step, nodes, |victim, event| crash(seed + event, setup, calls, victim, event));
}

#[test]
fn at_every_eleventh_event_with_tables_behind_the_card() {
    at_every(11, 1, Setup::new(3, 2, Some(64)), 60);
}

#[test]
fn at_every_eleventh_event_with_tables_near_the_engine() {
    at_every(11, 10_000, Setup::new(3, 2, None), 60);
}

#[test]
fn with_loss_duplication_and_delay() {
    let mut setup = Setup::new(4, 3, Some(64));
    setup.faults = Faults { loss: 50, duplication: 50, late: 80 };
    at_every(37, 20_000, setup, 60);
}

/// Another node crashes while the first one joins. The first one may be copying from it, or not.
#[test]
fn another_dies_meanwhile() {
    for seed in 0..120 {
        let mut setup = Setup::new(4, 3, if seed % 5 == 4 { None } else { Some(64) });
        setup.faults = Faults { loss: 30, duplication: 30, late: 50 };
        let mut network = returning(seed, setup);
        network.comes_back = Some(Duration::from_us(20));
        network.start(3, 300);
        let first = 400 + network.random(1500);
        assert!(!network.settle(first), "seed {seed}");
        let victim = seed as usize % 4;
        network.crash(victim);
        while network.view.joining.is_empty() && network.step() {}
        let between = network.random(1500);
        network.settle(between);
        network.crash((victim + 1 + seed as usize / 4 % 3) % 4);
        assert!(network.settle(2_000_000), "seed {seed}: no end: {}", network.describe());
        check(&mut network, &format!("seed {seed}"));
    }
}

/// The joining node itself crashes, and rejoins once more.
#[test]
fn the_joining_node_dies_again() {
    for seed in 0..80 {
        let mut setup = Setup::new(3, 2, if seed % 5 == 4 { None } else { Some(64) });
        setup.faults = Faults { loss: 20, duplication: 30, late: 50 };
        let mut network = returning(seed, setup);
        network.start(3, 300);
        let first = 400 + network.random(1500);
        assert!(!network.settle(first), "seed {seed}");
        let victim = seed as usize % 3;
        for _ in 0..2 {
            network.crash(victim);
            while network.view.joining.is_empty() && network.step() {}
            let between = network.random(1000);
            network.settle(between);
        }
        network.crash(victim);
        assert!(network.settle(2_000_000), "seed {seed}: no end: {}", network.describe());
        check(&mut network, &format!("seed {seed}"));
    }
}

/// All founding nodes crash and rejoin one after the other, so in the end everything was copied.
#[test]
fn one_after_the_other() {
    for seed in 0..20 {
        let mut setup = Setup::new(3, 2, if seed % 5 == 4 { None } else { Some(64) });
        setup.faults = Faults { loss: 10, duplication: 10, late: 20 };
        let mut network = returning(seed, setup);
        network.start(3, 900);
        for victim in 0..3 {
            let next = 300 + network.random(600);
            network.settle(next);
            network.crash(victim);
            while network.step() && network.view.full != NodeSet::first(3) {}
        }
        assert!(network.settle(2_000_000), "seed {seed}: no end: {}", network.describe());
        check(&mut network, &format!("seed {seed}"));
        assert!(network.counter("pages_read") > 0 || network.counter("pages_kept") > 0);
    }
}

/// Both replicas of a shard crash before either has rejoined. The shard is lost: no node serves invented
/// objects, and callers are notified.
#[test]
fn a_shard_that_nobody_holds_stays_lost() {
    for seed in 0..20 {
        let mut network = returning(seed, Setup::new(3, 2, if seed % 2 == 0 { Some(64) } else { None }));
        network.comes_back = Some(Duration::from_us(20));
        network.start(3, 100);
        let first = 400 + network.random(600);
        assert!(!network.settle(first), "seed {seed}");
        // Nodes that rejoin now never serve.
        network.concurrency = 0;
        network.crash(1);
        network.crash(2);
        assert!(network.settle(2_000_000), "seed {seed}: no end: {}", network.describe());
        assert_eq!(network.view.full, NodeSet::first(1), "seed {seed}");
        let survivor = network.alive().next().expect("node 0 lives").1;
        assert_eq!(survivor.engine.lost_shards().collect::<Vec<_>>(), [1], "seed {seed}");
        network.finished.clear();
        network.call(0, sum_of_all(3));
        network.start(0, 0);
        assert!(network.settle(100_000), "seed {seed}");
        assert_eq!(network.finished, [(0, Outcome::Unavailable)], "seed {seed}");
        // Calls at the rejoined nodes end at once too, since these nodes can never become full.
        network.finished.clear();
        for index in [1, 2] {
            assert_eq!(network.view.joining.len(), 2, "seed {seed}");
            network.call_now(index, sum_of_shard(0));
        }
        assert!(network.settle(100_000), "seed {seed}: callers wait");
        let mut finished = std::mem::take(&mut network.finished);
        finished.sort_by_key(|(index, _)| *index);
        assert_eq!(finished, [1, 2].map(|index| (index, Outcome::Unavailable)), "seed {seed}");
        assert!(!network.history().is_violated(), "seed {seed}");
    }
}
