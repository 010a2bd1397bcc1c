//! What others have and this replica lacks: of origins that are dead, and all of it while it joins.

use weft_smr::NODES_MAX;
use weft_smr::link::Transfer;
use weft_smr::slot::word;
use weft_time::Instant;
use weft_waist::{Io, Memory, NodeSet};

use super::layout::{Entry, Header, SNAPSHOT_HEAD, STAGE_BYTES, SUMMARY_BYTES, Summary, put};
use super::message::Datagram;
use super::parameters::PlantedBug;
use super::stream::{ENTRIES, Posted, SUMMARIES, Stage};
use super::witness::Witness;
use super::{Phase, Replica, node};

/// What is read of a snapshot at a time.
const PART_BYTES: usize = 16 * 1024;
/// So many retries a step of joining may take.
const PATIENCE: u64 = 8;
/// A snapshot lies ready for so many retries.
const GIVING: u64 = 50;

/// How far a node is that joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// It connects to a majority of those that are full.
    #[default]
    Connecting,
    /// It has asked one of them for a snapshot.
    Asked { donor: usize },
    /// It reads the snapshot.
    Reading { donor: usize, bytes: usize },
    /// It takes from each of them what goes beyond the snapshot.
    Collecting,
}

/// Joining, and helping others to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Join {
    step: Step,
    donor: usize,
    attempt: u64,
    since: Instant,
    /// By origin: what it must have before it serves.
    targets: [[u64; NODES_MAX]; 2],
    /// Those whose headers are in the targets.
    targeted: NodeSet,
    /// The life of this node's that had written last.
    former: u32,
    /// So many own calls of former lives are sent to others while this node joins. They are in its memory, and it is not full before
    /// they are in its state.
    pub found: [u64; 2],
    /// Peers that cannot send what this node lacks of their calls.
    pub told_by: NodeSet,
    /// A peer did not have the entries that it says to have had.
    misses: bool,
    /// To whom the snapshot in this node's memory was given, and when.
    giving: Option<(usize, u64, usize, Instant)>,
}

impl Join {
    /// What was found so far is of no use.
    pub fn begin_again(&mut self) {
        (self.step, self.targeted, self.misses) = (Step::Connecting, NodeSet::EMPTY, false);
        self.targets = [[0; NODES_MAX]; 2];
    }

    /// The connection to a peer is lost.
    pub fn lost(&mut self, peer: usize) {
        self.targeted = self.targeted.without(node(peer));
        if matches!(self.step, Step::Asked { donor } | Step::Reading { donor, .. } if donor == peer) {
            self.step = Step::Connecting;
        }
    }
}

impl<W: Witness> Replica<W> {
    /// Full peers that this node can read from, all of which have taken its former life's permissions back.
    fn sources(&self) -> NodeSet {
        let is_source = |peer: &usize| {
            let state = &self.peers[*peer];
            state.stage == Stage::InStep && state.header.is_some()
        };
        self.others().filter(is_source).map(node).collect()
    }

    /// A node that joins goes on.
    pub(super) fn keep_joining(&mut self, now: Instant, io: &mut Io<'_>) {
        let waited = now >= self.join.since + self.parameters.retry * PATIENCE;
        if self.phase == Phase::Lagging && !self.lags() {
            self.catch_up_ends();
            return;
        }
        match self.join.step {
            Step::Connecting => {
                if self.phase == Phase::Lagging {
                    self.read_headers(io.effects);
                }
                let sources = self.sources();
                let enough = match self.parameters.planted(PlantedBug::HastyJoin) {
                    true => 1,
                    false if self.phase == Phase::Lagging => 1,
                    false => self.parameters.majority(),
                };
                if sources.len() < enough {
                    return;
                }
                self.join.donor += 1;
                let donor = sources.nth(self.join.donor % sources.len()).expect("it is one of them").index();
                self.join.attempt += 1;
                (self.join.step, self.join.since) = (Step::Asked { donor }, now);
                // From now on no group goes on: what is applied meanwhile the snapshot may lack.
                self.state.has_snapshot = false;
                let incarnation = self.state.incarnation;
                self.send(donor, &Datagram::Ask { incarnation, attempt: self.join.attempt }, io.effects);
            }
            Step::Asked { .. } | Step::Reading { .. } if waited => self.join.begin_again(),
            Step::Asked { .. } | Step::Reading { .. } => {}
            Step::Collecting => {
                for peer in self.others() {
                    if !self.peers[peer].pulling {
                        self.read_header(peer, io.effects);
                    }
                }
                self.consider(now, io);
                self.pass_on(io);
                let lags = self.state.groups.iter().any(|group| group.included < group.needs);
                if waited && lags && self.phase == Phase::Joining {
                    self.join.begin_again();
                }
            }
        }
    }

    /// It knows what a majority of full nodes had after they knew of its life: whatever was answered before is in that.
    fn has_heard_enough(&self) -> bool {
        let enough = match self.parameters.planted(PlantedBug::HastyJoin) {
            true => 1,
            false => self.parameters.majority(),
        };
        let targeted = self.join.targeted;
        let waits_for = self.sources().intersection(self.alive);
        targeted.len() >= enough && waits_for.iter().all(|peer| targeted.contains(peer))
    }

    /// It has all of that.
    fn consider(&mut self, now: Instant, io: &mut Io<'_>) {
        let targeted = self.join.targeted;
        let has_all = (0..self.parameters.nodes).all(|origin| {
            self.state.summaries[origin] >= self.join.targets[SUMMARIES][origin]
                && self.state.entries[origin] >= self.join.targets[ENTRIES][origin]
        });
        let is_ordered = self.groups.iter().all(|group| group.takes_part())
            && self.state.groups.iter().all(|group| group.included >= group.needs);
        let me = self.me();
        let own = [self.state.summaries[me], self.state.entries[me]];
        let has_found = (0..2).all(|kind| own[kind] >= self.join.found[kind]);
        if !has_all || !has_found || !is_ordered || !self.has_heard_enough() {
            return;
        }
        (self.stream.begun_behind, self.stream.former) = (own, self.join.former);
        for peer in targeted.iter().map(weft_waist::NodeId::index) {
            self.stream.found_at[peer] = self.lives[peer];
        }
        self.restore_outgoing(own[SUMMARIES], io.memory);
        (self.phase, self.state.joining) = (Phase::Full, false);
        self.groups.iter_mut().for_each(|group| group.stand_aside(false));
        self.unpublished = true;
        self.state.moved = true;
        // From now on it sends what it knows of its own calls to those that lack some.
        for peer in self.others() {
            self.connect(peer, now, io);
        }
    }

    /// Sends others what this node has found of its own calls. Nobody else passes these on while it lives, and without them a log may
    /// stand still that has to go on before it takes this node in. Were others to copy them from each other instead, they could take in
    /// what this node did not find, and will not continue.
    fn pass_on(&mut self, io: &mut Io<'_>) {
        let me = self.me();
        let found = [self.state.summaries[me], self.join.targets[ENTRIES][me]];
        let has_them = found[SUMMARIES] >= self.join.targets[SUMMARIES][me]
            && self.first_missing(me, io.memory) > found[ENTRIES];
        if self.phase != Phase::Joining || !has_them || !self.has_heard_enough() {
            return;
        }
        if found[SUMMARIES] > self.join.found[SUMMARIES] {
            self.restore_outgoing(found[SUMMARIES], io.memory);
        }
        for (passed, found) in self.join.found.iter_mut().zip(found) {
            *passed = found.max(*passed);
        }
        for peer in self.join.targeted.iter().map(weft_waist::NodeId::index) {
            let Some(header) = self.peers[peer].header else { continue };
            let has = [header.summaries[me], header.entries[me]];
            if self.reaches_back(has, self.join.found, io.memory) {
                let next = &mut self.peers[peer].next;
                *next = std::array::from_fn(|kind| next[kind].max(has[kind] + 1));
                self.pump(peer, io);
            }
        }
    }

    /// The state has become another's, which may lack own calls that were sent to others already.
    fn find_again(&mut self, io: &mut Io<'_>) {
        let me = self.me();
        if self.join.found[SUMMARIES] > 0 {
            self.scan_of(me, io);
            self.state.complete(me, self.join.found[SUMMARIES]);
            self.state.tell_absorbed(me);
        }
        self.deliver_ring(me, io.memory);
    }

    /// This node's own summaries of former lives, to be sent again. Only with the latest of them all others have come.
    fn restore_outgoing(&mut self, latest: u64, memory: &mut Memory) {
        let first = self.me() * self.layout.slots;
        for summary in &mut self.state.absorbed[first..first + self.layout.slots] {
            if summary.count > 0 {
                summary.complete = if summary.count == latest { latest } else { 0 };
                memory.write(self.layout.outgoing(summary.count), &summary.encode());
            }
        }
    }

    // Snapshots.

    pub(super) fn give_snapshot(
        &mut self,
        from: usize,
        incarnation: u32,
        attempt: u64,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        if self.phase != Phase::Full || incarnation != self.lives[from] || incarnation != self.peer_life(from)
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

    fn peer_life(&self, peer: usize) -> u32 {
        self.fenced[peer]
    }

    pub(super) fn snapshot_is_ready(
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

    pub(super) fn snapshot_part_came(&mut self, peer: usize, end: usize, now: Instant, io: &mut Io<'_>) {
        let Step::Reading { donor, bytes } = self.join.step else { return };
        if donor != peer {
            return;
        }
        if end < bytes {
            self.read_part(peer, end, bytes, io);
        } else if self.peers[peer].pulling {
            // The staging area is taken.
            self.join.begin_again();
        } else {
            self.peers[peer].pulling = true;
            self.read_rings(peer, 0, 0, now, io);
        }
    }

    /// Reads the donor's ring entries that are in the snapshot, from one of an origin on: what this replica has, it can pass on.
    /// Otherwise two that have taken snapshots could each lack what the other has in its state alone.
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
        // If the snapshot was given to another one meanwhile, its head has changed.
        let (from, to) = (self.layout.snapshot, self.layout.staging(donor));
        let transfer = Transfer::Read { from, to, bytes: SNAPSHOT_HEAD };
        self.post(donor, Posted::SnapshotEnd, transfer, io.effects);
    }

    pub(super) fn snapshot_ring_came(
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

    /// Puts a copy of a ring's entry where it belongs, if it is one and nothing later is there: what its origin has begun to write
    /// may be there in part, or it has come back and gone on meanwhile.
    fn keep_entry(&self, origin: usize, number: u64, from: usize, memory: &mut Memory) -> bool {
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

    pub(super) fn snapshot_came(&mut self, peer: usize, now: Instant, io: &mut Io<'_>) {
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
            // What the log was asked for already it does not tell again.
            state.needs = state.needs.max(group.applied());
        }
        self.store_summaries(io.memory);
        self.find_again(io);
        (self.join.step, self.join.since) = (Step::Collecting, now);
    }

    /// What came with a snapshot is put where others look for it.
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

    /// This replica lacks what it can only get with a snapshot. It keeps what it has: others may rely on it.
    pub(super) fn begin_to_lag(&mut self) {
        self.phase = Phase::Lagging;
        (self.state.joining, self.state.has_snapshot) = (true, false);
        self.groups.iter_mut().for_each(|group| group.stand_aside(true));
        let misses = self.join.misses;
        self.join.begin_again();
        self.join.misses = misses;
        for peer in self.join.told_by.iter() {
            // It has gone on since: from what was read before it would seem that nothing is lacking.
            self.peers[peer.index()].header = None;
        }
    }

    /// The object becomes what another one was, and then again what is in this memory beyond that: if that is no less than what
    /// it was here before.
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
            // All that was taken in is in memory, whatever it says of what else has come.
            self.state.summaries[origin] = self.state.summaries[origin].max(before.0[origin]);
            self.state.tell_absorbed(origin);
        }
        while (0..self.parameters.nodes).any(|origin| self.deliver_next(origin, io.memory)) {}
        for (origin, entries) in before.1.iter().enumerate() {
            assert!(self.state.entries[origin] >= *entries, "what took effect once may take effect again");
        }
        self.catch_up_ends();
    }

    fn catch_up_ends(&mut self) {
        self.phase = Phase::Full;
        (self.state.joining, self.state.moved) = (false, true);
        self.groups.iter_mut().for_each(|group| group.stand_aside(false));
        self.state.groups.iter_mut().for_each(|group| group.blocked = true);
        self.join.told_by = NodeSet::EMPTY;
        self.join.begin_again();
    }

    /// Whether somebody is known to have what this replica can only get with a snapshot: others may have sent the rest since.
    fn lags(&self) -> bool {
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

    // Copying.

    /// What only some have of a dead origin's calls, all who are alive are to have.
    pub(super) fn look_after_the_dead(&mut self, now: Instant, io: &mut Io<'_>) {
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

    /// The first entry of a ring that this node has not got.
    pub(super) fn first_missing(&self, origin: usize, memory: &Memory) -> u64 {
        let mut number = self.state.entries[origin] + 1;
        while self.entry_in(memory, self.layout.entry(origin, number), number) {
            number += 1;
        }
        number
    }

    fn entry_in(&self, memory: &Memory, at: usize, number: u64) -> bool {
        let bytes = &memory.image()[at..at + self.layout.entry_bytes()];
        Entry::parse(bytes, number, &self.layout).is_some()
    }

    /// Copies from a peer, whose header has come, what it has and this node lacks.
    pub(super) fn pull(&mut self, peer: usize, header: &Header, io: &mut Io<'_>) {
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
                // What stands there instead is later, if anything: it was written over before it took effect here.
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

    pub(super) fn ring_pulled(
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
                // It has them only in its state: it took a snapshot, too.
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
            // What has come is delivered first: the ring has no more room than it has.
            for origin in self.others() {
                self.deliver_ring(origin, io.memory);
            }
            let me = self.me();
            self.deliver_ring(me, io.memory);
            self.pull(peer, &header, io);
        }
    }

    pub(super) fn summaries_pulled(
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
            // Others of the same origin may be missing yet.
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

#[cfg(test)]
mod tests {
    use weft_smr::StateMachine;
    use weft_waist::Effects;

    use super::*;
    use crate::object::Arguments;
    use crate::replica::ReplicaParameters;
    use crate::replica::state::{Machine, Ordered, Vector, What};
    use crate::{Bounds, Type};

    /// What a group applied while a second snapshot is on its way that snapshot may lack. The log does not tell it again, so a third one would
    /// be needed, and meanwhile another group would go on.
    #[test]
    fn no_group_goes_on_while_another_snapshot_is_on_its_way() {
        let kind = Type::shipped("movie", &Bounds::uniform(4)).unwrap();
        let mut replica: Replica = Replica::new(ReplicaParameters::new(kind, 3));
        let mut memory = Memory::new(replica.parameters.memory_bytes());
        replica.phase = Phase::Joining;
        (replica.state.joining, replica.state.has_snapshot) = (true, true);
        for peer in replica.others() {
            (replica.peers[peer].stage, replica.peers[peer].header) =
                (Stage::InStep, Some(Header::default()));
        }
        let goes_on = |replica: &mut Replica, index: u64| {
            let entry = Ordered {
                what: What::Term,
                origin: 1,
                method: 0,
                incarnation: 1,
                number: 0,
                term: 0,
                sequence: 0,
                arguments: Arguments::default(),
                depends: Vector::default(),
            };
            let mut bytes = [0; Ordered::BYTES_MAX];
            let mut machine = Machine { state: &mut replica.state, group: 0 };
            machine.apply(index, entry.encode(&mut bytes, 3), None, &mut Effects::default())
        };
        assert!(goes_on(&mut replica, 0), "it has a snapshot");
        let mut effects = Effects::default();
        replica.keep_joining(Instant::ZERO, &mut Io { effects: &mut effects, memory: &mut memory });
        assert!(matches!(replica.join.step, Step::Asked { .. }), "{:?}", replica.join);
        assert!(!goes_on(&mut replica, 1));
        assert_eq!(replica.state.groups[0].included, 1);
    }
}
