//! The sender: the end that writes.

use std::time::Instant;

use weft_cuda::expected_word;
use weft_net::RegionEnd;
use weft_results::histogram::Latencies;
use weft_time::Duration;

use super::{CudaBench, FLAG_BYTES, Job, LATENCY_BYTES, ROUND_WRITES, Sent};
use crate::RdmaError;
use crate::pair::told;

/// Does the sender's part of a job.
pub(super) fn send(bench: &CudaBench, end: &mut RegionEnd, job: Job) -> Result<Sent, RdmaError> {
    match job {
        Job::Throughput => throughput(bench, end).map(Sent::Time),
        Job::Latency => latency(bench, end).map(Sent::Latencies),
        Job::Rounds(_) => rounds(bench, end).map(Sent::Latencies),
    }
}

fn since(begin: Instant) -> u64 {
    begin.elapsed().as_nanos() as u64
}

/// The expected byte at this offset in the region.
pub(super) fn pattern(place: usize) -> u8 {
    (place as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]
}

/// Measures the time from the first post to the answer to the last message, in nanoseconds.
fn throughput(bench: &CudaBench, end: &mut RegionEnd) -> Result<u64, RdmaError> {
    let stream = bench.stream();
    let bytes: Vec<u8> = (0..stream.bytes()).map(pattern).collect();
    end.store(0, &bytes)?;
    stream.send(end)
}

/// Measures round-trip times of single messages and their answers.
fn latency(bench: &CudaBench, end: &mut RegionEnd) -> Result<Latencies, RdmaError> {
    let mut latencies = Latencies::new();
    for number in 0..bench.latency_messages {
        let begin = Instant::now();
        end.write(0, LATENCY_BYTES, 0, Some(number as u32))?;
        told(end)?;
        latencies.record(Duration::from_ns(since(begin)));
    }
    Ok(latencies)
}

/// Measures rounds of data and a notification: the time from the first post until the sender knows that the
/// kernel has compared the data.
fn rounds(bench: &CudaBench, end: &mut RegionEnd) -> Result<Latencies, RdmaError> {
    let mut latencies = Latencies::new();
    let part = bench.round_bytes / ROUND_WRITES;
    let mut data = vec![0; bench.round_bytes as usize];
    for round in 1..=bench.rounds {
        for (index, word) in (0..).zip(data.chunks_exact_mut(4)) {
            word.copy_from_slice(&expected_word(round, index).to_le_bytes());
        }
        end.store(0, &data)?;
        end.store(bench.round_bytes.into(), &round.to_le_bytes())?;
        let begin = Instant::now();
        for place in (0..ROUND_WRITES).map(|index| u64::from(index * part)) {
            end.write(place, part, place, None)?;
        }
        let flag = bench.round_bytes.into();
        end.write(flag, FLAG_BYTES, flag, Some(round as u32))?;
        told(end)?;
        latencies.record(Duration::from_ns(since(begin)));
    }
    Ok(latencies)
}
