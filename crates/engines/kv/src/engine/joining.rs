//! State transfer: a joining node, which has no data yet, copies the state of the full members.

use std::ops::Range;

use weft_time::Instant;
use weft_waist::{Effects, Io, Memory, NodeId, NodeSet};

use super::{Kv, Refused, Role, TIMER_TRANSFER, arm};
use crate::message::{Kind, StateChunk, StateRequest, What};
use crate::placement::PARTITIONS;
use crate::table::SlotNumber;
use crate::transfer::{self, CHUNKS_MAX, END, SCAN_MAX};

impl Kv {
    pub(super) fn request_state(&mut self, effects: &mut Effects) {
        if let Some((node, request)) = self.transfer.ask(self.view.epoch) {
            effects.send(NodeSet::EMPTY.with(node), Kind::StateRequest as u8, &[&request.encode()]);
            arm(&mut self.transfer.pace, TIMER_TRANSFER, effects);
        }
    }

    pub(super) fn state_requested(&mut self, from: NodeId, request: StateRequest, io: &mut Io<'_>) {
        if self.is_other_epoch(request.epoch) {
            return;
        }
        if self.role != Role::Full || !self.view.joining.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        let StateRequest { epoch, attempt, what, from: first } = request;
        let (places, unit) = match what {
            What::Buckets => (self.table.slots(), self.table.ways()),
            What::Sessions => (self.sessions.places(), 1),
        };
        // Where the answer ends: always at a bucket boundary.
        let stop = places.min((first - first % unit).saturating_add(SCAN_MAX * unit));
        let behind = if stop == places { END } else { stop };
        let tag = self.windows[self.node.index()].committed();
        let mut at = first;
        for sent in 1..=CHUNKS_MAX {
            let full_at = self.compose(what, at..stop, io.memory);
            let next = full_at.unwrap_or(behind);
            let last = full_at.is_none() || sent == CHUNKS_MAX;
            let records = self.donation.bytes();
            let chunk = StateChunk { epoch, attempt, what, last, from: at, next, tag, records };
            io.effects.send(NodeSet::EMPTY.with(from), Kind::StateChunk as u8, &[&chunk.header(), records]);
            self.counters.chunks_sent += 1;
            if last {
                break;
            }
            at = next;
        }
    }

    /// Fills a chunk with the committed records of some positions, limited to the buckets that this node leads;
    /// returns the position of the first record that does not fit.
    pub(super) fn compose(
        &mut self,
        what: What,
        mut positions: Range<u32>,
        memory: &mut Memory,
    ) -> Option<u32> {
        self.donation.clear();
        match what {
            What::Buckets => positions.find(|&position| {
                let leader = self.leaders[(self.table.bucket(SlotNumber(position)) % PARTITIONS) as usize];
                let slot = (usize::from(leader) == self.node.index()).then_some(SlotNumber(position));
                let slot = slot.and_then(|slot| self.table.fetch(memory, slot));
                slot.is_some_and(|(version, key, value)| !self.donation.push_slot(version, key, value))
            }),
            What::Sessions => positions.find(|&position| {
                let session = self.sessions.export(position);
                session.is_some_and(|session| !self.donation.push_session(&session))
            }),
        }
    }

    pub(super) fn state_arrived(
        &mut self,
        now: Instant,
        from: NodeId,
        chunk: StateChunk<'_>,
        io: &mut Io<'_>,
    ) {
        if self.is_other_epoch(chunk.epoch) {
            return;
        }
        if self.role != Role::Joining || !self.view.full.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        // A late chunk, or one that follows a lost one.
        if !self.transfer.awaits(from, &chunk) {
            return;
        }
        let installed = match chunk.what {
            What::Buckets => self.install_buckets(now, from.index(), &chunk, io),
            What::Sessions => self.install_sessions(now, &chunk),
        };
        match installed {
            Ok(()) => {
                self.counters.chunks_installed += 1;
                self.transfer.advance(chunk.next);
                self.complete = self.transfer.is_done();
                self.log_chunk(chunk.what, chunk.records, io.effects);
            }
            Err(Refused::Stale) => self.counters.chunks_stale += 1,
            Err(Refused::Contradiction) => self.counters.dropped_contradiction += 1,
            Err(Refused::Malformed) => self.counters.dropped_malformed += 1,
        }
        self.transfer.pace.progress(now);
        if chunk.last || installed.is_err() {
            self.request_state(io.effects);
        }
    }

    /// Installs the slots of a chunk that are newer than what the table holds. The chunk reflects the leader's
    /// stream up to its tag, which is committed and therefore accepted here. This node first applies the stream up
    /// to the tag. Then every entry that it applies later is newer than the chunk, and a slot that is newer in the
    /// chunk was not written in this epoch.
    pub(super) fn install_buckets(
        &mut self,
        now: Instant,
        stream: usize,
        chunk: &StateChunk<'_>,
        io: &mut Io<'_>,
    ) -> Result<(), Refused> {
        let slots = || transfer::slots(chunk.records, self.key_field, self.parameters.value_bytes_max);
        let is_of_stream =
            |key: &[u8]| usize::from(self.leaders[self.table.place(key).partition() as usize]) == stream;
        if !slots().all(|slot| slot.is_some_and(|(_, key, _)| is_of_stream(key))) {
            return Err(Refused::Malformed);
        }
        if chunk.tag < self.windows[stream].committed() {
            return Err(Refused::Stale);
        }
        if chunk.tag > self.windows[stream].accepted() {
            return Err(Refused::Contradiction);
        }
        self.committed(now, stream, chunk.tag, io);
        for (version, key, value) in
            transfer::slots(chunk.records, self.key_field, self.parameters.value_bytes_max).flatten()
        {
            self.install(version, key, value, io.memory);
        }
        Ok(())
    }

    pub(super) fn install_sessions(&mut self, now: Instant, chunk: &StateChunk<'_>) -> Result<(), Refused> {
        for session in transfer::sessions(chunk.records) {
            let session = session.ok_or(Refused::Malformed)?;
            self.sessions.import(now, session).map_err(|_| Refused::Malformed)?;
        }
        Ok(())
    }
}
