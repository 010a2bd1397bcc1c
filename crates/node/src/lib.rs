//! A node of a cluster: everything between the node's configuration and its engines.
//!
//! [`Node`] is the program on a node's host. It holds the lease, writes the membership registers of the card's
//! engines, resets engines when the membership service requires it, and runs the [`HostHalf`] of each engine. It
//! is pure: the caller passes in the time and the messages of the card and the membership service, and carries out
//! the commands that it returns. There are two callers: the simulated clusters of `harness`, where a bus connects
//! host and card and campaigns inject faults, and `net`, over sockets. So the campaigns run the program that
//! ships.
//!
//! ```text
//!   membership datagrams ──► Agent (lease) ──► view, reset ───────┐
//!   host events of the card ─► status, answers, requests ─► HostHalf of each slot ─► commands to the card
//!   clients (through the card) ──────────────────────────────────┘
//! ```
//!
//! [`Connections`] connects the queue pairs of engines that make one-sided accesses. Every card of a cluster is
//! set up alike, so each node can compute the queue pair numbers and keys of all others.

mod engines;
mod half;
mod kv;
mod log;
mod node;
#[cfg(feature = "planted-bugs")]
mod planted;
pub mod processes;
mod registry;
mod report;
mod rounds;
mod salvage;
mod sessions;
mod stalls;
mod status;
mod transactions;
mod wired;
mod wiring;

pub use engines::{CardParameters, EngineChoice, NodeEngine, NodeHalf, assemble};
pub use half::{CardPort, HostHalf, HostIo, NoHalf};
pub use kv::KvHalf;
pub use log::{EngineLog, FoundAgain, Loss};
pub use node::{Node, NodeParameters};
#[cfg(feature = "planted-bugs")]
pub use planted::{LogBug, PlantedBug};
pub use registry::{ELEMENTS, Registry, RegistryError, datagram_bytes};
pub use report::Report;
pub use rounds::{RoundsHalf, RoundsPauses};
pub use salvage::{Contradiction, LeftError, LeftNode, Salvage};
pub use sessions::SessionHalf;
pub use stalls::{Stall, Stalls};
pub use transactions::{
    Application, Ledger, LedgerRefusal, TransactionHalf, TransactionSizes, found, transaction_store,
};
pub use wired::WiredHalf;
pub use wiring::{ConnectionParameters, Connections, EngineMemory, Purpose};
