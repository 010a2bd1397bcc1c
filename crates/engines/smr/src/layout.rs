//! Where everything lies in a group's memory: the same at all replicas, so that a leader writes what stands in its own
//! memory to the same place in that of a follower.
//!
//! ```text
//! 0     leader's line, written by the replica's leader:
//!           0 proposal(8)        no lower one may be used here any more (Mu: minProposal)
//!           8 decided(8)         so many entries are decided, and stand here
//!           16 zeroed(8)         entries below are no longer in the ring; a multiple of the window
//!           24 snapshot(8)       the snapshot area holds the state before this entry; 0: it is not to be used
//!           32 snapshot bytes(8)
//!           40 member(8)         the incarnation that takes part; another one has lost its memory
//! 64    own line, written by the replica:
//!           0 applied(8)  8 incarnation(8)
//! 128   ring: entry i in slot i modulo their number
//!       zeros: a window of slots that nobody writes to, the source of zeroing
//!       for each peer: 64 bytes that are sent to it (0 snapshot(8) 8 snapshot bytes(8) 16 member(8) 24 proposal(8)
//!                      32 decided(8) 40 zeroed(8)), its two lines and two windows of its slots as read
//!       snapshot area
//! ```

use std::ops::Range;

use weft_waist::Memory;

use crate::parameters::Parameters;
use crate::slot::{Slot, word};

pub(crate) const PROPOSAL: usize = 0;
pub(crate) const DECIDED: usize = 8;
pub(crate) const ZEROED: usize = 16;
pub(crate) const SNAPSHOT: usize = 24;
pub(crate) const MEMBER: usize = 40;
pub(crate) const APPLIED: usize = 64;
pub(crate) const INCARNATION: usize = 72;
/// Both lines.
pub(crate) const LINES: usize = 128;
/// What is sent to a peer from its own place.
const OUTBOX: usize = 64;
pub(crate) const OUTBOX_SNAPSHOT: usize = 0;
pub(crate) const OUTBOX_MEMBER: usize = 16;
/// What follows is as in the leader's line.
pub(crate) const OUTBOX_LINE: usize = 24;

/// Addresses in a group's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    base: usize,
    slots: u64,
    slot_bytes: usize,
    window: u64,
    nodes: usize,
    pub snapshot_bytes: usize,
}

impl Layout {
    pub fn new(parameters: &Parameters, base: usize) -> Self {
        assert!(base.is_multiple_of(64), "a group's memory begins on 64 bytes");
        let Parameters { slots, slot_bytes, window, nodes, snapshot_bytes, .. } = *parameters;
        Self { base, slots, slot_bytes, window, nodes, snapshot_bytes }
    }

    /// Of the whole.
    pub fn bytes(&self) -> usize {
        self.snapshot_area() + self.snapshot_bytes - self.base
    }

    pub fn line(&self, field: usize) -> usize {
        self.base + field
    }

    /// The slot of an entry.
    pub fn slot(&self, index: u64) -> usize {
        self.base + LINES + (index % self.slots) as usize * self.slot_bytes
    }

    /// How many of so many slots from an entry on lie in one piece.
    pub fn piece(&self, index: u64, slots: u64) -> u64 {
        slots.min(self.slots - index % self.slots)
    }

    pub fn zeros(&self) -> usize {
        self.base + LINES + self.slots as usize * self.slot_bytes
    }

    fn window_bytes(&self) -> usize {
        self.window as usize * self.slot_bytes
    }

    fn peer(&self, peer: usize) -> usize {
        self.zeros() + self.window_bytes() + peer * (OUTBOX + LINES + 2 * self.window_bytes())
    }

    pub fn outbox(&self, peer: usize, field: usize) -> usize {
        self.peer(peer) + field
    }

    /// Where a peer's lines are read to.
    pub fn inbox_lines(&self, peer: usize) -> usize {
        self.peer(peer) + OUTBOX
    }

    /// Where a peer's slots are read to, from the `place`-th on.
    pub fn inbox_slots(&self, peer: usize, place: u64) -> usize {
        self.peer(peer) + OUTBOX + LINES + place as usize * self.slot_bytes
    }

    pub fn snapshot_area(&self) -> usize {
        self.peer(self.nodes)
    }

    /// A word of one of the lines, which a card keeps in registers.
    pub fn get(&self, memory: &Memory, field: usize) -> u64 {
        word(memory.image(), self.line(field))
    }

    pub fn set(&self, memory: &mut Memory, field: usize, value: u64) {
        put(memory, self.line(field), value);
    }

    /// The entry with that index in this replica's own log, of the part that a card keeps on chip.
    pub fn entry<'m>(&self, memory: &'m Memory, index: u64) -> Option<Slot<'m>> {
        Slot::parse(&memory.image()[self.range(index)], index)
    }

    pub fn range(&self, index: u64) -> Range<usize> {
        self.slot(index)..self.slot(index) + self.slot_bytes
    }

    /// The slot as it was read from a peer.
    pub fn inbox<'m>(&self, memory: &'m Memory, peer: usize, place: u64) -> &'m [u8] {
        let at = self.inbox_slots(peer, place);
        &memory.image()[at..at + self.slot_bytes]
    }
}

/// Writes a word that a card keeps in a register.
pub(crate) fn put(memory: &mut Memory, at: usize, value: u64) {
    memory.image_mut()[at..at + 8].copy_from_slice(&value.to_be_bytes());
}
