//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod network;
mod planted_bugs;
mod random_schedules;
mod takeover;
