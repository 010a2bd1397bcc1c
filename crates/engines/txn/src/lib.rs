//! Distributed transactions over a replicated key-value store, run by network cards: Xenic's design, strictly
//! serializable.
//!
//! A transaction is a registered [`Procedure`] over a set of keys, called by its number with an input. Keys belong to
//! shards; each shard has a primary, which holds the locks, and backups. The origin is Xenic (Schuh et al., SOSP
//! 2021); PROTOCOL.md says where this design differs and why.

mod atomics;
pub mod client;
mod commit;
mod coordinator;
mod copy;
mod counters;
mod engine;
mod execution;
pub mod host;
pub mod host_port;
mod join;
mod key;
mod linked;
mod local;
pub mod log;
pub mod message;
pub mod one_sided;
mod operation;
mod parameters;
mod participant;
mod plain;
mod procedure;
mod recovery;
mod shard;
mod ship;
pub mod store;
mod transaction;
mod window;
mod withdrawal;

pub use copy::{Cursor, Page};
pub use counters::Counters;
pub use engine::{Recorded, Transactions};
pub use execution::{Execution, Fault, Written};
pub use key::{Key, SHARDS_MAX, Version};
pub use linked::{LINKED_TABLES, LinkedShape, LinkedTable};
pub use parameters::{Parameters, PlantedBug, Reads, Variant};
pub use procedure::{
    ANSWER_MAX, Access, Accesses, Context, INPUT_MAX, KEYS_MAX, Mode, Outcome, Procedure, ProcedureId,
    Procedures, Request, Step, VALUE_MAX,
};
pub use shard::{Placement, Shards};
pub use transaction::TransactionId;

/// The version of objects that were there before the first epoch.
pub const LOADED: Version = Version::new(weft_waist::Epoch(0), 1);
