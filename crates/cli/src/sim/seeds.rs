//! Seeds of a campaign: all of them, or one slice of them, and how many of their runs are made at once.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::thread::available_parallelism;

use clap::Args;

use crate::failure::Failure;
use crate::parse::Seeds;
use crate::task::{IS_GIVEN, QUICK};

/// Seeds of a campaign, and its threads.
#[derive(Clone, Debug, PartialEq, Args)]
pub(super) struct SeedOptions {
    /// Seeds, one run each: an inclusive range, or one number
    #[arg(
        long,
        visible_alias = "seed",
        value_name = "FIRST..LAST",
        default_value = "1..20",
        default_value_if(QUICK, IS_GIVEN, "1..2")
    )]
    seeds: Seeds,
    /// Run only slice I of N of the seeds, such as 2/8 (I from 1), to spread a campaign over machines; `weft sim
    /// merge` joins the results
    #[arg(long, value_name = "I/N")]
    slice: Option<Slice>,
    /// Runs at the same time, each on one core; the result is the same for any number [default: the cores that the
    /// process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl SeedOptions {
    /// Rejects more slices than seeds.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.slice {
            Some(slice) if slice.of > self.seeds.count() => Err(Failure::new(format!(
                "--slice {slice}: {} has {} seeds, so there can be at most as many slices",
                self.seeds,
                self.seeds.count()
            ))),
            _ => Ok(()),
        }
    }

    /// The seeds that this command runs.
    pub(super) fn chosen(&self) -> Seeds {
        let Some(Slice { number, of }) = self.slice else { return self.seeds.clone() };
        let (first, count) = (*self.seeds.0.start(), u128::from(self.seeds.count()));
        let begin = |number: u64| first + (count * u128::from(number) / u128::from(of)) as u64;
        Seeds(begin(number - 1)..=begin(number) - 1)
    }

    /// How many runs are made at the same time. Where the system does not tell the number of cores, it is one.
    pub(super) fn jobs(&self) -> NonZeroUsize {
        let given = self.jobs.and_then(|jobs| NonZeroUsize::new(jobs.into()));
        given.or_else(|| available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN)
    }
}

/// One of `of` parts of the seeds, in order and of nearly equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// Number of this slice, from 1 to `of`.
    number: u64,
    of: u64,
}

impl FromStr for Slice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let slice = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then_some(Self { number, of })
        });
        slice.ok_or_else(|| format!("`{text}` is no slice; the third of eight is 3/8"))
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(seeds: &str, slice: Option<&str>) -> SeedOptions {
        let slice = slice.map(|slice| slice.parse().unwrap());
        SeedOptions { seeds: seeds.parse().unwrap(), slice, jobs: None }
    }

    #[test]
    fn slices_are_all_seeds_in_order() {
        assert_eq!(options("3..9", None).chosen(), Seeds(3..=9));
        for (seeds, of) in [("3..9", 1), ("3..9", 3), ("1..20", 20), ("0..1000", 7)] {
            let mut next = *options(seeds, None).seeds.0.start();
            for number in 1..=of {
                let slice = options(seeds, Some(&format!("{number}/{of}")));
                assert!(slice.check().is_ok());
                let Seeds(chosen) = slice.chosen();
                assert_eq!(*chosen.start(), next);
                next = chosen.end() + 1;
            }
            assert_eq!(next, options(seeds, None).seeds.0.end() + 1);
        }
    }

    #[test]
    fn what_is_no_slice_is_refused() {
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(wrong.parse::<Slice>().is_err(), "{wrong}");
        }
        assert!(options("1..4", Some("1/5")).check().is_err());
    }
}
