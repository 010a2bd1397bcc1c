//! `weft bench service`: the cost of a service on a card's data path.
//!
//! Rows are written over UDP sockets into a region. Runs with the service on the receiver's path alternate
//! with runs without it. The limit is what the same two cards reach without the service. The result also
//! contains the rate of the service alone on one core.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use weft_net::RegionMemoryKind;
pub use weft_service::preprocess::Pipeline;

use crate::pair::{Stream, with_pair};
use crate::{RdmaError, median};

/// Number of runs of each kind, which alternate. Results are medians.
const RUNS: usize = 5;
/// Time for which the service alone is measured.
const ALONE: Duration = Duration::from_millis(500);
/// Number of messages outstanding.
const DEPTH: u32 = 16;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct ServiceBench {
    /// Name of the pipeline.
    pub name: String,
    /// The pipeline that the service applies to rows.
    pub pipeline: Pipeline,
    /// Number of rows in a message.
    pub rows_per_message: u32,
    /// Number of messages in each run.
    pub messages: u64,
    /// Seed for the content of the rows.
    pub seed: u64,
}

/// The limit that the service is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceLimit {
    /// Messages per second of the same two cards without the service.
    pub messages_per_s: f64,
    /// The payload of those messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// Description of the measurement.
    pub what: String,
}

/// The rate of the service alone, on one core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Rows per second.
    pub rows_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// Result of `weft bench service`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceResult {
    /// Name of the service.
    pub service: &'static str,
    /// Name of the NIC.
    pub nic: &'static str,
    /// Name of the world: cards over sockets.
    pub world: &'static str,
    /// Name of the pipeline.
    pub pipeline: String,
    /// Number of bytes of a row.
    pub row_bytes: u64,
    /// Number of rows in a message.
    pub rows_per_message: u32,
    /// Number of messages in each run.
    pub messages: u64,
    /// Number of runs of each kind.
    pub runs: u64,
    /// Messages per second with the service; the median.
    pub messages_per_s: f64,
    /// The payload of those messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// The rows of those messages, per second.
    pub rows_per_s: f64,
    /// Goodput with the service divided by goodput without it.
    pub fraction_of_limit: f64,
    /// The same measurement without the service.
    pub limit: ServiceLimit,
    /// The service without a card.
    pub alone: Alone,
    /// Whether the memory contained the features of every row, and in runs without the service, the rows.
    pub intact: bool,
}

impl ServiceBench {
    /// Runs the measurement.
    ///
    /// # Errors
    /// If a port is in use, or a run fails.
    pub fn run(&self) -> Result<ServiceResult, RdmaError> {
        let row_bytes = self.pipeline.row_bytes();
        let stream = Stream {
            size_bytes: self.rows_per_message * row_bytes as u32,
            messages: self.messages,
            depth: DEPTH,
        };
        let raw = rows(stream.bytes(), self.seed);
        let mut features = raw.clone();
        features
            .chunks_mut(stream.size_bytes as usize)
            .for_each(|message| self.pipeline.transform(0, message));
        let (mut with, mut without, mut intact) = (Vec::new(), Vec::new(), true);
        for _ in 0..RUNS {
            let (goodput, holds) = one_run(&stream, &raw, &raw, None)?;
            without.push(goodput);
            intact &= holds;
            let (goodput, holds) = one_run(&stream, &raw, &features, Some(&self.pipeline))?;
            with.push(goodput);
            intact &= holds;
        }
        let ratios = with.iter().zip(&without).map(|(with, without)| with / without);
        let fraction_of_limit = median(ratios);
        let goodput_bits_per_s = median(with.into_iter());
        let limit_bits_per_s = median(without.into_iter());
        let message_bits = f64::from(stream.size_bytes) * 8.0;
        Ok(ServiceResult {
            service: "preprocess",
            nic: "soft",
            world: "net",
            pipeline: self.name.clone(),
            row_bytes: row_bytes as u64,
            rows_per_message: self.rows_per_message,
            messages: self.messages,
            runs: RUNS as u64,
            messages_per_s: goodput_bits_per_s / message_bits,
            goodput_bits_per_s,
            rows_per_s: goodput_bits_per_s / 8.0 / row_bytes as f64,
            fraction_of_limit,
            limit: ServiceLimit {
                messages_per_s: limit_bits_per_s / message_bits,
                goodput_bits_per_s: limit_bits_per_s,
                what:
                    "the same WRITEs between the same two cards over UDP sockets without the service, in turn"
                        .into(),
            },
            alone: alone(&self.pipeline, &raw),
            intact,
        })
    }
}

/// Rows with pseudo-random values.
fn rows(bytes: usize, seed: u64) -> Vec<u8> {
    let words = (0..bytes as u64 / 4).map(|place| crate::draw::draw(seed, 0, place) as u32);
    words.flat_map(u32::to_le_bytes).collect()
}

/// The goodput of one stream, and whether the memory contains the expected bytes.
fn one_run(
    stream: &Stream,
    raw: &[u8],
    expected: &[u8],
    pipeline: Option<&Pipeline>,
) -> Result<(f64, bool), RdmaError> {
    let bytes = stream.bytes() as u64;
    let (nanoseconds, holds) = with_pair(
        RegionMemoryKind::Own(bytes),
        bytes,
        |end| {
            end.store(0, raw)?;
            stream.send(end)
        },
        |end| {
            if let Some(pipeline) = pipeline {
                end.preprocess(pipeline.clone());
            }
            Stream::serve(end)?;
            let written = stream.written();
            Ok(end.read(0, written)? == &expected[..written])
        },
    )?;
    Ok((stream.goodput(nanoseconds), holds))
}

/// Applies the pipeline to rows in memory repeatedly, and measures its rate.
fn alone(pipeline: &Pipeline, raw: &[u8]) -> Alone {
    let mut bytes = raw.to_vec();
    let begin = Instant::now();
    let mut passes = 0;
    while begin.elapsed() < ALONE {
        bytes.copy_from_slice(raw);
        pipeline.transform(0, black_box(&mut bytes));
        passes += 1;
    }
    let bytes_per_s = passes as f64 * raw.len() as f64 / begin.elapsed().as_secs_f64();
    Alone { rows_per_s: bytes_per_s / pipeline.row_bytes() as f64, bytes_per_s }
}

impl ServiceResult {
    /// The result as text for people.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "preprocess, pipeline {}: rows of {} bytes, {} to a message; soft cards over UDP sockets, medians of {} runs in turn\n\n",
            self.pipeline, self.row_bytes, self.rows_per_message, self.runs
        );
        let line = |goodput: f64| {
            let rows = goodput / 8.0 / self.row_bytes as f64;
            format!("{:8.2} Gb/s  {:8.2} M rows/s", goodput / 1e9, rows / 1e6)
        };
        let _ = writeln!(text, "  with the service     {}", line(self.goodput_bits_per_s));
        let _ = writeln!(text, "  without              {}", line(self.limit.goodput_bits_per_s));
        let _ = writeln!(text, "  alone on one core    {}", line(self.alone.bytes_per_s * 8.0));
        let words = if self.intact { "as they must be" } else { "NOT AS THEY MUST BE" };
        let share = self.fraction_of_limit * 100.0;
        let _ = writeln!(text, "\n  {share:.1} % of what the cards reach without it; features {words}");
        text
    }
}
