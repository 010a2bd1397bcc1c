//! The stream of an epoch's leader to its members: entries by number, each sent until it is accepted.

use weft_time::{Duration, Instant};
use weft_waist::{Effects, Epoch, NODES_MAX, NodeId, NodeSet};

use crate::message::{ENTRY, Entry};
use crate::table::{Row, Table};

/// The engine's only timer, for retransmission.
pub(crate) const RESEND: u32 = 0;

/// The retransmission interval doubles each time, up to two to this power.
const DOUBLINGS_MAX: u32 = 4;

/// Progress of a member.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// All entries up to this one were sent.
    sent: u64,
    /// All entries up to this one were accepted.
    accepted: u64,
    /// Time at which an entry was last sent or accepted.
    since: Instant,
    /// Number of retransmissions of the same entry.
    attempts: u32,
}

/// The entries of an epoch: first the table at its beginning, then its changes.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    window: u64,
    retransmit: Duration,
    epoch: Epoch,
    /// The rows in use at the beginning, whose entries come first. The table does not change until all of
    /// them are accepted.
    snapshot: Vec<u32>,
    /// The latest changes, by number modulo the window.
    recent: Vec<(u32, Option<Row>)>,
    last: u64,
    members: NodeSet,
    progress: [Progress; NODES_MAX],
    is_timer_set: bool,
    /// Number of retransmitted entries.
    pub resent: u64,
}

impl Stream {
    pub fn new(window: usize, retransmit: Duration, locks: usize) -> Self {
        Self {
            window: window as u64,
            retransmit,
            epoch: Epoch(0),
            snapshot: Vec::with_capacity(locks.max(1)),
            recent: vec![(0, None); window],
            last: 0,
            members: NodeSet::EMPTY,
            progress: [Progress::default(); NODES_MAX],
            is_timer_set: false,
            resent: 0,
        }
    }

    /// Begins an epoch with this table, whose changes these members must accept.
    pub fn begin(&mut self, now: Instant, epoch: Epoch, members: NodeSet, table: &Table) {
        (self.epoch, self.members) = (epoch, members);
        self.progress = [Progress { since: now, ..Progress::default() }; NODES_MAX];
        self.snapshot.clear();
        self.snapshot.extend_from_slice(table.used());
        if self.snapshot.is_empty() {
            // If no row is in use, an empty row is sent, so that the members enter the epoch.
            self.snapshot.push(0);
        }
        self.last = self.snapshot.len() as u64;
    }

    /// Another node leads, so sending stops.
    pub fn stop(&mut self) {
        self.members = NodeSet::EMPTY;
    }

    /// The number of the last entry.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The number of the last entry that every member has accepted.
    pub fn committed(&self) -> u64 {
        let accepted = self.members.iter().map(|member| self.progress[member.index()].accepted);
        accepted.min().unwrap_or(self.last)
    }

    /// The last entry that a member has accepted, if it lacks later entries.
    pub fn lacks(&self, member: NodeId) -> Option<u64> {
        let accepted = self.progress[member.index()].accepted;
        (self.members.contains(member) && accepted < self.last).then_some(accepted)
    }

    /// Whether all members have the table at the beginning of the epoch.
    pub fn is_entered(&self) -> bool {
        self.committed() >= self.snapshot.len() as u64
    }

    /// Whether another entry can be appended.
    pub fn has_room(&self) -> bool {
        self.last - self.committed() < self.window
    }

    /// Appends a change of a row, and returns the number of the entry.
    pub fn append(&mut self, row: u32, holds: Option<Row>) -> u64 {
        self.last += 1;
        self.recent[(self.last % self.window) as usize] = (row, holds);
        self.last
    }

    fn entry(&self, number: u64, table: &Table) -> Entry {
        let (row, holds) = match self.snapshot.get(number as usize - 1) {
            Some(row) => (*row, table.row(*row).copied()),
            None => self.recent[(number % self.window) as usize],
        };
        Entry { epoch: self.epoch, snapshot: self.snapshot.len() as u32, number, row, holds }
    }

    /// Sends each member the entries that it lacks, within the window.
    pub fn send(&mut self, now: Instant, table: &Table, effects: &mut Effects) {
        let (members, last, window) = (self.members, self.last, self.window);
        let wants = |progress: &Progress, number: u64| {
            progress.sent + 1 == number && number <= last.min(progress.accepted + window)
        };
        for member in members.iter() {
            loop {
                let number = self.progress[member.index()].sent + 1;
                if !wants(&self.progress[member.index()], number) {
                    break;
                }
                let to: NodeSet =
                    members.iter().filter(|member| wants(&self.progress[member.index()], number)).collect();
                effects.send(to, ENTRY, &[&self.entry(number, table).encode()]);
                for member in to.iter() {
                    let progress = &mut self.progress[member.index()];
                    if progress.sent == progress.accepted {
                        progress.since = now;
                    }
                    progress.sent = number;
                }
            }
        }
        if !self.is_timer_set && self.committed() < last {
            self.is_timer_set = true;
            effects.set_timer(RESEND, now + self.retransmit);
        }
    }

    /// A member has accepted all entries up to this number. Returns false if it was not sent that many.
    pub fn accepted(&mut self, now: Instant, from: NodeId, epoch: Epoch, number: u64) -> bool {
        let progress = &mut self.progress[from.index()];
        if epoch != self.epoch || !self.members.contains(from) || number > self.last {
            return false;
        }
        if number > progress.accepted {
            // After a retransmission a member may have accepted more than was sent since.
            progress.sent = progress.sent.max(number);
            (progress.accepted, progress.since, progress.attempts) = (number, now, 0);
        }
        true
    }

    /// The timer has fired: retransmits entries that were not accepted in time.
    pub fn resend(&mut self, now: Instant, table: &Table, effects: &mut Effects) {
        self.is_timer_set = false;
        for member in self.members.iter() {
            let progress = &mut self.progress[member.index()];
            let wait = self.retransmit * (1 << progress.attempts.min(DOUBLINGS_MAX));
            if progress.accepted < progress.sent && now.saturating_since(progress.since) >= wait {
                self.resent += progress.sent - progress.accepted;
                progress.attempts += 1;
                (progress.sent, progress.since) = (progress.accepted, now);
            }
        }
        self.send(now, table, effects);
    }
}
