//! Weft's table, with the indexes that are compared.

use std::collections::VecDeque;

use weft_txn::store::{Index, IndexParameters, Layout, Lookup, Next, Precision, Report, Shape, Table};
use weft_txn::{Key, Version};

use super::{Count, Row, StoreBench, VALUE_BYTES, index_name, memory, paper};

/// An index, and the counts of its lookups.
struct Measured {
    precision: Precision,
    ahead: u32,
    index: Index<u64>,
    at_rest: Count,
    absent: Count,
    in_motion: Count,
}

impl Measured {
    fn new(layout: Layout, precision: Precision, ahead: u32) -> Self {
        // The index caches no objects, so every lookup reads the host's table.
        let parameters = IndexParameters { precision, ahead, entries: 1, value_bytes_max: VALUE_BYTES };
        let [at_rest, absent, in_motion] = [Count::default(); 3];
        Self { precision, ahead, index: Index::new(layout, parameters), at_rest, absent, in_motion }
    }
}

/// A table on the host, and the indexes on the card.
struct Cluster {
    table: Table,
    memory: Vec<u8>,
    indexes: Vec<Measured>,
    version: u64,
    /// Reports for the indexes that have not reached the card, by time of their change.
    under_way: VecDeque<Vec<(usize, Report)>>,
    reports: u64,
}

/// Measures one table. Returns a row for each index.
pub(super) fn measure(
    bench: &StoreBench,
    displacement: Option<u32>,
    segment_slots: u32,
    step: &mut impl FnMut(),
) -> Vec<Row> {
    let slots = bench.slots(segment_slots);
    let layout = Layout::new(Shape {
        slots,
        segment_slots,
        displacement,
        slot_bytes: 32,
        pages: if displacement.is_some() { slots / 8 } else { 0 },
        page_slots: 4,
        blocks: 0,
        value_bytes_max: VALUE_BYTES,
    })
    .expect("the shape is possible");
    let indexes = match segment_slots {
        2 => vec![(Precision::Highest, 0), (Precision::Highest, 1)],
        _ => vec![(Precision::Highest, 0), (Precision::Runs, 0)],
    };
    let table = match displacement {
        Some(limit) => Table::new(layout).with_probe((limit * bench.reach_percent).div_ceil(100)),
        None => Table::new(layout),
    };
    let mut cluster = Cluster {
        table,
        memory: memory(&layout),
        indexes: indexes
            .into_iter()
            .map(|(precision, ahead)| Measured::new(layout, precision, ahead))
            .collect(),
        version: 0,
        under_way: VecDeque::new(),
        reports: 0,
    };
    for number in 0..bench.keys {
        cluster.insert(bench.key(number));
        cluster.deliver();
        step();
    }
    let overflow = cluster.table.overflowed() as f64 / cluster.table.objects() as f64;
    let reports_per_insertion = cluster.reports as f64 / bench.keys as f64;
    let mut random = bench.random();
    for _ in 0..bench.lookups {
        let number = random.below(bench.keys);
        cluster.look_up(bench.key(number), true, |measured| &mut measured.at_rest);
        let never_inserted = bench.keys + bench.replacements + number;
        cluster.look_up(bench.key(never_inserted), false, |measured| &mut measured.absent);
        step();
    }
    // Replace objects, the oldest first. Lookups are for objects that were reported long ago, because the
    // card would still cache newer ones.
    for replaced in 0..bench.replacements {
        let change = cluster.table.remove(cluster.memory.as_mut_slice(), bench.key(replaced));
        cluster.report(change.segments);
        cluster.insert(bench.key(bench.keys + replaced));
        while cluster.under_way.len() > 2 * bench.lag {
            cluster.deliver();
        }
        let number = replaced + 1 + random.below(bench.keys.saturating_sub(1 + bench.lag as u64).max(1));
        cluster.look_up(bench.key(number), true, |measured| &mut measured.in_motion);
        step();
    }
    let row = |measured: Measured| {
        let bytes = measured.index.hint_bytes();
        Row {
            structure: "Robin Hood".to_owned(),
            displacement_limit: displacement,
            index: Some(index_name(measured.precision, measured.ahead).to_owned()),
            segment_slots: Some(segment_slots),
            index_bytes_per_segment: Some(bytes),
            index_bytes_per_slot: Some(bytes as f64 / f64::from(segment_slots)),
            overflow_fraction: overflow,
            figures: measured.at_rest.figures(),
            absent: Some(measured.absent.figures()),
            while_replacing: Some(measured.in_motion.figures()),
            reports_per_insertion: Some(reports_per_insertion),
            paper: (measured.precision == Precision::Highest && segment_slots == 2)
                .then(|| paper(displacement))
                .flatten(),
        }
    };
    cluster.indexes.into_iter().map(row).collect()
}

impl Cluster {
    fn insert(&mut self, key: Key) {
        self.version += 1;
        let version = Version::from_bits(self.version);
        let value = self.version.to_be_bytes();
        let change = self.table.put(self.memory.as_mut_slice(), key, version, &value);
        let change = change.expect("the table has room at this occupancy");
        self.report(change.segments);
    }

    /// Records the host's reports of the segments that a change has modified.
    fn report(&mut self, segments: Option<(u32, u32)>) {
        let (first, last) = segments.expect("an object came or went");
        self.reports += u64::from(last - first + 1);
        let mut reports = Vec::new();
        for (number, measured) in self.indexes.iter().enumerate() {
            let of = |segment| (number, self.table.report(&self.memory, segment, measured.precision));
            reports.extend((first..=last).map(of));
        }
        self.under_way.push_back(reports);
    }

    /// Delivers the oldest reports to the card.
    fn deliver(&mut self) {
        for (number, report) in self.under_way.pop_front().into_iter().flatten() {
            self.indexes[number].index.report(&report);
        }
    }

    fn look_up(&mut self, key: Key, there: bool, count: fn(&mut Measured) -> &mut Count) {
        let layout = self.table.layout();
        for measured in &mut self.indexes {
            let mut value = [0; VALUE_BYTES];
            let (mut lookup, mut region) = Lookup::new(layout, key, measured.index.hint(key));
            let count = count(measured);
            count.lookups += 1;
            loop {
                count.read(region);
                let bytes = &self.memory[region.at as usize..][..region.length];
                match lookup.take(layout, bytes, &mut value) {
                    Next::Read(next) => region = next,
                    Next::Found(..) => break assert!(there, "only what was inserted is found"),
                    Next::Absent => break assert!(!there, "what was inserted is found"),
                }
            }
        }
    }
}
