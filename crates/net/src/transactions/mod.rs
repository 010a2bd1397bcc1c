//! Transactions across real processes: nodes that serve them.
//!
//! An [`Application`] is what all nodes register: procedures, and the objects that are there in the beginning. [`run_transactions`] runs a node of
//! it; clients (`weft-client`) call, at any node. The example `transactions` shows all of it, and docs/transactions.md says what is guaranteed.
//!
//! In a process there is no bus: the engine is the one that would be on a card, its host's memory is the process's, copies between
//! the two are done at once, and the host half ([`weft_txn::host`]) applies the log in the same thread.

mod host;
mod ledger;
mod record;
mod tables;

pub use host::{Transactional, run_transactions};
pub use ledger::{Ledger, LedgerRefusal};
pub use record::{Objects, Record, read_record};

use weft_nic::Card;
use weft_txn::{Key, Procedures, Transactions};

/// The slot of the engine that runs transactions, on the card and in the datagrams of clients.
pub const TRANSACTIONS_SLOT: u8 = crate::node::ENGINE_SLOT;

/// What all nodes of a cluster register: procedures, and the objects that there are.
pub trait Application: Send + Sync {
    /// The procedures, with the same numbers at all nodes and clients.
    fn procedures(&self) -> Procedures;

    /// The most objects that a shard is to hold. Tables are made for them; who inserts more may be refused, as [`weft_txn::Outcome::Full`].
    fn objects(&self) -> u64;

    /// The longest value, in bytes: at most [`weft_txn::VALUE_MAX`]. A procedure that writes a longer one is at fault.
    fn value_bytes(&self) -> usize;

    /// Tells all objects that `shard` has when the cluster is founded, each once, by keys of that shard.
    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8]));
}

type TransactionCard = Card<Transactions>;
