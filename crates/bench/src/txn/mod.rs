//! Transactions: what is run, measured, and checked of it.

mod books;
mod campaign;
mod checker;
mod choice;
mod cluster;
mod host;
mod measure;
mod result;
mod system;
mod tables;
pub mod workloads;

pub use campaign::{Campaign, CampaignResult, CampaignViolation, LIVE_WITHIN};
pub use choice::{Without, WorkloadChoice, WorkloadName, check_loads};
pub use measure::{KindResult, Measured, Point, TxnBench};
pub use result::TxnResult;
pub use system::System;
