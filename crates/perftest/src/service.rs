//! `weft bench service`: what a service on a card's path costs.
//!
//! Rows are written over UDP sockets into a region, with the service on the receiver's path and without, in turn: the
//! limit is what the same two cards reach without it. Beside that stands what the service reaches alone on one core.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use weft_net::RegionMemoryKind;
pub use weft_service::preprocess::Pipeline;

use crate::pair::{Stream, with_pair};
use crate::{RdmaError, median};

/// Runs of each kind, in turn; medians count.
const RUNS: usize = 5;
/// Time for which the service runs alone.
const ALONE: Duration = Duration::from_millis(500);
/// Messages under way.
const DEPTH: u32 = 16;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct ServiceBench {
    /// Name of the pipeline.
    pub name: String,
    /// What is done to rows.
    pub pipeline: Pipeline,
    /// Rows in a message.
    pub rows_per_message: u32,
    /// Messages of each run.
    pub messages: u64,
    /// Decides the rows.
    pub seed: u64,
}

/// What the service was measured against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceLimit {
    /// Messages of the same two cards without the service.
    pub messages_per_s: f64,
    /// Their payload.
    pub goodput_bits_per_s: f64,
    /// What was done.
    pub what: String,
}

/// The service alone, on one core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Rows over time.
    pub rows_per_s: f64,
    /// Bytes over time.
    pub bytes_per_s: f64,
}

/// Result of `weft bench service`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceResult {
    /// The service.
    pub service: &'static str,
    /// The NIC.
    pub nic: &'static str,
    /// Cards over sockets.
    pub world: &'static str,
    /// The pipeline.
    pub pipeline: String,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Rows in a message.
    pub rows_per_message: u32,
    /// Messages of each run.
    pub messages: u64,
    /// Runs of each kind, in turn.
    pub runs: u64,
    /// Messages with the service; the median.
    pub messages_per_s: f64,
    /// Their payload.
    pub goodput_bits_per_s: f64,
    /// Their rows.
    pub rows_per_s: f64,
    /// Goodput with the service over that without.
    pub fraction_of_limit: f64,
    /// The same without the service.
    pub limit: ServiceLimit,
    /// The service without a card.
    pub alone: Alone,
    /// Whether the memory held the features of every row, and without the service the rows.
    pub intact: bool,
}

impl ServiceBench {
    /// Measures.
    ///
    /// # Errors
    /// A port is in use, or a run fails.
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

/// Rows of any values.
fn rows(bytes: usize, seed: u64) -> Vec<u8> {
    let words = (0..bytes as u64 / 4).map(|place| crate::draw::draw(seed, 0, place) as u32);
    words.flat_map(u32::to_le_bytes).collect()
}

/// Goodput of one stream, and whether the memory holds what is expected.
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

/// The pipeline over rows in memory, again and again.
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
    /// What people read.
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
