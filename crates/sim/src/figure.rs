//! Constants with their sources.

use weft_time::Duration;

/// A constant of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What the constant means.
    pub name: &'static str,
    /// The value in `unit`.
    pub value: u64,
    /// The unit.
    pub unit: Unit,
    /// The source of the value.
    pub source: &'static str,
}

/// Units of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Picoseconds.
    Picoseconds,
    /// Bits per second.
    BitsPerSecond,
    /// Bytes.
    Bytes,
    /// A number without unit.
    Count,
}

impl Figure {
    pub(crate) const fn time(name: &'static str, ps: u64, source: &'static str) -> Self {
        Self { name, value: ps, unit: Unit::Picoseconds, source }
    }

    pub(crate) const fn rate(name: &'static str, bits_per_s: u64, source: &'static str) -> Self {
        Self { name, value: bits_per_s, unit: Unit::BitsPerSecond, source }
    }

    pub(crate) const fn count(name: &'static str, value: u64, source: &'static str) -> Self {
        Self { name, value, unit: Unit::Count, source }
    }

    /// The figure as a duration.
    ///
    /// # Panics
    /// If its unit is not picoseconds.
    pub fn duration(&self) -> Duration {
        assert_eq!(self.unit, Unit::Picoseconds, "{} is no length of time", self.name);
        Duration::from_ps(self.value)
    }

    /// The value with its unit, as text.
    pub(crate) fn amount(&self) -> String {
        match self.unit {
            Unit::Picoseconds => format!("{} ns", self.value as f64 / 1e3),
            Unit::BitsPerSecond => format!("{} Gb/s", self.value as f64 / 1e9),
            Unit::Bytes => format!("{} B", self.value),
            Unit::Count => self.value.to_string(),
        }
    }
}
