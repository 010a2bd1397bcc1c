//! Named locks for a time, with fencing tokens; replicated, so that they survive the death of any node.
//!
//! A client acquires a lock for a time to live, renews it while it works, and releases it. With the lock comes a
//! *fencing token*, a number that is larger for every later holder of any lock. Whatever the lock protects keeps the
//! largest token that it has seen and refuses smaller ones; then a holder that was asleep when its time ran out does
//! no harm.
//!
//! This engine is the worked example of `CONTRIBUTING.md`, "Your own engine": as simple as a protocol can be that is
//! right. `PROTOCOL.md` beside it tells what it does and why that is safe.

mod client;
mod counters;
mod engine;
pub mod message;
mod parameters;
mod stream;
mod table;

pub use client::{Client, Completion, Outcome, Task, usable};
pub use counters::COUNTER_HELP;
pub use engine::Lock;
#[cfg(feature = "planted-bugs")]
pub use parameters::PlantedBug;
pub use parameters::{Parameters, TTL_MAX, TTL_MIN};
pub use table::{NAME_BYTES_MAX, Name};

/// The kinds of calls that clients may make, for [`weft_session::Sessions`].
pub const CLIENT_CALLS: &[u8] = &message::CallKind::ALL;
