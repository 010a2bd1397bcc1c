//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod backups;
mod durable;
#[path = "../../golden_scripts.rs"]
mod golden_scripts;
mod hostile;
mod network;
mod planted_bugs;
mod random_schedules;
mod scripts;
