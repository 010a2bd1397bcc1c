//! The result of `weft bench service`.

use std::fmt::Write as _;

use serde::Serialize;
use weft_results::table::{Table, grouped, three_digits, with_prefix};
use weft_time::Duration;

use super::{ServiceBench, ServiceName};
use crate::client::Measurement;
use crate::detection::Detection;
use crate::payload::Verification;
use crate::{Limit, median, rate};

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) messages_per_s: f64,
    pub(super) goodput_bits_per_s: f64,
    p50_ns: u64,
    p99_ns: u64,
    /// Description of the first difference between memory or taps and those of the service in software.
    difference: Option<String>,
}

impl Run {
    pub(super) fn new(measurement: &Measurement, verification: &Verification) -> Self {
        let summary = measurement.latencies.summary();
        let nothing = (verification.messages == 0).then(|| "nothing was compared".to_owned());
        Self {
            messages_per_s: rate(measurement.messages, measurement.measured),
            goodput_bits_per_s: 8.0 * rate(measurement.bytes, measurement.measured),
            p50_ns: summary.p50_ns,
            p99_ns: summary.p99_ns,
            difference: verification.first.clone().or(nothing),
        }
    }

    /// The medians of runs, and the first difference of all.
    pub(super) fn median(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(runs.iter().map(figure));
        Self {
            messages_per_s: of(|run| run.messages_per_s),
            goodput_bits_per_s: of(|run| run.goodput_bits_per_s),
            p50_ns: of(|run| run.p50_ns as f64) as u64,
            p99_ns: of(|run| run.p99_ns as f64) as u64,
            difference: runs.iter().find_map(|run| run.difference.clone()),
        }
    }

    pub(super) fn as_limit(&self, what: &str) -> Limit {
        let Self { goodput_bits_per_s, messages_per_s, .. } = *self;
        Limit { goodput_bits_per_s, messages_per_s, what: what.into() }
    }
}

/// The measurement of one size.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) size_bytes: u32,
    pub(super) with: Run,
    pub(super) without: Run,
    pub(super) limit: Limit,
    pub(super) fraction_of_limit: f64,
    pub(super) fraction_of_wire: Option<f64>,
    pub(super) added_latency_cycles: Option<u64>,
    pub(super) alone: Option<Alone>,
    /// Number of runs of each kind, whose medians these are.
    pub(super) runs: u64,
}

/// The rate of the service alone, on one core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// The figures of one size with the service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Number of bytes of a message.
    pub size_bytes: u32,
    /// Messages per second with the service; of several runs the median.
    pub messages_per_s: f64,
    /// The payload of those messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// The rows of those messages per second; only of the preprocessing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_per_s: Option<f64>,
    /// The fraction of the limit's goodput that was reached.
    pub fraction_of_limit: f64,
    /// The limit: what the card reaches without the service; of PSP, the wire with its longer frames.
    pub limit: Limit,
    /// The fraction of the wire's goodput that was reached, with the frames that the service makes; only of the
    /// gateware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction_of_wire: Option<f64>,
    /// Number of cycles that the service adds to a 64-byte WRITE, from the post until the data is visible; only of
    /// the gateware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_latency_cycles: Option<u64>,
    /// The service without a card; only of the soft NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
}

/// One size with the service or without it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What is on the path: the service, or `nothing`.
    pub path: &'static str,
    /// Number of bytes of a message.
    pub size_bytes: u32,
    /// Messages per second.
    pub messages_per_s: f64,
    /// The payload of those messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// Half of the single messages took at most this time from post to completion.
    pub p50_ns: u64,
    /// 99 % of the single messages took at most this time.
    pub p99_ns: u64,
}

/// Result of `weft bench service`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceResult {
    /// The service.
    pub service: ServiceName,
    /// Name of the NIC.
    pub nic: String,
    /// Name of the world: cards in the simulator, or over sockets.
    pub world: String,
    /// Name of the pipeline; only of the preprocessing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// Number of bytes of a row; only of the preprocessing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_bytes: Option<u64>,
    /// Number of queue pairs.
    pub qps: u32,
    /// Path MTU.
    pub mtu_bytes: u32,
    /// Number of runs of each kind, whose medians the figures are.
    pub runs: u64,
    /// Seed of the payload.
    pub seed: u64,
    /// The figures of the last size.
    #[serde(flatten)]
    pub figures: Figures,
    /// What the service finds; only of the inspection, with packets to judge.
    #[serde(flatten)]
    pub detection: Option<Detection>,
    /// All sizes, each with the service and without it.
    pub points: Vec<Point>,
    /// Whether memory and taps were those of the service in software, in each run.
    pub intact: bool,
    /// Description of the first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// [`ServiceBench::time`].
    #[serde(skip)]
    pub time: Duration,
}

impl ServiceResult {
    pub(super) fn new(bench: &ServiceBench, measured: Vec<Measured>, detection: Option<Detection>) -> Self {
        let is_preprocess = bench.service == ServiceName::Preprocess;
        let pipeline =
            is_preprocess.then(|| bench.pipeline.pipeline().expect("checked before anything else"));
        let row_bytes = pipeline.map(|pipeline| pipeline.row_bytes() as u64);
        let name = bench.service.name();
        let runs =
            || measured.iter().flat_map(|one| [(name, one, &one.with), ("nothing", one, &one.without)]);
        let points = runs().map(|(path, one, run)| Point {
            path,
            size_bytes: one.size_bytes,
            messages_per_s: run.messages_per_s,
            goodput_bits_per_s: run.goodput_bits_per_s,
            p50_ns: run.p50_ns,
            p99_ns: run.p99_ns,
        });
        let points = points.collect();
        let difference = runs().find_map(|(.., run)| run.difference.clone());
        let last = measured.into_iter().next_back().expect("there is a size");
        Self {
            service: bench.service,
            nic: bench.nic.to_string(),
            world: bench.world().to_string(),
            pipeline: is_preprocess.then(|| bench.pipeline.name.clone()),
            row_bytes,
            qps: bench.queue_pairs,
            mtu_bytes: bench.mtu_bytes,
            runs: last.runs,
            seed: bench.seed,
            figures: Figures {
                size_bytes: last.size_bytes,
                messages_per_s: last.with.messages_per_s,
                goodput_bits_per_s: last.with.goodput_bits_per_s,
                rows_per_s: row_bytes.map(|bytes| last.with.goodput_bits_per_s / 8.0 / bytes as f64),
                fraction_of_limit: last.fraction_of_limit,
                limit: last.limit,
                fraction_of_wire: last.fraction_of_wire,
                added_latency_cycles: last.added_latency_cycles,
                alone: last.alone,
            },
            detection,
            points,
            intact: difference.is_none(),
            difference,
            time: bench.time,
        }
    }

    /// The result as text for people.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} on {}; {}\n\n", self.subject(), self.place(), self.load());
        let microseconds = |ns: u64| format!("{:.2}", ns as f64 / 1e3);
        let table = Table::of(&self.points)
            .numbers("message", "bytes", |point| grouped(point.size_bytes.into()))
            .words("on the path", |point| point.path)
            .numbers("goodput", "Gb/s", |point| three_digits(point.goodput_bits_per_s / 1e9))
            .numbers("messages", "M/s", |point| three_digits(point.messages_per_s / 1e6))
            .numbers("p50", "us", |point| microseconds(point.p50_ns))
            .numbers("p99", "us", |point| microseconds(point.p99_ns));
        let _ = writeln!(text, "{table}");
        text += &self.figures.to_text();
        if let Some(detection) = &self.detection {
            text += &detection.to_text();
        } else if self.service == ServiceName::Inspect {
            text += "  no packets were judged: --packets DIR does (docs/inspection.md)\n";
        }
        text += &match &self.difference {
            None => "  memory and taps as the service in software makes them\n".to_owned(),
            Some(difference) => format!("  NOT AS THE SERVICE IN SOFTWARE: {difference}\n"),
        };
        text
    }

    fn subject(&self) -> String {
        let rows = self.row_bytes.zip(self.pipeline.as_ref());
        let rows = rows.map(|(bytes, pipeline)| format!(", pipeline {pipeline}, rows of {bytes} bytes"));
        format!("{}{}", self.service, rows.unwrap_or_default())
    }

    fn place(&self) -> String {
        match self.runs {
            1 => "the path of the gateware, simulated cycle by cycle at 250 MHz".into(),
            runs => {
                format!("the path of the soft card, over UDP sockets: real, medians of {runs} runs in turn")
            }
        }
    }

    fn load(&self) -> String {
        format!("WRITEs on {} queue pairs, path MTU {}", self.qps, self.mtu_bytes)
    }
}

impl Figures {
    fn to_text(&self) -> String {
        let mut text = format!(
            "  {} bytes: {:.1} % of the limit ({})\n",
            grouped(self.size_bytes.into()),
            self.fraction_of_limit * 100.0,
            self.limit.what
        );
        if let Some(fraction) = self.fraction_of_wire {
            let bytes_per_s = self.goodput_bits_per_s / 8e9;
            let _ = writeln!(text, "  {:.1} % of the wire, {bytes_per_s:.2} GB/s", fraction * 100.0);
        }
        if let Some(cycles) = self.added_latency_cycles {
            let ns = cycles * weft_gateware::CYCLE.as_ns();
            let _ = writeln!(
                text,
                "  adds {cycles} cycles ({ns} ns) to a 64-byte WRITE, from the post until its data is visible"
            );
        }
        if let Some(rows) = self.rows_per_s {
            let _ = writeln!(text, "  {:.2} M rows/s", rows / 1e6);
        }
        if let Some(Alone { bytes_per_s }) = self.alone {
            let _ = writeln!(text, "  alone on one core: {}B/s", with_prefix(bytes_per_s));
        }
        text
    }
}
