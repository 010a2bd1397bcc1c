//! `weft bench rdma`: what one verb achieves between a client and a server, compared with the limit of the
//! link or the machine.
//!
//! The load keeps `tx_depth` work requests outstanding on each queue pair. Then single messages follow, whose
//! latency from the post to the completion is reported. Every message carries a pattern of its own, and all
//! data that arrive are checked: see [`Verification`]. Each message must complete once, and messages must
//! complete in order.
//!
//! In `sim`, the limit is that of the wire. In `net`, the limit is what a plain UDP sender achieves between
//! the same two processes with datagrams of the same length, in rounds that alternate with those of RDMA. Of
//! two plain senders, the better one counts: one lets the kernel split runs of datagrams, the other one does
//! not.

mod census;
mod client;
mod connection;
pub mod cuda;
mod detection;
mod draw;
mod error;
mod incast;
mod limit;
mod limits;
mod load;
pub mod output;
mod pair;
mod payload;
mod real;
mod result;
mod served;
mod server;
pub mod service;
mod simulated;
mod trace;
mod watch;

use std::path::PathBuf;
use std::process::Command;

use weft_gateware::latency::{self, WriteLatencies};
use weft_gateware::{OnPath, RtlNic};
use weft_net::process::own_executable;
use weft_nic::{NoEngine, SoftNic};
use weft_results::NicModel;
use weft_sim::{CostProfile, Execution, Fault, FaultPlan, LinkDirection, SwitchConfig};
use weft_time::{Duration, Instant};

pub use error::RdmaError;
pub use incast::{Congestion, IncastBench, IncastResult, plot as plot_incast};
pub use limits::{INCAST_MAX, QUEUE_PAIRS_MAX, RING_MAX};
pub use load::{Amount, RdmaOperation};
pub use payload::Verification;
pub use real::child_main;
pub use result::{DataChecked, DirectionResult, Limit, LossBound, RdmaResult, Round};

use limit::MeanMessage;
use load::{Load, Tuning};
use simulated::{Outcome, Simulation, Speed, Topology};
use weft_harness::progress::Progress;
use weft_results::World;
use weft_results::histogram::Latencies;

/// The hidden subcommand with which a benchmark starts its server. It calls [`child_main`] with the arguments
/// that follow.
pub const SERVER_COMMAND: &str = "bench-rdma-server";

/// Number of rounds of RDMA, and of plain UDP. Results are their medians.
const ROUNDS: usize = 5;

/// Number of messages whose latency is measured.
const LATENCY_MESSAGES: u64 = 2_000;

/// Number of messages whose latency is measured with the gateware, where computing each takes a thousand
/// cycles, and their latencies differ only with faults.
const LATENCY_MESSAGES_RTL: u64 = 200;

/// Interval, in messages, at which all bytes of a message are compared, in worlds where comparing takes time
/// from the measurement.
const COMPARE_EVERY: u64 = 1_021;

/// The directions of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// From a client to a server.
    #[default]
    One,
    /// Each of two machines is client and server at the same time, with separate queue pairs for each
    /// direction; `sim` only.
    Both,
    /// This many machines, 2 to [`RING_MAX`]. Each is the client of the next machine and the server of the
    /// one before; `sim` only.
    Ring(u32),
}

/// Files to write in addition to the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifacts {
    /// A folder for captures: one pcapng file for each port.
    pub capture: Option<PathBuf>,
    /// Whether [`RdmaResult::trace`] contains a Perfetto trace of every frame on every wire.
    pub trace: bool,
    /// A waveform of the first machine's NIC; only for the gateware.
    pub waveform: Option<Waveform>,
}

/// A waveform, as FST, of a time window of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waveform {
    /// The file.
    pub path: PathBuf,
    /// Start of the window.
    pub from: Instant,
    /// End of the window.
    pub until: Instant,
}

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct RdmaBench {
    /// Whether to run in virtual time or between two processes.
    pub world: World,
    /// The NIC to use.
    pub nic: NicModel,
    /// The verb under test.
    pub operation: RdmaOperation,
    /// Number of bytes of a message; 8 for atomic operations.
    pub size_bytes: u32,
    /// Whether each message has a random size, from 1 byte to [`RdmaBench::size_bytes`].
    pub random_sizes: bool,
    /// The directions of the traffic.
    pub direction: Directions,
    /// Queue pairs in each direction: at most [`QUEUE_PAIRS_MAX`] on one machine.
    pub queue_pairs: u32,
    /// Number of queue pairs under load; `None` means all.
    pub busy_queue_pairs: Option<u32>,
    /// Path MTU in bytes: a power of two from 256 to 4096.
    pub mtu_bytes: u32,
    /// Amount of work; in `net`, of each round.
    pub amount: Amount,
    /// Number of work requests outstanding on each queue pair. `None` means as many as fit in 512 KiB in
    /// `sim`, and in 1 MiB in `net`, but from 8 to 4096.
    pub tx_depth: Option<u32>,
    /// Seed for payloads, keys, PSNs and, in `sim`, the whole run.
    pub seed: u64,
    /// Name of the cost profile; only for the soft NIC in `sim`.
    pub profile: String,
    /// Faults between the machines `client` and `server`; `sim` only.
    pub faults: Option<FaultPlan>,
    /// Files of the run to keep; `sim` only.
    pub artifacts: Artifacts,
}

impl Default for RdmaBench {
    /// 10,000 WRITEs of 64 KiB on one queue pair in the simulator.
    fn default() -> Self {
        Self {
            world: World::Sim,
            nic: NicModel::Soft,
            operation: RdmaOperation::Write,
            size_bytes: 65_536,
            random_sizes: false,
            direction: Directions::One,
            queue_pairs: 1,
            busy_queue_pairs: None,
            mtu_bytes: 4_096,
            amount: Amount::Messages(10_000),
            tx_depth: None,
            seed: 1,
            profile: CostProfile::FPGA.name.into(),
            faults: None,
            artifacts: Artifacts::default(),
        }
    }
}

/// Jain's fairness index of shares: the square of their sum, divided by their number times the sum of their
/// squares.
pub fn jain_index(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

impl RdmaBench {
    /// A benchmark of how fairly queue pairs share a NIC: there are 500, and 32 of them are under load; see
    /// [`RdmaResult::jain_index`].
    pub fn fairness(seed: u64) -> Self {
        Self {
            size_bytes: 4_096,
            queue_pairs: QUEUE_PAIRS_MAX,
            busy_queue_pairs: Some(32),
            amount: Amount::Messages(64_000),
            seed,
            ..Self::default()
        }
    }

    /// Checks the options, without starting anything.
    ///
    /// # Errors
    /// The first option that is wrong.
    pub fn check(&self) -> Result<(), RdmaError> {
        self.load().check()?;
        let topology = self.topology();
        if let Topology::Ring(machines) = topology {
            if !(2..=RING_MAX).contains(&machines) {
                return Err(RdmaError::Ring(machines));
            }
            if self.queue_pairs > QUEUE_PAIRS_MAX / 2 {
                return Err(RdmaError::QueuePairsBoth(self.queue_pairs));
            }
        }
        if self.world == World::Net && topology != Topology::Pair {
            return Err(RdmaError::DirectionsInNet);
        }
        let Artifacts { capture, trace, waveform } = &self.artifacts;
        if self.world == World::Net && (capture.is_some() || *trace || waveform.is_some()) {
            return Err(RdmaError::ArtifactsInNet);
        }
        if let Some(waveform) = waveform {
            if self.nic != NicModel::Rtl {
                return Err(RdmaError::WaveformOfSoft);
            }
            if waveform.until <= waveform.from {
                return Err(RdmaError::EmptyWaveform);
            }
            if !weft_gateware::WAVEFORMS {
                return Err(RdmaError::NoWaveforms);
            }
        }
        if self.world == World::Net && self.nic == NicModel::Rtl {
            return Err(RdmaError::GatewareInNet);
        }
        if self.world == World::Net && self.faults.is_some() {
            return Err(RdmaError::FaultsInNet);
        }
        self.cost_profile()?;
        self.faults.as_ref().map_or(Ok(()), FaultPlan::check)?;
        Ok(())
    }

    /// Runs the measurement. Shows progress on standard error.
    ///
    /// In `net`, the server is a child process: the running executable with the subcommand
    /// [`SERVER_COMMAND`].
    ///
    /// # Errors
    /// [`RdmaError`]. If data arrived wrong, this is not an error but part of the result: see
    /// [`RdmaResult::checked`].
    pub fn run(&self) -> Result<RdmaResult, RdmaError> {
        let mut server = own_executable();
        server.arg(SERVER_COMMAND);
        self.run_with_server(server)
    }

    /// As [`RdmaBench::run`]. `server` is the command that, with an address as one more argument, calls
    /// [`child_main`] with that argument.
    fn run_with_server(&self, server: Command) -> Result<RdmaResult, RdmaError> {
        self.check()?;
        match self.world {
            World::Sim => self.simulate(),
            World::Net => self.measure(server),
        }
    }

    fn load(&self) -> Load {
        let tuning = Tuning::of(self.world);
        let busy = self.busy_queue_pairs.unwrap_or(self.queue_pairs);
        Load {
            operation: self.operation,
            size: self.size_bytes,
            random_sizes: self.random_sizes,
            queue_pairs: self.queue_pairs,
            busy,
            mtu: self.mtu_bytes,
            depth: self.tx_depth.unwrap_or_else(|| tuning.default_depth(self.size_bytes, busy)),
            amount: self.amount,
            latency_messages: match self.nic {
                NicModel::Soft => LATENCY_MESSAGES,
                NicModel::Rtl => LATENCY_MESSAGES_RTL,
            },
            compare_every: if self.world == World::Sim { 1 } else { COMPARE_EVERY },
            seed: self.seed,
            tuning,
        }
    }

    fn topology(&self) -> Topology {
        match self.direction {
            Directions::One => Topology::Pair,
            Directions::Both => Topology::Ring(2),
            Directions::Ring(machines) => Topology::Ring(machines),
        }
    }

    fn cost_profile(&self) -> Result<CostProfile, RdmaError> {
        if self.nic == NicModel::Rtl {
            return Ok(CostProfile::GATEWARE);
        }
        CostProfile::named(&self.profile).ok_or_else(|| RdmaError::UnknownProfile(self.profile.clone()))
    }

    fn simulate(&self) -> Result<RdmaResult, RdmaError> {
        let (load, profile) = (self.load(), self.cost_profile()?);
        let mut progress = Progress::new("rdma", self.total(&load));
        let outcome = self.outcome(&load, &profile, &OnPath::Nothing, &mut progress)?;
        drop(progress);
        let all = outcome.directions.iter().map(|flowed| &flowed.measurement);
        let (messages, bytes) = all.fold((0, 0), |sums, one| (sums.0 + one.messages, sums.1 + one.bytes));
        let several = outcome.directions.len() > 1;
        let plain_limit = limit::limit(&load, 0.0);
        let other_bytes = if several { outcome.census.other_bytes as f64 / messages as f64 } else { 0.0 };
        let limit = limit::limit(&load, other_bytes);
        let mean_bytes = bytes as f64 / messages as f64;
        let mut directions: Vec<DirectionResult> = outcome
            .directions
            .iter()
            .map(|flowed| {
                let measurement = &flowed.measurement;
                let messages_per_s = rate(measurement.messages, measurement.measured);
                let goodput_bits_per_s = 8.0 * rate(measurement.bytes, measurement.measured);
                DirectionResult {
                    from: flowed.from.clone(),
                    to: flowed.to.clone(),
                    goodput_bits_per_s,
                    messages_per_s,
                    fraction_of_limit: goodput_bits_per_s / limit.goodput_bits_per_s,
                    fraction_of_plain_limit: goodput_bits_per_s / plain_limit.goodput_bits_per_s,
                    jain_index: jain_index(&measurement.shares),
                }
            })
            .collect();
        let slowest = directions
            .iter()
            .min_by(|one, other| one.goodput_bits_per_s.total_cmp(&other.goodput_bits_per_s))
            .expect("there is a direction");
        let loss_bound = self.loss_bound(&load, &plain_limit, slowest.goodput_bits_per_s).map(|bound| {
            let packets = messages as f64 * MeanMessage::of(&load).packets;
            LossBound { packets_sent_per_packet: outcome.census.packets as f64 / packets, ..bound }
        });
        let least_fair = directions.iter().map(|direction| direction.jain_index).fold(1.0, f64::min);
        let rounds = vec![Round {
            messages_per_s: slowest.messages_per_s,
            limit_messages_per_s: limit.messages_per_s,
        }];
        let goodput_bits_per_s = slowest.goodput_bits_per_s;
        if !several {
            directions.clear();
        }
        let measured = outcome.directions.iter().map(|flowed| flowed.measurement.measured).max();
        let latencies =
            outcome.directions.into_iter().next().expect("there is a direction").measurement.latencies;
        let figures = Figures {
            messages,
            measured: measured.unwrap_or_default(),
            goodput_bits_per_s: Some(goodput_bits_per_s),
            mean_bytes,
            rounds,
            limit,
            lower_limit: None,
            plain_limit: several.then_some(plain_limit),
            directions,
            loss_bound,
            jain_index: least_fair,
            latencies,
            verification: outcome.verification,
            log_hash: Some(outcome.log_hash),
            speed: outcome.speed,
            trace: outcome.trace,
            machine: format!("simulated: cost profile {} ({})", profile.name, profile.basis),
        };
        let mut result = self.result(&load, figures);
        result.latency_cycles = self.latency_cycles(&profile);
        Ok(result)
    }

    /// Number of messages of a run in virtual time; 0 if its length is given.
    fn total(&self, load: &Load) -> u64 {
        match self.amount {
            Amount::Messages(messages) => {
                messages * self.topology().directions().len() as u64 + load.latency_messages
            }
            Amount::Time(_) => 0,
        }
    }

    /// Runs the load in virtual time, with this on the path of the data.
    fn outcome(
        &self,
        load: &Load,
        profile: &CostProfile,
        on_path: &OnPath,
        progress: &mut Progress,
    ) -> Result<Outcome, RdmaError> {
        let run = match self.nic {
            NicModel::Soft => simulated::run::<SoftNic<NoEngine>>,
            NicModel::Rtl => simulated::run::<RtlNic>,
        };
        let simulation = Simulation {
            load,
            topology: self.topology(),
            profile,
            on_path,
            faults: self.faults.as_ref(),
            capture: self.artifacts.capture.as_ref(),
            trace: self.artifacts.trace,
            waveform: self.artifacts.waveform.as_ref(),
            rate_control: false,
            switch: SwitchConfig::default(),
            watch: None,
        };
        run(&simulation, progress)
    }

    /// The gateware's latencies in cycles. They are measured separately, because in the simulated network
    /// links and the switch add latency.
    fn latency_cycles(&self, profile: &CostProfile) -> Option<WriteLatencies> {
        let is_clocked = matches!(profile.execution, Execution::Clocked { .. });
        (is_clocked && weft_gateware::MODELS).then(|| latency::measure(weft_harness::gateware::hbm()))
    }

    /// The limit of go-back-N. `None` unless the only fault of the plan is random loss with the same
    /// probability during the whole run.
    fn loss_bound(&self, load: &Load, limit: &Limit, goodput_bits_per_s: f64) -> Option<LossBound> {
        let [fault] = &self.faults.as_ref()?.faults[..] else { return None };
        let Fault::Loss { from_us: 0, probability, machine, direction: LinkDirection::Both, .. } = fault
        else {
            return None;
        };
        // A packet crosses the link from its machine to the switch, and the link from there to the other
        // machine.
        let links = if machine.is_none() { 2 } else { 1 };
        let packet_loss = 1.0 - (1.0 - probability).powi(links);
        let window_packets = match self.nic {
            NicModel::Soft => load.window_packets(),
            NicModel::Rtl => weft_gateware::package::WINDOW_PACKETS as u32,
        };
        let message = MeanMessage::of(load);
        let packet_bytes = message.wire_bytes / message.packets;
        let round_trip = limit::round_trip(packet_bytes);
        let packet_time = limit.goodput_bits_per_s / (8.0 * message.bytes) * message.packets;
        // The number of packets in flight of one queue pair with its share of the wire.
        let pipe = (round_trip.as_secs_f64() * packet_time / f64::from(load.busy)).max(1.0);
        let window = f64::from(window_packets);
        let again = pipe.min(window);
        let arrives = 1.0 - packet_loss;
        let share = (window / pipe).min(1.0) * arrives / (arrives + packet_loss * again);
        let bound = limit.goodput_bits_per_s * share;
        Some(LossBound {
            packet_loss,
            window_packets,
            round_trip_ns: round_trip.as_ns(),
            goodput_bits_per_s: bound,
            fraction_of_bound: goodput_bits_per_s / bound,
            packets_sent_per_packet: 0.0,
            what: format!(
                "go-back-N with a window of {window_packets} packets and a round trip of {:.2} us; every loss is noticed at once",
                round_trip.as_secs_f64() * 1e6
            ),
        })
    }

    fn measure(&self, server: Command) -> Result<RdmaResult, RdmaError> {
        let load = self.load();
        let packets = f64::from(load.packets());
        let mut rig = real::Rig::start(server)?;
        let mut progress = Progress::new("rdma", ROUNDS as u64);
        let mut rates = Vec::new();
        let (mut messages, mut measured) = (0, Duration::ZERO);
        let (mut latencies, mut verification) = (Latencies::new(), Verification::default());
        let mut least_fair = 1.0_f64;
        let mut senders: Vec<real::PlainRound> = Vec::new();
        let mut plain_rates = [Vec::new(), Vec::new()];
        for round in 1..=ROUNDS as u64 {
            let (measurement, checked) = rig.measure(&load, None)?;
            let time = measurement.measured;
            if senders.is_empty() {
                for segmentation in [true, false] {
                    senders.push(rig.best_plain(&load, segmentation, time)?);
                }
            }
            for (sender, rates) in senders.iter().zip(&mut plain_rates) {
                rates.push(rig.measure_plain(sender)? / packets);
            }
            rates.push(rate(measurement.messages, time));
            messages += measurement.messages;
            measured += time;
            latencies.merge(&measurement.latencies);
            verification.merge(&checked);
            least_fair = least_fair.min(jain_index(&measurement.shares));
            progress.set(round);
        }
        drop(progress);
        let mut limits: Vec<(Limit, Vec<f64>)> = senders
            .iter()
            .zip(plain_rates)
            .map(|(sender, rates)| (sender.limit(packets, median(rates.iter().copied())), rates))
            .collect();
        limits.sort_by(|(one, _), (other, _)| other.messages_per_s.total_cmp(&one.messages_per_s));
        let (limit, limit_rates) = limits.remove(0);
        let lower_limit = Some(limits.remove(0).0);
        let rounds = rates
            .into_iter()
            .zip(limit_rates)
            .map(|(messages_per_s, limit_messages_per_s)| Round { messages_per_s, limit_messages_per_s })
            .collect();
        let figures = Figures {
            messages,
            measured,
            goodput_bits_per_s: None,
            mean_bytes: f64::from(load.size),
            rounds,
            limit,
            lower_limit,
            plain_limit: None,
            directions: Vec::new(),
            loss_bound: None,
            jain_index: least_fair,
            latencies,
            verification,
            log_hash: None,
            speed: None,
            trace: None,
            machine: format!(
                "real: two processes over loopback, {} cores",
                std::thread::available_parallelism().map_or(1, usize::from)
            ),
        };
        Ok(self.result(&load, figures))
    }

    fn result(&self, load: &Load, figures: Figures) -> RdmaResult {
        let Figures { messages, measured, rounds, limit, jain_index, latencies, speed, .. } = figures;
        let messages_per_s = median(rounds.iter().map(|round| round.messages_per_s));
        let goodput_bits_per_s =
            figures.goodput_bits_per_s.unwrap_or(messages_per_s * figures.mean_bytes * 8.0);
        let fraction_of_limit = if load.packets() > 1 || load.random_sizes {
            goodput_bits_per_s / limit.goodput_bits_per_s
        } else {
            messages_per_s / limit.messages_per_s
        };
        let summary = latencies.summary();
        let right = figures.verification.mismatches == 0 && figures.verification.messages > 0;
        RdmaResult {
            format: "weft-rdma-1".into(),
            op: load.operation,
            size_bytes: load.size,
            qps: load.queue_pairs,
            busy_qps: load.busy,
            mtu_bytes: load.mtu,
            random_sizes: load.random_sizes,
            tx_depth: load.depth,
            goodput_bits_per_s,
            messages_per_s,
            fraction_of_limit,
            limit,
            plain_limit: figures.plain_limit,
            directions: figures.directions,
            loss_bound: figures.loss_bound,
            lower_limit: figures.lower_limit,
            throughput_ops_per_s: messages_per_s,
            latency_cycles: None,
            simulated_cycles_per_s_per_nic: speed.as_ref().map(|speed| {
                let mean = speed.cycles.iter().sum::<u64>() as f64 / speed.cycles.len() as f64;
                mean / speed.wall_s.max(1e-9)
            }),
            cycles_per_nic: speed.map(|speed| speed.cycles).unwrap_or_default(),
            p50_ns: summary.p50_ns,
            p99_ns: summary.p99_ns,
            p999_ns: summary.p999_ns,
            latency: summary,
            latencies,
            checked: if right { DataChecked::Verified } else { DataChecked::Corrupt },
            verification: figures.verification,
            jain_index,
            messages,
            measured_ns: measured.as_ns(),
            rounds,
            log_hash: figures.log_hash,
            world: self.world,
            nic: self.nic.to_string(),
            machine: figures.machine,
            seed: self.seed,
            replay: self.command(load),
            trace: figures.trace,
        }
    }

    /// The command that repeats the run. It does not contain the fault plan, because only the user knows the
    /// name of its file.
    fn command(&self, load: &Load) -> String {
        let mut command = format!(
            "weft bench rdma --world {} --op {} --size {} --qps {} --busy-qps {} --mtu {} --tx-depth {}",
            self.world, load.operation, load.size, load.queue_pairs, load.busy, load.mtu, load.depth
        );
        match load.amount {
            Amount::Messages(messages) => command += &format!(" --iterations {messages}"),
            Amount::Time(time) => command += &format!(" --duration-ms {}", time.as_ns() / 1_000_000),
        }
        if self.nic != NicModel::Soft {
            command += &format!(" --nic {}", self.nic);
        } else if self.world == World::Sim {
            command += &format!(" --profile {}", self.profile);
        }
        if self.random_sizes {
            command += " --random-sizes";
        }
        match self.direction {
            Directions::One => {}
            Directions::Both => command += " --bidirectional",
            Directions::Ring(machines) => command += &format!(" --nics {machines}"),
        }
        if self.faults.is_some() {
            command += " --faults <the same plan>";
        }
        command + &format!(" --seed {}", self.seed)
    }
}

/// Measurements of a run, in either world.
struct Figures {
    messages: u64,
    measured: Duration,
    /// The goodput; `None` if it follows from the rate of messages.
    goodput_bits_per_s: Option<f64>,
    mean_bytes: f64,
    rounds: Vec<Round>,
    limit: Limit,
    lower_limit: Option<Limit>,
    plain_limit: Option<Limit>,
    directions: Vec<DirectionResult>,
    loss_bound: Option<LossBound>,
    jain_index: f64,
    latencies: Latencies,
    verification: Verification,
    log_hash: Option<String>,
    speed: Option<Speed>,
    trace: Option<Vec<u8>>,
    machine: String,
}

fn rate(messages: u64, time: Duration) -> f64 {
    messages as f64 / time.as_secs_f64().max(1e-12)
}

/// The median; of an even number of values, the upper one in the middle.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[cfg(test)]
mod tests;
