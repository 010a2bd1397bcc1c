//! Transactions across real processes: clients that call them, and the record of what they did.
//!
//! What nodes serve is an [`Application`], which their program registers ([`weft_node::Registry`]). A [`Caller`] calls, at any
//! node. The example `transactions` shows all of it, and docs/transactions.md says what is guaranteed.

mod caller;
mod record;

pub use caller::{Caller, CallerOptions};
pub(crate) use record::RecordFile;
pub use record::{Objects, Record, read_record};

pub use weft_node::{Application, Ledger, LedgerRefusal};

/// The slot of the engine that runs transactions, on the card and in the datagrams of clients.
pub const TRANSACTIONS_SLOT: u8 = 0;
