//! Campaigns must find planted bugs, either as a violation of their checks or as a failed assertion of the
//! engine. These tests have a binary of their own, because they silence the messages of panics. Bugs that
//! occur only in rarer situations are left to the tests of the engines, which plant all of their bugs.
#![cfg(feature = "planted-bugs")]

use std::panic::set_hook;

use weft_bench::kv::simulated::{DiskBug, NodeNic};
use weft_bench::lock::simulated::Locks;
use weft_bench::{kv, rdt, smr};
use weft_harness::{NodeBug, NodeCampaign};
use weft_kv::PlantedBug as StoreBug;
use weft_lock::PlantedBug as LockBug;
use weft_rdt::replica::PlantedBug as TypeBug;
use weft_sim::{CostProfile, FaultKind, FaultKinds, NetworkProfile};
use weft_smr::PlantedBug as LogBug;

/// One of the first seeds must find each bug, and must have no violation without the bug.
fn assert_caught<B: Copy>(
    bugs: &[B],
    name: impl Fn(B) -> &'static str,
    finds: impl Fn(u64, Option<B>) -> bool,
) {
    set_hook(Box::new(|_| {}));
    for &bug in bugs {
        let seed = (1..=40).find(|&seed| finds(seed, Some(bug)));
        let seed = seed.unwrap_or_else(|| panic!("{} is not caught", name(bug)));
        assert!(!finds(seed, None), "seed {seed} fails without {} too", name(bug));
    }
}

#[test]
fn campaigns_of_logs_catch_planted_bugs() {
    assert_caught(&[LogBug::ReplyBeforeQuorum, LogBug::ApplyUndecided], LogBug::name, |seed, planted_bug| {
        let nodes = [3, 5][seed as usize % 2];
        let seeds = seed..=seed;
        let faults = FaultKinds::ALL;
        let campaign = smr::Campaign { nodes, seeds, faults, delivery: None, planted_bug, node_bug: None };
        campaign.run(|seed| seed.to_string(), |_| {}).findings.violations_found > 0
    });
}

#[test]
fn campaigns_of_data_types_catch_planted_bugs() {
    let bugs = [
        TypeBug::MissingDependencies,
        TypeBug::DeltaSummary,
        TypeBug::AnswerBeforeMajority,
        TypeBug::ForgottenCall,
    ];
    assert_caught(&bugs, TypeBug::name, |seed, planted_bug| {
        let campaign = rdt::Campaign {
            name: None,
            configuration: None,
            nodes: 3,
            seeds: seed..=seed,
            kinds: FaultKinds::ALL,
            planted_bug,
            node_bug: None,
        };
        campaign.run(|seed| seed.to_string(), |_| {}).findings.violations_found > 0
    });
}

/// Views and the state of the membership service do not depend on the engine, so the campaign of one engine
/// suffices.
#[test]
fn campaigns_of_logs_catch_bugs_around_the_engine() {
    assert_caught(&[NodeBug::AnswerBeforeStored], NodeBug::name, |seed, node_bug| {
        let (seeds, faults) = (seed..=seed, FaultKinds::ALL);
        let campaign = smr::Campaign { nodes: 3, seeds, faults, delivery: None, planted_bug: None, node_bug };
        campaign.run(|seed| seed.to_string(), |_| {}).findings.violations_found > 0
    });
}

/// A restarted node must connect its queue pairs with the PSNs of its new incarnation.
#[test]
fn campaigns_of_data_types_catch_bugs_around_the_engine() {
    let bugs = [NodeBug::AnswerBeforeStored, NodeBug::WiredToFormerIncarnation];
    assert_caught(&bugs, NodeBug::name, |seed, node_bug| {
        let campaign = rdt::Campaign {
            name: None,
            configuration: None,
            nodes: 3,
            seeds: seed..=seed,
            kinds: FaultKinds::ALL,
            planted_bug: None,
            node_bug,
        };
        campaign.run(|seed| seed.to_string(), |_| {}).findings.violations_found > 0
    });
}

/// Bugs of the store, of the host half and of the engine, on nodes with disks.
#[test]
fn campaigns_on_disks_catch_planted_bugs() {
    #[derive(Clone, Copy)]
    enum Bug {
        Disk(DiskBug),
        Engine(StoreBug),
    }
    let bugs = [
        Bug::Disk(DiskBug::Store(weft_store::PlantedBug::AcknowledgeBeforeFlush)),
        Bug::Disk(DiskBug::Store(weft_store::PlantedBug::ChainIgnored)),
        Bug::Engine(StoreBug::AcknowledgeBeforeFlush),
    ];
    let name = |bug| match bug {
        Bug::Disk(bug) => DiskBug::name(bug),
        Bug::Engine(bug) => StoreBug::name(bug),
    };
    assert_caught(&bugs, name, |seed, bug| {
        let campaign = kv::simulated::Campaign {
            nodes: 3,
            seeds: seed..=seed,
            kinds: FaultKinds::DISK,
            plan: None,
            nic: NodeNic::Soft(CostProfile::FPGA),
            network: NetworkProfile::SWITCH,
            psp: false,
            planted_bug: if let Some(Bug::Engine(bug)) = bug { Some(bug) } else { None },
            node_bug: None,
            disk_bug: if let Some(Bug::Disk(bug)) = bug { Some(bug) } else { None },
            keep_histories: false,
        };
        campaign.run(|seed| seed.to_string(), |_| {}).unwrap().findings.violations_found > 0
    });
}

/// A campaign with one seed on three nodes.
fn node_campaign(seed: u64, kinds: FaultKinds, node_bug: Option<NodeBug>) -> NodeCampaign {
    NodeCampaign { kinds, node_bug, ..NodeCampaign::new(3, seed..=seed) }
}

/// Whether a campaign of the locks finds a violation.
fn finds(runs: &NodeCampaign, locks: Locks) -> bool {
    let result = runs.run(&locks, |seed| seed.to_string(), |_| {}).expect("random plans fit");
    result.findings.violations_found > 0
}

/// The cluster must not stop serving during a partial partition.
#[test]
fn campaigns_of_locks_catch_members_that_stay_although_they_are_parted() {
    assert_caught(&[NodeBug::PartitionedKept], NodeBug::name, |seed, node_bug| {
        let kinds = FaultKinds::NONE.with(FaultKind::PartialPartition);
        let runs = node_campaign(seed, kinds, node_bug);
        finds(&runs, Locks::default())
    });
}

#[test]
fn campaigns_of_locks_catch_bugs_around_the_engine() {
    let bugs = [NodeBug::AnswerBeforeStored, NodeBug::WiredToFormerIncarnation];
    assert_caught(&bugs, NodeBug::name, |seed, node_bug| {
        let runs = node_campaign(seed, FaultKinds::ALL, node_bug);
        finds(&runs, Locks::default())
    });
}

#[test]
fn campaigns_of_locks_catch_planted_bugs() {
    let bugs = [LockBug::AnswerBeforeAccepted, LockBug::NoTimeAfterTakeover, LockBug::TtlFromAnswer];
    assert_caught(&bugs, LockBug::name, |seed, planted_bug| {
        let runs = node_campaign(seed, FaultKinds::ALL, None);
        finds(&runs, Locks { planted_bug })
    });
}
