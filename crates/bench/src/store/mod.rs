//! Number of objects that a lookup reads over the bus, and number of roundtrips: Xenic's table 2, with Weft's
//! own index for comparison.

mod chained;
mod hopscotch;
mod result;
mod robin_hood;

use weft_txn::Key;
use weft_txn::store::{Layout, Precision, Region};

use weft_workload::Random;

pub use result::{Figures, Row, StoreResult};

/// The displacement limits of table 2.
const DISPLACEMENTS: [Option<u32>; 4] = [Some(8), Some(16), Some(32), None];

/// Segment sizes of the two compared indexes. docs/benchmarks/transactions.md explains the choice.
const SEGMENTS: [u32; 2] = [2, 8];

/// Objects of a bucket of DrTM+H in table 2.
const BUCKETS: [u32; 3] = [4, 8, 16];

/// Bytes of a value. The value fits into the smallest slot, and its size has no effect on the counts.
const VALUE_BYTES: usize = 8;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct StoreBench {
    /// Objects in each table.
    pub keys: u64,
    /// Occupancy of the tables: objects per hundred slots, including those in overflow pages.
    pub occupancy_percent: u32,
    /// Maximum distance at which an insertion searches for a free slot, in hundredths of the displacement
    /// limit.
    pub reach_percent: u32,
    /// Number of lookups of random objects, in each table.
    pub lookups: u64,
    /// Number of objects that are then replaced, each by a deletion and an insertion, with a lookup after
    /// each replacement.
    pub replacements: u64,
    /// Delay of the host's reports to the card, in replacements.
    pub lag: usize,
    /// Seed of keys and lookups.
    pub seed: u64,
}

impl StoreBench {
    /// Number of steps of the measurement, for the progress of [`StoreBench::run`].
    pub fn steps(&self) -> u64 {
        let robin_hood = (DISPLACEMENTS.len() * SEGMENTS.len()) as u64;
        let others = 1 + BUCKETS.len() as u64;
        (robin_hood + others) * (self.keys + self.lookups) + robin_hood * self.replacements
    }

    /// Runs the measurement. `progress` is called with the number of steps done.
    pub fn run(&self, mut progress: impl FnMut(u64)) -> StoreResult {
        let (mut done, mut rows) = (0, Vec::new());
        let mut step = || {
            done += 1;
            if done % 4096 == 0 {
                progress(done);
            }
        };
        for displacement in DISPLACEMENTS {
            for segment_slots in SEGMENTS {
                let segment_rows = robin_hood::measure(self, displacement, segment_slots, &mut step);
                rows.extend(segment_rows);
            }
        }
        rows.push(hopscotch::measure(self, &mut step));
        rows.extend(BUCKETS.map(|elements| chained::measure(self, elements, &mut step)));
        StoreResult {
            keys: self.keys,
            occupancy_percent: self.occupancy_percent,
            reach_percent: self.reach_percent,
            lookups: self.lookups,
            replacements: self.replacements,
            lag_replacements: self.lag,
            seed: self.seed,
            rows,
        }
    }

    /// Number of slots for this number of keys at the chosen occupancy, a multiple of `unit`.
    fn slots(&self, unit: u32) -> u32 {
        let slots = (self.keys * 100).div_ceil(self.occupancy_percent.into()) as u32;
        slots.next_multiple_of(unit)
    }

    /// The key with this number. Different numbers have different keys.
    fn key(&self, number: u64) -> Key {
        const LOCAL: u64 = (1 << 56) - 1;
        // Multiplying by an odd factor permutes the numbers below 2^56.
        Key::new(0, (number + 1 + (self.seed << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) & LOCAL)
    }

    /// Random numbers that draw the keys to look up.
    fn random(&self) -> Random {
        Random::new(self.seed, 0)
    }
}

/// Counts of lookups.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    lookups: u64,
    objects: u64,
    roundtrips: u64,
}

impl Count {
    fn read(&mut self, region: Region) {
        self.objects += u64::from(region.objects);
        self.roundtrips += 1;
    }

    fn figures(&self) -> Figures {
        let per_lookup = |count: u64| count as f64 / self.lookups.max(1) as f64;
        Figures {
            objects_per_lookup: per_lookup(self.objects),
            roundtrips_per_lookup: per_lookup(self.roundtrips),
        }
    }
}

/// Figures of Robin Hood tables in Xenic's table 2; `None` if it does not have them.
fn paper(displacement: Option<u32>) -> Option<Figures> {
    let (objects_per_lookup, roundtrips_per_lookup) = match displacement {
        Some(8) => (3.43, 1.07),
        Some(16) => (4.13, 1.04),
        Some(32) => (4.84, 1.02),
        None => (6.39, 1.0),
        _ => return None,
    };
    Some(Figures { objects_per_lookup, roundtrips_per_lookup })
}

/// Name of an index in the result's rows.
fn index_name(precision: Precision, ahead: u32) -> &'static str {
    match (precision, ahead) {
        (Precision::Highest, 0) => "highest",
        (Precision::Highest, _) => "highest + 1",
        (Precision::Runs, _) => "runs",
    }
}

/// Size of a table in the host's memory, in bytes.
fn memory(layout: &Layout) -> Vec<u8> {
    vec![0; layout.bytes() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> StoreResult {
        let bench = StoreBench {
            keys: 60_000,
            occupancy_percent: 90,
            reach_percent: 150,
            lookups: 40_000,
            replacements: 10_000,
            lag: 16,
            seed: 3,
        };
        let mut last = 0;
        let result = bench.run(|done| last = done);
        assert!(last > bench.steps() - 4096 && last <= bench.steps(), "{last} of {}", bench.steps());
        result
    }

    /// The bounds of the paper's table hold on a small table as well; the scatter is a few hundredths.
    #[test]
    fn the_paper_s_rows_are_reached_and_runs_read_fewer_objects() {
        let result = small();
        for displacement in DISPLACEMENTS {
            let row = |index: &str, segment_slots| {
                let rows = result.rows.iter().filter(|row| row.displacement_limit == displacement);
                rows.clone()
                    .find(|row| {
                        row.index.as_deref() == Some(index) && row.segment_slots == Some(segment_slots)
                    })
                    .expect("the row was measured")
            };
            let (ours, paper) = (row("highest", 2), paper(displacement).unwrap());
            assert!(ours.figures.objects_per_lookup < paper.objects_per_lookup, "{ours:?}");
            assert!(ours.figures.roundtrips_per_lookup < paper.roundtrips_per_lookup + 0.001, "{ours:?}");
            let (runs, same_segment) = (row("runs", 8), row("highest", 8));
            assert!(
                runs.index_bytes_per_segment.unwrap() <= same_segment.index_bytes_per_segment.unwrap() + 2
            );
            for other in [same_segment, ours] {
                assert!(
                    runs.figures.objects_per_lookup < other.figures.objects_per_lookup,
                    "{runs:?} {other:?}"
                );
            }
        }
    }

    /// The lengths of chains of buckets follow from the Poisson distribution, with a mean load of 0.9 B. A lookup reads
    /// B objects for each bucket up to the one with its object.
    #[test]
    fn chained_buckets_read_what_poisson_says() {
        let result = small();
        for elements in BUCKETS {
            let row =
                result.rows.iter().find(|row| row.structure == format!("chained, B = {elements}")).unwrap();
            let mean = 0.9 * f64::from(elements);
            let (mut probability, mut reads) = ((-mean).exp(), 0.0);
            for load in 1..200 {
                probability *= mean / f64::from(load);
                reads += probability * (0..load).map(|i| f64::from(i / elements + 1)).sum::<f64>();
            }
            let expected = reads / mean;
            let measured = row.figures.roundtrips_per_lookup;
            assert!((measured - expected).abs() < 0.01, "{elements}: {measured}, {expected} expected");
            let objects = row.figures.objects_per_lookup;
            assert!((objects - measured * f64::from(elements)).abs() < 1e-9, "whole buckets are read");
        }
    }
}
