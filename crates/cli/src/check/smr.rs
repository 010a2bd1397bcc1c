//! `weft check smr`: checks the replicated log against an adversary.

use clap::Args;
use weft_model::exhaustive::Explored;
use weft_model::smr::{Budgets, suite};
use weft_results::table::Table;

use super::exhaustive;
use crate::envelope::Basis;
use crate::failure::Failure;
use crate::task::Task;

/// The check has no options.
#[derive(Clone, Debug, Args)]
pub(crate) struct SmrCheck {}

impl Task for SmrCheck {
    type Found = Vec<Explored<Budgets>>;

    const KIND: &'static str = "check smr";
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Self::Found, Failure> {
        Ok(exhaustive::explore(suite(), |check, threads, progress| check.run(threads, progress)))
    }

    fn to_text(&self, explored: &Self::Found) -> String {
        let limits = Table::of(explored)
            .numbers("entries", "", |check| check.budgets.entries)
            .numbers("changes", "", |check| check.budgets.changes)
            .numbers("failures", "", |check| check.budgets.failures)
            .numbers("cuts", "", |check| check.budgets.cuts)
            .numbers("retries", "", |check| check.budgets.retries);
        exhaustive::to_text("weft check smr", limits, explored)
    }

    fn holds(&self, explored: &Self::Found) -> bool {
        exhaustive::holds(explored)
    }
}
