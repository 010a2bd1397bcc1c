//! The leader: it brings followers up to date, and replicates entries.

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
    /// READ of a follower's leader line and own line.
    Lines,
    /// READ of a follower's slots for which no candidate waits.
    Slots,
    /// READ of a follower's slots for which a candidate waits.
    Collect,
    /// WRITE of this replica's proposal.
    Promise,
    /// WRITE of the slot before this index. Once it completes, the follower has all entries before the index.
    Slot(u64),
    /// WRITE of the number of decided entries.
    Decided,
    /// WRITE of the length up to which the log is zeroed.
    Zeroed,
    /// WRITE that completes a snapshot.
    Snapshot,
    /// WRITE that makes a replica that had lost its memory a member again.
    Member,
    /// WRITE whose completion needs no action.
    Other,
}

/// How far a leader has brought a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    /// The follower has not granted access to its log.
    #[default]
    Absent,
    /// The follower has granted access; its lines are being read.
    Reading,
    /// The follower's lines have been read.
    Known,
    /// A snapshot is being written to the follower.
    Snapshot,
    /// The follower's slots are compared with the leader's and corrected.
    Syncing,
    /// The follower is up to date and receives new entries.
    UpToDate,
}

/// What a leader has recorded about a follower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Follower {
    stage: Stage,
    incarnation: u32,
    member: bool,
    /// The next four: from the follower's lines.
    proposal: u64,
    decided: u64,
    zeroed: Zeroed,
    applied: u64,
    gap: Gap,
    /// Whether this leader's proposal was written to the follower.
    promised: bool,
    /// Slots from `cursor` to `end` are still to be compared. The slots between the two numbers of each pair are
    /// still to be zeroed.
    cursor: u64,
    end: u64,
    to_zero: [(u64, u64); 2],
    /// Range of the follower's slots that the inbox holds, or that a READ is fetching.
    inbox: (u64, u64),
    reading: bool,
    /// The next entry to write, and the number of entries whose WRITEs have completed.
    next: u64,
    acked: u64,
    /// The number of decided entries last written to the follower, and whether that WRITE is outstanding.
    told: u64,
    telling: bool,
    /// Whether a change of the log's zeroed length is being written to the follower, and whether the WRITE that
    /// ends it, after the slots are zero, is still to be posted.
    freeing: bool,
    zeroing: bool,
}

impl Follower {
    pub fn note_heartbeat(&mut self, incarnation: u32, applied: u64) {
        if self.stage >= Stage::Known && self.incarnation == incarnation {
            self.applied = self.applied.max(applied);
        }
    }
}

impl Group {
    /// Proposes an entry. It is decided when it is applied together with its ticket.
    ///
    /// # Errors
    /// Why the proposal is refused.
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

    /// Writes the next slot of this replica's log, and starts to replicate it.
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

    /// Begins to bring all followers up to date whose lines have been read.
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
            // Another replica has tried to lead since, and this follower accepts no lower proposal than that
            // one's.
            self.proposal = follower.proposal;
            self.campaign(ports);
            return;
        }
        let zeroed = follower.zeroed.below;
        if zeroed > self.zeroed(ports) {
            // Another leader recycled slots that this one still holds. Before it may state to a follower which
            // entries are in the log, it must recycle them, too. If it lacks some of them, it stops leading.
            if zeroed > self.applied {
                self.defer_to_longer_log(zeroed, ports);
            } else {
                self.zero_own(zeroed, ports);
                self.campaign(ports);
            }
            return;
        }
        if !follower.member && self.joined[peer] != follower.incarnation {
            // An incarnation of this follower that has lost its memory may have accepted entries. They are certain
            // to be in this log once an entry proposed later is decided without the follower's vote.
            if self.joining[peer] != follower.incarnation && self.has_room(ports) {
                self.joining[peer] = follower.incarnation;
                let join = Join { node: peer, incarnation: follower.incarnation };
                self.append(Kind::Join, &join.encode(), ports);
            }
            return;
        }
        if follower.decided > self.tail {
            // A leader has all decided entries, so the follower's line is invalid.
            self.counters.malformed += 1;
            self.lose(peer, ports);
            return;
        }
        // A log that was given a snapshot may lack entries that are not recycled yet.
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

    /// Sends a snapshot of the state before the next entry to apply. The follower must not use its own state
    /// meanwhile.
    fn send_snapshot(&mut self, peer: usize, ports: &mut Ports<'_>) {
        self.counters.snapshots_sent += 1;
        self.snapshot_for = Some(peer);
        let Follower { gap, decided, member, .. } = self.followers[peer];
        let gap = Gap {
            // Below `from` the follower has all entries: it had them decided, and they are not in an earlier gap.
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

    /// Begins to compare the slots of a follower that has the state before them. Slots up to the tail are compared
    /// with this log. Slots beyond the tail are zeroed, since their content is one of two kinds. It may be
    /// undecided: that is at most one window, because a leader has no more entries outstanding. Or it belongs to
    /// an earlier lap of the ring, in slots that were freed without the follower being notified, or were not
    /// zeroed.
    fn begin_comparing(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let Parameters { slots, window, .. } = self.parameters;
        let (zeroed, tail) = (self.zeroed(ports), self.tail);
        let free_below = zeroed + slots;
        if tail + window > free_below {
            // Leaders leave one window of the ring free, so a faulty peer has written this log.
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
                (follower.stage, follower.next) = (Stage::UpToDate, follower.end);
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

    /// Compares the slots of a follower that have arrived. A slot that holds the leader's entry, perhaps under an
    /// older proposal, is overwritten in place: the follower has the entry at any time. Any other slot holds
    /// nothing decided, and is zeroed first.
    fn compare(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let Follower { cursor, end, inbox, .. } = self.followers[peer];
        let until = end.min(inbox.1).min(cursor + self.parameters.window);
        for index in cursor..until {
            let Some(own) = self.layout.entry(ports.memory, index) else {
                // A former leader has written too high a number of decided entries here, or the follower has
                // reported entries as applied that it lacks, so that they were recycled.
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

    /// Sends a follower that is up to date the entries that it lacks, or if there are none, the number of decided
    /// entries.
    fn pump(&mut self, peer: usize, ports: &mut Ports<'_>) {
        if self.followers[peer].stage != Stage::UpToDate {
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

    /// Counts followers' copies of entries: an entry that a majority of the members has is decided.
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

    /// Once more than half of the ring is used, frees a window of slots whose entries all followers have applied.
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
            // A polling follower may find and apply more entries than its lines stated as decided. These must
            // still be compared.
            let compared = match stage {
                Stage::UpToDate => u64::MAX,
                Stage::Syncing => cursor,
                _ => decided,
            };
            let has_applied = applied.min(compared) >= zeroed + window;
            let has_room = !freeing && self.links[peer].outstanding() <= 2 * window as usize + 8;
            if !counts || has_applied && has_room {
                continue;
            }
            // A dead follower does not keep the log from being recycled.
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

    /// Writes a word of this replica's leader line to the same offset at a follower. The word is first copied to
    /// an outbox, where it does not change while the WRITE is outstanding. Otherwise a later value could be sent
    /// before the slots that it refers to.
    fn write_line(&mut self, peer: usize, field: usize, what: PostKind, ports: &mut Ports<'_>) {
        let from = self.layout.outbox(peer, field);
        put(ports.memory, from, self.layout.get(ports.memory, field));
        let call = if what == PostKind::Decided { self.call() } else { None };
        let transfer = Transfer::Write { from, to: self.layout.line(field), bytes: 8, call };
        self.post(peer, what, transfer, ports);
    }

    /// Writes to a follower which entries are no longer in the log and how many windows of freed slots may not be
    /// zero yet. A later leader that reads the follower's slots needs both, to interpret slots that are zero and
    /// slots that are not.
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

    /// Zeroes slots of a follower: at most one window, contiguous in the ring.
    fn zero(&mut self, peer: usize, index: u64, slots: u64, ports: &mut Ports<'_>) {
        let bytes = slots as usize * self.parameters.slot_bytes;
        let (from, to) = (self.layout.zeros(), self.layout.slot(index));
        if !self.parameters.planted(PlantedBug::SlotNotZeroed) {
            self.post(peer, PostKind::Other, Transfer::Write { from, to, bytes, call: None }, ports);
        }
    }

    /// Reads two windows of a follower's slots, or fewer if the ring ends before.
    fn read_slots(&mut self, peer: usize, what: PostKind, index: u64, ports: &mut Ports<'_>) {
        let slots = self.layout.piece(index, 2 * self.parameters.window);
        let bytes = slots as usize * self.parameters.slot_bytes;
        let (from, to) = (self.layout.slot(index), self.layout.inbox_slots(peer, 0));
        (self.followers[peer].inbox, self.followers[peer].reading) = ((index, index + slots), true);
        self.post(peer, what, Transfer::Read { from, to, bytes }, ports);
    }

    /// Handles the successful completion of a work request.
    pub(crate) fn completed(&mut self, peer: usize, what: PostKind, ports: &mut Ports<'_>) {
        match what {
            PostKind::Lines => self.lines_arrived(peer, ports),
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
            Stage::UpToDate => self.pump(peer, ports),
            _ => {}
        }
    }
}
