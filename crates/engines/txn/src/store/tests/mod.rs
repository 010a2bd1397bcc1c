//! Tests of the table, its readers and the index against models.

mod concurrent;
mod index;
mod model;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::key::{Key, Version};

/// The longest value in these tests.
const VALUE: usize = 300;

/// Small tables of several geometries. They are so full that displacement and overflow happen often.
fn shapes() -> impl Strategy<Value = Shape> {
    let displacement = prop_oneof![Just(Some(4)), Just(Some(8)), Just(None)];
    (displacement, prop_oneof![Just(1u32), Just(4), Just(8)], prop_oneof![Just(32usize), Just(64), Just(192)])
        .prop_map(|(displacement, segment_slots, slot_bytes)| Shape {
            slots: 48,
            segment_slots,
            displacement,
            slot_bytes,
            pages: 8,
            page_slots: 2,
            blocks: 12,
            value_bytes_max: VALUE,
        })
}

/// One change of a table.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Put { key: u64, length: usize },
    Remove { key: u64 },
}

/// Changes of few keys. There are twice as many insertions as deletions, which fills the table.
fn operations(count: usize) -> impl Strategy<Value = Vec<Operation>> {
    let length = prop_oneof![6 => 0usize..9, 2 => 30usize..60, 1 => 150usize..VALUE];
    let operation = prop_oneof![
        2 => (0u64..80, length).prop_map(|(key, length)| Operation::Put { key, length }),
        1 => (0u64..80).prop_map(|key| Operation::Remove { key }),
    ];
    prop::collection::vec(operation, count)
}

/// State of a key: its version and value, if it exists.
type Object = Option<(Version, Vec<u8>)>;

/// The expected objects.
type Model = BTreeMap<Key, (Version, Vec<u8>)>;

fn key(number: u64) -> Key {
    Key::new(3, number)
}

/// A value in which every byte depends on the write's version.
fn value(version: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (version.wrapping_mul(31) + i) as u8).collect()
}

/// Applies an operation to the table and the model. A full table changes neither.
fn apply<L: Lines + ?Sized>(
    table: &mut Table,
    memory: &mut L,
    model: &mut Model,
    operation: Operation,
    version: u64,
) -> Option<(u32, u32)> {
    let stamp = Version::from_bits(version);
    match operation {
        Operation::Put { key: number, length } => {
            let bytes = value(version, length);
            let known = model.contains_key(&key(number));
            let change = table.put(memory, key(number), stamp, &bytes).ok()?;
            assert_eq!(change.moved, !known);
            model.insert(key(number), (stamp, bytes));
            change.segments
        }
        Operation::Remove { key: number } => {
            let change = table.remove(memory, key(number));
            assert_eq!(change.moved, model.remove(&key(number)).is_some());
            change.segments
        }
    }
}

/// A look-up while nobody writes. Returns what was found, and the number of reads.
fn look_up(layout: &Layout, bytes: &[u8], key: Key, hint: Hint) -> (Object, u32) {
    let mut buffer = [0; VALUE];
    let (mut lookup, mut region) = Lookup::new(layout, key, hint);
    for reads in 1..40 {
        match lookup.take(layout, &bytes[region.at as usize..][..region.length], &mut buffer) {
            Next::Read(next) => region = next,
            Next::Found(version, length) => return (Some((version, buffer[..length].to_vec())), reads),
            Next::Absent => return (None, reads),
        }
    }
    panic!("a lookup ends");
}
