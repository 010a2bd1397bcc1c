//! The memory that requests refer to, as the transport reads and writes it.
//!
//! A peer's request refers to a region, which the transport checks. A request that the program posts refers
//! to lists of elements. For the transport, each posted request is one range of a separate address space, the
//! target [`LISTS`]. This module translates such a range back to the elements.

use weft_rdma::{MemoryFault, RegionMemory};
use weft_verbs::{AccessFlags, ProtectionDomain, Target};

use crate::work::WorkQueue;

/// The target for the program's memory, at the addresses of its regions.
pub(crate) const PROGRAM: Target = Target::Host;
/// The target for posted requests.
pub(crate) const LISTS: Target = Target::OnChip;

/// The largest payload of a packet.
const PAYLOAD_BYTES_MAX: usize = 4_096;

/// The memory of the program that uses the device.
///
/// The memory may change while it is read. So its bytes are copied, and no references to it are returned.
pub trait HostMemory {
    /// Copies bytes, from `address` on, to `out`.
    ///
    /// # Errors
    /// If there is no such memory.
    fn load(&mut self, address: u64, out: &mut [u8]) -> Result<(), MemoryFault>;

    /// Copies bytes to `address`.
    ///
    /// # Errors
    /// If there is no such memory, or if it is not writable.
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;
}

/// A registered region, for requests of its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) domain: ProtectionDomain,
    /// Address of the first byte that requests use.
    pub(crate) iova: u64,
    /// Address of the first byte in the program.
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) access: AccessFlags,
    pub(crate) keys: weft_verbs::RegionKeys,
}

impl Registered {
    /// Address, in the program, of `length` bytes at `address` of the region. `None` if the region does not
    /// contain all of them or does not allow `needs`.
    fn place(&self, address: u64, length: u64, needs: AccessFlags, domain: ProtectionDomain) -> Option<u64> {
        let offset = address.checked_sub(self.iova)?;
        let end = offset.checked_add(length)?;
        let allowed = end <= self.length && self.domain == domain && self.access.contains(needs);
        allowed.then(|| self.address.wrapping_add(offset))
    }
}

/// A position in a posted request, encoded in an address of [`LISTS`]: queue, slot and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListAddress {
    pub(crate) queue: usize,
    pub(crate) slot: usize,
    pub(crate) offset: u32,
}

impl ListAddress {
    /// The largest number of queues, and of slots of one queue.
    pub(crate) const QUEUES_MAX: usize = 1 << 16;
    pub(crate) const SLOTS_MAX: usize = 1 << 16;

    pub(crate) fn pack(self) -> u64 {
        (self.queue as u64) << 47 | (self.slot as u64) << 31 | u64::from(self.offset)
    }

    fn unpack(address: u64) -> Self {
        let slot = (address >> 31) as usize & (Self::SLOTS_MAX - 1);
        Self { queue: (address >> 47) as usize, slot, offset: address as u32 & 0x7fff_ffff }
    }
}

/// All memory that requests can refer to.
#[derive(Debug)]
pub(crate) struct Memory<M> {
    pub(crate) host: M,
    /// The regions, by the index in their keys.
    regions: Vec<Option<Registered>>,
    pub(crate) queues: Vec<Option<WorkQueue>>,
    scratch: Vec<u8>,
}

impl<M: HostMemory> Memory<M> {
    /// `regions` is the largest number of regions, and must be a power of two.
    pub(crate) fn new(host: M, regions: usize) -> Self {
        assert!(regions.is_power_of_two(), "the index is the low bits of a key");
        Self { host, regions: vec![None; regions], queues: Vec::new(), scratch: vec![0; PAYLOAD_BYTES_MAX] }
    }

    fn index(&self, key: u32) -> usize {
        key as usize & (self.regions.len() - 1)
    }

    pub(crate) fn insert(&mut self, region: Registered) {
        let index = self.index(region.keys.lkey);
        self.regions[index] = Some(region);
    }

    pub(crate) fn remove(&mut self, lkey: u32) -> Option<Registered> {
        let index = self.index(lkey);
        self.regions[index].take_if(|region| region.keys.lkey == lkey)
    }

    /// The region with this lkey.
    pub(crate) fn region(&self, lkey: u32) -> Option<&Registered> {
        self.regions[self.index(lkey)].as_ref().filter(|region| region.keys.lkey == lkey)
    }

    /// Address, in the program, of bytes of a region that a peer names by its rkey.
    pub(crate) fn remote(
        &self,
        rkey: u32,
        address: u64,
        length: u64,
        needs: AccessFlags,
        domain: ProtectionDomain,
    ) -> Option<u64> {
        let region = self.regions[self.index(rkey)].as_ref().filter(|region| region.keys.rkey == rkey)?;
        region.place(address, length, needs, domain)
    }

    pub(crate) fn add_queue(&mut self, queue: WorkQueue) -> Option<usize> {
        if let Some(free) = self.queues.iter().position(Option::is_none) {
            self.queues[free] = Some(queue);
            return Some(free);
        }
        if self.queues.len() == ListAddress::QUEUES_MAX {
            return None;
        }
        self.queues.push(Some(queue));
        Some(self.queues.len() - 1)
    }

    pub(crate) fn queue(&mut self, index: usize) -> &mut WorkQueue {
        self.queues[index].as_mut().expect("a queue lives as long as what posts to it")
    }

    /// Calls a function with each piece of program memory that belongs to a part of a posted request.
    fn pieces(
        &mut self,
        address: u64,
        length: usize,
        needs: AccessFlags,
        mut each: impl FnMut(&mut M, u64, std::ops::Range<usize>) -> Result<(), MemoryFault>,
    ) -> Result<(), MemoryFault> {
        let ListAddress { queue, slot, offset } = ListAddress::unpack(address);
        let Self { host, regions, queues, .. } = self;
        let queue = queues.get_mut(queue).and_then(Option::as_mut).ok_or(MemoryFault)?;
        let domain = queue.domain;
        let mut skip = u64::from(offset);
        let mut done = 0;
        for at in 0..queue.count(slot) {
            let element = queue.element(slot, at);
            if done == length {
                break;
            }
            let have = u64::from(element.length);
            if skip >= have {
                skip -= have;
                continue;
            }
            let piece = (have - skip).min((length - done) as u64);
            let region = regions[element.lkey as usize & (regions.len() - 1)].as_ref();
            let place = region
                .filter(|region| region.keys.lkey == element.lkey)
                .and_then(|region| region.place(element.address.wrapping_add(skip), piece, needs, domain));
            let Some(place) = place else {
                queue.note_violation(slot);
                return Err(MemoryFault);
            };
            each(host, place, done..done + piece as usize)?;
            done += piece as usize;
            skip = 0;
        }
        if done == length { Ok(()) } else { Err(MemoryFault) }
    }
}

impl<M: HostMemory> RegionMemory for Memory<M> {
    #[inline]
    fn read(&mut self, target: Target, address: u64, length: usize) -> Result<&[u8], MemoryFault> {
        let mut scratch = std::mem::take(&mut self.scratch);
        if scratch.len() < length {
            scratch.resize(length, 0);
        }
        let result = if target == PROGRAM {
            self.host.load(address, &mut scratch[..length])
        } else {
            let ListAddress { queue, slot, offset } = ListAddress::unpack(address);
            let offset = offset as usize;
            let queue = self.queues.get(queue).and_then(Option::as_ref).ok_or(MemoryFault);
            match queue.map(|queue| queue.inline_bytes(slot)) {
                Err(fault) => Err(fault),
                Ok(Some(bytes)) => bytes
                    .get(offset..offset + length)
                    .map(|bytes| scratch[..length].copy_from_slice(bytes))
                    .ok_or(MemoryFault),
                Ok(None) => self.pieces(address, length, AccessFlags::NONE, |host, place, part| {
                    host.load(place, &mut scratch[part])
                }),
            }
        };
        self.scratch = scratch;
        result.map(|()| &self.scratch[..length])
    }

    #[inline]
    fn write(&mut self, target: Target, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        if target == PROGRAM {
            return self.host.store(address, bytes);
        }
        self.pieces(address, bytes.len(), AccessFlags::LOCAL_WRITE, |host, place, part| {
            host.store(place, &bytes[part])
        })
    }
}
