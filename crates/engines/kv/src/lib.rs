//! A replicated key-value store as a protocol engine, and its client half.
//!
//! Every node holds all data and leads some of the keys. A write is answered when every member has it, and any
//! full member answers reads. `PROTOCOL.md` describes the protocol; its origin is NIC-KV (chapter 4). [`Kv`] is
//! the engine; [`Client`] is the client's end of the protocol.

mod client;
mod counters;
mod engine;
pub mod journal;
pub mod key;
pub mod message;
mod parameters;
mod placement;
mod session;
mod stream;
mod table;
mod transfer;
mod view_change;
mod waiting;
mod window;

pub use client::{Client, ClientParameters, Completion, Outcome, ReadPolicy, RequestId, Task};
pub use counters::COUNTER_HELP;
pub use engine::{Kv, Role, epoch_of, version};
pub use message::{Operation, SESSION_WINDOW, Status};
pub use parameters::{Parameters, ParametersError, PlantedBug};
pub use placement::{PARTITIONS, hash, partition};
