//! Traffic at the server's port, divided into intervals.

use serde::{Deserialize, Serialize};
use weft_sim::{Direction, DropCause, Event, LinkCounters, MachineId, Tap};
use weft_time::{Duration, Instant};
use weft_wire::roce::Opcode;

use super::census::{OPCODE_AT, on_wire};

/// Offset, in a frame, of the last byte of the sender's IPv4 address. This byte is the machine's number, from
/// 1 on.
const SENDER_AT: usize = 29;

/// Measurements of one interval of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// For each client, the number of bytes on the wire in requests that the server received from it.
    pub received_bytes: Vec<u64>,
    /// For each client, the number of messages that it had completed at the end of the interval.
    pub completed: Vec<u64>,
    /// The largest length of the switch's queue to the server, in bytes on the wire.
    pub queue_bytes_max: u64,
    /// Number of frames that were dropped because the queue was full.
    pub drops: u64,
}

/// Observes an incast run.
#[derive(Debug)]
pub(crate) struct IncastMonitor {
    clients: usize,
    interval: Duration,
    pub(super) intervals: Vec<Interval>,
    /// Number of messages that each client has completed so far.
    completed: Vec<u64>,
    pub(super) port: LinkCounters,
    /// Number of congestion notifications that the server has sent.
    pub(super) notifications: u64,
    /// Number of times that a client started again from an earlier packet.
    pub(super) retransmissions: u64,
    /// Time at which the last frame was dropped.
    pub(super) last_drop: Option<Instant>,
}

impl IncastMonitor {
    pub(super) fn new(clients: usize, interval: Duration) -> Self {
        Self {
            clients,
            interval,
            intervals: Vec::new(),
            completed: vec![0; clients],
            port: LinkCounters::default(),
            notifications: 0,
            retransmissions: 0,
            last_drop: None,
        }
    }

    fn at(&mut self, at: Instant) -> &mut Interval {
        let index = (at.as_ps() / self.interval.as_ps()) as usize;
        while self.intervals.len() <= index {
            let received_bytes = vec![0; self.clients];
            let completed = self.completed.clone();
            self.intervals.push(Interval { received_bytes, completed, ..Interval::default() });
        }
        &mut self.intervals[index]
    }

    /// Records that client `number` has completed this many messages in total.
    pub(crate) fn completed(&mut self, now: Instant, number: usize, completed: u64) {
        if self.completed[number] != completed {
            self.completed[number] = completed;
            self.at(now).completed[number] = completed;
        }
    }

    /// Called at the end of the run: takes over the counters of the port and of each machine's NIC, the
    /// server's last.
    pub(crate) fn finish(
        &mut self,
        port: LinkCounters,
        nics: impl Iterator<Item = Vec<(&'static str, u64)>>,
    ) {
        self.port = port;
        for counters in nics {
            let count = |wanted: &str| -> u64 {
                counters.iter().filter(|(name, _)| *name == wanted).map(|(_, count)| count).sum()
            };
            self.notifications += count("np_cnp_sent");
            self.retransmissions += count("completer_retry_err");
        }
    }
}

impl Tap for IncastMonitor {
    fn frame(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: &[u8]) {
        if machine.index() != self.clients || direction == Direction::Out {
            return;
        }
        let opcode = frame.get(OPCODE_AT).and_then(|&opcode| Opcode::from_u8(opcode));
        let sender = frame.get(SENDER_AT).map_or(0, |&last| usize::from(last));
        if opcode.is_some_and(Opcode::is_request) && (1..=self.clients).contains(&sender) {
            self.at(at).received_bytes[sender - 1] += on_wire(frame);
        }
    }

    fn queue(&mut self, at: Instant, machine: MachineId, bytes: u64) {
        if machine.index() == self.clients {
            let interval = self.at(at);
            interval.queue_bytes_max = interval.queue_bytes_max.max(bytes);
        }
    }

    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Dropped(machine, DropCause::QueueFull) = event
            && machine.index() == self.clients
        {
            self.at(at).drops += 1;
            self.last_drop = Some(at);
        }
    }
}
