//! `weft check smr`: the checks of the replicated log.

use weft_model::smr::{Exploration, suite};
use weft_results::table::TableOf;

use super::exhaustive::{Found, Suite};

/// The checks of the log's engine.
#[derive(Clone, Debug)]
pub(crate) struct Smr;

impl Suite for Smr {
    type Check = Exploration;

    const KIND: &'static str = "check smr";

    fn checks() -> Vec<Exploration> {
        suite()
    }

    fn limits(table: TableOf<&Found<Self>>) -> TableOf<&Found<Self>> {
        table
            .numbers("entries", "", |check| check.budgets.entries)
            .numbers("changes", "", |check| check.budgets.changes)
            .numbers("failures", "", |check| check.budgets.failures)
            .numbers("cuts", "", |check| check.budgets.cuts)
            .numbers("retries", "", |check| check.budgets.retries)
    }
}
