//! Locks with fencing tokens: campaigns under faults and measurements, in the simulator and over sockets.

mod driver;
pub mod real;
pub mod simulated;

pub use driver::{Driver, Workload};
