//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod attached;
mod dma;
mod engine_queue_pairs;
mod psp;
mod replies;
mod services;
mod soft_nic;
