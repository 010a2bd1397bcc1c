//! The measurement of a run, and its output.

use std::fmt;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::{Load, Wait};

/// Writes that end within this time after the start are not counted, because connections and caches warm up.
const WARM_UP: Duration = Duration::from_secs(1);

/// Longer latencies are counted as this one.
const LONGEST_NS: u64 = 60_000_000_000;

/// Collects the latencies of the writes that end within the measured time.
pub struct Recorder {
    opens: Instant,
    closes: Instant,
    latencies_ns: Histogram<u64>,
}

impl Recorder {
    /// Starts the recorder; the warm-up begins with this call.
    pub fn start(load: &Load) -> Self {
        let opens = Instant::now() + WARM_UP;
        let closes = opens + Duration::from_secs(load.seconds.into());
        let latencies_ns = Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds");
        Self { opens, closes, latencies_ns }
    }

    /// End of the measured time.
    pub fn closes(&self) -> Instant {
        self.closes
    }

    /// Records a write that has been acknowledged.
    pub fn record(&mut self, started: Instant, ended: Instant) {
        if (self.opens..self.closes).contains(&ended) {
            self.latencies_ns.saturating_record((ended - started).as_nanos() as u64);
        }
    }

    /// Computes the figures of the run.
    pub fn finish(&self, system: &'static str, version: String, load: &Load) -> Measurement {
        let operations = self.latencies_ns.len();
        Measurement {
            system,
            clients: load.clients,
            pipeline: load.pipeline,
            wait: load.wait,
            value_bytes: load.value_bytes,
            records: load.records,
            seconds: load.seconds,
            operations,
            throughput_ops_per_s: operations as f64 / f64::from(load.seconds),
            p50_ns: self.latencies_ns.value_at_quantile(0.5),
            p99_ns: self.latencies_ns.value_at_quantile(0.99),
            p999_ns: self.latencies_ns.value_at_quantile(0.999),
            version,
        }
    }
}

/// The figures of one run. The comparison scripts read them as JSON.
#[derive(Debug, Serialize)]
pub struct Measurement {
    system: &'static str,
    clients: u32,
    pipeline: u32,
    wait: Wait,
    value_bytes: u32,
    records: u64,
    seconds: u32,
    operations: u64,
    throughput_ops_per_s: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    version: String,
}

impl fmt::Display for Measurement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let name = format!("{} {}", self.system, self.version);
        write!(
            formatter,
            "{name:<14} {:>5} clients {:>5} B {:>9.0} writes/s   p50 {:>8.1}   p99 {:>8.1}   p99.9 {:>8.1} us",
            self.clients,
            self.value_bytes,
            self.throughput_ops_per_s,
            microseconds(self.p50_ns),
            microseconds(self.p99_ns),
            microseconds(self.p999_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_in_the_measured_time_counts() {
        let load =
            Load { clients: 1, pipeline: 1, wait: Wait::Last, value_bytes: 64, seconds: 2, records: 1 };
        let mut recorder = Recorder::start(&load);
        let (opens, closes, latency) = (recorder.opens, recorder.closes, Duration::from_micros(100));
        for ended in [opens - latency, opens, closes - latency, closes] {
            recorder.record(ended - latency, ended);
        }
        let measurement = recorder.finish("test", "1".into(), &load);
        assert_eq!(measurement.operations, 2);
        assert_eq!(measurement.throughput_ops_per_s, 1.0);
        assert!(measurement.p50_ns.abs_diff(100_000) <= 100, "{measurement:?}");
    }
}
