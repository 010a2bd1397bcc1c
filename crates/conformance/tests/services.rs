//! The services in gates pass the same suite as the soft ones.

use weft_gateware::{Pressure, RtlServices};
use weft_service::{MapKind, Setting, TapKind, suite};

const BOTH: Setting = Setting { map: MapKind::Xor, tap: TapKind::Count, value: 0x0123_4567_89ab_cdef };

#[test]
fn every_service_in_gates_keeps_the_promises() {
    let count = Setting { map: MapKind::None, ..BOTH };
    let xor = Setting { tap: TapKind::None, ..BOTH };
    for (seed, setting) in (1..).zip([Setting::default(), count, xor, BOTH]) {
        let report = suite::check(&mut RtlServices::new(None, 7), setting, seed);
        let report = report.unwrap_or_else(|finding| panic!("{setting:?}, seed {seed}: {finding}"));
        assert!(report.packets > 5_000, "{report:?}");
    }
}

#[test]
fn what_waits_behind_a_service_changes_nothing() {
    let pressure = Some(Pressure { seed: 5, stalls_of_256: 100 });
    suite::check(&mut RtlServices::new(pressure, 0), BOTH, 9).unwrap();
}
