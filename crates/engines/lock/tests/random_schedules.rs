//! Random schedules of faults: whatever the network does, no two clients hold a lock at the same time, tokens only
//! grow, and when the faults end the cluster works again.

use std::collections::BTreeMap;

use crate::network::{Network, small};
use weft_lock::Parameters;

/// Runs the schedules; a failure prints its seed.
fn random_schedules(
    seeds: std::ops::Range<u64>,
    nodes: usize,
    parameters: &Parameters,
) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for seed in seeds {
        let mut network = Network::new(seed, nodes, parameters.clone());
        let violations = network.run();
        assert!(violations.is_empty(), "seed {seed}, {nodes} nodes: {}", violations[0]);
        assert!(network.is_whole(), "seed {seed}, {nodes} nodes: not every node is full in the end");
        let held = network.held_in_calm();
        assert!(held > 40, "seed {seed}, {nodes} nodes: {held} locks and renewals after all faults");
        network.counters().into_iter().for_each(|(name, count)| *sums.entry(name).or_default() += count);
    }
    println!("{sums:#?}");
    sums
}

#[test]
fn three_and_five_nodes() {
    let sums = random_schedules(0..60, 3, &Parameters::default());
    for name in
        ["granted", "expired", "renewed", "released", "denied", "takeovers", "resent", "elsewhere", "gaps"]
    {
        assert!(sums[name] > 0, "{name} never happened");
    }
    random_schedules(1_000..1_030, 5, &Parameters::default());
}

#[test]
fn every_limit_is_met() {
    let sums = random_schedules(2_000..2_040, 3, &small());
    assert!(sums["busy"] > 0 && sums["dropped_epoch"] > 0, "{sums:?}");
}

#[test]
fn one_node_alone() {
    let mut network = Network::new(1, 1, Parameters::default());
    assert_eq!(network.run(), []);
}
