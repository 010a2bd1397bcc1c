//! FaRM's table: Hopscotch hashing (Herlihy, Shavit and Tzafrir, DISC 2008) with a neighbourhood of H slots. Each home
//! slot has a chain of overflow pages for objects that find no room in its neighbourhood. A lookup reads the
//! neighbourhood, then the overflow pages.

use std::collections::BTreeMap;

use weft_txn::store::{Layout, Region, Shape};

use super::{Count, Figures, Row, StoreBench, VALUE_BYTES};

/// Slots of a neighbourhood in Xenic's table 2.
const H: u32 = 8;

/// Maximum distance from its home at which an insertion searches for a free slot.
const PROBE: u32 = 512;

const FREE: u32 = u32::MAX;

/// A table that stores the objects' home slots only. Lookups need no further data.
struct Hopscotch {
    /// The number of the object in each slot.
    slots: Vec<u32>,
    overflow: BTreeMap<u32, Vec<u32>>,
}

impl Hopscotch {
    fn insert(&mut self, object: u32, home: u32, homes: impl Fn(u32) -> u32) {
        let end = (home + PROBE).min(self.slots.len() as u32);
        let Some(mut free) = (home..end).find(|&slot| self.slots[slot as usize] == FREE) else {
            return self.overflow.entry(home).or_default().push(object);
        };
        while free >= home + H {
            // The farthest slot before the free slot whose object may move into the free slot.
            let movable = |&slot: &u32| free < homes(self.slots[slot as usize]) + H;
            let Some(slot) = (free + 1 - H..free).find(movable) else {
                return self.overflow.entry(home).or_default().push(object);
            };
            self.slots[free as usize] = self.slots[slot as usize];
            self.slots[slot as usize] = FREE;
            free = slot;
        }
        self.slots[free as usize] = object;
    }
}

pub(super) fn measure(bench: &StoreBench, step: &mut impl FnMut()) -> Row {
    let slots = bench.slots(1);
    // Only the hash function of this shape is used, so that an object has the same home slot as in Weft's
    // table.
    let shape = Shape {
        slots,
        segment_slots: 1,
        displacement: None,
        slot_bytes: 32,
        pages: 0,
        page_slots: 1,
        blocks: 0,
        value_bytes_max: VALUE_BYTES,
    };
    let layout = Layout::new(shape).expect("the shape is possible");
    let home = |object: u32| layout.segment(bench.key(object.into()).bits());
    let mut table = Hopscotch { slots: vec![FREE; (slots + H - 1) as usize], overflow: BTreeMap::new() };
    for object in 0..bench.keys as u32 {
        table.insert(object, home(object), home);
        step();
    }
    let (mut random, mut count) = (bench.random(), Count::default());
    for _ in 0..bench.lookups {
        let object = random.below(bench.keys) as u32;
        let home = home(object);
        count.lookups += 1;
        count.read(Region { at: home.into(), length: 0, objects: H });
        if !table.slots[home as usize..][..H as usize].contains(&object) {
            let overflow = &table.overflow[&home];
            assert!(overflow.contains(&object), "an object that was inserted is found");
            count.read(Region { at: 0, length: 0, objects: overflow.len() as u32 });
        }
        step();
    }
    let overflowed: usize = table.overflow.values().map(Vec::len).sum();
    Row {
        structure: format!("Hopscotch, H = {H}"),
        overflow_fraction: overflowed as f64 / bench.keys as f64,
        figures: count.figures(),
        paper: Some(Figures { objects_per_lookup: f64::from(H), roundtrips_per_lookup: 1.04 }),
        ..Row::default()
    }
}
