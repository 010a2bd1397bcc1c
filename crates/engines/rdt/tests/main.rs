//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod claims;
mod client;
mod cluster;
mod forks;
mod gates;
#[path = "../../golden_scripts.rs"]
mod golden_scripts;
mod hostile;
mod objects;
mod paths;
mod planted_bugs;
mod replicas;
mod scripts;
mod snapshots;
