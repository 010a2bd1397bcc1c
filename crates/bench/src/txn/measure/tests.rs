use weft_applications::WorkloadName;

use super::*;

/// A short measurement of Weft on three nodes.
pub(in crate::txn) fn bench(name: WorkloadName, size: u64) -> TxnBench {
    TxnBench {
        workload: WorkloadChoice::new(name, size).unwrap(),
        system: System::Weft,
        nodes: 3,
        replication: 2,
        transactions: 600,
        outstanding: vec![1, 8],
        host_threads: None,
        nic_cores: None,
        profile: CostProfile::CORES_ALL,
        network: NetworkProfile::SWITCH,
        link_bits_per_s: 100_000_000_000,
        without: Vec::new(),
        checks: true,
        seed: 7,
    }
}

fn measured(bench: &TxnBench) -> Measured {
    let measured = bench.measure(|_| {});
    assert!(measured.holds(), "{bench:?}: {:?} {:?}", measured.check, measured.wrong);
    assert!(measured.transactions >= bench.transactions, "{bench:?}");
    assert_eq!(measured.points.len(), bench.outstanding.len());
    measured
}

#[test]
fn every_workload_holds_on_every_system() {
    for system in System::ALL {
        measured(&TxnBench { system, ..bench(WorkloadName::Smallbank, 200) });
        measured(&TxnBench { system, ..bench(WorkloadName::Retwis, 200) });
    }
    for (name, system) in [
        (WorkloadName::TpccNewOrder, System::Weft),
        (WorkloadName::Tpcc, System::Weft),
        (WorkloadName::Tpcc, System::DrtmH),
    ] {
        let outstanding = vec![1, 2];
        measured(&TxnBench { system, transactions: 150, outstanding, ..bench(name, 1) });
    }
}

#[test]
fn more_clients_do_more_until_something_is_busy() {
    let all = measured(&TxnBench {
        transactions: 12_000,
        outstanding: vec![1, 192],
        ..bench(WorkloadName::Smallbank, 20_000)
    });
    let [idle, busy] = &all.points[..] else { panic!("two loads") };
    assert!(busy.throughput_per_server > 10.0 * idle.throughput_per_server, "{idle:?} {busy:?}");
    assert!(busy.latency.p50_ns > idle.latency.p50_ns);
    assert!(busy.nic_percent > 50.0 && busy.nic_percent <= 101.0, "{busy:?}");
    assert!(idle.nic_percent < 20.0, "{idle:?}");
    assert_eq!(all.peak_throughput_per_server, busy.throughput_per_server);
    assert_eq!(all.median_latency_low_load_ns, idle.latency.p50_ns);
    assert_eq!(busy.drops, 0);
    // Each transaction logs 1.25 shards at two replicas, and no lookup reads the hosts' tables.
    assert!(busy.dma_per_transaction < 3.0, "{busy:?}");
}

#[test]
fn each_part_that_is_left_out_costs_something() {
    let smallbank =
        TxnBench { transactions: 5_000, outstanding: vec![1, 256], ..bench(WorkloadName::Smallbank, 20_000) };
    let of = |without: &[Without]| {
        let less = measured(&TxnBench { without: without.to_vec(), ..smallbank.clone() });
        (less.median_latency_low_load_ns, less.peak_throughput_per_server)
    };
    // The features are disabled one after the other, each in addition to the previous ones, because some
    // features have an effect only if others are missing. Hosts have nothing to execute here: Smallbank's
    // procedures run on cards, its values are short, and it has no keys of its own shard that are only read.
    // So the three features in `elsewhere` have no effect.
    let elsewhere = [Without::HostExecution, Without::LogDifferences, Without::OwnKeysOrder];
    let of_cards: Vec<_> = Without::ALL.into_iter().filter(|part| !elsewhere.contains(part)).collect();
    let mut before = of(&[]);
    for parts in 1..=of_cards.len() {
        let after = of(&of_cards[..parts]);
        let part = of_cards[parts - 1];
        assert!(after.0 > before.0 || after.1 < before.1, "without {part}: {after:?}, with it {before:?}");
        before = after;
    }
}

/// Ten of new-order's rows are long and change only a little. Most of the keys of its own shard are only
/// read; if these are read last, they need no VALIDATE.
#[test]
fn new_orders_gain_by_differences_and_by_the_order_of_own_keys() {
    let of = |without: &[Without]| {
        let new_order = bench(WorkloadName::TpccNewOrder, 8);
        let without = without.to_vec();
        measured(&TxnBench { transactions: 500, outstanding: vec![4], without, ..new_order }).points.remove(0)
    };
    let (all, whole, unordered) = (of(&[]), of(&[Without::LogDifferences]), of(&[Without::OwnKeysOrder]));
    assert!(3.0 * all.dma_bytes_per_transaction < 2.0 * whole.dma_bytes_per_transaction, "{all:?} {whole:?}");
    assert!(all.latency.p50_ns < unordered.latency.p50_ns, "{all:?} {unordered:?}");
}

/// One in eight of TPC-C's transactions uses only keys of its own shard and stays on the host.
#[test]
fn what_hosts_execute_by_themselves_takes_less_time() {
    let of = |without: &[Without]| {
        let without = without.to_vec();
        let tpcc = bench(WorkloadName::Tpcc, 2);
        measured(&TxnBench { transactions: 400, outstanding: vec![1], without, ..tpcc }).points.remove(0)
    };
    let (with, without) = (of(&[]), of(&[Without::HostExecution]));
    assert!(with.throughput_per_server > without.throughput_per_server, "{with:?} {without:?}");
}

#[test]
fn a_seed_decides_everything() {
    let hash = |seed| measured(&TxnBench { seed, ..bench(WorkloadName::Smallbank, 200) }).log_hash;
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

#[test]
fn loads_share_the_transactions() {
    assert_eq!(shares(1_600, &[1, 8, 64]), [133, 533, 933]);
    assert_eq!(shares(2, &[1, 1_024]), [1, 1]);
}

/// Every system must retransmit, continue after a partition, and lose no transaction.
#[test]
fn links_that_fail_lose_no_transaction() {
    let plan = "[[fault]]\nkind = \"loss\"\nfrom_us = 20\nuntil_us = 400\nprobability = 0.02\n\
         [[fault]]\nkind = \"partition\"\nfrom_us = 150\nuntil_us = 400\ngroups = [[\"node0\"], [\"node1\", \"node2\"]]\n";
    let plan = FaultPlan::parse(plan).unwrap();
    for system in System::ALL {
        let bench = TxnBench { system, ..bench(WorkloadName::Smallbank, 200) };
        let faulty = bench.measure_under(&plan, |_| {}).unwrap();
        assert!(faulty.holds(), "{system}: {:?} {:?}", faulty.check, faulty.wrong);
        assert!(
            faulty.faults["loss"] > 0 && faulty.faults["partition"] == 1,
            "{system}: {:?}",
            faulty.faults
        );
        assert!(faulty.transactions >= bench.transactions, "{system}: {}", faulty.transactions);
    }
    let nowhere =
        FaultPlan::parse("[[fault]]\nkind = \"pause\"\nfrom_us = 1\nuntil_us = 2\nmachine = \"node3\"\n");
    assert!(bench(WorkloadName::Smallbank, 200).measure_under(&nowhere.unwrap(), |_| {}).is_err());
}
