//! All memory of a card as verbs see it.

use weft_rdma::{FlatMemory, MemoryFault, RegionMemory, Target};
use weft_waist::{Accesses, Memory, engine_of};

/// The memories behind the regions, and those of the engines at the addresses of [`weft_waist::engine_address`].
///
/// An engine has one memory, whose parts its card may keep in HBM, on chip or in registers: the target of a region says where it lies,
/// and only HBM takes time. Accesses by verbs are not counted as the engine's.
#[derive(Debug)]
pub(crate) struct CardMemory {
    pub(crate) regions: FlatMemory,
    /// By slot.
    pub(crate) engines: Vec<Memory>,
    /// What was read last.
    pub(crate) last_read: Option<(Target, usize)>,
    /// What verbs have written to HBM since it was taken.
    pub(crate) written: Accesses,
}

impl RegionMemory for CardMemory {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        self.last_read = Some((target, length));
        match engine_of(address).filter(|_| target != Target::Host) {
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
        if target == Target::Hbm {
            self.written.writes += 1;
            self.written.bytes += bytes.len() as u64;
        }
        match engine_of(address).filter(|_| target != Target::Host) {
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
        let mut memory = CardMemory {
            regions: FlatMemory::new(4),
            engines,
            last_read: None,
            written: Accesses::default(),
        };
        memory.write(Target::Hbm, engine_address(0, 15), b"a").unwrap();
        memory.write(Target::Hbm, engine_address(1, 6), b"bc").unwrap();
        assert_eq!(memory.read(Target::Hbm, engine_address(1, 4), 4), Ok(&b"\0\0bc"[..]));
        assert_eq!(memory.engines[0].image()[15], b'a');
        assert_eq!(memory.write(Target::Hbm, engine_address(0, 15), b"de"), Err(MemoryFault));
        assert_eq!(memory.write(Target::Hbm, engine_address(2, 0), b"f"), Err(MemoryFault));
        assert_eq!(memory.read(Target::OnChip, engine_address(0, 15), 1), Ok(&b"a"[..]));
        assert_eq!(memory.read(Target::Host, engine_address(0, 15), 1), Err(MemoryFault));
        assert_eq!(memory.read(Target::Hbm, engine_address(1, 0), usize::MAX), Err(MemoryFault));
        assert_eq!(memory.engines[0].image()[15], b'a');
        assert_eq!(memory.engines.iter_mut().map(|memory| memory.take_accesses().bytes).sum::<u64>(), 0);
    }
}
