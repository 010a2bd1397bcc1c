//! The table, its readers and the index against models of them.

mod concurrent;
mod index;
mod model;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::key::{Key, Version};

/// The longest value here.
const VALUE: usize = 300;

/// Small tables of several geometries: so full that all happens that can.
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

/// Changes of few keys: twice as many insertions as deletions fill the table.
fn operations(count: usize) -> impl Strategy<Value = Vec<Operation>> {
    let length = prop_oneof![6 => 0usize..9, 2 => 30usize..60, 1 => 150usize..VALUE];
    let operation = prop_oneof![
        2 => (0u64..80, length).prop_map(|(key, length)| Operation::Put { key, length }),
        1 => (0u64..80).prop_map(|key| Operation::Remove { key }),
    ];
    prop::collection::vec(operation, count)
}

/// State of a key: its object, if it is present.
type Object = Option<(Version, Vec<u8>)>;

/// Objects as they should be.
type Model = BTreeMap<Key, (Version, Vec<u8>)>;

fn key(number: u64) -> Key {
    Key::new(3, number)
}

/// A value that tells which write it is from, in every byte.
fn value(version: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (version.wrapping_mul(31) + i) as u8).collect()
}

/// Does it to table and model alike; a table that is full changes nothing.
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

/// A lookup of memory that nobody changes: what was found, and how many reads it took.
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
