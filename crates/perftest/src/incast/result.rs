//! Result of an incast, as a file and for people.

use serde::{Deserialize, Serialize};
use weft_harness::table::{Column, Table, grouped};

use super::{Congestion, DataChecked};
use crate::watch::Interval;

/// One run. Counts are of the server's port and of all machines; "steady" is the second half of the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastRun {
    /// With what.
    pub congestion: Congestion,
    /// Payload of messages that completed, of all clients together, steady.
    pub goodput_bits_per_s: f64,
    /// Of the slowest client.
    pub slowest_bits_per_s: f64,
    /// Of the fastest client.
    pub fastest_bits_per_s: f64,
    /// Jain's fairness index over the clients, steady.
    pub jain_index: f64,
    /// Frames that found the queue full.
    pub drops: u64,
    /// Of these, in the second half.
    pub drops_steady: u64,
    /// When the last frame was dropped.
    pub last_drop_ns: Option<u64>,
    /// Packets that the switch marked.
    pub marked: u64,
    /// Congestion notifications sent.
    pub notifications: u64,
    /// Times that a client went back to an earlier packet.
    pub retransmissions: u64,
    /// The longest queue, in bytes on the wire.
    pub queue_bytes_max: u64,
    /// The longest in the second half.
    pub queue_bytes_max_steady: u64,
    /// Whether what arrived is what was sent.
    pub checked: DataChecked,
    /// The hash of the event log.
    pub log_hash: String,
    /// The run, interval by interval.
    pub intervals: Vec<Interval>,
}

/// Result of a benchmark of many clients of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncastResult {
    pub(super) format: String,
    /// The NIC.
    pub nic: String,
    /// Clients.
    pub clients: u32,
    /// Queue pairs of each.
    pub qps: u32,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Path MTU.
    pub mtu_bytes: u32,
    /// For how long clients post.
    pub duration_ns: u64,
    /// The length of an interval.
    pub interval_ns: u64,
    /// Limit of the switch's queue.
    pub queue_limit_bytes: u64,
    /// From where on the switch marks.
    pub mark_from_bytes: u64,
    /// From where on it marks all.
    pub mark_all_from_bytes: u64,
    /// The probability just below that.
    pub mark_probability_max: f64,
    /// One run for each kind of congestion control.
    pub runs: Vec<IncastRun>,
    /// Seed of the runs.
    pub seed: u64,
    /// The command that repeats them.
    pub replay: String,
}

impl IncastResult {
    /// Whether all data arrived as it was sent.
    pub fn is_right(&self) -> bool {
        self.runs.iter().all(|run| run.checked == DataChecked::Verified)
    }

    /// A table, a row for each run.
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
