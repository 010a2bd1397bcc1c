//! What clients do and when they do it: the YCSB core workloads and two simple ones, in closed and open
//! loops.
//!
//! The mixes, distributions and default sizes are those of YCSB's `CoreWorkload` (Cooper et al., "Benchmarking
//! cloud serving systems with YCSB", SoCC 2010, and the property files `workloada` to `workloadf`). A record has one
//! value, where YCSB has ten fields of 100 bytes. YCSB's workload E scans ranges of keys in order, which a hash store
//! cannot do; it is rejected rather than imitated.
//!
//! A seed determines every operation, bit by bit, in every build and on every machine.

mod distribution;
mod load;
mod mathematics;
mod popularity;
mod random;

use std::collections::BTreeSet;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use distribution::Chooser;
pub use distribution::Distribution;
pub use load::{Limit, Load, Scheduler, Start};
pub use mathematics::power;
pub use popularity::Popularity;
pub use random::Random;

/// YCSB's `recordcount`.
pub const DEFAULT_RECORDS: u64 = 1_000;
/// The bytes of YCSB's ten fields of 100 bytes.
pub const DEFAULT_VALUE_BYTES: usize = 1_000;
/// The shortest value. A value starts with its number, so that all written values differ.
pub const MIN_VALUE_BYTES: usize = 8;

/// Record numbers, and the numbers of one lane's writes, are below this limit.
const NUMBERS_PER_LANE: u64 = 1 << 48;

/// Why a workload cannot run. The text says what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("there is no workload `{0}`; choose one of {list}", list = names())]
    Unknown(String),
    /// The user chose YCSB's workload E.
    #[error(
        "ycsb-e scans ranges of keys in order, which a hash store does not have; choose one of {list}",
        list = names()
    )]
    NeedsScans,
    /// No distribution has this name.
    #[error("there is no distribution `{0}`; choose one of uniform, zipfian, latest")]
    UnknownDistribution(String),
    /// The number of records is out of range.
    #[error("{0} records are not possible; choose 1 to 1,000,000,000")]
    Records(u64),
    /// Values are too short to be distinguished.
    #[error(
        "values of {0} bytes cannot all differ, so lost writes would go unseen; choose at least {MIN_VALUE_BYTES}"
    )]
    ValueBytes(usize),
}

fn names() -> String {
    CATALOGUE.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

/// An entry of the list of workloads.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueEntry {
    /// Name of the workload.
    pub name: &'static str,
    /// Description in a few words.
    pub summary: &'static str,
    mix: Mix,
    distribution: Distribution,
}

/// Shares of the operations in per cent; the remaining operations are read-modify-writes.
#[derive(Clone, Copy, Debug)]
struct Mix {
    get: u8,
    put: u8,
    insert: u8,
    delete: u8,
}

const fn mix(get: u8, put: u8, insert: u8) -> Mix {
    assert!(get + put + insert <= 100);
    Mix { get, put, insert, delete: 0 }
}

/// All workloads.
pub const CATALOGUE: [CatalogueEntry; 8] = [
    CatalogueEntry {
        name: "ycsb-a",
        summary: "update heavy: 50 % reads, 50 % writes, zipfian",
        mix: mix(50, 50, 0),
        distribution: Distribution::Zipfian,
    },
    CatalogueEntry {
        name: "ycsb-b",
        summary: "read mostly: 95 % reads, 5 % writes, zipfian",
        mix: mix(95, 5, 0),
        distribution: Distribution::Zipfian,
    },
    CatalogueEntry {
        name: "ycsb-c",
        summary: "read only: 100 % reads, zipfian",
        mix: mix(100, 0, 0),
        distribution: Distribution::Zipfian,
    },
    CatalogueEntry {
        name: "ycsb-d",
        summary: "read latest: 95 % reads, 5 % inserts, newest records most often",
        mix: mix(95, 0, 5),
        distribution: Distribution::Latest,
    },
    CatalogueEntry {
        name: "ycsb-f",
        summary: "read-modify-write: 50 % reads, 50 % read-modify-writes, zipfian",
        mix: mix(50, 0, 0),
        distribution: Distribution::Zipfian,
    },
    CatalogueEntry {
        name: "put",
        summary: "100 % writes, uniform",
        mix: mix(0, 100, 0),
        distribution: Distribution::Uniform,
    },
    CatalogueEntry {
        name: "get",
        summary: "100 % reads, uniform",
        mix: mix(100, 0, 0),
        distribution: Distribution::Uniform,
    },
    CatalogueEntry {
        name: "mixed",
        summary: "all that there is: 40 % reads, 30 % writes, 10 % deletes, 20 % read-modify-writes, zipfian",
        mix: Mix { get: 40, put: 30, insert: 0, delete: 10 },
        distribution: Distribution::Zipfian,
    },
];

/// A workload with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    name: &'static str,
    mix: Mix,
    distribution: Distribution,
    records: u64,
    value_bytes: usize,
}

impl Workload {
    /// The workload of this name, with YCSB's sizes.
    ///
    /// # Errors
    /// The name is unknown, or it is YCSB's workload E.
    pub fn parse(name: &str) -> Result<Self, WorkloadError> {
        if name == "ycsb-e" {
            return Err(WorkloadError::NeedsScans);
        }
        let entry = CATALOGUE
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| WorkloadError::Unknown(name.into()))?;
        Ok(Self {
            name: entry.name,
            mix: entry.mix,
            distribution: entry.distribution,
            records: DEFAULT_RECORDS,
            value_bytes: DEFAULT_VALUE_BYTES,
        })
    }

    /// The same workload with `records` records in the store before it starts.
    ///
    /// # Errors
    /// `records` is 0, or more than 10^9.
    pub fn with_records(self, records: u64) -> Result<Self, WorkloadError> {
        if !(1..=1_000_000_000).contains(&records) {
            return Err(WorkloadError::Records(records));
        }
        Ok(Self { records, ..self })
    }

    /// The same workload with values of `value_bytes` bytes.
    ///
    /// # Errors
    /// Values shorter than [`MIN_VALUE_BYTES`] cannot all differ. The upper limit depends on the store, so it
    /// is not checked here.
    pub fn with_value_bytes(self, value_bytes: usize) -> Result<Self, WorkloadError> {
        if value_bytes < MIN_VALUE_BYTES {
            return Err(WorkloadError::ValueBytes(value_bytes));
        }
        Ok(Self { value_bytes, ..self })
    }

    /// The same workload with another distribution.
    pub fn with_distribution(self, distribution: Distribution) -> Self {
        Self { distribution, ..self }
    }

    /// Name of the workload.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of records in the store before the workload starts.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Length of every value in bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Distribution of the accesses over records.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The writes that load the store: this lane's share of the records, each once, in ascending order.
    pub fn load_steps(&self, lane: ClientShare) -> impl Iterator<Item = Step> + use<> {
        (u64::from(lane.index)..self.records)
            .step_by(lane.lanes as usize)
            .map(|record| Step::Put { record, value: record })
    }

    /// The operations of one lane, without end, determined by `seed`.
    pub fn generator(&self, seed: u64, lane: ClientShare) -> Generator {
        Generator {
            workload: *self,
            lane,
            random: Random::new(seed, lane.index),
            chooser: Chooser::new(self.distribution, self.records),
            values: 0,
            inserts: 0,
            acknowledged: 0,
            acknowledged_early: BTreeSet::new(),
        }
    }
}

/// The share of one generator in a workload. Each process that drives clients has one generator, which its clients
/// share. Such a share is also called a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientShare {
    index: u32,
    lanes: u32,
}

impl ClientShare {
    /// The share of a workload with only one generator.
    pub const ONLY: Self = Self { index: 0, lanes: 1 };

    /// Share `index` of `lanes`.
    ///
    /// # Panics
    /// If `index` is not below `lanes`, or there are more than 65,534 lanes.
    pub fn new(index: u32, lanes: u32) -> Self {
        assert!(index < lanes && lanes < u32::from(u16::MAX), "lane {index} of {lanes} does not exist");
        Self { index, lanes }
    }

    /// Index, from 0.
    pub const fn index(self) -> u32 {
        self.index
    }
}

/// One operation. `record` is the number of a record, `value` the number of the written value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a record.
    Get {
        /// The record.
        record: u64,
    },
    /// Overwrite a record.
    Put {
        /// The record.
        record: u64,
        /// Number of the written value.
        value: u64,
    },
    /// Write a record that was not there.
    Insert {
        /// The record.
        record: u64,
        /// Number of the written value.
        value: u64,
    },
    /// Remove a record.
    Delete {
        /// The record.
        record: u64,
    },
    /// Read a record and its version, then replace the record if its version is unchanged; otherwise start again with
    /// the read. A missing record is created. This is one operation, whose latency includes all attempts.
    ReadModifyWrite {
        /// The record.
        record: u64,
        /// Number of the written value.
        value: u64,
    },
}

impl Step {
    /// Names of the kinds of operations, in the order of [`Step::kind`].
    pub const KINDS: [&'static str; 5] = ["get", "put", "insert", "delete", "read_modify_write"];

    /// Kind of operation: an index into [`Step::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Get { .. } => 0,
            Self::Put { .. } => 1,
            Self::Insert { .. } => 2,
            Self::Delete { .. } => 3,
            Self::ReadModifyWrite { .. } => 4,
        }
    }

    /// Number of the record that the operation accesses.
    pub fn record(&self) -> u64 {
        match *self {
            Self::Get { record }
            | Self::Put { record, .. }
            | Self::Insert { record, .. }
            | Self::Delete { record }
            | Self::ReadModifyWrite { record, .. } => record,
        }
    }
}

/// The operations of one lane, without end.
#[derive(Clone, Debug)]
pub struct Generator {
    workload: Workload,
    lane: ClientShare,
    random: Random,
    chooser: Chooser,
    /// Number of values so far.
    values: u64,
    /// Number of inserts so far.
    inserts: u64,
    /// All inserts of this generator below this number are acknowledged. Only these records are read.
    acknowledged: u64,
    /// Acknowledged inserts above that number, at most as many as are outstanding.
    acknowledged_early: BTreeSet<u64>,
}

impl Generator {
    /// The next operation.
    pub fn step(&mut self) -> Step {
        let Mix { get, put, insert, delete } = self.workload.mix;
        let drawn = self.random.below(100) as u8;
        if drawn < get {
            Step::Get { record: self.existing() }
        } else if drawn < get + put {
            Step::Put { record: self.existing(), value: self.next_value() }
        } else if drawn < get + put + insert {
            let record = self.inserted(self.inserts);
            self.inserts += 1;
            Step::Insert { record, value: self.next_value() }
        } else if drawn < get + put + insert + delete {
            Step::Delete { record: self.existing() }
        } else {
            Step::ReadModifyWrite { record: self.existing(), value: self.next_value() }
        }
    }

    /// Notes that the insert of `record` is acknowledged, so the record may be read from now on. Records that other
    /// lanes inserted are ignored.
    pub fn insert_acknowledged(&mut self, record: u64) {
        let (lanes, index) = (u64::from(self.lane.lanes), u64::from(self.lane.index));
        let Some(offset) = record.checked_sub(self.workload.records + index) else { return };
        let number = offset / lanes;
        if offset % lanes != 0 || number >= self.inserts || number < self.acknowledged {
            return;
        }
        self.acknowledged_early.insert(number);
        while self.acknowledged_early.remove(&self.acknowledged) {
            self.acknowledged += 1;
        }
    }

    /// The record of this lane's insert with this number; the records of several lanes are interleaved.
    fn inserted(&self, number: u64) -> u64 {
        self.workload.records + u64::from(self.lane.index) + number * u64::from(self.lane.lanes)
    }

    /// An existing record: one of the initial records, or one that this lane has inserted.
    fn existing(&mut self) -> u64 {
        let records = self.workload.records;
        let drawn = self.chooser.draw(&mut self.random, records + self.acknowledged);
        if drawn < records { drawn } else { self.inserted(drawn - records) }
    }

    /// A number that no other write uses. The lowest numbers belong to the loading of the store.
    fn next_value(&mut self) -> u64 {
        let value = (u64::from(self.lane.index) + 1) * NUMBERS_PER_LANE + self.values;
        self.values += 1;
        assert!(self.values < NUMBERS_PER_LANE, "a lane has numbered all its values");
        value
    }
}

/// The key of a record: its number, most significant byte first, so that keys in a packet capture sort by
/// number.
pub fn key_of(record: u64) -> [u8; 8] {
    record.to_be_bytes()
}

/// Fills `buffer` with the value of this number: the number, then bytes derived from it. So a mixture of two values is
/// not a valid value.
///
/// # Panics
/// If the buffer is shorter than [`MIN_VALUE_BYTES`].
pub fn fill_value(value: u64, buffer: &mut [u8]) {
    let (head, tail) = buffer.split_at_mut(MIN_VALUE_BYTES);
    head.copy_from_slice(&value.to_le_bytes());
    let mut state = value;
    for chunk in tail.chunks_mut(8) {
        // SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
    }
}

/// The number of the value in `buffer`, or `None` if [`fill_value`] does not write such a value.
pub fn value_number(buffer: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*buffer.first_chunk()?);
    let mut expected = vec![0; buffer.len()];
    fill_value(number, &mut expected);
    (expected == buffer).then_some(number)
}

/// A number that represents a value in a recorded history. Two different values have the same fingerprint with a
/// probability of 2^-64.
pub fn fingerprint(value: &[u8]) -> u64 {
    xxh3_64(value)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn shares(name: &str) -> [f64; 5] {
        let mut generator = Workload::parse(name).unwrap().generator(7, ClientShare::ONLY);
        let mut seen = [0.0; 5];
        for _ in 0..100_000 {
            let step = generator.step();
            if let Step::Insert { record, .. } = step {
                generator.insert_acknowledged(record);
            }
            seen[step.kind()] += 1e-5;
        }
        seen
    }

    #[test]
    fn mixes_are_those_of_the_catalogue() {
        for (name, expected) in [
            ("ycsb-a", [0.5, 0.5, 0.0, 0.0, 0.0]),
            ("ycsb-b", [0.95, 0.05, 0.0, 0.0, 0.0]),
            ("ycsb-c", [1.0, 0.0, 0.0, 0.0, 0.0]),
            ("ycsb-d", [0.95, 0.0, 0.05, 0.0, 0.0]),
            ("ycsb-f", [0.5, 0.0, 0.0, 0.0, 0.5]),
            ("put", [0.0, 1.0, 0.0, 0.0, 0.0]),
            ("get", [1.0, 0.0, 0.0, 0.0, 0.0]),
            ("mixed", [0.4, 0.3, 0.0, 0.1, 0.2]),
        ] {
            let seen = shares(name);
            // Five standard deviations of a binomial with n = 100,000 are at most 0.008.
            assert!(seen.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.008), "{name}: {seen:?}");
        }
    }

    #[test]
    fn errors_name_what_exists() {
        let unknown = Workload::parse("tpc-h").unwrap_err().to_string();
        assert_eq!(
            unknown,
            "there is no workload `tpc-h`; choose one of ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-f, put, get, mixed"
        );
        let scans = Workload::parse("ycsb-e").unwrap_err().to_string();
        assert!(scans.contains("scans") && scans.contains("ycsb-f") && !scans.contains('\n'), "{scans}");
        let put = Workload::parse("put").unwrap();
        assert!(put.with_value_bytes(7).unwrap_err().to_string().contains("at least 8"));
        assert!(put.with_records(0).is_err());
    }

    /// These results were recorded once; a change of any bit of any generator changes them.
    #[test]
    fn steps_are_fixed_to_the_bit() {
        for (name, expected) in RECORDED {
            let mut generator = Workload::parse(name).unwrap().generator(7, ClientShare::ONLY);
            let mut bytes = Vec::new();
            for _ in 0..20_000 {
                let step = generator.step();
                if let Step::Insert { record, .. } = step {
                    generator.insert_acknowledged(record);
                }
                bytes.extend_from_slice(format!("{step:?}").as_bytes());
            }
            assert_eq!(fingerprint(&bytes), expected, "{name}: {:#018x}", fingerprint(&bytes));
        }
    }

    const RECORDED: [(&str, u64); 4] = [
        ("ycsb-a", 0x9696_c397_93b0_3fc7),
        ("ycsb-d", 0xacef_d84d_0a4d_3cb8),
        ("ycsb-f", 0x0291_2285_ae47_7b06),
        ("put", 0x99af_0606_4bb3_82b1),
    ];

    #[test]
    fn different_seeds_give_different_steps() {
        let workload = Workload::parse("ycsb-a").unwrap();
        let steps = |seed, lane| {
            let mut generator = workload.generator(seed, lane);
            (0..50).map(|_| generator.step()).collect::<Vec<_>>()
        };
        assert_ne!(steps(1, ClientShare::ONLY), steps(2, ClientShare::ONLY));
        assert_ne!(steps(1, ClientShare::new(0, 2)), steps(1, ClientShare::new(1, 2)));
    }

    #[test]
    fn lanes_load_every_record_once() {
        let workload = Workload::parse("put").unwrap().with_records(10).unwrap();
        let mut records: Vec<_> = (0..3)
            .flat_map(|index| workload.load_steps(ClientShare::new(index, 3)).map(|step| step.record()))
            .collect();
        records.sort_unstable();
        assert_eq!(records, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn an_insert_is_read_only_after_it_was_acknowledged() {
        let workload = Workload::parse("ycsb-d").unwrap().with_records(10).unwrap();
        let mut generator = workload.generator(3, ClientShare::ONLY);
        let mut inserted = Vec::new();
        for _ in 0..2_000 {
            match generator.step() {
                Step::Insert { record, .. } => inserted.push(record),
                step => assert!(step.record() < 10, "{step:?}"),
            }
        }
        assert_eq!(inserted, (10..10 + inserted.len() as u64).collect::<Vec<_>>());
        // Acknowledgements out of order: no inserted record may be read until the first one is acknowledged.
        for record in inserted[1..].iter().rev() {
            generator.insert_acknowledged(*record);
        }
        assert_eq!(generator.acknowledged, 0);
        generator.insert_acknowledged(inserted[0]);
        assert_eq!(generator.acknowledged, inserted.len() as u64);
        let newest = inserted[inserted.len() - 1];
        assert!((0..100).any(|_| generator.step().record() == newest));
        // Records of other lanes, and repeated ones, change nothing.
        generator.insert_acknowledged(3);
        generator.insert_acknowledged(newest);
        generator.insert_acknowledged(u64::MAX);
        assert_eq!(generator.acknowledged, inserted.len() as u64);
    }

    proptest! {
        #[test]
        fn no_two_writes_carry_the_same_value(seed: u64, lanes in 1u32..5) {
            let workload = Workload::parse("ycsb-f").unwrap().with_records(20).unwrap();
            let mut numbers = HashSet::new();
            for index in 0..lanes {
                let lane = ClientShare::new(index, lanes);
                let mut generator = workload.generator(seed, lane);
                let steps = workload.load_steps(lane).chain(std::iter::repeat_with(|| generator.step()).take(100));
                for step in steps {
                    match step {
                        Step::Get { .. } | Step::Delete { .. } => {}
                        Step::Put { value, .. }
                        | Step::Insert { value, .. }
                        | Step::ReadModifyWrite { value, .. } => prop_assert!(numbers.insert(value)),
                    }
                }
            }
        }

        #[test]
        fn values_tell_their_number_and_bear_no_change(number: u64, length in 8usize..200, at: usize) {
            let mut value = vec![0; length];
            fill_value(number, &mut value);
            prop_assert_eq!(value_number(&value), Some(number));
            let whole = fingerprint(&value);
            value[at % length] ^= 1;
            prop_assert_ne!(fingerprint(&value), whole);
            if length > 8 {
                prop_assert_eq!(value_number(&value), None);
            }
        }

        #[test]
        fn records_stay_in_range(seed: u64, records in 1u64..5000, which in 0usize..3) {
            let distribution = [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest][which];
            let workload =
                Workload::parse("ycsb-a").unwrap().with_records(records).unwrap().with_distribution(distribution);
            let mut generator = workload.generator(seed, ClientShare::ONLY);
            for _ in 0..50 {
                prop_assert!(generator.step().record() < records);
            }
        }
    }
}
