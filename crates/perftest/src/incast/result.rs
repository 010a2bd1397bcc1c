//! Result of an incast benchmark, as a file and as text for people.

use serde::{Deserialize, Serialize};
use weft_results::table::{Column, Table, grouped};

use super::{Congestion, DataChecked};
use crate::watch::Interval;

/// One run. Counters are those of the server's port and of all machines. "Steady" means: in the second half
/// of the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastRun {
    /// The kind of congestion control.
    pub congestion: Congestion,
    /// Payload of completed messages of all clients together, steady.
    pub goodput_bits_per_s: f64,
    /// Goodput of the slowest client, steady.
    pub slowest_bits_per_s: f64,
    /// Goodput of the fastest client, steady.
    pub fastest_bits_per_s: f64,
    /// Jain's fairness index over the clients, steady.
    pub jain_index: f64,
    /// Number of frames that were dropped because the queue was full.
    pub drops: u64,
    /// Number of frames that were dropped in the second half.
    pub drops_steady: u64,
    /// Time at which the last frame was dropped.
    pub last_drop_ns: Option<u64>,
    /// Number of packets that the switch marked.
    pub marked: u64,
    /// Number of congestion notifications sent.
    pub notifications: u64,
    /// Number of times that a client started again from an earlier packet.
    pub retransmissions: u64,
    /// The largest length of the queue, in bytes on the wire.
    pub queue_bytes_max: u64,
    /// The largest length of the queue in the second half.
    pub queue_bytes_max_steady: u64,
    /// Whether the data that arrived are the data that were sent.
    pub checked: DataChecked,
    /// The hash of the event log.
    pub log_hash: String,
    /// The results of each interval.
    pub intervals: Vec<Interval>,
}

/// Result of the benchmark of many clients of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastResult {
    pub(super) format: String,
    /// Name of the NIC.
    pub nic: String,
    /// Number of clients.
    pub clients: u32,
    /// Number of queue pairs of each client.
    pub qps: u32,
    /// Number of bytes of a message.
    pub size_bytes: u32,
    /// Path MTU.
    pub mtu_bytes: u32,
    /// Time for which the clients post messages.
    pub duration_ns: u64,
    /// The length of an interval.
    pub interval_ns: u64,
    /// Limit of the switch's queue.
    pub queue_limit_bytes: u64,
    /// Queue length from which on the switch marks packets.
    pub mark_from_bytes: u64,
    /// Queue length from which on the switch marks all packets.
    pub mark_all_from_bytes: u64,
    /// The marking probability just below [`IncastResult::mark_all_from_bytes`].
    pub mark_probability_max: f64,
    /// The runs, one for each kind of congestion control.
    pub runs: Vec<IncastRun>,
    /// Seed of the runs.
    pub seed: u64,
    /// The command that repeats the runs.
    pub replay: String,
}

impl IncastResult {
    /// Whether all data arrived as they were sent.
    pub fn is_right(&self) -> bool {
        self.runs.iter().all(|run| run.checked == DataChecked::Verified)
    }

    /// A table with one row for each run.
    pub fn to_text(&self) -> String {
        let mut table = Table::new([
            Column::words("congestion"),
            Column::numbers("goodput", "Gb/s"),
            Column::numbers("slowest", "Gb/s"),
            Column::numbers("fastest", "Gb/s"),
            Column::numbers("Jain", ""),
            Column::numbers("drops", "frames"),
            Column::numbers("steady", "frames"),
            Column::numbers("last", "us"),
            Column::numbers("marked", "packets"),
            Column::numbers("CNPs", ""),
            Column::numbers("go back", "times"),
            Column::numbers("queue", "KiB"),
            Column::numbers("steady", "KiB"),
            Column::words("data"),
        ]);
        let gigabits = |rate: f64| format!("{:.2}", rate / 1e9);
        for run in &self.runs {
            table.row([
                run.congestion.to_string(),
                gigabits(run.goodput_bits_per_s),
                gigabits(run.slowest_bits_per_s),
                gigabits(run.fastest_bits_per_s),
                format!("{:.4}", run.jain_index),
                grouped(run.drops),
                grouped(run.drops_steady),
                run.last_drop_ns.map_or("-".into(), |ns| grouped(ns / 1_000)),
                grouped(run.marked),
                grouped(run.notifications),
                grouped(run.retransmissions),
                grouped(run.queue_bytes_max >> 10),
                grouped(run.queue_bytes_max_steady >> 10),
                if run.checked == DataChecked::Verified { "verified".into() } else { "CORRUPT".to_owned() },
            ]);
        }
        format!(
            "{} clients of one server, NIC {}, {} queue pairs each, WRITEs of {} bytes, {:.1} ms\n{table}\
             goodput, shares and `steady` are of the second half; the queue holds {} KiB, marks from {} KiB on and all from {} KiB on\n",
            self.clients,
            self.nic,
            self.qps,
            self.size_bytes,
            self.duration_ns as f64 / 1e6,
            self.queue_limit_bytes >> 10,
            self.mark_from_bytes >> 10,
            self.mark_all_from_bytes >> 10,
        )
    }
}
