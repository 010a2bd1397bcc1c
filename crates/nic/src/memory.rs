//! All memory of a card as verbs see it.

use weft_rdma::{FlatMemory, MemoryFault, RegionMemory, Target};
use weft_waist::{Memory, engine_of};

/// The memories behind the regions, and those of the engines at the addresses of [`weft_waist::engine_address`].
///
/// Accesses by verbs are not the engine's: they are not counted as its work.
#[derive(Debug)]
pub(crate) struct CardMemory {
    pub(crate) regions: FlatMemory,
    /// By slot.
    pub(crate) engines: Vec<Memory>,
}

impl RegionMemory for CardMemory {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        match engine_of(address).filter(|_| target == Target::Hbm) {
            None => self.regions.read(target, address, length),
            Some((slot, offset)) => {
                let memory = self.engines.get(usize::from(slot)).ok_or(MemoryFault)?;
                let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
                let end = start.checked_add(length).ok_or(MemoryFault)?;
                memory.image().get(start..end).ok_or(MemoryFault)
            }
        }
    }

    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        match engine_of(address).filter(|_| target == Target::Hbm) {
            None => self.regions.write(target, address, bytes),
            Some((slot, offset)) => {
                let memory = self.engines.get_mut(usize::from(slot)).ok_or(MemoryFault)?;
                let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
                let end = start.checked_add(bytes.len()).ok_or(MemoryFault)?;
                memory.image_mut().get_mut(start..end).ok_or(MemoryFault)?.copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::engine_address;

    use super::*;

    #[test]
    fn engines_have_their_memories_to_the_byte() {
        let engines = vec![Memory::new(16), Memory::new(8)];
        let mut memory = CardMemory { regions: FlatMemory::new(4), engines };
        memory.write(Target::Hbm, engine_address(0, 15), b"a").unwrap();
        memory.write(Target::Hbm, engine_address(1, 6), b"bc").unwrap();
        assert_eq!(memory.read(Target::Hbm, engine_address(1, 4), 4), Ok(&b"\0\0bc"[..]));
        assert_eq!(memory.engines[0].image()[15], b'a');
        assert_eq!(memory.write(Target::Hbm, engine_address(0, 15), b"de"), Err(MemoryFault));
        assert_eq!(memory.write(Target::Hbm, engine_address(2, 0), b"f"), Err(MemoryFault));
        assert_eq!(memory.read(Target::OnChip, engine_address(0, 0), 1), Err(MemoryFault));
        assert_eq!(memory.read(Target::Hbm, engine_address(1, 0), usize::MAX), Err(MemoryFault));
        assert_eq!(memory.engines[0].image()[15], b'a');
        assert_eq!(memory.engines.iter_mut().map(|memory| memory.take_accesses().bytes).sum::<u64>(), 0);
    }
}
