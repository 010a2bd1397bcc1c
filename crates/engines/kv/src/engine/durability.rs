//! Durability: records for the host's log, replies that wait for the log, and restart from the log.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_waist::{Caller, Effects, Epoch, Io, Memory, Message, NODES_MAX, NodeId};

use super::{Kv, Role, entry_of};
use crate::journal::{HOST, Opening, What, lengths, put_lengths};
use crate::message::What as Moved;
use crate::message::{CUTS_MAX, Cut, Kind, Lengths, Malformed, Write, be32, be64, put};
use crate::parameters::{Parameters, PlantedBug};
use crate::table::SlotNumber;
use crate::transfer::{self, END, SCAN_MAX};
use crate::window::Entry;

/// Records handed to the host's log, and how many of them are durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LogProgress {
    /// Number of records handed to the log since the engine was made.
    records: u64,
    /// Entries of this epoch that are not durable yet, as (number of the record, stream).
    entries: VecDeque<(u64, u8)>,
    /// Durable length of each stream of this epoch.
    lengths: Lengths,
    /// Number of the record that opens an epoch, while the node waits until it is durable.
    pub(super) opening: Option<u64>,
    /// The newest epoch whose opening is durable.
    pub(super) opened: Epoch,
    /// Number of the record that seals the epoch, while it is not durable.
    sealing: Option<u64>,
    /// The record that seals the epoch is durable. Then the node may report its lengths: it had accepted every entry
    /// that was committed, and a restart changes nothing of that.
    pub(super) is_sealed: bool,
    /// The host is replaying its log into the engine; the engine logs nothing meanwhile.
    is_restoring: bool,
    /// The engine was restored and may lack entries that it had accepted and that were committed.
    pub(super) is_uncertain: bool,
    /// The engine was restored, and has received no later view yet.
    pub(super) awaits_view: bool,
    /// Length of each stream at which a restored node asks for more entries.
    pub(super) asked: Lengths,
    /// Accepted lengths when a snapshot was requested. The snapshot is composed once all entries up to there are
    /// decided.
    mark: Lengths,
    /// Committed lengths at the beginning of the snapshot that is being composed.
    reflected: Lengths,
}

impl LogProgress {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let entries = if parameters.is_durable() { NODES_MAX * parameters.window } else { 0 };
        Self {
            records: 0,
            entries: VecDeque::with_capacity(entries),
            lengths: [0; NODES_MAX],
            opening: None,
            opened: Epoch(0),
            sealing: None,
            is_sealed: false,
            is_restoring: false,
            is_uncertain: false,
            awaits_view: false,
            asked: [0; NODES_MAX],
            mark: [0; NODES_MAX],
            reflected: [0; NODES_MAX],
        }
    }

    pub(super) fn begin_epoch(&mut self) {
        self.entries.clear();
        self.lengths = [0; NODES_MAX];
        self.leave();
        // The cut has decided all entries that were accepted before.
        self.mark = [0; NODES_MAX];
        self.reflected = [0; NODES_MAX];
    }

    /// Leaves the epoch: the node waits for nothing any more.
    pub(super) fn leave(&mut self) {
        (self.opening, self.sealing) = (None, None);
        (self.is_sealed, self.is_uncertain) = (false, false);
    }

    /// Whether the node waits for its log before it goes on.
    pub(super) fn is_opening(&self) -> bool {
        self.opening.is_some()
    }
}

impl Kv {
    /// Length of a stream up to which its entries survive a restart.
    pub(super) fn durable(&self, stream: usize) -> u64 {
        if self.parameters.planted(PlantedBug::AcknowledgeBeforeFlush) {
            return self.windows[stream].accepted();
        }
        self.logged.lengths[stream]
    }

    /// Whether the log is so far behind a stream that the node accepts no more of it for now.
    pub(super) fn lags(&self, stream: usize) -> bool {
        let behind = self.windows[stream].accepted().saturating_sub(self.logged.lengths[stream]);
        self.parameters.is_durable() && behind >= self.parameters.lag_max()
    }

    fn log(&mut self, parts: &[&[u8]], effects: &mut Effects) {
        effects.reply(Caller::Host(HOST), Kind::Record as u8, parts);
        self.logged.records += 1;
    }

    /// Logs an entry that was accepted.
    pub(super) fn log_entry(&mut self, stream: usize, write: &Write<'_>, effects: &mut Effects) {
        if self.parameters.is_durable() && !self.logged.is_restoring {
            let head = What::Entry.head(stream);
            self.log(&[&head, &write.header(), write.key, write.value], effects);
            self.logged.entries.push_back((self.logged.records, stream as u8));
        }
    }

    /// Logs that an epoch has begun and the one before it is cut. A full member serves only after this record is
    /// durable. Otherwise it could restart without the record, begin the same epoch again, and give other writes
    /// the numbers of earlier ones.
    pub(super) fn log_opening(&mut self, closed: Cut, io: &mut Io<'_>) {
        if !self.parameters.is_durable() || self.logged.is_restoring {
            return;
        }
        let opening = Opening { node: self.node, view: self.view, closed };
        self.log(&[&What::Opening.head(0), &opening.encode()], io.effects);
        if self.role == Role::Full && !self.parameters.planted(PlantedBug::ActsBeforeOpening) {
            self.role = Role::Sealed;
            self.logged.opening = Some(self.logged.records);
        }
    }

    /// Logs that the node accepts nothing more in its epoch, if that is not in the log yet. Once that is durable, the
    /// node reports its lengths, and reports the same ones after a restart.
    pub(super) fn log_sealing(&mut self, effects: &mut Effects) {
        if self.logged.is_sealed || self.logged.sealing.is_some() {
            return;
        }
        let mut epoch = [0; 8];
        put(&mut epoch, 0, self.base.0.to_be_bytes());
        self.log(&[&What::Sealed.head(0), &epoch], effects);
        self.logged.sealing = Some(self.logged.records);
        self.logged.is_sealed = self.parameters.planted(PlantedBug::SealedBeforeFlush);
    }

    /// Logs a chunk that a joining node has installed.
    pub(super) fn log_chunk(&mut self, moved: Moved, records: &[u8], effects: &mut Effects) {
        if !self.parameters.is_durable() {
            return;
        }
        let what = if moved == Moved::Buckets { What::Slots } else { What::Sessions };
        self.log(&[&what.head(0), records], effects);
        if self.complete {
            self.log(&[&What::Complete.head(0)], effects);
        }
    }

    /// Whether the table has a later version of a key. A snapshot may be newer than log records that follow it.
    pub(super) fn holds_later(&self, memory: &mut Memory, key: &[u8], version: u64) -> bool {
        let found = self.table.find(memory, self.table.place(key), key);
        found.is_some_and(|(_, header)| header.version > version)
    }

    /// Handles a message from the host's log.
    pub(super) fn handle_host_message(
        &mut self,
        now: Instant,
        message: Message<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), Malformed> {
        let bytes = message.payload;
        let need = |need| {
            if bytes.len() < need { Err(Malformed::Truncated { have: bytes.len(), need }) } else { Ok(()) }
        };
        match message.kind {
            kind if kind == Kind::Durable as u8 => {
                need(8)?;
                self.now_durable(now, be64(bytes, 0), io);
            }
            kind if kind == Kind::Restore as u8 => {
                self.logged.is_restoring = true;
                return self.restore(now, bytes, io);
            }
            kind if kind == Kind::Restored as u8 => self.restored(),
            kind if kind == Kind::Snapshot as u8 => {
                need(8)?;
                self.snapshot(bytes[0], be32(bytes, 4), io);
            }
            _ => return Err(Malformed::Field("kind")),
        }
        Ok(())
    }

    fn now_durable(&mut self, now: Instant, records: u64, io: &mut Io<'_>) {
        while let Some(&(record, stream)) = self.logged.entries.front()
            && record <= records
        {
            let stream = usize::from(stream);
            self.logged.entries.pop_front();
            self.logged.lengths[stream] += 1;
            if let Some(leader) = NodeId::new(stream).filter(|leader| *leader != self.node) {
                self.acknowledge_due = self.acknowledge_due.with(leader);
            }
        }
        if self.logged.opening.is_some_and(|opening| opening <= records) {
            self.logged.opening = None;
            self.logged.opened = self.base;
            if self.role == Role::Sealed {
                self.role = Role::Full;
            }
        }
        if self.logged.sealing.is_some_and(|sealing| sealing <= records) {
            self.logged.sealing = None;
            self.logged.is_sealed = true;
            self.logged.opened = self.base;
            self.report_accepted(now, io);
        }
        match self.role {
            Role::Full => self.commit_what_all_have(now, io),
            Role::Joining => {}
            Role::Outside | Role::Sealed | Role::Lost => self.acknowledge_due = weft_waist::NodeSet::EMPTY,
        }
    }

    // Restart: the host replays its log.

    fn restore(&mut self, now: Instant, record: &[u8], io: &mut Io<'_>) -> Result<(), Malformed> {
        let (what, stream, content) = What::of(record)?;
        let is_transferred =
            matches!(what, What::Slots | What::Sessions | What::Complete) && stream != SNAPSHOT;
        if is_transferred && self.role != Role::Joining {
            // The snapshot was begun after this transfer. Installing the chunk could bring back keys that were
            // deleted since.
            return Ok(());
        }
        match what {
            What::Entry => {
                let write = Write::parse(content, self.key_field)?;
                self.restore_entry(now, stream, &write, io);
            }
            What::Opening => {
                let (opening, _) = Opening::parse(content)?;
                self.restore_opening(now, &opening, io);
            }
            What::State => self.restore_state(content, io)?,
            What::Slots => {
                let slots = || transfer::slots(content, self.key_field, self.parameters.value_bytes_max);
                if slots().any(|slot| slot.is_none()) {
                    return Err(Malformed::Field("slots"));
                }
                for (version, key, value) in
                    transfer::slots(content, self.key_field, self.parameters.value_bytes_max).flatten()
                {
                    self.install(version, key, value, io.memory);
                }
            }
            What::Sessions => {
                for session in transfer::sessions(content) {
                    self.sessions.import(now, session.ok_or(Malformed::Field("sessions"))?)?;
                }
            }
            What::Complete => self.complete = true,
            What::Sealed => self.logged.is_sealed |= content.len() >= 4 && be32(content, 0) == self.base.0,
            What::Kept => {
                let write = Write::parse(content, self.key_field)?;
                if write.epoch == self.base && stream < NODES_MAX {
                    let entry = entry_of(&write, None, None);
                    self.windows[stream].put_back(write.number, entry, write.key, write.value);
                }
            }
        }
        Ok(())
    }

    /// Installs a record of a slot if it is newer than the slot's content in the table.
    pub(super) fn install(&mut self, version: u64, key: &[u8], value: &[u8], memory: &mut Memory) {
        let place = self.table.place(key);
        let found = self.table.find(memory, place, key);
        if found.is_some_and(|(_, header)| header.version >= version) {
            return;
        }
        match self.table.claim(memory, place, key, version) {
            Some(slot) => self.table.commit_value(memory, slot, version, key, value),
            // The bucket is full. Every key of this table is also in the leader's, so only a malformed chunk gets
            // here.
            None => self.counters.dropped_contradiction += 1,
        }
    }

    fn restore_entry(&mut self, now: Instant, stream: usize, write: &Write<'_>, io: &mut Io<'_>) {
        // The log repeats entries that the snapshot contains, and entries of epochs that it has closed.
        if write.epoch != self.base || stream >= NODES_MAX {
            return;
        }
        let committed = write.committed.min(self.windows[stream].accepted());
        self.commit_to(now, stream, committed, io);
        if write.number == self.windows[stream].accepted() + 1 && !self.windows[stream].is_exhausted() {
            self.windows[stream].push(entry_of(write, None, None), write.key, write.value);
        }
    }

    fn restore_opening(&mut self, now: Instant, opening: &Opening, io: &mut Io<'_>) {
        if opening.view.epoch <= self.base {
            return;
        }
        let joins = opening.view.joining.contains(opening.node);
        if joins || opening.closed.epoch == Epoch(0) {
            self.table.clear(io.memory);
            self.sessions.clear();
            self.windows.iter_mut().for_each(crate::window::Window::reset);
            self.cuts = [Cut::default(); CUTS_MAX];
            self.complete = !joins;
        } else {
            for (stream, &length) in opening.closed.lengths.iter().enumerate() {
                let length = length.min(self.windows[stream].accepted());
                self.commit_to(now, stream, length, io);
            }
            self.drop_undecided(io);
            self.cuts.rotate_right(1);
            self.cuts[0] = opening.closed;
        }
        self.node = opening.node;
        self.view = opening.view;
        self.begin_epoch(if joins { Role::Joining } else { Role::Sealed });
    }

    fn restore_state(&mut self, content: &[u8], io: &mut Io<'_>) -> Result<(), Malformed> {
        let (opening, rest) = Opening::parse(content)?;
        let count = usize::from(*rest.first().ok_or(Malformed::Field("cuts"))?);
        let bytes = rest.get(8..).filter(|bytes| count <= CUTS_MAX && bytes.len() == count * CUT_BYTES);
        let bytes = bytes.ok_or(Malformed::Field("cuts"))?;
        self.table.clear(io.memory);
        self.sessions.clear();
        self.cuts = [Cut::default(); CUTS_MAX];
        for (cut, bytes) in self.cuts.iter_mut().zip(bytes.chunks(CUT_BYTES)) {
            *cut = Cut { epoch: Epoch(be32(bytes, 0)), lengths: lengths(&bytes[8..]) };
        }
        self.node = opening.node;
        self.view = opening.view;
        self.complete = true;
        self.begin_epoch(Role::Sealed);
        for (window, &committed) in self.windows.iter_mut().zip(&opening.closed.lengths) {
            window.resume(committed);
        }
        Ok(())
    }

    fn restored(&mut self) {
        self.logged.is_restoring = false;
        if self.base != Epoch(0) && self.complete {
            self.logged.lengths = std::array::from_fn(|stream| self.windows[stream].accepted());
            self.logged.is_sealed |= self.parameters.planted(PlantedBug::RestoredVotes);
            self.logged.is_uncertain = !self.logged.is_sealed;
            (self.logged.awaits_view, self.logged.opened) = (true, self.base);
            self.role = Role::Sealed;
        } else {
            self.role = Role::Lost;
        }
    }

    // Snapshots.

    fn snapshot(&mut self, what: u8, from: u32, io: &mut Io<'_>) {
        const MARK: u8 = 0;
        const STATE: u8 = 1;
        let (next, content) = match what {
            MARK => {
                self.logged.mark = std::array::from_fn(|stream| self.windows[stream].accepted());
                return;
            }
            STATE => return self.snapshot_state(io),
            _ if what == What::Kept as u8 => return self.snapshot_entry(from, io),
            _ if what == What::Slots as u8 => (Moved::Buckets, What::Slots),
            _ => (Moved::Sessions, What::Sessions),
        };
        let places = if next == Moved::Buckets { self.table.slots() } else { self.sessions.places() };
        let unit = if next == Moved::Buckets { self.table.ways() } else { 1 };
        let stop = places.min(from.saturating_add(SCAN_MAX * unit));
        let full_at = self.compose_all(next, from.min(stop)..stop, io.memory);
        let next = full_at.unwrap_or(if stop == places { END } else { stop });
        let mut head = [0; 8];
        put(&mut head, 0, next.to_be_bytes());
        let parts = [&head[..], &content.head(SNAPSHOT), self.donation.bytes()];
        io.effects.reply(Caller::Host(HOST), Kind::SnapshotPart as u8, &parts);
    }

    /// Fills a chunk with the committed records of some positions; returns the position of the first record that
    /// does not fit.
    fn compose_all(
        &mut self,
        moved: Moved,
        mut places: std::ops::Range<u32>,
        memory: &mut Memory,
    ) -> Option<u32> {
        self.donation.clear();
        match moved {
            Moved::Buckets => places.find(|&place| {
                let slot = self.table.fetch(memory, SlotNumber(place));
                slot.is_some_and(|(version, key, value)| !self.donation.push_slot(version, key, value))
            }),
            Moved::Sessions => places.find(|&place| {
                let session = self.sessions.export(place);
                session.is_some_and(|session| !self.donation.push_session(&session))
            }),
        }
    }

    /// Sends the first part of a snapshot, provided that the node is full and all entries accepted at the mark are
    /// decided; otherwise sends an empty part.
    fn snapshot_state(&mut self, io: &mut Io<'_>) {
        let is_decided = |stream: usize| self.windows[stream].committed() >= self.logged.mark[stream];
        let mut head = [0; 8];
        if self.role != Role::Full || !(0..NODES_MAX).all(is_decided) {
            io.effects.reply(Caller::Host(HOST), Kind::SnapshotPart as u8, &[&head]);
            return;
        }
        put(&mut head, 0, END.to_be_bytes());
        // The open epoch has no cut yet: its committed lengths take the place of a cut.
        let committed = std::array::from_fn(|stream| self.windows[stream].committed());
        self.logged.reflected = committed;
        let closed = Cut { epoch: Epoch(0), lengths: committed };
        let opening = Opening { node: self.node, view: self.view, closed };
        let count = self.cuts.iter().take_while(|cut| cut.epoch != Epoch(0)).count();
        let mut cuts = [0; 8 + CUTS_MAX * CUT_BYTES];
        cuts[0] = count as u8;
        for (place, cut) in self.cuts[..count].iter().enumerate() {
            let at = 8 + place * CUT_BYTES;
            put(&mut cuts, at, cut.epoch.0.to_be_bytes());
            put_lengths(&mut cuts[at + 8..], &cut.lengths);
        }
        let parts = [&head[..], &What::State.head(0), &opening.encode(), &cuts[..8 + count * CUT_BYTES]];
        io.effects.reply(Caller::Host(HOST), Kind::SnapshotPart as u8, &parts);
    }

    /// Sends the next committed entry that is in a ring at position `from` or later. Another member may lack it after
    /// a restart, and the log that has it is released with the snapshot. Entries that are overwritten meanwhile are
    /// durable at all members. The last part has no content.
    fn snapshot_entry(&self, from: u32, io: &mut Io<'_>) {
        const MASK: u32 = (1 << POSITION_BITS) - 1;
        let position =
            |stream: usize, number: u64| (stream as u32 + 1) << POSITION_BITS | number as u32 & MASK;
        let (begun, low) = ((from >> POSITION_BITS) as usize, from & MASK);
        let found = (begun.saturating_sub(1)..NODES_MAX).find_map(|stream| {
            let window = &self.windows[stream];
            let first = window.first();
            let distance = u64::from(low.wrapping_sub(first as u32) & MASK);
            let is_behind = stream + 1 == begun && distance <= window.accepted() + 1 - first;
            let number = if is_behind { first + distance } else { first };
            let is_reflected = number <= self.logged.reflected[stream];
            Some((stream, number, window.kept(number).filter(|_| is_reflected)?))
        });
        let mut head = [0; 8];
        let Some((stream, number, kept)) = found else {
            put(&mut head, 0, END.to_be_bytes());
            let parts = [&head[..], &What::Sessions.head(SNAPSHOT)];
            return io.effects.reply(Caller::Host(HOST), Kind::SnapshotPart as u8, &parts);
        };
        put(&mut head, 0, position(stream, number + 1).to_be_bytes());
        let write = self.write_of(stream, number, kept);
        let parts = [&head[..], &What::Kept.head(stream), &write.header(), write.key, write.value];
        io.effects.reply(Caller::Host(HOST), Kind::SnapshotPart as u8, &parts);
    }

    /// The entry of a stream of the base epoch as a message.
    pub(super) fn write_of<'a>(
        &self,
        stream: usize,
        number: u64,
        (entry, key, value): (&Entry, &'a [u8], &'a [u8]),
    ) -> Write<'a> {
        Write {
            epoch: self.base,
            operation: entry.operation,
            status: entry.status,
            number,
            committed: self.windows[stream].committed(),
            client: entry.client,
            request: entry.request,
            version: entry.version,
            key,
            value,
        }
    }
}

/// Bits of a position in the entries of a snapshot that hold the low bits of an entry's number; the stream is above
/// them, counted from 1. A ring has fewer entries than these bits can tell apart.
const POSITION_BITS: u32 = 24;

/// Stream number that marks records as parts of a snapshot.
const SNAPSHOT: usize = 0xff;

const CUT_BYTES: usize = 8 + 8 * NODES_MAX;
