//! Each planted bug makes the schedules fail, which shows that the schedules detect it.
#![cfg(feature = "planted-bugs")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::network::{Faults, Network, small};
use crate::search;
use weft_rounds::{Members, Parameters, PlantedBug, Quorums};
use weft_time::Duration;

/// The first violation that the schedules of these seeds find, within the fault assumptions or beyond them.
fn violation(bug: Option<PlantedBug>, seeds: Range<u64>) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| {
        let parameters = Parameters { planted_bug: bug, ..small(4 + seed % 2 * 4) };
        let nodes = [3, 5, 7][seed as usize / 2 % 3].min(parameters.members_max());
        let within = seed % 4 < 2;
        let correct = if within { nodes - Quorums::tolerated(nodes) } else { 0 };
        let faults = Faults::all(Members::first(nodes).difference(Members::first(correct)));
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut network: Network = Network::new(seed, nodes, faults, Duration::from_ms(2), parameters);
            if within { network.run() } else { network.run_broken() }
        }));
        let text = run.err()?.downcast::<String>().map_or("a panic".into(), |text| *text);
        Some((seed, text))
    })
}

#[test]
fn every_planted_bug_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(violation(None, 0..24), None);
    let of_instances = [
        PlantedBug::SuspicionNotMutual,
        PlantedBug::HoldersNotCounted,
        PlantedBug::DecideWhenLocked,
        PlantedBug::LockAtOnce,
    ];
    for bug in PlantedBug::ALL {
        let found = if of_instances.contains(&bug) {
            search::violation(Some(bug), 0..1_000_000)
        } else {
            violation(Some(bug), 0..400)
        };
        match found {
            Some((seed, text)) => println!("{} is caught with seed {seed}: {text}", bug.name()),
            None => panic!("{} is not caught", bug.name()),
        }
    }
}
