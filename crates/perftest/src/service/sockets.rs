//! Services on the path of the soft card, over UDP sockets between two processes.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use weft_gateware::Service;
use weft_harness::progress::Progress;
use weft_service::{Direction, Flow};

use super::ServiceBench;
use super::result::{Alone, Measured, Run};
use crate::real::Rig;
use crate::{RdmaError, median};

/// Number of runs of each kind, which alternate. Results are medians.
const RUNS: usize = 5;
/// Time for which the service alone is measured.
const ALONE: Duration = Duration::from_millis(500);
/// Number of bytes that the service alone passes again and again.
const ALONE_BYTES: usize = 1 << 20;

/// Measures each size with the service and without it.
pub(super) fn measure(bench: &ServiceBench, server: Command) -> Result<Vec<Measured>, RdmaError> {
    let request = bench.request();
    let service = request.service()?.ok_or(RdmaError::PspOfSoft)?;
    let mut rig = Rig::start(server)?;
    let mut progress = Progress::new("service", (bench.sizes_bytes.len() * RUNS) as u64);
    let mut measured = Vec::new();
    for size in &bench.sizes_bytes {
        let load = bench.run_of(*size).load();
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 1..=RUNS {
            for (service, runs) in [(None, &mut without), (Some(&request), &mut with)] {
                let (measurement, verification) = rig.measure(&load, service)?;
                runs.push(Run::new(&measurement, &verification));
            }
            progress.set((measured.len() * RUNS + round) as u64);
        }
        // Runs that follow each other are compared, because the machine's speed changes.
        let both = with.iter().zip(&without);
        let fraction_of_limit =
            median(both.map(|(with, without)| with.messages_per_s / without.messages_per_s));
        let (with, without) = (Run::median(&with), Run::median(&without));
        measured.push(Measured {
            size_bytes: *size,
            fraction_of_limit,
            limit: without.as_limit("the same WRITEs to the same card without the service, in turn"),
            with,
            without,
            fraction_of_wire: None,
            added_latency_cycles: None,
            runs: RUNS as u64,
            alone: Some(alone(&service, load.mtu, bench.seed)),
        });
    }
    Ok(measured)
}

/// Passes packets in memory through the service repeatedly, and measures its rate.
fn alone(service: &Service, mtu: u32, seed: u64) -> Alone {
    let flow = Flow { queue_pair: 0, direction: Direction::Receive };
    let services = service.in_software(flow);
    let words = (0..ALONE_BYTES as u64 / 4).map(|place| crate::draw::draw(seed, 0, place) as u32);
    let raw: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let mut bytes = raw.clone();
    let begin = Instant::now();
    let mut passes = 0;
    while begin.elapsed() < ALONE {
        bytes.copy_from_slice(&raw);
        for (index, packet) in (0..).zip(bytes.chunks_mut(mtu as usize)) {
            black_box(services.pass(flow, index * u64::from(mtu), packet));
        }
        passes += 1;
    }
    let bytes_per_s = f64::from(passes) * raw.len() as f64 / begin.elapsed().as_secs_f64();
    Alone { bytes_per_s }
}
