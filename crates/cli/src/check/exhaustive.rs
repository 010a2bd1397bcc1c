//! `weft check kv`, `smr` and `register`: exhaustive checks of small clusters against an adversary.

use std::fmt::Debug;
use std::marker::PhantomData;

use clap::Args;
use serde::Serialize;
use weft_harness::progress::Progress;
use weft_model::exhaustive::{Explore, Explored};
use weft_results::table::{Table, TableOf, grouped, three_digits};

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::task::Task;

/// The checks that one command runs.
pub(crate) trait Suite: Clone + Debug + Send + Sync + 'static {
    /// A check, with limits of what may happen in it.
    type Check: Explore<Budgets: Debug + Serialize>;

    /// The subcommand, as it is typed after `weft`.
    const KIND: &'static str;

    /// The checks.
    fn checks() -> Vec<Self::Check>;

    /// Adds a column for each limit.
    fn limits(table: TableOf<&Found<Self>>) -> TableOf<&Found<Self>>;
}

/// The result of a check of a suite.
pub(crate) type Found<S> = Explored<<<S as Suite>::Check as Explore>::Budgets>;

/// A suite as a command, which has no options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Exhaustive<S: Suite> {
    #[clap(skip)]
    suite: PhantomData<S>,
}

impl<S: Suite> Task for Exhaustive<S> {
    type Found = Vec<Found<S>>;

    const KIND: &'static str = S::KIND;
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Self::Found, Failure> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let explored = S::checks().into_iter().map(|check| {
            let mut progress = Progress::new("states", 0);
            check.run(threads, |states| progress.set(states))
        });
        Ok(explored.collect())
    }

    fn to_text(&self, explored: &Self::Found) -> String {
        let table = S::limits(Table::of(explored))
            .numbers("states", "", |check| grouped(check.states))
            .numbers("steps", "", |check| grouped(check.transitions))
            .words("verdict", |check| verdict(check))
            .numbers("time", "s", |check| three_digits(check.seconds));
        let rivals = if both_succeed(explored) {
            "both succeed in some run"
        } else {
            "NEVER both succeed: limits too strict"
        };
        let mut text = format!("{table}\n  rivals      {rivals}\n  repeat      weft {}\n", S::KIND);
        for (property, trace) in explored.iter().flat_map(|check| &check.violations) {
            text += &format!("\n{property}\n");
            for line in trace.lines() {
                text += &format!("  {line}\n");
            }
        }
        text
    }

    /// Whether every property holds, and the checks could have shown that one does not: in one of them, both rivals
    /// succeed in some run.
    fn holds(&self, explored: &Self::Found) -> bool {
        explored.iter().all(|check| check.violations.is_empty()) && both_succeed(explored)
    }
}

fn verdict<Budgets>(check: &Explored<Budgets>) -> String {
    if check.violations.is_empty() {
        return format!("holds ({})", check.properties.len());
    }
    let broken = check.violations.iter().map(|(property, _)| format!("\"{property}\" broken"));
    broken.collect::<Vec<_>>().join(", ")
}

fn both_succeed<Budgets>(explored: &[Explored<Budgets>]) -> bool {
    explored.iter().any(|check| check.both_succeed)
}
