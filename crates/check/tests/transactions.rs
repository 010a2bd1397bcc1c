//! Large histories of transactions: correct ones pass, and one stale read in the middle is found and shown in a
//! short cycle.

use std::time::Instant;

use crate::synthetic_transactions::Synthetic;
use weft_check::serializable::{Options, Report, Violation, check};

const HALF_A_MILLION: Synthetic =
    Synthetic { transactions: 500_000, keys: 100_000, accesses: 6, overlap: 100, stale: None };

fn report(synthetic: Synthetic, seed: u64) -> Report {
    let history = synthetic.generate(seed);
    let began = Instant::now();
    let report = check(history, &Options::default());
    println!("{} transactions: {} in {:?}", report.transactions, report.checked(), began.elapsed());
    report
}

#[test]
fn a_large_history_passes() {
    let report = report(HALF_A_MILLION, 1);
    assert!(!report.is_violated(), "{:?}", report.violations);
    assert_eq!((report.transactions, report.reads, report.writes), (500_000, 3_000_000, 1_500_000));
}

#[test]
fn hot_keys_pass() {
    let hot = Synthetic { transactions: 100_000, keys: 10, ..HALF_A_MILLION };
    assert!(!report(hot, 2).is_violated());
}

#[test]
fn one_stale_read_is_found_and_shown_small() {
    for seed in 0..4 {
        let stale = 50_000 + seed;
        let synthetic =
            Synthetic { transactions: 100_000, keys: 10_000, stale: Some(stale), ..HALF_A_MILLION };
        let report = report(synthetic, seed);
        assert!(report.cycles > 0);
        let violation = &report.violations[0];
        println!("{violation}");
        let Violation::Cycle { steps, .. } = violation else { panic!("{violation}") };
        assert!(steps.len() <= 4, "{violation}");
        assert!(steps.iter().any(|step| step.from.sequence == stale), "{violation}");
    }
}

/// One stale read of a key that all transactions use makes all later ones part of one group; the cycle shown is
/// still short.
#[test]
fn a_stale_read_of_a_hot_key_is_shown_small() {
    let synthetic =
        Synthetic { transactions: 20_000, keys: 10, overlap: 1, stale: Some(10_000), ..HALF_A_MILLION };
    let report = report(synthetic, 3);
    let Some(Violation::Cycle { steps, .. }) = report.violations.first() else { panic!("{report:?}") };
    assert!(steps.len() <= 3, "{}", report.violations[0]);
}
