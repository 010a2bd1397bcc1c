//! Result of a benchmark, as a file and for people.

use serde::{Deserialize, Serialize};
use weft_gateware::latency::WriteLatencies;
use weft_harness::histogram::{Latencies, Summary};
use weft_harness::result::World;

use super::load::RdmaOperation;
use super::payload::Verification;
use crate::output::{Bandwidth, Parameters, bandwidth_test};

/// The limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// In `sim`, payload of messages; in `net`, UDP payload; in bits per second.
    pub goodput_bits_per_s: f64,
    /// Messages per second.
    pub messages_per_s: f64,
    /// Description of the limit.
    pub what: String,
}

/// One of several directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// The client.
    pub from: String,
    /// The server.
    pub to: String,
    /// Payload of messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// Messages per second.
    pub messages_per_s: f64,
    /// The share of [`RdmaResult::limit`].
    pub fraction_of_limit: f64,
    /// The share of [`RdmaResult::plain_limit`].
    pub fraction_of_plain_limit: f64,
    /// Jain's fairness index over its queue pairs.
    pub jain_index: f64,
}

/// Limit of go-back-N.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossBound {
    /// The probability that a packet does not arrive, over all links on its way.
    pub packet_loss: f64,
    /// Packets that may be on their way on one queue pair.
    pub window_packets: u32,
    /// From the first bit of a packet to the last of its acknowledgement: links and switch alone.
    pub round_trip_ns: u64,
    /// Payload of messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// Fraction of it that was reached.
    pub fraction_of_bound: f64,
    /// Packets sent for each that the messages have: 1 without retransmission.
    pub packets_sent_per_packet: f64,
    /// Computation of the limit.
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
    /// All compared bytes were right.
    #[serde(rename = "data verified")]
    Verified,
    /// Something was not.
    #[serde(rename = "data corrupt")]
    Corrupt,
}

/// Result of one benchmark. The order of the fields is the order in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RdmaResult {
    pub(super) format: String,
    /// The verb.
    pub op: RdmaOperation,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Number of queue pairs under load.
    pub busy_qps: u32,
    /// Path MTU.
    pub mtu_bytes: u32,
    /// Whether each message had a random size, up to `size_bytes`.
    pub random_sizes: bool,
    /// Work requests outstanding on each queue pair that worked.
    pub tx_depth: u32,
    /// Payload of messages, in bits per second; of several directions, that of the slowest.
    pub goodput_bits_per_s: f64,
    /// Messages per second; of several directions, that of the slowest.
    pub messages_per_s: f64,
    /// The share of the limit: of its goodput for messages of several packets, of its message rate for others. Of
    /// several directions, the smallest.
    pub fraction_of_limit: f64,
    /// The limit of one direction.
    pub limit: Limit,
    /// Of several directions: what one could carry if the others had no acknowledgements and requests on the same wire.
    pub plain_limit: Option<Limit>,
    /// The directions, if there are several.
    pub directions: Vec<DirectionResult>,
    /// Limit under random loss.
    pub loss_bound: Option<LossBound>,
    /// In `net`: what the other kind of plain sender reaches, which is less.
    pub lower_limit: Option<Limit>,
    /// Messages per second, by the name that all benches have.
    pub throughput_ops_per_s: f64,
    /// Of the gateware: cycles of a 64-byte WRITE between two NICs on a link of length zero, by the target it goes to.
    pub latency_cycles: Option<WriteLatencies>,
    /// Of the gateware: cycles that each NIC computed during the load.
    pub cycles_per_nic: Vec<u64>,
    /// Of the gateware: how many cycles of each NIC this machine computed in a second of wall-clock time during the
    /// load. No part of what a seed decides.
    pub simulated_cycles_per_s_per_nic: Option<f64>,
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
    /// Result of the comparison.
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
    /// The NIC.
    pub nic: String,
    /// Basis of the times.
    pub machine: String,
    /// Seed of the run.
    pub seed: u64,
    /// The command that repeats it.
    pub replay: String,
    /// Latencies, whole.
    #[serde(skip)]
    pub latencies: Latencies,
    /// A Perfetto trace, if it was asked for.
    #[serde(skip)]
    pub trace: Option<Vec<u8>>,
}

impl RdmaResult {
    /// All fields that do not depend on the simulating machine: two runs of a seed share them.
    pub fn without_wall_clock(self) -> Self {
        Self { simulated_cycles_per_s_per_nic: None, ..self }
    }

    /// Output of perftest's bandwidth test, with the limit and the check below it.
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
             {}\
             latency p50 {:.2} us, p99 {:.2} us, p99.9 {:.2} us; fairness {:.4}; {checked}\n{}",
            bandwidth_test(&parameters, &[line]),
            self.goodput_bits_per_s / 1e9,
            self.messages_per_s / 1e6,
            self.fraction_of_limit * 100.0,
            self.limit.goodput_bits_per_s / 1e9,
            self.limit.messages_per_s / 1e6,
            self.limit.what,
            self.details(),
            self.p50_ns as f64 / 1e3,
            self.p99_ns as f64 / 1e3,
            self.p999_ns as f64 / 1e3,
            self.jain_index,
            self.gateware(),
        )
    }

    /// Lines on directions and losses, where there are any.
    fn details(&self) -> String {
        let mut text = String::new();
        if let Some(limit) = &self.plain_limit {
            text += &format!(
                "plain   {:.2} Gb/s, {:.3} M messages/s: {}\n",
                limit.goodput_bits_per_s / 1e9,
                limit.messages_per_s / 1e6,
                limit.what
            );
        }
        for direction in &self.directions {
            text += &format!(
                "{} to {}: {:.2} Gb/s, {:.3} M messages/s: {:.1} % of the limit, {:.1} % of the plain one\n",
                direction.from,
                direction.to,
                direction.goodput_bits_per_s / 1e9,
                direction.messages_per_s / 1e6,
                direction.fraction_of_limit * 100.0,
                direction.fraction_of_plain_limit * 100.0
            );
        }
        if let Some(bound) = &self.loss_bound {
            text += &format!(
                "loss    {:.3} % of packets leave {:.2} Gb/s: {:.1} % of that reached, {:.3} packets sent for each ({})\n",
                bound.packet_loss * 100.0,
                bound.goodput_bits_per_s / 1e9,
                bound.fraction_of_bound * 100.0,
                bound.packets_sent_per_packet,
                bound.what
            );
        }
        text
    }

    /// Lines on the gateware, if it was measured.
    fn gateware(&self) -> String {
        let mut text = self.latency_cycles.as_ref().map_or(String::new(), WriteLatencies::to_text);
        if let (Some(rate), Some(cycles)) =
            (self.simulated_cycles_per_s_per_nic, self.cycles_per_nic.iter().max())
        {
            let nics = self.cycles_per_nic.len();
            text += &format!(
                "speed   {nics} NICs, {cycles} cycles each at most: {rate:.0} cycles/s each, {:.0} together (wall clock)\n",
                rate * nics as f64
            );
        }
        text
    }
}
