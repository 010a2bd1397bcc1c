//! Each planted bug makes the random schedules fail, which shows that the schedules detect it.
#![cfg(feature = "planted-bugs")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::network::{Faults, Network, small};
use weft_kv::{Kv, Parameters, PlantedBug};

/// The first violation that the schedules of these seeds find.
fn violation(bug: Option<PlantedBug>, seeds: std::ops::Range<u64>) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| {
        let parameters = Parameters { planted_bug: bug, ..small() };
        let run = catch_unwind(AssertUnwindSafe(|| {
            Network::<Kv>::new(seed, 3, 6, 300, Faults::ALL, parameters).run();
        }));
        let text = run.err()?.downcast::<String>().map_or("a panic".into(), |text| *text);
        Some((seed, text))
    })
}

#[test]
fn every_planted_bug_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(violation(None, 1..10), None);
    for bug in PlantedBug::ALL {
        let (seed, text) = violation(Some(bug), 1..100).unwrap_or_else(|| {
            println!("{} is not caught", bug.name());
            panic!("{} is not caught", bug.name())
        });
        println!("{} is caught with seed {seed}: {text}", bug.name());
    }
}
