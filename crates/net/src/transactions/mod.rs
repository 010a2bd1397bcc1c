//! The record of what transactions did at a node, for a checker.
//!
//! What nodes serve is an [`Application`], which their program registers ([`weft_node::Registry`]); clients
//! (`weft-client`) call, at any node. The example `transactions` shows all of it, and docs/transactions.md says what
//! is guaranteed.

mod record;

pub(crate) use record::RecordFile;
pub use record::{Objects, Record, read_record};
pub use weft_node::{Application, Ledger, LedgerRefusal};

/// The slot of the engine that runs transactions where it is the only one.
pub const TRANSACTIONS_SLOT: u8 = 0;
