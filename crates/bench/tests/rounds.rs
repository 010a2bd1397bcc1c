//! Tests of campaigns of the rounds engine: their findings, and that they are deterministic.

use weft_bench::rounds::{Campaign, CampaignResult, FaultClass, Service};
use weft_results::NicModel;

fn campaign(nodes: usize, seeds: std::ops::RangeInclusive<u64>, faults: FaultClass) -> Campaign {
    Campaign {
        nodes,
        seeds,
        faults,
        window: if nodes > 6 { 8 } else { 4 },
        nic: NicModel::Soft,
        service: Service::Streams,
        psp: false,
        #[cfg(feature = "planted-bugs")]
        planted_bug: None,
        #[cfg(feature = "planted-bugs")]
        node_bug: None,
    }
}

fn run(campaign: &Campaign) -> CampaignResult {
    campaign.run(|seed| format!("seed {seed}"), |_| {})
}

#[test]
fn nothing_goes_wrong_without_a_bug() {
    for (nodes, last) in [(2, 8), (3, 16), (5, 12), (7, 4)] {
        for faults in FaultClass::ALL {
            let result = run(&campaign(nodes, 1..=last, faults));
            assert_eq!(result.findings.violations, [], "{nodes} nodes, {faults}");
            assert_eq!((result.checked, result.seeds_run), ("agree", last));
            assert!(
                result.decided > 1_000 * u64::from(faults != FaultClass::Crash),
                "{nodes} nodes, {faults}"
            );
        }
    }
}

#[test]
fn the_register_is_linearizable() {
    for (nodes, faults) in [(3, FaultClass::All), (5, FaultClass::Omission), (5, FaultClass::Crash)] {
        let result = run(&Campaign { service: Service::Register, ..campaign(nodes, 1..=8, faults) });
        assert_eq!(
            (&result.findings.violations[..], result.checked),
            (&[][..], "linearizable"),
            "{nodes} nodes, {faults}"
        );
        assert!(result.operations > 1_000, "{}", result.operations);
    }
}

#[test]
fn faults_are_met_and_survived() {
    let result = run(&campaign(5, 1..=16, FaultClass::All));
    for kind in
        ["loss", "one_way_cut", "reordering", "corruption", "duplication", "crash", "restart", "pause"]
    {
        assert!(result.faults[kind] > 0, "{kind}: {:?}", result.faults);
    }
    assert!(result.seeds_beyond == 4 && result.fences > 0 && result.epochs > 0, "{result:?}");
}

#[test]
fn a_seed_decides_a_run_to_the_bit() {
    let hash = |seed| run(&campaign(3, seed..=seed, FaultClass::All)).findings.log_hash;
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}

/// One of the first seeds of a campaign in which the bug can occur must find each bug.
#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_found() {
    use weft_rounds::PlantedBug;

    for bug in PlantedBug::ALL {
        let (nodes, faults) = match bug {
            PlantedBug::SuspicionNotMutual | PlantedBug::LateMessageCounts => (3, FaultClass::All),
            PlantedBug::GuessInsteadOfFence => (5, FaultClass::All),
            _ => (5, FaultClass::Omission),
        };
        let found = (1..=200).find_map(|seed| {
            let planted = Campaign { planted_bug: Some(bug), ..campaign(nodes, seed..=seed, faults) };
            run(&planted).findings.violations.pop()
        });
        let violation = found.unwrap_or_else(|| panic!("{} is not found", bug.name()));
        // Without the bug the same seed has no violation.
        assert_eq!(
            run(&campaign(nodes, violation.seed..=violation.seed, faults)).findings.violations,
            [],
            "{violation:?}"
        );
    }
}
