//! Randomness: independent streams of random numbers from one seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A stream of random numbers for one purpose.
///
/// Each consumer has its own stream. So an additional consumer, or an additional draw, does not change the
/// numbers of the others.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// Stream number `index` for `purpose`, in the run with this `seed`.
    pub fn new(seed: u64, purpose: &str, index: u64) -> Self {
        let purpose = xxh3_64_with_seed(purpose.as_bytes(), seed);
        Self(Xoshiro256PlusPlus::seed_from_u64(xxh3_64_with_seed(&index.to_le_bytes(), purpose)))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `bound` - 1, or 0 if `bound` is 0. The bias, at most `bound` / 2^64, is not
    /// removed, so that a draw takes exactly one step of the stream.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    ///
    /// # Panics
    /// If `high` is less than `low`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range has no numbers");
        low + self.below((high - low).saturating_add(1))
    }

    /// `true` with the given probability.
    pub fn chance(&mut self, probability: Probability) -> bool {
        self.next_u64() >> 32 < probability.0
    }
}

/// A probability in units of 2^-32, so that a draw compares integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);

    /// Always.
    pub const ALWAYS: Self = Self(1 << 32);

    /// The probability nearest to `value`; `None` if `value` is not between 0 and 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self((value * 4_294_967_296.0).round() as u64))
    }

    /// This probability times `part` / `whole`, rounded down. `part` is at most `whole`.
    pub(crate) fn share(self, part: u64, whole: u64) -> Self {
        Self((u128::from(self.0) * u128::from(part) / u128::from(whole.max(1))) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_independent_and_repeatable() {
        let draw = |seed, purpose, index| Stream::new(seed, purpose, index).next_u64();
        assert_eq!(draw(1, "loss", 0), draw(1, "loss", 0));
        assert_ne!(draw(1, "loss", 0), draw(2, "loss", 0));
        assert_ne!(draw(1, "loss", 0), draw(1, "loss", 1));
        assert_ne!(draw(1, "loss", 0), draw(1, "delay", 0));
    }

    #[test]
    fn extremes_are_certain() {
        let mut stream = Stream::new(7, "extremes", 0);
        let always = Probability::new(1.0).unwrap();
        assert!((0..1_000).all(|_| stream.chance(always) && !stream.chance(Probability::NEVER)));
        assert_eq!(Probability::new(1.01), None);
        assert_eq!(Probability::new(f64::NAN), None);
        assert!((0..1_000).all(|_| (3..=5).contains(&stream.between(3, 5))));
    }
}
