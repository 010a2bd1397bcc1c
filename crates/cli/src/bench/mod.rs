//! `weft bench`: one measurement.

mod kv;

use clap::Subcommand;

use crate::failure::{Failure, Verdict};

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The replicated key-value store under a workload, with a checked history
    Kv(kv::KvArguments),
}

impl Bench {
    /// Measures it.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Kv(arguments) => arguments.run(),
        }
    }
}
