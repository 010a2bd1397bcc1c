//! Integer time, in picoseconds.
//!
//! Engines, transport, NICs and the simulator count time with these two types and never read a clock: their
//! caller, which is the simulation or the program on real sockets, passes `now` in. One picosecond is fine enough
//! to express a 250 MHz cycle (4,000 ps) and one byte on a 100 Gb/s link (80 ps) exactly; 64 bits of them last 213
//! days, longer than any run.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

/// A point in time: picoseconds since the origin of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Instant(u64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Duration(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than any time that a clock reaches.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `ps` picoseconds after the origin.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the origin.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds since the origin, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Time passed since `earlier`; zero if `earlier` is later than `self`.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// A duration of zero.
    pub const ZERO: Self = Self(0);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000_000)
    }

    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000_000)
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds, for display and rates only: never use it in a protocol.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// `self` times `factor`, or the longest representable time if that is longer.
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// The sum, or [`Instant::FAR_FUTURE`] if it is not representable.
impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

/// # Panics
/// If `rhs` is later than `self`: a caller that cannot rule that out should use [`Instant::saturating_since`].
impl Sub for Instant {
    type Output = Duration;
    fn sub(self, rhs: Self) -> Duration {
        Duration(self.0.checked_sub(rhs.0).expect("time runs forward"))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.checked_sub(rhs.0).expect("a length of time is not negative"))
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        self.saturating_mul(rhs)
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, rhs: u64) -> Self {
        Self(self.0 / rhs)
    }
}

/// Displayed in the unit that keeps three significant digits: `4.00ns`, `12.3us`, `1.50s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ps", self.0),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "ns"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "µs"),
            1_000_000_000..1_000_000_000_000 => (self.0 as f64 / 1e9, "ms"),
            _ => (self.0 as f64 / 1e12, "s"),
        };
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.digits$} {unit}")
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_picks_a_unit() {
        assert_eq!(Duration::from_ps(999).to_string(), "999 ps");
        assert_eq!(Duration::from_ns(4).to_string(), "4.00 ns");
        assert_eq!(Duration::from_ns(12_340).to_string(), "12.3 µs");
        assert_eq!(Duration::from_ms(1_500).to_string(), "1.50 s");
    }

    #[test]
    fn sums_saturate_at_the_far_future() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_ns(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO.saturating_since(Instant::from_ps(5)), Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "time runs forward")]
    fn time_does_not_run_backwards() {
        let _ = Instant::ZERO - Instant::from_ps(1);
    }
}
