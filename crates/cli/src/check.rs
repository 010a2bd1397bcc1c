//! `weft check`: model checking.

mod rounds;
mod smr;

use clap::Subcommand;

use crate::failure::{Failure, Verdict};
use crate::task::Reported;

/// What is checked.
#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// The consensus of the rounds, and the published algorithm that it was made from, which must fall
    Rounds(Reported<rounds::RoundsCheck>),
    /// The replicated log of one-sided writes (Mu): three replicas, of which two lead
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
