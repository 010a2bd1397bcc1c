//! Backups: a client reads the whole table as it is at one instant, while writes go on.
//!
//! A backup is begun by its first part. The node notes how far it has accepted each stream: the *mark*. It acknowledges
//! no entry behind the mark until all entries up to it are committed. That is the instant of the backup: what is
//! committed then is exactly what is up to the mark. Then the client reads part after part, and the node copies the
//! table slot by slot. Before an entry behind the mark changes a slot that is not copied yet, its content is set aside
//! for the next part.
//!
//! The parts are numbered. The node keeps the last [`PARTS_KEPT`] of them, because answers may be lost. A reader asks
//! for a part only when it has all parts that are older than these.

use weft_time::{Duration, Instant};
use weft_waist::{Caller, Epoch, Io, Memory, NODES_MAX, NodeId, NodeSet};

use super::{Kv, NUMBER_MASK, Role, answer, epoch_of};
use crate::message::{
    BACKUP_DONE, BACKUP_ENDS, BackupDescription, Lengths, Reply, Request, SESSION_WINDOW, Status,
    push_backup_record,
};
use crate::parameters::{Parameters, PlantedBug};
use crate::placement::{PARTITIONS, backup_server};
use crate::table::{SlotNumber, Table};

/// Number of parts that can be repeated: as many requests as a client has outstanding.
const PARTS_KEPT: u32 = SESSION_WINDOW as u32;

/// The most slots that are copied for one part, which limits the work of an event.
const SLOTS_MAX: u32 = 4_096;

/// Another client may begin a backup when the reader of this one was silent for as long.
const SILENCE: Duration = Duration::from_secs(3);

/// Version of the reply that tells that too much was changed.
const OVERRUN: u64 = 1;

/// A backup that a client reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reading {
    /// The client, and the number of its request for the first part.
    reader: (u64, u64),
    last_request: Instant,
    epoch: Epoch,
    /// Accepted lengths of the streams of that epoch when the backup began.
    mark: Lengths,
    /// Leader of each partition in that epoch.
    leaders: [u8; PARTITIONS as usize],
    /// Whether all entries up to the mark are committed.
    is_decided: bool,
    /// The first slot that is not copied yet.
    cursor: u32,
    /// Records of slots that were changed before they were copied, and how many bytes of them are in parts.
    set_aside: Vec<u8>,
    taken: usize,
    /// Too much was changed: the backup cannot be read to its end.
    is_overrun: bool,
    /// The last parts, each at its number modulo [`PARTS_KEPT`], with the version of its reply.
    parts: Vec<(u64, Vec<u8>)>,
    /// The part that is composed next; the description is part 0.
    next: u32,
}

impl Reading {
    /// Whether the content of a slot with this version, or an entry with it, is up to the mark.
    fn includes(&self, bucket: u32, version: u64) -> bool {
        let leader = usize::from(self.leaders[(bucket % PARTITIONS) as usize]);
        let epoch = epoch_of(version);
        epoch < self.epoch || epoch == self.epoch && version & NUMBER_MASK <= self.mark[leader]
    }

    fn keep(&mut self, (key, value): (&[u8], &[u8]), room: usize) {
        if self.taken > room / 2 {
            self.set_aside.drain(..std::mem::take(&mut self.taken));
        }
        if !push_backup_record(&mut self.set_aside, room, key, value) {
            self.is_overrun = true;
            (self.set_aside, self.taken) = (Vec::new(), 0);
        }
    }

    /// Composes the next part: what was set aside comes first, then the slots from the cursor on.
    fn compose(&mut self, (table, memory): (&Table, &mut Memory), parameters: &Parameters) {
        let room = parameters.chunk_bytes - Reply::HEADER;
        let mut part = std::mem::take(&mut self.parts[(self.next % PARTS_KEPT) as usize].1);
        part.clear();
        while let Some((head, rest)) = self.set_aside[self.taken..].split_first_chunk::<2>() {
            let length = parameters.key_bytes + usize::from(u16::from_be_bytes(*head));
            let (key, value) = rest[..length].split_at(parameters.key_bytes);
            if !push_backup_record(&mut part, room, key, value) {
                break;
            }
            self.taken += 2 + length;
        }
        if self.taken == self.set_aside.len() {
            self.set_aside.clear();
            self.taken = 0;
            let stop = table.slots().min(self.cursor.saturating_add(SLOTS_MAX));
            while self.cursor < stop {
                let slot = SlotNumber(self.cursor);
                if let Some((version, key, value)) = table.fetch(memory, slot)
                    && self.includes(table.bucket(slot), version)
                    && !push_backup_record(&mut part, room, &key[..parameters.key_bytes], value)
                {
                    break;
                }
                self.cursor += 1;
            }
        }
        let ends = self.cursor == table.slots() && self.set_aside.is_empty();
        let version = u64::from(self.cursor) | if ends { BACKUP_ENDS } else { 0 };
        self.parts[(self.next % PARTS_KEPT) as usize] = (version, part);
        self.next += 1;
    }
}

/// The backup that a client reads, if one does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Backup(Option<Box<Reading>>);

impl Backup {
    /// Ends the backup: the node loses its table, or the entries up to the mark will not all be committed.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    /// Sets the content of a slot aside that the entry with this version is about to change, if the backup needs it.
    /// Returns whether it does.
    pub(super) fn keep(
        &mut self,
        (table, memory): (&Table, &mut Memory),
        (slot, entry): (SlotNumber, u64),
        parameters: &Parameters,
    ) -> bool {
        let Some(reading) = &mut self.0 else { return false };
        let bucket = table.bucket(slot);
        let is_copied = slot.0 < reading.cursor;
        if is_copied || reading.is_overrun || reading.includes(bucket, entry) {
            return false;
        }
        let content = table.fetch(memory, slot).filter(|(version, ..)| reading.includes(bucket, *version));
        let needed = content.filter(|_| !parameters.planted(PlantedBug::BackupCopiesNewer));
        if let Some((_, key, value)) = needed {
            reading.keep((&key[..parameters.key_bytes], value), parameters.backup_bytes);
        }
        needed.is_some()
    }
}

impl Kv {
    /// How much of a stream the node has accepted, as it tells the leader: while a backup waits for its instant, not
    /// more than up to the mark.
    pub(super) fn acknowledged_length(&self, stream: usize) -> u64 {
        let accepted = self.windows[stream].accepted();
        if self.parameters.planted(PlantedBug::BackupHoldsNothing) {
            return accepted;
        }
        let waiting = self.backup.0.as_ref().filter(|reading| !reading.is_decided);
        waiting.map_or(accepted, |reading| accepted.min(reading.mark[stream]))
    }

    /// Answers a request for a part of a backup.
    pub(super) fn back_up(&mut self, now: Instant, caller: Caller, request: &Request<'_>, io: &mut Io<'_>) {
        let identity = (request.client, request.request);
        let (begun, part) = ((request.expected >> 32) as u32, request.expected as u32);
        if request.expected == 0
            && let Err(status) = self.begin_backup(now, identity)
        {
            answer(self.view, io.effects, caller, identity, status, 0, &[]);
            return;
        }
        let is_read = |reading: &&mut Box<Reading>| {
            let (client, first) = reading.reader;
            client == request.client && (request.expected == 0 || first as u32 == begun)
        };
        let Some(reading) = self.backup.0.as_mut().filter(is_read) else {
            answer(self.view, io.effects, caller, identity, Status::NoBackup, 0, &[]);
            return;
        };
        reading.last_request = now;
        if reading.is_overrun {
            answer(self.view, io.effects, caller, identity, Status::NoBackup, OVERRUN, &[]);
        } else if request.expected == 0 {
            let (node, epoch, lengths) = (self.node, reading.epoch, reading.mark);
            let description = BackupDescription { node, epoch, slots: self.table.slots(), lengths };
            answer(self.view, io.effects, caller, identity, Status::Ok, 0, &description.encode());
        } else if part == BACKUP_DONE {
            self.backup.end();
            answer(self.view, io.effects, caller, identity, Status::Ok, BACKUP_ENDS, &[]);
        } else if reading.is_decided && part < reading.next.saturating_add(PARTS_KEPT) {
            while reading.next <= part {
                reading.compose((&self.table, io.memory), &self.parameters);
            }
            // Older parts have been read: the request is a late copy.
            if part + PARTS_KEPT >= reading.next {
                let (version, records) = &reading.parts[(part % PARTS_KEPT) as usize];
                answer(self.view, io.effects, caller, identity, Status::Ok, *version, records);
                self.counters.backup_parts += 1;
            }
        }
    }

    /// Begins a backup, unless this request has begun it before. An error is the status of the answer.
    fn begin_backup(&mut self, now: Instant, (client, request): (u64, u64)) -> Result<(), Status> {
        if let Some(reading) = &self.backup.0 {
            let (reader, first) = reading.reader;
            let has_reader = now <= reading.last_request + SILENCE;
            if reader == client && first >= request {
                let is_ready = reading.is_decided && first == request;
                return if is_ready { Ok(()) } else { Err(Status::Busy) };
            }
            if reader != client && has_reader && !reading.is_overrun {
                return Err(Status::Busy);
            }
        }
        if !self.may_serve(now) {
            self.counters.refused_not_serving += 1;
            return Err(Status::NotServing);
        }
        // If two members waited for their instants, each could wait for an entry that the other does not acknowledge.
        if backup_server(self.view.full) != Some(self.node) {
            self.counters.refused_not_leader += 1;
            return Err(Status::NotLeader);
        }
        let room = self.parameters.chunk_bytes - Reply::HEADER;
        let part = || (0, Vec::with_capacity(room));
        self.backup.0 = Some(Box::new(Reading {
            reader: (client, request),
            last_request: now,
            epoch: self.base,
            mark: std::array::from_fn(|stream| {
                match self.parameters.planted(PlantedBug::BackupOfCommitted) {
                    true => self.windows[stream].committed(),
                    false => self.windows[stream].accepted(),
                }
            }),
            leaders: self.leaders,
            is_decided: false,
            cursor: 0,
            set_aside: Vec::with_capacity(self.parameters.backup_bytes),
            taken: 0,
            is_overrun: false,
            parts: (0..PARTS_KEPT).map(|_| part()).collect(),
            next: 1,
        }));
        self.counters.backups_begun += 1;
        // Without undecided entries this is the instant.
        self.look_for_instant();
        let is_decided = self.backup.0.as_ref().is_some_and(|reading| reading.is_decided);
        if is_decided { Ok(()) } else { Err(Status::Busy) }
    }

    /// Notes the instant of the backup once all entries up to its mark are committed. Returns whether that is now.
    pub(super) fn look_for_instant(&mut self) -> bool {
        let Some(reading) = self.backup.0.as_mut().filter(|reading| !reading.is_decided) else {
            return false;
        };
        reading.is_decided =
            (0..NODES_MAX).all(|stream| self.windows[stream].committed() >= reading.mark[stream]);
        reading.is_decided
    }

    /// The streams of the epoch end here: a backup that has not had its instant will not have it.
    pub(super) fn backup_at_cut(&mut self) {
        self.look_for_instant();
        if self.backup.0.as_ref().is_some_and(|reading| !reading.is_decided) {
            self.backup.end();
        }
    }

    /// The instant of a backup has come: acknowledges and commits what has waited for it.
    pub(super) fn resume_after_instant(&mut self, now: Instant, io: &mut Io<'_>) {
        if self.role == Role::Full && self.look_for_instant() {
            let others = self.view.full.without(self.node);
            let waits = |node: &NodeId| {
                self.windows[node.index()].accepted() > self.windows[node.index()].committed()
            };
            self.acknowledge_due =
                self.acknowledge_due.union(others.iter().filter(waits).collect::<NodeSet>());
            self.commit_what_all_have(now, io);
        }
    }
}
