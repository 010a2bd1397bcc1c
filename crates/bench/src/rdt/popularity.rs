//! Zipf's law with any exponent, for elements that are equally or unequally popular.

use std::sync::Arc;

use crate::workload::{Random, power};

/// How popular each of so many elements is: the one with number *i* is drawn with a probability proportional to 1 / (*i* + 1)^skew.
///
/// Drawn in constant time from a table (Walker's alias method, as built by Vose, IEEE TSE 17(9), 1991), because the usual
/// approximation (Gray et al., SIGMOD 1994) ends at skew 1.
#[derive(Clone, Debug)]
pub struct Popularity {
    elements: u64,
    /// Of each column: up to which part of it the element itself is drawn, and who is drawn beyond. Nothing if all are alike.
    columns: Option<Arc<[(f64, u32)]>>,
}

impl Popularity {
    /// `elements` of them, at least 1 and below 2^32; skew 0 to 4, 0 for equally popular ones.
    ///
    /// # Panics
    /// If a number is out of range.
    pub fn new(elements: usize, skew: f64) -> Self {
        assert!((1..1 << 32).contains(&(elements as u64)), "{elements} elements");
        assert!((0.0..=4.0).contains(&skew), "skew {skew}");
        let columns = (skew > 0.0).then(|| Self::columns(elements, skew));
        Self { elements: elements as u64, columns }
    }

    fn columns(elements: usize, skew: f64) -> Arc<[(f64, u32)]> {
        let weights: Vec<f64> = (1..=elements).map(|rank| power(rank as f64, -skew)).collect();
        let sum: f64 = weights.iter().sum();
        // In units of an average column.
        let mut left: Vec<f64> = weights.iter().map(|weight| weight / sum * elements as f64).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..elements).partition(|&i| left[i] < 1.0);
        let mut columns: Vec<(f64, u32)> = (0..elements).map(|i| (1.0, i as u32)).collect();
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            columns[low] = (left[low], high as u32);
            left[high] -= 1.0 - left[low];
            if left[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        columns.into()
    }

    /// How many elements.
    pub const fn elements(&self) -> u64 {
        self.elements
    }

    /// One of them.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let column = random.below(self.elements);
        match &self.columns {
            None => column,
            Some(columns) => {
                let (own, other) = columns[column as usize];
                if random.unit() < own { column } else { u64::from(other) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_zipf_for_every_skew() {
        for skew in [0.0, 0.5, 0.99, 1.0, 1.2, 2.0] {
            let elements = 100;
            let popularity = Popularity::new(elements, skew);
            let mut random = Random::new(11, 0);
            let draws = 200_000;
            let mut seen = vec![0u64; elements];
            (0..draws).for_each(|_| seen[popularity.draw(&mut random) as usize] += 1);
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-skew);
            let sum: f64 = (0..elements).map(weight).sum();
            for (rank, &count) in seen.iter().enumerate() {
                let expected = weight(rank) / sum * f64::from(draws);
                // Five standard deviations of a binomial.
                assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt() + 5.0, "{skew}: {rank}");
            }
        }
    }

    #[test]
    fn one_element_is_always_drawn() {
        let mut random = Random::new(1, 0);
        for skew in [0.0, 2.0] {
            assert_eq!(Popularity::new(1, skew).draw(&mut random), 0);
        }
    }
}
