//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod algorithms;
mod client;
#[path = "../../golden_scripts.rs"]
mod golden_scripts;
mod hostile;
mod instances;
mod lock_step;
mod network;
mod planted_bugs;
mod random_schedules;
mod register;
mod scripts;
mod search;
mod total_loss;
