//! A node dies before one event after the other of a run, comes back empty, copies its shards and is full again:
//! nothing is lost or told twice, each shard is served by its first primary in the end, and all replicas have the
//! same objects.

mod network;

use network::workload::{ACCOUNTS, BALANCE, sum_of_all, sum_of_shard};
use network::{Faults, Network, Setup, before_events};
use weft_time::Duration;
use weft_txn::Outcome;
use weft_waist::{Engine, EngineState, NodeSet};

fn returning(seed: u64, setup: Setup) -> Network {
    let mut network = Network::new(seed, setup);
    let after = 20 + network.random(300);
    network.comes_back = Some(Duration::from_us(after));
    network
}

/// Everybody is there, everything is served, and nothing is wrong.
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

/// `false` if the run ended before the crash.
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

/// Another node dies while the first joins: one of those that it copies from, or one that has nothing to do with it.
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

/// The joining node itself dies, and comes back once more.
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

/// Whoever was full in the beginning has died and come back: all that is left was copied.
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

/// Both replicas of a shard die before one is back: what it held is lost, nobody makes something up in its place, and
/// callers are told.
#[test]
fn a_shard_that_nobody_holds_stays_lost() {
    for seed in 0..20 {
        let mut network = returning(seed, Setup::new(3, 2, if seed % 2 == 0 { Some(64) } else { None }));
        network.comes_back = Some(Duration::from_us(20));
        network.start(3, 100);
        let first = 400 + network.random(600);
        assert!(!network.settle(first), "seed {seed}");
        // Who comes back never serves.
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
        // Nor do those who came back: they can never be full, and say so at once.
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
