//! Known bugs of the program on a node's host, to run campaigns with.

/// A known bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A node that starts over leaves in its engines what they hold.
    EnginesKept,
    /// A node that comes back connects the queue pairs of its engines as those of the first incarnation.
    WiredToFormerIncarnation,
    /// A bug of the membership: the lease holder has it.
    Cluster(weft_cluster::PlantedBug),
}

/// A known bug of the host half of the key-value store with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBug {
    /// The engine is told that records are durable as soon as the store has taken them.
    ToldBeforeFlush,
    /// A snapshot begins although something is undecided that was accepted before it.
    SnapshotWithoutMark,
    /// A node that starts over goes on with the log of its former life.
    StartOverKeepsLog,
}

impl LogBug {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ToldBeforeFlush, Self::SnapshotWithoutMark, Self::StartOverKeepsLog];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToldBeforeFlush => "told-before-flush",
            Self::SnapshotWithoutMark => "snapshot-without-mark",
            Self::StartOverKeepsLog => "start-over-keeps-log",
        }
    }
}
