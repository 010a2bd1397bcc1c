//! Memory of CUDA devices as a card's region memory.
//!
//! A card over sockets writes into memory that a GPU reads: [`MappedMemory`] lies with the host and the GPU reads it
//! over PCIe, [`DeviceMemory`] lies on the GPU and is reached by asynchronous copies of the driver. Either is
//! attached to a card ([`weft_nic::Card::attach`]), which tells of a message only when its bytes are visible there.
//!
//! Every byte passes through the host's processor and memory on its way. This is not what NVIDIA calls GPUDirect: no
//! card reads or writes the GPU's memory itself, and nothing here says how fast that would be.
//!
//! The driver is opened at run time. Nothing of CUDA is needed to build, and on a machine without a GPU
//! [`Gpu::open`] says so. The kernel of [`Watcher`] is a text that the driver compiles.
//!
//! # Data before news
//!
//! | who is told | how | why the data are there |
//! |---|---|---|
//! | a kernel that spins on a word of the region | a later WRITE | writes become visible in order: stores in mapped memory, copies on one stream |
//! | the program, by a completion | WRITE with immediate, SEND | the card holds completions until the event behind the copies |
//! | an engine, by a call | WRITE into an RPC region | the same |
//!
//! A WRITE that has completed at its requester is with the card and may still be under way to the GPU, as an
//! acknowledgement of any card says no more.

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

/// Where memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address for the GPU.
    pub gpu: u64,
    /// Address in this process, of memory that lies with the host.
    pub host: Option<usize>,
    /// Bytes.
    pub bytes: usize,
}
