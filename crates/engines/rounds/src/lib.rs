//! Synchronous algorithms as protocol engines, and CKC, a consensus, as one of them.
//!
//! Time is divided into numbered rounds. In each round every member sends one message to every other, and a
//! message that arrives late counts as lost. `PROTOCOL.md` describes the protocol and why it is correct. Its
//! origin is detPU (chapters 3 to 6), whose consensus is repaired here.
//!
//! [`Rounds`] is the engine. It runs the rounds for an [`Algorithm`], such as [`Ckc`], and passes the decisions to
//! a [`Service`], such as [`Streams`]. [`Instance`] is the consensus itself, without time, messages or values.

mod algorithm;
mod ckc;
pub mod client;
mod client_server;
mod counters;
mod detector;
mod engine;
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

pub use algorithm::{Algorithm, Contradiction, Decision, MustStop, Output};
pub use ckc::Ckc;
pub use client_server::{ClientServer, ClientServerParameters, Decided, Decisions, DecisionsIter, Position};
pub use counters::COUNTER_HELP;
pub use detector::Detector;
pub use engine::Rounds;
pub use instance::{Instance, Receipt, Record};
pub use log::Register;
pub use members::{MEMBERS_MAX, Members, Quorums};
pub use membership::Membership;
pub use parameters::{Parameters, ParametersError, PlantedBug};
pub use reduce::{Reduce, Reduction};
pub use service::{Context, Service, Streams};
