//! Keepers of the membership service, coordinators and nodes in a faulty network.

mod world;

use world::{Found, World};

/// Runs one seed; `Err` with what was violated.
fn run(world: World) -> Result<Found, String> {
    world.run()
}

#[test]
fn one_keeper_at_a_time_holds_the_service_and_a_successor_follows() {
    let mut all = Found::default();
    for seed in 1..=60 {
        let found = run(World::new(seed)).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        all.terms += found.terms;
        all.views += found.views;
        all.stall_ms = all.stall_ms.max(found.stall_ms);
    }
    println!("{all:?}");
    // Otherwise the runs would show nothing.
    assert!(all.terms > 300 && all.views > 300, "{all:?}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_found() {
    use weft_cluster::PlantedBug;
    for bug in [PlantedBug::TermOverrun, PlantedBug::SuccessorInHaste, PlantedBug::EarlierTermAccepted] {
        let found = (1..=200).find_map(|seed| {
            let violation = run(World::new(seed).with_planted_bug(bug)).err()?;
            Some(format!("seed {seed}: {violation}"))
        });
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} went unnoticed");
    }
}
