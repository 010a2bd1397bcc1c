//! CUDA memory as a card's region memory.
//!
//! A card over sockets writes into memory that a GPU reads. [`MappedMemory`] is host memory, which the GPU
//! reads over PCIe. [`DeviceMemory`] is GPU memory, which the driver writes with asynchronous copies. Both
//! can be attached to a card ([`weft_nic::Card::attach`]). The card reports a message only when its bytes are
//! visible there.
//!
//! All bytes pass through the host's processor and memory. This is not NVIDIA's GPUDirect: no card reads or
//! writes GPU memory itself, and the measurements do not show how fast that would be.
//!
//! The driver is loaded at run time. Building this crate needs no part of CUDA, and on a machine without a
//! GPU [`Gpu::open`] returns an error. The driver compiles the kernel of [`Watcher`] from text.
//!
//! # Data are visible before the notification
//!
//! | who is notified | how | why the data are visible |
//! |---|---|---|
//! | a kernel that polls a word of the region | a later WRITE | writes become visible in order: stores in mapped memory, copies on one stream |
//! | the program, by a completion | WRITE with immediate, SEND | the card holds completions back until the event after the copies |
//! | an engine, by a call | WRITE into an RPC region | the same |
//!
//! When a WRITE has completed at its requester, the card has its bytes, but they may still be on their way to
//! the GPU. An acknowledgement of any card guarantees no more than that.

#![deny(unsafe_code)]

mod device_memory;
mod driver;
mod mapped;
mod pipeline;
#[cfg(feature = "planted-bugs")]
mod planted;
mod watcher;

pub use device_memory::DeviceMemory;
pub use driver::{CudaError, Gpu};
pub use mapped::MappedMemory;
#[cfg(feature = "planted-bugs")]
pub use planted::{Planted, PlantedBug};
pub use watcher::{Findings, Flag, Watcher, expected_word};

/// The addresses of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address for the GPU.
    pub gpu: u64,
    /// Address in this process; `None` if the memory is not host memory.
    pub host: Option<usize>,
    /// Number of bytes.
    pub bytes: usize,
}
