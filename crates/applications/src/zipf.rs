//! A Zipf distribution with any exponent between 0 and 1, drawn exactly and without tables.

use weft_workload::{Random, power};

/// Draws ranks from 1 to `ranks` in proportion to `1 / rank^exponent`, by rejection-inversion (Hörmann and Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 1996).
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    ranks: u64,
    exponent: f64,
    /// Lower bound of the drawn areas: the integral up to 1.5, the upper edge of rank 1, minus the weight of
    /// rank 1.
    begin: f64,
    /// Upper bound of the drawn areas: the integral up to the upper edge of the last rank.
    end: f64,
    /// If a rank exceeds the inverse by at most this much, it is accepted without a further test.
    sure: f64,
}

impl Zipf {
    /// # Panics
    /// If there are no ranks, or the exponent is not between 0 and 1, both excluded.
    pub(super) fn new(ranks: u64, exponent: f64) -> Self {
        assert!(ranks > 0 && exponent > 0.0 && exponent < 1.0, "{ranks} ranks, exponent {exponent}");
        let mut zipf = Self { ranks, exponent, begin: 0.0, end: 0.0, sure: 0.0 };
        zipf.begin = zipf.integral(1.5) - 1.0;
        zipf.end = zipf.integral(ranks as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - power(2.0, -exponent));
        zipf
    }

    /// The integral of `x^-exponent` from 0.
    fn integral(&self, x: f64) -> f64 {
        power(x, 1.0 - self.exponent) / (1.0 - self.exponent)
    }

    fn inverse(&self, area: f64) -> f64 {
        power(area * (1.0 - self.exponent), 1.0 / (1.0 - self.exponent))
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            // A random area from `end`, inclusive, to `begin`, exclusive.
            let area = self.end + random.unit() * (self.begin - self.end);
            let x = self.inverse(area);
            let rank = ((x + 0.5) as u64).clamp(1, self.ranks);
            let middle = rank as f64;
            if middle - x <= self.sure || area >= self.integral(middle + 0.5) - power(middle, -self.exponent)
            {
                return rank;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_law() {
        for (ranks, exponent) in [(1, 0.5), (2, 0.5), (1000, 0.5), (1000, 0.9), (50, 0.1)] {
            let zipf = Zipf::new(ranks, exponent);
            let mut random = Random::new(4, 0);
            let draws = 400_000;
            let mut seen = vec![0u64; ranks as usize];
            for _ in 0..draws {
                seen[zipf.draw(&mut random) as usize - 1] += 1;
            }
            let zeta: f64 = (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum();
            let statistic: f64 = (1..=ranks)
                .zip(&seen)
                .map(|(rank, &seen)| {
                    let expected = draws as f64 * (rank as f64).powf(-exponent) / zeta;
                    (seen as f64 - expected).powi(2) / expected
                })
                .sum();
            let freedom = ranks as f64 - 1.0;
            // The limit is the mean plus five standard deviations of the chi-squared distribution.
            assert!(statistic <= freedom + 5.0 * (2.0 * freedom).sqrt(), "{ranks}, {exponent}: {statistic}");
        }
    }

    #[test]
    fn millions_of_ranks_need_no_table() {
        let zipf = Zipf::new(6_000_000, 0.5);
        let mut random = Random::new(4, 0);
        // Half of the draws are below a quarter of the ranks, because the integral of the density is the
        // square root.
        let below = (0..100_000).filter(|_| zipf.draw(&mut random) <= 1_500_000).count();
        assert!((49_200..50_800).contains(&below), "{below}");
    }
}
