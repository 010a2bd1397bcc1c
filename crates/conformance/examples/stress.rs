//! The long random runs: 10,000 messages at 0.1 % and at 1 % loss, and with all faults at once, for every
//! pair of kinds.
//!
//! `cargo run --release -p weft-conformance --example stress -- [messages] [seed]`

use weft_conformance::random::{Faults, Run, check};
use weft_conformance::twin::{Kind, Options};
use weft_gateware::Pressure;

const RUNS: [(&str, Faults); 3] = [
    ("0.1 % loss", Faults { loss: 1_000, duplication: 0, reordering: 0, corruption: 0 }),
    ("1 % loss", Faults { loss: 10_000, duplication: 0, reordering: 0, corruption: 0 }),
    (
        "1 % of each fault",
        Faults { loss: 10_000, duplication: 10_000, reordering: 10_000, corruption: 10_000 },
    ),
];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let messages = arguments.next().unwrap_or(10_000) as usize;
    let seed = arguments.next().unwrap_or(1);
    let mut failed = false;
    for (name, faults) in RUNS {
        for (number, kinds) in (0..).zip(Kind::PAIRS) {
            let pressure = (number % 2 == 1).then_some(Pressure { seed, stalls_of_256: 32 });
            // Soft NICs keep requests in every other run.
            let reorder_packets = if seed % 2 == 1 { 64 } else { 0 };
            let options = Options {
                pressure,
                power_on_seed: seed as u32 | 1,
                reorder_packets,
                read_parts: true,
                ..Options::default()
            };
            let run = Run { seed: seed + number, messages, queue_pairs: 6, faults, options };
            let pair = format!("{}-{}", kinds[0].name(), kinds[1].name());
            match check(kinds, &run) {
                Ok(report) => println!(
                    "{pair}, {name}: {} requests and {} received messages and {} calls in {} frames, {:?} lost, doubled, delayed, \
                     corrupted; {}",
                    report.messages, report.received, report.calls, report.frames, report.faults, report.end
                ),
                Err(error) => {
                    failed = true;
                    println!("{pair}, {name}: FAILED: {error}");
                }
            }
        }
    }
    std::process::exit(i32::from(failed));
}
