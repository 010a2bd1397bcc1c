//! Card memory that an engine owns.

/// A flat range of card memory, addressed from 0, that belongs to one engine.
///
/// Its layout is the engine's, written down byte by byte, so that the memory of two twins can be compared.
/// Accesses are counted: the simulator turns the counts into time.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    accesses: Accesses,
}

/// How often and how much an engine accessed its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Read bursts.
    pub reads: u32,
    /// Write bursts.
    pub writes: u32,
    /// Bytes of all bursts.
    pub bytes: u64,
}

impl Memory {
    /// `bytes` bytes of zero.
    pub fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], accesses: Accesses::default() }
    }

    /// Reads one burst.
    ///
    /// # Panics
    /// If the range leaves the memory: an engine checks what it computes an address from.
    pub fn read(&mut self, address: usize, length: usize) -> &[u8] {
        self.accesses.reads += 1;
        self.accesses.bytes += length as u64;
        &self.bytes[address..address + length]
    }

    /// Writes one burst.
    ///
    /// # Panics
    /// As [`Memory::read`].
    pub fn write(&mut self, address: usize, bytes: &[u8]) {
        self.accesses.writes += 1;
        self.accesses.bytes += bytes.len() as u64;
        self.bytes[address..address + bytes.len()].copy_from_slice(bytes);
    }

    /// Zero everywhere again, uncounted: part of a reset.
    pub fn clear(&mut self) {
        self.bytes.fill(0);
    }

    /// The whole content, uncounted: for inspection, for comparing twins, and for what a card keeps on chip.
    pub fn image(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, to change: for the part of a layout that a card keeps on chip, where an access costs nothing.
    pub fn image_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The accesses since the last call.
    pub fn take_accesses(&mut self) -> Accesses {
        std::mem::take(&mut self.accesses)
    }
}
