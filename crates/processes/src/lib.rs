//! Measurements over real sockets: clusters whose nodes are processes of this machine, and loads on clusters that run.
//!
//! All processes run the current executable with one of the subcommands [`NODE_COMMAND`],
//! [`MEMBERSHIP_COMMAND`] and [`CLIENT_COMMAND`], each followed by `--config FILE`. A program that measures must have
//! these subcommands and implement them with [`weft_net::run_node`], [`weft_net::run_membership`] and
//! [`kv::client_main`].

mod callers;
mod cluster;
mod error;
pub mod kv;
pub mod lock;
pub mod running;
pub mod txn;

pub use callers::{Called, Calls, ProcessCallers};
pub use error::RealBenchError;

/// The subcommand that runs a node.
pub const NODE_COMMAND: &str = "start";
/// The subcommand that runs a membership service.
pub const MEMBERSHIP_COMMAND: &str = "membership";
/// The subcommand that runs a process of clients. Only benchmarks use it.
pub const CLIENT_COMMAND: &str = "bench-client";
