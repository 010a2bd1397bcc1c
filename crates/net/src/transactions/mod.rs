//! Transactions at a node: the record of what they did, for a checker.
//!
//! Nodes serve the [`Application`] that their program registers ([`weft_node::Registry`]); clients (`weft-client`)
//! can call any node. The example `transactions` shows all of it, and docs/transactions.md describes the
//! guarantees.

mod record;

pub(crate) use record::RecordFile;
pub use record::{Objects, Record, read_record};
pub use weft_node::{Application, Ledger, LedgerRefusal};

/// The slot of the transactions engine in a cluster that has no other engine.
pub const TRANSACTIONS_SLOT: u8 = 0;
