//! `weft check register`: checks the register of the coordinators against an adversary.

use clap::Args;
use weft_harness::progress::Progress;
use weft_model::register::{Exploration, Explored, suite};
use weft_results::table::{Column, Table, grouped, three_digits};

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::task::Task;

/// The check has no options.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegisterCheck {}

impl Task for RegisterCheck {
    type Found = Vec<Explored>;

    const KIND: &'static str = "check register";
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Vec<Explored>, Failure> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let explore = |exploration: Exploration| {
            let mut progress = Progress::new("states", 0);
            exploration.run(threads, |states| progress.set(states))
        };
        Ok(suite().into_iter().map(explore).collect())
    }

    fn to_text(&self, explored: &Vec<Explored>) -> String {
        let mut table = Table::new([
            Column::words("operations"),
            Column::numbers("rounds", ""),
            Column::numbers("waits", ""),
            Column::numbers("given up", ""),
            Column::numbers("states", ""),
            Column::numbers("steps", ""),
            Column::words("verdict"),
            Column::numbers("time", "s"),
        ]);
        for check in explored {
            let budgets = check.budgets;
            let [one, other] = budgets.operations;
            let broken: Vec<_> =
                check.violations.iter().map(|(property, _)| format!("\"{property}\" broken")).collect();
            table.row([
                format!("{one} and {other}"),
                budgets.rounds.to_string(),
                budgets.waits.to_string(),
                budgets.given_up.to_string(),
                grouped(check.states),
                grouped(check.transitions),
                if broken.is_empty() { "holds (4)".to_owned() } else { broken.join(", ") },
                three_digits(check.seconds),
            ]);
        }
        let mut text = format!("{table}\n  repeat      weft check register\n");
        for (property, trace) in explored.iter().flat_map(|check| &check.violations) {
            text += &format!("\n{property}\n");
            for line in trace.lines() {
                text += &format!("  {line}\n");
            }
        }
        text
    }

    fn holds(&self, explored: &Vec<Explored>) -> bool {
        explored.iter().all(|explored| explored.violations.is_empty())
    }
}
