//! Nodes with disks: whichever nodes lose power, every acknowledged write is found after the restart.

use crate::network::{Faults, Network, small};
use weft_kv::{Kv, Parameters};
use weft_time::Duration;

const POWER: Faults = Faults { power: true, ..Faults::ALL };

fn durable(durable_copies: usize) -> Parameters {
    Parameters { durable_copies, ..small() }
}

/// How many nodes have a write on disk when it is answered: all, or a majority.
fn copies(nodes: usize) -> [usize; 2] {
    [nodes, nodes / 2 + 1]
}

#[derive(Default, Debug)]
struct Sums {
    power_cuts: u64,
    restored: u64,
    snapshots: u64,
}

fn schedules(seeds: std::ops::Range<u64>, nodes: usize, faults: Faults) -> Sums {
    let mut sums = Sums::default();
    for seed in seeds {
        let copies = copies(nodes)[seed as usize % 2];
        println!("seed {seed}, {nodes} nodes, {copies} copies");
        let mut network = Network::<Kv>::new(seed, nodes, 6, 300, faults, durable(copies));
        network.run();
        sums.power_cuts += network.power_cuts;
        sums.restored += network.restored;
        sums.snapshots += network.snapshots;
    }
    sums
}

#[test]
fn without_faults() {
    let sums = schedules(0..5, 3, Faults::NONE);
    assert!(sums.snapshots > 10, "{sums:?}");
}

#[test]
fn the_whole_cluster_loses_power() {
    let faults = Faults { power: true, ..Faults::NONE };
    for nodes in [1, 2, 3] {
        let sums = schedules(100..130, nodes, faults);
        assert!(sums.power_cuts > 30 && sums.restored > 60, "{sums:?}");
    }
}

#[test]
fn all_faults_and_power_cuts() {
    for nodes in [3, 5] {
        let sums = schedules(1_000..1_060, nodes, POWER);
        assert!(sums.power_cuts > 100 && sums.restored > 300 && sums.snapshots > 100, "{sums:?}");
    }
}

/// Writes are answered before they are on disk. Acknowledgements of what is on disk get lost, too, and a leader whose
/// disks lag waits for them.
#[test]
fn lagging_disks_catch_up() {
    let faults = Faults { crashes: false, partitions: false, ..Faults::ALL };
    let mut refused = 0;
    for seed in 2_000..2_020 {
        println!("seed {seed}");
        let copies = copies(3)[seed as usize % 2];
        let parameters = Parameters { disk_lag: Some(Duration::from_us(100)), ..durable(copies) };
        let mut network = Network::<Kv>::new(seed, 3, 6, 300, faults, parameters);
        network.run();
        refused += network.counters()["refused_busy"];
    }
    assert!(refused > 100, "{refused}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use weft_kv::PlantedBug;

    std::panic::set_hook(Box::new(|_| {}));
    let is_caught = |bug| {
        (0..200).any(|seed| {
            let parameters = Parameters { planted_bug: Some(bug), ..durable(copies(3)[seed as usize % 2]) };
            let run = || Network::<Kv>::new(seed, 3, 6, 300, POWER, parameters).run();
            catch_unwind(AssertUnwindSafe(run)).is_err()
        })
    };
    let missed: Vec<_> = PlantedBug::OF_DISKS.into_iter().filter(|bug| !is_caught(*bug)).collect();
    drop(std::panic::take_hook());
    assert_eq!(missed, []);
}
