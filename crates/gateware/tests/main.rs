//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod ports;
mod queue_pairs_come_and_go;
mod rtl_nic;
