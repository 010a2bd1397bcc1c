//! Results of measurements and campaigns: latencies, figures of a run, result files, tables.
//!
//! A measurement records its operations with a [`histogram::Recorder`], and a [`RunResult`] has the figures:
//! the same keys for every engine and both worlds. [`merge`](mod@merge) joins the results of slices of a
//! campaign, [`table`] shows rows on a terminal or as comma-separated values. The crate `report` draws what is
//! read back.

mod example;
mod file;
pub mod histogram;
pub mod merge;
mod nic_model;
mod run;
pub mod table;
#[cfg(test)]
mod tests;
mod timeline;

pub use example::example;
pub use file::{NeighbourFile, ResultError, to_json, write_whole};
pub use nic_model::NicModel;
pub use run::{
    Check, Checked, Description, LatencyResult, Machine, MachineKind, MeasuredRun, OperationResult,
    RunResult, WorkloadDescription, World,
};
pub use timeline::{Lane, LeadSpan, Mark, MarkKind, NodeState, StateSpan, Timeline, since_ns};
