//! The memory behind the regions. It is not a part of the state machine.

use weft_verbs::{QueuePairNumber, Target};

/// The memory could not perform an access: the address is not installed, or there was an uncorrectable error.
///
/// A peer's access then ends with the NAK "remote operational error", a local access with
/// `IBV_WC_LOC_QP_OP_ERR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault;

/// Identifies the position of payload that arrives with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The queue pair on which it arrives.
    pub queue_pair: QueuePairNumber,
    /// Offset in the message of the payload's first byte.
    pub offset: u64,
}

/// Payload to store.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether the receive completion of the message is marked ([`weft_verbs::Completion::MARKED`]).
    pub is_marked: bool,
}

/// The memories of one NIC. Before each access the transport checks key, domain, bounds and permission.
///
/// A world implements this trait to charge time for each access.
pub trait RegionMemory {
    /// The `length` bytes of `target` from `address` on.
    ///
    /// # Errors
    /// [`MemoryFault`] if the memory cannot deliver all of them.
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault>;

    /// Stores `bytes` in `target` from `address` on.
    ///
    /// # Errors
    /// [`MemoryFault`] if the memory cannot store all of them; then it has stored none.
    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Transforms the payload of a SEND or WRITE before it is stored. Returns as many bytes as have arrived:
    /// unchanged, or changed ones in `changed`. It is called once for each packet that is executed.
    fn pass<'a>(&mut self, _part: Part, bytes: &'a [u8], _changed: &'a mut Vec<u8>) -> Passed<'a> {
        Passed { bytes, is_marked: false }
    }
}

/// One array of bytes for each target, addressed from 0, with accesses that cost nothing. For tests and the
/// soft NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatMemory {
    arrays: [Vec<u8>; Target::ALL.len()],
}

impl FlatMemory {
    /// `bytes` zero bytes for each target.
    pub fn new(bytes: usize) -> Self {
        Self::with_sizes(|_| bytes)
    }

    /// For each target, as many zero bytes as `bytes_of` returns.
    pub fn with_sizes(bytes_of: impl Fn(Target) -> usize) -> Self {
        Self { arrays: Target::ALL.map(|target| vec![0; bytes_of(target)]) }
    }

    /// All bytes of a target.
    pub fn image(&self, target: Target) -> &[u8] {
        &self.arrays[target as usize]
    }

    /// The vector that holds the bytes of a target, to be borrowed or replaced. Before the next access it
    /// must have the same length again.
    pub fn bytes_mut(&mut self, target: Target) -> &mut Vec<u8> {
        &mut self.arrays[target as usize]
    }

    /// All bytes of a target, mutable.
    pub fn image_mut(&mut self, target: Target) -> &mut [u8] {
        &mut self.arrays[target as usize]
    }
}

impl RegionMemory for FlatMemory {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        let start = usize::try_from(address).map_err(|_| MemoryFault)?;
        let end = start.checked_add(length).ok_or(MemoryFault)?;
        self.arrays[target as usize].get(start..end).ok_or(MemoryFault)
    }

    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let start = usize::try_from(address).map_err(|_| MemoryFault)?;
        let end = start.checked_add(bytes.len()).ok_or(MemoryFault)?;
        self.arrays[target as usize].get_mut(start..end).ok_or(MemoryFault)?.copy_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_beyond_the_end_is_a_fault_and_changes_nothing() {
        let mut memory = FlatMemory::new(16);
        assert_eq!(memory.write(Target::Hbm, 12, &[1; 8]), Err(MemoryFault));
        assert_eq!(memory.write(Target::Hbm, u64::MAX, &[1; 8]), Err(MemoryFault));
        assert_eq!(memory.read(Target::Hbm, 8, 16), Err(MemoryFault));
        assert_eq!(memory.image(Target::Hbm), [0; 16]);
    }
}
