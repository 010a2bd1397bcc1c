//! Memory of this process to which the card writes and which Python reads.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::{NonNull, copy_nonoverlapping};

use weft_nic::AttachedMemory;
use weft_rdma::MemoryFault;

/// Alignment: arrays of any type may begin at the first byte.
const ALIGNMENT: usize = 4_096;

/// Memory at a fixed address. Python accesses it through the buffer protocol. While a peer writes, a reader may
/// see old or new bytes.
#[derive(Debug)]
pub(super) struct HostMemory {
    bytes: NonNull<u8>,
    length: usize,
    read: Vec<u8>,
}

// Safety: the memory belongs to this value alone, as a box's does. Nothing lends it as a Rust reference.
unsafe impl Send for HostMemory {}

fn layout(length: usize) -> Layout {
    Layout::from_size_align(length.max(1), ALIGNMENT).expect("a region has at most 2^40 bytes")
}

impl HostMemory {
    pub(super) fn new(length: usize) -> Self {
        // Safety: the layout has at least one byte.
        let bytes = unsafe { alloc_zeroed(layout(length)) };
        let bytes = NonNull::new(bytes).unwrap_or_else(|| handle_alloc_error(layout(length)));
        Self { bytes, length, read: Vec::new() }
    }

    pub(super) fn address(&self) -> usize {
        self.bytes.as_ptr() as usize
    }

    fn start(&self, offset: u64, length: usize) -> Result<usize, MemoryFault> {
        let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
        let fits = start.checked_add(length).is_some_and(|end| end <= self.length);
        if fits { Ok(start) } else { Err(MemoryFault) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // Safety: it was allocated with this layout.
        unsafe { dealloc(self.bytes.as_ptr(), layout(self.length)) }
    }
}

impl AttachedMemory for HostMemory {
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault> {
        let start = self.start(offset, length)?;
        self.read.resize(length, 0);
        // Safety: the bytes lie in the memory.
        unsafe { copy_nonoverlapping(self.bytes.as_ptr().add(start), self.read.as_mut_ptr(), length) };
        Ok(&self.read)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let start = self.start(offset, bytes.len())?;
        // Safety: the bytes lie in the memory.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), self.bytes.as_ptr().add(start), bytes.len()) };
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
