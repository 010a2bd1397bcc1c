//! The result of a measurement of rounds, as JSON and as text.

use serde::Serialize;
use weft_results::NicModel;
use weft_results::histogram::{Latencies, Summary};
use weft_results::table::{Column, Table, faults_line, grouped, three_digits, time_with_unit, with_prefix};
use weft_sim::PlanError;
use weft_time::Duration;

use super::gates::GatesResult;
use super::measure::{PeriodResult, Ran, RoundsBench};
use super::paper::{self, ANCHORS, Anchor};

/// Result of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundsResult {
    /// `sim`: all times are virtual.
    pub world: &'static str,
    /// The engine's implementation.
    pub nic: NicModel,
    /// Basis of the times.
    pub basis: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Values in a proposal.
    pub values_per_proposal: u32,
    /// Network between the cards.
    pub network: &'static str,
    /// Cost profile of the cards.
    pub profile: &'static str,
    /// Instances in flight.
    pub window: u64,
    /// Maximum clock drift, in parts per million.
    pub clock_drift_ppm: u32,
    /// Seed of clocks, delays and values.
    pub seed: u64,
    /// The lowest period at which a run with the rounds of [`RoundsResult::measured`] was stable; null if the
    /// period was given.
    pub min_round_period_ns: Option<u64>,
    /// The lowest stable period in cycles of 4 ns.
    pub min_round_period_cycles: Option<u64>,
    /// The run with cards, hosts and network.
    pub measured: PeriodResult,
    /// Latency from a host's proposal to the answer that it is decided, including PCIe, with one outstanding
    /// proposal of each node.
    pub latency: Summary,
    /// The full histogram of these latencies.
    #[serde(skip)]
    pub latencies: Latencies,
    /// Runs at periods below the lowest stable one.
    pub below: Vec<PeriodResult>,
    /// Cycles without a network; only of the engine in gateware.
    #[serde(flatten)]
    pub gates: Option<GatesResult>,
    /// Instances decided per second; each round begins one. For the engine in gateware, this and the
    /// following figures are without a network, at the lowest period.
    pub instances_per_s: f64,
    /// Values decided per second, each counted once.
    pub decided_values_per_s: f64,
    /// Bits of these values per second.
    pub decided_bits_per_s: f64,
    /// Published figures for comparison.
    pub anchors: Vec<Anchor>,
    /// `agree`, or `violation`.
    pub checked: &'static str,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl RoundsBench {
    /// Runs the measurement. `progress` is called with the number of rounds run, including those of the
    /// search for the period.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn run(&self, replay: String, mut progress: impl FnMut(u64)) -> Result<RoundsResult, PlanError> {
        let mut all = 0;
        let ran: Ran<'_> = &mut |rounds| {
            all += rounds;
            progress(all);
        };
        let (measured, searched) = match self.period {
            Some(period) => (self.run_at(period, false, ran)?, None),
            None => self.run_at_lowest(ran)?,
        };
        let below = searched.map_or(Ok(Vec::new()), |period| self.below(period, ran))?;
        let latencies = self.latency(Duration::from_ns(measured.period_ns), ran)?;
        let agrees = below.iter().chain([&measured]).all(|run| run.disagreements == 0);
        let gates = (self.nic == NicModel::Rtl).then(|| GatesResult::measure(self));
        let proposals = gates.map_or(measured.proposals_per_s(), |gates| {
            self.nodes as f64 * 1e9 / (4 * gates.min_round_period_cycles()) as f64
        });
        let values = proposals * self.batch.values as f64;
        Ok(RoundsResult {
            world: "sim",
            nic: self.nic,
            basis: self.basis(),
            nodes: self.nodes as u32,
            value_bytes: self.batch.value_bytes as u32,
            values_per_proposal: self.batch.values as u32,
            network: self.network.name,
            profile: self.profile.name,
            window: self.window,
            clock_drift_ppm: self.drift_ppm,
            seed: self.seed,
            min_round_period_ns: gates
                .map(|gates| 4 * gates.min_round_period_cycles())
                .or(searched.map(Duration::as_ns)),
            min_round_period_cycles: gates
                .map(|gates| gates.min_round_period_cycles())
                .or(searched.map(|period| period.as_ns() / 4)),
            gates,
            latency: latencies.summary(),
            latencies,
            below,
            instances_per_s: proposals / self.nodes as f64,
            decided_values_per_s: values,
            decided_bits_per_s: values * self.batch.value_bytes as f64 * 8.0,
            anchors: ANCHORS.to_vec(),
            checked: if agrees { "agree" } else { "violation" },
            measured,
            replay,
        })
    }

    fn basis(&self) -> String {
        let profile = &self.profile;
        let engine = match self.nic {
            NicModel::Soft => "",
            NicModel::Rtl => "engines in gates, which take an event at a time; all around them: ",
        };
        format!("{engine}cost profile `{}`: {}", profile.name, profile.basis)
    }

    /// Makes a run at the lowest stable period. The search uses shorter runs, so the whole run may be
    /// unstable at the period found; then the period is raised by one cycle at a time.
    fn run_at_lowest(&self, ran: Ran<'_>) -> Result<(PeriodResult, Option<Duration>), PlanError> {
        let mut period = self.search(ran)?;
        loop {
            let result = self.run_at(period, true, ran)?;
            if result.stable {
                return Ok((result, Some(period)));
            }
            period += super::path::CYCLE;
        }
    }
}

impl RoundsResult {
    /// The result as text. With `compare`, it includes published figures.
    pub fn to_text(&self, compare: bool) -> String {
        let values = |run: &PeriodResult| run.proposals_per_s() * f64::from(self.values_per_proposal);
        let bits = |run: &PeriodResult| values(run) * f64::from(self.value_bytes) * 8.0;
        let table = Table::of([&self.measured].into_iter().chain(&self.below))
            .numbers("period", "", |run| format!("{} ns", grouped(run.period_ns)))
            .numbers("rounds", "", |run| grouped(run.rounds))
            .numbers("late", "", |run| grouped(run.late_messages))
            .numbers("unheard", "", |run| grouped(run.unheard))
            .numbers("fenced", "", |run| grouped(run.nodes_fenced))
            .numbers("reported", "", |run| grouped(run.nodes_that_say_so))
            .numbers("disagreements", "", |run| grouped(run.disagreements))
            .numbers("decided values/s", "", |run| with_prefix(values(run)))
            .numbers("decided Gb/s", "", |run| three_digits(bits(run) / 1e9));
        let bound = match self.min_round_period_ns {
            _ if self.gates.is_some() => format!("{} ns, as asked for", grouped(self.measured.period_ns)),
            Some(ns) => format!(
                "{} ns, the lowest at which {} rounds had no drop-out",
                grouped(ns),
                grouped(self.measured.rounds)
            ),
            None => format!("{} ns, as asked for", grouped(self.measured.period_ns)),
        };
        let mut text = format!(
            "{table}\n  period      {bound}\n  proposals   one of each of {} nodes in every round: {} of {} bytes\n  \
             network     {}, clocks up to {} ppm fast or slow\n  latency     p50 {}, p99 {} from a host's proposal to the answer that it is decided\n  \
             card        {}; {}\n{}  log hash    {}\n  repeat      {}\n",
            self.nodes,
            if self.values_per_proposal == 1 {
                "a value".to_owned()
            } else {
                format!("{} values", self.values_per_proposal)
            },
            self.value_bytes,
            self.network,
            self.clock_drift_ppm,
            time_with_unit(self.latency.p50_ns),
            time_with_unit(self.latency.p99_ns),
            self.nic,
            self.basis,
            self.faults_text(),
            self.measured.log_hash,
            self.replay
        );
        if let Some(gates) = &self.gates {
            text += &format!(
                "\n  in gates, without a network, cycles of 4 ns: round change {} (detPU {}), instance change {} ({}), message {} ({}),\n  \
                 shortest round {} ({}), port of 100 Gb/s busy {}: {} values/s, {} Gb/s decided\n",
                gates.round_cycles,
                paper::ROUND_CYCLES,
                gates.instance_cycles,
                paper::INSTANCE_CYCLES,
                gates.packet_cycles,
                paper::PACKET_CYCLES,
                gates.engine_min_round_period_cycles,
                paper::MIN_ROUND_PERIOD_CYCLES,
                gates.port_cycles,
                with_prefix(self.decided_values_per_s),
                three_digits(self.decided_bits_per_s / 1e9),
            );
        }
        if compare {
            text += &format!("\n{}", self.comparison());
        }
        text
    }

    /// The line of [`Self::to_text`] that lists injected faults and what they caused.
    fn faults_text(&self) -> String {
        let PeriodResult { faults, dropped, unanswered, .. } = &self.measured;
        let consequences =
            format!("{} proposals unanswered, {} dropped", grouped(*unanswered), grouped(*dropped));
        faults_line(faults, &consequences)
    }

    fn comparison(&self) -> Table {
        let mut table = Table::new([
            Column::words("system"),
            Column::words("what"),
            Column::numbers("value bytes", ""),
            Column::numbers("values/s", ""),
            Column::numbers("Gb/s", ""),
            Column::words("source"),
        ]);
        table.row([
            "Weft".to_owned(),
            format!(
                "{}, {} nodes, {} network, period {} ns",
                self.nic, self.nodes, self.network, self.measured.period_ns
            ),
            self.value_bytes.to_string(),
            with_prefix(self.decided_values_per_s),
            three_digits(self.decided_bits_per_s / 1e9),
            "this run".to_owned(),
        ]);
        for anchor in &self.anchors {
            table.row([
                anchor.system.to_owned(),
                anchor.what.to_owned(),
                anchor.value_bytes.to_string(),
                with_prefix(anchor.values_per_s),
                three_digits(anchor.bits_per_s / 1e9),
                anchor.source.to_owned(),
            ]);
        }
        table.row([
            "detPU CKC".to_owned(),
            format!("lowest stable period {} ns", paper::STABLE_PERIOD_NS),
            String::new(),
            String::new(),
            String::new(),
            "detPU 5.2.2".to_owned(),
        ]);
        table
    }
}
