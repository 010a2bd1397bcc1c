//! Clusters of each engine, measured and under faults. Nothing here knows a protocol.

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
