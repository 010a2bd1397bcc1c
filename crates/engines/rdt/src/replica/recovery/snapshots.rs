//! Snapshots of the state: how a replica provides them, and how another reads them in parts.

use weft_smr::link::Transfer;
use weft_smr::slot::word;
use weft_time::Instant;
use weft_waist::{Io, Memory, NodeSet};

use super::Step;
use crate::replica::layout::{SNAPSHOT_HEAD, SUMMARY_BYTES, Summary, put};
use crate::replica::message::Datagram;
use crate::replica::stream::Posted;
use crate::replica::{Observer, Phase, Replica};

/// Bytes of a snapshot that one READ copies.
const PART_BYTES: usize = 16 * 1024;
/// Number of retry intervals for which a snapshot is kept for its receiver.
const GIVING: u64 = 50;

impl<W: Observer> Replica<W> {
    pub(in crate::replica) fn give_snapshot(
        &mut self,
        from: usize,
        incarnation: u32,
        attempt: u64,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        if self.phase != Phase::Full
            || incarnation != self.incarnations[from]
            || incarnation != self.peer_incarnation(from)
        {
            return;
        }
        let bytes = match self.join.giving {
            Some((to, known, bytes, _)) if (to, known) == (from, attempt) => bytes,
            Some((to, _, _, at)) if to != from && now < at + self.parameters.retry * GIVING => return,
            _ => {
                self.send_folded(io);
                let area = self.layout.snapshot;
                let room = self.layout.snapshot_bytes;
                let into = &mut io.memory.image_mut()[area..area + room];
                put(into, 0, attempt);
                put(into, 8, u64::from(from as u8) << 56 | u64::from(incarnation));
                let bytes = SNAPSHOT_HEAD + self.state.save(&mut into[SNAPSHOT_HEAD..]);
                io.memory.read(area, bytes);
                self.state.counters.snapshots_given += 1;
                bytes
            }
        };
        self.join.giving = Some((from, attempt, bytes, now));
        self.send(from, &Datagram::Ready { attempt, bytes: bytes as u64 }, io.effects);
    }

    fn peer_incarnation(&self, peer: usize) -> u32 {
        self.fenced[peer]
    }

    pub(in crate::replica) fn snapshot_is_ready(
        &mut self,
        from: usize,
        attempt: u64,
        bytes: u64,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        let is_awaited = self.join.step == Step::Asked { donor: from } && attempt == self.join.attempt;
        let fits = bytes == (SNAPSHOT_HEAD + self.layout.state_bytes) as u64;
        self.state.counters.malformed += u64::from(!fits);
        if is_awaited && fits {
            (self.join.step, self.join.since) = (Step::Reading { donor: from, bytes: bytes as usize }, now);
            self.read_part(from, 0, bytes as usize, io);
        }
    }

    fn read_part(&mut self, donor: usize, from: usize, bytes: usize, io: &mut Io<'_>) {
        let end = bytes.min(from + PART_BYTES);
        let at = self.layout.snapshot + from;
        let transfer = Transfer::Read { from: at, to: at, bytes: end - from };
        self.post(donor, Posted::Snapshot { end }, transfer, io.effects);
    }

    pub(in crate::replica) fn snapshot_part_came(
        &mut self,
        peer: usize,
        end: usize,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        let Step::Reading { donor, bytes } = self.join.step else { return };
        if donor != peer {
            return;
        }
        if end < bytes {
            // Each part that arrives restarts the time-out, so a large snapshot is not aborted.
            self.join.since = now;
            self.read_part(peer, end, bytes, io);
        } else if self.peers[peer].pulling {
            // The staging buffer is in use.
            self.join.begin_again();
        } else {
            self.peers[peer].pulling = true;
            self.read_rings(peer, 0, 0, now, io);
        }
    }

    /// READs the donor's ring entries that are part of the snapshot, starting with entry `from` of `origin`.
    /// So this replica can send them to others. Otherwise two replicas that took different snapshots might
    /// each lack calls that the other has only as part of its state.
    fn read_rings(&mut self, donor: usize, origin: usize, from: u64, now: Instant, io: &mut Io<'_>) {
        self.join.since = now;
        let area = self.layout.snapshot + SNAPSHOT_HEAD;
        let state = &io.memory.image()[area..area + self.layout.state_bytes];
        let (_, saved) = self.state.saved(state);
        let mut from = from;
        for (origin, &last) in saved.iter().enumerate().take(self.parameters.nodes).skip(origin) {
            let first = from.max(last.saturating_sub(self.parameters.ring - 1)).max(1);
            if first <= last {
                let entries = self.layout.piece(first, last - first + 1);
                let bytes = entries as usize * self.layout.entry_bytes();
                let (from, to) = (self.layout.entry(origin, first), self.layout.staging(donor));
                let what = Posted::SnapshotRing { origin, first, entries };
                self.post(donor, what, Transfer::Read { from, to, bytes }, io.effects);
                return;
            }
            from = 0;
        }
        // If the donor has made a snapshot for another node meanwhile, its head has changed.
        let (from, to) = (self.layout.snapshot, self.layout.staging(donor));
        let transfer = Transfer::Read { from, to, bytes: SNAPSHOT_HEAD };
        self.post(donor, Posted::SnapshotEnd, transfer, io.effects);
    }

    pub(in crate::replica) fn snapshot_ring_came(
        &mut self,
        peer: usize,
        origin: usize,
        first: u64,
        entries: u64,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        if !matches!(self.join.step, Step::Reading { donor, .. } if donor == peer) {
            self.peers[peer].pulling = false;
            return;
        }
        for place in 0..entries {
            let from = self.layout.staging(peer) + place as usize * self.layout.entry_bytes();
            self.keep_entry(origin, first + place, from, io.memory);
        }
        self.read_rings(peer, origin, first + entries, now, io);
    }

    /// Stores a copy of a ring entry in its slot, if it was read whole and the slot does not hold it or a
    /// later one. The origin may have written part of it there, or it may have rejoined and written later
    /// entries.
    pub(super) fn keep_entry(&self, origin: usize, number: u64, from: usize, memory: &mut Memory) -> bool {
        let to = self.layout.entry(origin, number);
        let keeps = self.entry_in(memory, from, number)
            && word(memory.image(), to) <= number
            && !self.entry_in(memory, to, number);
        if keeps {
            let bytes = self.layout.entry_bytes();
            memory.image_mut().copy_within(from..from + bytes, to);
            memory.read(to, bytes);
        }
        keeps
    }

    pub(in crate::replica) fn snapshot_came(&mut self, peer: usize, now: Instant, io: &mut Io<'_>) {
        self.peers[peer].pulling = false;
        let Step::Reading { donor, bytes } = self.join.step else { return };
        let (area, head) = (self.layout.snapshot, self.layout.staging(peer));
        let image = io.memory.image();
        if donor != peer || image[area..area + SNAPSHOT_HEAD] != image[head..head + SNAPSHOT_HEAD] {
            self.join.begin_again();
            return;
        }
        if !self.state.is_plausible(&image[area + SNAPSHOT_HEAD..area + bytes]) {
            self.state.counters.malformed += 1;
            self.join.begin_again();
            return;
        }
        if self.phase == Phase::Lagging {
            self.catch_up(area + SNAPSHOT_HEAD..area + bytes, io);
            return;
        }
        self.state.restore(&io.memory.image()[area + SNAPSHOT_HEAD..area + bytes]);
        self.state.counters.snapshots_taken += 1;
        for (group, state) in self.groups.iter().zip(&mut self.state.groups) {
            // The log does not repeat entries that were already offered to this state machine.
            state.needs = state.needs.max(group.applied());
        }
        self.store_summaries(io.memory);
        self.find_again(io);
        (self.join.step, self.join.since) = (Step::Collecting, now);
    }

    /// Writes the summaries of a snapshot to their places in memory.
    fn store_summaries(&mut self, memory: &mut Memory) {
        for origin in 0..self.parameters.nodes {
            for place in 0..self.layout.slots {
                let summary =
                    Summary { complete: 0, ..self.state.absorbed[origin * self.layout.slots + place] };
                let at = self.layout.summary(origin, place);
                let here = Summary::parse(&memory.image()[at..at + SUMMARY_BYTES]);
                if summary.count > here.map_or(0, |here| here.count) {
                    memory.write(at, &summary.encode());
                }
            }
        }
    }

    /// This replica needs a snapshot for calls that it missed. It keeps its state, because others may rely on
    /// it.
    pub(in crate::replica) fn begin_to_lag(&mut self) {
        self.phase = Phase::Lagging;
        (self.state.joining, self.state.has_snapshot) = (true, false);
        self.groups.iter_mut().for_each(|group| group.set_ineligible(true));
        let misses = self.join.misses;
        self.join.begin_again();
        self.join.misses = misses;
        for peer in self.join.told_by.iter() {
            // The peer has made calls since its old header, by which this replica would seem to lack nothing.
            self.peers[peer.index()].header = None;
        }
    }

    /// Replaces the object by a snapshot and applies the calls in this memory that the snapshot lacks. Only
    /// if the result covers everything that has taken effect here before.
    fn catch_up(&mut self, snapshot: std::ops::Range<usize>, io: &mut Io<'_>) {
        let (groups, entries) = self.state.saved(&io.memory.image()[snapshot.clone()]);
        let before = (self.state.summaries, self.state.entries);
        let suffices =
            self.groups.iter().zip(&self.state.groups).zip(groups).all(|((group, state), included)| {
                included >= state.needs.max(state.included).max(group.applied())
            }) && (0..self.parameters.nodes).all(|origin| {
                (entries[origin] + 1..=before.1[origin])
                    .all(|number| self.entry_in(io.memory, self.layout.entry(origin, number), number))
            });
        if !suffices {
            let misses = self.join.misses;
            self.join.begin_again();
            self.join.misses = misses;
            return;
        }
        self.state.restore(&io.memory.image()[snapshot]);
        self.state.counters.snapshots_taken += 1;
        self.store_summaries(io.memory);
        self.scan(io);
        self.scan_of(self.me(), io);
        for origin in 0..self.parameters.nodes {
            // All summaries that were applied are in memory, whatever another replica's header says.
            self.state.summaries[origin] = self.state.summaries[origin].max(before.0[origin]);
            self.state.tell_absorbed(origin);
        }
        while (0..self.parameters.nodes).any(|origin| self.deliver_next(origin, io.memory)) {}
        for (origin, entries) in before.1.iter().enumerate() {
            assert!(self.state.entries[origin] >= *entries, "what took effect once may take effect again");
        }
        self.catch_up_ends();
    }

    pub(super) fn catch_up_ends(&mut self) {
        self.phase = Phase::Full;
        (self.state.joining, self.state.moved) = (false, true);
        self.groups.iter_mut().for_each(|group| group.set_ineligible(false));
        self.state.groups.iter_mut().for_each(|group| group.blocked = true);
        self.join.told_by = NodeSet::EMPTY;
        self.join.begin_again();
    }

    /// Whether this replica still needs a snapshot. Meanwhile other peers may have sent the calls that it
    /// lacked.
    pub(super) fn lags(&self) -> bool {
        let is_ahead = |peer: weft_waist::NodeId| {
            let peer = peer.index();
            self.peers[peer].header.is_none_or(|header| {
                header.summaries[peer] > self.state.summaries[peer]
                    || header.entries[peer] > self.state.entries[peer]
            })
        };
        self.join.told_by.intersection(self.alive).iter().any(is_ahead)
            || self.join.misses
            || self.state.groups.iter().any(|group| group.included < group.needs)
    }
}
