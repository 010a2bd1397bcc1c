//! Workloads, measurement, tables and reports. Nothing here knows a protocol.

pub mod capture;
pub mod cluster;
mod gateware;
pub mod histogram;
pub mod kv;
pub mod load;
pub mod nic_kv;
pub mod perfetto;
pub mod perftest;
pub mod progress;
pub mod rdma;
pub mod rdt;
pub mod report;
pub mod result;
pub mod rounds;
pub mod smr;
pub mod store;
pub mod table;
pub mod txn;
pub mod workload;

/// Whether this build has the gateware, which `--nic rtl` needs.
pub const GATEWARE: bool = weft_gateware::MODELS;
