//! Random numbers from a seed; they are the same on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::mathematics::natural_logarithm;

/// A stream of random numbers. Two streams of one seed with different numbers do not overlap.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream with number `stream` of `seed`. Each stream has 2^128 numbers.
    pub fn new(seed: u64, stream: u32) -> Self {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..stream {
            generator.jump();
        }
        Self(generator)
    }

    /// A whole number below `bound`, all equally likely. `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below zero");
        // Lemire's method: the few products that would favour some results are drawn again.
        let unfair = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= unfair {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number from 0 (included) to 1 (excluded), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from the exponential distribution with mean 1, which the gaps between independent arrivals
    /// have.
    pub fn exponential_gap(&mut self) -> f64 {
        -natural_logarithm(1.0 - self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_numbers_are_fair() {
        let mut random = Random::new(1, 0);
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[random.below(7) as usize] += 1;
        }
        // Five standard deviations of a binomial with n = 70,000, p = 1/7.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 465), "{seen:?}");
    }

    #[test]
    fn units_stay_in_range_and_gaps_have_mean_one() {
        let mut random = Random::new(2, 0);
        let n = 100_000;
        let mut sum = 0.0;
        for _ in 0..n {
            assert!((0.0..1.0).contains(&random.unit()));
            let gap = random.exponential_gap();
            assert!(gap >= 0.0);
            sum += gap;
        }
        assert!((sum / f64::from(n) - 1.0).abs() < 5.0 / f64::from(n).sqrt(), "{sum}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let draw = |stream| {
            let mut random = Random::new(3, stream);
            (0..4).map(|_| random.below(u64::MAX)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(0), draw(1));
    }
}
