//! Chooses the record that an operation accesses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::WorkloadError;
use super::mathematics::power;
use super::random::Random;

/// Distribution of the accesses over records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All records are equally likely.
    Uniform,
    /// A few records are accessed often, most rarely (a Zipf distribution). The popular records are scattered
    /// over the record numbers.
    Zipfian,
    /// A Zipf distribution as well, but the newest record is the most popular, the second newest comes next,
    /// and so on.
    Latest,
}

impl Distribution {
    const ALL: [(&'static str, Self); 3] =
        [("uniform", Self::Uniform), ("zipfian", Self::Zipfian), ("latest", Self::Latest)];
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = Self::ALL.iter().find(|(_, d)| d == self).expect("every distribution has a name");
        f.write_str(name)
    }
}

impl FromStr for Distribution {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        Self::ALL
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, d)| *d)
            .ok_or_else(|| WorkloadError::UnknownDistribution(name.into()))
    }
}

/// The exponent of YCSB's Zipf distributions.
const THETA: f64 = 0.99;

/// Number of ranks of YCSB's scrambled Zipf distribution; it does not depend on the number of records.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;

/// The sum of `1 / i^0.99` for `i` from 1 to 10^10: YCSB's `ScrambledZipfianGenerator.ZETAN`.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Draws ranks with a Zipf distribution, by the approximation of Gray et al., "Quickly generating
/// billion-record synthetic databases" (SIGMOD 1994), like YCSB's `ZipfianGenerator`.
#[derive(Clone, Debug)]
pub(super) struct Zipfian {
    ranks: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn new(ranks: u64, zeta: f64) -> Self {
        let mut zipfian = Self { ranks, zeta, eta: 0.0 };
        zipfian.update_eta();
        zipfian
    }

    /// Computes `eta`. With two ranks or fewer it is not needed, and computing it would divide by zero.
    fn update_eta(&mut self) {
        if self.ranks > 2 {
            let zeta_of_two = 1.0 + power(0.5, THETA);
            self.eta = (1.0 - power(2.0 / self.ranks as f64, 1.0 - THETA)) / (1.0 - zeta_of_two / self.zeta);
        }
    }

    /// Extends the distribution to `ranks` ranks; does nothing if it has as many already.
    fn grow(&mut self, ranks: u64) {
        if ranks > self.ranks {
            for rank in self.ranks + 1..=ranks {
                self.zeta += power(rank as f64, -THETA);
            }
            self.ranks = ranks;
            self.update_eta();
        }
    }

    /// A rank from 0, the most frequent, to `ranks - 1`.
    fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.ranks == 1 {
            return 0;
        }
        if scaled < 1.0 + power(0.5, THETA) || self.ranks == 2 {
            return 1;
        }
        let share = power(self.eta * unit - self.eta + 1.0, 1.0 / (1.0 - THETA));
        ((self.ranks as f64 * share) as u64).min(self.ranks - 1)
    }
}

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight bytes, least significant byte first. The absolute value of
/// the result, as a signed number, is returned.
fn fnv_hash(value: u64) -> u64 {
    let hash = value.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    });
    (hash as i64).unsigned_abs()
}

/// Draws record numbers below a number that may grow.
#[derive(Clone, Debug)]
pub(super) enum Chooser {
    Uniform,
    Scrambled {
        zipfian: Zipfian,
        /// Number of the initial records. Popularity is spread over these only: if it were spread over a
        /// growing number, every insert would make other records popular.
        records: u64,
    },
    Latest(Zipfian),
}

impl Chooser {
    pub(super) fn new(distribution: Distribution, records: u64) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipfian => {
                Self::Scrambled { zipfian: Zipfian::new(SCRAMBLED_RANKS, SCRAMBLED_ZETA), records }
            }
            Distribution::Latest => {
                let mut zipfian = Zipfian::new(1, 1.0);
                zipfian.grow(records);
                Self::Latest(zipfian)
            }
        }
    }

    /// Draws a number below `records`, the current number of records. The highest number is the newest
    /// record.
    pub(super) fn draw(&mut self, random: &mut Random, records: u64) -> u64 {
        match self {
            Self::Uniform => random.below(records),
            Self::Scrambled { zipfian, records } => fnv_hash(zipfian.draw(random)) % *records,
            Self::Latest(zipfian) => {
                zipfian.grow(records);
                records - 1 - zipfian.draw(random)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 400_000;

    fn frequencies(mut chooser: Chooser, records: u64) -> Vec<u64> {
        let mut random = Random::new(11, 0);
        let mut seen = vec![0; records as usize];
        for _ in 0..DRAWS {
            seen[chooser.draw(&mut random, records) as usize] += 1;
        }
        seen
    }

    /// The probability of ranks below `rank` by YCSB's formulas, computed with the standard library's functions.
    fn cumulative(rank: u64, ranks: u64, zeta: f64) -> f64 {
        let theta = 0.99f64;
        match rank {
            0 => 0.0,
            1 => 1.0 / zeta,
            2 => (1.0 + 0.5f64.powf(theta)) / zeta,
            _ => {
                let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - theta))
                    / (1.0 - (1.0 + 0.5f64.powf(theta)) / zeta);
                // rank = ranks * (eta u - eta + 1)^(1 / (1 - theta)), solved for u.
                (((rank as f64 / ranks as f64).powf(1.0 - theta) - 1.0 + eta) / eta).min(1.0)
            }
        }
    }

    /// Pearson's chi-squared statistic over cells with an expected count of at least 20, and the degrees of
    /// freedom.
    fn chi_squared(seen: &[u64], probability: impl Fn(usize) -> f64) -> (f64, f64) {
        let (mut statistic, mut cells, mut rest_seen, mut rest_expected) = (0.0, 0u32, 0.0, 0.0);
        for (i, &n) in seen.iter().enumerate() {
            rest_seen += n as f64;
            rest_expected += probability(i) * DRAWS as f64;
            if rest_expected >= 20.0 {
                statistic += (rest_seen - rest_expected).powi(2) / rest_expected;
                (cells, rest_seen, rest_expected) = (cells + 1, 0.0, 0.0);
            }
        }
        (statistic, f64::from(cells - 1))
    }

    fn assert_fits(seen: &[u64], probability: impl Fn(usize) -> f64) {
        let (statistic, freedom) = chi_squared(seen, probability);
        // The limit is the mean plus five standard deviations of the chi-squared distribution.
        assert!(statistic < freedom + 5.0 * (2.0 * freedom).sqrt(), "{statistic} with {freedom} degrees");
    }

    /// The keys that YCSB gives to its first two records, `user6284781860667377211` and
    /// `user8517097267634966620`, are the hashes of 0 and 1.
    #[test]
    fn the_hash_is_the_one_of_ycsb() {
        assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv_hash(1), 8_517_097_267_634_966_620);
    }

    #[test]
    fn zeta_grows_to_the_sum() {
        let mut zipfian = Zipfian::new(1, 1.0);
        zipfian.grow(500);
        zipfian.grow(1000);
        let sum: f64 = (1..=1000).map(|i| f64::from(i).powf(-0.99)).sum();
        assert!((zipfian.zeta - sum).abs() < 1e-12 * sum);
    }

    #[test]
    fn uniform_fits() {
        assert_fits(&frequencies(Chooser::new(Distribution::Uniform, 1000), 1000), |_| 1.0 / 1000.0);
    }

    #[test]
    fn latest_fits_the_formulas_of_ycsb() {
        let records = 1000;
        let zeta: f64 = (1..=records).map(|i| (i as f64).powf(-0.99)).sum();
        let mut by_rank = frequencies(Chooser::new(Distribution::Latest, records), records);
        by_rank.reverse();
        assert_fits(&by_rank, |rank| {
            cumulative(rank as u64 + 1, records, zeta) - cumulative(rank as u64, records, zeta)
        });
        // The formulas approximate Zipf's law: the share of the ten newest is within a tenth of the exact one.
        let exact = (1..=10).map(|i| f64::from(i).powf(-0.99)).sum::<f64>() / zeta;
        let drawn = by_rank[..10].iter().sum::<u64>() as f64 / DRAWS as f64;
        assert!((drawn / exact - 1.0).abs() < 0.1, "{drawn} against {exact}");
    }

    #[test]
    fn latest_follows_inserts() {
        let mut chooser = Chooser::new(Distribution::Latest, 10);
        let mut random = Random::new(5, 0);
        let newest = (0..1000).filter(|_| chooser.draw(&mut random, 2000) == 1999).count();
        // 1 / zeta(2000) = 0.117.
        assert!((70..170).contains(&newest), "{newest}");
    }

    #[test]
    fn scrambled_zipfian_fits_the_formulas_of_ycsb() {
        let records = 1000u64;
        // The first 200,000 ranks are placed by their hash; the remaining probability is spread evenly.
        let head = 200_000;
        let mut probability = vec![0.0; records as usize];
        for rank in 0..head {
            let p = cumulative(rank + 1, SCRAMBLED_RANKS, SCRAMBLED_ZETA)
                - cumulative(rank, SCRAMBLED_RANKS, SCRAMBLED_ZETA);
            let mut hash = 0xcbf2_9ce4_8422_2325_u64;
            for shift in (0..64).step_by(8) {
                hash = (hash ^ ((rank >> shift) & 0xff)).wrapping_mul(0x100_0000_01b3);
            }
            probability[((hash as i64).unsigned_abs() % records) as usize] += p;
        }
        let tail = 1.0 - cumulative(head, SCRAMBLED_RANKS, SCRAMBLED_ZETA);
        let seen = frequencies(Chooser::new(Distribution::Zipfian, records), records);
        assert_fits(&seen, |record| probability[record] + tail / records as f64);
        // The most popular record has at least the probability of rank 0.
        let hottest = (fnv_hash(0) % records) as usize;
        assert_eq!(seen.iter().enumerate().max_by_key(|(_, n)| **n).unwrap().0, hottest);
    }

    #[test]
    fn the_smallest_stores_work() {
        for records in 1..=3 {
            for (_, distribution) in Distribution::ALL {
                let seen = frequencies(Chooser::new(distribution, records), records);
                assert_eq!(seen.iter().sum::<u64>(), DRAWS);
            }
        }
    }

    #[test]
    fn names_round_trip_and_a_wrong_one_lists_the_right_ones() {
        for (name, distribution) in Distribution::ALL {
            assert_eq!(name.parse::<Distribution>().unwrap(), distribution);
            assert_eq!(distribution.to_string(), name);
        }
        let error = "normal".parse::<Distribution>().unwrap_err().to_string();
        assert!(error.contains("normal") && error.contains("uniform, zipfian, latest"), "{error}");
    }
}
