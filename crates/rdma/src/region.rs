//! The table of registered regions, and the check that every access must pass.

use weft_verbs::{AccessFlags, ApiError, ProtectionDomain, Region, RegionKeys, Target};

use crate::memory::{MemoryFault, RegionMemory};
use crate::numbers::KeyNumbers;

/// The reason why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    UnknownKey,
    WrongDomain,
    OutOfBounds,
    Forbidden,
}

/// The permission for an access that has passed the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) target: Target,
    pub(crate) write_through: bool,
    pub(crate) rpc: Option<u8>,
    /// What must be added to an address of the region to get the address in the target's own memory, modulo
    /// 2^64.
    offset: u64,
}

impl Grant {
    /// The address in the target's own memory of the region's address `address`.
    #[inline]
    pub(crate) fn place(self, address: u64) -> u64 {
        address.wrapping_add(self.offset)
    }

    /// Writes to the region's target and, if the region is write-through, to HBM as well.
    #[inline]
    pub(crate) fn store(
        self,
        memory: &mut impl RegionMemory,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), MemoryFault> {
        let address = self.place(address);
        memory.write(self.target, address, bytes)?;
        if self.write_through && self.target != Target::Hbm {
            memory.write(Target::Hbm, address, bytes)?;
        }
        Ok(())
    }
}

/// An access that is to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) key: u32,
    pub(crate) domain: ProtectionDomain,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) needs: AccessFlags,
}

/// An entry of the region table: empty, or registered under a pair of keys.
#[derive(Clone, Copy, Debug, Default)]
struct RegionEntry {
    region: Option<Region>,
    /// The offset for [`Grant::offset`].
    offset: u64,
    lkey: u32,
    rkey: u32,
}

/// All regions of one NIC, indexed by the index in their keys.
#[derive(Debug)]
pub(crate) struct RegionTable {
    slots: Vec<RegionEntry>,
    numbers: KeyNumbers,
}

impl RegionTable {
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self { slots: vec![RegionEntry::default(); capacity], numbers: KeyNumbers::new(capacity, seed) }
    }

    pub(crate) fn register(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        self.register_at(region, region.address)
    }

    pub(crate) fn register_at(&mut self, region: Region, place: u64) -> Result<RegionKeys, ApiError> {
        if region.address.checked_add(region.length).is_none() {
            return Err(ApiError::RegionWraps { address: region.address, length: region.length });
        }
        let keys = self.numbers.allocate().ok_or(ApiError::TooManyRegions(self.slots.len()))?;
        let RegionKeys { lkey, rkey } = keys;
        self.slots[self.numbers.index(rkey)] =
            RegionEntry { region: Some(region), offset: place.wrapping_sub(region.address), lkey, rkey };
        Ok(keys)
    }

    pub(crate) fn deregister(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        let region = self.by_keys(keys)?.take().expect("by_keys finds registered regions");
        self.numbers.release(keys);
        Ok(region)
    }

    pub(crate) fn modify(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        let region = self.by_keys(keys)?.as_mut().expect("by_keys finds registered regions");
        region.access = access;
        Ok(())
    }

    /// Checks a peer's access. The key is an rkey.
    #[inline]
    pub(crate) fn check_remote(&self, request: Request) -> Result<Grant, Violation> {
        let slot = self.slots.get(self.numbers.index(request.key)).filter(|slot| slot.rkey == request.key);
        check(slot, request)
    }

    /// Checks a local access. The key is an lkey.
    #[inline]
    pub(crate) fn check_local(&self, request: Request) -> Result<Grant, Violation> {
        let slot = self.slots.get(self.numbers.index(request.key)).filter(|slot| slot.lkey == request.key);
        check(slot, request)
    }

    fn by_keys(&mut self, keys: RegionKeys) -> Result<&mut Option<Region>, ApiError> {
        let index = self.numbers.index(keys.rkey);
        self.slots
            .get_mut(index)
            .filter(|slot| slot.region.is_some() && slot.lkey == keys.lkey && slot.rkey == keys.rkey)
            .map(|slot| &mut slot.region)
            .ok_or(ApiError::UnknownRegion)
    }
}

#[inline]
fn check(slot: Option<&RegionEntry>, request: Request) -> Result<Grant, Violation> {
    let (slot, region) =
        slot.and_then(|slot| Some((slot, slot.region.as_ref()?))).ok_or(Violation::UnknownKey)?;
    if region.domain != request.domain {
        return Err(Violation::WrongDomain);
    }
    let inside = request.address >= region.address
        && request
            .address
            .checked_add(request.length)
            .is_some_and(|end| end <= region.address + region.length);
    if !inside {
        return Err(Violation::OutOfBounds);
    }
    if !region.access.contains(request.needs) {
        return Err(Violation::Forbidden);
    }
    let Region { target, write_through, rpc, .. } = *region;
    Ok(Grant { target, write_through, rpc, offset: slot.offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FlatMemory;

    const DOMAIN: ProtectionDomain = ProtectionDomain(3);

    fn region() -> Region {
        Region { domain: DOMAIN, ..Region::host(0x1000, 0x100, AccessFlags::REMOTE_WRITE) }
    }

    fn write(key: u32, address: u64, length: u64) -> Request {
        Request { key, domain: DOMAIN, address, length, needs: AccessFlags::REMOTE_WRITE }
    }

    #[test]
    fn key_domain_bounds_and_permission_are_all_checked() {
        let mut table = RegionTable::new(4, 1);
        let keys = table.register(region()).unwrap();
        let ok = write(keys.rkey, 0x1000, 0x100);
        assert!(table.check_remote(ok).is_ok());
        assert_eq!(table.check_local(ok), Err(Violation::UnknownKey));
        assert!(table.check_local(Request { key: keys.lkey, ..ok }).is_ok());
        let refused = |request| table.check_remote(request).unwrap_err();
        assert_eq!(refused(Request { key: keys.rkey ^ 0x100, ..ok }), Violation::UnknownKey);
        assert_eq!(refused(Request { key: keys.rkey ^ 1, ..ok }), Violation::UnknownKey);
        assert_eq!(refused(Request { domain: ProtectionDomain(4), ..ok }), Violation::WrongDomain);
        assert_eq!(refused(Request { needs: AccessFlags::REMOTE_READ, ..ok }), Violation::Forbidden);
    }

    #[test]
    fn bounds_hold_to_the_byte_and_at_the_end_of_the_address_space() {
        let mut table = RegionTable::new(4, 1);
        let key = table.register(region()).unwrap().rkey;
        let verdict = |address, length| table.check_remote(write(key, address, length)).map(|_| ());
        assert_eq!(verdict(0x10ff, 1), Ok(()));
        assert_eq!(verdict(0x10ff, 2), Err(Violation::OutOfBounds));
        assert_eq!(verdict(0x0fff, 2), Err(Violation::OutOfBounds));
        assert_eq!(verdict(u64::MAX, 2), Err(Violation::OutOfBounds));
        assert_eq!(
            table.register(Region { address: u64::MAX, length: 2, ..region() }),
            Err(ApiError::RegionWraps { address: u64::MAX, length: 2 })
        );
    }

    #[test]
    fn old_keys_do_not_open_a_later_registration_in_the_same_place() {
        let mut table = RegionTable::new(1, 1);
        let old = table.register(region()).unwrap();
        assert_eq!(table.register(region()), Err(ApiError::TooManyRegions(1)));
        table.deregister(old).unwrap();
        assert_eq!(table.deregister(old), Err(ApiError::UnknownRegion));
        let new = table.register(region()).unwrap();
        assert_ne!(old.rkey, new.rkey);
        assert_eq!(table.check_remote(write(old.rkey, 0x1000, 1)), Err(Violation::UnknownKey));
        assert_eq!(table.modify(old, AccessFlags::ALL), Err(ApiError::UnknownRegion));
    }

    #[test]
    fn write_through_reaches_both_memories() {
        let mut table = RegionTable::new(1, 1);
        let key =
            table.register(Region { target: Target::OnChip, write_through: true, ..region() }).unwrap().rkey;
        let mut memory = FlatMemory::new(0x2000);
        let grant = table.check_remote(write(key, 0x1010, 3)).unwrap();
        grant.store(&mut memory, 0x1010, b"abc").unwrap();
        assert_eq!(&memory.image(Target::OnChip)[0x1010..0x1013], b"abc");
        assert_eq!(&memory.image(Target::Hbm)[0x1010..0x1013], b"abc");
        assert_eq!(memory.image(Target::Host), [0; 0x2000]);
    }
}
