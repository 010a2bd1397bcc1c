//! `weft bench rdma`: what one verb reaches between a client and a server, beside what the link or the machine allows.
//!
//! The load keeps `tx_depth` work requests outstanding on each queue pair; then single messages follow, whose latency, from
//! the post to the completion, is reported. Every message carries a pattern of its own, and all that arrives is checked: see
//! [`Verification`]. Completions must come once each and in order.
//!
//! In `sim` the limit is the wire's. In `net` it is what a plain UDP sender reaches between the same two processes
//! with datagrams of the same length, in rounds that alternate with those of RDMA: the better of one that lets the kernel
//! cut up runs of datagrams and one that does not.

mod client;
mod connection;
mod load;
mod payload;
mod real;
mod server;
mod simulated;

use std::process::Command;
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weft_gateware::RtlNic;
use weft_net::BindError;
use weft_net::process::{ProcessError, own_executable};
use weft_nic::SoftNic;
use weft_sim::{CostProfile, FaultPlan, PlanError};
use weft_time::Duration;

pub use load::{Amount, QUEUE_PAIRS_MAX, RdmaOperation};
pub use payload::Verification;
pub use real::child_main;

use crate::histogram::{Latencies, Summary};
use crate::perftest::{Bandwidth, Parameters, bandwidth_test};
use crate::progress::Progress;
use crate::result::World;
use connection::NoEngine;
use load::{Load, Tuning};

/// The hidden subcommand with which a bench starts its server: it calls [`child_main`] with the arguments that follow.
pub const SERVER_COMMAND: &str = "bench-rdma-server";

/// Rounds of RDMA, and as many of plain UDP, whose medians count.
const ROUNDS: usize = 5;

/// Messages whose latency is measured.
const LATENCY_MESSAGES: u64 = 2_000;

/// The same for the gateware, where each takes a thousand cycles to compute and nothing but faults makes them differ.
const LATENCY_MESSAGES_RTL: u64 = 200;

/// Every so many messages all bytes of one are compared at once, where that takes time from what is measured.
const COMPARE_EVERY: u64 = 1_021;

/// Which NIC a bench measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NicModel {
    /// In software, at the pace of a cost profile.
    #[default]
    Soft,
    /// The gateware, cycle by cycle; `sim` only.
    Rtl,
}

impl fmt::Display for NicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Soft => "soft",
            Self::Rtl => "rtl",
        })
    }
}

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct RdmaBench {
    /// In virtual time, or between two processes.
    pub world: World,
    /// Which NIC.
    pub nic: NicModel,
    /// The verb under test.
    pub operation: RdmaOperation,
    /// Bytes of a message; 8 for atomics.
    pub size_bytes: u32,
    /// Queue pairs, at most [`QUEUE_PAIRS_MAX`].
    pub queue_pairs: u32,
    /// How many of them work; `None`: all.
    pub busy_queue_pairs: Option<u32>,
    /// Path MTU in bytes: a power of two from 256 to 4096.
    pub mtu_bytes: u32,
    /// How much to do; in `net`, in each round.
    pub amount: Amount,
    /// Work requests outstanding on each queue pair; `None`: as many as 512 KiB hold in `sim`, and 1 MiB in `net`, from 8 to
    /// 4096.
    pub tx_depth: Option<u32>,
    /// Decides payloads, keys, PSNs and, in `sim`, the run.
    pub seed: u64,
    /// The cost profile; of the soft NIC in `sim` only.
    pub profile: String,
    /// What goes wrong between the machines `client` and `server`; `sim` only.
    pub faults: Option<FaultPlan>,
}

impl Default for RdmaBench {
    /// 10,000 WRITEs of 64 KiB on one queue pair in the simulator.
    fn default() -> Self {
        Self {
            world: World::Sim,
            nic: NicModel::Soft,
            operation: RdmaOperation::Write,
            size_bytes: 65_536,
            queue_pairs: 1,
            busy_queue_pairs: None,
            mtu_bytes: 4_096,
            amount: Amount::Messages(10_000),
            tx_depth: None,
            seed: 1,
            profile: CostProfile::FPGA.name.into(),
            faults: None,
        }
    }
}

/// What stands in the way of a bench: wrong options (see [`RdmaError::is_usage`]) or a run that failed.
#[derive(Debug, Error)]
pub enum RdmaError {
    /// No such verb.
    #[error("unknown operation `{0}`; known are write, write_imm, send, send_imm, read, fetch_add, cmp_swap")]
    UnknownOperation(String),
    /// Messages without bytes.
    #[error("a size of 0 bytes leaves nothing to measure: choose 1 or more")]
    EmptyMessage,
    /// Atomics of another size than theirs.
    #[error("atomics work on 8 bytes, not {0}: choose a size of 8")]
    AtomicSize(u32),
    /// No path MTU of InfiniBand.
    #[error("there is no path MTU of {0} bytes: choose 256, 512, 1024, 2048 or 4096")]
    Mtu(u32),
    /// No or too many queue pairs.
    #[error("{0} queue pairs cannot be served: choose 1 to {QUEUE_PAIRS_MAX}")]
    QueuePairs(u32),
    /// More queue pairs that work than there are, or none.
    #[error("of {queue_pairs} queue pairs {busy} cannot be busy: choose 1 to {queue_pairs}")]
    BusyQueuePairs {
        /// That should work.
        busy: u32,
        /// That there are.
        queue_pairs: u32,
    },
    /// No or too many work requests.
    #[error("a depth of {0} work requests cannot be kept: choose 1 to 8192")]
    Depth(u32),
    /// Too large buffers.
    #[error(
        "the buffers would take {bytes} bytes and may take {limit}: choose a smaller size, depth or number of queue pairs"
    )]
    Memory {
        /// That are asked for.
        bytes: u64,
        /// That are allowed.
        limit: u64,
    },
    /// No messages or no time.
    #[error("there is nothing to do: choose at least 1 message or some time")]
    NothingToDo,
    /// No such profile.
    #[error("unknown cost profile `{0}`; known are fpga, cores, host-card")]
    UnknownProfile(String),
    /// The gateware outside the simulator.
    #[error("the gateware is computed in the simulator only: choose the world sim or the NIC soft")]
    GatewareInNet,
    /// Faults in a world that has none.
    #[error("faults are injected in the simulator only: choose the world sim or no faults")]
    FaultsInNet,
    /// A plan that does not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The server's process was started by hand.
    #[error(
        "{SERVER_COMMAND} is started by `weft bench rdma --world net` and needs the IPv4 address to serve on"
    )]
    ServerArguments,
    /// A port could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The server's process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The kernel.
    #[error("a connection between the processes failed: {0}")]
    Io(#[from] io::Error),
    /// A transport, a check or the peer.
    #[error("the run failed: {0}")]
    Failed(String),
}

impl RdmaError {
    /// Whether the options are wrong, and not the run.
    pub const fn is_usage(&self) -> bool {
        !matches!(self, Self::Bind(_) | Self::Process(_) | Self::Io(_) | Self::Failed(_))
    }
}

/// The most that could have been reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// In `sim`, payload of messages; in `net`, UDP payload; in bits per second.
    pub goodput_bits_per_s: f64,
    /// Messages per second.
    pub messages_per_s: f64,
    /// What it is the limit of.
    pub what: String,
}

/// One round, of RDMA or of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Messages per second of RDMA.
    pub messages_per_s: f64,
    /// Messages per second that plain UDP would have reached, right after.
    pub limit_messages_per_s: f64,
}

/// Whether what arrived is what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataChecked {
    /// All that was compared was right.
    #[serde(rename = "data verified")]
    Verified,
    /// Something was not.
    #[serde(rename = "data corrupt")]
    Corrupt,
}

/// What one bench yields. The order of the fields is the order in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RdmaResult {
    format: String,
    /// The verb.
    pub op: RdmaOperation,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Queue pairs.
    pub qps: u32,
    /// How many of them worked.
    pub busy_qps: u32,
    /// Path MTU.
    pub mtu_bytes: u32,
    /// Work requests outstanding on each queue pair that worked.
    pub tx_depth: u32,
    /// Payload of messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// Messages per second.
    pub messages_per_s: f64,
    /// The share of the limit: of its goodput for messages of several packets, of its message rate for others.
    pub fraction_of_limit: f64,
    /// The limit.
    pub limit: Limit,
    /// In `net`: what the other kind of plain sender reaches, which is less.
    pub lower_limit: Option<Limit>,
    /// Messages per second, by the name that all benches have.
    pub throughput_ops_per_s: f64,
    /// Half of the single messages took at most this from post to completion.
    pub p50_ns: u64,
    /// 99 % of the single messages took at most this.
    pub p99_ns: u64,
    /// 99.9 % of the single messages took at most this.
    pub p999_ns: u64,
    /// Of the single messages.
    pub latency: Summary,
    /// Whether what arrived is what was sent, each message once and in order.
    pub checked: DataChecked,
    /// What was compared.
    pub verification: Verification,
    /// Jain's fairness index over the queue pairs that worked: 1 if all got the same.
    pub jain_index: f64,
    /// Messages of the load, all rounds together.
    pub messages: u64,
    /// The load's time, all rounds together.
    pub measured_ns: u64,
    /// The rounds; one in `sim`.
    pub rounds: Vec<Round>,
    /// In `sim`: the hash of the event log.
    pub log_hash: Option<String>,
    /// In which world.
    pub world: World,
    /// Which NIC.
    pub nic: String,
    /// What the times rest on.
    pub machine: String,
    /// What decided the run.
    pub seed: u64,
    /// The command that repeats it.
    pub replay: String,
}

impl RdmaResult {
    /// As pretty JSON with a line break at the end.
    pub fn to_json(&self) -> String {
        let mut json =
            serde_json::to_string_pretty(self).expect("a result has string keys and finite numbers");
        json.push('\n');
        json
    }

    /// What perftest's bandwidth test prints, with the limit and the check below it.
    pub fn to_text(&self) -> String {
        let parameters = Parameters {
            verb: self.op.verb(),
            device: format!("weft-{}", self.nic),
            queue_pairs: self.busy_qps,
            send_depth: self.tx_depth,
            mtu: self.mtu_bytes,
            link_type: match self.world {
                World::Sim => "Ethernet (simulated)".into(),
                World::Net => "UDP over loopback".into(),
            },
        };
        let bytes = f64::from(self.size_bytes);
        let peak = self.rounds.iter().map(|round| round.messages_per_s).fold(0.0, f64::max);
        let line = Bandwidth {
            bytes: self.size_bytes.into(),
            iterations: self.messages,
            peak_bytes_per_s: peak * bytes,
            average_bytes_per_s: self.messages_per_s * bytes,
        };
        let checked = match self.checked {
            DataChecked::Verified => "data verified".to_owned(),
            DataChecked::Corrupt => {
                format!("DATA CORRUPT: {}", self.verification.first.as_deref().unwrap_or_default())
            }
        };
        format!(
            "{}\
             goodput {:.2} Gb/s, {:.3} M messages/s: {:.1} % of the limit\n\
             limit   {:.2} Gb/s, {:.3} M messages/s: {}\n\
             latency p50 {:.2} us, p99 {:.2} us, p99.9 {:.2} us; fairness {:.4}; {checked}\n",
            bandwidth_test(&parameters, &[line]),
            self.goodput_bits_per_s / 1e9,
            self.messages_per_s / 1e6,
            self.fraction_of_limit * 100.0,
            self.limit.goodput_bits_per_s / 1e9,
            self.limit.messages_per_s / 1e6,
            self.limit.what,
            self.p50_ns as f64 / 1e3,
            self.p99_ns as f64 / 1e3,
            self.p999_ns as f64 / 1e3,
            self.jain_index,
        )
    }
}

/// Jain's fairness index of shares: the square of their sum over their number times the sum of their squares.
pub fn jain_index(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

impl RdmaBench {
    /// Whether many queue pairs share a NIC fairly: 500, of which 32 work; see [`RdmaResult::jain_index`].
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

    /// Checks the options.
    ///
    /// # Errors
    /// The first that is wrong; nothing has been done.
    pub fn check(&self) -> Result<(), RdmaError> {
        self.load().check()?;
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

    /// Measures. Progress is shown on standard error.
    ///
    /// In `net` the server is a child process of the running executable with the subcommand [`SERVER_COMMAND`].
    ///
    /// # Errors
    /// [`RdmaError`]. Data that arrived wrong is a result, not an error: see [`RdmaResult::checked`].
    pub fn run(&self) -> Result<RdmaResult, RdmaError> {
        let mut server = own_executable();
        server.arg(SERVER_COMMAND);
        self.run_with_server(server)
    }

    /// As [`RdmaBench::run`]; `server` with an address as one more argument calls [`child_main`] with it.
    fn run_with_server(&self, server: Command) -> Result<RdmaResult, RdmaError> {
        self.check()?;
        match self.world {
            World::Sim => self.simulate(),
            World::Net => self.measure(server),
        }
    }

    fn load(&self) -> Load {
        let tuning = Tuning::of(self.world);
        Load {
            operation: self.operation,
            size: self.size_bytes,
            queue_pairs: self.queue_pairs,
            busy: self.busy_queue_pairs.unwrap_or(self.queue_pairs),
            mtu: self.mtu_bytes,
            depth: self.tx_depth.unwrap_or_else(|| tuning.default_depth(self.size_bytes)),
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

    fn cost_profile(&self) -> Result<CostProfile, RdmaError> {
        if self.nic == NicModel::Rtl {
            return Ok(CostProfile::GATEWARE);
        }
        CostProfile::named(&self.profile).ok_or_else(|| RdmaError::UnknownProfile(self.profile.clone()))
    }

    fn simulate(&self) -> Result<RdmaResult, RdmaError> {
        let (load, profile) = (self.load(), self.cost_profile()?);
        let total = if let Amount::Messages(messages) = self.amount { messages } else { 0 };
        let mut progress = Progress::new("rdma", total);
        let run = match self.nic {
            NicModel::Soft => simulated::run::<SoftNic<NoEngine>>,
            NicModel::Rtl => simulated::run::<RtlNic>,
        };
        let outcome = run(&load, &profile, self.faults.as_ref(), &mut progress)?;
        drop(progress);
        let limit = simulated::limit(&load);
        let measurement = outcome.measurement;
        let figures = Figures {
            messages: measurement.messages,
            measured: measurement.measured,
            rounds: vec![Round {
                messages_per_s: rate(measurement.messages, measurement.measured),
                limit_messages_per_s: limit.messages_per_s,
            }],
            limit,
            lower_limit: None,
            jain_index: jain_index(&measurement.shares),
            latencies: measurement.latencies,
            verification: outcome.verification,
            log_hash: Some(outcome.log_hash),
            machine: format!("simulated: cost profile {} ({})", profile.name, profile.basis),
        };
        Ok(self.result(&load, figures))
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
            let (measurement, checked) = rig.measure(&load)?;
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
            rounds,
            limit,
            lower_limit,
            jain_index: least_fair,
            latencies,
            verification,
            log_hash: None,
            machine: format!(
                "real: two processes over loopback, {} cores",
                std::thread::available_parallelism().map_or(1, usize::from)
            ),
        };
        Ok(self.result(&load, figures))
    }

    fn result(&self, load: &Load, figures: Figures) -> RdmaResult {
        let Figures { messages, measured, rounds, limit, lower_limit, jain_index, latencies, .. } = figures;
        let messages_per_s = median(rounds.iter().map(|round| round.messages_per_s));
        let goodput_bits_per_s = messages_per_s * f64::from(load.size) * 8.0;
        let fraction_of_limit = if load.packets() > 1 {
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
            tx_depth: load.depth,
            goodput_bits_per_s,
            messages_per_s,
            fraction_of_limit,
            limit,
            lower_limit,
            throughput_ops_per_s: messages_per_s,
            p50_ns: summary.p50_ns,
            p99_ns: summary.p99_ns,
            p999_ns: summary.p999_ns,
            latency: summary,
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
        }
    }

    /// The command that repeats the run. A fault plan is a file that only the user can name.
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
        if self.faults.is_some() {
            command += " --faults <the same plan>";
        }
        command + &format!(" --seed {}", self.seed)
    }
}

/// What the worlds have measured.
struct Figures {
    messages: u64,
    measured: Duration,
    rounds: Vec<Round>,
    limit: Limit,
    lower_limit: Option<Limit>,
    jain_index: f64,
    latencies: Latencies,
    verification: Verification,
    log_hash: Option<String>,
    machine: String,
}

fn rate(messages: u64, time: Duration) -> f64 {
    messages as f64 / time.as_secs_f64().max(1e-12)
}

/// The one in the middle; of an even number, the upper.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[cfg(test)]
mod tests;
