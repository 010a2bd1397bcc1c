//! Simulated clusters: what a run measures, that it repeats, and what campaigns find.

use std::ops::RangeInclusive;

use weft_bench::kv::simulated::{BenchLimit, Campaign, ClusterParameters, NodeNic, SimulatedBench};
use weft_bench::load::Load;
use weft_bench::result::Checked;
use weft_bench::workload::Workload;
use weft_kv::ReadPolicy;
use weft_sim::{CostProfile, FaultKinds, FaultPlan};
use weft_time::Duration;

fn bench(seed: u64, workload: &str, plan: &str) -> SimulatedBench {
    SimulatedBench {
        cluster: ClusterParameters {
            nodes: 3,
            workload: Workload::parse(workload)
                .unwrap()
                .with_records(200)
                .unwrap()
                .with_value_bytes(100)
                .unwrap(),
            load: Load::Closed { clients: 16 },
            reads: ReadPolicy::AnyReplica,
            seed,
            nic: NodeNic::Soft(CostProfile::FPGA),
            plan: FaultPlan::parse(plan).unwrap(),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        },
        limit: BenchLimit::Operations(20_000),
        warm_up: Duration::from_us(100),
        capture: None,
        replay: "a test".into(),
    }
}

#[test]
fn every_workload_runs_and_is_linearizable() {
    for workload in ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f", "put", "get", "mixed"] {
        let run = bench(1, workload, "").run(|_| {}).unwrap();
        assert_eq!(run.result.checked, Checked::Linearizable, "{workload}: {}", run.result.check_report);
        assert_eq!(run.result.lost_acknowledged_writes, Some(0), "{workload}");
        assert!(run.result.operations > 15_000, "{workload} measured {}", run.result.operations);
        let failed: u64 = run.result.by_operation.values().map(|kind| kind.failed).sum();
        assert_eq!(failed, 0, "{workload}");
    }
}

#[test]
fn a_seed_decides_a_run_to_the_bit() {
    let hash = |seed| bench(seed, "ycsb-a", "").run(|_| {}).unwrap().result.log_hash.unwrap();
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}

#[test]
fn a_killed_leader_loses_nothing() {
    let plan = "[[fault]]\nkind = \"crash\"\nat_us = 3000\nmachine = \"node1\"\n\
                [[fault]]\nkind = \"restart\"\nat_us = 14000\nmachine = \"node1\"\n";
    let mut bench = bench(3, "ycsb-a", plan);
    bench.limit = BenchLimit::After(Duration::from_ms(40));
    let run = bench.run(|_| {}).unwrap();
    assert_eq!(run.result.checked, Checked::Linearizable, "{}", run.result.check_report);
    assert_eq!(run.result.lost_acknowledged_writes, Some(0));
    let labels: Vec<&str> = run.result.marks.iter().map(|mark| mark.label.as_str()).collect();
    assert!(labels.contains(&"node1 crashes") && labels.contains(&"node1 restarts"), "{labels:?}");
    assert_eq!(run.result.marks.len(), 5, "without it, joining, full again: {labels:?}");
}

fn campaign(nodes: usize, seeds: RangeInclusive<u64>) -> Campaign {
    Campaign {
        nodes,
        seeds,
        kinds: FaultKinds::ALL,
        plan: None,
        nic: NodeNic::Soft(CostProfile::FPGA),
        #[cfg(feature = "planted-bugs")]
        planted_bug: None,
    }
}

#[test]
fn a_slice_of_the_campaign_finds_nothing() {
    let result = campaign(3, 1..=4).run(|seed| format!("seed {seed}"), |_| {}).unwrap();
    assert_eq!(result.violations, []);
    assert_eq!((result.seeds_run, result.checked), (4, "linearizable"));
    assert!(result.operations > 10_000);
}

/// Plans in which a replica is reachable again while the last other one has just died and still has a lease: whoever
/// relies on that lease removes the only copy.
#[test]
fn a_lease_is_no_proof_of_life() {
    for (nodes, seed) in [(5, 105), (5, 140), (3, 19)] {
        let result = campaign(nodes, seed..=seed).run(|seed| format!("seed {seed}"), |_| {}).unwrap();
        assert_eq!(result.violations, [], "{nodes} nodes");
        assert_eq!((result.checked, result.lost_acknowledged_writes), ("linearizable", 0));
        assert!(result.live_within_ns <= result.live_within_bound_ns);
    }
}

/// Campaigns that never find anything prove nothing.
#[cfg(feature = "planted-bugs")]
#[test]
fn campaigns_catch_every_planted_bug() {
    for bug in weft_kv::PlantedBug::ALL {
        let caught = (1..=10).find_map(|seed| {
            let campaign = Campaign { planted_bug: Some(bug), ..campaign(5, seed..=seed) };
            let result = campaign.run(|seed| format!("seed {seed}"), |_| {}).unwrap();
            (result.checked == "violation").then_some(result)
        });
        let result = caught.unwrap_or_else(|| panic!("10 seeds do not show {}", bug.name()));
        assert_eq!((result.violations_found, result.violations.len()), (1, 1));
        let violation = &result.violations[0];
        assert_eq!(violation.replay, format!("seed {}", violation.seed));
        let window = violation.what.find("window from ").expect("the smallest bad window is described");
        assert!(violation.what[..window].contains("key "), "{}", violation.what);
    }
}
