//! Measurements and fault campaigns of the key-value store.

mod driver;
mod journal;
pub mod simulated;

pub(crate) use journal::Journal;

pub use driver::{Driver, DriverParameters, Phase};
