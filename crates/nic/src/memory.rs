//! The memory of a card, as verbs access it.

use weft_rdma::{FlatMemory, MemoryFault, Part, Passed, RegionMemory};
use weft_service::{Direction, Flow, QUEUE_PAIRS, Services};
use weft_verbs::{QueuePairNumber, Target};
use weft_waist::{Accesses, Memory, engine_of};

use crate::attached::{AttachedMemory, attached_of};

/// Where the payload of a packet is in the memory of its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPlace {
    target: Target,
    address: u64,
    length: usize,
}

impl PayloadPlace {
    /// Bytes of the payload.
    pub const fn bytes(&self) -> usize {
        self.length
    }
}

/// The memories of the region targets, and those of the engines at the addresses of
/// [`weft_waist::engine_address`].
///
/// An engine has one memory, parts of which its card may keep in HBM, on chip or in registers. A region's
/// target says where its part is. Only accesses to HBM take time, except for the parts that the memory itself
/// declares to be on chip. Accesses by verbs are not counted as the engine's.
#[derive(Debug)]
pub(crate) struct CardMemory {
    pub(crate) regions: FlatMemory,
    /// The engines' memories, by slot.
    pub(crate) engines: Vec<Memory>,
    /// Memory of another device, in the host's address space.
    pub(crate) attached: Option<Box<dyn AttachedMemory>>,
    /// Services that process payload before it is stored.
    pub(crate) services: Option<Box<Services>>,
    /// Target and length of the last read.
    pub(crate) last_read: Option<(Target, usize)>,
    /// Place of the last read.
    pub(crate) last_place: Option<PayloadPlace>,
    /// Writes of verbs to HBM since they were last taken.
    pub(crate) written: Accesses,
    /// Number of writes by verbs to the host's memory since they were last taken.
    pub(crate) host_writes: u64,
}

impl CardMemory {
    pub(crate) fn new(regions: FlatMemory, engines: Vec<Memory>) -> Self {
        Self {
            regions,
            engines,
            attached: None,
            services: None,
            last_read: None,
            last_place: None,
            written: Accesses::default(),
            host_writes: 0,
        }
    }

    /// The bytes at a place, without counting the access.
    pub(crate) fn at(&self, place: PayloadPlace) -> Result<&[u8], MemoryFault> {
        let PayloadPlace { target, address, length } = place;
        let (image, start) = match engine_of(address).filter(|_| target != Target::Host) {
            None => (self.regions.image(target), address),
            Some((slot, offset)) => (self.engines.get(usize::from(slot)).ok_or(MemoryFault)?.image(), offset),
        };
        let start = usize::try_from(start).map_err(|_| MemoryFault)?;
        image.get(start..start.checked_add(length).ok_or(MemoryFault)?).ok_or(MemoryFault)
    }
}

impl RegionMemory for CardMemory {
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        if let Some(offset) = attached_of(address).filter(|_| target == Target::Host) {
            return self.attached.as_mut().ok_or(MemoryFault)?.read(offset, length);
        }
        let place = PayloadPlace { target, address, length };
        let mut read_from = target;
        if let Some((slot, offset)) = engine_of(address).filter(|_| target == Target::Hbm) {
            let memory = self.engines.get(usize::from(slot)).ok_or(MemoryFault)?;
            let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
            if start.checked_add(length).is_some() && !memory.is_off_chip(start, length) {
                read_from = Target::OnChip;
            }
        }
        self.last_read = Some((read_from, length));
        self.last_place = Some(place);
        self.at(place)
    }

    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        if let Some(offset) = attached_of(address).filter(|_| target == Target::Host) {
            return self.attached.as_mut().ok_or(MemoryFault)?.write(offset, bytes);
        }
        let mut leaves_chip = target == Target::Hbm;
        let stored = match engine_of(address).filter(|_| target != Target::Host) {
            None => self.regions.write(target, address, bytes),
            Some((slot, offset)) => {
                let memory = self.engines.get_mut(usize::from(slot)).ok_or(MemoryFault)?;
                let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
                let end = start.checked_add(bytes.len()).ok_or(MemoryFault)?;
                leaves_chip &= memory.is_off_chip(start, bytes.len());
                memory.image_mut().get_mut(start..end).ok_or(MemoryFault)?.copy_from_slice(bytes);
                Ok(())
            }
        };
        self.host_writes += u64::from(target == Target::Host);
        if leaves_chip {
            self.written.writes += 1;
            self.written.bytes += bytes.len() as u64;
        }
        stored
    }

    fn pass<'a>(&mut self, part: Part, bytes: &'a [u8], changed: &'a mut Vec<u8>) -> Passed<'a> {
        let flow = requests_of(part.queue_pair);
        let Some(services) = self.services.as_mut().filter(|services| services.serves(flow)) else {
            return Passed { bytes, is_marked: false };
        };
        changed.clear();
        changed.extend_from_slice(bytes);
        let verdict = services.pass(flow, part.offset, changed);
        let is_marked = services.accept(flow, verdict);
        Passed { bytes: changed, is_marked }
    }
}

/// The flow of requests that arrive on a queue pair.
pub(crate) fn requests_of(queue_pair: QueuePairNumber) -> Flow {
    Flow { queue_pair: queue_pair.0 as u16 % QUEUE_PAIRS, direction: Direction::Receive }
}

#[cfg(test)]
mod tests {
    use weft_waist::engine_address;

    use super::*;

    #[test]
    fn verbs_are_charged_for_what_an_engine_has_off_chip() {
        let engines = vec![Memory::on_chip_except(64, 32..64)];
        let mut memory = CardMemory::new(FlatMemory::new(4), engines);
        memory.write(Target::Hbm, engine_address(0, 0), &[1; 32]).unwrap();
        assert_eq!(memory.written, Accesses::default());
        memory.read(Target::Hbm, engine_address(0, 0), 8).unwrap();
        assert_eq!(memory.last_read, Some((Target::OnChip, 8)));
        memory.write(Target::Hbm, engine_address(0, 28), &[1; 8]).unwrap();
        assert_eq!(memory.written, Accesses { writes: 1, bytes: 8, ..Accesses::default() });
        memory.read(Target::Hbm, engine_address(0, 32), 8).unwrap();
        assert_eq!(memory.last_read, Some((Target::Hbm, 8)));
    }

    #[test]
    fn engines_have_their_memories_to_the_byte() {
        let engines = vec![Memory::new(16), Memory::new(8)];
        let mut memory = CardMemory::new(FlatMemory::new(4), engines);
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
