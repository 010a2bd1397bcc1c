//! The checks of random schedules find each planted bug.
#![cfg(feature = "planted-bugs")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::network::workload::{ACCOUNTS, BALANCE};
use crate::network::{Network, Setup};
use weft_time::Duration;
use weft_txn::PlantedBug;

/// Whether a run fails a check. `crash`: a node crashes in the middle of the run.
fn is_caught(seed: u64, bug: Option<PlantedBug>, crash: bool) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // A card's index would panic at a write without a lock. With tables in the engine the run goes on,
        // and the history shows the bug.
        let entries = (bug != Some(PlantedBug::UnlockBeforeLog)).then_some(64);
        let mut setup = Setup::new(3, 2, entries);
        setup.parameters.bug = bug;
        setup.parameters.variant.multi_hop = seed.is_multiple_of(2);
        setup.local =
            bug == Some(PlantedBug::HostVersionUnchecked) || bug.is_none() && seed.is_multiple_of(2);
        let mut network = Network::new(seed, setup);
        if bug == Some(PlantedBug::FullBeforeCopied) || bug.is_none() && seed.is_multiple_of(3) {
            network.comes_back = Some(Duration::from_us(50));
        }
        if crash {
            let event = 3_000 + network.random(3_000);
            network.crash_at = Some(((seed % 3) as usize, event));
        }
        network.start(6, 300);
        if !network.settle(1_000_000) {
            return true;
        }
        network.check().is_violated() || network.money() != 3 * ACCOUNTS * BALANCE
    }));
    outcome.unwrap_or(true)
}

fn caught(bug: PlantedBug, crash: bool) {
    let found = (0..100).find(|&seed| is_caught(seed, Some(bug), crash));
    assert!(found.is_some(), "{bug:?} was not found");
}

#[test]
fn nothing_is_found_without_a_bug() {
    for seed in 0..10 {
        assert!(!is_caught(seed, None, seed % 2 == 1), "seed {seed}");
    }
}

#[test]
fn skipped_validation() {
    caught(PlantedBug::SkipValidate, false);
}

#[test]
fn locks_given_back_before_the_log() {
    caught(PlantedBug::UnlockBeforeLog, false);
}

#[test]
fn stale_cache_after_a_commit() {
    caught(PlantedBug::StaleCache, false);
}

#[test]
fn promotion_before_the_log_is_applied() {
    caught(PlantedBug::LostLockOnPromotion, true);
}

#[test]
fn commit_at_the_first_answer() {
    caught(PlantedBug::CommitAtFirstLog, true);
}

#[test]
fn host_versions_that_are_not_checked() {
    caught(PlantedBug::HostVersionUnchecked, false);
}

#[test]
fn full_before_the_copy_is_complete() {
    caught(PlantedBug::FullBeforeCopied, true);
}
