//! Host memory that the GPU reads over PCIe.

use std::sync::Arc;

use weft_nic::AttachedMemory;
use weft_rdma::MemoryFault;

use crate::Place;
use crate::driver::{CudaError, Gpu, Pinned};

/// Pinned host memory that is mapped for the GPU. A write has landed when its call returns.
#[derive(Debug)]
pub struct MappedMemory {
    pinned: Pinned,
    read: Vec<u8>,
}

impl MappedMemory {
    /// Allocates this many bytes, all 0.
    ///
    /// # Errors
    /// If the driver reports an error.
    pub fn new(gpu: &Arc<Gpu>, length: usize) -> Result<Self, CudaError> {
        Ok(Self { pinned: Pinned::new(gpu, length)?, read: Vec::new() })
    }

    /// The addresses of the memory.
    pub fn place(&self) -> Place {
        let (gpu, host) = self.pinned.addresses();
        Place { gpu, host: Some(host), bytes: self.pinned.length() }
    }
}

/// The start of a range, after checking that the range is within `bytes` bytes.
pub(crate) fn within(bytes: usize, offset: u64, length: usize) -> Result<usize, MemoryFault> {
    let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
    let end = start.checked_add(length).ok_or(MemoryFault)?;
    if end <= bytes { Ok(start) } else { Err(MemoryFault) }
}

impl AttachedMemory for MappedMemory {
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault> {
        let start = within(self.pinned.length(), offset, length)?;
        self.read.resize(length, 0);
        self.pinned.load(start, &mut self.read);
        Ok(&self.read)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let start = within(self.pinned.length(), offset, bytes.len())?;
        self.pinned.store(start, bytes);
        Ok(())
    }

    fn submit(&mut self) {}

    fn mark(&mut self) -> u64 {
        0
    }

    fn has_landed(&mut self, _: u64) -> bool {
        true
    }
}
