//! Known bugs, to prove that the campaign finds such.

/// A known bug to run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Records count as durable when they are written, before the flush has ended.
    AcknowledgeBeforeFlush,
    /// A frame counts wherever its own checksum is right: neither its number nor its place nor the frame before it is
    /// compared.
    ChainIgnored,
    /// The checksum of a frame is not compared.
    ChecksumIgnored,
    /// A batch that cannot be read is the end of the log, whatever comes behind it.
    DamageTruncated,
    /// A batch that cannot be read in the log is not looked for in the mirror.
    MirrorIgnored,
    /// The space that a snapshot replaces is released as soon as its last chunk is handed over.
    ReleasedEarly,
    /// A snapshot is named before its last chunk is durable.
    NamedEarly,
    /// The store goes on after a flush that has failed.
    FlushErrorIgnored,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 8] = [
        Self::AcknowledgeBeforeFlush,
        Self::ChainIgnored,
        Self::ChecksumIgnored,
        Self::DamageTruncated,
        Self::MirrorIgnored,
        Self::ReleasedEarly,
        Self::NamedEarly,
        Self::FlushErrorIgnored,
    ];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcknowledgeBeforeFlush => "store-acknowledges-before-flush",
            Self::ChainIgnored => "chain-ignored",
            Self::ChecksumIgnored => "checksum-ignored",
            Self::DamageTruncated => "damage-truncated",
            Self::MirrorIgnored => "mirror-ignored",
            Self::ReleasedEarly => "released-early",
            Self::NamedEarly => "named-early",
            Self::FlushErrorIgnored => "flush-error-ignored",
        }
    }
}
