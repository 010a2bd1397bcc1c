//! Deliberate bugs of the program on a node's host, which campaigns must detect.

/// A deliberate bug of the program on a node's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A node that rejoins leaves the data in its engines.
    EnginesKept,
    /// A node that rejoins connects the queue pairs of its engines as in the first incarnation.
    WiredToFormerIncarnation,
    /// A bug of the agent.
    Cluster(weft_cluster::PlantedBug),
}

/// A deliberate bug of the host half of the key-value store with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBug {
    /// Records are reported to the engine as durable as soon as the store has accepted them.
    ToldBeforeFlush,
    /// A snapshot begins although entries accepted before it are undecided.
    SnapshotWithoutMark,
    /// A node that rejoins continues the log of its former incarnation.
    StartOverKeepsLog,
    /// Entries of node 0's stream are logged one flush later than those of the others.
    StreamsApart,
}

impl LogBug {
    /// All these bugs.
    pub const ALL: [Self; 4] =
        [Self::ToldBeforeFlush, Self::SnapshotWithoutMark, Self::StartOverKeepsLog, Self::StreamsApart];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToldBeforeFlush => "told-before-flush",
            Self::SnapshotWithoutMark => "snapshot-without-mark",
            Self::StartOverKeepsLog => "start-over-keeps-log",
            Self::StreamsApart => "streams-apart",
        }
    }
}
