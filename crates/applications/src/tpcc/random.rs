//! The specification's random numbers (clauses 2.1.6 and 4.3).

use weft_workload::Random;

/// Constant C of NURand for customers and for items (clause 2.1.6); it can be any number.
const CUSTOMER_C: u64 = 259;
const ITEM_C: u64 = 7_911;
/// Constant C of NURand for last names, when loading and when running. The two must differ by 65 to 119, but not by 96
/// or 112 (clause 2.1.6.1).
const LOADED_NAME_C: u64 = 157;
const NAME_C: u64 = 223;

const _: () = {
    let delta = NAME_C - LOADED_NAME_C;
    assert!(delta >= 65 && delta <= 119 && delta != 96 && delta != 112);
};

/// A number from `least` to `most`, including both.
pub(super) fn between(random: &mut Random, least: u64, most: u64) -> u64 {
    least + random.below(most - least + 1)
}

/// NURand(A, x, y) of clause 2.1.6.
fn non_uniform(random: &mut Random, a: u64, c: u64, x: u64, y: u64) -> u64 {
    ((between(random, 0, a) | between(random, x, y)) + c) % (y - x + 1) + x
}

/// Constant A of NURand for `count` things, where the specification has `of` things and the constant `a`. It is smaller
/// in proportion, so that the same share of the things is popular; and it is a power of two minus one.
const fn scaled(a: u64, of: u64, count: u64) -> u64 {
    let most = (a + 1) * count / of;
    if most < 2 { 0 } else { (1 << most.ilog2()) - 1 }
}

/// The number of a customer in a district with this many customers.
pub(super) fn customer(random: &mut Random, customers: u32) -> u32 {
    let customers = customers.into();
    non_uniform(random, scaled(1_023, 3_000, customers), CUSTOMER_C, 1, customers) as u32
}

/// The number of an item out of `items`.
pub(super) fn item(random: &mut Random, items: u32) -> u32 {
    let items = items.into();
    non_uniform(random, scaled(8_191, 100_000, items), ITEM_C, 1, items) as u32
}

/// The number of a last name, below `names`.
pub(super) fn name(random: &mut Random, names: u16) -> u16 {
    non_uniform(random, 255, NAME_C, 0, u64::from(names) - 1) as u16
}

/// The number of a last name like [`name`], with the constant C for loading.
pub(super) fn loaded_name(random: &mut Random, names: u16) -> u16 {
    non_uniform(random, 255, LOADED_NAME_C, 0, u64::from(names) - 1) as u16
}

/// Fills a field with random letters.
pub(super) fn text(random: &mut Random, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        let mut word = random.below(u64::MAX);
        for byte in chunk {
            *byte = b'a' + (word & 15) as u8;
            word >>= 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares draws with the exact probabilities of NURand, which follow from counting all pairs.
    #[test]
    fn non_uniform_numbers_follow_their_definition() {
        let (a, c, x, y) = (255u64, 223u64, 0u64, 999u64);
        let mut weight = vec![0u64; 1000];
        for low in 0..=a {
            for high in x..=y {
                weight[(((low | high) + c) % (y - x + 1)) as usize] += 1;
            }
        }
        let mut random = Random::new(3, 0);
        let draws = 400_000u64;
        let mut seen = vec![0u64; 1000];
        for _ in 0..draws {
            seen[name(&mut random, 1000) as usize] += 1;
        }
        let (mut statistic, mut cells) = (0.0, 0u32);
        for (weight, seen) in weight.iter().zip(&seen) {
            let expected = draws as f64 * *weight as f64 / 256_000.0;
            if expected >= 20.0 {
                statistic += (*seen as f64 - expected).powi(2) / expected;
                cells += 1;
            }
        }
        let freedom = f64::from(cells);
        assert!(cells > 300, "{cells}");
        assert!(statistic < freedom + 5.0 * (2.0 * freedom).sqrt(), "{statistic} with {freedom}");
        // Few names are popular: the most popular tenth gets more than half of the draws.
        seen.sort_unstable();
        assert!(seen[900..].iter().sum::<u64>() > draws / 2);
    }

    #[test]
    fn of_fewer_things_as_large_a_share_is_popular() {
        assert_eq!(scaled(8_191, 100_000, 100_000), 8_191);
        assert_eq!(scaled(1_023, 3_000, 3_000), 1_023);
        assert_eq!(scaled(8_191, 100_000, 10_000), 511);
        assert_eq!((scaled(8_191, 100_000, 13), scaled(1_023, 3_000, 10)), (0, 1));
        // Without scaling A, one of 1,000 items would be in one of eighteen lines.
        let mut random = Random::new(5, 0);
        let mut seen = [0; 1_001];
        (0..100_000).for_each(|_| seen[item(&mut random, 1_000) as usize] += 1);
        assert!(*seen.iter().max().unwrap() < 2_000);
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut random = Random::new(1, 0);
        for _ in 0..10_000 {
            assert!((1..=3000).contains(&customer(&mut random, 3000)));
            assert!((1..=100_000).contains(&item(&mut random, 100_000)));
            assert!((1..=20).contains(&item(&mut random, 20)));
            assert!(name(&mut random, 30) < 30);
        }
    }
}
