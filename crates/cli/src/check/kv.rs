//! `weft check kv`: the checks of the key-value store.

use weft_model::kv::{Call, Exploration, Key, suite};
use weft_results::table::TableOf;

use super::exhaustive::{Found, Suite};

/// The checks of the store's engine.
#[derive(Clone, Debug)]
pub(crate) struct Kv;

impl Suite for Kv {
    type Check = Exploration;

    const KIND: &'static str = "check kv";

    fn checks() -> Vec<Exploration> {
        suite()
    }

    fn limits(table: TableOf<&Found<Self>>) -> TableOf<&Found<Self>> {
        table
            .words("client 0", |check| words(check.budgets.programs[0]))
            .words("client 1", |check| words(check.budgets.programs[1]))
            .numbers("repeats", "", |check| check.budgets.repeats)
            .numbers("removals", "", |check| check.budgets.removals)
            .numbers("timers", "", |check| check.budgets.timers)
    }
}

/// The operations of a client.
fn words(program: &[(Call, Key)]) -> String {
    program.iter().map(|(call, key)| format!("{call} {key}")).collect::<Vec<_>>().join(", ")
}
