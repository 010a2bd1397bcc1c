//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod campaigns;
mod planted_bugs;
mod rounds;
mod simulated;
mod txn;
