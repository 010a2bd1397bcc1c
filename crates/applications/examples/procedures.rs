//! Times the procedures of the transactional workloads on this machine: `cargo run --release -p weft-applications
//! --example procedures`. The simulator's times of procedures (docs/costs.md) come from its output.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use weft_applications::retwis::Retwis;
use weft_applications::smallbank::Smallbank;
use weft_applications::tpcc::{Scale, Tpcc};
use weft_applications::{Serial, Workload};

const CALLS: usize = 200_000;

fn main() {
    // The time of reading the clock itself is subtracted from the procedures' times.
    let mut idle: Vec<Duration> = (0..10_000)
        .map(|_| {
            let began = Instant::now();
            black_box(began).elapsed()
        })
        .collect();
    idle.sort_unstable();
    let idle = idle[idle.len() / 2];
    println!("{:<10} {:<26} {:>8} {:>10} {:>10}", "workload", "procedure", "runs", "median ns", "mean ns");
    let scale = Scale { shards: 1, warehouses: 2, items: 10_000, customers: 300 };
    let workloads: [Box<dyn Workload>; 3] =
        [Box::new(Smallbank::new(1, 10_000)), Box::new(Retwis::new(1, 10_000)), Box::new(Tpcc::new(scale))];
    for workload in workloads {
        let mut serial = Serial::load(&*workload, 1);
        let mut client = workload.client(0, 0, 1);
        let mut times: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
        let mut last = None;
        for _ in 0..CALLS {
            let call = client.next(last.as_ref());
            last = Some(serial.call_with(&call.request, |execution, procedure| {
                let began = Instant::now();
                let step = black_box(execution.run(procedure));
                times.entry(procedure.name()).or_default().push(began.elapsed().saturating_sub(idle));
                step
            }));
        }
        for (name, mut times) in times {
            times.sort_unstable();
            let median = times[times.len() / 2].as_nanos();
            // Drop the slowest hundredth of the runs, which were interrupted.
            let kept = &times[..times.len() - times.len() / 100];
            let mean = kept.iter().sum::<Duration>().as_nanos() / kept.len() as u128;
            println!("{:<10} {name:<26} {:>8} {median:>10} {mean:>10}", workload.name(), times.len());
        }
    }
}
