//! Measurements of a run: latencies by kind of operation, and throughput over time.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_time::{Duration, Instant};

/// The longest latency that a histogram distinguishes: one hour, in nanoseconds. Longer ones count as an
/// hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Latencies keep three significant digits: a recorded value is off by less than one in a thousand.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Counts of latencies in nanoseconds (a high-dynamic-range histogram). Recording allocates nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(Histogram<u64>);

/// The usual figures of a distribution of latencies. All are zero if nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Operations recorded.
    pub operations: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
    /// Half of the operations took at most this, in nanoseconds.
    pub p50_ns: u64,
    /// 90 % of the operations took at most this, in nanoseconds.
    pub p90_ns: u64,
    /// 99 % of the operations took at most this, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9 % of the operations took at most this, in nanoseconds.
    pub p999_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// One point of a distribution: the share `quantile` of all operations took at most `latency_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantilePoint {
    /// Share of the operations, from 0 to 1.
    pub quantile: f64,
    /// Latency that this share does not exceed, in nanoseconds.
    pub latency_ns: u64,
    /// Number of operations that took at most this latency.
    pub operations: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS);
        Self(histogram.expect("the bounds are valid"))
    }

    /// Records one latency. Anything above an hour counts as an hour.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(latency.as_ns());
    }

    /// Operations recorded.
    pub fn operations(&self) -> u64 {
        self.0.len()
    }

    /// Adds the latencies of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// The latency that the share `quantile` (0 to 1) of the operations did not exceed, in nanoseconds; zero if
    /// nothing was recorded.
    pub fn at_quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile).min(self.0.max())
    }

    /// The standard deviation in nanoseconds; zero if nothing was recorded.
    pub fn standard_deviation_ns(&self) -> f64 {
        if self.0.is_empty() { 0.0 } else { self.0.stdev() }
    }

    /// The usual figures.
    pub fn summary(&self) -> Summary {
        if self.0.is_empty() {
            return Summary::default();
        }
        Summary {
            operations: self.0.len(),
            min_ns: self.0.min(),
            mean_ns: self.0.mean(),
            p50_ns: self.at_quantile(0.5),
            p90_ns: self.at_quantile(0.9),
            p99_ns: self.at_quantile(0.99),
            p999_ns: self.at_quantile(0.999),
            max_ns: self.0.max(),
        }
    }

    /// The distribution as points that get denser towards the tail: each time the share of longer latencies
    /// halves, there are `per_halving` points. The last point is the longest latency.
    pub fn distribution(&self, per_halving: u32) -> Vec<QuantilePoint> {
        let mut below = 0;
        self.0
            .iter_quantiles(per_halving)
            .map(|step| {
                below += step.count_since_last_iteration();
                QuantilePoint {
                    quantile: step.quantile_iterated_to(),
                    latency_ns: step.value_iterated_to().min(self.0.max()),
                    operations: below,
                }
            })
            .collect()
    }

    /// The percentile distribution in nanoseconds as HdrHistogram's own tools write and plot it (`.hgrm`).
    pub fn to_hgrm(&self) -> String {
        let mut text = format!(
            "{:>12} {:>14} {:>10} {:>14}\n\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        );
        for QuantilePoint { quantile, latency_ns, operations } in self.distribution(5) {
            write!(text, "{:12.3} {quantile:2.12} {operations:10}", latency_ns as f64).expect("text grows");
            if quantile < 1.0 {
                write!(text, " {:14.2}", 1.0 / (1.0 - quantile)).expect("text grows");
            }
            text.push('\n');
        }
        let (mean, deviation) = (self.summary().mean_ns, self.standard_deviation_ns());
        // The power of two that holds twice 10^3 values, for three significant digits.
        let sub_buckets = 2048;
        write!(
            text,
            "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n\
             #[Max     = {:12.3}, Total count    = {:12}]\n\
             #[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]\n",
            self.0.max() as f64,
            self.0.len(),
            self.0.buckets(),
        )
        .expect("text grows");
        text
    }
}

/// Serialized as pairs of latency in nanoseconds and count, ascending. Processes exchange histograms in this
/// form and merge them without loss of resolution.
impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latencies = Self::new();
        let mut total = 0u64;
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            total = total
                .checked_add(count)
                .ok_or_else(|| D::Error::custom("the counts of the latencies are too large"))?;
            latencies.0.record_n(value, count).map_err(D::Error::custom)?;
        }
        Ok(latencies)
    }
}

/// The most buckets of a [`Throughput`].
const MOST_BUCKETS: usize = 512;

/// Operations completed over time, in buckets of equal width from the beginning on. When a run outlasts the
/// buckets, their width doubles, so memory stays bounded whatever the run's length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    begin: Instant,
    width: Duration,
    buckets: Vec<u64>,
}

impl Throughput {
    /// Counts from `begin` on, in buckets that are first `width` wide.
    ///
    /// # Panics
    /// If `width` is zero.
    pub fn new(begin: Instant, width: Duration) -> Self {
        assert!(width > Duration::ZERO, "a bucket has a width");
        Self { begin, width, buckets: Vec::with_capacity(MOST_BUCKETS) }
    }

    /// Counts one operation that completed at `at`.
    pub fn record(&mut self, at: Instant) {
        let since = at.saturating_since(self.begin).as_ps();
        while since / self.width.as_ps() >= MOST_BUCKETS as u64 {
            self.double_width();
        }
        let bucket = (since / self.width.as_ps()) as usize;
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Adds the counts of another throughput of the same run.
    ///
    /// # Panics
    /// If `other` has another start or was created with another width, so that it belongs to another run.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.begin, other.begin, "throughputs of one run begin together");
        let mut other = other.clone();
        while Duration::ZERO < self.width && self.width < other.width {
            self.double_width();
        }
        while Duration::ZERO < other.width && other.width < self.width {
            other.double_width();
        }
        assert_eq!(self.width, other.width, "throughputs of one run have the same first width");
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (ours, theirs) in self.buckets.iter_mut().zip(other.buckets) {
            *ours += theirs;
        }
    }

    /// The width of a bucket.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// Operations completed in each bucket.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    fn double_width(&mut self) {
        let pairs = self.buckets.len().div_ceil(2);
        for i in 0..pairs {
            self.buckets[i] = self.buckets[2 * i] + self.buckets.get(2 * i + 1).unwrap_or(&0);
        }
        self.buckets.truncate(pairs);
        self.width = self.width * 2;
    }
}

/// Records the operations of one run.
///
/// Operations whose intended start was before the end of the warm-up count only in the throughput over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorder {
    begin: Instant,
    measured_from: Instant,
    last_completion: Instant,
    kinds: Vec<KindRecorder>,
    throughput: Throughput,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KindRecorder {
    name: String,
    latencies: Latencies,
    failed: u64,
}

impl Recorder {
    /// A recorder for a run that begins at `begin` and warms up for `warm_up`, with these kinds of operations.
    pub fn new(kinds: &[&str], begin: Instant, warm_up: Duration) -> Self {
        let kinds = kinds
            .iter()
            .map(|name| KindRecorder { name: (*name).into(), latencies: Latencies::new(), failed: 0 })
            .collect();
        Self {
            begin,
            measured_from: begin + warm_up,
            last_completion: begin + warm_up,
            kinds,
            throughput: Throughput::new(begin, Duration::from_us(100)),
        }
    }

    /// Records that an operation of the kind with that index, which was to start at `intended`, completed at
    /// `completed`.
    pub fn record(&mut self, kind: usize, intended: Instant, completed: Instant) {
        self.throughput.record(completed);
        if intended >= self.measured_from {
            self.kinds[kind].latencies.record(completed.saturating_since(intended));
            self.last_completion = self.last_completion.max(completed);
        }
    }

    /// Records that an operation of the kind with that index, which was to start at `intended`, was refused
    /// or timed out.
    pub fn record_failure(&mut self, kind: usize, intended: Instant) {
        if intended >= self.measured_from {
            self.kinds[kind].failed += 1;
        }
    }

    /// Adds the records of another recorder of the same run.
    ///
    /// # Panics
    /// If `other` has other kinds of operations or another start, so that it belongs to another run.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.begin, other.begin, "recorders of one run begin together");
        assert_eq!(self.kinds.len(), other.kinds.len(), "recorders of one run have the same kinds");
        for (ours, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            assert_eq!(ours.name, theirs.name, "recorders of one run have the same kinds");
            ours.latencies.merge(&theirs.latencies);
            ours.failed += theirs.failed;
        }
        self.last_completion = self.last_completion.max(other.last_completion);
        self.throughput.merge(&other.throughput);
    }

    /// The records of all these recorders of one run. `None` if there is no recorder.
    ///
    /// # Panics
    /// As [`Recorder::merge`].
    pub fn merged(recorders: impl IntoIterator<Item = Self>) -> Option<Self> {
        recorders.into_iter().reduce(|mut all, one| {
            all.merge(&one);
            all
        })
    }

    /// Start of the run.
    pub fn begin(&self) -> Instant {
        self.begin
    }

    /// Length of the warm-up.
    pub fn warm_up(&self) -> Duration {
        self.measured_from - self.begin
    }

    /// Time from the end of the warm-up to the last completion.
    pub fn measured(&self) -> Duration {
        self.last_completion - self.measured_from
    }

    /// Operations measured, of all kinds.
    pub fn operations(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latencies.operations()).sum()
    }

    /// Operations measured per second; zero if none was measured.
    pub fn throughput_ops_per_s(&self) -> f64 {
        let measured = self.measured();
        if measured == Duration::ZERO { 0.0 } else { self.operations() as f64 / measured.as_secs_f64() }
    }

    /// Latencies of all kinds together.
    pub fn overall(&self) -> Latencies {
        let mut overall = Latencies::new();
        for kind in &self.kinds {
            overall.merge(&kind.latencies);
        }
        overall
    }

    /// Name, latencies and number of failures of each kind.
    pub fn by_kind(&self) -> impl Iterator<Item = (&str, &Latencies, u64)> {
        self.kinds.iter().map(|kind| (kind.name.as_str(), &kind.latencies, kind.failed))
    }

    /// Operations completed over time, including the warm-up.
    pub fn throughput(&self) -> &Throughput {
        &self.throughput
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ns(ns: u64) -> Duration {
        Duration::from_ns(ns)
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut latencies = Latencies::new();
        for i in 1..=10_000 {
            latencies.record(Duration::from_us(i));
        }
        let summary = latencies.summary();
        assert_eq!(summary.operations, 10_000);
        for (got, us) in [
            (summary.p50_ns, 5_000),
            (summary.p90_ns, 9_000),
            (summary.p99_ns, 9_900),
            (summary.p999_ns, 9_990),
        ] {
            assert!(got.abs_diff(us * 1_000) <= us, "{got} for {us} us");
        }
        assert!((summary.mean_ns / 5_000_500.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Latencies::new().summary(), Summary::default());
        assert_eq!(Latencies::new().at_quantile(0.5), 0);
        assert!(Latencies::new().to_hgrm().contains("Total count    =            0"));
    }

    #[test]
    fn a_latency_beyond_the_range_counts_as_an_hour() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(100_000));
        let hour = latencies.summary().max_ns;
        assert!(hour.abs_diff(LONGEST_NS) <= LONGEST_NS / 1_000, "{hour}");
        let text = serde_json::to_string(&latencies).unwrap();
        assert_eq!(serde_json::from_str::<Latencies>(&text).unwrap().operations(), 1);
    }

    /// The layout that HdrHistogram's plotter parses: four columns, the last row without the fourth, comments.
    #[test]
    fn hgrm_has_the_columns_of_hdrhistogram() {
        let mut latencies = Latencies::new();
        for i in 1..=1000 {
            latencies.record(ns(i));
        }
        let text = latencies.to_hgrm();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("       Value     Percentile TotalCount 1/(1-Percentile)"));
        assert_eq!(lines.next(), Some(""));
        let rows: Vec<Vec<f64>> = lines
            .clone()
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
            .collect();
        assert!(rows.len() > 20);
        let last = rows.last().unwrap();
        assert_eq!(last[..], [1000.0, 1.0, 1000.0]);
        for row in &rows[..rows.len() - 1] {
            assert_eq!(row.len(), 4);
            assert!((row[3] - 1.0 / (1.0 - row[1])).abs() < 0.01 * row[3]);
            assert!((row[2] / 1000.0 - row[1]).abs() < 0.06, "{row:?}");
        }
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][1] <= pair[1][1]));
        assert_eq!(lines.filter(|line| line.starts_with("#[")).count(), 3);
    }

    #[test]
    fn warm_up_shows_in_the_throughput_only() {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let mut recorder = Recorder::new(&["get", "put"], at(0), Duration::from_us(100));
        recorder.record(0, at(50), at(150));
        recorder.record(1, at(100), at(110));
        recorder.record(0, at(200), at(1_100));
        recorder.record_failure(1, at(99));
        recorder.record_failure(1, at(300));
        assert_eq!(recorder.operations(), 2);
        assert_eq!(recorder.measured(), Duration::from_us(1_000));
        assert!((recorder.throughput_ops_per_s() - 2_000.0).abs() < 1e-9);
        assert_eq!(recorder.throughput().buckets().iter().sum::<u64>(), 3);
        let by_kind: Vec<_> = recorder
            .by_kind()
            .map(|(name, latencies, failed)| (name, latencies.operations(), failed))
            .collect();
        assert_eq!(by_kind, [("get", 1, 0), ("put", 1, 1)]);
        assert_eq!(recorder.overall().summary().max_ns / 1_000, 900);
    }

    #[test]
    #[should_panic(expected = "the same first width")]
    fn throughputs_of_different_runs_do_not_merge() {
        let mut ours = Throughput::new(Instant::ZERO, Duration::from_us(100));
        ours.merge(&Throughput::new(Instant::ZERO, Duration::from_us(150)));
    }

    #[test]
    fn hostile_latencies_are_refused() {
        for text in ["[[1,18446744073709551615],[2,1]]", "[[99999999999999999,1]]", "[[1]]", "{}"] {
            assert!(serde_json::from_str::<Latencies>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_form_and_merge_lose_nothing(
            first in prop::collection::vec(0u64..10_000_000_000, 0..200),
            second in prop::collection::vec(0u64..10_000_000_000, 0..200),
        ) {
            let of = |values: &[u64]| {
                let mut latencies = Latencies::new();
                values.iter().for_each(|v| latencies.record(ns(*v)));
                latencies
            };
            let whole = of(&[first.clone(), second.clone()].concat());
            let mut merged = of(&first);
            let sent = serde_json::to_string(&of(&second)).unwrap();
            merged.merge(&serde_json::from_str(&sent).unwrap());
            prop_assert_eq!(merged.operations(), whole.operations());
            for quantile in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let (merged, whole) = (merged.at_quantile(quantile), whole.at_quantile(quantile));
                prop_assert!(merged.abs_diff(whole) <= whole / 1000);
            }
            let points = merged.distribution(4);
            prop_assert!(points.last().is_none_or(|p| p.operations == merged.operations()));
        }

        #[test]
        fn throughput_counts_everything_once(
            mut times in prop::collection::vec(0u64..200_000_000, 1..300), split: prop::sample::Index
        ) {
            let split = split.index(times.len());
            let of = |times: &[u64]| {
                let mut throughput = Throughput::new(Instant::ZERO, Duration::from_us(100));
                times.iter().for_each(|us| throughput.record(Instant::ZERO + Duration::from_us(*us)));
                throughput
            };
            let whole = of(&times);
            prop_assert!(whole.buckets().len() <= MOST_BUCKETS);
            let mut merged = of(&times[..split]);
            merged.merge(&of(&times[split..]));
            prop_assert_eq!(&merged, &whole);
            let width = whole.width().as_ps() / 1_000_000;
            times.sort_unstable();
            for (i, count) in whole.buckets().iter().enumerate() {
                let inside = times.iter().filter(|us| *us / width == i as u64).count() as u64;
                prop_assert_eq!(*count, inside);
            }
        }
    }
}
