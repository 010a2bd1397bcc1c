//! `weft bench store`: measures what a lookup reads over the host's bus.

use clap::Args;
use weft_bench::store::{StoreBench, StoreResult};
use weft_harness::progress::Progress;

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

const KEYS: u64 = 8_000_000;
const OCCUPANCY: u32 = 90;
const REACH: u32 = 150;
const LOOKUPS: u64 = 2_000_000;
const LAG: u64 = 32;
const SEED: u64 = 1;

/// Definitions of the figures.
const DEFINITIONS: &str = "\
The objects are in the host's memory; a lookup on the NIC reads them by DMA and caches none. Columns: `objects read` \
is the number of slots that a lookup reads, free ones included; `roundtrips` is the number of reads that wait for one \
another. Parameters: D_m, the displacement limit: an object lies fewer than D_m slots after its home slot; H, the \
slots of a neighbourhood (hopscotch hashing); B, the objects of a bucket (chaining).

The NIC holds an index of the table; the rows compare three kinds. `highest`: the largest displacement in each \
segment, as the host reports it (Xenic's d_i). `highest + 1`: the same, but a lookup reads one object more, as Xenic \
does (k = 1). `runs`: the positions of the objects of each home slot. In the rows `While replacing`, a deletion, an \
insertion and a lookup alternate, and the NIC learns of changes late (--lag). Published figures: table 2 of the Xenic \
paper.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct StoreOptions {
    /// Number of objects in each table
    #[arg(long, value_name = "N", default_value_t = KEYS, default_value_if(QUICK, IS_GIVEN, "10000"), value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    keys: u64,
    /// Occupancy in percent: objects per hundred slots
    #[arg(long, value_name = "PERCENT", default_value_t = OCCUPANCY, value_parser = clap::value_parser!(u32).range(10..=95))]
    occupancy: u32,
    /// How far an insertion searches for a free slot, in percent of the displacement limit
    #[arg(long, value_name = "PERCENT", default_value_t = REACH, value_parser = clap::value_parser!(u32).range(50..=100_000))]
    reach: u32,
    /// Number of lookups in each table
    #[arg(long, value_name = "N", default_value_t = LOOKUPS, default_value_if(QUICK, IS_GIVEN, "10000"), value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    lookups: u64,
    /// Number of objects to replace after the lookups [default: a sixteenth of --keys]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    replacements: Option<u64>,
    /// Delay with which the NIC learns of the host's changes, as a number of replacements
    #[arg(long, value_name = "N", default_value_t = LAG, value_parser = clap::value_parser!(u64).range(0..=500))]
    lag: u64,
    /// Seed of keys and lookups
    #[arg(long, value_name = "N", default_value_t = SEED, value_parser = clap::value_parser!(u64).range(0..=65_535))]
    seed: u64,
}

impl Task for StoreOptions {
    type Found = StoreResult;

    const KIND: &'static str = "bench store";
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<StoreResult, Failure> {
        let bench = self.bench();
        let mut progress = Progress::new("objects", bench.steps());
        Ok(bench.run(|done| progress.set(done)))
    }

    fn to_text(&self, result: &StoreResult) -> String {
        format!("{}  repeat      {}\n", result.to_text(), self.command())
    }

    fn holds(&self, _: &StoreResult) -> bool {
        true
    }
}

impl StoreOptions {
    fn bench(&self) -> StoreBench {
        StoreBench {
            keys: self.keys,
            occupancy_percent: self.occupancy,
            reach_percent: self.reach,
            lookups: self.lookups,
            replacements: self.replacements.unwrap_or(self.keys / 16),
            lag: self.lag as usize,
            seed: self.seed,
        }
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let Self { keys, occupancy, reach, lookups, replacements, lag, seed } = self;
        CommandLine::new("weft bench store")
            .option("--keys", keys)
            .option("--occupancy", occupancy)
            .unless(REACH, "--reach", *reach)
            .unless(LOOKUPS, "--lookups", *lookups)
            .given("--replacements", *replacements)
            .unless(LAG, "--lag", *lag)
            .option("--seed", seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Store {
        #[command(flatten)]
        options: StoreOptions,
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "store --keys 8000000 --occupancy 90 --seed 1",
            "store --keys 1000 --occupancy 70 --reach 100 --lookups 5 --replacements 9 --lag 0 --seed 3",
        ] {
            let options = Store::try_parse_from(line.split(' ')).unwrap().options;
            assert_eq!(options.command().to_string(), format!("weft bench {line}"));
        }
    }
}
