//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod anomalies;
mod codec;
mod scale;
mod synthetic;
mod synthetic_transactions;
mod transactions;
