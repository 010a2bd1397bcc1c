//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod all_reduce_lockstep;
mod capture;
mod coverage;
mod document;
mod engine;
mod kv_lockstep;
#[path = "../../engines/kv/tests/network/mod.rs"]
mod kv_network;
mod kv_schedules;
mod literal;
mod malformed;
mod permission;
mod psp;
mod random;
mod rdt_lockstep;
mod rounds_lockstep;
#[path = "../../engines/rounds/tests/network/mod.rs"]
mod rounds_network;
mod rpc;
mod scripts;
mod services;
mod side_by_side;
