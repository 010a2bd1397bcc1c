//! A node of a cluster: everything between its configuration and its engines.
//!
//! [`Node`] is the program on a node's host. It holds the lease, writes the membership registers of the card's
//! engines, makes them start over when the membership service says so, and runs the [`HostHalf`] of each engine. It
//! is pure: a world tells it what the card and the membership service have sent and what time it is, and carries out
//! what it wants. Two worlds do: the simulated clusters of `harness`, where host and card are a bus apart and the
//! campaigns inject faults, and `net`, over sockets. So these campaigns run the program that ships.
//!
//! ```text
//!   membership datagrams ──► Agent (lease) ──► view, start over ──┐
//!   host events of the card ─► status, answers, requests ─► HostHalf of each slot ─► commands to the card
//!   clients (through the card) ──────────────────────────────────┘
//! ```
//!
//! [`Connections`] wires the queue pairs of engines that make one-sided accesses: every card of a cluster is set up
//! alike, so that each node knows the numbers and keys of all others.

mod engines;
mod half;
mod kv;
mod node;
#[cfg(feature = "planted-bugs")]
mod planted;
pub mod processes;
mod registry;
mod report;
mod rounds;
mod sessions;
mod stalls;
mod status;
mod transactions;
mod wired;
mod wiring;

pub use engines::{CardParameters, EngineChoice, NodeEngine, NodeHalf, assemble};
pub use half::{CardPort, HostHalf, HostIo, NoHalf};
pub use kv::{KvHalf, KvLog, store_parameters};
pub use node::{Node, NodeParameters};
#[cfg(feature = "planted-bugs")]
pub use planted::{LogBug, PlantedBug};
pub use registry::{ELEMENTS, Registry, RegistryError, datagram_bytes};
pub use report::Report;
pub use rounds::{RoundsHalf, RoundsPauses};
pub use sessions::SessionHalf;
pub use stalls::{Stall, Stalls};
pub use transactions::{Application, Ledger, LedgerRefusal, TransactionHalf, TransactionSizes, found};
pub use wired::WiredHalf;
pub use wiring::{Connections, EngineMemory, Purpose, Terms};
