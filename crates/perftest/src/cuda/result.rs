//! Results as text for people and as data for programs.

use std::fmt::Write as _;

use serde::Serialize;
use weft_cuda::Findings;
use weft_results::histogram::{Latencies, Summary};

/// The kind of memory that a region uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Ordinary host memory, which the GPU cannot read.
    Host,
    /// Pinned host memory, which the GPU reads over PCIe.
    Mapped,
    /// GPU memory, written by asynchronous copies.
    Device,
}

impl MemoryKind {
    /// All kinds of memory.
    pub const ALL: [Self; 3] = [Self::Host, Self::Mapped, Self::Device];

    const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Mapped => "mapped",
            Self::Device => "device",
        }
    }
}

/// How the kernel is notified that data have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// By a later WRITE, which the kernel sees in the region.
    LaterWrite,
    /// By the program, after it got the completion of a WRITE with immediate data.
    Completion,
}

/// Results of WRITEs into one kind of memory. Figures are medians of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferResult {
    /// The kind of memory.
    pub memory: MemoryKind,
    /// Payload per time until the last WRITE was reported to the receiver and answered.
    pub goodput_bits_per_s: f64,
    /// Messages per second, over the same time.
    pub messages_per_s: f64,
    /// Median round-trip time of a 64-byte message and its answer, in nanoseconds.
    pub round_trip_p50_ns: u64,
    /// 99 % of the round trips took at most this time, in nanoseconds.
    pub round_trip_p99_ns: u64,
    /// The goodput of each run.
    pub goodput_of_runs: Vec<f64>,
    /// The round-trip times of each run.
    pub round_trips: Vec<Summary>,
    /// Whether the memory contained everything that was sent.
    pub intact: bool,
}

/// Results of the rounds that the kernel has checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WatchResult {
    /// The kind of memory.
    pub memory: MemoryKind,
    /// How the kernel was notified.
    pub news: News,
    /// Number of data bytes in a round.
    pub round_bytes: u32,
    /// Number of rounds.
    pub rounds: u64,
    /// Number of rounds in which data were missing when the kernel was notified.
    pub wrong_rounds: u64,
    /// Number of 4-byte words that were missing.
    pub wrong_words: u64,
    /// Median time from the first post of a round until the sender knows that the kernel has compared the
    /// data, in nanoseconds.
    pub round_p50_ns: u64,
}

/// Result of `weft bench cuda`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CudaResult {
    /// Name of the GPU.
    pub gpu: String,
    /// CUDA version of its driver.
    pub driver: String,
    /// Number of bytes of a message.
    pub size_bytes: u32,
    /// Number of messages of a run.
    pub messages: u64,
    /// Number of messages outstanding.
    pub depth: u32,
    /// Number of runs of each kind; the kinds alternate.
    pub runs: u64,
    /// Number of bytes of the messages whose round-trip time was measured.
    pub latency_bytes: u32,
    /// Results of the WRITEs into each kind of memory.
    pub transfers: Vec<TransferResult>,
    /// Results of the rounds that the kernel checked: whether data are visible before the notification.
    pub watches: Vec<WatchResult>,
    /// Name of the planted bug.
    #[cfg(feature = "planted-bugs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planted_bug: Option<&'static str>,
}

/// The median of the values, or 0 if there are none.
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
    /// Whether the memory always contained all data, and before the notification.
    pub fn is_right(&self) -> bool {
        let intact = self.transfers.iter().all(|transfer| transfer.intact);
        intact && self.watches.iter().all(|watch| watch.wrong_rounds == 0)
    }

    /// The results as text for people.
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
