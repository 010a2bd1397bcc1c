//! `weft check register`: checks the register of the coordinators against an adversary.

use clap::Args;
use weft_model::exhaustive::Explored;
use weft_model::register::{Budgets, suite};
use weft_results::table::Table;

use super::exhaustive;
use crate::envelope::Basis;
use crate::failure::Failure;
use crate::task::Task;

/// The check has no options.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegisterCheck {}

impl Task for RegisterCheck {
    type Found = Vec<Explored<Budgets>>;

    const KIND: &'static str = "check register";
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Self::Found, Failure> {
        Ok(exhaustive::explore(suite(), |check, threads, progress| check.run(threads, progress)))
    }

    fn to_text(&self, explored: &Self::Found) -> String {
        let limits = Table::of(explored)
            .words("operations", |check| {
                let [one, other] = check.budgets.operations;
                format!("{one} and {other}")
            })
            .numbers("rounds", "", |check| check.budgets.rounds)
            .numbers("waits", "", |check| check.budgets.waits)
            .numbers("given up", "", |check| check.budgets.given_up);
        exhaustive::to_text("weft check register", limits, explored)
    }

    fn holds(&self, explored: &Self::Found) -> bool {
        exhaustive::holds(explored)
    }
}
