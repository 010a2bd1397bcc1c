//! Measurements and fault campaigns of each engine, on simulated clusters and on real processes. The
//! protocols are in the crates of the engines.

pub mod cluster;
pub mod compare;
pub mod kv;
pub mod lock;
mod process_callers;
pub mod rdt;
pub mod rounds;
pub mod smr;
pub mod store;
pub mod txn;

pub use process_callers::{Called, Calls, ProcessCallers};

/// Whether this build has the gateware, which `--nic rtl` needs.
pub const GATEWARE: bool = weft_gateware::MODELS;
