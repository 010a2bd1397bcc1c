//! The port at which engines change access rights, and memories that are too slow.

use crate::side_by_side;
use weft_conformance::engine::{Change, revoke};
use weft_conformance::overload;
use weft_time::Duration;
use weft_verbs::Target;

/// Maximum number of 4 ns cycles until the marker, for every memory: it waits only for the memory's latency
/// (here up to 60 cycles) and the pipeline.
const CYCLES_MAX: u64 = 250;

#[test]
fn nothing_lands_after_the_marker() {
    let mut streams = Vec::new();
    for target in [Target::OnChip, Target::Hbm, Target::Host] {
        for change in [Change::QueuePair, Change::Region] {
            streams.extend([(1, 16), (20, 16), (33, 40)].map(|(before, gap)| (target, change, before, gap)));
        }
    }
    side_by_side::map(&streams, |&(target, change, before, gap)| {
        let revoked = revoke(target, change, before, Duration::from_ns(gap)).unwrap();
        println!("{target:?} {change:?}, {gap} ns apart: {revoked:?}");
        assert!(revoked.cycles <= CYCLES_MAX, "{target:?} {change:?}: {revoked:?}");
    });
}

#[test]
fn what_finds_no_room_is_dropped_and_sent_again() {
    for case in overload::CASES {
        overload::check(&case).unwrap();
    }
}
