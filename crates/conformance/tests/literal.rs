//! NICs against peers that behave like Linux's soft RoCE.

use weft_conformance::literal::{request, respond};
use weft_conformance::random::Faults;
use weft_conformance::twin::Kind;

const LOSS: Faults = Faults { loss: 100_000, duplication: 0, reordering: 0, corruption: 0 };
const DISORDER: Faults = Faults { loss: 10_000, duplication: 20_000, reordering: 50_000, corruption: 0 };

/// How many times shorter a run is than that of a soft NIC: the gateware simulates slowly.
const fn divisor(kind: Kind) -> u64 {
    match kind {
        Kind::Soft => 1,
        Kind::Rtl => 4,
    }
}

/// No READ or atomic completes before its data has arrived.
fn never_acknowledges_what_it_has_not_answered(kind: Kind) {
    let divisor = divisor(kind);
    for (faults, recoveries) in [(LOSS, 300), (DISORDER, 150)] {
        let report = request(kind, 1, 1_000 / divisor, faults).unwrap();
        assert!(
            report.recoveries > recoveries / divisor && report.duplicates > 1_000 / divisor,
            "{report:?}"
        );
    }
}

/// Gaps that are reported behind a packet without a receive request cost no retry, even under loss.
fn waits_for_a_receiver(kind: Kind) {
    let divisor = divisor(kind);
    let report = respond(kind, 1, 50 / divisor, 10, 0, Faults::default()).unwrap();
    assert!(report.recoveries > 200 / divisor, "{report:?}");
    let some = Faults { loss: 20_000, ..Faults::default() };
    let report = respond(kind, 2, 100 / divisor, 10, 7, some).unwrap();
    assert!(report.recoveries > 400 / divisor && report.lost > 20 / divisor, "{report:?}");
}

#[test]
fn soft_never_acknowledges_what_it_has_not_answered() {
    never_acknowledges_what_it_has_not_answered(Kind::Soft);
}

#[test]
fn soft_waits_for_a_receiver() {
    waits_for_a_receiver(Kind::Soft);
}

#[test]
fn rtl_never_acknowledges_what_it_has_not_answered() {
    never_acknowledges_what_it_has_not_answered(Kind::Rtl);
}

#[test]
fn rtl_waits_for_a_receiver() {
    waits_for_a_receiver(Kind::Rtl);
}
