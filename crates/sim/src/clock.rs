//! The clocks of machines, which differ in offset and drift.

use weft_time::{Duration, Instant};

/// Fractional bits of the rate: 2^-40 is about one part in 10^12.
const RATE_BITS: u32 = 40;
/// The rate of a perfect clock.
const UNIT_RATE: i128 = 1 << RATE_BITS;

/// How a machine's clock maps the world's time: by an offset and a constant drift.
///
/// Both maps are exact in integers and monotonic. So leases are tested with realistic clocks, and a run still
/// replays bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalClock {
    offset: Duration,
    /// Drift: the clock's gain per unit of the world's time, in units of 2^-40.
    gain: i64,
}

impl Default for LocalClock {
    /// A clock that shows the world's time.
    fn default() -> Self {
        Self { offset: Duration::ZERO, gain: 0 }
    }
}

impl LocalClock {
    /// A clock that is ahead by `offset` when the world begins, and gains `drift_ppm` microseconds per second
    /// (loses, if negative).
    ///
    /// # Panics
    /// If the drift is 10 % or more, which is not realistic.
    pub fn new(offset: Duration, drift_ppm: i32) -> Self {
        assert!(drift_ppm.unsigned_abs() < 100_000, "a clock drifts by less than 100000 ppm");
        let gain = (i128::from(drift_ppm) * UNIT_RATE / 1_000_000) as i64;
        Self { offset, gain }
    }

    /// The time that the clock shows when the world's time is `world`.
    pub fn local(&self, world: Instant) -> Instant {
        let gained = if self.gain == 0 {
            0
        } else {
            // An arithmetic shift rounds down, which keeps the map monotonic for gains of either sign.
            (i128::from(world.as_ps()) * i128::from(self.gain)) >> RATE_BITS
        };
        let shown = i128::from(world.as_ps()) + gained + i128::from(self.offset.as_ps());
        Instant::from_ps(u64::try_from(shown).unwrap_or(u64::MAX))
    }

    /// The first moment of the world at which the clock shows `local` or more.
    pub fn world(&self, local: Instant) -> Instant {
        if local == Instant::FAR_FUTURE {
            return local;
        }
        let elapsed = local.as_ps().saturating_sub(self.offset.as_ps());
        if self.gain == 0 {
            return Instant::from_ps(elapsed);
        }
        let rate = (UNIT_RATE + i128::from(self.gain)) as u128;
        let world = (u128::from(elapsed) << RATE_BITS).div_ceil(rate);
        Instant::from_ps(u64::try_from(world).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn drift_is_what_it_says() {
        let clock = LocalClock::new(Duration::from_us(3), 50);
        let shown = clock.local(Instant::ZERO + Duration::from_secs(1)).as_ps();
        // 50 ppm of a second is 50 us. Rounding of the rate adds less than 1 ps per microsecond.
        assert!(shown.abs_diff(Duration::from_us(1_000_053).as_ps()) < 1_000_000, "{shown}");
        assert_eq!(LocalClock::default().local(Instant::from_ps(17)), Instant::from_ps(17));
    }

    proptest! {
        #[test]
        fn maps_are_monotonic_and_inverse(
            offset in 0..1u64 << 50, drift in -99_999i32..100_000, time in 0..1u64 << 61, step in 0u64..1_000_000
        ) {
            let clock = LocalClock::new(Duration::from_ps(offset), drift);
            let world = Instant::from_ps(time);
            let local = clock.local(world);
            prop_assert!(clock.local(Instant::from_ps(time + step)) >= local);
            let back = clock.world(local);
            prop_assert!(back <= world);
            prop_assert_eq!(clock.local(back), local);
            if back > Instant::ZERO {
                prop_assert!(clock.local(Instant::from_ps(back.as_ps() - 1)) < local);
            }
            // A deadline is never reached early.
            prop_assert!(clock.local(clock.world(world)) >= world);
        }
    }
}
