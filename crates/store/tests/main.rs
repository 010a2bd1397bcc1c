//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod campaign;
mod faults;
mod planted_bugs;
mod store;
