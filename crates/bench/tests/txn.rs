//! Tests of campaigns of transactions: their findings, and that they are deterministic.

use weft_applications::WorkloadName;
use weft_bench::txn::{TransactionFigures, TransactionsSubject};
use weft_harness::{Campaign, CampaignResult};
#[cfg(feature = "planted-bugs")]
use weft_harness::{NodeBug, Planted};
use weft_sim::{FaultKind, FaultKinds};

type Found = CampaignResult<TransactionFigures>;

fn run(runs: &Campaign, transactions: &TransactionsSubject) -> Found {
    runs.run(transactions, |seed| format!("seed {seed}"), |_| {}).expect("random plans fit")
}

fn holds(runs: &Campaign, transactions: &TransactionsSubject) -> Found {
    let result = run(runs, transactions);
    assert_eq!(
        (&result.findings.violations[..], result.checked),
        (&[][..], "strictly serializable"),
        "{runs:?}, {transactions:?}"
    );
    result
}

#[test]
fn without_faults_all_is_answered() {
    let runs = Campaign { kinds: FaultKinds::NONE, ..Campaign::new(3, 1..=3) };
    let result = holds(&runs, &TransactionsSubject::default());
    let TransactionFigures { unanswered, restarts, committed, .. } = result.figures;
    assert_eq!((unanswered, restarts), (0, 0), "{result:?}");
    assert!(committed > 500 && result.live.unwrap().slowest_ns < 1_000_000, "{result:?}");
}

#[test]
fn under_faults_all_rules_hold() {
    for (nodes, replication, workload) in [(3, 2, None), (5, 3, None), (3, 3, Some(WorkloadName::Tpcc))] {
        let runs = Campaign::new(nodes, 1..=6);
        let transactions = TransactionsSubject { replication, workload, ..TransactionsSubject::default() };
        let result = holds(&runs, &transactions);
        for kind in
            ["loss", "duplication", "reordering", "corruption", "partition", "one_way_cut", "crash", "outage"]
        {
            assert!(result.faults[kind] > 0, "{kind}: {result:?}");
        }
        let figures = &result.figures;
        assert!(!figures.step_crashes.is_empty() && figures.unknown_but_seen > 0, "{result:?}");
        assert_eq!(result, run(&runs, &transactions));
    }
}

#[test]
fn nodes_crash_at_the_steps_of_transactions_that_find_no_room() {
    let kinds = FaultKinds::NONE.with(FaultKind::Crash);
    let results = [(2, 1..=22), (3, 23..=44)].map(|(replication, seeds)| {
        let transactions = TransactionsSubject { replication, ..TransactionsSubject::default() };
        holds(&Campaign { kinds, ..Campaign::new(3, seeds) }, &transactions)
    });
    for step in ["refused", "withdraw", "withdrawn"] {
        assert!(
            results.iter().any(|result| result.figures.step_crashes.contains_key(step)),
            "{step}: {results:?}"
        );
    }
}

/// Four of six nodes copy their shards at the same time. None must restart its copy when another node has
/// finished.
#[test]
fn nodes_that_come_back_together_are_back_together() {
    // Outages of the membership service would move the crashes to other steps of the protocol.
    let kinds = FaultKinds::ALL.iter().filter(|kind| *kind != FaultKind::Outage);
    let kinds = kinds.fold(FaultKinds::NONE, FaultKinds::with);
    for seed in [18, 110, 115] {
        let transactions = TransactionsSubject { replication: 3, ..TransactionsSubject::default() };
        let result = holds(&Campaign { kinds, ..Campaign::new(6, seed..=seed) }, &transactions);
        let slowest_ns = result.live.unwrap().slowest_ns;
        assert!(result.figures.restarts >= 4 && slowest_ns < 5_000_000, "{result:?}");
    }
}

#[test]
fn a_lost_shard_is_said_to_be() {
    for (nodes, replication) in [(3, 2), (5, 3)] {
        let transactions =
            TransactionsSubject { replication, lose_shard: true, ..TransactionsSubject::default() };
        let result = holds(&Campaign::new(nodes, 1..=3), &transactions);
        assert!(result.figures.unavailable >= 3 * nodes as u64, "{result:?}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_found() {
    for bug in weft_txn::PlantedBug::ALL.into_iter().filter(|bug| !bug.is_on_disk()) {
        let found = (1..=40).find(|&seed| {
            let transactions =
                TransactionsSubject { planted_bug: Some(bug), ..TransactionsSubject::default() };
            run(&Campaign::new(3, seed..=seed), &transactions).findings.violations_found > 0
        });
        println!("{}: seed {found:?}", bug.name());
        assert!(found.is_some(), "{bug:?} was not found");
    }
}

/// Planted bugs in the node's program and in the membership service. One of the first seeds must find each,
/// and must have no violation without it. The bug `LeaseFromReceipt` requires later grants than random plans
/// cause; the campaign of the store has such a plan.
#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_around_the_engines_is_found() {
    for bug in [NodeBug::EnginesKept, NodeBug::AnswerBeforeStored, NodeBug::WrongReplicas] {
        let found = (1..=40).find(|&seed| {
            let runs = Campaign { planted: Planted { bug: Some(bug) }, ..Campaign::new(3, seed..=seed) };
            run(&runs, &TransactionsSubject::default()).findings.violations_found > 0
        });
        println!("{}: seed {found:?}", bug.name());
        let seed = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        holds(&Campaign::new(3, seed..=seed), &TransactionsSubject::default());
    }
}
