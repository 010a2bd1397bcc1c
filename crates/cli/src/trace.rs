//! A run as a Perfetto trace: the role of each node and the leaders over time, the throughput, and the faults.

use std::io;

use weft_harness::activity::Activity;
use weft_report::perfetto::{Trace, Track};
use weft_results::{Lane, Mark, MarkKind, RunResult, Timeline};
use weft_time::{Duration, Instant};

/// The trace of a result, as bytes.
pub(crate) fn of(result: &RunResult) -> Vec<u8> {
    write(&result.timeline, &result.lanes, &result.marks).expect("memory takes every byte")
}

/// The trace of a cluster's activity, as bytes.
pub(crate) fn of_activity(activity: &Activity) -> Vec<u8> {
    write(&activity.timeline, &activity.lanes, &activity.marks).expect("memory takes every byte")
}

fn write(timeline: &Timeline, lanes: &[Lane], marks: &[Mark]) -> io::Result<Vec<u8>> {
    let mut trace = Trace::new(Vec::new());
    let cluster = trace.process("cluster")?;
    let throughput = trace.counter(cluster, "throughput", "operations/s")?;
    let width = timeline.bucket_ns.max(1);
    for (bucket, &operations) in (0u64..).zip(&timeline.operations) {
        let rate = u128::from(operations) * 1_000_000_000 / u128::from(width);
        trace.count(throughput, at(bucket.saturating_mul(width)), i64::try_from(rate).unwrap_or(i64::MAX))?;
    }
    let end = (timeline.operations.len() as u64).saturating_mul(width);
    trace.count(throughput, at(end), 0)?;
    let events = trace.track(cluster, "events")?;
    let mut nodes: Vec<Track> = Vec::new();
    for lane in lanes {
        let node = trace.process(&lane.name)?;
        let states = trace.track(node, "state")?;
        for span in &lane.states {
            let length = Duration::from_ns(span.to_ns.saturating_sub(span.from_ns));
            trace.slice(states, at(span.from_ns), length, &span.state.to_string(), "state", &[])?;
        }
        if !lane.leads.is_empty() {
            let led = trace.counter(node, "partitions led", "partitions")?;
            for span in &lane.leads {
                trace.count(led, at(span.from_ns), span.led.into())?;
            }
        }
        nodes.push(trace.track(node, "events")?);
    }
    for mark in marks {
        let category = match mark.kind {
            MarkKind::Fault => "fault",
            MarkKind::Repair => "repair",
            MarkKind::ViewChange => "view change",
        };
        let node = mark.node.and_then(|node| nodes.get(node as usize));
        trace.instant(*node.unwrap_or(&events), at(mark.at_ns), &mark.label, category)?;
    }
    trace.finish()
}

fn at(ns: u64) -> Instant {
    Instant::ZERO + Duration::from_ns(ns)
}
