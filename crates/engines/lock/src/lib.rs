//! Named locks with a time to live and fencing tokens, replicated so that they survive the crash of any node.
//!
//! A client acquires a lock for a time to live, renews it while it works, and releases it. With the lock it
//! gets a *fencing token*, a number that is larger for every later holder of any lock. The protected resource
//! stores the largest token that it has seen and refuses smaller ones, so that a holder that paused beyond
//! its time to live does no harm.
//!
//! This engine is the worked example of `CONTRIBUTING.md`, "Your own engine". Its protocol is as simple as a
//! correct one can be; `PROTOCOL.md` in the crate's folder describes it and argues its safety.

mod client;
mod counters;
mod engine;
pub mod message;
mod parameters;
mod stream;
mod table;

pub use client::{Client, LockCalls, Outcome, Task, usable};
pub use counters::COUNTER_HELP;
pub use engine::Lock;
#[cfg(feature = "planted-bugs")]
pub use parameters::PlantedBug;
pub use parameters::{Parameters, TTL_MAX, TTL_MIN};
pub use table::{NAME_BYTES_MAX, Name};

/// The kinds of calls that clients may make, for [`weft_session::Sessions`].
pub const CLIENT_CALLS: &[u8] = &message::CallKind::ALL;
