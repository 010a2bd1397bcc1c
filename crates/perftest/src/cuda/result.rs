//! Results for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;
use weft_cuda::Findings;
use weft_harness::histogram::{Latencies, Summary};

/// Memory that a region lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Ordinary memory of the host, which no GPU knows of.
    Host,
    /// Pinned memory of the host that the GPU reads over PCIe.
    Mapped,
    /// The GPU's, reached by asynchronous copies.
    Device,
}

impl MemoryKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Host, Self::Mapped, Self::Device];

    const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Mapped => "mapped",
            Self::Device => "device",
        }
    }
}

/// What tells the kernel that data have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// A later WRITE, which the kernel sees in the region.
    LaterWrite,
    /// The completion of a WRITE with immediate, which the program passes on.
    Completion,
}

/// WRITEs into one memory. Figures are medians of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferResult {
    /// The memory.
    pub memory: MemoryKind,
    /// Payload over time, until the last WRITE was told and answered.
    pub goodput_bits_per_s: f64,
    /// Messages over time, likewise.
    pub messages_per_s: f64,
    /// Median round trip of a message of 64 bytes and its answer, in nanoseconds.
    pub round_trip_p50_ns: u64,
    /// 99 % of the round trips took at most this, in nanoseconds.
    pub round_trip_p99_ns: u64,
    /// Goodput of each run.
    pub goodput_of_runs: Vec<f64>,
    /// Round trips of each run.
    pub round_trips: Vec<Summary>,
    /// Whether the memory held all that was sent.
    pub intact: bool,
}

/// Rounds that the kernel has checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchResult {
    /// The memory.
    pub memory: MemoryKind,
    /// What told the kernel.
    pub news: News,
    /// Bytes of data in a round.
    pub round_bytes: u32,
    /// Rounds.
    pub rounds: u64,
    /// Rounds in which data were missing when the kernel was told.
    pub wrong_rounds: u64,
    /// The number of words of 4 bytes that were missing.
    pub wrong_words: u64,
    /// Median time from the first post until the sender knew that the kernel had compared, in nanoseconds.
    pub round_p50_ns: u64,
}

/// Result of `weft bench cuda`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CudaResult {
    /// Name of the GPU.
    pub gpu: String,
    /// CUDA version of its driver.
    pub driver: String,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Messages of a run.
    pub messages: u64,
    /// Messages under way.
    pub depth: u32,
    /// Runs of each kind, in turn.
    pub runs: u64,
    /// Bytes of the messages whose round trip was measured.
    pub latency_bytes: u32,
    /// WRITEs into each memory.
    pub transfers: Vec<TransferResult>,
    /// Data before news.
    pub watches: Vec<WatchResult>,
    /// Name of the planted bug.
    #[cfg(feature = "planted-bugs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planted_bug: Option<&'static str>,
}

/// The median of a list, or 0.
pub(super) fn median<T: Copy + Default + PartialOrd>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_by(|a, b| a.partial_cmp(b).expect("figures are no NaN"));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl TransferResult {
    pub(super) fn new(memory: MemoryKind) -> Self {
        Self {
            memory,
            goodput_bits_per_s: 0.0,
            messages_per_s: 0.0,
            round_trip_p50_ns: 0,
            round_trip_p99_ns: 0,
            goodput_of_runs: Vec::new(),
            round_trips: Vec::new(),
            intact: true,
        }
    }

    pub(super) fn conclude(&mut self, size_bytes: u32) {
        self.goodput_bits_per_s = median(self.goodput_of_runs.iter().copied());
        self.messages_per_s = self.goodput_bits_per_s / 8.0 / f64::from(size_bytes);
        self.round_trip_p50_ns = median(self.round_trips.iter().map(|run| run.p50_ns));
        self.round_trip_p99_ns = median(self.round_trips.iter().map(|run| run.p99_ns));
    }
}

impl WatchResult {
    pub(super) fn new(
        memory: MemoryKind,
        news: News,
        round_bytes: u32,
        findings: Findings,
        latencies: &Latencies,
    ) -> Self {
        let Findings { rounds, wrong_rounds, wrong_words } = findings;
        let round_p50_ns = latencies.summary().p50_ns;
        Self { memory, news, round_bytes, rounds, wrong_rounds, wrong_words, round_p50_ns }
    }
}

impl CudaResult {
    /// Whether all data were there, before their news.
    pub fn is_right(&self) -> bool {
        let intact = self.transfers.iter().all(|transfer| transfer.intact);
        intact && self.watches.iter().all(|watch| watch.wrong_rounds == 0)
    }

    /// What people read.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{}, driver of CUDA {}; WRITEs of {} bytes over UDP sockets, {} under way, medians of {} runs\n\n",
            self.gpu, self.driver, self.size_bytes, self.depth, self.runs
        );
        let _ = writeln!(
            text,
            "  region in  goodput Gb/s  round trip of {} bytes, p50 us  p99 us",
            self.latency_bytes
        );
        for transfer in &self.transfers {
            let TransferResult { memory, goodput_bits_per_s, round_trip_p50_ns, round_trip_p99_ns, .. } =
                transfer;
            let _ = writeln!(
                text,
                "  {:9}  {:12.2}  {:31.1}  {:6.1}{}",
                memory.name(),
                goodput_bits_per_s / 1e9,
                *round_trip_p50_ns as f64 / 1e3,
                *round_trip_p99_ns as f64 / 1e3,
                if transfer.intact { "" } else { "  NOT WHAT WAS SENT" },
            );
        }
        let _ = writeln!(
            text,
            "\n  a kernel spins in  until           rounds  bytes  round p50 us  wrong rounds  words"
        );
        for watch in &self.watches {
            let news = match watch.news {
                News::LaterWrite => "a later WRITE",
                News::Completion => "a completion",
            };
            let _ = writeln!(
                text,
                "  {:17}  {news:13}  {:8}  {:5}  {:12.1}  {:12}  {:5}",
                watch.memory.name(),
                watch.rounds,
                watch.round_bytes,
                watch.round_p50_ns as f64 / 1e3,
                watch.wrong_rounds,
                watch.wrong_words,
            );
        }
        text
    }
}
