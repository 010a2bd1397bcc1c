//! Distributed transactions over a replicated key-value store, run by network cards: Xenic's design, strictly serializable.
//!
//! A transaction is a registered [`Procedure`] over a set of keys, called by its number with an input. Keys belong to shards;
//! each shard has a primary, which holds the locks, and backups. The origin is Xenic (Schuh et al., SOSP 2021);
//! ARCHITECTURE.md, "Transactions", says where this design differs and why.

mod execution;
mod key;
mod procedure;
pub mod store;

pub use execution::{Execution, Fault, Written};
pub use key::{Key, SHARDS_MAX, Version};
pub use procedure::{
    ANSWER_MAX, Access, Accesses, Context, INPUT_MAX, KEYS_MAX, Mode, Outcome, Procedure, ProcedureId,
    Procedures, Request, Step, VALUE_MAX,
};
