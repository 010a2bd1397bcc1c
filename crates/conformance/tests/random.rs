//! Short random runs; `examples/stress.rs` has the long ones.

use weft_conformance::random::{Faults, Run, check};
use weft_conformance::twin::{Kind, Options};
use weft_gateware::Pressure;

const FAULTS: Faults = Faults { loss: 10_000, duplication: 10_000, reordering: 10_000, corruption: 10_000 };

fn run(kinds: [Kind; 2], seed: u64, messages: usize, faults: Faults) {
    run_served(kinds, seed, messages, faults, false);
}

fn run_served(kinds: [Kind; 2], seed: u64, messages: usize, faults: Faults, services: bool) {
    // Every other run has random back-pressure on the gateware's ports.
    let pressure = (seed % 2 == 1).then_some(Pressure { seed, stalls_of_256: 40 });
    // Two of three runs have NICs that repair READs, and soft NICs that keep packets ahead of the expected
    // PSN, one of them with little room.
    let reorder_packets = [0, 64, 3][seed as usize % 3];
    let options = Options {
        pressure,
        power_on_seed: seed as u32 | 1,
        reorder_packets,
        read_parts: reorder_packets > 0,
        services,
        ..Options::default()
    };
    let queue_pairs = if services { 5 } else { 4 };
    let run = Run { seed, messages, queue_pairs, faults, options };
    let report = check(kinds, &run).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.messages, messages);
    if faults == FAULTS {
        assert!(report.faults.iter().all(|times| *times > 0), "{report:?}");
    }
}

#[test]
fn soft_with_soft() {
    run([Kind::Soft; 2], 1, 400, Faults::default());
    for seed in 2..6 {
        run([Kind::Soft; 2], seed, 2_000, FAULTS);
    }
}

#[test]
fn rtl_with_rtl() {
    run([Kind::Rtl; 2], 11, 200, Faults::default());
    run([Kind::Rtl; 2], 12, 2_000, FAULTS);
    run([Kind::Rtl; 2], 13, 2_000, FAULTS);
}

#[test]
fn soft_with_rtl() {
    run([Kind::Soft, Kind::Rtl], 21, 200, Faults::default());
    run([Kind::Soft, Kind::Rtl], 22, 2_000, FAULTS);
    run([Kind::Soft, Kind::Rtl], 24, 2_000, FAULTS);
    run([Kind::Rtl, Kind::Soft], 23, 2_000, FAULTS);
    run([Kind::Rtl, Kind::Soft], 25, 2_000, FAULTS);
}

/// SENDs, WRITEs and calls of four of five queue pairs go through services: byte counts, XOR, inspection and
/// preprocessing.
#[test]
fn services_on_the_path() {
    run_served([Kind::Soft; 2], 31, 2_000, FAULTS, true);
    run_served([Kind::Rtl; 2], 32, 400, Faults::default(), true);
    run_served([Kind::Rtl; 2], 33, 2_000, FAULTS, true);
    run_served([Kind::Rtl; 2], 37, 2_000, FAULTS, true);
    run_served([Kind::Soft, Kind::Rtl], 34, 1_000, FAULTS, true);
}
