//! `weft check`: model checking, and checks of recorded histories.

mod exhaustive;
mod history;
mod kv;
mod register;
mod rounds;
mod smr;

use clap::Subcommand;

use crate::failure::{Failure, Verdict};
use crate::task::Reported;
use exhaustive::Exhaustive;

/// Subject of the check.
#[derive(Debug, Subcommand)]
pub(crate) enum Check {
    /// Check Weft's consensus in rounds, and show that the check finds a bug in the algorithm that the detPU paper
    /// prints
    Rounds(Reported<rounds::RoundsCheck>),
    /// Check the key-value store: three nodes, two clients
    Kv(Reported<Exhaustive<kv::Kv>>),
    /// Check the replicated log (Mu): three replicas, of which two may try to lead
    Smr(Reported<Exhaustive<smr::Smr>>),
    /// Check the register of the coordinators (CASPaxos): three coordinators, two proposers
    Register(Reported<Exhaustive<register::Register>>),
    /// Check recorded histories: the key-value store's for linearizability, transactions' for strict serializability
    History(Reported<history::HistoryCheck>),
}

impl Check {
    /// Runs the checks.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Rounds(check) => check.run(),
            Self::Kv(check) => check.run(),
            Self::Smr(check) => check.run(),
            Self::Register(check) => check.run(),
            Self::History(check) => check.run(),
        }
    }
}
