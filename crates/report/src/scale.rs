//! Converts values to coordinates, and chooses ticks.

/// A linear function from values to coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    /// Maps `from.0` to `to.0` and `from.1` to `to.1`.
    pub(super) fn new(from: (f64, f64), to: (f64, f64)) -> Self {
        assert!(from.1 > from.0, "a scale has an extent");
        Self { from, to }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value - self.from.0) / (self.from.1 - self.from.0);
        self.to.0 + share.clamp(0.0, 1.0) * (self.to.1 - self.to.0)
    }

    pub(super) fn end(&self) -> f64 {
        self.from.1
    }
}

/// Round values from 0 to `most`, about `count` of them, and the round value at the end of the axis, which is
/// at least `most`.
pub(super) fn linear_ticks(most: f64, count: u32) -> (Vec<f64>, f64) {
    let most = if most > 0.0 { most } else { 1.0 };
    let rough = most / f64::from(count);
    let decade = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * decade);
    let steps = (most / step - 1e-9).ceil().max(1.0) as u32;
    ((0..=steps).map(|i| f64::from(i) * step).collect(), f64::from(steps) * step)
}

/// The values 1, 2 and 5 times a power of ten around `least..=most`, or only powers of ten if the range spans
/// more than three decades. The first value is at most `least`, and the last one at least `most`.
pub(super) fn logarithmic_ticks(least: f64, most: f64) -> Vec<f64> {
    let (least, most) = (least.max(1.0), most.max(least).max(1.0));
    let factors: &[f64] = if most / least > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let first = least.log10().floor() as i32;
    let last = most.log10().ceil() as i32 + 1;
    let all: Vec<f64> = (first..=last)
        .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)))
        .collect();
    let begin = all.iter().rposition(|tick| *tick <= least * 1.001).unwrap_or(0);
    let end = all.iter().position(|tick| *tick >= most * 0.999).unwrap_or(all.len() - 1).max(begin + 1);
    all[begin..=end.min(all.len() - 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            linear_ticks(200_000.0, 4),
            (vec![0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0], 200_000.0)
        );
        assert_eq!(linear_ticks(0.0, 4).0[0], 0.0);
        assert_eq!(logarithmic_ticks(2_100.0, 60_000.0), [2e3, 5e3, 1e4, 2e4, 5e4, 1e5]);
        assert_eq!(logarithmic_ticks(3.0, 2e5), [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(logarithmic_ticks(0.0, 0.0), [1.0, 2.0]);
    }

    proptest! {
        #[test]
        fn ticks_enclose_the_range(least in 1.0..1e12f64, factor in 1.0..1e9f64) {
            let ticks = logarithmic_ticks(least, least * factor);
            prop_assert!(ticks[0] <= least * 1.01 && ticks[ticks.len() - 1] >= least * factor * 0.99);
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]) && ticks.len() <= 24);
            let (ticks, end) = linear_ticks(least, 4);
            prop_assert!(end >= least * 0.999 && (2..=12).contains(&ticks.len()));
        }
    }
}
