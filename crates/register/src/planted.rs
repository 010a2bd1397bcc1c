//! Deliberate bugs, which the checks must find.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// A coordinator that restarts has forgotten its promise.
    PromiseForgotten,
    /// A proposer continues from the first accepted value that it receives, not from that of the greatest ballot.
    AnyAccepted,
    /// A proposer begins an operation with the ballot of the one before.
    BallotReused,
}

impl PlantedBug {
    /// All bugs.
    pub const ALL: [Self; 3] = [Self::PromiseForgotten, Self::AnyAccepted, Self::BallotReused];
}
