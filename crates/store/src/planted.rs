//! Deliberate bugs, to show that the campaign detects them.

/// A deliberate bug to run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Records count as durable when they are written, before the flush has ended.
    AcknowledgeBeforeFlush,
    /// A frame is accepted if its own checksum is correct: neither its number nor its position nor the checksum of
    /// the frame before it is compared.
    ChainIgnored,
    /// The checksum of a frame is not compared.
    ChecksumIgnored,
    /// A batch that cannot be read is taken for the end of the log, even if others follow.
    DamageTruncated,
    /// If a batch cannot be read in the log, its copy in the mirror is not used.
    MirrorIgnored,
    /// The part of the log that a snapshot replaces is released as soon as the last chunk is submitted.
    ReleasedEarly,
    /// The superblock refers to a snapshot before its last chunk is durable.
    NamedEarly,
    /// The store goes on after a failed flush.
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
