//! Synchronous rounds and their consensus: stability, throughput, fault campaigns.

mod campaign;
mod cluster;
mod engines;
mod gates;
mod host;
mod measure;
pub mod paper;
mod path;
mod register;
mod result;
mod values;

pub use campaign::{
    DECIDED_WITHIN, FaultClass, MEMBER_WITHIN, RoundsFigures, RoundsSubject, Schedule, SeedFailures,
};
pub use engines::Service;
pub use gates::{GATES_MEMBERS_MAX, GATES_PROPOSAL_BYTES_MAX, GATES_WINDOW, GatesResult};
pub use host::HostLoad;
pub use measure::{PeriodResult, RoundsBench};
pub use result::RoundsResult;
pub use values::Batch;

/// Maximum size of a proposal in bytes: with the longest header it fills a datagram.
pub const PROPOSAL_BYTES_MAX: usize = 1_320;

/// Maximum clock drift, in parts per million: the tolerance of crystal oscillators of network cards.
pub const DRIFT_PPM: u32 = 50;
