//! Tables of an engine on the host that peers reach with verbs: objects, locks and versions lie in the engine's memory at addresses that
//! stay ([`Chained`]), first those of the shard that the node is the primary of, then those of the others that it replicates.

use weft_waist::Memory;

use crate::key::{Key, Version};
use crate::message::Put;
use crate::store::{Bucket, Chained, Element};
use crate::transaction::TransactionId;

/// The sizes of one shard's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedShape {
    /// Buckets.
    pub buckets: u32,
    /// Buckets that can be linked behind them.
    pub linked: u32,
    /// Objects of a bucket: B.
    pub bucket_slots: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
}

impl LinkedShape {
    fn table(&self) -> Chained {
        Chained::new(self.buckets, self.linked, self.bucket_slots, self.value_bytes_max)
    }

    /// Bytes of one shard's table.
    pub fn bytes(&self) -> usize {
        self.table().bytes() as usize
    }
}

/// The tables of all shards that a node replicates.
#[derive(Debug)]
pub(crate) struct Linked {
    node: usize,
    nodes: usize,
    /// Where the first begins in the engine's memory.
    base: usize,
    bytes: usize,
    tables: Vec<Chained>,
}

impl Linked {
    pub fn new(shape: &LinkedShape, node: usize, nodes: usize, replicas: usize, base: usize) -> Self {
        let tables = (0..replicas).map(|_| shape.table()).collect();
        Self { node, nodes, base, bytes: shape.bytes(), tables }
    }

    /// Which of the tables has a shard, and where it begins.
    fn place(&self, shard: usize) -> (usize, usize) {
        let table = (self.node + self.nodes - shard) % self.nodes;
        assert!(table < self.tables.len(), "a shard that this node replicates");
        (table, self.base + table * self.bytes)
    }

    fn find(&self, memory: &Memory, key: Key) -> Option<usize> {
        let (table, base) = self.place(key.shard());
        let at = self.tables[table].find(&memory.image()[base..base + self.bytes], key)?;
        Some(base + at as usize)
    }

    fn element<'m>(&self, memory: &'m Memory, at: usize) -> Element<'m> {
        Element::parse(&memory.image()[at..at + self.tables[0].element_bytes()])
    }

    pub fn holder(&self, memory: &Memory, key: Key) -> Option<TransactionId> {
        TransactionId::from_bits(self.element(memory, self.find(memory, key)?).lock)
    }

    pub fn lock(&mut self, memory: &mut Memory, key: Key, id: TransactionId) -> bool {
        let (table, base) = self.place(key.shard());
        let bytes = &mut memory.image_mut()[base..base + self.bytes];
        let Ok(at) = self.tables[table].find_or_make(bytes, key, id.bits()) else { return false };
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

    /// The version of an object, and its value, which is appended; `None` if it is absent.
    pub fn get(&self, memory: &Memory, key: Key, values: &mut Vec<u8>) -> (Version, Option<usize>) {
        let Some(at) = self.find(memory, key) else { return (Version::ZERO, None) };
        let element = self.element(memory, at);
        values.extend_from_slice(element.value.unwrap_or_default());
        (element.version, element.value.map(<[u8]>::len))
    }

    /// Leaves what a write says, unless a later one is there.
    ///
    /// # Panics
    /// If the table has no room: it is made for all objects that the node may ever hold.
    pub fn put(&mut self, memory: &mut Memory, put: &Put<'_>) {
        let newer =
            self.find(memory, put.key).is_some_and(|at| self.element(memory, at).version >= put.version);
        if newer {
            return;
        }
        let (table, base) = self.place(put.key.shard());
        let bytes = &mut memory.image_mut()[base..base + self.bytes];
        let table = &mut self.tables[table];
        match put.value {
            Some(value) => {
                table.put(bytes, put.key, put.version, value).expect("the table has room");
            }
            // Rings have no order among each other: what was inserted may come later than its deletion.
            None => table.bury(bytes, put.key, put.version).expect("the table has room"),
        }
    }

    /// Calls `each` with every object that is present.
    pub fn for_each(&self, memory: &[u8], mut each: impl FnMut(Key, Version, &[u8])) {
        for (number, table) in self.tables.iter().enumerate() {
            let base = self.base + number * self.bytes;
            table.for_each(&memory[base..base + self.bytes], &mut each);
        }
    }

    // At a peer, whose own shard's table lies where this node's own does.

    pub fn remote_bucket(&self, key: Key) -> Bucket {
        self.remote(self.tables[0].bucket(key))
    }

    pub fn remote_next(&self, bytes: &[u8]) -> Option<Bucket> {
        self.tables[0].next(bytes).map(|bucket| self.remote(bucket))
    }

    fn remote(&self, bucket: Bucket) -> Bucket {
        Bucket { at: bucket.at + self.base as u64, length: bucket.length }
    }

    /// Where in a bucket's bytes the element of a key begins.
    pub fn position(&self, bytes: &[u8], key: Key) -> Option<usize> {
        self.tables[0].position(bytes, key)
    }

    pub fn element_bytes(&self) -> usize {
        self.tables[0].element_bytes()
    }

    pub fn bucket_bytes(&self) -> usize {
        self.remote_bucket(Key::new(0, 0)).length
    }

    /// Where the element of a key of the own shard is, for peers.
    pub fn address(&self, memory: &Memory, key: Key) -> Option<u64> {
        self.find(memory, key).map(|at| at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One coordinator inserts, another deletes, and their rings at a backup are read in the other order.
    #[test]
    fn what_was_deleted_is_not_inserted_by_what_came_before() {
        let shape = LinkedShape { buckets: 2, linked: 2, bucket_slots: 2, value_bytes_max: 64 };
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
