//! The tables of a server: their sizes and their initial content.

use weft_txn::Placement;
use weft_txn::host::HalfTables;
use weft_txn::store::{IndexParameters, Layout, Precision, Shape};
use weft_txn::{Key, LINKED_TABLES, LinkedShape, LinkedTable, Parameters, VALUE_MAX};

use weft_applications::Workload;

/// Objects for each hundred slots (Xenic table 2).
const OCCUPANCY_PERCENT: u64 = 90;
/// The displacement limit D_m; it is one of those in Xenic's table 2.
const DISPLACEMENT: u32 = 16;
/// Home slots of a segment.
const SEGMENT: u32 = 4;
/// Records of an overflow page.
const PAGE: u32 = 2;
/// Objects of a bucket of DrTM+H: the middle size of Xenic's table 2.
const BUCKET: u32 = 8;
/// Bytes of a slot, and bytes of the largest value that fits, as [`weft_txn::store::Shape`] defines it.
const SLOTS: [(usize, usize); 6] = [(32, 8), (64, 40), (128, 102), (192, 164), (256, 226), (320, 256)];
/// Entries of the card's index, per hundred objects of the card's own shard. The 16 GB of Xenic's card have
/// room for all of them, and the index is full when a measurement begins.
const CACHED_PERCENT: u64 = 120;

/// Numbers of objects in a server's tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    /// Objects of all shards that the server replicates.
    objects: u64,
    /// Objects of its own shard.
    own: u64,
    /// Number of values that fit each slot size, and number of longer values.
    by_slot: [u64; SLOTS.len() + 1],
    longest: usize,
    /// Number of objects and longest value of each table of one shard ([`weft_txn::Key::table`]).
    tables: [(u64, usize); LINKED_TABLES],
    /// Number of objects, of all shards, that may be inserted and for which there is room.
    inserted: u64,
}

impl Contents {
    /// Counts the initial objects of the server that has the most.
    pub(super) fn count(workload: &dyn Workload, nodes: usize, replicas: usize) -> Self {
        let mut most = Self::default();
        let shards: Vec<Self> = (0..nodes)
            .map(|shard| {
                let mut contents = Self::default();
                workload.load(shard, &mut |key, value| contents.add(key, value.len()));
                contents
            })
            .collect();
        for node in 0..nodes {
            let mut sum = Self { own: shards[node].objects, ..Self::default() };
            for step in 0..replicas {
                let shard = &shards[(node + nodes - step) % nodes];
                sum.objects += shard.objects;
                sum.by_slot.iter_mut().zip(&shard.by_slot).for_each(|(sum, of)| *sum += of);
                sum.longest = sum.longest.max(shard.longest);
            }
            if sum.objects >= most.objects {
                most = sum;
            }
        }
        for table in 0..LINKED_TABLES {
            let of_shards = || shards.iter().map(|shard| shard.tables[table]);
            let (objects, longest) = (of_shards().map(|(objects, _)| objects), of_shards().map(|of| of.1));
            most.tables[table] = (objects.max().unwrap_or(0), longest.max().unwrap_or(0));
        }
        most
    }

    fn add(&mut self, key: Key, length: usize) {
        let (objects, longest) = &mut self.tables[usize::from(key.table()) % LINKED_TABLES];
        (*objects, *longest) = (*objects + 1, length.max(*longest));
        self.objects += 1;
        self.longest = self.longest.max(length);
        let place = SLOTS.iter().position(|(_, value)| length <= *value).unwrap_or(SLOTS.len());
        self.by_slot[place] += 1;
    }

    /// The same contents, with room for `inserted` more objects of the same sizes.
    pub(super) fn with_room(mut self, inserted: u64) -> Self {
        let all = self.objects.max(1);
        for count in &mut self.by_slot {
            *count += (*count * inserted).div_ceil(all);
        }
        self.objects = self.by_slot.iter().sum();
        self.inserted = inserted;
        self
    }

    /// The shape of a table with the least memory: slots for short values, blocks for longer ones.
    fn shape(&self) -> Shape {
        let bytes = |shape: &Shape| Layout::new(*shape).expect("the shape is in range").bytes();
        let shapes = (0..SLOTS.len()).map(|place| self.shape_with(place));
        shapes.min_by_key(bytes).expect("there are sizes of slots")
    }

    fn shape_with(&self, place: usize) -> Shape {
        let longer: u64 = self.by_slot[place + 1..].iter().sum();
        let slots = (self.objects * 100 / OCCUPANCY_PERCENT + 64).next_multiple_of(SEGMENT.into());
        let slots = u32::try_from(slots).expect("a table has fewer than 2^32 slots");
        Shape {
            slots,
            segment_slots: SEGMENT,
            displacement: Some(DISPLACEMENT),
            slot_bytes: SLOTS[place].0,
            pages: slots / 16 + 16,
            page_slots: PAGE,
            blocks: u32::try_from(longer + longer / 16 + 16).expect("a table has fewer than 2^32 blocks"),
            value_bytes_max: self.longest.clamp(8, VALUE_MAX),
        }
    }

    /// The tables of one shard in memory that one-sided verbs access. They have buckets of the size B with
    /// which Xenic compares, and the occupancy of Xenic's own table. Inserted objects may go into any table,
    /// so each table has linked buckets for all of them; these take no memory before they are used.
    pub(super) fn linked(&self, replicas: usize) -> LinkedShape {
        let inserted = self.inserted.div_ceil(replicas as u64);
        let tables = self.tables.map(|(objects, longest)| {
            let buckets = (objects * 100 / OCCUPANCY_PERCENT).div_ceil(BUCKET.into()) + 8;
            let linked = buckets / 2 + 8 + inserted.min(buckets + inserted / u64::from(BUCKET));
            let longest = if objects == 0 { self.longest } else { longest };
            let number = |count: u64| u32::try_from(count).expect("a table has fewer than 2^32 buckets");
            LinkedTable {
                buckets: number(buckets),
                linked: number(linked),
                value_bytes_max: longest.clamp(8, VALUE_MAX) as u32,
            }
        });
        LinkedShape { tables, bucket_slots: BUCKET }
    }

    /// Tables for an engine on a card, and the state of the program on its host.
    pub(super) fn on_card(&self, parameters: &Parameters) -> (Placement, HalfTables) {
        let shape = self.shape();
        let table_address = (parameters.log_address + parameters.log_bytes as u64).next_multiple_of(64);
        let precision = Precision::Runs;
        let entries = (self.own * CACHED_PERCENT / 100).max(1 << 12);
        let index = IndexParameters {
            precision,
            ahead: 0,
            entries: u32::try_from(entries).expect("an index has fewer than 2^32 entries"),
            value_bytes_max: shape.value_bytes_max,
        };
        let tables = HalfTables {
            shape,
            table_address,
            precision,
            log_address: parameters.log_address,
            log_bytes: parameters.log_bytes,
        };
        (Placement::Card { shape, index, table_address }, tables)
    }
}
