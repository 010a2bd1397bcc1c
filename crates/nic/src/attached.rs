//! Memory of another device, such as a GPU, in the host's address space.

use std::fmt::Debug;

use weft_rdma::MemoryFault;

/// The first address of attached memory. The host's own memory and those of engines have lower addresses.
const ATTACHED_MEMORY: u64 = 1 << 56;

/// The address of a byte of attached memory, for regions of [`weft_verbs::Target::Host`].
///
/// # Panics
/// If `offset` is too large.
pub const fn attached_address(offset: u64) -> u64 {
    assert!(offset < ATTACHED_MEMORY, "attached memory has at most 2^56 bytes");
    ATTACHED_MEMORY + offset
}

/// The offset in attached memory of an address: the inverse of [`attached_address`].
pub(crate) const fn attached_of(address: u64) -> Option<u64> {
    address.checked_sub(ATTACHED_MEMORY)
}

/// Memory of another device that a world attaches to its card.
///
/// Writes become visible in the order of the calls, but a write may still be under way when the call returns.
/// So for each notification (a completion, a call of an engine) the card requests a mark, and delivers the
/// notification only after all writes up to the mark are visible. The acknowledgement to the peer does not
/// wait for that: it is sent once the writes are submitted.
pub trait AttachedMemory: Debug + Send {
    /// Reads `length` bytes from `offset` on. All earlier writes are visible to the read.
    ///
    /// # Errors
    /// [`MemoryFault`] if the range exceeds the memory.
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault>;

    /// Queues `bytes` to be written from `offset` on.
    ///
    /// # Errors
    /// [`MemoryFault`] if the range exceeds the memory, or an earlier write has failed.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Submits all queued writes to the device.
    fn submit(&mut self);

    /// Submits all queued writes, and returns a mark that stands for all writes so far.
    fn mark(&mut self) -> u64;

    /// Whether all writes up to a mark are visible. A failed write never becomes visible.
    fn has_landed(&mut self, mark: u64) -> bool;
}
