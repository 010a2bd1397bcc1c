//! `weft bench rdma --incast N`: N clients WRITE to one server at the same time through one port of the
//! switch, without and with congestion control.
//!
//! All clients post as much as they can for the same time. The switch has a bounded queue and, with
//! congestion control, marks packets; see [`MARKING`]. The first half of the time lets the clients adapt to
//! each other. Rates, shares and the steady queue are measured in the second half.

mod plot;
mod result;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use weft_gateware::{OnPath, RtlNic};
use weft_nic::{NoEngine, SoftNic};
use weft_sim::{Marking, Probability, SwitchConfig};
use weft_time::{Duration, Instant};

pub use plot::plot;
pub use result::{IncastResult, IncastRun};

use weft_harness::progress::Progress;
use weft_results::NicModel;

use super::limits::INCAST_MAX;
use super::load::Amount;
use super::simulated::{self, BEGIN, Simulation, Topology};
use super::watch::IncastMonitor;
use super::{DataChecked, RdmaBench, RdmaError, RdmaOperation, jain_index};

/// Number of intervals into which a run is divided.
const INTERVALS: u64 = 100;

/// Marking by the switch: from 100 KiB on (8 us of the wire) with a probability that increases to the third
/// value, from 400 KiB on every packet. The switch's queues hold 1 MiB.
const MARKING: (u64, u64, f64) = (100 << 10, 400 << 10, 0.1);

/// Congestion control of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// Only the transport's windows limit clients.
    None,
    /// The switch marks packets, and DCQCN limits the clients' rates.
    Dcqcn,
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Dcqcn => "dcqcn",
        })
    }
}

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct IncastBench {
    /// Message size, queue pairs of each client, MTU, seed and other parameters. The amount of work must be a
    /// time.
    pub bench: RdmaBench,
    /// Number of clients: 2 to [`INCAST_MAX`].
    pub clients: u32,
    /// The kinds of congestion control to measure, one run for each.
    pub congestion: Vec<Congestion>,
    /// The command that repeats the measurement.
    pub replay: String,
}

impl IncastBench {
    /// Checks the options, without starting anything.
    ///
    /// # Errors
    /// The first option that is wrong.
    pub fn check(&self) -> Result<(), RdmaError> {
        let bench = &self.bench;
        bench.check()?;
        if !(2..=INCAST_MAX).contains(&self.clients) {
            return Err(RdmaError::Incast(self.clients));
        }
        let unwanted = [
            (bench.operation != RdmaOperation::Write, "--op"),
            (bench.world != weft_results::World::Sim, "--world"),
            (bench.topology() != Topology::Pair, "--bidirectional and --nics"),
            (bench.faults.is_some(), "--faults"),
            (bench.artifacts != super::Artifacts::default(), "--pcap, --perfetto and --fst"),
            (!matches!(bench.amount, Amount::Time(_)), "--iterations"),
        ];
        if let Some((_, option)) = unwanted.into_iter().find(|(is_given, _)| *is_given) {
            return Err(RdmaError::NotInIncast(option));
        }
        if bench.queue_pairs * self.clients > super::QUEUE_PAIRS_MAX {
            return Err(RdmaError::QueuePairs(bench.queue_pairs * self.clients));
        }
        Ok(())
    }

    /// Runs the measurement. Shows progress on standard error.
    ///
    /// # Errors
    /// [`RdmaError`]. If data arrived wrong, this is not an error but part of the result.
    pub fn run(&self) -> Result<IncastResult, RdmaError> {
        self.check()?;
        let runs = self.congestion.iter().map(|&congestion| self.run_with(congestion));
        Ok(IncastResult {
            format: "weft-rdma-incast-1".into(),
            nic: self.bench.nic.to_string(),
            clients: self.clients,
            qps: self.bench.queue_pairs,
            size_bytes: self.bench.size_bytes,
            mtu_bytes: self.bench.mtu_bytes,
            duration_ns: self.duration().as_ns(),
            interval_ns: self.interval().as_ns(),
            queue_limit_bytes: SwitchConfig::default().queue_bytes,
            mark_from_bytes: MARKING.0,
            mark_all_from_bytes: MARKING.1,
            mark_probability_max: MARKING.2,
            runs: runs.collect::<Result<_, _>>()?,
            seed: self.bench.seed,
            replay: self.replay.clone(),
        })
    }

    fn duration(&self) -> Duration {
        if let Amount::Time(time) = self.bench.amount { time } else { Duration::ZERO }
    }

    fn interval(&self) -> Duration {
        Duration::from_ps(self.duration().as_ps() / INTERVALS)
    }

    fn run_with(&self, congestion: Congestion) -> Result<IncastRun, RdmaError> {
        let bench = &self.bench;
        let (load, profile) = (bench.load(), bench.cost_profile()?);
        let load = super::Load { latency_messages: 0, ..load };
        let watch = Rc::new(RefCell::new(IncastMonitor::new(self.clients as usize, self.interval())));
        let dcqcn = congestion == Congestion::Dcqcn;
        let (from_bytes, all_from_bytes, most) = MARKING;
        let marking = Marking {
            from_bytes,
            all_from_bytes,
            probability_max: Probability::new(most).expect("a probability"),
        };
        let simulation = Simulation {
            load: &load,
            topology: Topology::Incast(self.clients),
            profile: &profile,
            on_path: &OnPath::Nothing,
            faults: None,
            capture: None,
            trace: false,
            waveform: None,
            rate_control: dcqcn,
            switch: SwitchConfig { marking: dcqcn.then_some(marking), ..SwitchConfig::default() },
            watch: Some(&watch),
        };
        let run = match bench.nic {
            NicModel::Soft => simulated::run::<SoftNic<NoEngine>>,
            NicModel::Rtl => simulated::run::<RtlNic>,
        };
        let mut progress = Progress::new("incast", 0);
        let outcome = run(&simulation, &mut progress)?;
        drop(progress);
        let watch = watch.borrow();
        let right = outcome.verification.mismatches == 0 && outcome.verification.messages > 0;
        let checked = if right { DataChecked::Verified } else { DataChecked::Corrupt };
        let mut run = self.summary(congestion, &watch);
        run.checked = checked;
        run.log_hash = outcome.log_hash;
        Ok(run)
    }

    fn summary(&self, congestion: Congestion, watch: &IncastMonitor) -> IncastRun {
        let interval = self.interval();
        let begin = (BEGIN.as_ps() / interval.as_ps()) as usize;
        // Later intervals contain only messages that were posted before the end of the time.
        let end = (begin + INTERVALS as usize).min(watch.intervals.len());
        let intervals = &watch.intervals[..end];
        let half = (begin + INTERVALS as usize / 2).min(end - 1);
        let (warm, last) = (&intervals[half], &intervals[end - 1]);
        let shares: Vec<u64> =
            last.completed.iter().zip(&warm.completed).map(|(last, warm)| last - warm).collect();
        let seconds = (interval.as_secs_f64() * (end - 1 - half) as f64).max(1e-12);
        let bits = 8.0 * f64::from(self.bench.size_bytes);
        let goodputs: Vec<f64> = shares.iter().map(|&share| share as f64 * bits / seconds).collect();
        let steady = &intervals[half..];
        IncastRun {
            congestion,
            goodput_bits_per_s: goodputs.iter().sum(),
            slowest_bits_per_s: goodputs.iter().copied().fold(f64::INFINITY, f64::min),
            fastest_bits_per_s: goodputs.iter().copied().fold(0.0, f64::max),
            jain_index: jain_index(&shares),
            drops: watch.port.queue_drops,
            drops_steady: steady.iter().map(|interval| interval.drops).sum(),
            last_drop_ns: watch.last_drop.map(|at| at.saturating_since(Instant::ZERO).as_ns()),
            marked: watch.port.marked,
            notifications: watch.notifications,
            retransmissions: watch.retransmissions,
            queue_bytes_max: intervals.iter().map(|interval| interval.queue_bytes_max).max().unwrap_or(0),
            queue_bytes_max_steady: steady.iter().map(|one| one.queue_bytes_max).max().unwrap_or(0),
            checked: DataChecked::Corrupt,
            log_hash: String::new(),
            intervals: intervals.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests;
