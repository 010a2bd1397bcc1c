//! Streams: how a leader's writes reach the other nodes, in order.

use weft_time::Instant;
use weft_waist::{Effects, Epoch, Io, NodeId, NodeSet};

use super::{Kv, Role, TIMER_LEAD, answer, arm, entry_of, version};
use crate::message::{Acknowledge, Commit, Kind, Status, Write};
use crate::parameters::PlantedBug;

impl Kv {
    /// Applies a stream up to entry `to`, which must be accepted, to the table and the sessions, and answers the
    /// clients.
    pub(super) fn commit_to(&mut self, now: Instant, stream: usize, to: u64, io: &mut Io<'_>) {
        let serves = self.may_serve(now);
        while self.windows[stream].committed() < to {
            let number = self.windows[stream].committed() + 1;
            let (&entry, key, value) = self.windows[stream].get(number);
            if entry.changes() {
                self.counters.entries_applied += 1;
                let deletes = entry.operation.removes();
                let slot = match entry.slot {
                    None if self.parameters.is_durable()
                        && self.holds_later(io.memory, key, entry.version) =>
                    {
                        None
                    }
                    Some(slot) => Some(slot),
                    // A joining node claims no slot when it accepts a write.
                    None if deletes => {
                        let found = self.table.find(io.memory, self.table.place(key), key);
                        found.inspect(|&(slot, _)| self.table.note_latest(io.memory, slot, entry.version));
                        found.map(|(slot, _)| slot)
                    }
                    None => self.table.claim(io.memory, self.table.place(key), key, entry.version),
                };
                if let Some(slot) = slot {
                    let place = (&self.table, &mut *io.memory);
                    let is_kept = self.backup.keep(place, (slot, entry.version), &self.parameters);
                    self.counters.backup_records_kept += u64::from(is_kept);
                }
                match slot {
                    Some(slot) if deletes => self.table.commit_delete(io.memory, slot, entry.version),
                    Some(slot) => self.table.commit_value(io.memory, slot, entry.version, key, value),
                    None => {}
                }
            }
            self.sessions.record(now, entry.client, entry.request, entry.status, entry.version);
            if let Some(caller) = entry.caller {
                let identity = (entry.client, entry.request);
                answer(self.view, io.effects, caller, identity, entry.status, entry.version, &[]);
            }
            let mut waiting = entry.waiting;
            while let Some(read) = self.waiting.take(&mut waiting) {
                self.counters.reads += 1;
                self.counters.reads_waited += 1;
                let (status, version, value) = match entry.operation {
                    _ if !serves => (Status::NotServing, 0, &[][..]),
                    operation if operation.removes() => (Status::NotFound, 0, &[][..]),
                    _ => (Status::Ok, entry.version, value),
                };
                answer(
                    self.view,
                    io.effects,
                    read.caller,
                    (read.client, read.request),
                    status,
                    version,
                    value,
                );
            }
            self.windows[stream].commit_next();
        }
    }

    pub(super) fn is_other_epoch(&mut self, epoch: Epoch) -> bool {
        if epoch < self.view.epoch {
            self.counters.dropped_old_epoch += 1;
        } else if epoch > self.view.epoch {
            self.counters.dropped_future_epoch += 1;
        }
        epoch != self.view.epoch
    }

    /// As [`Kv::is_other_epoch`], for messages of streams: a planted bug can disable it.
    pub(super) fn is_other_stream(&mut self, epoch: Epoch) -> bool {
        self.is_other_epoch(epoch) && !self.parameters.planted(PlantedBug::EpochNotChecked)
    }

    /// Whether this node follows the stream of `from`.
    pub(super) fn follows(&mut self, from: NodeId) -> bool {
        let follows = matches!(self.role, Role::Full | Role::Joining) && self.view.full.contains(from);
        self.counters.dropped_wrong_role += u64::from(!follows || from == self.node);
        follows && from != self.node
    }

    pub(super) fn replicated(&mut self, now: Instant, from: NodeId, write: &Write<'_>, io: &mut Io<'_>) {
        if self.is_other_stream(write.epoch) || !self.follows(from) {
            return;
        }
        let stream = from.index();
        self.committed(now, stream, write.committed, io);
        let accepted = self.windows[stream].accepted();
        self.acknowledge_due = self.acknowledge_due.with(from);
        if write.number <= accepted {
            self.counters.writes_repeated += 1;
            return;
        }
        if write.number > accepted + 1 {
            self.counters.gaps += 1;
            self.following[stream].gap = true;
            return;
        }
        if self.lags(stream) {
            self.following[stream].gap = true;
            return;
        }
        let place = self.table.place(write.key);
        let is_its_own = usize::from(self.leaders[place.partition() as usize]) == stream;
        let numbered = write.status != Status::Ok || write.version == version(write.epoch, write.number);
        let fits = write.value.len() <= self.parameters.value_bytes_max && !self.windows[stream].is_full();
        if !is_its_own || !numbered || !fits {
            self.counters.dropped_contradiction += 1;
            return;
        }
        let mut slot = None;
        if self.role == Role::Full && write.status == Status::Ok {
            slot = self.table.claim(io.memory, place, write.key, write.version);
            if slot.is_none() {
                // The leader found room, and the same keys are here: only a malformed write gets here.
                self.counters.dropped_contradiction += 1;
                return;
            }
        }
        let following = &mut self.following[stream];
        if self.windows[stream].is_empty() {
            following.pace.progress(now);
        }
        self.counters.writes_followed += 1;
        self.windows[stream].push(entry_of(write, slot, None), write.key, write.value);
        arm(&mut following.pace, stream as u32, io.effects);
        self.log_entry(stream, write, io.effects);
    }

    /// Handles a leader's report of how much of its stream is committed.
    pub(super) fn committed(&mut self, now: Instant, stream: usize, committed: u64, io: &mut Io<'_>) {
        // This node has accepted every committed entry, so an honest leader never reports more than it has
        // accepted. Messages may arrive out of order, but before the leader sent this report, it had this node's
        // acknowledgement.
        let committed = committed.min(self.windows[stream].accepted());
        if committed > self.windows[stream].committed() {
            self.commit_to(now, stream, committed, io);
            self.following[stream].pace.progress(now);
            if !self.windows[stream].is_empty() {
                arm(&mut self.following[stream].pace, stream as u32, io.effects);
            }
        }
    }

    pub(super) fn acknowledge(&mut self, to: NodeId, asks: bool, effects: &mut Effects) {
        let stream = to.index();
        let gap = std::mem::take(&mut self.following[stream].gap);
        let accepted = self.acknowledged_length(stream);
        let message = Acknowledge {
            epoch: self.view.epoch,
            accepted,
            committed: self.windows[stream].committed(),
            durable: self.parameters.is_durable().then(|| self.durable(stream).min(accepted)),
            gap,
            asks,
        };
        let mut bytes = [0; Acknowledge::BYTES_MAX];
        let length = message.encode(&mut bytes);
        effects.send(NodeSet::EMPTY.with(to), Kind::Acknowledge as u8, &[&bytes[..length]]);
    }

    pub(super) fn acknowledged(&mut self, now: Instant, from: NodeId, message: Acknowledge, io: &mut Io<'_>) {
        if self.is_other_stream(message.epoch) {
            return;
        }
        if self.role != Role::Full || !self.leading.followers().contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        let own = self.node.index();
        let accepted = self.windows[own].accepted();
        if message.accepted > accepted {
            self.counters.dropped_contradiction += 1;
            return;
        }
        self.leading.note_durable(from, message.durable.unwrap_or(0));
        let again = self.leading.acknowledge(from, message.accepted, message.gap, accepted);
        self.commit_what_all_have(now, io);
        if let Some(numbers) = again {
            self.send_again(from, numbers, io.effects);
        }
        let committed = self.windows[own].committed();
        if message.asks && message.committed < committed {
            let commit = Commit { epoch: self.base, committed };
            io.effects.send(NodeSet::EMPTY.with(from), Kind::Commit as u8, &[&commit.encode()]);
        }
    }

    /// Commits as much of the node's own stream as all members have accepted and, unless writes are answered before
    /// that, enough full members have on disk.
    pub(super) fn commit_what_all_have(&mut self, now: Instant, io: &mut Io<'_>) {
        let own = self.node.index();
        let mut shortest = self.leading.shortest(self.acknowledged_length(own));
        if self.parameters.is_durable() {
            let copies = self.parameters.durable_copies;
            let on_disk = self.leading.durable_at(copies, self.view.full, self.durable(own));
            if self.parameters.waits_for_disks() {
                shortest = shortest.min(on_disk);
            } else if self.leading.enough_have(on_disk) {
                self.leading.pace.progress(now);
            }
        }
        if shortest > self.windows[own].committed() {
            self.commit_to(now, own, shortest, io);
            self.leading.pace.progress(now);
            if !self.windows[own].is_empty() {
                arm(&mut self.leading.pace, TIMER_LEAD, io.effects);
            }
        }
    }

    pub(super) fn send_again(
        &mut self,
        to: NodeId,
        numbers: std::ops::RangeInclusive<u64>,
        effects: &mut Effects,
    ) {
        let window = &self.windows[self.node.index()];
        for number in (*numbers.start()).max(window.committed() + 1)..=*numbers.end() {
            let write = self.write_of(self.node.index(), number, window.get(number));
            let parts = [&write.header()[..], write.key, write.value];
            effects.send(NodeSet::EMPTY.with(to), Kind::Write as u8, &parts);
            self.counters.writes_resent += 1;
        }
    }

    /// Repeats the writes that followers have not acknowledged. Once they have acknowledged all, repeats the first
    /// one that a follower is not known to have on disk: it answers how far it has the stream there, and its earlier
    /// answer may be lost.
    pub(super) fn repeat_writes(&mut self, effects: &mut Effects) {
        let own = self.node.index();
        let accepted = self.windows[own].accepted();
        for follower in self.leading.followers().iter() {
            if let Some(numbers) = self.leading.resend(follower, accepted) {
                self.send_again(follower, numbers, effects);
            } else if let Some(number) = self.leading.not_on_disk(follower)
                && let Some(kept) = self.windows[own].kept(number)
            {
                let write = self.write_of(own, number, kept);
                let parts = [&write.header()[..], write.key, write.value];
                effects.send(NodeSet::EMPTY.with(follower), Kind::Write as u8, &parts);
                self.counters.writes_resent += 1;
            }
        }
    }
}
