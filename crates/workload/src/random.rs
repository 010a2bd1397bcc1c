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
        Jump::ONE.power(stream).apply(&mut generator);
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

/// Many steps of the generator at once. One step is linear over GF(2), so any number of steps is a polynomial of one
/// step, modulo the step's characteristic polynomial. Bit `i` is the coefficient of degree `i`, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jump([u64; 4]);

impl Jump {
    /// No step.
    const NONE: Self = Self([1, 0, 0, 0]);
    /// 2^128 steps: [`Xoshiro256PlusPlus::jump`].
    const ONE: Self =
        Self([0x180e_c6d3_3cfd_0aba, 0xd5a6_1266_f0c9_392c, 0xa958_2618_e03f_c9aa, 0x39ab_dc45_29b1_661c]);
    /// The characteristic polynomial without its highest term, of degree 256.
    const CHARACTERISTIC: [u64; 4] =
        [0x9d11_6f2b_b0f0_f001, 0x0280_002b_cefd_1a5e, 0x04b4_edcf_2625_9f85, 0x0003_c03c_3f3e_cb19];

    /// This jump `times` times.
    fn power(self, mut times: u32) -> Self {
        let (mut power, mut square) = (Self::NONE, self);
        while times > 0 {
            if times & 1 == 1 {
                power = power.then(square);
            }
            square = square.then(square);
            times >>= 1;
        }
        power
    }

    /// This jump, then the other one.
    fn then(self, other: Self) -> Self {
        let mut product = Self([0; 4]);
        for degree in (0..256).rev() {
            product = product.plus_one_step();
            if other.has(degree) {
                product.0.iter_mut().zip(self.0).for_each(|(sum, word)| *sum ^= word);
            }
        }
        product
    }

    /// This jump and one step more.
    fn plus_one_step(self) -> Self {
        let [a, b, c, d] = self.0;
        let shifted = [a << 1, b << 1 | a >> 63, c << 1 | b >> 63, d << 1 | c >> 63];
        let overflow = (d >> 63).wrapping_neg();
        Self(std::array::from_fn(|word| shifted[word] ^ Self::CHARACTERISTIC[word] & overflow))
    }

    const fn has(self, degree: usize) -> bool {
        self.0[degree / 64] >> (degree % 64) & 1 == 1
    }

    /// Makes the steps.
    fn apply(self, generator: &mut Xoshiro256PlusPlus) {
        let mut sum = [0; 32];
        for degree in 0..256 {
            if self.has(degree) {
                sum.iter_mut().zip(generator.state()).for_each(|(sum, byte)| *sum ^= byte);
            }
            generator.next_u64();
        }
        *generator = Xoshiro256PlusPlus::from_seed(sum);
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
    fn a_stream_is_as_many_jumps_away_as_its_number_says() {
        for seed in [0, 7, u64::MAX] {
            let mut generator = Xoshiro256PlusPlus::seed_from_u64(seed);
            for stream in 0..200 {
                assert_eq!(Random::new(seed, stream).0, generator, "stream {stream} of seed {seed}");
                generator.jump();
            }
        }
        let both = |one: u32, other: u32| Jump::ONE.power(one).then(Jump::ONE.power(other));
        assert_eq!(both(0xfff0_0000, 0x000f_ffff), Jump::ONE.power(u32::MAX));
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
