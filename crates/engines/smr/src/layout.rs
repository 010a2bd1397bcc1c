//! Layout of a group's memory. It is the same at all replicas: a leader writes data from its own memory to the
//! same offset in a follower's.
//!
//! ```text
//! 0     leader's line, written by the leader of this replica:
//!           0 proposal(8)        lower proposal numbers are no longer accepted here (Mu: minProposal)
//!           8 decided(8)         number of decided entries that this log holds
//!           16 zeroed(8)         8 x index + dirty. Entries below the index, a multiple of the window, are not in the ring
//!                                any more. Slots of the last `dirty` freed windows may not be zero yet; 7: of any window
//!           24 member(8)         incarnation of the replica that takes part; any other has lost its memory
//!           32 gap to(8)         the state before this entry came as a snapshot; 0: no snapshot came
//!           40 copy bytes(8)     length of that snapshot in the snapshot area, plus one; 0: the area is not to be used
//!           48 gap from(8)       from this entry to the gap's end, slots may hold other entries than the decided ones
//!           56 forgotten(8)      entries before this one may have been accepted here before the memory was lost
//! 64    own line, written by the replica:
//!           0 applied(8)  8 incarnation(8)
//! 128   ring: entry i in slot i modulo the number of slots
//!       zeros: a window of slots that are always zero, the source when slots are zeroed
//!       for each peer: 128 bytes that are sent to it (words of a leader's line; at 64 zeroed(8), sent before zeroing),
//!                      its two lines and two windows of its slots, as last read
//!       snapshot area
//! ```

use std::ops::Range;

use weft_waist::Memory;

use crate::parameters::Parameters;
use crate::slot::{Slot, word};

pub(crate) const PROPOSAL: usize = 0;
pub(crate) const DECIDED: usize = 8;
pub(crate) const ZEROED: usize = 16;
pub(crate) const MEMBER: usize = 24;
pub(crate) const GAP: usize = 32;
pub(crate) const COPY_BYTES: usize = 40;
pub(crate) const APPLIED: usize = 64;
pub(crate) const INCARNATION: usize = 72;
/// Bytes of both lines.
pub(crate) const LINES: usize = 128;
/// Offset of the outbox: words to be written to a peer.
const OUTBOX: usize = 128;
pub(crate) const OUTBOX_ZEROING: usize = 64;
/// Bytes of an encoded [`Gap`] with the length of the snapshot.
pub(crate) const GAP_BYTES: usize = 32;

/// Range of entries that a log lacks because it got a snapshot of the state instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gap {
    pub from: u64,
    pub to: u64,
    pub forgotten: u64,
}

impl Gap {
    /// Parses the gap in a leader's line.
    pub fn parse(line: &[u8]) -> Self {
        Self { from: word(line, GAP + 16), to: word(line, GAP), forgotten: word(line, GAP + 24) }
    }

    pub fn encode(&self, copy_bytes: usize) -> [u8; GAP_BYTES] {
        let mut bytes = [0; GAP_BYTES];
        let words = [self.to, copy_bytes as u64 + 1, self.from, self.forgotten];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Whether the entry's slot may hold another entry than the decided one, although later entries are decided.
    pub fn contains(&self, index: u64) -> bool {
        (self.from..self.to).contains(&index)
    }
}

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

    /// Bytes of the whole layout.
    pub fn bytes(&self) -> usize {
        self.snapshot_area() + self.snapshot_bytes - self.base
    }

    pub fn line(&self, field: usize) -> usize {
        self.base + field
    }

    /// Offset of an entry's slot.
    pub fn slot(&self, index: u64) -> usize {
        self.base + LINES + (index % self.slots) as usize * self.slot_bytes
    }

    /// Number of the `slots` slots from an entry on that are contiguous.
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

    /// Offset at which READs of a peer's lines put them.
    pub fn inbox_lines(&self, peer: usize) -> usize {
        self.peer(peer) + OUTBOX
    }

    /// Offset at which READs of a peer's slots put the `place`-th of them.
    pub fn inbox_slots(&self, peer: usize, place: u64) -> usize {
        self.peer(peer) + OUTBOX + LINES + place as usize * self.slot_bytes
    }

    pub fn snapshot_area(&self) -> usize {
        self.peer(self.nodes)
    }

    pub fn gap(&self, memory: &Memory) -> Gap {
        Gap::parse(&memory.image()[self.line(0)..self.line(LINES)])
    }

    /// A word of one of the lines. Reading it costs no access to memory, because a card keeps the lines in
    /// registers.
    pub fn get(&self, memory: &Memory, field: usize) -> u64 {
        word(memory.image(), self.line(field))
    }

    pub fn set(&self, memory: &mut Memory, field: usize, value: u64) {
        put(memory, self.line(field), value);
    }

    /// The entry with that index in this replica's own log. Reading it costs no access to memory, because a card
    /// keeps this part of the log on chip.
    pub fn entry<'m>(&self, memory: &'m Memory, index: u64) -> Option<Slot<'m>> {
        Slot::parse(&memory.image()[self.range(index)], index)
    }

    pub fn range(&self, index: u64) -> Range<usize> {
        self.slot(index)..self.slot(index) + self.slot_bytes
    }

    /// The `place`-th slot of those last read from a peer.
    pub fn inbox<'m>(&self, memory: &'m Memory, peer: usize, place: u64) -> &'m [u8] {
        let at = self.inbox_slots(peer, place);
        &memory.image()[at..at + self.slot_bytes]
    }
}

/// Upper bound of lengths and proposal numbers. No log ever reaches it, so larger values are invalid.
pub(crate) const NUMBER_MAX: u64 = 1 << 60;

/// How far a log has been recycled and zeroed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Zeroed {
    /// Entries below this index are no longer in the ring.
    pub below: u64,
    /// Number of the last freed windows whose slots may not all be zero yet; [`Self::ALL`] stands for any number.
    dirty: u64,
}

impl Zeroed {
    const DIRTY_BITS: u32 = 3;
    const ALL: u64 = (1 << Self::DIRTY_BITS) - 1;

    /// Entries below `below` are recycled, and all their slots but those of the last `dirty` windows are zero.
    pub fn new(below: u64, dirty: u64) -> Self {
        Self { below, dirty: dirty.min(Self::ALL) }
    }

    pub fn parse(word: u64) -> Self {
        Self { below: word >> Self::DIRTY_BITS, dirty: word & Self::ALL }
    }

    pub fn word(self) -> u64 {
        self.below << Self::DIRTY_BITS | self.dirty
    }

    /// Whether all slots of the freed windows are zero.
    pub fn is_clean(self) -> bool {
        self.dirty == 0
    }

    /// Recycles up to `below` and zeroes the slots. If windows that were freed earlier are not zero yet, the new
    /// ones count as not zero as well.
    pub fn advanced(self, below: u64, window: u64) -> Self {
        let more = if self.is_clean() { 0 } else { (below - self.below).div_ceil(window) };
        Self::new(below, self.dirty.saturating_add(more))
    }

    /// Index up to which free slots hold nothing of an earlier lap of the ring.
    pub fn clean_below(self, slots: u64, window: u64) -> u64 {
        let dirty = if self.dirty == Self::ALL { slots } else { slots.min(self.dirty * window) };
        self.below + slots - dirty
    }
}

/// Writes a word that a card keeps in a register.
pub(crate) fn put(memory: &mut Memory, at: usize, value: u64) {
    memory.image_mut()[at..at + 8].copy_from_slice(&value.to_be_bytes());
}
