//! Memory regions: what a peer may do where, and what its writes mean.
//!
//! A region is where Weft's custom verbs live without a custom wire: an ordinary WRITE becomes a register
//! write, a write to on-chip memory, a write through to HBM or a call of an engine by the region that it
//! lands in.

/// The memory that a region lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Registers of the card.
    Register,
    /// Memory on the chip.
    OnChip,
    /// High-bandwidth memory on the card.
    Hbm,
    /// Memory of the host, behind PCIe.
    Host,
}

impl Target {
    /// All targets, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Register, Self::OnChip, Self::Hbm, Self::Host];
}

/// Operations allowed on a region or through a queue pair: `ibv_access_flags`, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessFlags(u8);

impl AccessFlags {
    /// The owner may only read.
    pub const NONE: Self = Self(0);
    /// The owner may write (`IBV_ACCESS_LOCAL_WRITE`).
    pub const LOCAL_WRITE: Self = Self(1);
    /// Peers may write (`IBV_ACCESS_REMOTE_WRITE`).
    pub const REMOTE_WRITE: Self = Self(2);
    /// Peers may read (`IBV_ACCESS_REMOTE_READ`).
    pub const REMOTE_READ: Self = Self(4);
    /// Peers may FETCH_ADD and CMP_SWAP (`IBV_ACCESS_REMOTE_ATOMIC`).
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// Everything.
    pub const ALL: Self = Self(15);

    /// The flags of `self` and of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The flags of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The number in verbs.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// A protection domain: queue pairs reach only regions of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtectionDomain(pub u32);

/// A range of memory that queue pairs may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Protection domain of the region.
    pub domain: ProtectionDomain,
    /// First byte, both as peers see it and in the target's own memory.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Operations that are allowed.
    pub access: AccessFlags,
    /// The memory that the region lies in.
    pub target: Target,
    /// Writes go to the same address of HBM too.
    pub write_through: bool,
    /// The slot of the engine that each completed WRITE into the region calls.
    pub rpc: Option<u8>,
}

impl Region {
    /// A plain region of host memory in the default domain.
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
    /// For the owner's own requests.
    pub lkey: u32,
    /// For peers.
    pub rkey: u32,
}
