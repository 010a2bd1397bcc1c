//! The table in card memory, byte by byte, so that a twin in gateware can share the image.
//!
//! ```text
//! memory    bucket 0 | bucket 1 | …
//! bucket    0 tags: 32 x 2 bytes, one per way, 0 = free; ways that the table lacks stay 0
//!           64 slot of way 0 | slot of way 1 | …
//! slot      0 latest(8)    version of the latest accepted write
//!           8 version(8)   version of the latest committed write; 0 if there was none
//!           16 length(2)   bytes of the value
//!           18 flags(1)    1 claimed, 2 present; zero(5)
//!           24 key(K)      padded with zeros to whole 64-bit words
//!           24+K value     padded to whole 64-bit words; stale bytes may follow the value
//! ```
//!
//! All integers are big-endian, as on the wire. A key is first looked for in the way that its hash names, and only
//! then by the tags of the bucket: at the fill that [`crate::Parameters::for_keys`] aims at, most keys sit in
//! the way of their hash, so a hit costs one burst (header and the first bytes of the value together); else the tags
//! of all 32 ways are one more burst, the width of one 512-bit beat, and name the slot. A slot is contiguous, so a
//! commit is one burst as well.
//!
//! Only committed values are in a slot. `latest` differs from `version` exactly while a write is undecided.

use weft_waist::Memory;

use crate::message::{be16, be64, put};
use crate::parameters::Parameters;
use crate::placement::{Placement, mix};

const TAGS_BYTES: usize = 64;
const CLAIMED: u8 = 1;
const PRESENT: u8 = 2;
const VERSION: usize = 8;
const LENGTH: usize = 16;
const FLAGS: usize = 18;
const KEY: usize = 24;

/// How much a read fetches before it knows how long the value is: two 64-byte beats.
const FIRST_BURST: usize = 128;

/// The geometry of the table. The content is in the engine's memory.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    buckets: u32,
    ways: u32,
    key_field: usize,
    slot_bytes: usize,
    bucket_bytes: usize,
    /// Room to compose a burst in.
    scratch: Vec<u8>,
}

/// A slot: bucket times ways plus way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub u32);

/// What stands in a claimed slot beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Version of the latest accepted write.
    pub latest: u64,
    /// Version of the latest committed write.
    pub version: u64,
    /// Bytes of the value.
    pub length: usize,
    /// Whether the key is there, as far as it is committed.
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
        let slot_bytes = KEY + key_field + parameters.value_bytes_max.next_multiple_of(8);
        Self {
            buckets: parameters.buckets,
            ways: parameters.ways,
            key_field,
            slot_bytes,
            bucket_bytes: TAGS_BYTES + parameters.ways as usize * slot_bytes,
            scratch: vec![0; slot_bytes],
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets as usize * self.bucket_bytes
    }

    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    pub fn place(&self, key: &[u8]) -> Placement {
        Placement::of(key, self.buckets, self.ways)
    }

    fn slot(&self, bucket: u32, way: u32) -> Slot {
        Slot(bucket * self.ways + way)
    }

    fn address(&self, slot: Slot) -> usize {
        let (bucket, way) = (slot.0 / self.ways, slot.0 % self.ways);
        bucket as usize * self.bucket_bytes + TAGS_BYTES + way as usize * self.slot_bytes
    }

    fn tag_address(&self, slot: Slot) -> usize {
        (slot.0 / self.ways) as usize * self.bucket_bytes + 2 * (slot.0 % self.ways) as usize
    }

    fn header(bytes: &[u8]) -> Header {
        Header {
            latest: be64(bytes, 0),
            version: be64(bytes, VERSION),
            length: be16(bytes, LENGTH).into(),
            present: bytes[FLAGS] & PRESENT != 0,
        }
    }

    /// The header of `key`'s slot, if it has one: reads `burst` bytes of a slot at a time.
    fn find_with(
        &self,
        memory: &mut Memory,
        place: Placement,
        key: &[u8],
        burst: usize,
    ) -> Option<(Slot, Header)> {
        let holds = |bytes: &[u8]| bytes[FLAGS] & CLAIMED != 0 && bytes[KEY..KEY + key.len()] == *key;
        let named = self.slot(place.bucket, place.way);
        let bytes = memory.read(self.address(named), burst);
        if holds(bytes) {
            return Some((named, Self::header(bytes)));
        }
        let mut candidates = Self::ways_with(self.tags(memory, place.bucket), place.tag) & !(1 << place.way);
        while candidates != 0 {
            let slot = self.slot(place.bucket, candidates.trailing_zeros());
            let bytes = memory.read(self.address(slot), burst);
            if holds(bytes) {
                return Some((slot, Self::header(bytes)));
            }
            candidates &= candidates - 1;
        }
        None
    }

    fn tags<'m>(&self, memory: &'m mut Memory, bucket: u32) -> &'m [u8] {
        memory.read(bucket as usize * self.bucket_bytes, TAGS_BYTES)
    }

    /// The ways whose tag is `tag`, one bit each.
    fn ways_with(tags: &[u8], tag: u16) -> u32 {
        let tag = tag.to_be_bytes();
        tags.chunks_exact(2).enumerate().fold(0, |ways, (way, bytes)| ways | u32::from(bytes == tag) << way)
    }

    /// The slot that `key` has claimed.
    pub fn find(&self, memory: &mut Memory, place: Placement, key: &[u8]) -> Option<(Slot, Header)> {
        self.find_with(memory, place, key, KEY + self.key_field)
    }

    /// The slot that `key` has claimed, with the committed value.
    pub fn read<'m>(
        &self,
        memory: &'m mut Memory,
        place: Placement,
        key: &[u8],
    ) -> Option<(Header, &'m [u8])> {
        let burst = FIRST_BURST.min(self.slot_bytes);
        let (slot, header) = self.find_with(memory, place, key, burst)?;
        let (address, start) = (self.address(slot), KEY + self.key_field);
        let end = start + header.length;
        if end > burst {
            memory.read(address + burst, end - burst);
        }
        // The bytes were charged above, in the bursts that a card would make.
        Some((header, &memory.image()[address + start..address + end]))
    }

    /// Gives `key` a slot, or the one that it has, and notes `latest` there. `None` if the bucket is full.
    pub fn claim(&self, memory: &mut Memory, place: Placement, key: &[u8], latest: u64) -> Option<Slot> {
        if let Some((slot, _)) = self.find(memory, place, key) {
            self.note_latest(memory, slot, latest);
            return Some(slot);
        }
        self.claim_free(memory, place, key, latest)
    }

    /// Notes that a later write to a claimed slot was accepted.
    pub fn note_latest(&self, memory: &mut Memory, slot: Slot, latest: u64) {
        memory.write(self.address(slot), &latest.to_be_bytes());
    }

    /// Gives `key`, which has no slot, a free one: the way that its hash names, or the next free one after it.
    pub fn claim_free(&self, memory: &mut Memory, place: Placement, key: &[u8], latest: u64) -> Option<Slot> {
        let mask = u32::MAX >> (32 - self.ways);
        let free = Self::ways_with(self.tags(memory, place.bucket), 0) & mask;
        if free == 0 {
            return None;
        }
        let behind = free & (u32::MAX << place.way);
        let slot = self.slot(place.bucket, if behind != 0 { behind } else { free }.trailing_zeros());
        memory.write(self.tag_address(slot), &place.tag.to_be_bytes());
        let mut header = [0; KEY + 64];
        put(&mut header, 0, latest.to_be_bytes());
        header[FLAGS] = CLAIMED;
        header[KEY..KEY + key.len()].copy_from_slice(key);
        memory.write(self.address(slot), &header[..KEY + key.len()]);
        Some(slot)
    }

    /// Commits a value to a claimed slot: one burst from the version to the end of the value.
    pub fn commit_value(&mut self, memory: &mut Memory, slot: Slot, version: u64, key: &[u8], value: &[u8]) {
        let end = KEY + key.len() + value.len();
        let image = &mut self.scratch[..end];
        put(image, VERSION, version.to_be_bytes());
        put(image, LENGTH, (value.len() as u16).to_be_bytes());
        image[FLAGS..KEY].copy_from_slice(&[CLAIMED | PRESENT, 0, 0, 0, 0, 0]);
        image[KEY..KEY + key.len()].copy_from_slice(key);
        image[KEY + key.len()..].copy_from_slice(value);
        memory.write(self.address(slot) + VERSION, &self.scratch[VERSION..end]);
    }

    /// Commits a delete: frees the slot unless a later write to it is undecided.
    pub fn commit_delete(&self, memory: &mut Memory, slot: Slot, version: u64) {
        let latest = be64(memory.read(self.address(slot), 8), 0);
        if latest == version {
            self.free(memory, slot);
        } else {
            let mut fields = [0; KEY - VERSION];
            put(&mut fields, 0, version.to_be_bytes());
            fields[FLAGS - VERSION] = CLAIMED;
            memory.write(self.address(slot) + VERSION, &fields);
        }
    }

    /// Takes back that a write was accepted: nothing is undecided in the slot after it.
    pub fn abandon(&self, memory: &mut Memory, slot: Slot) {
        let bytes = memory.read(self.address(slot), KEY);
        let (header, claimed) = (Self::header(bytes), bytes[FLAGS] & CLAIMED != 0);
        match (claimed, header.present) {
            (false, _) => {}
            (true, false) => self.free(memory, slot),
            (true, true) => self.note_latest(memory, slot, header.version),
        }
    }

    fn free(&self, memory: &mut Memory, slot: Slot) {
        memory.write(self.tag_address(slot), &[0; 2]);
        memory.write(self.address(slot), &[0; KEY + 64][..KEY + self.key_field]);
    }

    /// Frees every slot of a bucket, whatever its memory held before.
    pub fn clear_bucket(&self, memory: &mut Memory, bucket: u32) {
        memory.write(bucket as usize * self.bucket_bytes, &[0; TAGS_BYTES]);
        for way in 0..self.ways {
            memory.write(self.address(self.slot(bucket, way)), &[0; KEY + 64][..KEY + self.key_field]);
        }
    }

    /// The present keys of a bucket in the order of ways: version, key, value.
    pub fn visit_bucket(&self, memory: &mut Memory, bucket: u32, mut visit: impl FnMut(u64, &[u8], &[u8])) {
        let mut claimed = !Self::ways_with(self.tags(memory, bucket), 0);
        while claimed != 0 {
            let address = self.address(self.slot(bucket, claimed.trailing_zeros()));
            let bytes = memory.read(address, self.slot_bytes);
            let header = Self::header(bytes);
            if header.present {
                let (key, value) = bytes[KEY..].split_at(self.key_field);
                visit(header.version, key, &value[..header.length]);
            }
            claimed &= claimed - 1;
        }
    }

    /// A digest of the committed content that does not depend on which key sits in which way: the wrapping sum over
    /// all present keys of a hash of key, version and value.
    pub fn digest(&self, memory: &Memory) -> u64 {
        let image = memory.image();
        let mut digest = 0u64;
        for slot in (0..self.buckets * self.ways).map(Slot) {
            let tag = self.tag_address(slot);
            if image[tag..tag + 2] == [0; 2] {
                continue;
            }
            let bytes = &image[self.address(slot)..][..self.slot_bytes];
            let header = Self::header(bytes);
            if header.present {
                let content = &bytes[KEY..KEY + self.key_field + header.length];
                let mut hash = mix(header.version ^ content.len() as u64);
                for chunk in content.chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    hash = mix(hash ^ u64::from_be_bytes(word));
                }
                digest = digest.wrapping_add(hash);
            }
        }
        digest
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

    /// The first keys of bucket 0.
    fn keys_of_one_bucket(table: &Table, count: usize) -> Vec<[u8; 8]> {
        (0..).map(key).filter(|key| table.place(key).bucket == 0).take(count).collect()
    }

    #[test]
    fn a_hit_in_the_named_way_is_one_burst() {
        let (mut table, mut memory) = small();
        let place = table.place(&key(7));
        let slot = table.claim(&mut memory, place, &key(7), 5).unwrap();
        table.commit_value(&mut memory, slot, 5, &key(7), b"value");
        memory.take_accesses();
        let (header, value) = table.read(&mut memory, place, &key(7)).unwrap();
        assert_eq!(value, b"value");
        assert_eq!(header, Header { latest: 5, version: 5, length: 5, present: true });
        assert_eq!(memory.take_accesses().reads, 1);
    }

    #[test]
    fn a_long_value_takes_a_second_burst() {
        let parameters = Parameters::for_keys(1);
        let mut table = Table::new(&parameters);
        let mut memory = Memory::new(table.memory_bytes());
        let place = table.place(&key(7));
        let slot = table.claim(&mut memory, place, &key(7), 5).unwrap();
        table.commit_value(&mut memory, slot, 5, &key(7), &[9; 1024]);
        memory.take_accesses();
        assert_eq!(table.read(&mut memory, place, &key(7)).unwrap().1, [9; 1024]);
        let accesses = memory.take_accesses();
        assert_eq!((accesses.reads, accesses.bytes), (2, 32 + 1024));
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
        assert!(
            memory.image().iter().all(|&byte| byte == 0 || byte == b'x'),
            "a free slot keeps stale value bytes only"
        );
    }

    proptest! {
        /// Puts and deletes that are decided at once leave what a map would hold.
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
            for bucket in 0..table.buckets() {
                table.visit_bucket(&mut memory, bucket, |version, key, value| {
                    visited.insert(<[u8; 8]>::try_from(key).unwrap(), (version, value.to_vec()));
                });
            }
            prop_assert_eq!(visited, model);
        }
    }
}
