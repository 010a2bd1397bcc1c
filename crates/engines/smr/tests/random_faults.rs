//! Clusters under faults: every answered append stays in the log, once, in one order.

use crate::network::Faults;
use crate::network::cluster::{Cluster, Mischief, small};
use weft_smr::Delivery;
use weft_time::Duration;

fn delivery(seed: u64) -> Delivery {
    if seed.is_multiple_of(2) { Delivery::WriteThrough } else { Delivery::Polling }
}

#[test]
fn without_faults_the_first_node_leads_and_all_follow() {
    for seed in 0..4 {
        let mut cluster = Cluster::new(seed, small(3, delivery(seed)));
        cluster.run(Duration::from_ms(2));
        cluster.heal();
        assert!(cluster.answered > 300, "{}", cluster.answered);
        let counters = cluster.counters();
        assert_eq!((counters["leaderships"], counters["abandoned"]), (1, 0), "{counters:?}");
        assert!(counters["recycled"] > 0);
        assert!(cluster.slowest < Duration::from_ms(1), "{}", cluster.slowest);
        assert_eq!(cluster.network.refused, 0);
    }
}

/// Runs these seeds, and returns the sums of the counters.
fn runs(seeds: std::ops::Range<u64>) -> std::collections::BTreeMap<&'static str, u64> {
    let mut sums = std::collections::BTreeMap::new();
    for seed in seeds {
        println!("seed {seed}");
        let nodes = [3, 5, 4, 3][seed as usize % 4];
        let mut cluster = Cluster::new(seed, small(nodes, delivery(seed / 4)));
        cluster.network.faults = Faults { loss: 30, duplication: 50, late: 30 };
        let mischief = Mischief {
            crash: if seed.is_multiple_of(3) { 0 } else { 60 },
            cut: if seed % 3 == 1 { 0 } else { 80 },
            stick: if seed.is_multiple_of(5) { 0 } else { 60 },
        };
        cluster.run_with(mischief, Duration::from_ms(6));
        cluster.heal();
        for (name, count) in cluster.counters() {
            *sums.entry(name).or_insert(0) += count;
        }
        *sums.entry("crashes").or_insert(0) += cluster.crashes;
        *sums.entry("refused").or_insert(0) += cluster.network.refused;
        *sums.entry("answered").or_insert(0) += cluster.answered;
    }
    sums
}

#[test]
fn what_was_answered_survives_crashes_partitions_and_slow_nodes() {
    let sums = runs(0..60);
    println!("{sums:?}");
    for seen in ["adopted", "revoked", "behind", "snapshots_taken", "recycled", "crashes", "refused"] {
        assert!(sums[seen] > 0, "no run has seen any {seen}");
    }
}

#[test]
#[ignore = "half an hour"]
fn many_more_runs() {
    println!("{:?}", runs(1_000..6_000));
}
