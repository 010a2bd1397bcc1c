//! Each planted bug makes random runs fail, which shows that the runs detect it.
#![cfg(feature = "planted-bugs")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::campaign::{Medium, run};
use weft_store::{Parameters, PlantedBug};

/// The first violation that a run finds.
fn violation(planted_bug: Option<PlantedBug>) -> Option<(u64, String)> {
    let parameters = Parameters { planted_bug, ..Parameters::new(3, 16, 12) };
    (0..2_000).find_map(|seed| {
        [Medium::Intact, Medium::OneFault, Medium::Arbitrary].into_iter().find_map(|medium| {
            let run = catch_unwind(AssertUnwindSafe(|| run(parameters, medium, seed, 400)));
            Some((seed, run.unwrap_or_else(|_| Err("a panic".into())).err()?))
        })
    })
}

#[test]
fn every_planted_bug_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(violation(None), None);
    let missed: Vec<_> = PlantedBug::ALL.into_iter().filter(|bug| violation(Some(*bug)).is_none()).collect();
    drop(std::panic::take_hook());
    assert_eq!(missed, []);
}
