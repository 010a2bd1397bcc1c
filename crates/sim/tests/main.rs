//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod common;
mod costs;
mod engine_on_host;
mod world;
