//! Random runs with power cuts, killed processes and faults of the disk.

use crate::campaign::{Medium, Summary, run};
use weft_store::Parameters;

const PARAMETERS: Parameters = Parameters::new(3, 16, 12);

fn runs(medium: Medium, seeds: std::ops::Range<u64>) -> Vec<Summary> {
    let summary = |seed| match run(PARAMETERS, medium, seed, 400) {
        Ok(summary) => summary,
        Err(violation) => panic!("{medium:?}, seed {seed}: {violation}"),
    };
    seeds.map(summary).collect()
}

#[test]
fn all_that_was_durable_is_found_again() {
    let summaries = runs(Medium::Intact, 0..500);
    assert!(summaries.iter().all(|summary| summary.recoveries > 0 && !summary.damaged));
    assert!(summaries.iter().any(|summary| summary.snapshots > 3), "{summaries:?}");
}

#[test]
fn one_fault_of_the_medium_loses_nothing_in_silence() {
    let summaries = runs(Medium::OneFault, 0..1_000);
    let damaged = summaries.iter().filter(|summary| summary.damaged).count();
    assert!((1..500).contains(&damaged), "most of it is repaired, and some cannot be: {damaged}");
}

#[test]
fn nothing_is_invented_on_a_disk_that_fails_at_many_places() {
    let summaries = runs(Medium::Arbitrary, 0..500);
    assert!(summaries.iter().any(|summary| summary.damaged));
}

mod any_sizes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_durable_is_lost_whatever_the_sizes(
            batch in 1u32..5,
            log in 0u64..20,
            snapshot in 1u64..20,
            seed: u64,
            fault: bool,
        ) {
            let parameters = Parameters::new(batch, 2 * u64::from(batch) + log, snapshot);
            let medium = if fault { Medium::OneFault } else { Medium::Intact };
            let outcome = run(parameters, medium, seed, 200);
            prop_assert!(outcome.is_ok(), "{:?}", outcome.err());
        }
    }
}
