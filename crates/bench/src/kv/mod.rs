//! Measurements of the key-value store, in the simulator and with real processes.

mod driver;
mod journal;
pub mod real;
pub mod simulated;

pub(crate) use journal::Journal;

pub use driver::{Driver, DriverParameters, Phase};
