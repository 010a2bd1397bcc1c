//! How a joining node gets its state.
//!
//! The joiner asks each leader for the buckets that it leads, and one full member for its sessions, one answer after
//! the other. An answer covers the positions from the one asked for to the next, reads them all in one moment, and comes
//! in parts:
//!
//! ```text
//! slot      0 version(8)   8 value length(2) zero(6)   16 key(K)   value, padded with zeros to whole 64-bit words
//! session   0 client(8)    then 16 times: request(8) version(8) status(1) zero(7)
//! ```
//!
//! A bucket is never split between answers. The parts lie in a staging area until all are there.

use weft_waist::{NODES_MAX, NodeId};

use crate::message::{PARTS_MAX, StateChunk, What, be16, be64, put};
use crate::parameters::Parameters;
use crate::session::Sessions;
use crate::stream::Pace;

/// The position behind the last.
pub(crate) const END: u32 = u32::MAX;

/// Parts after which an answer ends with the bucket at hand.
pub(crate) const PARTS_AIM: usize = 16;

/// Buckets, or places of the session table, that are looked at for one answer: bounds the work of an event.
pub(crate) const SCAN_MAX: u32 = 1024;

const SLOT_HEADER: usize = 16;

/// The least `chunk_bytes` that can carry any one record.
pub(crate) fn chunk_bytes_least(parameters: &Parameters) -> usize {
    let slot = SLOT_HEADER + parameters.key_field() + parameters.value_bytes_max.next_multiple_of(8);
    StateChunk::HEADER + slot.max(Sessions::TRANSFER_BYTES)
}

/// Records in parts: composed at the sender, staged at the receiver.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    capacity: usize,
    count: usize,
    lengths: [usize; PARTS_MAX],
    bytes: Vec<u8>,
}

impl Parts {
    pub fn new(parameters: &Parameters) -> Self {
        let capacity = parameters.chunk_bytes - StateChunk::HEADER;
        Self { capacity, count: 0, lengths: [0; PARTS_MAX], bytes: vec![0; capacity * PARTS_MAX] }
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// How many parts have a record.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where the next record goes: to go back there with [`Parts::truncate`].
    pub fn mark(&self) -> (usize, usize) {
        (self.count, self.count.checked_sub(1).map_or(0, |last| self.lengths[last]))
    }

    pub fn truncate(&mut self, (count, length): (usize, usize)) {
        self.count = count;
        if let Some(last) = count.checked_sub(1) {
            self.lengths[last] = length;
        }
    }

    /// Appends a record of `length` bytes, filled in by the caller; `None` if all parts are full.
    pub fn record(&mut self, length: usize) -> Option<&mut [u8]> {
        debug_assert!(length <= self.capacity, "chunk_bytes was checked to hold any record");
        if self.count == 0 || self.lengths[self.count - 1] + length > self.capacity {
            if self.count == PARTS_MAX {
                return None;
            }
            self.lengths[self.count] = 0;
            self.count += 1;
        }
        let last = self.count - 1;
        let start = last * self.capacity + self.lengths[last];
        self.lengths[last] += length;
        Some(&mut self.bytes[start..start + length])
    }

    /// Appends a slot.
    pub fn slot(&mut self, version: u64, key: &[u8], value: &[u8]) -> Option<()> {
        let record = self.record(SLOT_HEADER + key.len() + value.len().next_multiple_of(8))?;
        record.fill(0);
        put(record, 0, version.to_be_bytes());
        put(record, 8, (value.len() as u16).to_be_bytes());
        record[SLOT_HEADER..SLOT_HEADER + key.len()].copy_from_slice(key);
        record[SLOT_HEADER + key.len()..][..value.len()].copy_from_slice(value);
        Some(())
    }

    pub fn part(&self, part: usize) -> &[u8] {
        &self.bytes[part * self.capacity..][..self.lengths[part]]
    }

    /// Stages a received part; `false` if it is longer than any that a peer with the same parameters sends.
    fn store(&mut self, part: usize, records: &[u8]) -> bool {
        let fits = records.len() <= self.capacity;
        if fits {
            self.bytes[part * self.capacity..][..records.len()].copy_from_slice(records);
            self.lengths[part] = records.len();
        }
        fits
    }

    /// The slots of all parts: version, key, value. `None` if the bytes are no slots.
    pub fn slots(
        &self,
        key_field: usize,
        value_max: usize,
    ) -> impl Iterator<Item = Option<(u64, &[u8], &[u8])>> {
        (0..self.count).flat_map(move |part| {
            let mut rest = self.part(part);
            std::iter::from_fn(move || {
                if rest.is_empty() {
                    return None;
                }
                let parsed = parse_slot(rest, key_field, value_max);
                rest = parsed.map_or(&[], |(_, after)| after);
                Some(parsed.map(|(slot, _)| slot))
            })
        })
    }

    /// The sessions of all parts. `None` if the bytes are no sessions.
    pub fn sessions(&self) -> impl Iterator<Item = Option<&[u8; Sessions::TRANSFER_BYTES]>> {
        (0..self.count).flat_map(|part| {
            self.part(part).chunks(Sessions::TRANSFER_BYTES).map(|bytes| bytes.try_into().ok())
        })
    }
}

type Slot<'a> = (u64, &'a [u8], &'a [u8]);

fn parse_slot(bytes: &[u8], key_field: usize, value_max: usize) -> Option<(Slot<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(SLOT_HEADER)?;
    let length = usize::from(be16(head, 8));
    if length == 0 || length > value_max {
        return None;
    }
    let (key, rest) = rest.split_at_checked(key_field)?;
    let (value, rest) = rest.split_at_checked(length.next_multiple_of(8))?;
    Some(((be64(head, 0), key, &value[..length]), rest))
}

/// Where a joining node gets one kind of state from, and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub node: NodeId,
    pub what: What,
    /// Everything before it has arrived; [`END`] when all has.
    pub cursor: u32,
    pub attempt: u32,
    /// The position behind the answer that is being staged.
    pub next: u32,
    pub tag: u64,
    parts: u8,
    have: u64,
    pub staged: Parts,
    pub pace: Pace,
}

impl Source {
    /// Forgets what is staged, for a new attempt.
    pub fn restart(&mut self) {
        self.attempt = self.attempt.wrapping_add(1);
        (self.parts, self.have) = (0, 0);
    }

    /// Stages a part that answers the attempt at hand; `true` when it was the last that was missing.
    pub fn stage(&mut self, chunk: &StateChunk<'_>) -> bool {
        if self.cursor == END
            || (chunk.attempt, chunk.from, chunk.what) != (self.attempt, self.cursor, self.what)
        {
            return false;
        }
        if self.have == 0 {
            (self.parts, self.next, self.tag) = (chunk.parts, chunk.next, chunk.tag);
        }
        let agrees = (chunk.parts, chunk.next, chunk.tag) == (self.parts, self.next, self.tag);
        if !agrees || self.have >> chunk.part & 1 == 1 || !self.staged.store(chunk.part.into(), chunk.records)
        {
            return false;
        }
        self.have |= 1 << chunk.part;
        self.staged.count = self.parts.into();
        self.have.count_ones() == u32::from(self.parts)
    }
}

/// The index of the source of sessions; those of buckets have the index of their leader.
pub(crate) const SESSIONS: usize = NODES_MAX;

/// The sources of a joining node.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub sources: Vec<Source>,
}

impl Transfer {
    pub fn new(parameters: &Parameters, node: NodeId) -> Self {
        let source = |index| Source {
            node: NodeId::new(index).unwrap_or(node),
            what: if index == SESSIONS { What::Sessions } else { What::Buckets },
            cursor: END,
            attempt: 0,
            next: 0,
            tag: 0,
            parts: 0,
            have: 0,
            staged: Parts::new(parameters),
            pace: Pace::new(parameters),
        };
        Self { sources: (0..=SESSIONS).map(source).collect() }
    }

    /// Nothing has to come from anywhere.
    pub fn stop(&mut self) {
        for source in &mut self.sources {
            source.cursor = END;
        }
    }

    /// Everything has to come from the beginning from a source.
    pub fn begin(&mut self, index: usize, node: NodeId) {
        let source = &mut self.sources[index];
        source.node = node;
        source.cursor = 0;
        source.restart();
    }

    /// Whether a bucket has come from the node that leads it.
    pub fn holds(&self, leader: usize, bucket: u32) -> bool {
        bucket < self.sources[leader].cursor
    }

    pub fn is_done(&self) -> bool {
        self.sources.iter().all(|source| source.cursor == END)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_waist::Epoch;

    use super::*;

    proptest! {
        #[test]
        fn slots_come_out_of_their_parts(slots in prop::collection::vec((any::<u64>(), any::<u64>(), 1usize..1024), 0..60)) {
            let parameters = Parameters::default();
            let mut parts = Parts::new(&parameters);
            for &(version, key, length) in &slots {
                parts.slot(version, &key.to_be_bytes(), &vec![version as u8; length]).unwrap();
            }
            let read: Vec<_> = parts.slots(8, 1024).map(|slot| {
                let (version, key, value) = slot.unwrap();
                assert!(value.iter().all(|&byte| byte == version as u8));
                (version, u64::from_be_bytes(key.try_into().unwrap()), value.len())
            }).collect();
            prop_assert_eq!(read, slots);
        }

        #[test]
        fn hostile_records_end_the_iteration(bytes in prop::collection::vec(any::<u8>(), 0..1248)) {
            let mut parts = Parts::new(&Parameters::default());
            prop_assert!(parts.store(0, &bytes));
            parts.count = 1;
            prop_assert!(parts.slots(8, 1024).count() <= bytes.len());
            prop_assert!(parts.sessions().count() <= bytes.len());
        }
    }

    #[test]
    fn an_answer_is_complete_with_its_last_part_in_any_order() {
        let mut transfer = Transfer::new(&Parameters::default(), NodeId::new(0).unwrap());
        transfer.begin(1, NodeId::new(1).unwrap());
        let source = &mut transfer.sources[1];
        let records: [[u8; 16]; 3] = std::array::from_fn(|part| [part as u8; 16]);
        let chunk = |attempt, part, tag| StateChunk {
            epoch: Epoch(2),
            attempt,
            what: What::Buckets,
            part,
            parts: 3,
            from: 0,
            next: 7,
            tag,
            records: &records[usize::from(part)],
        };
        let attempt = source.attempt;
        assert!(!source.stage(&chunk(attempt, 2, 9)));
        assert!(!source.stage(&chunk(attempt, 2, 9)), "a duplicate");
        assert!(!source.stage(&chunk(attempt, 1, 8)), "another moment");
        assert!(!source.stage(&chunk(attempt + 1, 1, 9)), "another attempt");
        assert!(!source.stage(&chunk(attempt, 0, 9)));
        assert!(source.stage(&chunk(attempt, 1, 9)));
        assert_eq!((source.next, source.tag, source.staged.count()), (7, 9, 3));
        assert_eq!(source.staged.part(2), [2; 16]);
    }
}
