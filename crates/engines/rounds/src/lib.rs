//! Synchronous algorithms as protocol engines, and CKC, a consensus, as one of them.
//!
//! Time is cut into numbered rounds; in each, every member sends one message to every other, and what comes late
//! counts as lost. The protocol and why it is right are described in `PROTOCOL.md`; its origin is detPU
//! (chapters 3 to 6), whose consensus is repaired here.
//!
//! [`Rounds`] is the engine. It keeps the rounds for an [`Algorithm`], such as [`Ckc`], and brings the decisions to a
//! [`Service`], such as [`Streams`]. [`Instance`] is the consensus itself, without time, messages or values.

mod algorithm;
mod ckc;
pub mod client;
mod counters;
mod detector;
mod engine;
mod front;
mod instance;
mod lags;
mod log;
mod members;
mod membership;
pub mod message;
mod parameters;
mod reduce;
mod service;
mod timer;
mod window;

pub use algorithm::{Algorithm, Contradiction, Decision, Fence, Output};
pub use ckc::Ckc;
pub use counters::COUNTER_HELP;
pub use detector::Detector;
pub use engine::Rounds;
pub use front::{Decided, Decisions, DecisionsIter, Front, FrontParameters, Position};
pub use instance::{Instance, Receipt, Record};
pub use log::Register;
pub use members::{MEMBERS_MAX, Members, Quorums};
pub use membership::Membership;
pub use parameters::{Parameters, ParametersError, PlantedBug};
pub use reduce::{Reduce, Reduction};
pub use service::{Context, Service, Streams};
