//! Ballots: the order of all attempts.

use std::fmt;

/// The process that makes an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposerId {
    /// Number of the proposer, such as that of its node.
    pub number: u8,
    /// A number that no other process with this proposer's number has or had.
    pub incarnation: u64,
}

/// The number of one attempt. No two attempts have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// Decides first: 0 to [`Ballot::ROUND_MAX`].
    pub round: u64,
    /// The process that makes the attempt.
    pub proposer: ProposerId,
}

impl Ballot {
    /// Lower than the ballot of any attempt.
    pub const ZERO: Self = Self { round: 0, proposer: ProposerId { number: 0, incarnation: 0 } };
    /// The last round: more than a proposer reaches in a thousand years with an attempt in each nanosecond.
    pub const ROUND_MAX: u64 = 1 << 62;
}

impl fmt::Display for ProposerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.number, self.incarnation)
    }
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.round, self.proposer)
    }
}
