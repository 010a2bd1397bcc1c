//! `libibverbs.so.1` and `librdmacm.so.1`, as Weft provides them.
//!
//! Programs that were built for rdma-core load this library in place of its own (`weft run` sets the path) and find one
//! device, whose queue pairs live in the program itself: [`weft_device::Device`] behind a UDP socket. No kernel module
//! and no privilege is needed. What is here is the C ABI alone: structures, functions, file descriptors, one thread.
//!
//! The crate is a static library, which `tools/verbs.sh` links into the shared one with the symbol versions of
//! rdma-core; rustc's own list of exports leaves no room for versions.

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
