//! Copying calls of an origin from other replicas.

use weft_smr::link::Transfer;
use weft_smr::slot::word;
use weft_time::Instant;
use weft_waist::{Io, Memory};

use super::Step;
use crate::replica::layout::{Entry, Header, STAGE_BYTES, SUMMARY_BYTES, Summary};
use crate::replica::parameters::PlantedBug;
use crate::replica::stream::Posted;
use crate::replica::{Observer, Phase, Replica, node};

impl<W: Observer> Replica<W> {
    /// Reads the peers' headers to find calls of dead origins that this node lacks, because all live replicas
    /// must get the calls that any of them has.
    pub(in crate::replica) fn look_after_the_dead(&mut self, now: Instant, io: &mut Io<'_>) {
        let waits = !self.stream.is_idle() || self.queues.iter().any(|queue| !queue.is_idle());
        self.state.moved |= waits;
        if self.parameters.planted(PlantedBug::NotUniform) || self.others().all(|peer| self.is_alive(peer)) {
            return;
        }
        for peer in self.others() {
            let due = now >= self.peers[peer].read_at + self.parameters.retry;
            if due && self.is_alive(peer) && !self.peers[peer].pulling {
                self.read_header(peer, io.effects);
            }
        }
    }

    /// The number of the first entry of a ring that is not in this node's memory.
    pub(in crate::replica) fn first_missing(&self, origin: usize, memory: &Memory) -> u64 {
        let mut number = self.state.entries[origin] + 1;
        while self.entry_in(memory, self.layout.entry(origin, number), number) {
            number += 1;
        }
        number
    }

    pub(super) fn entry_in(&self, memory: &Memory, at: usize, number: u64) -> bool {
        let bytes = &memory.image()[at..at + self.layout.entry_bytes()];
        Entry::parse(bytes, number, &self.layout).is_some()
    }

    /// Copies calls that a peer has and this node lacks, according to the peer's header that has just
    /// arrived.
    pub(in crate::replica) fn pull(&mut self, peer: usize, header: &Header, io: &mut Io<'_>) {
        let is_joining = self.phase == Phase::Joining;
        if is_joining && self.join.step != Step::Collecting || self.peers[peer].pulling {
            return;
        }
        if is_joining && !self.join.targeted.contains(node(peer)) {
            self.join.targeted = self.join.targeted.with(node(peer));
            for origin in 0..self.parameters.nodes {
                let [summaries, entries] = &mut self.join.targets;
                summaries[origin] = summaries[origin].max(header.summaries[origin]);
                entries[origin] = entries[origin].max(header.received[origin]).max(header.entries[origin]);
            }
            self.join.former = self.join.former.max(header.written[self.me()]);
        }
        for origin in 0..self.parameters.nodes {
            let is_dead = origin != self.me() && origin != peer && !self.is_alive(origin);
            if !(is_joining || is_dead) {
                continue;
            }
            if header.summaries[origin] > self.state.summaries[origin] && self.layout.slots > 0 {
                self.peers[peer].pulling = true;
                self.pull_summaries(peer, origin, 0, header.summaries[origin], io);
                return;
            }
            let first = self.first_missing(origin, io.memory);
            let last = header.entries[origin].max(header.received[origin]);
            if first <= last {
                // If the slot holds a later entry, this one was overwritten before it took effect here.
                let here = word(io.memory.image(), self.layout.entry(origin, first));
                if here > first && !is_joining {
                    self.state.is_behind = true;
                    return;
                }
                self.peers[peer].pulling = true;
                let entries = self.layout.piece(first, last - first + 1);
                let bytes = entries as usize * self.layout.entry_bytes();
                let (from, to) = (self.layout.entry(origin, first), self.layout.staging(peer));
                let what = Posted::Ring { origin, first, entries };
                self.post(peer, what, Transfer::Read { from, to, bytes }, io.effects);
                return;
            }
        }
    }

    fn pull_summaries(&mut self, peer: usize, origin: usize, first: usize, complete: u64, io: &mut Io<'_>) {
        let places = (self.layout.slots - first).min(STAGE_BYTES / SUMMARY_BYTES);
        let (from, to) = (self.layout.summary(origin, first), self.layout.staging(peer));
        let what = Posted::Summaries { origin, first, places, complete };
        let transfer = Transfer::Read { from, to, bytes: places * SUMMARY_BYTES };
        self.post(peer, what, transfer, io.effects);
    }

    pub(in crate::replica) fn ring_pulled(
        &mut self,
        peer: usize,
        origin: usize,
        first: u64,
        entries: u64,
        io: &mut Io<'_>,
    ) {
        self.peers[peer].pulling = false;
        for place in 0..entries {
            let number = first + place;
            let from = self.layout.staging(peer) + place as usize * self.layout.entry_bytes();
            if !self.entry_in(io.memory, from, number) {
                self.state.counters.pull_misses += 1;
                // The peer has the entries only as part of its state, because it took a snapshot itself.
                match self.phase {
                    Phase::Joining => self.join.begin_again(),
                    _ if number > self.state.entries[origin] => {
                        (self.state.is_behind, self.join.misses) = (true, true);
                    }
                    _ => {}
                }
                return;
            }
            if number > self.state.entries[origin] && self.keep_entry(origin, number, from, io.memory) {
                self.state.counters.pulled_entries += 1;
            }
        }
        self.state.moved = true;
        self.pull_on(peer, io);
    }

    fn pull_on(&mut self, peer: usize, io: &mut Io<'_>) {
        if let Some(header) = self.peers[peer].header {
            // First delivers the calls that have arrived, because the ring has a fixed size.
            for origin in self.others() {
                self.deliver_ring(origin, io.memory);
            }
            let me = self.me();
            self.deliver_ring(me, io.memory);
            self.pull(peer, &header, io);
        }
    }

    pub(in crate::replica) fn summaries_pulled(
        &mut self,
        peer: usize,
        origin: usize,
        first: usize,
        places: usize,
        complete: u64,
        io: &mut Io<'_>,
    ) {
        for place in first..first + places {
            let from = self.layout.staging(peer) + (place - first) * SUMMARY_BYTES;
            let to = self.layout.summary(origin, place);
            let image = io.memory.image();
            let Some(summary) = Summary::parse(&image[from..from + SUMMARY_BYTES]) else { continue };
            let here = Summary::parse(&image[to..to + SUMMARY_BYTES]).map_or(0, |summary| summary.count);
            if usize::from(summary.origin) != origin {
                self.state.counters.malformed += 1;
                continue;
            }
            // Other summaries of the same origin may still be missing, so this one does not count as
            // complete.
            let summary = Summary { complete: 0, ..summary };
            if summary.count > here {
                io.memory.write(to, &summary.encode());
                self.state.counters.pulled_summaries += 1;
            }
            self.take_in(&summary);
        }
        let next = first + places;
        if next < self.layout.slots {
            self.pull_summaries(peer, origin, next, complete, io);
            return;
        }
        self.state.complete(origin, complete);
        self.state.tell_absorbed(origin);
        self.peers[peer].pulling = false;
        self.state.moved = true;
        self.pull_on(peer, io);
    }
}
