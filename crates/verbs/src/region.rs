//! Memory regions: which operations peers may use on which memory, and what effect a write has there.
//!
//! Regions give Weft its custom operations without a custom wire protocol. Depending on the region that it
//! addresses, an ordinary WRITE writes registers, writes on-chip memory, writes through to HBM, or calls an
//! engine.

/// The memory that a region is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The card's registers.
    Register,
    /// On-chip memory.
    OnChip,
    /// High-bandwidth memory (HBM) of the card.
    Hbm,
    /// The host's memory, reached over PCIe.
    Host,
}

impl Target {
    /// All targets, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Register, Self::OnChip, Self::Hbm, Self::Host];
}

/// Operations allowed on a region or through a queue pair: `ibv_access_flags`, with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessFlags(u8);

impl AccessFlags {
    /// Only the owner may read.
    pub const NONE: Self = Self(0);
    /// The owner may write (`IBV_ACCESS_LOCAL_WRITE`).
    pub const LOCAL_WRITE: Self = Self(1);
    /// Peers may write (`IBV_ACCESS_REMOTE_WRITE`).
    pub const REMOTE_WRITE: Self = Self(2);
    /// Peers may read (`IBV_ACCESS_REMOTE_READ`).
    pub const REMOTE_READ: Self = Self(4);
    /// Peers may use FETCH_ADD and CMP_SWAP (`IBV_ACCESS_REMOTE_ATOMIC`).
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// Everything above.
    pub const ALL: Self = Self(15);

    /// The flags that are in `self` or in `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags that are in `self` and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `self` contains all flags of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The value in verbs.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// A protection domain. A queue pair reaches only regions of its own domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtectionDomain(pub u32);

/// A range of memory that queue pairs can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Protection domain of the region.
    pub domain: ProtectionDomain,
    /// Address of the first byte, both for peers and in the target memory.
    pub address: u64,
    /// Number of bytes.
    pub length: u64,
    /// Operations that are allowed on the region.
    pub access: AccessFlags,
    /// The memory that the region is part of.
    pub target: Target,
    /// Whether writes also go to the same address of HBM.
    pub write_through: bool,
    /// If set, each completed WRITE into the region calls the engine in this slot.
    pub rpc: Option<u8>,
}

impl Region {
    /// An ordinary region of host memory in the default protection domain.
    pub const fn host(address: u64, length: u64, access: AccessFlags) -> Self {
        Self {
            domain: ProtectionDomain(0),
            address,
            length,
            access,
            target: Target::Host,
            write_through: false,
            rpc: None,
        }
    }
}

/// The keys of a registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionKeys {
    /// The local key, for the owner's own requests.
    pub lkey: u32,
    /// The remote key, for the peers' requests.
    pub rkey: u32,
}
