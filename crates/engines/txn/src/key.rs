//! Keys and versions.

use std::fmt;

use weft_waist::Epoch;

/// The most shards: one for each node of the largest cluster.
pub const SHARDS_MAX: usize = weft_waist::NODES_MAX;

/// Bits of a key that follow the shard's number.
const LOCAL_BITS: u32 = 56;

/// Bits of a version that follow the epoch.
const NUMBER_BITS: u32 = 40;

/// The name of an object: the shard that holds it in the top byte, and 56 bits that the application chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    /// Object `local` of `shard`.
    ///
    /// # Panics
    /// If `shard` is not below [`SHARDS_MAX`] or `local` needs more than 56 bits.
    pub const fn new(shard: usize, local: u64) -> Self {
        assert!(shard < SHARDS_MAX, "a cluster has at most 16 shards");
        assert!(local >> LOCAL_BITS == 0, "a key has 56 bits below its shard");
        Self((shard as u64) << LOCAL_BITS | local)
    }

    /// The key with these 64 bits, or `None` if they name an invalid shard.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if (bits >> LOCAL_BITS) < SHARDS_MAX as u64 { Some(Self(bits)) } else { None }
    }

    /// The key as 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The shard that the key belongs to.
    pub const fn shard(self) -> usize {
        (self.0 >> LOCAL_BITS) as usize
    }

    /// The top byte of the application's 56 bits. An application with several tables numbers them there.
    pub const fn table(self) -> u8 {
        (self.local() >> (LOCAL_BITS - 8)) as u8
    }

    /// The application's 56 bits.
    pub const fn local(self) -> u64 {
        self.0 & ((1 << LOCAL_BITS) - 1)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:x}", self.shard(), self.local())
    }
}

/// The version of a key's value: the epoch in the high bits, and in the low bits a number that the shard's
/// primary counts up. A key's versions grow in the order of its writes, and none is used twice, not even
/// after a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// The version of a key that was never written.
    pub const ZERO: Self = Self(0);

    /// The version `number` of `epoch`.
    ///
    /// # Panics
    /// If the epoch has more than 24 bits or the number more than 40.
    pub const fn new(epoch: Epoch, number: u64) -> Self {
        Self::try_new(epoch, number).expect("a version has 24 bits of epochs and 40 bits below them")
    }

    /// The version `number` of `epoch`, or `None` if either has too many bits.
    pub(crate) const fn try_new(epoch: Epoch, number: u64) -> Option<Self> {
        if epoch.0 >> (64 - NUMBER_BITS) == 0 && number >> NUMBER_BITS == 0 {
            Some(Self((epoch.0 as u64) << NUMBER_BITS | number))
        } else {
            None
        }
    }

    /// The version with these 64 bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The version as 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The epoch in which the shard's primary assigned this version.
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> NUMBER_BITS) as u32)
    }

    /// Sequence number in that epoch.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_shard() {
        let key = Key::new(15, 7);
        assert_eq!((key.shard(), key.local()), (15, 7));
        assert_eq!(Key::from_bits(key.bits()), Some(key));
        assert_eq!(Key::from_bits(16 << LOCAL_BITS), None);
    }

    #[test]
    fn versions_grow_with_the_epoch_first() {
        assert!(Version::new(Epoch(2), 0) > Version::new(Epoch(1), 9));
        assert_eq!(Version::new(Epoch(2), 5).epoch(), Epoch(2));
        assert!(Version::ZERO < Version::new(Epoch(0), 1));
    }
}
