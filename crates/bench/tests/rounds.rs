//! Tests of campaigns of the rounds engine: their findings, and that they are deterministic.

use weft_bench::rounds::{FaultClass, RoundsFigures, RoundsSubject, SeedFailures, Service};
use weft_harness::{Campaign, CampaignResult};
use weft_results::NicModel;

/// The rounds on this number of nodes.
fn rounds(nodes: usize, faults: FaultClass) -> RoundsSubject {
    RoundsSubject {
        faults,
        window: if nodes > 6 { 8 } else { 4 },
        nic: NicModel::Soft,
        service: Service::Streams,
        psp: false,
        #[cfg(feature = "planted-bugs")]
        planted_bug: None,
    }
}

fn run(
    nodes: usize,
    seeds: std::ops::RangeInclusive<u64>,
    rounds: &RoundsSubject,
) -> CampaignResult<RoundsFigures, SeedFailures> {
    let runs = Campaign::new(nodes, seeds);
    runs.run(rounds, |seed| format!("seed {seed}"), |_| {}).expect("random plans fit")
}

#[test]
fn nothing_goes_wrong_without_a_bug() {
    for (nodes, last) in [(2, 4), (3, 8), (5, 4), (7, 2)] {
        for faults in FaultClass::ALL {
            let result = run(nodes, 1..=last, &rounds(nodes, faults));
            assert_eq!(result.findings.violations, [], "{nodes} nodes, {faults}");
            assert_eq!((result.checked, result.seeds_run), ("agree", last));
            assert!(
                result.figures.decided > 1_000 * u64::from(faults != FaultClass::Crash),
                "{nodes} nodes, {faults}"
            );
        }
    }
}

#[test]
fn the_register_is_linearizable() {
    for (nodes, faults) in [(3, FaultClass::All), (5, FaultClass::Omission), (5, FaultClass::Crash)] {
        let register = RoundsSubject { service: Service::Register, ..rounds(nodes, faults) };
        let result = run(nodes, 1..=8, &register);
        assert_eq!(
            (&result.findings.violations[..], result.checked),
            (&[][..], "linearizable"),
            "{nodes} nodes, {faults}"
        );
        assert!(result.figures.operations > 1_000, "{result:?}");
    }
}

#[test]
fn faults_are_met_and_survived() {
    let result = run(5, 1..=16, &rounds(5, FaultClass::All));
    for kind in
        ["loss", "one_way_cut", "reordering", "corruption", "duplication", "crash", "restart", "pause"]
    {
        assert!(result.faults[kind] > 0, "{kind}: {:?}", result.faults);
    }
    let RoundsFigures { seeds_beyond, fences, epochs, .. } = result.figures;
    assert!(seeds_beyond == 4 && fences > 0 && epochs > 0, "{result:?}");
}

#[test]
fn a_seed_decides_a_run_to_the_bit() {
    let hash = |seed| run(3, seed..=seed, &rounds(3, FaultClass::All)).findings.log_hash;
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}

/// Each bug must be found in a campaign in which it can occur, with the first seed that finds it. That seed must have
/// no violation without the bug.
#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_found() {
    use weft_rounds::PlantedBug;

    for bug in PlantedBug::ALL {
        let (nodes, faults, seed) = match bug {
            PlantedBug::SuspicionNotMutual => (3, FaultClass::All, 12),
            PlantedBug::LateMessageCounts => (3, FaultClass::All, 1),
            PlantedBug::GuessInsteadOfFence => (5, FaultClass::All, 2),
            PlantedBug::HoldersNotCounted => (5, FaultClass::Omission, 9),
            PlantedBug::DecideWhenLocked => (5, FaultClass::Omission, 13),
            PlantedBug::LockAtOnce => (5, FaultClass::Omission, 32),
            PlantedBug::OneAccuserIsEnough => (5, FaultClass::Omission, 106),
        };
        let finds = |seed, planted_bug| {
            let planted = RoundsSubject { planted_bug, ..rounds(nodes, faults) };
            run(nodes, seed..=seed, &planted).findings.violations_found > 0
        };
        if !finds(seed, Some(bug)) {
            let first = (1..=200).find(|&seed| finds(seed, Some(bug)));
            panic!("seed {seed} does not show {}; of seeds 1 to 200, the first is {first:?}", bug.name());
        }
        assert!(!finds(seed, None), "seed {seed} fails without {} too", bug.name());
    }
}
