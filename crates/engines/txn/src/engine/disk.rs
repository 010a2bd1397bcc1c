//! The host's log on disk: what the engine tells its host to write, and what waits until that is written; and how
//! an engine is restored from the log.
//!
//! **Why a restart of all nodes loses nothing that was reported.** A replica answers LOG when its disk has the
//! record, so a record of every reported outcome is on the disks of all replicas. After a restart a view change
//! decides the attempts as after any crash, by what the members hold. For that, the disk also has what a member
//! must not forget:
//!
//! - An attempt that this node has withdrawn: it could be decided to take effect although its transaction was
//!   tried again. So WITHDRAW is answered when the disk has it.
//! - The records that it reports in a view change: the marks of others rest on them, and a later view change follows
//!   these marks. So a node reports when its disk has all its records.
//! - The verdicts of a view change: another member may have acted on them. So a node announces that it has
//!   settled when its disk has the verdicts.
//! - The view in which the node serves: a view change counts the records of attempts of the newest such view. It comes
//!   before all records of the view, so nothing waits for it. The node does not begin a view twice, because it waits
//!   for a newer one than it can have heard of.
//! - Attempts whose records are no longer in the log, because a snapshot of the table replaces them: the snapshot
//!   begins with a report of them, as a view change needs it.
//!
//! A decision need not be on disk when a node acts on it: it follows from the records of all replicas. If another
//! member reports an attempt as decided, then this node's record of it takes effect.

use std::collections::VecDeque;
use std::mem::take;

use weft_waist::{Effects, EngineState, Epoch, Io, View};

use crate::engine::Transactions;
use crate::engine::recovery::Phase;
use crate::host_port::{HostKind, LOG_CALLER};
use crate::journal::{self, Entry, State};
use crate::log;
use crate::message::{Base, Kind, Malformed, RecordPart, Verdict, write_id};
use crate::parameters::PlantedBug;
use crate::transaction::TransactionId;

/// What the engine does once its host's disk has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// All records up to this position.
    Records(u64),
    /// The withdrawal of an attempt.
    Withdrawal(TransactionId),
    /// The verdicts of the view change to this epoch.
    Verdicts(Epoch),
    /// The beginning of an epoch, for which nothing waits.
    Opening,
}

/// Messages to the host's log.
#[derive(Debug, Default)]
pub(crate) struct DiskLog {
    /// Number of messages sent.
    sent: u64,
    /// What is not on disk yet, each with the number of messages up to its own.
    waiting: VecDeque<(u64, Awaited)>,
}

impl DiskLog {
    fn send(&mut self, effects: &mut Effects, kind: HostKind, payload: &[u8], awaited: Awaited) {
        effects.reply(LOG_CALLER, kind as u8, &[payload]);
        self.sent += 1;
        self.waiting.push_back((self.sent, awaited));
    }

    /// Takes what waits next, if the disk has it with the first `count` messages.
    fn next_up_to(&mut self, count: u64) -> Option<Awaited> {
        self.waiting.front().filter(|(number, _)| *number <= count)?;
        self.waiting.pop_front().map(|(_, awaited)| awaited)
    }

    fn awaits(&self, awaited: Awaited) -> bool {
        self.waiting.iter().any(|(_, waiting)| *waiting == awaited)
    }
}

impl Transactions {
    /// Tells the host which records it has in its memory, so that it writes them to its disk.
    pub(crate) fn write_records(&mut self, io: &mut Io<'_>) {
        if !self.parameters.has_disk {
            return;
        }
        if let Some(upto) = self.log.newly_stored() {
            let awaited = Awaited::Records(upto);
            self.disk.send(io.effects, HostKind::Stored, &upto.to_be_bytes(), awaited);
            if self.bug(PlantedBug::LoggedBeforeFlush) {
                self.records_on_disk(upto, io);
            }
        }
    }

    /// Writes the withdrawal of an attempt whose records this node had. Returns whether the disk has it.
    pub(crate) fn write_withdrawal(&mut self, id: TransactionId, had_records: bool, io: &mut Io<'_>) -> bool {
        let awaited = Awaited::Withdrawal(id);
        if self.parameters.has_disk && had_records {
            self.disk.send(io.effects, HostKind::Entry, &journal::dropped(id), awaited);
        }
        !self.disk.awaits(awaited) || self.bug(PlantedBug::WithdrawnBeforeFlush)
    }

    /// Writes the marks of a view change. The disk has all records that they are about.
    pub(crate) fn write_verdicts(&mut self, io: &mut Io<'_>) {
        let awaited = Awaited::Verdicts(self.view.epoch);
        let mut entry = take(&mut self.scratch);
        entry.clear();
        let marked = self.participants.held().map(|(slot, id)| (id, slot.verdict));
        journal::verdicts(&mut entry, marked.filter(|(_, verdict)| *verdict != Verdict::Undecided));
        self.disk.send(io.effects, HostKind::Entry, &entry, awaited);
        self.scratch = entry;
        if self.bug(PlantedBug::SettledBeforeFlush) {
            self.settle(io);
        }
    }

    /// Writes that this node begins to serve in a view. A record of this view that is on disk is behind that.
    pub(crate) fn write_opening(&mut self, io: &mut Io<'_>) {
        if self.parameters.has_disk {
            let mut entry = Vec::new();
            journal::opening(&mut entry, &self.recovery.base);
            self.disk.send(io.effects, HostKind::Entry, &entry, Awaited::Opening);
        }
    }

    /// The disk has what the first `count` messages said.
    pub(crate) fn on_disk(&mut self, count: u64, io: &mut Io<'_>) {
        while let Some(awaited) = self.disk.next_up_to(count) {
            match awaited {
                Awaited::Records(upto) => self.records_on_disk(upto, io),
                Awaited::Withdrawal(id) if id.epoch() == self.view.epoch => self.answer_withdraw(id, io),
                Awaited::Verdicts(epoch)
                    if epoch == self.view.epoch && self.recovery.phase == Phase::Marked =>
                {
                    self.settle(io);
                }
                Awaited::Withdrawal(_) | Awaited::Verdicts(_) | Awaited::Opening => {}
            }
        }
    }

    fn records_on_disk(&mut self, upto: u64, io: &mut Io<'_>) {
        let mut places = take(&mut self.places);
        self.log.note_on_disk(upto, |place| places.push(place));
        for place in places.drain(..) {
            self.answer_if_open(&place, io);
        }
        self.places = places;
        self.report_if_on_disk(io);
    }

    /// Answers LOG if the attempt still waits for it.
    pub(crate) fn answer_if_open(&mut self, place: &RecordPart, io: &mut Io<'_>) {
        if self.participants.open(place.id).is_some_and(|slot| !slot.withdrawn) {
            self.acknowledge_record(place, io);
        }
    }

    pub(crate) fn answer_withdraw(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let mut out = self.message();
        write_id(&mut out, id);
        self.post_to(io.effects, id.coordinator(), Kind::Withdrawn, out);
    }

    // Snapshots.

    /// Tells the host what a snapshot begins with; nothing if a snapshot is not possible now, because a view change
    /// is in progress, or a copy of the shards.
    pub(crate) fn send_state(&mut self, io: &mut Io<'_>) {
        let mut entry = take(&mut self.scratch);
        entry.clear();
        let base = match self.recovery.phase {
            Phase::Acting => Some(self.recovery.base),
            Phase::Joining => self.is_copied().then(|| self.present_base()),
            _ => None,
        };
        if let Some(base) = base {
            let is_forgotten = self.bug(PlantedBug::SnapshotWithoutAttempts);
            let (mut decided, mut attempts) = (self.participants.watermarks(), self.held_attempts());
            if is_forgotten {
                decided.fill(0);
                attempts.by_ref().for_each(drop);
            }
            journal::state(&mut entry, &base, &decided, attempts);
        }
        io.effects.reply(LOG_CALLER, HostKind::State as u8, &[&entry]);
        self.scratch = entry;
    }

    // Restart.

    /// Restores what an entry of the host's log says: first the state, then the records that the host has not
    /// applied, which it has put into its ring already.
    pub(crate) fn restore(&mut self, entry: &Entry<'_>, io: &mut Io<'_>) -> Result<(), Malformed> {
        match entry {
            Entry::State(state) => self.restore_state(state),
            Entry::Record { record, .. } => {
                let content = log::parse(record)?.content.ok_or(Malformed::Field("verdict"))?;
                let place = content.place;
                let position = self.log.restore(io.memory, record, place);
                if !self.participants.restore_part(place, position) {
                    // A later attempt has its place, so this one is decided, and its record is here.
                    self.log.decide(io.memory, position, true);
                }
                Ok(())
            }
            _ => Err(Malformed::Kind),
        }
    }

    fn restore_state(&mut self, state: &State<'_>) -> Result<(), Malformed> {
        let Base { epoch, full, joining } = state.base;
        self.view = View { epoch, full, joining };
        self.recovery.base = state.base;
        self.place_shards();
        self.participants.restore(&state.decided, state.held())
    }

    /// The log is restored. The node takes part in a view change after the one that it hears of first.
    pub(crate) fn on_restored(&mut self) {
        self.state = EngineState::Restored;
        self.recovery.is_restored = true;
    }
}
