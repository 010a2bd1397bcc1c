//! Measurements of the key-value store, in the simulator and with real processes.

mod driver;
pub mod real;
pub mod simulated;

pub use driver::{Driver, DriverParameters, Phase};
