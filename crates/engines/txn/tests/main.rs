//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod crashes;
mod full_logs;
mod full_tables;
mod hostile;
mod hostile_host;
mod local;
mod network;
mod planted_bugs;
mod random_schedules;
mod returns;
mod silence;
