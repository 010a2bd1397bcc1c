//! Measurements and fault campaigns of each engine, on simulated clusters. The protocols are in the crates of
//! the engines.

pub mod compare;
pub mod disks;
pub mod kv;
pub mod lock;
pub mod rdt;
pub mod rounds;
pub mod smr;
pub mod store;
pub mod txn;

/// Whether this build has the gateware, which `--nic rtl` needs.
pub const GATEWARE: bool = weft_gateware::MODELS;
