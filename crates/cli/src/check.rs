//! `weft check`: model checking.

mod rounds;
mod smr;

use clap::Subcommand;

use crate::failure::{Failure, Verdict};
use crate::task::Reported;

/// Subject of the check.
#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// Consensus in rounds, and the published algorithm, whose bug the check must find
    Rounds(Reported<rounds::RoundsCheck>),
    /// Replicated log of one-sided writes (Mu): three replicas, two of which may lead
    Smr(Reported<smr::SmrCheck>),
}

impl Check {
    /// Runs the checks.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Rounds(check) => check.run(),
            Self::Smr(check) => check.run(),
        }
    }
}
