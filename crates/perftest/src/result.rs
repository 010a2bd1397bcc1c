//! Result of a benchmark, as a file and as text for people.

use serde::{Deserialize, Serialize};
use weft_gateware::latency::WriteLatencies;
use weft_results::World;
use weft_results::histogram::{Latencies, Summary};

use super::load::RdmaOperation;
use super::payload::Verification;
use crate::output::{Bandwidth, Parameters, bandwidth_test};

/// The limit that a result is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Payload in bits per second: in `sim`, of messages; in `net`, of UDP datagrams.
    pub goodput_bits_per_s: f64,
    /// Messages per second.
    pub messages_per_s: f64,
    /// Description of the limit.
    pub what: String,
}

/// Result for one of several directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionResult {
    /// Name of the client.
    pub from: String,
    /// Name of the server.
    pub to: String,
    /// Payload of messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// Messages per second.
    pub messages_per_s: f64,
    /// The fraction of [`RdmaResult::limit`] that was reached.
    pub fraction_of_limit: f64,
    /// The fraction of [`RdmaResult::plain_limit`] that was reached.
    pub fraction_of_plain_limit: f64,
    /// Jain's fairness index over the queue pairs of this direction.
    pub jain_index: f64,
}

/// The limit of go-back-N with random loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossBound {
    /// The probability that a packet is lost on its way, over all links.
    pub packet_loss: f64,
    /// Number of packets that may be in flight on one queue pair.
    pub window_packets: u32,
    /// Time from the first bit of a packet to the last bit of its acknowledgement, counting only links and
    /// switch.
    pub round_trip_ns: u64,
    /// Payload of messages, in bits per second.
    pub goodput_bits_per_s: f64,
    /// The fraction of this goodput that was reached.
    pub fraction_of_bound: f64,
    /// Number of packets sent, divided by the number of packets that the messages have: 1 without
    /// retransmission.
    pub packets_sent_per_packet: f64,
    /// Description of how the limit is computed.
    pub what: String,
}

/// One round, of RDMA and of plain UDP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Messages per second with RDMA.
    pub messages_per_s: f64,
    /// Messages per second that plain UDP would have reached, measured directly afterwards.
    pub limit_messages_per_s: f64,
}

/// Whether the data that arrived are the data that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataChecked {
    /// All compared bytes were correct.
    #[serde(rename = "data verified")]
    Verified,
    /// Some compared bytes were wrong.
    #[serde(rename = "data corrupt")]
    Corrupt,
}

/// Result of one benchmark. The fields have the same order as in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RdmaResult {
    pub(super) format: String,
    /// The verb under test.
    pub op: RdmaOperation,
    /// Number of bytes of a message.
    pub size_bytes: u32,
    /// Number of queue pairs.
    pub qps: u32,
    /// Number of queue pairs under load.
    pub busy_qps: u32,
    /// Path MTU.
    pub mtu_bytes: u32,
    /// Whether each message had a random size, at most `size_bytes`.
    pub random_sizes: bool,
    /// Number of work requests outstanding on each queue pair under load.
    pub tx_depth: u32,
    /// Payload of messages, in bits per second. With several directions, that of the slowest.
    pub goodput_bits_per_s: f64,
    /// Messages per second. With several directions, those of the slowest.
    pub messages_per_s: f64,
    /// The fraction of the limit that was reached: of its goodput for messages of several packets, of its
    /// message rate for other messages. With several directions, the smallest fraction.
    pub fraction_of_limit: f64,
    /// The limit for one direction.
    pub limit: Limit,
    /// With several directions: the limit for one direction if the others had no acknowledgements and
    /// requests on the same wire.
    pub plain_limit: Option<Limit>,
    /// The results of each direction, if there are several.
    pub directions: Vec<DirectionResult>,
    /// The limit with random loss.
    pub loss_bound: Option<LossBound>,
    /// In `net`: the result of the other kind of plain sender, which is lower.
    pub lower_limit: Option<Limit>,
    /// Messages per second, under the name that all benchmarks use.
    pub throughput_ops_per_s: f64,
    /// For the gateware: cycles of a 64-byte WRITE between two NICs on a link of length zero, for each target
    /// memory.
    pub latency_cycles: Option<WriteLatencies>,
    /// For the gateware: number of cycles that each NIC computed during the load.
    pub cycles_per_nic: Vec<u64>,
    /// For the gateware: how many cycles of each NIC this machine computed per second of wall-clock time
    /// during the load. The seed does not determine this value.
    pub simulated_cycles_per_s_per_nic: Option<f64>,
    /// Half of the single messages took at most this time from post to completion.
    pub p50_ns: u64,
    /// 99 % of the single messages took at most this time.
    pub p99_ns: u64,
    /// 99.9 % of the single messages took at most this time.
    pub p999_ns: u64,
    /// Statistics of the latencies of the single messages.
    pub latency: Summary,
    /// Whether the data that arrived are the data that were sent, each message once and in order.
    pub checked: DataChecked,
    /// Result of comparing the messages.
    pub verification: Verification,
    /// Jain's fairness index over the queue pairs under load: 1 if all had the same share.
    pub jain_index: f64,
    /// Number of messages of the load in all rounds together.
    pub messages: u64,
    /// Time of the load in all rounds together.
    pub measured_ns: u64,
    /// The rounds; only one in `sim`.
    pub rounds: Vec<Round>,
    /// In `sim`: the hash of the event log.
    pub log_hash: Option<String>,
    /// The world of the run.
    pub world: World,
    /// Name of the NIC.
    pub nic: String,
    /// What the times are based on.
    pub machine: String,
    /// Seed of the run.
    pub seed: u64,
    /// The command that repeats the run.
    pub replay: String,
    /// All measured latencies of the single messages.
    #[serde(skip)]
    pub latencies: Latencies,
    /// A Perfetto trace, if it was requested.
    #[serde(skip)]
    pub trace: Option<Vec<u8>>,
}

impl RdmaResult {
    /// The result without the fields that depend on the simulating machine. Two runs with the same seed have
    /// the same.
    pub fn without_wall_clock(self) -> Self {
        Self { simulated_cycles_per_s_per_nic: None, ..self }
    }

    /// The result in the format of perftest's bandwidth test, followed by the limit and the check.
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

    /// Lines about directions and losses, if there are any.
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

    /// Lines about the gateware, if it was measured.
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
