//! Tests of simulated clusters: measurements, determinism, and findings of campaigns.

use weft_bench::kv::simulated::{
    BenchLimit, ClusterParameters, NodeNic, SimulatedBench, StoreFigures, StoreSubject,
};
#[cfg(feature = "planted-bugs")]
use weft_harness::NodeBug;
use weft_harness::{Campaign, CampaignResult, Planted};
use weft_kv::ReadPolicy;
use weft_results::Checked;
use weft_sim::{CostProfile, FaultKind, FaultKinds, FaultPlan, NetworkProfile};
use weft_time::Duration;
use weft_waist::NodeSet;
use weft_workload::Load;
use weft_workload::Workload;

fn bench(seed: u64, workload: &str, plan: &str) -> SimulatedBench {
    SimulatedBench {
        cluster: ClusterParameters {
            keepers: 1,
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
            network: NetworkProfile::SWITCH,
            psp: false,
            plan: FaultPlan::parse(plan).unwrap(),
            disks: None,
            durable_copies: 0,
            disk_lag: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
            planted: Planted::default(),
            #[cfg(feature = "planted-bugs")]
            disk_bug: None,
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

/// A cluster with the gateware as the nodes' NIC. After a crash the gateware restarts from its reset.
#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn gateware_carries_a_cluster_that_loses_its_leader() {
    let plan = "[[fault]]\nkind = \"crash\"\nat_us = 3000\nmachine = \"node1\"\n\
                [[fault]]\nkind = \"restart\"\nat_us = 14000\nmachine = \"node1\"\n\
                [[fault]]\nkind = \"corruption\"\nfrom_us = 500\nuntil_us = 3000\nprobability = 0.02\n";
    let run = || {
        let mut bench = bench(3, "ycsb-a", plan);
        bench.cluster.nic = NodeNic::RtlBeforeHost;
        bench.cluster.load = Load::Open { clients: 8, operations_per_s: 20_000.0 };
        bench.limit = BenchLimit::After(Duration::from_ms(30));
        bench.run(|_| {}).unwrap()
    };
    let first = run();
    let result = &first.result;
    assert_eq!(result.checked, Checked::Linearizable, "{}", result.check_report);
    assert_eq!((result.lost_acknowledged_writes, result.marks.len()), (Some(0), 5), "{:?}", result.marks);
    assert_eq!((result.nic.as_str(), &result.parameters["engine_on"]), ("rtl", &"host".into()));
    // Every datagram of the engines is a frame of the gateware. The counts differ by frames in transit
    // between them.
    let count = |name: &str| first.counters[name];
    assert!(count("datagrams_sent") > 1_000);
    assert!(count("rtl_frames_sent") >= count("datagrams_sent"), "{:?}", first.counters);
    assert!(count("rtl_frames_to_host") >= count("datagrams_received"), "{:?}", first.counters);
    assert!(count("rtl_cycles") > 10_000);

    let second = run();
    assert_eq!((&second.result.log_hash, second.counters), (&result.log_hash, first.counters));
}

/// The gateware and a software NIC with the same costs have similar latencies.
#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn gateware_is_as_fast_as_the_card_that_it_stands_for() {
    let run = |nic| {
        let mut bench = bench(5, "ycsb-b", "");
        bench.cluster.nic = nic;
        bench.limit = BenchLimit::Operations(1_000);
        bench.run(|_| {}).unwrap().result
    };
    let (soft, rtl) = (run(NodeNic::Soft(CostProfile::HOST_CARD)), run(NodeNic::RtlBeforeHost));
    assert_eq!(rtl.checked, Checked::Linearizable, "{}", rtl.check_report);
    let ratio = rtl.p50_ns as f64 / soft.p50_ns as f64;
    assert!((0.7..1.3).contains(&ratio), "{} ns and {} ns", rtl.p50_ns, soft.p50_ns);
}

fn store() -> StoreSubject {
    StoreSubject::new(NodeNic::Soft(CostProfile::FPGA))
}

fn campaign(runs: &Campaign, store: &StoreSubject) -> CampaignResult<StoreFigures> {
    runs.run(store, |seed| format!("seed {seed}"), |_| {}).expect("the plan fits")
}

#[test]
fn a_slice_of_the_campaign_finds_nothing() {
    let result = campaign(&Campaign::new(3, 1..=4), &store());
    assert_eq!(result.findings.violations, []);
    assert_eq!((result.seeds_run, result.checked), (4, "linearizable"));
    assert!(result.faults["outage"] > 0, "{:?}", result.faults);
    assert!(result.figures.operations > 10_000);
}

#[test]
fn a_slice_of_the_campaign_with_keepers_finds_nothing() {
    let result = campaign(&Campaign { keepers: 3, ..Campaign::new(3, 1..=4) }, &store());
    assert_eq!(result.findings.violations, []);
    assert_eq!((result.seeds_run, result.checked), (4, "linearizable"));
    assert!(result.faults["outage"] > 0, "{:?}", result.faults);
}

/// Nodes with disks: power failures of all nodes together, and faults of the disks. Seed 4 may damage any
/// number of disks.
#[test]
fn a_slice_of_the_campaign_on_disks_finds_nothing() {
    let kinds = FaultKinds::ALL.and(FaultKinds::DISK);
    let result = campaign(&Campaign { kinds, ..Campaign::new(3, 1..=6) }, &store());
    assert_eq!(result.findings.violations, []);
    let disks = result.figures.disks.unwrap();
    assert_eq!((disks.durable_writes_lost, disks.arbitrary_runs), (0, 1));
    assert!(disks.power_cuts > 5, "{disks:?}");
    for kind in ["lost", "misdirect", "rot", "torn", "io_error", "full", "slow_disk"] {
        assert!(result.faults[kind] > 0, "{kind}: {:?}", result.faults);
    }
}

/// Seed 20 loses all data while requests are outstanding.
#[test]
fn outstanding_requests_of_a_cluster_that_halts_are_in_its_history() {
    let kinds = FaultKinds::ALL.and(FaultKinds::DISK);
    let result = campaign(&Campaign { kinds, ..Campaign::new(3, 20..=20) }, &store());
    assert_eq!(result.findings.violations, []);
    assert_eq!(result.figures.disks.unwrap().halted_runs, 1);
}

/// Every frame is lost from the start, so that loading does not finish and the run stops.
#[test]
fn a_run_that_stops_is_a_violation_of_its_seed() {
    let plan = "fault = [{ kind = \"loss\", from_us = 0, until_us = 30000, probability = 1.0 }]";
    let runs = Campaign { plan: Some(FaultPlan::parse(plan).unwrap()), ..Campaign::new(3, 7..=8) };
    let result = campaign(&runs, &store());
    assert_eq!((result.seeds_run, result.checked, result.findings.violations_found), (2, "undecided", 2));
    let violation = &result.findings.violations[1];
    assert_eq!((violation.seed, violation.replay.as_str()), (8, "seed 8"));
    assert!(violation.what.contains("a cluster without faults loads 64 records"), "{violation:?}");
}

/// The leader that is lost is in gates, one follower, too. `make campaign` has clusters with all engines in gates, and
/// with one.
#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn engines_in_gates_survive_the_loss_of_a_leader() {
    let plan = "[[fault]]\nkind = \"crash\"\nat_us = 1000\nmachine = \"node1\"\n\
                [[fault]]\nkind = \"restart\"\nat_us = 9000\nmachine = \"node1\"\n";
    let mut bench = bench(3, "ycsb-a", plan);
    bench.cluster.nic = NodeNic::Rtl(NodeSet::from_bits(0b110));
    bench.cluster.load = Load::Open { clients: 8, operations_per_s: 100_000.0 };
    bench.limit = BenchLimit::After(Duration::from_ms(16));
    let run = bench.run(|_| {}).unwrap();
    let result = &run.result;
    assert_eq!(result.checked, Checked::Linearizable, "{}", result.check_report);
    assert_eq!((result.lost_acknowledged_writes, result.marks.len()), (Some(0), 5), "{:?}", result.marks);
    assert_eq!((result.nic.as_str(), &result.parameters["engine_on"]), ("rtl", &"nic".into()));
    assert!(run.counters["rtl_writes_led"] > 100, "{:?}", run.counters);
    assert!(run.counters["rtl_view_changes"] > 0, "{:?}", run.counters);
}

/// The card of node 1 is in gates and seals frames; that of node 0 is software. Node 1 restarts before the keys change,
/// so it must get other ones.
#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn a_card_in_gates_seals_frames_with_the_keys_of_its_incarnation() {
    let plan = "[[fault]]\nkind = \"crash\"\nat_us = 21000\nmachine = \"node1\"\n\
                [[fault]]\nkind = \"restart\"\nat_us = 27000\nmachine = \"node1\"\n";
    let store = StoreSubject { psp: true, ..StoreSubject::new(NodeNic::Rtl(NodeSet::from_bits(0b10))) };
    let runs = Campaign { plan: Some(FaultPlan::parse(plan).unwrap()), ..Campaign::new(2, 1..=1) };
    let result = campaign(&runs, &store);
    assert_eq!((result.checked, result.findings.violations), ("linearizable", vec![]));
    let sealed = result.psp.expect("frames are sealed");
    for name in ["psp_sealed", "psp_opened", "rtl_psp_sealed", "rtl_psp_opened"] {
        assert!(sealed.counters[name] > 1_000, "{name}: {:?}", sealed.counters);
    }
    // Twelve generations, between two nodes and four machines of clients.
    assert!(sealed.keys > 12 * 2 * 9, "{} keys", sealed.keys);
    #[cfg(feature = "planted-bugs")]
    {
        let planted = Planted { bug: Some(NodeBug::KeysOfFormerLife) };
        let result = campaign(&Campaign { planted, ..runs }, &store);
        let found = &result.findings.violations[0].what;
        assert!(found.contains("nonce"), "{found}");
    }
}

/// In these plans a replica becomes reachable while the only other replica has just crashed and still has a
/// lease. A membership service that relies on this lease would remove the last copy.
#[test]
fn a_lease_is_no_proof_of_life() {
    // The plans have no outages of the membership service.
    let kinds = FaultKinds::ALL.iter().filter(|kind| *kind != FaultKind::Outage);
    let kinds = kinds.fold(FaultKinds::NONE, FaultKinds::with);
    for (nodes, seed) in [(5, 105), (5, 140), (3, 19)] {
        let result = campaign(&Campaign { kinds, ..Campaign::new(nodes, seed..=seed) }, &store());
        assert_eq!(result.findings.violations, [], "{nodes} nodes");
        assert_eq!((result.checked, result.figures.lost_acknowledged_writes), ("linearizable", 0));
        assert!(result.live.is_some_and(|live| live.slowest_ns <= live.bound_ns));
    }
}

/// In this plan the disk of a node is damaged and then full, and the only other node that has the data leaves the view
/// before the first one ends. Then nobody has the data, so a campaign may not put both faults on one disk.
#[test]
fn no_disk_is_damaged_and_full_at_once() {
    let kinds = FaultKinds::DISK.iter().fold(FaultKinds::ALL, FaultKinds::with);
    let result = campaign(&Campaign { kinds, ..Campaign::new(3, 279..=279) }, &store());
    assert_eq!(result.findings.violations, []);
    assert!(result.faults["full"] > 0, "{:?}", result.faults);
}

/// Campaigns must find planted bugs.
#[cfg(feature = "planted-bugs")]
#[test]
fn campaigns_catch_every_planted_bug() {
    for bug in weft_kv::PlantedBug::ALL {
        let caught = (1..=10).find_map(|seed| {
            let store = StoreSubject { planted_bug: Some(bug), ..store() };
            let result = campaign(&Campaign::new(5, seed..=seed), &store);
            (result.checked == "violation").then_some(result)
        });
        let result = caught.unwrap_or_else(|| panic!("10 seeds do not show {}", bug.name()));
        assert_eq!((result.findings.violations_found, result.findings.violations.len()), (1, 1));
        let violation = &result.findings.violations[0];
        assert_eq!(violation.replay, format!("seed {}", violation.seed));
        let window = violation.what.find("window from ").expect("the smallest bad window is described");
        assert!(violation.what[..window].contains("key "), "{}", violation.what);
    }
}

/// A plan in which a node receives half of its frames up to a lease late, and is twice partitioned from all
/// machines except the clients.
#[cfg(feature = "planted-bugs")]
const LATE_GRANTS: &str = r#"
[[fault]]
kind = "reordering"
from_us = 25000
until_us = 90000
probability = 0.5
delay_us = 5000
machine = "node2"
direction = "to_machine"

[[fault]]
kind = "partition"
from_us = 35000
until_us = 50000
groups = [["node2"], ["node0", "node1", "membership0"]]

[[fault]]
kind = "partition"
from_us = 70000
until_us = 85000
groups = [["node2"], ["node0", "node1", "membership0"]]
"#;

/// A plan in which a node is cut off for slightly longer than a lease, while the service takes as long to store the
/// view without it.
#[cfg(feature = "planted-bugs")]
const SLOW_REMOVALS: &str = r#"
[[fault]]
kind = "slow_disk"
from_us = 25000
until_us = 90000
machine = "membership0"
times = 25

[[fault]]
kind = "partition"
from_us = 35000
until_us = 41000
groups = [["node2"], ["node0", "node1", "membership0"]]

[[fault]]
kind = "partition"
from_us = 70000
until_us = 76000
groups = [["node2"], ["node0", "node1", "membership0"]]
"#;

/// Campaigns must find planted bugs in the node's program and in the membership service. The bug of engines
/// that are not emptied is not listed: the engine of the store empties itself when it joins. The campaign of
/// transactions finds that bug.
#[cfg(feature = "planted-bugs")]
#[test]
fn campaigns_catch_planted_bugs_around_the_engine() {
    let late_grants = FaultPlan::parse(LATE_GRANTS).unwrap();
    let slow_removals = FaultPlan::parse(SLOW_REMOVALS).unwrap();
    let parted = FaultKinds::NONE.with(FaultKind::PartialPartition);
    for (bug, plan, kinds) in [
        (NodeBug::LeaseFromReceipt, Some(late_grants), FaultKinds::ALL),
        (NodeBug::AnswerBeforeStored, None, FaultKinds::ALL),
        (NodeBug::RemovedRenewed, Some(slow_removals), FaultKinds::ALL),
        (NodeBug::KeysOfFormerLife, None, FaultKinds::ALL),
        (NodeBug::PartitionedKept, None, parted),
    ] {
        let psp = bug == NodeBug::KeysOfFormerLife;
        let finds = |seed, bug| {
            let (plan, planted) = (plan.clone(), Planted { bug });
            let runs = Campaign { planted, kinds, plan, ..Campaign::new(3, seed..=seed) };
            let result = campaign(&runs, &StoreSubject { psp, ..store() });
            result.findings.violations.first().map(|violation| violation.what.clone())
        };
        let found = (1..=20).find_map(|seed| finds(seed, Some(bug)).map(|what| (seed, what)));
        let (seed, what) = found.unwrap_or_else(|| panic!("20 seeds do not show {}", bug.name()));
        println!("{}: seed {seed}: {what}", bug.name());
        assert_eq!(finds(seed, None), None, "seed {seed} fails without {} too", bug.name());
    }
}
