//! A Zipf distribution with any exponent; with exponent 0 all elements are equally popular.

use std::sync::Arc;

use crate::{Random, power};

/// A Zipf distribution: element *i* is drawn with a probability proportional to 1 / (*i* + 1)^skew.
///
/// A draw takes constant time with a table (Walker's alias method, built as by Vose, IEEE TSE 17(9), 1991).
/// The usual approximation (Gray et al., SIGMOD 1994) is limited to skews below 1.
#[derive(Clone, Debug)]
pub struct Popularity {
    elements: u64,
    /// For each column of the alias table: the probability with which the column's own element is drawn, and
    /// the element that is drawn otherwise. `None` if all elements are equally popular.
    columns: Option<Arc<[(f64, u32)]>>,
    /// Used instead of `columns` if the elements are in two parts: the percentage of draws from the first part,
    /// and the distributions of both parts.
    parts: Option<Arc<(u8, Self, Self)>>,
}

impl Popularity {
    /// A distribution over `elements` elements, at least 1 and below 2^32, with a skew from 0 (uniform) to 4.
    ///
    /// # Panics
    /// If a number is out of range.
    pub fn new(elements: usize, skew: f64) -> Self {
        assert!((1..1 << 32).contains(&(elements as u64)), "{elements} elements");
        assert!((0.0..=4.0).contains(&skew), "skew {skew}");
        let columns = (skew > 0.0).then(|| Self::columns(elements, skew));
        Self { elements: elements as u64, columns, parts: None }
    }

    /// A distribution over `elements` elements in two parts: `percent` per cent of the draws are from the
    /// first `first` elements, the others from the remaining elements; both parts have this skew.
    ///
    /// # Panics
    /// If a number is out of range, or a part has no elements.
    pub fn in_parts(elements: usize, first: usize, percent: u8, skew: f64) -> Self {
        assert!(percent <= 100 && first < elements, "{percent} % to {first} of {elements}");
        let parts = (percent, Self::new(first, skew), Self::new(elements - first, skew));
        Self { elements: elements as u64, columns: None, parts: Some(Arc::new(parts)) }
    }

    fn columns(elements: usize, skew: f64) -> Arc<[(f64, u32)]> {
        let weights: Vec<f64> = (1..=elements).map(|rank| power(rank as f64, -skew)).collect();
        let sum: f64 = weights.iter().sum();
        // The weights, scaled so that their average is 1.
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

    /// Number of elements.
    pub const fn elements(&self) -> u64 {
        self.elements
    }

    /// Draws an element.
    pub fn draw(&self, random: &mut Random) -> u64 {
        if let Some((percent, first, rest)) = self.parts.as_deref() {
            let is_first = random.below(100) < u64::from(*percent);
            return if is_first { first.draw(random) } else { first.elements + rest.draw(random) };
        }
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
                // The tolerance is five standard deviations of a binomial distribution.
                assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt() + 5.0, "{skew}: {rank}");
            }
        }
    }

    #[test]
    fn each_part_has_its_share_and_its_own_zipf() {
        let popularity = Popularity::in_parts(1_000, 100, 30, 1.0);
        let mut random = Random::new(1, 0);
        let mut seen = vec![0u32; 1_000];
        for _ in 0..100_000 {
            seen[popularity.draw(&mut random) as usize] += 1;
        }
        let first: u32 = seen[..100].iter().sum();
        assert!(first.abs_diff(30_000) < 700, "{first}");
        assert!(seen[0] > 3 * seen[9] && seen[100] > 3 * seen[109], "{:?}", &seen[..10]);
        for (percent, range) in [(0, 100..1_000), (100, 0..100)] {
            let popularity = Popularity::in_parts(1_000, 100, percent, 0.0);
            assert!((0..1_000).all(|_| range.contains(&popularity.draw(&mut random))));
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
