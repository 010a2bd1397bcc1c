//! Tests of campaigns of all engines: their results are those of their runs, on any number of threads.

use std::ops::RangeInclusive;

use serde_json::Value;
use weft_bench::kv::simulated::{NodeNic, StoreSubject};
use weft_bench::lock::simulated::Locks;
use weft_bench::rdt::ObjectSubject;
use weft_bench::rounds::{FaultClass, RoundsSubject, Service};
use weft_bench::smr::LogSubject;
use weft_bench::txn::TransactionsSubject;
use weft_harness::{Campaign, OnNodes, Subject};
use weft_results::NicModel;
use weft_results::merge::merge;
use weft_sim::{CostProfile, FaultKinds};

const SEEDS: RangeInclusive<u64> = 3..=5;

/// The result of a campaign, as written to files.
fn result<S: Subject>(runs: &Campaign, subject: &S) -> Value {
    let result = runs.run(subject, |seed| format!("seed {seed}"), |_| {}).expect("random plans fit");
    serde_json::to_value(result).unwrap()
}

/// Checks that several threads find what one does, and that figures are added as [`merge`] adds them, which knows no
/// engine. A campaign hashes the log hashes of its runs, and a merge those of its slices.
fn assert_adds_up<S: Subject>(kinds: FaultKinds, subject: &S) {
    let runs = Campaign { kinds, ..Campaign::new(3, SEEDS) };
    let whole = result(&runs, subject);
    let several = Campaign { jobs: 3.try_into().unwrap(), ..runs.clone() };
    assert_eq!(result(&several, subject), whole);
    let alone = |seed| result(&Campaign { seeds: seed..=seed, ..runs.clone() }, subject);
    let mut merged = merge(SEEDS.map(alone).collect()).unwrap();
    merged["log_hash"] = whole["log_hash"].clone();
    assert_eq!(merged, whole);
}

fn store() -> StoreSubject {
    StoreSubject::new(NodeNic::Soft(CostProfile::FPGA))
}

#[test]
fn campaigns_of_stores_add_up() {
    assert_adds_up(FaultKinds::DISK, &store());
    assert_adds_up(FaultKinds::ALL, &StoreSubject { psp: true, ..store() });
}

#[test]
fn campaigns_of_rounds_add_up() {
    let rounds = RoundsSubject {
        faults: FaultClass::All,
        window: 4,
        nic: NicModel::Soft,
        service: Service::Register,
        psp: false,
        #[cfg(feature = "planted-bugs")]
        planted_bug: None,
    };
    assert_adds_up(FaultKinds::ALL, &rounds);
}

#[test]
fn campaigns_of_logs_and_data_types_add_up() {
    assert_adds_up(FaultKinds::ALL, &LogSubject::default());
    assert_adds_up(FaultKinds::ALL, &ObjectSubject::default());
}

#[test]
fn campaigns_of_transactions_add_up() {
    assert_adds_up(FaultKinds::ALL, &TransactionsSubject::default());
}

#[test]
fn campaigns_on_shipped_nodes_add_up() {
    assert_adds_up(FaultKinds::ALL, &OnNodes::new(&Locks::default()));
}
