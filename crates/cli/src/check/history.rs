//! `weft check history`: the linearizability of recorded histories.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_check::{Report, Verdict, lines};
use weft_results::table::{Column, Table, grouped};

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::task::Task;

/// The file of histories.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryCheck {
    /// File that --history of another command has written; its layout is in docs/verification.md
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Verdict on the history of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    /// Seed of the run, if it is one of a campaign's.
    seed: Option<u64>,
    /// The verdict, under the key that all results have.
    checked: &'static str,
    #[serde(flatten)]
    report: Report,
}

impl Checked {
    fn new(run: &lines::Run) -> Self {
        let report = run.check();
        Self { seed: run.seed, checked: report.checked(), report }
    }
}

impl Task for HistoryCheck {
    type Found = Vec<Checked>;

    const KIND: &'static str = "check history";
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Vec<Checked>, Failure> {
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::at(&self.file, format_args!("cannot be read: {error}")))?;
        let runs = lines::read_runs(&text).map_err(|error| Failure::at(&self.file, error))?;
        Ok(runs.iter().map(Checked::new).collect())
    }

    fn to_text(&self, found: &Vec<Checked>) -> String {
        let mut table = Table::new([
            Column::numbers("seed", ""),
            Column::numbers("operations", ""),
            Column::numbers("keys", ""),
            Column::numbers("keys in violation", ""),
            Column::numbers("lost writes", ""),
            Column::words("checked"),
        ]);
        for Checked { seed, checked, report } in found {
            table.row([
                seed.map_or_else(|| "-".to_owned(), grouped),
                grouped(report.operations),
                grouped(report.keys),
                grouped(report.keys_in_violation),
                grouped(report.lost_acknowledged_writes),
                (*checked).to_owned(),
            ]);
        }
        let violations = found.iter().flat_map(|run| &run.report.violations);
        violations.fold(format!("{table}\n"), |text, violation| text + &format!("\n{violation}\n"))
    }

    fn holds(&self, found: &Vec<Checked>) -> bool {
        found.iter().all(|run| run.report.verdict == Verdict::Linearizable)
    }
}
