//! This node's own non-conflicting calls: sending them, and counting acknowledgements.

mod connections;

use std::collections::VecDeque;

use weft_smr::Delivery;
use weft_smr::link::{Ended, Transfer, tag};
use weft_time::Instant;
use weft_verbs::CompletionStatus;
use weft_waist::{Caller, Effects, Io};

use super::layout::{Entry, Header, SUMMARY_BYTES, Summary};
use super::message::{CALL_ENTRY, CALL_SUMMARY, DATA, Incarnations, Status};
use super::observer::Observer;
use super::parameters::{POSTS_MAX, Path, PlantedBug, ReplicaParameters, Summaries};
use super::vector::Vector;
use super::{Replica, Waiting};
use crate::object::Arguments;

/// The most outstanding work requests on a data connection that carry own calls.
const UPDATES_MAX: usize = 48;

/// Indices of a node's two streams of own calls, which are numbered separately.
pub(crate) const SUMMARIES: usize = 0;
pub(crate) const ENTRIES: usize = 1;

/// Purpose of a work request on a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// READ of the header of a newly connected peer. Afterwards own calls are sent to it.
    Greeting,
    /// READ of a peer's header.
    Header,
    /// WRITE of this node's summary with this count.
    Summary(u64),
    /// WRITE of this node's ring entry with this number.
    Entry(u64),
    /// READ of `entries` ring entries of an origin, from number `first` on.
    Ring { origin: usize, first: u64, entries: u64 },
    /// READ of `places` summaries of an origin, from place `first` on. When all of its summaries have
    /// arrived, its first `complete` calls have.
    Summaries { origin: usize, first: usize, places: usize, complete: u64 },
    /// READ of a part of a snapshot, up to offset `end`.
    Snapshot { end: usize },
    /// READ of `entries` ring entries of an origin, from number `first` on, that belong to a snapshot.
    SnapshotRing { origin: usize, first: u64, entries: u64 },
    /// READ of the snapshot's head once more, to see that it has not changed.
    SnapshotEnd,
}

/// State of the data connection to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no connection.
    #[default]
    Down,
    /// The connection is established. The peer's header is being read, or is to be read again.
    Greeting,
    /// New calls are sent to the peer as they are made.
    UpToDate,
}

/// What a node knows of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    pub stage: Stage,
    /// For each stream of own calls: the next number to send, and the number up to which the peer, in its
    /// present incarnation, has acknowledged.
    pub next: [u64; 2],
    acked: [u64; 2],
    /// Whether the peer was in step before, in its present incarnation.
    acquainted: bool,
    /// The peer's header, if it was read when both nodes knew of the present incarnations.
    pub header: Option<Header>,
    pub reading: bool,
    pub read_at: Instant,
    /// The highest number among the peer's connection requests.
    seen: u64,
    connection: u64,
    granted: bool,
    /// Whether calls are being copied from the peer.
    pub pulling: bool,
}

/// This node's own non-conflicting calls.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    waiting: [Waiting; 2],
    committed: [u64; 2],
    /// Entries that are not sent before a majority has their dependencies, by number.
    held: VecDeque<(u64, Vector)>,
    /// For each stream, how many calls of former incarnations this node found when it joined; the latest of
    /// these incarnations; and, by peer, the incarnation in which it was read.
    pub begun_behind: [u64; 2],
    pub former: u32,
    pub found_at: Incarnations,
}

impl Stream {
    pub fn new(parameters: &ReplicaParameters) -> Self {
        let room = || VecDeque::with_capacity(parameters.window);
        Self {
            waiting: [room(), room()],
            committed: [0; 2],
            held: VecDeque::with_capacity(parameters.window.max(1)),
            begun_behind: [0; 2],
            former: 0,
            found_at: [0; weft_smr::NODES_MAX],
        }
    }

    /// Whether no entry waits until its dependencies are stable.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Notes that the caller waits until a majority has the first `number` calls of a stream.
    pub fn wait(&mut self, kind: usize, number: u64, caller: Caller, sequence: u32) {
        self.waiting[kind].push_back((number, caller, sequence));
    }

    /// Number of updates that are not answered yet.
    pub fn waiting(&self) -> usize {
        // Under the local rule no update waits for an answer, but entries may wait to be sent.
        self.waiting.iter().map(VecDeque::len).sum::<usize>().max(self.held.len())
    }
}

impl<W: Observer> Replica<W> {
    fn own(&self) -> [u64; 2] {
        let me = self.me();
        [self.state.summaries[me], self.state.entries[me]]
    }

    /// Whether all peers that count have room for another own call. These are the live peers, and others that
    /// have kept up so far.
    pub(super) fn has_room(&mut self, path: Path, io: &mut Io<'_>) -> bool {
        let (me, ring) = (self.me(), self.parameters.ring);
        let mut own = self.own();
        // Calls that are still being folded have no numbers yet, but will need one slot each.
        own[SUMMARIES] += self.fold.calls();
        let kind = if path == Path::Summary { SUMMARIES } else { ENTRIES };
        // A call must stay in the ring until a majority has it; otherwise there might be no node left that
        // could send it to a rejoining one. This also applies under `CommitRule::Local`: without it, nodes in
        // different partitions could run so far ahead that each lacks some calls and none has all.
        let mut has_room = own[kind] - self.stream.committed[kind].min(own[kind]) < ring;
        for peer in self.others() {
            let state = &self.peers[peer];
            if state.stage != Stage::UpToDate && !(self.is_alive(peer) && state.acquainted) {
                continue;
            }
            let consumed = match kind {
                SUMMARIES => state.acked[kind],
                _ => state.header.map_or(0, |header| header.entries[me]),
            };
            if own[kind] - consumed.min(own[kind]) > ring / 2 && kind == ENTRIES {
                self.read_header(peer, io.effects);
            }
            if own[kind] - consumed.min(own[kind]) >= ring {
                if self.is_alive(peer) {
                    has_room = false;
                } else {
                    self.disconnect(peer, io.effects);
                }
            }
        }
        has_room
    }

    /// Applies an own call, and writes it into the ring.
    pub(super) fn enqueue(
        &mut self,
        method: usize,
        arguments: &Arguments,
        sequence: u32,
        waits: Option<Caller>,
        io: &mut Io<'_>,
    ) {
        let me = self.me();
        if self.state.requires[method].summaries {
            self.close_fold(io);
        }
        let depends = self.state.vector(method);
        let state = &mut self.state;
        state.apply_own(sequence, method, arguments);
        state.entries[me] += 1;
        state.written[me] = state.incarnation;
        let number = state.entries[me];
        let entry = Entry {
            number,
            origin: me as u8,
            method: method as u8,
            incarnation: state.incarnation,
            sequence,
            arguments: *arguments,
            depends,
        };
        state.counters.enqueued += 1;
        let at = self.layout.entry(me, number);
        let mut bytes = [0; 512];
        let bytes = &mut bytes[..self.layout.entry_bytes()];
        entry.write(bytes, &self.layout);
        io.memory.write(at, bytes);
        if !self.is_stable(&depends, false) {
            self.state.counters.held += 1;
            self.stream.held.push_back((number, depends));
            self.read_headers(io.effects);
        }
        if let Some(caller) = waits {
            self.stream.waiting[ENTRIES].push_back((number, caller, sequence));
        }
    }

    /// Whether a majority has all calls of the vector, so that they cannot be lost. `own`: this node's own
    /// calls are counted as well. They need not be if the call that depends on them is sent on the same
    /// connections.
    pub(super) fn is_stable(&self, vector: &Vector, own: bool) -> bool {
        if self.parameters.planted(PlantedBug::UnstableDependencies) {
            return true;
        }
        (0..self.parameters.nodes).all(|origin| {
            let needs = [u64::from(vector.summaries[origin]), u64::from(vector.entries[origin])];
            if needs == [0, 0] {
                return true;
            }
            if origin == self.me() {
                return !own || (0..2).all(|kind| self.stream.committed[kind] >= needs[kind]);
            }
            let has = |peer: &usize| {
                let header = self.peers[*peer].header;
                let written_now = self.state.written[origin] == self.incarnations[origin];
                (*peer == origin && written_now)
                    || header.is_some_and(|header| {
                        header.summaries[origin] >= needs[SUMMARIES]
                            && header.entries[origin] >= needs[ENTRIES]
                    })
            };
            1 + self.others().filter(has).count() >= self.parameters.majority()
        })
    }

    /// Sends entries that were held back, if their dependencies are stable now.
    pub(super) fn release(&mut self, io: &mut Io<'_>) {
        let before = self.stream.held.len();
        while let Some((_, vector)) = self.stream.held.front()
            && self.is_stable(vector, false)
        {
            self.stream.held.pop_front();
        }
        if self.stream.held.len() < before {
            self.send_all(io);
        }
        if !self.stream.held.is_empty() {
            self.read_headers(io.effects);
        }
    }

    pub(super) fn send_all(&mut self, io: &mut Io<'_>) {
        for peer in self.others() {
            self.pump(peer, io);
        }
        self.commit();
    }

    /// Sends a peer the calls that it lacks.
    pub(super) fn pump(&mut self, peer: usize, io: &mut Io<'_>) {
        // A joining node sends nothing before it knows which calls the peer has.
        if self.peers[peer].stage != Stage::UpToDate || self.peers[peer].next == [0; 2] {
            return;
        }
        let me = self.me();
        let own = if self.is_member() { self.own() } else { self.join.found };
        let may_call = |by_rpc: bool, kind: u8| by_rpc.then_some(u32::from(kind));
        while self.peers[peer].next[SUMMARIES] <= own[SUMMARIES] {
            if self.links[peer].outstanding() >= UPDATES_MAX {
                return;
            }
            let count = self.peers[peer].next[SUMMARIES];
            self.peers[peer].next[SUMMARIES] += 1;
            let from = self.layout.outgoing(count);
            let image = &io.memory.image()[from..from + SUMMARY_BYTES];
            // If the slot of a former incarnation's call was written again, that call has no summary of its
            // own any more.
            let Some(summary) = Summary::parse(image).filter(|summary| summary.count == count) else {
                continue;
            };
            let Some(place) = self.place_of(&summary) else { continue };
            let to = self.layout.summary(me, place);
            let call = may_call(self.parameters.summaries == Summaries::Rpc, CALL_SUMMARY);
            let transfer = Transfer::Write { from, to, bytes: SUMMARY_BYTES, call };
            self.post(peer, Posted::Summary(count), transfer, io.effects);
        }
        let last = self.stream.held.front().map_or(own[ENTRIES], |(number, _)| number - 1);
        while self.peers[peer].next[ENTRIES] <= last && self.links[peer].outstanding() < UPDATES_MAX {
            let number = self.peers[peer].next[ENTRIES];
            self.peers[peer].next[ENTRIES] += 1;
            let at = self.layout.entry(me, number);
            let call = may_call(self.parameters.entries == Delivery::WriteThrough, CALL_ENTRY);
            let transfer = Transfer::Write { from: at, to: at, bytes: self.layout.entry_bytes(), call };
            self.post(peer, Posted::Entry(number), transfer, io.effects);
        }
    }

    pub(super) fn post(&mut self, peer: usize, what: Posted, transfer: Transfer, effects: &mut Effects) {
        let wiring = self.wirings[peer].as_ref().expect("a configured replica is wired");
        assert!(self.links[peer].outstanding() < POSTS_MAX, "what is posted is bounded");
        self.links[peer].post(what, transfer, tag(DATA, peer), wiring, effects);
    }

    /// Counts acknowledgements: calls that a majority has are committed, and answered.
    fn commit(&mut self) {
        let own = self.own();
        let majority = match self.parameters.planted(PlantedBug::AnswerBeforeMajority) {
            true => 1,
            false => self.parameters.majority(),
        };
        for kind in [SUMMARIES, ENTRIES] {
            let mut acked = [0; weft_smr::NODES_MAX];
            acked[0] = own[kind];
            for (place, peer) in self.others().enumerate() {
                acked[place + 1] = self.peers[peer].acked[kind];
            }
            let acked = &mut acked[..self.parameters.nodes];
            acked.sort_unstable_by(|one, other| other.cmp(one));
            self.stream.committed[kind] = self.stream.committed[kind].max(acked[majority - 1]);
            let committed = self.stream.committed[kind];
            while let Some(&(number, caller, sequence)) = self.stream.waiting[kind].front()
                && number <= committed
            {
                self.stream.waiting[kind].pop_front();
                self.state.answer(caller, sequence, Status::Done);
            }
        }
    }

    /// A work request to a peer has completed.
    pub(super) fn posted_ended(
        &mut self,
        peer: usize,
        tag: u64,
        status: CompletionStatus,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        let what = match self.links[peer].done(tag, status) {
            Ended::Done(what) => what,
            Ended::Failed => {
                self.state.counters.failures += 1;
                self.down(peer);
                return;
            }
            Ended::Stale => return,
        };
        match what {
            Posted::Greeting => self.greeted(peer, now, io),
            Posted::Header => {
                if let Some(header) = self.header_came(peer, now, io) {
                    self.pull(peer, &header, io);
                    self.state.moved = true;
                }
            }
            Posted::Summary(count) => self.acked(peer, SUMMARIES, count, io),
            Posted::Entry(number) => self.acked(peer, ENTRIES, number, io),
            Posted::Ring { origin, first, entries } => self.ring_pulled(peer, origin, first, entries, io),
            Posted::Summaries { origin, first, places, complete } => {
                self.summaries_pulled(peer, origin, first, places, complete, io);
            }
            Posted::Snapshot { end } => self.snapshot_part_came(peer, end, now, io),
            Posted::SnapshotRing { origin, first, entries } => {
                self.snapshot_ring_came(peer, origin, first, entries, now, io);
            }
            Posted::SnapshotEnd => self.snapshot_came(peer, now, io),
        }
    }

    fn acked(&mut self, peer: usize, kind: usize, number: u64, io: &mut Io<'_>) {
        let state = &mut self.peers[peer];
        if state.acked[kind] < number {
            state.acked[kind] = number;
            let before = self.stream.committed;
            self.commit();
            // A leader may wait until its own calls are stable.
            self.state.moved |= before != self.stream.committed && !self.queues.is_empty();
        }
        self.pump(peer, io);
    }
}
