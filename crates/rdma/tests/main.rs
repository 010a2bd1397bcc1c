//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod common;
mod control;
mod fairness;
mod hostile;
mod properties;
mod rate_vectors;
mod recovery;
mod responses;
#[path = "common/script.rs"]
mod script;
mod scripts;
