//! Transactions at a node: the application that all nodes register, its tables, and the host half with the
//! sessions of clients.

mod application;
mod half;
mod ledger;
mod log;
mod tables;

pub use application::Application;
pub use half::TransactionHalf;
pub use ledger::{Ledger, LedgerRefusal};
pub use log::transaction_store;
pub use tables::{TransactionSizes, found};
