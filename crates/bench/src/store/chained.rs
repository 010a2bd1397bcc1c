//! DrTM+H's table: buckets, with linked buckets for overflowing objects.

use weft_txn::Version;
use weft_txn::store::{Chained, Region};

use super::{Count, Figures, Row, StoreBench, VALUE_BYTES};

pub(super) fn measure(bench: &StoreBench, elements: u32, step: &mut impl FnMut()) -> Row {
    let buckets = bench.slots(elements) / elements;
    let mut table = Chained::new(buckets, buckets, elements, VALUE_BYTES);
    let mut memory = vec![0; table.bytes() as usize];
    let home = |bucket: u64| bucket < u64::from(buckets);
    for number in 0..bench.keys {
        table
            .put(&mut memory, bench.key(number), Version::from_bits(number + 1), &number.to_le_bytes())
            .expect("there are as many linked buckets as others");
        step();
    }
    let (mut random, mut count, mut overflowed) = (bench.random(), Count::default(), 0u64);
    for _ in 0..bench.lookups {
        let key = bench.key(random.below(bench.keys));
        let mut bucket = table.bucket(key);
        count.lookups += 1;
        loop {
            count.read(Region { at: bucket.at, length: bucket.length, objects: elements });
            let bytes = &memory[bucket.at as usize..][..bucket.length];
            if table.position(bytes, key).is_some() {
                overflowed += u64::from(!home(bucket.at / bucket.length as u64));
                break;
            }
            bucket = table.next(bytes).expect("an object that was inserted is found");
        }
        step();
    }
    let (objects_per_lookup, roundtrips_per_lookup) = match elements {
        4 => (4.65, 1.16),
        8 => (8.81, 1.10),
        _ => (16.96, 1.06),
    };
    Row {
        structure: format!("chained, B = {elements}"),
        overflow_fraction: overflowed as f64 / bench.lookups.max(1) as f64,
        figures: count.figures(),
        paper: Some(Figures { objects_per_lookup, roundtrips_per_lookup }),
        ..Row::default()
    }
}
