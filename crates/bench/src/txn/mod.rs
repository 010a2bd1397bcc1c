//! Transactions: what is run, measured, and checked of it.

mod books;
mod campaign;
mod checker;
mod choice;
mod cluster;
mod host;
mod measure;
pub mod real;
mod result;
mod steps;
mod system;
mod tables;
mod threads;
pub mod workloads;

pub use campaign::{Campaign, CampaignResult};
pub use choice::{Without, WorkloadChoice, WorkloadName, check_loads};
pub use measure::{KindResult, Measured, Point, TxnBench};
pub use result::TxnResult;
pub use steps::{PanelResult, Quantity, StepResult, StepsBench, StepsResult};
pub use system::System;
pub use threads::{ThreadsBench, ThreadsResult, ThreadsRow};
