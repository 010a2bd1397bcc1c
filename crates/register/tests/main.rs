//! Proposers and coordinators in a faulty network, whose history must be linearizable.

mod network;

use network::{Faults, Network};
use weft_check::Verdict;

/// Runs one seed and returns the verdict on its history, with what was done.
fn run(network: Network) -> (Verdict, network::Done) {
    let (history, done) = network.run();
    let report = weft_check::check(&history, &weft_check::Options::default());
    (report.verdict, done)
}

#[test]
fn histories_of_reads_and_compare_and_sets_are_linearizable() {
    for coordinators in [1, 3, 5] {
        let mut all = network::Done::default();
        for seed in 1..=100 {
            let (verdict, done) = run(Network::new(seed, coordinators, Faults::ALL));
            assert_eq!(verdict, Verdict::Linearizable, "seed {seed}, {coordinators} coordinators");
            all += done;
        }
        println!("{coordinators} coordinators: {all:?}");
        // Otherwise the runs would show nothing.
        assert!(all.set > 1_000 && all.conflicts > 100 && all.unknown > 100 && all.read > 1_000, "{all:?}");
    }
}

#[test]
fn in_a_quiet_network_proposers_that_contend_make_progress() {
    let mut all = network::Done::default();
    for seed in 1..=20 {
        let (verdict, done) = run(Network::new(seed, 3, Faults::NONE));
        assert_eq!(verdict, Verdict::Linearizable);
        all += done;
    }
    println!("{all:?}");
    assert!(all.read + all.set + all.conflicts > 6 * all.unknown, "{all:?}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_found() {
    for bug in weft_register::PlantedBug::ALL {
        let found = (1..=300).find(|&seed| {
            let network = Network::new(seed, 3, Faults::ALL).with_planted_bug(bug);
            run(network).0 == Verdict::Violation
        });
        println!("{bug:?}: seed {found:?}");
        assert!(found.is_some(), "{bug:?} went unnoticed");
    }
}
