//! Tables in the memory of an engine that runs on the host, which peers access with verbs. Objects, locks and
//! versions lie at fixed addresses ([`Chained`]). The first tables are those of the shard whose primary the
//! node is; those of the other shards that it replicates follow.

use std::ops::Range;

use weft_waist::Memory;

use crate::key::{Key, Version};
use crate::message::Put;
use crate::store::{Bucket, Chained, Element};
use crate::transaction::TransactionId;

/// Tables of a shard. A table's number in the key ([`Key::table`]) counts modulo this.
pub const LINKED_TABLES: usize = 16;

/// The sizes of one table of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedTable {
    /// Number of buckets.
    pub buckets: u32,
    /// Number of further buckets that can be linked to full ones.
    pub linked: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: u32,
}

/// The sizes of one shard's tables. As in DrTM+H, each table of the application has its own, whose elements
/// are no longer than its values need. So a READ of an object or a bucket moves no bytes for the longer
/// values of other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedShape {
    /// Indexed by the table's number in the key.
    pub tables: [LinkedTable; LINKED_TABLES],
    /// Objects in a bucket: B in the paper.
    pub bucket_slots: u32,
}

impl LinkedShape {
    fn chained(&self) -> impl Iterator<Item = Chained> + '_ {
        self.tables.iter().map(|table| {
            let LinkedTable { buckets, linked, value_bytes_max } = *table;
            Chained::new(buckets, linked, self.bucket_slots, value_bytes_max as usize)
        })
    }

    /// Bytes of one shard's tables.
    pub fn bytes(&self) -> usize {
        self.chained().map(|table| table.bytes() as usize).sum()
    }

    /// Bytes of the longest bucket.
    pub(crate) fn bucket_bytes_max(&self) -> usize {
        self.chained().map(|table| table.bucket_bytes()).max().expect("there are tables")
    }
}

/// The tables of all shards that a node replicates.
#[derive(Debug)]
pub(crate) struct Linked {
    node: usize,
    nodes: usize,
    /// The shards' tables in order, with the first address of each in the engine's memory.
    tables: Vec<(usize, Chained)>,
}

impl Linked {
    pub fn new(shape: &LinkedShape, node: usize, nodes: usize, replicas: usize, base: usize) -> Self {
        let mut at = base;
        let tables = (0..replicas).flat_map(|_| shape.chained()).map(|table| {
            let begin = at;
            at += table.bytes() as usize;
            (begin, table)
        });
        Self { node, nodes, tables: tables.collect() }
    }

    /// The table of a key, and the table's byte range in the engine's memory.
    fn place(&self, key: Key) -> (usize, Range<usize>) {
        let replica = (self.node + self.nodes - key.shard()) % self.nodes;
        let number = replica * LINKED_TABLES + usize::from(key.table()) % LINKED_TABLES;
        let (begin, table) = self.tables.get(number).expect("a shard that this node replicates");
        (number, *begin..*begin + table.bytes() as usize)
    }

    fn find(&self, memory: &Memory, key: Key) -> Option<usize> {
        let (number, place) = self.place(key);
        let at = self.tables[number].1.find(&memory.image()[place.clone()], key)?;
        Some(place.start + at as usize)
    }

    /// Parses the element at address `at`, where the key was found.
    fn element<'m>(&self, memory: &'m Memory, key: Key, at: usize) -> Element<'m> {
        Element::parse(&memory.image()[at..at + self.element_bytes(key)])
    }

    pub fn holder(&self, memory: &Memory, key: Key) -> Option<TransactionId> {
        let at = self.find(memory, key)?;
        TransactionId::from_bits(self.element(memory, key, at).lock)
    }

    pub fn lock(&mut self, memory: &mut Memory, key: Key, id: TransactionId) -> bool {
        let (number, place) = self.place(key);
        let bytes = &mut memory.image_mut()[place];
        let Ok(at) = self.tables[number].1.find_or_insert(bytes, key, id.bits()) else { return false };
        let lock = at as usize + Chained::LOCK as usize;
        bytes[lock..lock + 8].copy_from_slice(&id.bits().to_le_bytes());
        true
    }

    pub fn unlock(&mut self, memory: &mut Memory, key: Key, id: TransactionId) {
        if self.holder(memory, key) == Some(id) {
            let lock = self.find(memory, key).expect("it is locked") + Chained::LOCK as usize;
            memory.image_mut()[lock..lock + 8].fill(0);
        }
    }

    /// The version of an object, and the length of its value, which is appended to `values`; `None` if the
    /// object is absent.
    pub fn get(&self, memory: &Memory, key: Key, values: &mut Vec<u8>) -> (Version, Option<usize>) {
        let Some(at) = self.find(memory, key) else { return (Version::ZERO, None) };
        let element = self.element(memory, key, at);
        values.extend_from_slice(element.value.unwrap_or_default());
        (element.version, element.value.map(<[u8]>::len))
    }

    /// Applies a write, unless the table has a later version of the key.
    ///
    /// # Panics
    /// If the table has no room. Its size must allow for all objects that the node may ever hold.
    pub fn put(&mut self, memory: &mut Memory, put: &Put<'_>) {
        let newer = self
            .find(memory, put.key)
            .is_some_and(|at| self.element(memory, put.key, at).version >= put.version);
        if newer {
            return;
        }
        let (number, place) = self.place(put.key);
        let bytes = &mut memory.image_mut()[place];
        let (_, table) = &mut self.tables[number];
        match put.value {
            Some(value) => {
                table.put(bytes, put.key, put.version, value).expect("the table has room");
            }
            // Rings have no order among each other, so the insertion may arrive after this deletion. The
            // deletion's version is kept to make the table ignore it.
            None => table.delete_or_mark_deleted(bytes, put.key, put.version).expect("the table has room"),
        }
    }

    /// Calls `each` with every object.
    pub fn for_each(&self, memory: &[u8], mut each: impl FnMut(Key, Version, &[u8])) {
        for (begin, table) in &self.tables {
            table.for_each(&memory[*begin..begin + table.bytes() as usize], &mut each);
        }
    }

    // Access to a peer's tables: those of its own shard lie at the same addresses as those of this node's own
    // shard.

    fn own(&self, key: Key) -> &(usize, Chained) {
        &self.tables[usize::from(key.table()) % LINKED_TABLES]
    }

    pub fn remote_bucket(&self, key: Key) -> Bucket {
        let (begin, table) = self.own(key);
        let Bucket { at, length } = table.bucket(key);
        Bucket { at: at + *begin as u64, length }
    }

    /// The bucket that follows, in the chain of `key`, the bucket whose bytes are `bytes`.
    pub fn remote_next(&self, bytes: &[u8], key: Key) -> Option<Bucket> {
        let (begin, table) = self.own(key);
        table.next(bytes).map(|Bucket { at, length }| Bucket { at: at + *begin as u64, length })
    }

    /// Offset of a key's element in a bucket's bytes.
    pub fn position(&self, bytes: &[u8], key: Key) -> Option<usize> {
        self.own(key).1.position(bytes, key)
    }

    /// Bytes of an element in a key's table.
    pub fn element_bytes(&self, key: Key) -> usize {
        self.own(key).1.element_bytes()
    }

    /// The address at which peers find the element of a key of this node's own shard.
    pub fn address(&self, memory: &Memory, key: Key) -> Option<u64> {
        self.find(memory, key).map(|at| at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(value_bytes_max: u32) -> LinkedShape {
        let table = LinkedTable { buckets: 2, linked: 2, value_bytes_max };
        LinkedShape { tables: [table; LINKED_TABLES], bucket_slots: 2 }
    }

    /// Objects with the same local number in several tables, whose values differ in length. One table number
    /// exceeds the number of tables.
    #[test]
    fn each_table_has_elements_as_long_as_its_values_need() {
        let mut shape = shape(8);
        shape.tables[3].value_bytes_max = 40;
        let mut linked = Linked::new(&shape, 1, 3, 2, 64);
        let mut memory = Memory::new(64 + 2 * shape.bytes());
        let keys: Vec<Key> = [(1, 2), (1, 3), (0, 3), (1, 255)]
            .into_iter()
            .map(|(shard, table): (usize, u64)| Key::new(shard, table << 48 | 7))
            .collect();
        let version = Version::from_bits(5);
        for (length, key) in keys.iter().enumerate() {
            linked.put(&mut memory, &Put { key: *key, version, value: Some(&[7; 8][..length + 1]) });
        }
        assert_eq!(keys.iter().map(|key| linked.element_bytes(*key)).collect::<Vec<_>>(), [40, 72, 72, 40]);
        assert_eq!(linked.remote_bucket(keys[0]).length, 8 + 2 * 40);
        for (length, key) in keys.iter().enumerate() {
            let mut value = Vec::new();
            assert_eq!(linked.get(&memory, *key, &mut value), (version, Some(length + 1)));
            let bucket = linked.remote_bucket(*key);
            if key.shard() == 1 {
                let bytes = &memory.image()[bucket.at as usize..][..bucket.length];
                let at = bucket.at + linked.position(bytes, *key).expect("it is there") as u64;
                assert_eq!(linked.address(&memory, *key), Some(at));
            }
        }
        let mut found = 0;
        linked.for_each(memory.image(), |_, _, _| found += 1);
        assert_eq!(found, keys.len());
    }

    /// One coordinator inserts an object and another deletes it. A backup applies their rings in the opposite
    /// order.
    #[test]
    fn what_was_deleted_is_not_inserted_by_what_came_before() {
        let shape = shape(64);
        let mut linked = Linked::new(&shape, 0, 1, 1, 0);
        let mut memory = Memory::new(shape.bytes());
        let key = Key::new(0, 7);
        let (older, newer) = (Version::from_bits(5), Version::from_bits(9));
        linked.put(&mut memory, &Put { key, version: newer, value: None });
        linked.put(&mut memory, &Put { key, version: older, value: Some(b"older") });
        let mut values = Vec::new();
        assert_eq!(linked.get(&memory, key, &mut values), (newer, None));
    }
}
