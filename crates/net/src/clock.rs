//! The machine's monotonic clock.

use weft_time::Instant;

use crate::system;

/// Reads `CLOCK_MONOTONIC` and counts from an origin.
///
/// All processes of one machine read the same clock. So clocks with equal origins agree, and the times of
/// [`Clock::monotonic_ns`] can be compared across processes whatever their origins. A history of operations
/// recorded by several clients depends on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// A clock that shows [`Instant::ZERO`] now.
    pub fn starting_now() -> Self {
        Self { origin_ns: system::monotonic_ns() }
    }

    /// A clock that counts from `origin_ns`, in nanoseconds of `CLOCK_MONOTONIC`: another process's
    /// [`Clock::origin_ns`], or 0 for the machine's start.
    pub const fn with_origin(origin_ns: u64) -> Self {
        Self { origin_ns }
    }

    /// Origin of this clock, in nanoseconds of `CLOCK_MONOTONIC`.
    pub const fn origin_ns(self) -> u64 {
        self.origin_ns
    }

    /// The time since the origin; [`Instant::ZERO`] before it.
    pub fn now(self) -> Instant {
        self.at(system::monotonic_ns())
    }

    /// Time of this clock when `CLOCK_MONOTONIC` shows `monotonic_ns`.
    pub const fn at(self, monotonic_ns: u64) -> Instant {
        Instant::from_ps(monotonic_ns.saturating_sub(self.origin_ns).saturating_mul(1_000))
    }

    /// Time of `CLOCK_MONOTONIC`, in nanoseconds, when this clock shows `instant`.
    pub const fn monotonic_ns(self, instant: Instant) -> u64 {
        self.origin_ns.saturating_add(instant.as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_time::Duration;

    #[test]
    fn runs_forward_from_its_origin() {
        let clock = Clock::starting_now();
        let first = clock.now();
        let second = clock.now();
        assert!(first <= second);
        assert_eq!(clock.at(clock.origin_ns()), Instant::ZERO);
    }

    #[test]
    fn converts_both_ways() {
        let clock = Clock::with_origin(5_000);
        assert_eq!(clock.at(4_999), Instant::ZERO);
        assert_eq!(clock.at(5_007), Instant::ZERO + Duration::from_ns(7));
        assert_eq!(clock.monotonic_ns(clock.at(123_456)), 123_456);
    }

    #[test]
    fn clocks_of_different_origins_agree_on_absolute_time() {
        let (early, late) = (Clock::with_origin(0), Clock::starting_now());
        let before = early.monotonic_ns(early.now());
        let between = late.monotonic_ns(late.now());
        let after = early.monotonic_ns(early.now());
        assert!(before <= between && between <= after);
    }
}
