//! Weft's implementation of `libibverbs.so.1` and `librdmacm.so.1`.
//!
//! Programs that were built for rdma-core load this library instead of rdma-core's (`weft run` sets the library
//! path). They find one device, whose queue pairs are in the program's own process: [`weft_device::Device`] behind
//! a UDP socket. It needs no kernel module and no privilege. This crate has only the C ABI: structures, functions,
//! file descriptors, and one thread.
//!
//! The crate is a static library, which `tools/verbs.sh` links into the shared one with the symbol versions of
//! rdma-core: rustc cannot export symbols with versions.

pub mod abi;
pub mod engine;
pub mod options;

mod completion_queue;
mod context;
mod error;
mod events;
mod extended;
mod memory;
mod objects;
mod others;
mod private;
mod queue_pair;
pub mod rdmacm;
mod strings;
