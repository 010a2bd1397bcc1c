//! Memory of another device behind the host's addresses, such as a GPU's.

use std::fmt::Debug;

use weft_rdma::MemoryFault;

/// First address of attached memory; the host's own and those of engines lie below.
const ATTACHED_MEMORY: u64 = 1 << 56;

/// Address of a byte of attached memory, in regions of [`weft_verbs::Target::Host`].
///
/// # Panics
/// If no memory has so many bytes.
pub const fn attached_address(offset: u64) -> u64 {
    assert!(offset < ATTACHED_MEMORY, "attached memory has at most 2^56 bytes");
    ATTACHED_MEMORY + offset
}

/// Offset in attached memory of an address: the inverse of [`attached_address`].
pub(crate) const fn attached_of(address: u64) -> Option<u64> {
    address.checked_sub(ATTACHED_MEMORY)
}

/// Memory that a world attaches to its card.
///
/// Writes become visible in the order of the calls, but a write may still be under way when the call returns. The card
/// therefore asks for a mark when it has news (a completion, a call of an engine), and tells nobody before all writes
/// up to the mark have landed. An acknowledgement to the peer does not wait: it leaves once the writes are submitted.
pub trait AttachedMemory: Debug + Send {
    /// The `length` bytes from `offset` on, behind all earlier writes.
    ///
    /// # Errors
    /// [`MemoryFault`] if they are not all there.
    fn read(&mut self, offset: u64, length: usize) -> Result<&[u8], MemoryFault>;

    /// Queues `bytes` to be written from `offset` on.
    ///
    /// # Errors
    /// [`MemoryFault`] if they do not all fit, or an earlier write has failed.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Hands all queued writes to the device.
    fn submit(&mut self);

    /// Submits, and returns a mark that stands for all writes so far.
    fn mark(&mut self) -> u64;

    /// Whether all writes up to a mark are visible in the memory. Those that have failed never are.
    fn has_landed(&mut self, mark: u64) -> bool;
}
