//! Leading: bringing followers up to date, and replicating.

mod takeover;

use super::{CALL_LOG, Group, Refusal, Role};
use crate::layout::{self, GAP_BYTES, Gap, Zeroed, put};
use crate::link::{State, Transfer, tag};
use crate::machine::Ports;
use crate::message::node;
use crate::parameters::{Delivery, Parameters, PlantedBug, SLOT_BYTES_MAX};
use crate::slot::{Join, Kind, Slot};

/// Purpose of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PostKind {
    /// READ of a follower's lines.
    Lines,
    /// READ of its slots, which nobody waits for yet.
    Slots,
    /// READ of its slots, which a candidate waits for.
    Collect,
    /// WRITE of this replica's proposal.
    Promise,
    /// WRITE of a slot; with it the follower has all before this entry.
    Slot(u64),
    /// WRITE of the number of decided entries.
    Decided,
    /// WRITE of how far the log is zeroed.
    Zeroed,
    /// WRITE of the end of a snapshot.
    Snapshot,
    /// WRITE by which a replica that has lost its memory takes part again.
    Member,
    /// WRITE after which nothing is waiting.
    Other,
}

/// A leader's progress with a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    /// It has not granted its log.
    #[default]
    Absent,
    /// It has granted its log; its lines are being read.
    Reading,
    /// Its lines are known.
    Known,
    /// A copy of the state is under way.
    Snapshot,
    /// It is being brought up to date.
    Syncing,
    /// It is sent what is new.
    InStep,
}

/// A leader's knowledge of a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Follower {
    stage: Stage,
    incarnation: u32,
    member: bool,
    /// Of its lines.
    proposal: u64,
    decided: u64,
    zeroed: Zeroed,
    applied: u64,
    gap: Gap,
    /// It was told this leader's proposal.
    promised: bool,
    /// Slots from `cursor` to `end` are to be compared, those from the first to the second number of each pair to be
    /// zeroed.
    cursor: u64,
    end: u64,
    to_zero: [(u64, u64); 2],
    /// Range of its slots that are read, or being read.
    inbox: (u64, u64),
    reading: bool,
    /// The next entry to write, and all before which it has.
    next: u64,
    acked: u64,
    /// The number of decided entries that it was told last, and whether that is under way.
    told: u64,
    telling: bool,
    /// It is being told the zeroed length of its log; that, too, is written after the slots are zero.
    freeing: bool,
    zeroing: bool,
}

impl Follower {
    pub fn head(&mut self, incarnation: u32, applied: u64) {
        if self.stage >= Stage::Known && self.incarnation == incarnation {
            self.applied = self.applied.max(applied);
        }
    }
}

impl Group {
    /// Proposes an entry. It is decided when it is applied with its ticket.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn propose(&mut self, ticket: u64, entry: &[u8], ports: &mut Ports<'_>) -> Result<u64, Refusal> {
        if self.role != Role::Leading {
            return Err(Refusal::NotLeader(self.leader(ports.now, ports.memory)));
        }
        if !(1..=self.parameters.entry_bytes()).contains(&entry.len()) {
            return Err(Refusal::Length);
        }
        if !self.has_room(ports) {
            return Err(Refusal::Full);
        }
        self.counters.proposed += 1;
        self.tickets.push_back((self.tail, ticket));
        let index = self.tail;
        self.append(Kind::Call, entry, ports);
        Ok(index)
    }

    fn has_room(&self, ports: &Ports<'_>) -> bool {
        let window = self.parameters.window;
        self.tail - self.decided < window && self.tail + window < self.zeroed(ports) + self.parameters.slots
    }

    fn zeroed(&self, ports: &Ports<'_>) -> u64 {
        self.zeroed_word(ports).below
    }

    fn zeroed_word(&self, ports: &Ports<'_>) -> Zeroed {
        Zeroed::parse(self.layout.get(ports.memory, layout::ZEROED))
    }

    /// Writes the next slot of this replica's log, and lets it go to the others.
    fn append(&mut self, kind: Kind, entry: &[u8], ports: &mut Ports<'_>) {
        self.write_own(self.tail, kind, entry, ports);
        self.tail += 1;
        for peer in self.peers() {
            self.pump(peer, ports);
        }
        self.decide(ports);
    }

    fn write_own(&self, index: u64, kind: Kind, entry: &[u8], ports: &mut Ports<'_>) {
        let slot = Slot { index, proposal: self.proposal, decided: self.decided, kind, entry };
        let mut bytes = [0; SLOT_BYTES_MAX];
        let bytes = &mut bytes[..self.parameters.slot_bytes];
        slot.write(bytes);
        ports.memory.write(self.layout.slot(index), bytes);
    }

    // Replicating.

    /// Begins to bring up to date all followers whose lines are known.
    pub(crate) fn settle(&mut self, ports: &mut Ports<'_>) {
        for peer in self.peers() {
            if self.role == Role::Leading && self.followers[peer].stage == Stage::Known {
                self.begin_sync(peer, ports);
            }
        }
    }

    fn begin_sync(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let follower = self.followers[peer];
        if follower.proposal > self.proposal {
            // Somebody has tried to lead since, and this follower has promised it to take nothing lower.
            self.proposal = follower.proposal;
            self.campaign(ports);
            return;
        }
        let zeroed = follower.zeroed.below;
        if zeroed > self.zeroed(ports) {
            // This replica did not hear of it before it led: no follower may be told to have entries that are in no
            // log.
            if zeroed > self.applied {
                self.stand_behind(zeroed, ports);
            } else {
                self.zero_own(zeroed, ports);
                self.campaign(ports);
            }
            return;
        }
        if !follower.member && self.joined[peer] != follower.incarnation {
            // What it may have accepted in a former life is in this log for certain once an entry is decided without
            // it that was proposed since.
            if self.joining[peer] != follower.incarnation && self.has_room(ports) {
                self.joining[peer] = follower.incarnation;
                let join = Join { node: peer, incarnation: follower.incarnation };
                self.append(Kind::Join, &join.encode(), ports);
            }
            return;
        }
        if follower.decided > self.tail {
            // A leader has all decided entries: the follower's claim is invalid.
            self.counters.malformed += 1;
            self.lose(peer, ports);
            return;
        }
        // A log that was given a copy of the state may lack entries that are not recycled yet.
        let is_here = |index| self.layout.entry(ports.memory, index).is_some();
        let begins = self.zeroed(ports).max(self.layout.gap(ports.memory).to);
        let lacks_copy = follower.applied < follower.gap.to;
        if follower.applied >= self.zeroed(ports)
            && follower.decided >= begins
            && !lacks_copy
            && (follower.decided..self.tail).all(is_here)
        {
            self.promise(peer, ports);
            self.begin_comparing(peer, ports);
        } else if self.snapshot_for.is_none() {
            self.promise(peer, ports);
            self.send_snapshot(peer, ports);
        }
    }

    /// Sends the state before the next entry to apply. The follower must not use its state meanwhile.
    fn send_snapshot(&mut self, peer: usize, ports: &mut Ports<'_>) {
        self.counters.snapshots_sent += 1;
        self.snapshot_for = Some(peer);
        let Follower { gap, decided, member, .. } = self.followers[peer];
        let gap = Gap {
            // Before it the follower has entries up to the length it knew as decided, but not within an earlier gap.
            from: if gap.to == 0 { decided } else { decided.min(gap.from) },
            to: self.applied,
            forgotten: if member { gap.forgotten } else { self.applied },
        };
        let follower = &mut self.followers[peer];
        (follower.stage, follower.gap) = (Stage::Snapshot, gap);
        follower.decided = self.applied;
        let (area, room) = (self.layout.snapshot_area(), self.layout.snapshot_bytes);
        self.layout.set(ports.memory, layout::COPY_BYTES, 0);
        let bytes = ports.machine.snapshot(self.applied, &mut ports.memory.image_mut()[area..area + room]);
        assert!(bytes <= room, "the state is no larger than its copy may be");
        ports.memory.read(area, bytes);
        let outbox = self.layout.outbox(peer, layout::GAP);
        ports.memory.image_mut()[outbox..outbox + GAP_BYTES].copy_from_slice(&gap.encode(bytes));
        let to = self.layout.line(layout::COPY_BYTES);
        let nothing = Transfer::Write { from: self.layout.zeros(), to, bytes: 8, call: None };
        self.post(peer, PostKind::Other, nothing, ports);
        if bytes > 0 {
            self.post(
                peer,
                PostKind::Other,
                Transfer::Write { from: area, to: area, bytes, call: None },
                ports,
            );
        }
        let to = self.layout.line(layout::GAP);
        let end = Transfer::Write { from: outbox, to, bytes: GAP_BYTES, call: self.call() };
        self.post(peer, PostKind::Snapshot, end, ports);
    }

    /// The follower has the state before the first slot. What it holds of the entries since is compared with this
    /// log; what it holds beyond makes room. That is undecided, and then no more than a window behind what is
    /// decided, as leaders have no more than that under way; or it is of a former lap, in slots that were freed
    /// without its being told, or not zeroed since.
    fn begin_comparing(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let Parameters { slots, window, .. } = self.parameters;
        let (zeroed, tail) = (self.zeroed(ports), self.tail);
        let free_below = zeroed + slots;
        if tail + window > free_below {
            // Leaders leave a window free. A fuller log was written by somebody else.
            self.counters.malformed += 1;
            self.lose(peer, ports);
            return;
        }
        let follower = &mut self.followers[peer];
        let theirs = follower.zeroed;
        let clean_below = theirs.clean_below(slots, window).clamp(tail, free_below);
        follower.stage = Stage::Syncing;
        (follower.cursor, follower.end) = (follower.decided, tail);
        follower.to_zero = [(tail, clean_below.min(tail + window)), (clean_below, free_below)];
        if theirs != Zeroed::new(zeroed, 0) {
            self.begin_zeroing(peer, (free_below - clean_below).div_ceil(window), ports);
        }
        self.sync(peer, ports);
    }

    fn sync(&mut self, peer: usize, ports: &mut Ports<'_>) {
        while self.followers[peer].stage == Stage::Syncing && self.links[peer].outstanding() < 4 {
            let follower = self.followers[peer];
            if let Some(place) = follower.to_zero.iter().position(|(from, to)| from < to) {
                let (from, to) = follower.to_zero[place];
                let slots = self.layout.piece(from, (to - from).min(self.parameters.window));
                self.followers[peer].to_zero[place].0 += slots;
                self.zero(peer, from, slots, ports);
            } else if follower.zeroing {
                self.end_zeroing(peer, ports);
            } else if follower.reading {
                return;
            } else if follower.cursor < follower.end {
                if (follower.inbox.0..follower.inbox.1).contains(&follower.cursor) {
                    self.compare(peer, ports);
                } else {
                    self.read_slots(peer, PostKind::Slots, follower.cursor, ports);
                }
            } else {
                self.counters.synced += 1;
                let follower = &mut self.followers[peer];
                (follower.stage, follower.next) = (Stage::InStep, follower.end);
                if !follower.member {
                    let from = self.layout.outbox(peer, layout::MEMBER);
                    put(ports.memory, from, follower.incarnation.into());
                    let to = self.layout.line(layout::MEMBER);
                    let transfer = Transfer::Write { from, to, bytes: 8, call: self.call() };
                    self.post(peer, PostKind::Member, transfer, ports);
                }
                self.pump(peer, ports);
                return;
            }
        }
    }

    /// Some of a follower's slots are here. One that holds the leader's entry, perhaps by an older proposal, is written
    /// over in place: it never stops holding it. Any other holds nothing that is decided, and is zeroed first.
    fn compare(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let Follower { cursor, end, inbox, .. } = self.followers[peer];
        let until = end.min(inbox.1).min(cursor + self.parameters.window);
        for index in cursor..until {
            let Some(own) = self.layout.entry(ports.memory, index) else {
                // Former leaders have written here that there are decided entries which there are not, or the
                // follower says that it has applied what it lacks, so that it was recycled.
                self.counters.malformed += 1;
                self.lose(peer, ports);
                return;
            };
            let theirs = self.layout.inbox(ports.memory, peer, index - inbox.0);
            let same = Slot::parse(theirs, index).is_some_and(|theirs| theirs.same_entry(&own));
            let empty = theirs.iter().all(|byte| *byte == 0);
            if same && index < self.decided {
                continue;
            }
            if !same && !empty && !self.parameters.planted(PlantedBug::SlotNotZeroed) {
                self.zero(peer, index, 1, ports);
            }
            self.write_slot(peer, index, ports);
        }
        self.followers[peer].cursor = until;
    }

    /// Sends a follower in step what it lacks: entries, or else how many are decided.
    fn pump(&mut self, peer: usize, ports: &mut Ports<'_>) {
        if self.followers[peer].stage != Stage::InStep {
            return;
        }
        let room = 2 * self.parameters.window as usize + 8;
        while self.followers[peer].next < self.tail && self.links[peer].outstanding() < room {
            let next = self.followers[peer].next;
            self.followers[peer].next += 1;
            self.write_slot(peer, next, ports);
        }
        let follower = &mut self.followers[peer];
        if follower.next == self.tail && follower.told < self.decided && !follower.telling {
            (follower.told, follower.telling) = (self.decided, true);
            self.write_line(peer, layout::DECIDED, PostKind::Decided, ports);
        }
    }

    /// Counts entries at followers: what a majority of the members has is decided.
    fn decide(&mut self, ports: &mut Ports<'_>) {
        if self.role != Role::Leading {
            return;
        }
        let mut acked = [0; crate::NODES_MAX];
        acked[0] = self.tail;
        let mut members = 1;
        for peer in self.peers() {
            let follower = &self.followers[peer];
            if follower.member {
                acked[members] = follower.acked;
                members += 1;
            }
        }
        acked[..members].sort_unstable_by(|one, other| other.cmp(one));
        let majority = if self.parameters.planted(PlantedBug::ReplyBeforeQuorum) && members > 1 {
            1
        } else {
            self.parameters.majority()
        };
        let decided = if majority <= members { acked[majority - 1] } else { 0 };
        if decided <= self.decided {
            return;
        }
        self.decided = decided;
        self.progress_at = ports.now;
        self.layout.set(ports.memory, layout::DECIDED, decided);
        self.apply(ports);
        for peer in self.peers() {
            self.pump(peer, ports);
        }
        self.settle(ports);
    }

    /// Frees slots whose entries all followers have applied, a window at a time, once half of the ring is used.
    pub(crate) fn recycle(&mut self, ports: &mut Ports<'_>) {
        let window = self.parameters.window;
        let zeroed = self.zeroed(ports);
        if self.tail - zeroed <= self.parameters.slots / 2 || self.applied < zeroed + window {
            return;
        }
        let is_full = self.tail + 2 * window >= zeroed + self.parameters.slots;
        for peer in self.peers() {
            let Follower { stage, member, applied, freeing, decided, cursor, .. } = self.followers[peer];
            let counts = stage > Stage::Known || stage == Stage::Known && member;
            // A polling follower may find and apply more entries than its lines called decided: these must still be
            // compared.
            let compared = match stage {
                Stage::InStep => u64::MAX,
                Stage::Syncing => cursor,
                _ => decided,
            };
            let has_applied = applied.min(compared) >= zeroed + window;
            let has_room = !freeing && self.links[peer].outstanding() <= 2 * window as usize + 8;
            if !counts || has_applied && has_room {
                continue;
            }
            // The dead do not keep the log from growing.
            let is_dead = !self.alive.contains(node(peer));
            let others = self.known_members().without(node(peer)).len() + 1;
            if is_full && is_dead && others >= self.parameters.majority() {
                let wiring = self.wirings[peer].as_ref().expect("a started group is wired");
                self.links[peer].release(wiring, ports.effects);
                self.lose(peer, ports);
            }
            return;
        }
        self.counters.recycled += window;
        self.zero_own(zeroed + window, ports);
        for peer in self.peers() {
            if self.followers[peer].stage >= Stage::Syncing {
                self.begin_zeroing(peer, 1, ports);
                self.zero(peer, zeroed, window, ports);
                self.end_zeroing(peer, ports);
            }
        }
    }

    // Posting.

    fn call(&self) -> Option<u32> {
        (self.parameters.delivery == Delivery::WriteThrough).then_some(CALL_LOG.into())
    }

    fn post(&mut self, peer: usize, what: PostKind, transfer: Transfer, ports: &mut Ports<'_>) {
        debug_assert_eq!(self.links[peer].state, State::Up);
        assert!(self.links[peer].outstanding() < self.parameters.posts_max(), "what is posted is bounded");
        let wiring = self.wirings[peer].as_ref().expect("a started group is wired");
        self.links[peer].post(what, transfer, tag(self.number, peer), wiring, ports.effects);
    }

    /// Writes a word of this replica's leader's line to the same place at a follower. It is copied to where it stays
    /// as it is while it is under way: what is told must not overtake the slots that it is told of.
    fn write_line(&mut self, peer: usize, field: usize, what: PostKind, ports: &mut Ports<'_>) {
        let from = self.layout.outbox(peer, field);
        put(ports.memory, from, self.layout.get(ports.memory, field));
        let call = if what == PostKind::Decided { self.call() } else { None };
        let transfer = Transfer::Write { from, to: self.layout.line(field), bytes: 8, call };
        self.post(peer, what, transfer, ports);
    }

    /// Entries that a follower holds below are no longer in the log; who finds some of their slots zero must know it.
    /// And who finds some not zero must know that, too, and how many windows they are.
    fn begin_zeroing(&mut self, peer: usize, dirty: u64, ports: &mut Ports<'_>) {
        (self.followers[peer].freeing, self.followers[peer].zeroing) = (true, true);
        let zeroed = Zeroed::new(self.zeroed(ports), dirty);
        let from = self.layout.outbox(peer, layout::OUTBOX_ZEROING);
        put(ports.memory, from, zeroed.word());
        let to = self.layout.line(layout::ZEROED);
        self.post(peer, PostKind::Other, Transfer::Write { from, to, bytes: 8, call: None }, ports);
    }

    fn end_zeroing(&mut self, peer: usize, ports: &mut Ports<'_>) {
        self.followers[peer].zeroing = false;
        let zeroed = Zeroed::new(self.zeroed(ports), 0);
        let from = self.layout.outbox(peer, layout::ZEROED);
        put(ports.memory, from, zeroed.word());
        let to = self.layout.line(layout::ZEROED);
        self.post(peer, PostKind::Zeroed, Transfer::Write { from, to, bytes: 8, call: None }, ports);
    }

    fn write_slot(&mut self, peer: usize, index: u64, ports: &mut Ports<'_>) {
        let slot = self.layout.entry(ports.memory, index).expect("a leader's log has no holes");
        let (bytes, decided) = (slot.bytes(), slot.decided);
        let at = self.layout.slot(index);
        self.followers[peer].told = self.followers[peer].told.max(decided);
        let transfer = Transfer::Write { from: at, to: at, bytes, call: self.call() };
        self.post(peer, PostKind::Slot(index + 1), transfer, ports);
    }

    /// Zeroes some of a follower's slots, no more than a window and in one piece.
    fn zero(&mut self, peer: usize, index: u64, slots: u64, ports: &mut Ports<'_>) {
        let bytes = slots as usize * self.parameters.slot_bytes;
        let (from, to) = (self.layout.zeros(), self.layout.slot(index));
        if !self.parameters.planted(PlantedBug::SlotNotZeroed) {
            self.post(peer, PostKind::Other, Transfer::Write { from, to, bytes, call: None }, ports);
        }
    }

    /// Reads two windows of a follower's slots, or as many as lie in one piece.
    fn read_slots(&mut self, peer: usize, what: PostKind, index: u64, ports: &mut Ports<'_>) {
        let slots = self.layout.piece(index, 2 * self.parameters.window);
        let bytes = slots as usize * self.parameters.slot_bytes;
        let (from, to) = (self.layout.slot(index), self.layout.inbox_slots(peer, 0));
        (self.followers[peer].inbox, self.followers[peer].reading) = ((index, index + slots), true);
        self.post(peer, what, Transfer::Read { from, to, bytes }, ports);
    }

    /// A work request has succeeded.
    pub(crate) fn carried_out(&mut self, peer: usize, what: PostKind, ports: &mut Ports<'_>) {
        match what {
            PostKind::Lines => self.know(peer, ports),
            PostKind::Slots => self.followers[peer].reading = false,
            PostKind::Collect => {
                self.followers[peer].reading = false;
                self.collected(peer, ports);
            }
            PostKind::Promise => self.collected(peer, ports),
            PostKind::Slot(next) => {
                self.followers[peer].acked = next;
                self.decide(ports);
            }
            PostKind::Decided => self.followers[peer].telling = false,
            PostKind::Zeroed => self.followers[peer].freeing = false,
            PostKind::Snapshot => {
                self.snapshot_for = None;
                self.begin_comparing(peer, ports);
            }
            PostKind::Member => {
                self.followers[peer].member = true;
                self.decide(ports);
            }
            PostKind::Other => {}
        }
        match self.followers[peer].stage {
            Stage::Syncing => self.sync(peer, ports),
            Stage::InStep => self.pump(peer, ports),
            _ => {}
        }
    }
}
