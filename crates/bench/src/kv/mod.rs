//! The key-value store under load, in either world.

mod driver;
pub mod real;
pub mod simulated;

pub use driver::{Driver, DriverParameters, Phase};
