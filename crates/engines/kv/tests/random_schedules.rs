//! Random schedules of faults. Under any faults the clients' history is linearizable, and no write is lost or
//! applied twice; when the faults end, the cluster serves again and its replicas are equal.

use std::collections::BTreeMap;

use crate::network::{Faults, Network, small};
use weft_kv::Parameters;

/// Runs one schedule, and prints its seed for a replay.
fn one_schedule(seed: u64, nodes: usize, faults: Faults) -> Network {
    println!("seed {seed}, {nodes} nodes");
    let mut network = Network::new(seed, nodes, 6, 300, faults, small());
    network.run();
    network
}

fn random_schedules(
    seeds: std::ops::Range<u64>,
    nodes: usize,
    faults: Faults,
) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    for seed in seeds {
        let network = one_schedule(seed, nodes, faults);
        for (name, count) in network.counters() {
            *sums.entry(name).or_default() += count;
        }
        *sums.entry("crashes").or_default() += network.crashes;
        *sums.entry("partitions").or_default() += network.partitions;
    }
    println!("{sums:#?}");
    sums
}

#[test]
fn without_faults() {
    let sums = random_schedules(0..5, 3, Faults::NONE);
    assert_eq!(sums["writes_resent"], 0);
    assert!(sums["reads_waited"] > 0, "reads at followers have to wait now and then");
}

#[test]
fn loss_duplication_and_reordering() {
    let faults = Faults { crashes: false, partitions: false, ..Faults::ALL };
    let sums = random_schedules(100..130, 3, faults);
    for name in ["writes_resent", "gaps", "writes_repeated", "duplicates_answered", "reads_waited"] {
        assert!(sums[name] > 0, "{name} never happened");
    }
}

#[test]
fn all_faults_on_three_nodes() {
    let sums = random_schedules(1000..1080, 3, Faults::ALL);
    for name in
        ["crashes", "partitions", "view_changes", "entries_cut", "chunks_installed", "dropped_old_epoch"]
    {
        assert!(sums[name] > 0, "{name} never happened");
    }
}

#[test]
fn all_faults_on_five_nodes() {
    random_schedules(2000..2040, 5, Faults::ALL);
}

/// Buckets with more keys than a chunk holds: chunks end in the middle of a bucket that changes.
#[test]
fn full_buckets_travel_in_pieces() {
    let mut sums = BTreeMap::<_, u64>::new();
    for seed in 3000..3040 {
        println!("seed {seed}");
        let parameters = Parameters { ways: 8, chunk_bytes: 32 + 392, ..small() };
        let faults = Faults { loss: 80, ..Faults::ALL };
        let mut network: Network = Network::new(seed, 3, 6, 600, faults, parameters);
        network.crowd();
        network.run();
        for (name, count) in network.counters() {
            *sums.entry(name).or_default() += count;
        }
    }
    println!("{sums:#?}");
    for name in ["chunks_installed", "chunks_stale", "table_full"] {
        assert!(sums[name] > 0, "{name} never happened");
    }
}

/// A long campaign: `cargo test --release -p weft-kv random_schedules -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign() {
    random_schedules(10_000..11_500, 3, Faults::ALL);
    random_schedules(20_000..21_000, 5, Faults::ALL);
    random_schedules(30_000..31_000, 4, Faults { loss: 100, duplication: 100, ..Faults::ALL });
}

#[test]
fn one_seed_is_one_run() {
    let runs = [0, 1].map(|_| {
        let network = one_schedule(7, 3, Faults::ALL);
        (network.now, network.events, network.counters())
    });
    assert_eq!(runs[0], runs[1]);
}
