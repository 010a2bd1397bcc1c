//! Card memory that an engine owns, and its address for verbs.

use std::ops::{AddAssign, Range};

/// The first address of engines' memories in a card's address space: above all installed memory, and so that
/// every slot's memory has 48-bit addresses.
pub const ENGINE_MEMORY: u64 = 1 << 40;

/// Bits of an offset in one engine's memory.
const OFFSET_BITS: u32 = 36;

/// The address of byte `offset` in the memory of the engine in `slot`. It is valid in every target but
/// [`weft_verbs::Target::Host`].
///
/// A region's target says where the card keeps this part of the memory: in HBM, on chip or in registers. A
/// region lets peers READ and WRITE the engine's memory. With its lkey the engine can WRITE from its memory
/// and READ into it.
pub const fn engine_address(slot: u8, offset: u64) -> u64 {
    assert!(offset >> OFFSET_BITS == 0, "an engine's memory has at most 64 GiB");
    ENGINE_MEMORY + ((slot as u64) << OFFSET_BITS) + offset
}

/// The slot and the offset of an address in an engine's memory: the inverse of [`engine_address`].
pub const fn engine_of(address: u64) -> Option<(u8, u64)> {
    let Some(from_first) = address.checked_sub(ENGINE_MEMORY) else { return None };
    let slot = from_first >> OFFSET_BITS;
    if slot > u8::MAX as u64 { None } else { Some((slot as u8, from_first & ((1 << OFFSET_BITS) - 1))) }
}

/// A flat range of card memory, addressed from 0, that belongs to one engine.
///
/// The engine defines its layout byte by byte, so that the memories of soft engine and gateware can be
/// compared. The engine's own accesses are counted, and the simulator converts the counts to time; accesses
/// by verbs are not counted. A card may keep all but a part of the memory on chip, where accesses cost
/// nothing.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    /// The part that is behind a memory controller; `None`: all of it.
    off_chip: Option<Range<usize>>,
    accesses: Accesses,
    /// Accesses to the host's memory.
    host: Accesses,
}

/// Number and size of accesses to memory. Worlds without simulated time never take them, so they grow as long as a node
/// runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Read bursts.
    pub reads: u64,
    /// Read bursts of data that was read just before. They are counted only here, since a cache would have
    /// the data.
    pub repeated: u64,
    /// Write bursts.
    pub writes: u64,
    /// Total bytes of all bursts.
    pub bytes: u64,
}

impl AddAssign for Accesses {
    fn add_assign(&mut self, more: Self) {
        let Self { reads, repeated, writes, bytes } = more;
        self.reads += reads;
        self.repeated += repeated;
        self.writes += writes;
        self.bytes += bytes;
    }
}

impl Memory {
    /// A memory of `bytes` zero bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes],
            off_chip: None,
            accesses: Accesses::default(),
            host: Accesses::default(),
        }
    }

    /// A memory of `bytes` zero bytes that is on chip, except the range `off_chip`.
    pub fn on_chip_except(bytes: usize, off_chip: Range<usize>) -> Self {
        Self { off_chip: Some(off_chip), ..Self::new(bytes) }
    }

    /// Whether an access to `length` bytes from `address` on touches memory that is not on chip.
    pub fn is_off_chip(&self, address: usize, length: usize) -> bool {
        let part = self.off_chip.as_ref();
        part.is_none_or(|part| address < part.end && part.start < address.saturating_add(length))
    }

    fn count(&mut self, address: usize, length: usize, reads: u64, writes: u64) {
        if self.is_off_chip(address, length) {
            self.accesses.reads += reads;
            self.accesses.writes += writes;
            self.accesses.bytes += length as u64;
        }
    }

    /// Reads one burst.
    ///
    /// # Panics
    /// If the range exceeds the memory. An engine must check values from which it computes addresses.
    pub fn read(&mut self, address: usize, length: usize) -> &[u8] {
        self.count(address, length, 1, 0);
        &self.bytes[address..address + length]
    }

    /// Writes one burst.
    ///
    /// # Panics
    /// As [`Memory::read`].
    pub fn write(&mut self, address: usize, bytes: &[u8]) {
        self.count(address, bytes.len(), 0, 1);
        self.bytes[address..address + bytes.len()].copy_from_slice(bytes);
    }

    /// Counts read bursts of a data structure that the engine keeps elsewhere, but that a card would keep in
    /// this memory.
    pub const fn touch(&mut self, reads: u64) {
        self.accesses.reads += reads;
    }

    /// As [`Memory::touch`], for data that the engine has read just before.
    pub const fn touch_again(&mut self, reads: u64) {
        self.accesses.repeated += reads;
    }

    /// Sets all bytes to zero, without counting. Part of a reset. They are other bytes, which a process gets from its
    /// system when it first writes them: to overwrite those of large tables would take longer than a lease.
    pub fn clear(&mut self) {
        self.bytes = vec![0; self.bytes.len()];
    }

    /// The whole content, without counting: for inspection, for comparison with gateware, and for data that a
    /// card keeps on chip.
    pub fn image(&self) -> &[u8] {
        &self.bytes
    }

    /// The whole content, mutable and without counting: for data that a card keeps on chip, where accesses
    /// cost nothing.
    pub fn image_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Exchanges the bytes with those of `bytes`. For a world that lends an engine its memory.
    pub fn exchange(&mut self, bytes: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, bytes);
    }

    /// The accesses since the last call of this function.
    pub fn take_accesses(&mut self) -> Accesses {
        std::mem::take(&mut self.accesses)
    }

    /// Counts accesses to data that a card would keep in the host's memory. The world charges the bus for
    /// them; the bytes stay in the engine.
    pub fn count_host(&mut self, accesses: Accesses) {
        self.host += accesses;
    }

    /// Accesses to the host's memory since the last call of this function.
    pub fn take_host_accesses(&mut self) -> Accesses {
        std::mem::take(&mut self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_chip_is_not_counted() {
        let mut memory = Memory::on_chip_except(64, 16..32);
        memory.write(0, &[1; 16]);
        memory.read(32, 8);
        assert_eq!(memory.take_accesses(), Accesses::default());
        memory.write(12, &[2; 8]);
        memory.read(31, 1);
        assert_eq!(memory.take_accesses(), Accesses { reads: 1, writes: 1, bytes: 9, ..Accesses::default() });
        let mut memory = Memory::new(64);
        memory.read(0, 4);
        assert_eq!(memory.take_accesses(), Accesses { reads: 1, bytes: 4, ..Accesses::default() });
    }

    #[test]
    fn a_cleared_memory_is_as_a_new_one() {
        let mut memory = Memory::new(64);
        memory.image_mut().fill(7);
        memory.clear();
        assert_eq!(memory.image(), [0; 64]);
        assert_eq!(memory.take_accesses(), Accesses::default());
    }

    #[test]
    fn counts_that_are_never_taken_do_not_overflow() {
        let mut memory = Memory::new(64);
        memory.touch(u64::from(u32::MAX));
        memory.touch_again(u64::from(u32::MAX));
        for _ in 0..2 {
            memory.read(0, 1);
            memory.touch_again(1);
        }
        let accesses = memory.take_accesses();
        assert_eq!((accesses.reads, accesses.repeated), (0x1_0000_0001, 0x1_0000_0001));
    }

    #[test]
    fn an_address_names_its_slot_and_offset() {
        for (slot, offset) in [(0, 0), (1, 5), (255, (1 << OFFSET_BITS) - 1)] {
            let address = engine_address(slot, offset);
            assert_eq!(engine_of(address), Some((slot, offset)));
            assert!(address < 1 << 48);
        }
        assert_eq!(engine_of(ENGINE_MEMORY - 1), None);
        assert_eq!(engine_of(engine_address(255, (1 << OFFSET_BITS) - 1) + 1), None);
    }
}
