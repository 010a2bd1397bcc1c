//! The layout of a replica's memory. It is the same at all replicas, and every part has one writer.
//!
//! ```text
//! 0       pulse                                                       weft_smr
//! then    header(320)    written by the replica, READ by its peers:
//!             0 incarnation(8)   8 incarnation if it is full, else 0(8)
//!             16 incarnations(32): the incarnations that it knows of, once all writes under older permissions were examined
//!             48 by origin: the latest incarnation of which a call has taken effect here(4 each)
//!             80 by origin: number of summarized calls that are here, without gaps(8 each)
//!             144 by origin: number of ring entries that have taken effect here(8 each)
//!             208 by origin: number of ring entries that were here when `incarnations` last changed(8 each)
//!         for each peer its header as read(320)
//!         summaries: by origin, method and slot(64 each), written by the origin
//!             0 count(8)   8 complete(8)   16 origin(1) method(1) zero(2) slot(4)   24 words(16)
//!             40 incarnation(4) zero(12)   56 count(8)
//!         rings: by origin, entry e in place e modulo their number, written by the origin
//!             0 number(8)   8 origin(1) method(1) zero(2) incarnation(4)   16 sequence(4) zero(4)   24 arguments(32)
//!             56 dependencies   last 8: number(8)
//!         outgoing: own summaries as they were sent, by count modulo the size of the ring
//!         staging: for each peer a buffer for copies from it
//!         snapshot: 0 attempt(8)   8 receiver(1) zero(7)   16 the state
//!         groups                                                      weft_smr
//! ```
//!
//! *count* numbers the summarized calls of an origin over all its methods, slots and incarnations. A summary
//! was read whole if its first and last words agree; the same holds for a ring entry. *complete* says how
//! many calls of the origin, in whatever slots, have arrived without gaps once this summary has. An origin
//! writes summaries in the order of their counts, so *complete* is equal to *count*, unless a restarted
//! origin writes its summaries again.

use std::ops::Range;

use weft_smr::{Group, NODES_MAX, Pulse, slot::word};
use weft_waist::Memory;

use super::message::{Incarnations, arguments, half, parse_incarnations, put_arguments, put_incarnations};
use super::parameters::{ORDERED_WINDOW, Path, ReplicaParameters};
use super::vector::{Requires, Vector};
use crate::definition::METHODS_MAX;
use crate::object::{Arguments, SummaryWords, Type};

pub(crate) const HEADER_BYTES: usize = 320;
pub(crate) const SUMMARY_BYTES: usize = 64;
/// The most calls of one kind that an origin makes: dependency vectors have 32 bits for each count.
pub(crate) const COUNT_MAX: u64 = u32::MAX as u64;
/// Bytes copied from a peer by one READ.
pub(crate) const STAGE_BYTES: usize = 4_096;
/// Bytes of a snapshot that precede the state.
pub(crate) const SNAPSHOT_HEAD: usize = 16;
const ENTRY_HEAD: usize = 56;

/// Addresses in a replica's memory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    nodes: usize,
    ring: u64,
    entry: usize,
    /// Number of summaries of an origin; and for each method the index of its first summary.
    pub slots: usize,
    first_slot: [usize; METHODS_MAX],
    header: usize,
    summaries: usize,
    rings: usize,
    outgoing: usize,
    staging: usize,
    pub snapshot: usize,
    pub snapshot_bytes: usize,
    /// Bytes of the snapshot that hold the state.
    pub state_bytes: usize,
    pub groups: usize,
    pub bytes: usize,
    pub has_vectors: bool,
}

impl Layout {
    pub fn new(parameters: &ReplicaParameters) -> Self {
        let ReplicaParameters { nodes, ring, ref kind, .. } = *parameters;
        let mut first_slot = [0; METHODS_MAX];
        let mut slots = 0;
        for (method, first) in first_slot.iter_mut().enumerate().take(kind.method_count()) {
            *first = slots;
            if parameters.path(method) == Path::Summary {
                slots += kind.summary(method).expect("a reducible method has a summary").slots;
            }
        }
        let ring_methods = (0..kind.method_count()).filter(|&method| parameters.path(method) == Path::Ring);
        let has_vectors = ring_methods.into_iter().any(|method| Requires::of(parameters, method).any());
        let vector = if has_vectors { Vector::bytes(nodes) } else { 0 };
        let entry = ENTRY_HEAD + vector + 8;
        let header = Pulse::memory_bytes(&parameters.pulse());
        let summaries = header + HEADER_BYTES * (1 + nodes);
        let rings = summaries + nodes * slots * SUMMARY_BYTES;
        let outgoing = rings + nodes * ring as usize * entry;
        let staging = outgoing + if slots > 0 { ring as usize * SUMMARY_BYTES } else { 0 };
        let snapshot = staging + nodes * STAGE_BYTES;
        let state_bytes = state_bytes(kind, nodes) + nodes * slots * SUMMARY_BYTES;
        let snapshot_bytes = (SNAPSHOT_HEAD + state_bytes).next_multiple_of(64);
        let groups = (snapshot + snapshot_bytes).next_multiple_of(64);
        let bytes = groups + kind.group_count() * Group::memory_bytes(&parameters.log());
        Self {
            nodes,
            ring,
            entry,
            slots,
            first_slot,
            header,
            summaries,
            rings,
            outgoing,
            staging,
            snapshot,
            snapshot_bytes,
            state_bytes,
            groups,
            bytes,
            has_vectors,
        }
    }

    pub fn header(&self) -> usize {
        self.header
    }

    pub fn inbox(&self, peer: usize) -> usize {
        self.header + HEADER_BYTES * (1 + peer)
    }

    /// The index of a slot among all slots of an origin.
    pub fn place(&self, method: usize, slot: usize) -> usize {
        self.first_slot[method] + slot
    }

    pub fn summary(&self, origin: usize, place: usize) -> usize {
        self.summaries + (origin * self.slots + place) * SUMMARY_BYTES
    }

    pub fn summaries_bytes(&self) -> usize {
        self.slots * SUMMARY_BYTES
    }

    pub fn entry(&self, origin: usize, number: u64) -> usize {
        self.rings + (origin * self.ring as usize + (number % self.ring) as usize) * self.entry
    }

    pub fn entry_bytes(&self) -> usize {
        self.entry
    }

    /// How many of `entries` ring entries, from `number` on, are contiguous in memory and fit into the
    /// staging buffer.
    pub fn piece(&self, number: u64, entries: u64) -> u64 {
        entries.min(self.ring - number % self.ring).min((STAGE_BYTES / self.entry) as u64)
    }

    pub fn outgoing(&self, count: u64) -> usize {
        self.outgoing + (count % self.ring) as usize * SUMMARY_BYTES
    }

    pub fn staging(&self, peer: usize) -> usize {
        self.staging + peer * STAGE_BYTES
    }
}

impl ReplicaParameters {
    /// Bytes of memory that the engine takes.
    pub fn memory_bytes(&self) -> usize {
        Layout::new(self).bytes
    }

    /// The part of that memory where the replica stores snapshots of its state for joining nodes. No other
    /// part is as large or as rarely used.
    pub fn snapshot_area(&self) -> Range<usize> {
        let layout = Layout::new(self);
        layout.snapshot..layout.snapshot + layout.snapshot_bytes
    }
}

/// Bytes of the state in a snapshot, without the summaries.
fn state_bytes(kind: &Type, nodes: usize) -> usize {
    nodes * 24 + kind.group_count() * (24 + nodes * ORDERED_WINDOW * 16) + 8 * kind.words()
}

/// A replica's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub incarnation: u32,
    pub full: bool,
    pub incarnations: Incarnations,
    pub written: Incarnations,
    pub summaries: [u64; NODES_MAX],
    pub entries: [u64; NODES_MAX],
    pub received: [u64; NODES_MAX],
}

impl Header {
    pub fn write(&self, memory: &mut Memory, at: usize) {
        let bytes = &mut memory.image_mut()[at..at + HEADER_BYTES];
        put(bytes, 0, self.incarnation.into());
        put(bytes, 8, if self.full { self.incarnation.into() } else { 0 });
        put_incarnations(&mut bytes[16..48], &self.incarnations);
        put_incarnations(&mut bytes[48..80], &self.written);
        for node in 0..NODES_MAX {
            put(bytes, 80 + 8 * node, self.summaries[node]);
            put(bytes, 144 + 8 * node, self.entries[node]);
            put(bytes, 208 + 8 * node, self.received[node]);
        }
    }

    pub fn read(memory: &Memory, at: usize) -> Self {
        let bytes = &memory.image()[at..at + HEADER_BYTES];
        Self {
            incarnation: word(bytes, 0) as u32,
            full: word(bytes, 0) == word(bytes, 8) && word(bytes, 0) != 0,
            incarnations: parse_incarnations(&bytes[16..]),
            written: parse_incarnations(&bytes[48..]),
            summaries: std::array::from_fn(|node| word(bytes, 80 + 8 * node)),
            entries: std::array::from_fn(|node| word(bytes, 144 + 8 * node)),
            received: std::array::from_fn(|node| word(bytes, 208 + 8 * node)),
        }
    }
}

impl Header {
    /// Whether all counts are possible: an origin makes fewer calls than this before it is restarted.
    pub fn is_plausible(&self) -> bool {
        let counts = self.summaries.iter().chain(&self.entries).chain(&self.received);
        counts.into_iter().all(|count| *count <= COUNT_MAX)
    }
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// One summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub count: u64,
    pub complete: u64,
    pub origin: u8,
    pub method: u8,
    pub slot: u32,
    pub words: SummaryWords,
    pub incarnation: u32,
}

impl Summary {
    pub fn encode(&self) -> [u8; SUMMARY_BYTES] {
        let mut bytes = [0; SUMMARY_BYTES];
        put(&mut bytes, 0, self.count);
        put(&mut bytes, 8, self.complete);
        (bytes[16], bytes[17]) = (self.origin, self.method);
        bytes[20..24].copy_from_slice(&self.slot.to_be_bytes());
        put(&mut bytes, 24, self.words[0] as u64);
        put(&mut bytes, 32, self.words[1] as u64);
        bytes[40..44].copy_from_slice(&self.incarnation.to_be_bytes());
        put(&mut bytes, 56, self.count);
        bytes
    }

    /// Decodes a summary, if it was read whole. Zeros are not a summary.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != SUMMARY_BYTES || word(bytes, 0) != word(bytes, 56) || word(bytes, 0) == 0 {
            return None;
        }
        Some(Self {
            count: word(bytes, 0),
            complete: word(bytes, 8),
            origin: bytes[16],
            method: bytes[17],
            slot: half(bytes, 20),
            words: [word(bytes, 24) as i64, word(bytes, 32) as i64],
            incarnation: half(bytes, 40),
        })
    }
}

/// A call in a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub number: u64,
    pub origin: u8,
    pub method: u8,
    pub incarnation: u32,
    pub sequence: u32,
    pub arguments: Arguments,
    pub depends: Vector,
}

impl Entry {
    pub fn write(&self, bytes: &mut [u8], layout: &Layout) {
        bytes.fill(0);
        put(bytes, 0, self.number);
        (bytes[8], bytes[9]) = (self.origin, self.method);
        bytes[12..16].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.sequence.to_be_bytes());
        put_arguments(&mut bytes[24..ENTRY_HEAD], &self.arguments);
        if layout.has_vectors {
            self.depends.write(&mut bytes[ENTRY_HEAD..], layout.nodes);
        }
        put(bytes, layout.entry - 8, self.number);
    }

    /// Decodes the entry `number`, if these bytes hold it and it was read whole.
    pub fn parse(bytes: &[u8], number: u64, layout: &Layout) -> Option<Self> {
        if word(bytes, 0) != number || word(bytes, layout.entry - 8) != number {
            return None;
        }
        let depends = match layout.has_vectors {
            true => Vector::read(&bytes[ENTRY_HEAD..], layout.nodes),
            false => Vector::default(),
        };
        Some(Self {
            number,
            origin: bytes[8],
            method: bytes[9],
            incarnation: half(bytes, 12),
            sequence: half(bytes, 16),
            arguments: arguments(&bytes[24..]),
            depends,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_that_is_torn_is_none() {
        let summary =
            Summary { count: 9, complete: 9, origin: 1, method: 2, slot: 3, words: [-5, 6], incarnation: 7 };
        let bytes = summary.encode();
        assert_eq!(Summary::parse(&bytes), Some(summary));
        let later = Summary { count: 10, ..summary }.encode();
        let torn = [&later[..32], &bytes[32..]].concat();
        assert_eq!(Summary::parse(&torn), None);
        assert_eq!(Summary::parse(&[0; SUMMARY_BYTES]), None);
    }
}
