//! The data connections: how they are requested and granted, and how peers' headers are used.

use weft_smr::link::{State as LinkState, Transfer};
use weft_smr::message::{Granted, Request};
use weft_smr::slot::word;
use weft_time::Instant;
use weft_verbs::AccessFlags;
use weft_waist::{Effects, Io, Memory, NodeSet};

use super::super::parameters::POSTS_MAX;
use super::{ENTRIES, Posted, Stage};
use crate::replica::layout::{HEADER_BYTES, Header};
use crate::replica::message::{DATA, Datagram, Incarnations};
use crate::replica::{Observer, Replica, node};

const READ: AccessFlags = AccessFlags::REMOTE_READ;
const READ_AND_WRITE: AccessFlags = AccessFlags::REMOTE_READ.with(AccessFlags::REMOTE_WRITE);

impl<W: Observer> Replica<W> {
    pub(in crate::replica) fn send(&self, to: usize, datagram: &Datagram, effects: &mut Effects) {
        let mut space = [0; 56];
        let (kind, bytes) = datagram.encode(&mut space);
        effects.send(NodeSet::EMPTY.with(node(to)), kind, &[bytes]);
    }

    /// Requests a connection to a peer. An existing one is closed first.
    pub(in crate::replica) fn connect(&mut self, peer: usize, now: Instant, io: &mut Io<'_>) {
        self.down(peer);
        let wiring = self.wirings[peer].as_ref().expect("a configured replica is wired");
        let request = self.links[peer].ask(now, DATA, wiring, io.effects);
        self.send(peer, &Datagram::Connect(request, self.incarnations), io.effects);
    }

    pub(super) fn down(&mut self, peer: usize) {
        let state = &mut self.peers[peer];
        (state.stage, state.header, state.next) = (Stage::Down, None, [0; 2]);
        (state.reading, state.pulling) = (false, false);
        self.join.lost(peer);
    }

    /// Closes a connection; everything outstanding on it is dropped.
    pub(super) fn disconnect(&mut self, peer: usize, effects: &mut Effects) {
        self.down(peer);
        let wiring = self.wirings[peer].as_ref().expect("a configured replica is wired");
        self.links[peer].release(wiring, effects);
    }

    pub(in crate::replica) fn keep_connected(&mut self, peer: usize, now: Instant, io: &mut Io<'_>) {
        let due = now >= self.links[peer].asked_at + self.parameters.retry;
        if self.links[peer].state != LinkState::Up && due {
            self.connect(peer, now, io);
        } else if self.peers[peer].stage == Stage::Greeting && !self.peers[peer].reading {
            self.greet(peer, io.effects);
        }
    }

    /// A peer requests a connection. This node grants write access only to peers that know of the same
    /// incarnations, and only while this node is a member. So every call that a majority has acknowledged to
    /// such a peer is found by all nodes that join later.
    pub(in crate::replica) fn requested(
        &mut self,
        from: usize,
        request: &Request,
        incarnations: &Incarnations,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        let incarnation = (request.number >> 32) as u32;
        if incarnation != incarnations[from] {
            self.state.counters.malformed += 1;
            return;
        }
        if request.number <= self.peers[from].seen {
            return;
        }
        self.peers[from].seen = request.number;
        self.note_incarnations(incarnations, now, io);
        if incarnation < self.incarnations[from] {
            return;
        }
        if self.incarnations.iter().zip(incarnations).any(|(mine, theirs)| mine > theirs) {
            self.send(from, &Datagram::Incarnations(self.incarnations), io.effects);
            return;
        }
        if !self.is_member() {
            return;
        }
        let respond = self.wirings[from].as_ref().expect("a configured replica is wired").respond;
        if self.peers[from].connection != request.connection {
            self.peers[from].connection = request.connection;
            io.effects.connect(respond, 0, request.psn);
        }
        io.effects.access(respond, READ_AND_WRITE);
        self.peers[from].granted = true;
        let granted = Granted { group: DATA, number: request.number, incarnation: self.state.incarnation };
        self.send(from, &Datagram::Connected(granted, self.incarnations), io.effects);
    }

    pub(in crate::replica) fn granted(
        &mut self,
        from: usize,
        granted: &Granted,
        incarnations: &Incarnations,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        if self.note_incarnations(incarnations, now, io) || granted.incarnation != self.incarnations[from] {
            return;
        }
        if self.links[from].granted(granted.number) {
            self.state.counters.connected += 1;
            self.peers[from].stage = Stage::Greeting;
            self.greet(from, io.effects);
        }
    }

    fn greet(&mut self, peer: usize, effects: &mut Effects) {
        self.peers[peer].reading = true;
        self.post_header(peer, Posted::Greeting, effects);
    }

    fn post_header(&mut self, peer: usize, what: Posted, effects: &mut Effects) {
        let (from, to) = (self.layout.header(), self.layout.inbox(peer));
        self.state.counters.header_reads += 1;
        self.post(peer, what, Transfer::Read { from, to, bytes: HEADER_BYTES }, effects);
    }

    pub(in crate::replica) fn read_header(&mut self, peer: usize, effects: &mut Effects) {
        let state = &mut self.peers[peer];
        if state.stage == Stage::UpToDate && !state.reading && self.links[peer].outstanding() < POSTS_MAX {
            state.reading = true;
            self.post_header(peer, Posted::Header, effects);
        }
    }

    pub(in crate::replica) fn read_headers(&mut self, effects: &mut Effects) {
        for peer in self.others() {
            self.read_header(peer, effects);
        }
    }

    /// Notes newer incarnations, and returns whether there are any. If so, all write permissions are revoked,
    /// and are granted again only to peers that know of these incarnations too.
    pub(in crate::replica) fn note_incarnations(
        &mut self,
        incarnations: &Incarnations,
        now: Instant,
        io: &mut Io<'_>,
    ) -> bool {
        let me = self.me();
        if incarnations[me] > self.incarnations[me] {
            // The host has started a later incarnation of this node elsewhere.
            self.state.is_forked = true;
            return true;
        }
        let mut is_news = false;
        for peer in self.others() {
            if incarnations[peer] > self.incarnations[peer] {
                is_news = true;
                self.incarnations[peer] = incarnations[peer];
                self.peers[peer].acked = [0; 2];
                self.peers[peer].acquainted = false;
            }
        }
        if is_news {
            self.state.counters.fences += 1;
            self.unpublished = true;
            for peer in self.others() {
                let respond = self.wirings[peer].as_ref().expect("a configured replica is wired").respond;
                if std::mem::take(&mut self.peers[peer].granted) {
                    io.effects.access(respond, READ);
                }
                self.connect(peer, now, io);
            }
        }
        is_news
    }

    /// Examines everything that was written before newer incarnations became known. Since then only peers
    /// that know of them can write to this node. So in a later event, all older writes are in memory. They
    /// are applied, or at least counted, before a new incarnation may rely on this node's header.
    pub(in crate::replica) fn look_behind_fence(&mut self, io: &mut Io<'_>) {
        if self.fenced == self.incarnations {
            return;
        }
        self.scan(io);
        for origin in self.others() {
            self.look_into_ring(origin, io);
            self.received[origin] = self.first_missing(origin, io.memory) - 1;
        }
        self.received[self.me()] = self.state.entries[self.me()];
        self.fenced = self.incarnations;
        self.unpublished = true;
    }

    /// A peer's header has arrived. Returns it if it is current.
    pub(super) fn header_came(&mut self, peer: usize, now: Instant, io: &mut Io<'_>) -> Option<Header> {
        self.peers[peer].reading = false;
        self.peers[peer].read_at = now;
        let header = Header::read(io.memory, self.layout.inbox(peer));
        if !header.is_plausible() {
            self.state.counters.malformed += 1;
            self.peers[peer].header = None;
            return None;
        }
        if self.note_incarnations(&header.incarnations, now, io) {
            return None;
        }
        // A peer that does not know of an incarnation yet may still count calls that this incarnation has
        // lost.
        let is_current = header.incarnations == self.incarnations
            && header.incarnation == self.incarnations[peer]
            && header.full;
        if !is_current {
            self.peers[peer].header = None;
            return None;
        }
        self.peers[peer].header = Some(header);
        Some(header)
    }

    /// A new connection's header has arrived: sends the peer the calls that it lacks.
    pub(super) fn greeted(&mut self, peer: usize, now: Instant, io: &mut Io<'_>) {
        let Some(header) = self.header_came(peer, now, io) else { return };
        if !self.is_member() {
            self.peers[peer].stage = Stage::UpToDate;
            return;
        }
        let me = self.me();
        let own = self.own();
        let has = [header.summaries[me], header.entries[me]];
        let of_former_life = header.written[me] < self.state.incarnation;
        let lost = of_former_life
            && self.stream.found_at[peer] != header.incarnation
            && (header.written[me] != 0 && header.written[me] != self.stream.former
                || (0..2).any(|kind| has[kind] > self.stream.begun_behind[kind]));
        if !of_former_life && (0..2).any(|kind| has[kind] > own[kind]) {
            // The peer's header counts calls that this node has not made.
            self.state.counters.malformed += 1;
            return;
        }
        if lost || !self.reaches_back(has, own, io.memory) {
            self.state.counters.outdated_peers += 1;
            // From now on its lack of room counts; otherwise it could never come into step.
            self.peers[peer].acquainted = true;
            let incarnation = self.incarnations[peer];
            self.send(peer, &Datagram::Outdated { incarnation, forked: lost }, io.effects);
            return;
        }
        let state = &mut self.peers[peer];
        (state.stage, state.acquainted) = (Stage::UpToDate, true);
        state.next = has.map(|has| has + 1);
        for (acked, has) in state.acked.iter_mut().zip(has) {
            *acked = has.max(*acked);
        }
        self.pump(peer, io);
        self.commit();
    }

    /// Whether a peer that has `has` calls of this node can be sent the others, up to `own`.
    pub(in crate::replica) fn reaches_back(&self, has: [u64; 2], own: [u64; 2], memory: &Memory) -> bool {
        (0..2).all(|kind| own[kind] - has[kind].min(own[kind]) <= self.parameters.ring)
            && self.has_entries(has[ENTRIES] + 1, memory)
    }

    /// Whether this node's own ring still holds its entries from `number` on.
    fn has_entries(&self, number: u64, memory: &Memory) -> bool {
        let me = self.me();
        number > self.state.entries[me] || word(memory.image(), self.layout.entry(me, number)) == number
    }
}
