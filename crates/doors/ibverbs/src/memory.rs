//! Access of the device to the memory of this process.

use weft_device::HostMemory;
use weft_rdma::MemoryFault;

/// The memory of this process.
#[derive(Debug)]
pub struct ProgramMemory;

impl HostMemory for ProgramMemory {
    #[inline]
    fn load(&mut self, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        // SAFETY: the program has registered this memory, or named it in an inline request, and promises that it stays.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    #[inline]
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        // SAFETY: as above, and the region lets the owner write.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }
}
