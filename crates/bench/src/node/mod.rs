//! The nodes of simulated clusters: the program of `weft-node` behind simulated frames, the membership service, and
//! where all stand in the network.

mod host;
mod membership;
mod planted;
mod station;

pub(crate) use host::{NodeHost, SimulatedHalf, StatusChange};
pub(crate) use membership::{MembershipMachine, SharedDisk};
#[cfg(feature = "planted-bugs")]
pub use planted::NodeBug;
pub(crate) use planted::Planted;
pub(crate) use station::{DATAGRAM_BYTES, Station, address, clock, hardware, peers};
