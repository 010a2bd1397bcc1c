//! Distributed transactions over a replicated key-value store, run by network cards: Xenic's design, strictly
//! serializable.
//!
//! A transaction is a registered [`Procedure`] over a set of keys. Clients call it by its number, with an
//! input. Keys belong to shards; each shard has a primary, which holds the locks, and backups. The design is
//! that of Xenic (Schuh et al., SOSP 2021). PROTOCOL.md says where it differs and why.

pub mod client;
mod copy;
mod counters;
mod engine;
pub mod host;
pub mod host_port;
pub mod journal;
mod key;
mod linked;
pub mod log;
pub mod message;
mod operation;
mod parameters;
mod plain;
mod procedure;
mod room;
mod shard;
pub mod store;
mod transaction;
mod window;
mod wiring;

pub use counters::Counters;
pub use engine::{Recorded, Transactions};
pub use key::{Key, SHARDS_MAX, Version};
pub use linked::{LINKED_TABLES, LinkedShape, LinkedTable};
pub use message::{Cursor, Page};
pub use parameters::{Parameters, PlantedBug, Reads, Variant};
pub use procedure::{
    ANSWER_MAX, Access, Accesses, Context, Execution, Fault, INPUT_MAX, KEYS_MAX, Mode, Outcome, Procedure,
    ProcedureId, Procedures, Request, Step, VALUE_MAX, Written,
};
pub use room::Room;
pub use shard::{Placement, Shards};
pub use transaction::TransactionId;
pub use wiring::Wiring;

/// The version of objects that were loaded before the first epoch.
pub const LOADED: Version = Version::new(weft_waist::Epoch(0), 1);
