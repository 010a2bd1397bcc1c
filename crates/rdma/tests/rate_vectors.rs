//! The vectors by which the gateware's block test replays the rate machine event by event. `UPDATE=1 cargo
//! test -p weft-rdma rate_vectors::` writes `rtl/rdma/vectors/rate_machine.txt`, and
//! `rtl/rdma/test_rate_machine.py` reads it. So Rust and gateware compute the same bits.

use std::fmt::Write as _;
use std::path::Path;

use weft_rdma::rate::{RateMachine, STEP_BYTES};

/// A separate random number generator (SplitMix64), so that the file depends on nothing else.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }
}

/// Runs with many notifications to few. Each line has an event, and afterwards the state of the machine and
/// the time of a byte.
fn vectors() -> String {
    let mut text =
        String::from("# event bytes current target alpha timer_steps byte_steps bytes byte_time\n");
    let mut draws = Draws(7);
    let mut notifications = 0;
    for (run, calm) in [2, 4, 8, 16, 32, 64, 128].into_iter().enumerate() {
        let mut machine = RateMachine::default();
        text.push_str("fresh\n");
        // Long runs of only timer periods, or of only bytes, saturate the counts of steps.
        let bytes_of_three = [1, 1, 2, 3, 3, 2, 1][run];
        for _ in 0..400 {
            let (event, bytes) = if !machine.is_limited() || draws.below(calm) == 0 {
                machine.on_notification();
                notifications += 1;
                ("notification", 0)
            } else if draws.below(3) < bytes_of_three {
                // Sometimes near the end of a step.
                let left = STEP_BYTES - machine.bytes;
                let bytes =
                    if left < 4_200 && draws.below(2) == 0 { left } else { 70 + draws.below(4_130) as u32 };
                machine.on_bytes(bytes);
                ("bytes", bytes)
            } else {
                machine.on_timer();
                ("period", 0)
            };
            let RateMachine { current, target, alpha, timer_steps, byte_steps, bytes: counted } = machine;
            writeln!(
                text,
                "{event} {bytes} {current} {target} {alpha} {timer_steps} {byte_steps} {counted} {}",
                machine.byte_time()
            )
            .unwrap();
            // A byte step takes hundreds of packets, so the counter is set forward.
            if event == "bytes" && draws.below(3) == 0 && machine.is_limited() {
                machine.bytes = STEP_BYTES - 1 - draws.below(4_000) as u32;
                writeln!(text, "set {}", machine.bytes).unwrap();
            }
        }
    }
    assert!(notifications > 200, "{notifications}");
    text
}

#[test]
fn the_vectors_are_what_the_machine_computes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/rdma/vectors/rate_machine.txt");
    let actual = vectors();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, actual).unwrap();
    } else {
        let expected = std::fs::read_to_string(&path).unwrap();
        assert!(expected == actual, "UPDATE=1 writes {} anew", path.display());
    }
}
