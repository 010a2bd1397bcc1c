//! `weft check register`: the checks of the register of the coordinators.

use weft_model::register::{Exploration, suite};
use weft_results::table::TableOf;

use super::exhaustive::{Found, Suite};

/// The checks of the register.
#[derive(Clone, Debug)]
pub(crate) struct Register;

impl Suite for Register {
    type Check = Exploration;

    const KIND: &'static str = "check register";

    fn checks() -> Vec<Exploration> {
        suite()
    }

    fn limits(table: TableOf<&Found<Self>>) -> TableOf<&Found<Self>> {
        table
            .words("operations", |check| {
                let [one, other] = check.budgets.operations;
                format!("{one} and {other}")
            })
            .numbers("rounds", "", |check| check.budgets.rounds)
            .numbers("waits", "", |check| check.budgets.waits)
            .numbers("given up", "", |check| check.budgets.given_up)
    }
}
