//! Synchronous algorithms as protocol engines, and CKC, a consensus, as one of them.
//!
//! Time is cut into numbered rounds; in each, every member sends one message to every other, and what comes late
//! counts as lost. The protocol and why it is right are described in `ARCHITECTURE.md`, "The rounds"; its origin is detPU
//! (chapters 3 to 6), whose consensus is repaired here.

mod instance;
mod members;
mod parameters;

pub use instance::{Instance, Receipt, Record};
pub use members::{MEMBERS_MAX, Members, Quorums};
pub use parameters::PlantedBug;
