//! `weft check smr`: the replicated log against an adversary.

use clap::Args;
use weft_bench::progress::Progress;
use weft_bench::table::{Column, Table, grouped, three_digits};
use weft_model::smr::{Explored, suite};

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};

/// How thoroughly.
#[derive(Clone, Debug, Args)]
pub(crate) struct SmrArguments {
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

impl SmrArguments {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        output::check_json(self.json.as_ref())?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut explored = Vec::new();
        for exploration in suite() {
            let mut progress = Progress::new("states", 0);
            explored.push(exploration.run(threads, |states| progress.set(states)));
        }
        let json = || {
            let mut json = serde_json::to_string_pretty(&explored).expect("a result has only text keys");
            json.push('\n');
            json
        };
        output::deliver(self.json.as_ref(), json, &to_text(&explored))?;
        let good = explored.iter().all(|explored| explored.violations.is_empty());
        Ok(if good { Verdict::Good } else { Verdict::Violated })
    }
}

fn to_text(explored: &[Explored]) -> String {
    let mut table = Table::new([
        Column::numbers("entries", ""),
        Column::numbers("changes", ""),
        Column::numbers("failures", ""),
        Column::numbers("cuts", ""),
        Column::numbers("retries", ""),
        Column::numbers("states", ""),
        Column::numbers("steps", ""),
        Column::words("verdict"),
        Column::numbers("time", "s"),
    ]);
    for check in explored {
        let budgets = check.budgets;
        let broken: Vec<_> =
            check.violations.iter().map(|(property, _)| format!("{property} broken")).collect();
        table.row([
            budgets.entries.to_string(),
            budgets.changes.to_string(),
            budgets.failures.to_string(),
            budgets.cuts.to_string(),
            budgets.retries.to_string(),
            grouped(check.states),
            grouped(check.transitions),
            if broken.is_empty() { "holds (3)".to_owned() } else { broken.join(", ") },
            three_digits(check.seconds),
        ]);
    }
    let mut text = format!("{table}\n  repeat      weft check smr\n");
    for (property, trace) in explored.iter().flat_map(|check| &check.violations) {
        text += &format!("\n{property}\n");
        for line in trace.lines() {
            text += &format!("  {line}\n");
        }
    }
    text
}
