//! A node crashes before an event of a run. One run is made for each of many events. Afterwards all reported
//! outcomes hold, no transaction has taken effect in part, and the other nodes continue.

use crate::network::workload::{ACCOUNTS, BALANCE, SUM, sum_of_all, sum_of_shard};
use crate::network::{Faults, Network, Setup, before_events};
use weft_txn::{Outcome, Variant};
use weft_waist::{Engine, EngineState};

/// Runs with a crash of `victim` before event `event`. Returns `false` if the run ended before that event.
fn crash(seed: u64, setup: Setup, calls: u64, victim: usize, event: u64) -> bool {
    let mut network = Network::new(seed, setup);
    network.crash_at = Some((victim, event));
    network.start(3, calls);
    let at = || format!("seed {seed}, node {victim} before event {event}");
    assert!(network.settle(1_000_000), "{}: no end", at());
    let happened = network.events >= event;
    let report = network.check();
    assert!(!report.is_violated(), "{}: {report:#?}", at());
    let nodes = setup.parameters.nodes;
    assert_eq!(network.money(), nodes as u64 * ACCOUNTS * BALANCE, "{}", at());
    // All shards still serve.
    let reader = (victim + 1) % nodes;
    network.finished.clear();
    network.call(reader, sum_of_all(nodes));
    network.start(0, 0);
    assert!(network.settle(100_000));
    let total = nodes as u64 * ACCOUNTS * BALANCE;
    let answer = Outcome::Committed { answer: total.to_be_bytes().to_vec() };
    assert_eq!(network.finished, [(reader, answer)], "{}: {SUM:?}", at());
    happened
}

fn at_every(step: usize, seed: u64, setup: Setup, calls: u64) {
    let nodes = setup.parameters.nodes;
    before_events(step, nodes, |victim, event| crash(seed + event, setup, calls, victim, event));
}

#[test]
fn at_every_seventh_event_with_tables_behind_the_card() {
    at_every(7, 1, Setup::new(3, 2, Some(64)), 40);
}

#[test]
fn at_every_seventh_event_with_tables_near_the_engine() {
    at_every(7, 10_000, Setup::new(3, 2, None), 40);
}

/// Crashes a node before every single event.
#[test]
#[ignore = "some thousand runs"]
fn at_every_single_event() {
    at_every(1, 30_000, Setup::new(3, 2, Some(64)), 40);
    at_every(1, 40_000, Setup::new(3, 2, None), 40);
}

#[test]
fn with_loss_duplication_and_delay() {
    let mut setup = Setup::new(4, 3, Some(64));
    setup.faults = Faults { loss: 50, duplication: 50, late: 80 };
    at_every(17, 20_000, setup, 40);
}

/// A node that is cut off from the network reports nothing after its lease has ended, although it does not
/// learn that the others continue.
#[test]
fn a_node_that_is_cut_off() {
    for seed in 0..60 {
        let entries = [Some(64), None][seed as usize % 2];
        let mut network = Network::new(seed, Setup::new(3, 2, entries));
        network.start(4, 300);
        let before = 300 + network.random(2_000);
        assert!(!network.settle(before), "seed {seed}");
        let cut_off = seed as usize % 3;
        network.isolate(cut_off);
        // It calls transactions on its own shard, which need no message to other nodes.
        for _ in 0..200 {
            network.settle(60);
            network.call_now(cut_off, sum_of_shard(cut_off));
        }
        network.settle(20_000);
        network.nodes[cut_off] = None;
        assert!(network.settle(1_000_000), "seed {seed}: no end");
        let report = network.check();
        assert!(!report.is_violated(), "seed {seed}: {report:#?}");
        assert_eq!(network.money(), 3 * ACCOUNTS * BALANCE, "seed {seed}");
    }
}

/// Two nodes crash, the second during the recovery from the first crash.
#[test]
fn two_after_each_other() {
    for seed in 0..60 {
        let mut setup = Setup::new(4, 3, Some(64));
        setup.faults = Faults { loss: 30, duplication: 30, late: 50 };
        let mut network = Network::new(seed, setup);
        network.start(4, 80);
        let first = 400 + network.random(1500);
        assert!(!network.settle(first), "seed {seed}");
        network.crash(seed as usize % 4);
        let between = network.random(700);
        network.settle(between);
        network.crash((seed as usize / 4 + 1) % 4);
        assert!(network.settle(1_000_000), "seed {seed}: no end");
        let report = network.check();
        assert!(!report.is_violated(), "seed {seed}: {report:#?}");
        assert_eq!(network.money(), 4 * ACCOUNTS * BALANCE, "seed {seed}");
    }
}

/// FaSST reports the outcome before the primaries have the values, so a view change might abort a transaction
/// that was reported as committed. Therefore its engines stop at a view change: they decide and report
/// nothing more.
#[test]
fn a_rival_says_nothing_after_a_view_change() {
    let mut committing = 0;
    before_events(9, 3, |victim, event| {
        let mut setup = Setup::new(3, 2, None);
        setup.parameters.variant = Variant::FASST;
        let mut network = Network::new(30_000 + event, setup);
        network.crash_at = Some((victim, event));
        network.start(3, 60);
        let knows = |network: &Network| {
            let epoch = network.view.epoch;
            epoch.0 > 1 && network.alive().all(|(_, node)| node.engine.status().epoch == epoch)
        };
        while !knows(&network) && network.step() {}
        let said =
            |network: &Network| ["committed", "aborted", "conflicts"].map(|counter| network.counter(counter));
        let before = said(&network);
        committing += u64::from(network.alive().any(|(_, node)| !node.engine.is_quiet()));
        // Clients call again and again, and get the answer that no node serves.
        let happened = network.events >= event;
        network.settle(2_000);
        assert_eq!(said(&network), before, "node {victim} before event {event}");
        for (index, node) in network.alive().filter(|_| happened) {
            assert_eq!(node.engine.status().state, EngineState::Lost, "node {index}, event {event}");
        }
        happened
    });
    assert!(committing > 25, "something was under way");
}
