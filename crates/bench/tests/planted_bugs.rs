//! Campaigns must find planted bugs, either as a violation of their checks or as a failed assertion of the
//! engine. These tests have a binary of their own, because they silence the messages of panics. Bugs that
//! occur only in rarer situations are left to the tests of the engines, which plant all of their bugs.
#![cfg(feature = "planted-bugs")]

use std::panic::{set_hook, take_hook};

use weft_bench::compare::RoundsContender;
use weft_bench::kv::simulated::{DiskBug, NodeNic, StoreSubject};
use weft_bench::lock::simulated::Locks;
use weft_bench::rdt::ObjectSubject;
use weft_bench::smr::LogSubject;
use weft_bench::txn::TransactionsSubject;
use weft_harness::{Campaign, NodeBug, OnNodes, Planted, Subject};
use weft_kv::PlantedBug as StoreBug;
use weft_lock::PlantedBug as LockBug;
use weft_rdt::replica::PlantedBug as TypeBug;
use weft_rounds::PlantedBug as RoundsBug;
use weft_sim::{CostProfile, FaultKind, FaultKinds};
use weft_smr::PlantedBug as LogBug;
use weft_time::Duration;
use weft_txn::PlantedBug as TransactionBug;

/// Each bug must be found with the seed beside it, the first that finds it, and the seed must have no violation without
/// the bug.
fn assert_caught<B: Copy>(
    bugs: &[(B, u64)],
    name: impl Fn(B) -> &'static str,
    finds: impl Fn(u64, Option<B>) -> bool,
) {
    for &(bug, seed) in bugs {
        set_hook(Box::new(|_| {}));
        let found = finds(seed, Some(bug));
        let first = (!found).then(|| (1..=40).find(|&seed| finds(seed, Some(bug))));
        let fails_without = found && finds(seed, None);
        drop(take_hook());
        assert!(found, "seed {seed} does not show {}; of seeds 1 to 40, the first is {first:?}", name(bug));
        assert!(!fails_without, "seed {seed} fails without {} too", name(bug));
    }
}

/// A campaign with one seed and a bug around the engines.
fn campaign(nodes: usize, seed: u64, bug: Option<NodeBug>) -> Campaign {
    Campaign { planted: Planted { bug }, ..Campaign::new(nodes, seed..=seed) }
}

/// Whether a campaign finds a violation.
fn finds<S: Subject>(runs: &Campaign, subject: &S) -> bool {
    let result = runs.run(subject, |seed| seed.to_string(), |_| {}).expect("random plans fit");
    result.findings.violations_found > 0
}

#[test]
fn campaigns_of_logs_catch_planted_bugs() {
    assert_caught(
        &[(LogBug::ReplyBeforeQuorum, 1), (LogBug::ApplyUndecided, 1)],
        LogBug::name,
        |seed, planted_bug| {
            let nodes = [3, 5][seed as usize % 2];
            finds(&campaign(nodes, seed, None), &LogSubject { planted_bug, ..LogSubject::default() })
        },
    );
}

/// Also runs that a failed assertion ends.
#[test]
fn any_number_of_threads_finds_the_same_violations() {
    let planted_bug = Some(LogBug::ReplyBeforeQuorum);
    let found = |jobs: usize| {
        let runs = Campaign { jobs: jobs.try_into().unwrap(), ..Campaign::new(3, 1..=12) };
        let logs = LogSubject { planted_bug, ..LogSubject::default() };
        runs.run(&logs, |seed| seed.to_string(), |_| {}).expect("random plans fit")
    };
    set_hook(Box::new(|_| {}));
    let [one, several] = [1, 5].map(found);
    drop(take_hook());
    assert_eq!(one, several);
    assert!((2..12).contains(&one.findings.violations_found), "{:?}", one.findings);
}

#[test]
fn campaigns_of_data_types_catch_planted_bugs() {
    let bugs = [
        (TypeBug::MissingDependencies, 5),
        (TypeBug::DeltaSummary, 1),
        (TypeBug::AnswerBeforeMajority, 1),
        (TypeBug::ForgottenCall, 6),
    ];
    assert_caught(&bugs, TypeBug::name, |seed, planted_bug| {
        finds(&campaign(3, seed, None), &ObjectSubject { planted_bug, ..ObjectSubject::default() })
    });
}

/// Members that decide differently, and members that are removed although they are heard.
#[test]
fn campaigns_of_clients_of_rounds_catch_planted_bugs() {
    let bugs = [(RoundsBug::GuessInsteadOfFence, 1), (RoundsBug::OneAccuserIsEnough, 1)];
    assert_caught(&bugs, RoundsBug::name, |seed, planted_bug| {
        let rounds = RoundsContender { planted_bug, ..RoundsContender::new(64) };
        finds(&campaign(3, seed, None), &OnNodes::new(&rounds))
    });
}

/// Views and the state of the membership service do not depend on the engine, so the campaign of one engine
/// suffices.
#[test]
fn campaigns_of_logs_catch_bugs_around_the_engine() {
    assert_caught(&[(NodeBug::AnswerBeforeStored, 5)], NodeBug::name, |seed, node_bug| {
        finds(&campaign(3, seed, node_bug), &LogSubject::default())
    });
}

/// A restarted node must connect its queue pairs with the PSNs of its new incarnation.
#[test]
fn campaigns_of_data_types_catch_bugs_around_the_engine() {
    let bugs = [(NodeBug::AnswerBeforeStored, 5), (NodeBug::WiredToFormerIncarnation, 6)];
    assert_caught(&bugs, NodeBug::name, |seed, node_bug| {
        finds(&campaign(3, seed, node_bug), &ObjectSubject::default())
    });
}

/// A store on nodes with disks.
fn store() -> StoreSubject {
    StoreSubject::new(NodeNic::Soft(CostProfile::FPGA))
}

/// What a node answers before its disk has flushed it is lost if the power fails, most often while the disk is slow.
#[test]
fn campaigns_on_disks_catch_planted_bugs_of_the_log() {
    use weft_store::PlantedBug::{AcknowledgeBeforeFlush, ChainIgnored};
    let bugs = [(DiskBug::Store(AcknowledgeBeforeFlush), 29), (DiskBug::Store(ChainIgnored), 1)];
    assert_caught(&bugs, DiskBug::name, |seed, disk_bug| {
        let kinds = FaultKinds::NONE.with(FaultKind::Power).with(FaultKind::SlowDisk);
        finds(&Campaign { kinds, ..campaign(3, seed, None) }, &StoreSubject { disk_bug, ..store() })
    });
}

#[test]
fn campaigns_on_disks_catch_planted_bugs_of_the_engine() {
    let bugs = [
        (StoreBug::AcknowledgeBeforeFlush, 3),
        (StoreBug::TooFewReports, 2),
        (StoreBug::ShortestAtRecovery, 2),
        (StoreBug::RestoredVotes, 2),
    ];
    assert_caught(&bugs, StoreBug::name, |seed, planted_bug| {
        let kinds = FaultKinds::DISK;
        finds(&Campaign { kinds, ..campaign(3, seed, None) }, &StoreSubject { planted_bug, ..store() })
    });
}

/// Whether a campaign with one seed finds a violation where writes are answered before they are on disk.
fn finds_behind_disks(nodes: usize, seed: u64, store: StoreSubject) -> bool {
    let store = StoreSubject { disk_lag: Some(Duration::from_ms(1)), ..store };
    finds(&Campaign { kinds: FaultKinds::DISK, ..campaign(nodes, seed, None) }, &store)
}

/// Bugs that lose writes which are answered before they are on disk: too many of them, or some without later ones. The
/// more nodes there are, the fewer writes are on none of their disks.
#[test]
fn campaigns_of_lagging_disks_catch_planted_bugs() {
    let store = || StoreSubject::new(NodeNic::Soft(CostProfile::FPGA));
    for (nodes, bug, seed) in [(1, StoreBug::LagNotBounded, 21), (3, StoreBug::RestoredVotes, 1)] {
        assert_caught(&[(bug, seed)], StoreBug::name, |seed, planted_bug| {
            finds_behind_disks(nodes, seed, StoreSubject { planted_bug, ..store() })
        });
    }
    assert_caught(&[(DiskBug::Log(weft_node::LogBug::StreamsApart), 10)], DiskBug::name, |seed, disk_bug| {
        finds_behind_disks(2, seed, StoreSubject { disk_bug, ..store() })
    });
}

#[test]
fn campaigns_of_transactions_on_disks_catch_planted_bugs() {
    let bugs = [
        (TransactionBug::LoggedBeforeFlush, 1),
        (TransactionBug::WithdrawnBeforeFlush, 25),
        (TransactionBug::ReportedBeforeFlush, 36),
        (TransactionBug::SettledBeforeFlush, 5),
        (TransactionBug::SyncedBeforeSaved, 402),
        (TransactionBug::SnapshotWithoutAttempts, 177),
    ];
    assert!(
        TransactionBug::ALL
            .iter()
            .filter(|bug| bug.is_on_disk())
            .all(|bug| bugs.iter().any(|(one, _)| one == bug))
    );
    let kinds = FaultKinds::ALL.iter().chain(FaultKinds::DISK.iter());
    let kinds = kinds.fold(FaultKinds::NONE, FaultKinds::with);
    assert_caught(&bugs, TransactionBug::name, |seed, planted_bug| {
        let transactions = TransactionsSubject { planted_bug, ..TransactionsSubject::default() };
        finds(&Campaign { kinds, ..campaign(3, seed, None) }, &transactions)
    });
}

/// Whether a campaign of the locks with one seed on three nodes finds a violation.
fn finds_in_locks(seed: u64, kinds: FaultKinds, bug: Option<NodeBug>, locks: Locks) -> bool {
    finds(&Campaign { kinds, ..campaign(3, seed, bug) }, &OnNodes::new(&locks))
}

/// The cluster must not stop serving during a partial partition.
#[test]
fn campaigns_of_locks_catch_members_that_stay_although_they_are_parted() {
    assert_caught(&[(NodeBug::PartitionedKept, 2)], NodeBug::name, |seed, node_bug| {
        let kinds = FaultKinds::NONE.with(FaultKind::PartialPartition);
        finds_in_locks(seed, kinds, node_bug, Locks::default())
    });
}

#[test]
fn campaigns_of_locks_catch_bugs_around_the_engine() {
    let bugs = [(NodeBug::AnswerBeforeStored, 2), (NodeBug::WiredToFormerIncarnation, 1)];
    assert_caught(&bugs, NodeBug::name, |seed, node_bug| {
        finds_in_locks(seed, FaultKinds::ALL, node_bug, Locks::default())
    });
}

/// Two keepers must not hold the membership service at the same time.
#[test]
fn campaigns_with_keepers_catch_bugs_around_the_engine() {
    assert_caught(
        &[(NodeBug::TermOverrun, 1), (NodeBug::SuccessorInHaste, 1)],
        NodeBug::name,
        |seed, node_bug| {
            let store = StoreSubject::new(NodeNic::Soft(CostProfile::FPGA));
            finds(&Campaign { keepers: 3, ..campaign(3, seed, node_bug) }, &store)
        },
    );
}

#[test]
fn campaigns_of_locks_catch_planted_bugs() {
    let bugs =
        [(LockBug::AnswerBeforeAccepted, 2), (LockBug::NoTimeAfterTakeover, 2), (LockBug::TtlFromAnswer, 16)];
    assert_caught(&bugs, LockBug::name, |seed, planted_bug| {
        finds_in_locks(seed, FaultKinds::ALL, None, Locks { planted_bug })
    });
}
