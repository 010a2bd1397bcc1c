//! The layout of the table in card memory, byte by byte. The engine in gateware can use the same image.
//!
//! ```text
//! memory    tags of bucket 0 | tags of bucket 1 | … | slot 0 | slot 1 | …       slot = bucket * ways + way
//! tags      2 bytes for each of 32 ways: beats(5 bits) tag(11 bits); 0 = free; ways that the table lacks stay 0
//! slot      0 latest(8)    version of the latest accepted write
//!           8 version(8)   version of the latest committed write; 0 if there was none
//!           16 length(2)   bytes of the value
//!           18 flags(1)    1 claimed, 2 present; zero(5)
//!           24 key(K)      padded with zeros to whole 64-bit words
//!           then the value from the next multiple of 64 on; stale bytes may follow it
//! ```
//!
//! All integers are big-endian, as on the wire. A slot is a whole number of 64-byte beats, the width of a card's
//! memory. A bucket's tags are one beat; a card keeps all of them on chip, so they are not counted as accesses. A
//! tag comes from the key's hash and is never 0. `beats` is the number of beats that the committed value takes: 0
//! if there is none, 31 if there are more than 30. So before its first access, a read can tell where to look and
//! how much to fetch: a hit is one burst (unless another key of the bucket has the same tag, once in 2,047), a
//! miss is none.
//!
//! A slot holds only committed values. `latest` differs from `version` exactly while a write is undecided. The
//! content of a free slot has no meaning.

use weft_waist::Memory;

use crate::message::{be16, be64, put};
use crate::parameters::{KEY_BYTES_MAX, Parameters};
use crate::placement::{Placement, mix};

const BEAT: usize = 64;
const TAGS_BYTES: usize = BEAT;
const TAG_BITS: u32 = 11;
const TAG_MASK: u16 = (1 << TAG_BITS) - 1;
const BEATS_MANY: usize = 31;

const CLAIMED: u8 = 1;
const PRESENT: u8 = 2;
const VERSION: usize = 8;
const LENGTH: usize = 16;
const FLAGS: usize = 18;
const KEY: usize = 24;

/// The geometry of the table. The content is in the engine's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    buckets: u32,
    way_bits: u32,
    key_field: usize,
    /// Offset of the value in a slot.
    value_at: usize,
    slot_bytes: usize,
    /// Buffer in which a burst is composed.
    scratch: Vec<u8>,
}

/// A slot: bucket times ways plus way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotNumber(pub u32);

/// Content of a claimed slot except key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Version of the latest accepted write.
    pub latest: u64,
    /// Version of the latest committed write.
    pub version: u64,
    /// Bytes of the value.
    pub length: usize,
    /// Whether the key is present in the committed state.
    pub present: bool,
}

impl Header {
    /// Whether a write is accepted and not yet committed.
    pub fn is_undecided(&self) -> bool {
        self.latest != self.version
    }
}

impl Table {
    pub fn new(parameters: &Parameters) -> Self {
        let key_field = parameters.key_field();
        let value_at = (KEY + key_field).next_multiple_of(BEAT);
        let slot_bytes = value_at + parameters.value_bytes_max.next_multiple_of(BEAT);
        Self {
            buckets: parameters.buckets,
            way_bits: parameters.ways.trailing_zeros(),
            key_field,
            value_at,
            slot_bytes,
            scratch: vec![0; slot_bytes],
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.tags_bytes() + self.slots() as usize * self.slot_bytes
    }

    /// Bytes of all tags, which come first.
    fn tags_bytes(&self) -> usize {
        self.buckets as usize * TAGS_BYTES
    }

    /// Number of slots in the whole table: buckets times ways.
    pub fn slots(&self) -> u32 {
        self.buckets << self.way_bits
    }

    /// The bucket that a slot belongs to.
    pub fn bucket(&self, slot: SlotNumber) -> u32 {
        slot.0 >> self.way_bits
    }

    /// Slots of a bucket.
    pub fn ways(&self) -> u32 {
        1 << self.way_bits
    }

    pub fn place(&self, key: &[u8]) -> Placement {
        Placement::of(key, self.buckets, self.ways())
    }

    /// The slot of a way in a bucket.
    pub fn slot(&self, bucket: u32, way: u32) -> SlotNumber {
        SlotNumber(bucket << self.way_bits | way)
    }

    fn address(&self, slot: SlotNumber) -> usize {
        self.tags_bytes() + slot.0 as usize * self.slot_bytes
    }

    fn tag_address(&self, slot: SlotNumber) -> usize {
        let way = slot.0 & (self.ways() - 1);
        self.bucket(slot) as usize * TAGS_BYTES + 2 * way as usize
    }

    /// The tag of a slot and the beats of its value; all zero if the slot is free.
    fn tag_and_beats(&self, memory: &Memory, slot: SlotNumber) -> (u16, usize) {
        let entry = be16(memory.image(), self.tag_address(slot));
        (entry & TAG_MASK, usize::from(entry >> TAG_BITS))
    }

    fn set_tag_and_beats(&self, memory: &mut Memory, slot: SlotNumber, tag: u16, beats: usize) {
        let entry = (beats.min(BEATS_MANY) as u16) << TAG_BITS | tag;
        put(memory.image_mut(), self.tag_address(slot), entry.to_be_bytes());
    }

    /// Bit mask of the ways of a bucket whose tag is `tag`; for tag 0, the free ways.
    fn ways_with(&self, memory: &Memory, bucket: u32, tag: u16) -> u32 {
        let tags = &memory.image()[bucket as usize * TAGS_BYTES..][..2 * self.ways() as usize];
        tags.chunks_exact(2)
            .enumerate()
            .fold(0, |ways, (way, bytes)| ways | u32::from(be16(bytes, 0) & TAG_MASK == tag) << way)
    }

    fn header(bytes: &[u8]) -> Header {
        Header {
            latest: be64(bytes, 0),
            version: be64(bytes, VERSION),
            length: be16(bytes, LENGTH).into(),
            present: bytes[FLAGS] & PRESENT != 0,
        }
    }

    /// The slot that `key` has claimed, if any. It takes one memory burst for each way whose tag matches: the
    /// header alone, or with `read` the value as well.
    fn find_or_read(
        &self,
        memory: &mut Memory,
        place: Placement,
        key: &[u8],
        read: bool,
    ) -> Option<(SlotNumber, Header)> {
        let mut candidates = self.ways_with(memory, place.bucket, place.tag);
        while candidates != 0 {
            let slot = self.slot(place.bucket, candidates.trailing_zeros());
            let (_, beats) = self.tag_and_beats(memory, slot);
            let burst = self.value_at + if read { beats * BEAT } else { 0 };
            let bytes = memory.read(self.address(slot), burst);
            if bytes[KEY..KEY + key.len()] == *key {
                return Some((slot, Self::header(bytes)));
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// The slot that `key` has claimed.
    pub fn find(&self, memory: &mut Memory, place: Placement, key: &[u8]) -> Option<(SlotNumber, Header)> {
        self.find_or_read(memory, place, key, false)
    }

    /// The slot claimed by `key`, with the committed value.
    pub fn read<'m>(
        &self,
        memory: &'m mut Memory,
        place: Placement,
        key: &[u8],
    ) -> Option<(Header, &'m [u8])> {
        let (slot, header) = self.find_or_read(memory, place, key, true)?;
        Some((header, self.rest_of_value(memory, slot, header.length)))
    }

    /// The value of a slot. The first burst fetched as many beats as the tag says; the remainder of a long value
    /// takes one more burst.
    fn rest_of_value<'m>(&self, memory: &'m mut Memory, slot: SlotNumber, length: usize) -> &'m [u8] {
        let start = self.address(slot) + self.value_at;
        let burst = BEATS_MANY * BEAT;
        if length > burst {
            memory.read(start + burst, length - burst);
        }
        &memory.image()[start..start + length]
    }

    /// Returns the slot of `key`, claiming a free one if it has none, and stores `latest` there. `None` if the
    /// bucket is full.
    pub fn claim(
        &self,
        memory: &mut Memory,
        place: Placement,
        key: &[u8],
        latest: u64,
    ) -> Option<SlotNumber> {
        if let Some((slot, _)) = self.find(memory, place, key) {
            self.note_latest(memory, slot, latest);
            return Some(slot);
        }
        self.claim_free(memory, place, key, latest)
    }

    /// Stores in a claimed slot that a later write was accepted.
    pub fn note_latest(&self, memory: &mut Memory, slot: SlotNumber, latest: u64) {
        memory.write(self.address(slot), &latest.to_be_bytes());
    }

    /// Claims a free slot for `key`, which has none: the way that its hash names, or the next free one after it.
    pub fn claim_free(
        &self,
        memory: &mut Memory,
        place: Placement,
        key: &[u8],
        latest: u64,
    ) -> Option<SlotNumber> {
        let free = self.ways_with(memory, place.bucket, 0);
        if free == 0 {
            return None;
        }
        let behind = free & (u32::MAX << place.way);
        let slot = self.slot(place.bucket, if behind != 0 { behind } else { free }.trailing_zeros());
        self.set_tag_and_beats(memory, slot, place.tag, 0);
        let mut header = [0; KEY + KEY_BYTES_MAX];
        put(&mut header, 0, latest.to_be_bytes());
        header[FLAGS] = CLAIMED;
        header[KEY..KEY + key.len()].copy_from_slice(key);
        memory.write(self.address(slot), &header[..KEY + key.len()]);
        Some(slot)
    }

    /// Commits a value to a claimed slot: one burst from the version to the end of the value.
    pub fn commit_value(
        &mut self,
        memory: &mut Memory,
        slot: SlotNumber,
        version: u64,
        key: &[u8],
        value: &[u8],
    ) {
        let end = self.value_at + value.len();
        let image = &mut self.scratch[..end];
        put(image, VERSION, version.to_be_bytes());
        put(image, LENGTH, (value.len() as u16).to_be_bytes());
        image[FLAGS..KEY].copy_from_slice(&[CLAIMED | PRESENT, 0, 0, 0, 0, 0]);
        image[KEY..KEY + key.len()].copy_from_slice(key);
        image[self.value_at..].copy_from_slice(value);
        memory.write(self.address(slot) + VERSION, &self.scratch[VERSION..end]);
        let (tag, _) = self.tag_and_beats(memory, slot);
        self.set_tag_and_beats(memory, slot, tag, value.len().div_ceil(BEAT));
    }

    /// Commits a delete: frees the slot unless a later write to it is undecided.
    pub fn commit_delete(&self, memory: &mut Memory, slot: SlotNumber, version: u64) {
        let latest = be64(memory.read(self.address(slot), 8), 0);
        if latest == version {
            self.free(memory, slot);
        } else {
            let mut fields = [0; KEY - VERSION];
            put(&mut fields, 0, version.to_be_bytes());
            fields[FLAGS - VERSION] = CLAIMED;
            memory.write(self.address(slot) + VERSION, &fields);
            let (tag, _) = self.tag_and_beats(memory, slot);
            self.set_tag_and_beats(memory, slot, tag, 0);
        }
    }

    /// Withdraws the accepted write of a slot, so that nothing in the slot is undecided.
    pub fn abandon(&self, memory: &mut Memory, slot: SlotNumber) {
        match self.tag_and_beats(memory, slot) {
            (0, _) => {}
            (_, 0) => self.free(memory, slot),
            _ => {
                let header = Self::header(memory.read(self.address(slot), KEY));
                self.note_latest(memory, slot, header.version);
            }
        }
    }

    fn free(&self, memory: &mut Memory, slot: SlotNumber) {
        self.set_tag_and_beats(memory, slot, 0, 0);
    }

    /// Marks every slot as free.
    pub fn clear(&self, memory: &mut Memory) {
        memory.image_mut()[..self.tags_bytes()].fill(0);
    }

    /// The committed content of a slot, read in one burst: version, key, value.
    pub fn fetch<'m>(&self, memory: &'m mut Memory, slot: SlotNumber) -> Option<(u64, &'m [u8], &'m [u8])> {
        let (_, beats) = self.tag_and_beats(memory, slot);
        if beats == 0 {
            return None;
        }
        let address = self.address(slot);
        let header = Self::header(memory.read(address, self.value_at + beats * BEAT));
        self.rest_of_value(memory, slot, header.length);
        let bytes = &memory.image()[address..address + self.slot_bytes];
        let value = &bytes[self.value_at..][..header.length];
        Some((header.version, &bytes[KEY..KEY + self.key_field], value))
    }

    /// The header and key of a slot; `None` if it is free.
    pub fn peek<'m>(&self, memory: &'m mut Memory, slot: SlotNumber) -> Option<(Header, &'m [u8])> {
        let (tag, _) = self.tag_and_beats(memory, slot);
        if tag == 0 {
            return None;
        }
        let bytes = memory.read(self.address(slot), KEY + self.key_field);
        Some((Self::header(bytes), &bytes[KEY..]))
    }

    /// A digest of the committed content that does not depend on which key sits in which way: the wrapping sum over
    /// all present keys of a hash of key, version and value.
    pub fn digest(&self, memory: &Memory) -> u64 {
        let image = memory.image();
        let mut digest = 0u64;
        for slot in (0..self.slots()).map(SlotNumber) {
            if self.tag_and_beats(memory, slot).1 == 0 {
                continue;
            }
            let bytes = &image[self.address(slot)..][..self.slot_bytes];
            let header = Self::header(bytes);
            let (key, value) = (&bytes[KEY..KEY + self.key_field], &bytes[self.value_at..][..header.length]);
            let mut hash = mix(header.version ^ (key.len() + value.len()) as u64);
            for chunk in key.chunks(8).chain(value.chunks(8)) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                hash = mix(hash ^ u64::from_be_bytes(word));
            }
            digest = digest.wrapping_add(hash);
        }
        digest
    }
}

impl Parameters {
    /// Bytes of card memory that the engine needs; the memory must be zero when the engine starts.
    pub fn memory_bytes(&self) -> usize {
        Table::new(self).memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;

    fn small() -> (Table, Memory) {
        let parameters = Parameters { buckets: 256, ways: 4, value_bytes_max: 24, ..Parameters::default() };
        let table = Table::new(&parameters);
        let memory = Memory::new(table.memory_bytes());
        (table, memory)
    }

    fn key(index: u64) -> [u8; 8] {
        index.to_be_bytes()
    }

    /// The first `count` keys that hash to bucket 0.
    fn keys_of_one_bucket(table: &Table, count: usize) -> Vec<[u8; 8]> {
        (0..).map(key).filter(|key| table.place(key).bucket == 0).take(count).collect()
    }

    #[test]
    fn a_hit_is_one_burst_and_a_miss_is_none() {
        let (mut table, mut memory) = small();
        let place = table.place(&key(7));
        let slot = table.claim(&mut memory, place, &key(7), 5).unwrap();
        table.commit_value(&mut memory, slot, 5, &key(7), b"value");
        memory.take_accesses();
        let (header, value) = table.read(&mut memory, place, &key(7)).unwrap();
        assert_eq!(value, b"value");
        assert_eq!(header, Header { latest: 5, version: 5, length: 5, present: true });
        let accesses = memory.take_accesses();
        assert_eq!((accesses.reads, accesses.bytes), (1, 64 + 64));
        assert_eq!(table.read(&mut memory, table.place(&key(8)), &key(8)), None);
        assert_eq!(memory.take_accesses().reads, 0);
    }

    #[test]
    fn an_image_byte_by_byte() {
        let (mut table, mut memory) = small();
        let place = table.place(&key(7));
        let slot = table.claim(&mut memory, place, &key(7), 0x0506).unwrap();
        table.commit_value(&mut memory, slot, 0x0506, &key(7), b"value");
        let mut image = vec![0; 256 * 64 + 256 * 4 * 128];
        let tag = 1 << 11 | (mix(7) >> 53);
        assert_eq!(place.tag, tag as u16 & 0x7ff);
        let (bucket, way) = ((mix(7) & 255) as usize, (mix(7) >> 32 & 3) as usize);
        image[64 * bucket + 2 * way..][..2].copy_from_slice(&(tag as u16).to_be_bytes());
        let slot = &mut image[256 * 64 + 128 * (4 * bucket + way)..][..128];
        slot[6..8].copy_from_slice(&[5, 6]);
        slot[14..16].copy_from_slice(&[5, 6]);
        slot[16..19].copy_from_slice(&[0, 5, 3]);
        slot[31] = 7;
        slot[64..69].copy_from_slice(b"value");
        assert_eq!(memory.image(), image);
    }

    #[test]
    fn a_long_value_takes_a_second_burst() {
        for (length, reads) in [(64 * 31, 1), (64 * 31 + 1, 2), (4000, 2)] {
            let parameters = Parameters { value_bytes_max: 4000, ..Parameters::for_keys(1) };
            let mut table = Table::new(&parameters);
            let mut memory = Memory::new(table.memory_bytes());
            let place = table.place(&key(7));
            let slot = table.claim(&mut memory, place, &key(7), 5).unwrap();
            table.commit_value(&mut memory, slot, 5, &key(7), &vec![9; length]);
            memory.take_accesses();
            assert_eq!(table.read(&mut memory, place, &key(7)).unwrap().1, vec![9; length]);
            let accesses = memory.take_accesses();
            assert_eq!((accesses.reads, accesses.bytes), (reads, 64 + length.max(64 * 31) as u64));
            assert_eq!(table.fetch(&mut memory, slot), Some((5, &key(7)[..], &vec![9; length][..])));
            assert_eq!(memory.take_accesses(), accesses);
        }
    }

    #[test]
    fn a_full_bucket_takes_no_further_key_until_one_is_deleted() {
        let (mut table, mut memory) = small();
        let keys = keys_of_one_bucket(&table, 5);
        let place = |key: &[u8; 8]| table.place(key);
        let places: Vec<_> = keys.iter().map(place).collect();
        for (index, key) in keys[..4].iter().enumerate() {
            let slot = table.claim(&mut memory, places[index], key, 1 + index as u64).unwrap();
            table.commit_value(&mut memory, slot, 1 + index as u64, key, b"x");
        }
        assert_eq!(table.claim(&mut memory, places[4], &keys[4], 9), None);
        let (slot, _) = table.find(&mut memory, places[2], &keys[2]).unwrap();
        table.note_latest(&mut memory, slot, 10);
        table.commit_delete(&mut memory, slot, 10);
        assert_eq!(table.find(&mut memory, places[2], &keys[2]), None);
        assert_eq!(table.claim(&mut memory, places[4], &keys[4], 11), Some(slot));
    }

    #[test]
    fn a_slot_with_something_undecided_outlives_a_delete() {
        let (mut table, mut memory) = small();
        let place = table.place(&key(1));
        let slot = table.claim(&mut memory, place, &key(1), 1).unwrap();
        table.commit_value(&mut memory, slot, 1, &key(1), b"x");
        table.note_latest(&mut memory, slot, 2);
        table.note_latest(&mut memory, slot, 3);
        table.commit_delete(&mut memory, slot, 2);
        let (_, header) = table.find(&mut memory, place, &key(1)).unwrap();
        assert!(!header.present && header.is_undecided());
        table.abandon(&mut memory, slot);
        assert_eq!(table.find(&mut memory, place, &key(1)), None);
        assert!(memory.image()[..table.tags_bytes()].iter().all(|&byte| byte == 0), "all slots are free");
    }

    proptest! {
        /// Puts and deletes that are committed at once leave the table with the content of a map.
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((0u64..40, any::<bool>(), 1usize..24), 1..200)) {
            let (mut table, mut memory) = small();
            let mut model = BTreeMap::new();
            for (number, (index, write, length)) in (1u64..).zip(steps) {
                let key = key(index);
                let place = table.place(&key);
                if write {
                    let value = vec![number as u8; length];
                    if let Some(slot) = table.claim(&mut memory, place, &key, number) {
                        table.commit_value(&mut memory, slot, number, &key, &value);
                        model.insert(key, (number, value));
                    }
                } else if let Some((slot, _)) = table.find(&mut memory, place, &key) {
                    table.note_latest(&mut memory, slot, number);
                    table.commit_delete(&mut memory, slot, number);
                    model.remove(&key);
                }
            }
            for index in 0..40 {
                let found = table.read(&mut memory, table.place(&key(index)), &key(index));
                let found = found.map(|(header, value)| (header.version, value.to_vec()));
                prop_assert_eq!(found, model.get(&key(index)).cloned());
            }
            let mut visited = BTreeMap::new();
            for slot in (0..table.slots()).map(SlotNumber) {
                if let Some((version, key, value)) = table.fetch(&mut memory, slot) {
                    visited.insert(<[u8; 8]>::try_from(key).unwrap(), (version, value.to_vec()));
                }
            }
            prop_assert_eq!(visited, model);
            table.clear(&mut memory);
            prop_assert_eq!(table.digest(&memory), 0);
            prop_assert!((0..40).all(|index| table.find(&mut memory, table.place(&key(index)), &key(index)).is_none()));
        }
    }
}
