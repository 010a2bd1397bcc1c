//! The best run of a sequence of scores, found piece by piece.

/// What has to be known of a sequence of scores to find the best run of a longer sequence. A run is
/// contiguous, and may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sum of all scores.
    pub sum: i32,
    /// Largest sum of a run from the start.
    pub prefix: i32,
    /// Largest sum of a run to the end.
    pub suffix: i32,
    /// Largest sum of any run.
    pub best: i32,
}

impl Segment {
    /// The sequence of one score.
    pub fn of(score: i32) -> Self {
        let run = score.max(0);
        Self { sum: score, prefix: run, suffix: run, best: run }
    }

    /// This sequence followed by another. The operation is associative, so a tree of it gives what a chain
    /// gives; the gateware has such a tree.
    pub fn then(self, next: Self) -> Self {
        Self {
            sum: self.sum + next.sum,
            prefix: self.prefix.max(self.sum + next.prefix),
            suffix: next.suffix.max(next.sum + self.suffix),
            best: self.best.max(next.best).max(self.suffix + next.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By its definition.
    fn best_run(scores: &[i32]) -> i32 {
        let sums =
            (0..=scores.len()).flat_map(|end| (0..=end).map(move |start| scores[start..end].iter().sum()));
        sums.max().expect("the empty run")
    }

    fn tree(scores: &[i32]) -> Segment {
        match scores {
            [] => Segment::default(),
            [one] => Segment::of(*one),
            _ => {
                let (left, right) = scores.split_at(scores.len() / 2);
                tree(left).then(tree(right))
            }
        }
    }

    proptest! {
        #[test]
        fn a_tree_and_a_chain_find_the_best_run(scores in proptest::collection::vec(-190_i32..=190, 0..90)) {
            let chain = scores.iter().fold(Segment::default(), |all, score| all.then(Segment::of(*score)));
            prop_assert_eq!(chain.best, best_run(&scores));
            prop_assert_eq!(tree(&scores), chain);
        }
    }
}
