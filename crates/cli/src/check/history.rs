//! `weft check history`: recorded histories are linearizable, or strictly serializable.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_check::lines::{self, Run};
use weft_check::{Report, Verdict, serializable};
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
    report: RunReport,
}

/// The report of the checker that fits the history.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RunReport {
    KeyValue(Report),
    Transactions(serializable::Report),
}

impl Checked {
    fn new(run: &Run) -> Self {
        let (seed, report) = match run {
            Run::KeyValue(run) => (run.seed, RunReport::KeyValue(run.check())),
            Run::Transactions(run) => (run.seed, RunReport::Transactions(run.check())),
        };
        Self { seed, checked: report.checked(), report }
    }
}

impl RunReport {
    fn checked(&self) -> &'static str {
        match self {
            Self::KeyValue(report) => report.checked(),
            Self::Transactions(report) => report.checked(),
        }
    }

    fn holds(&self) -> bool {
        match self {
            Self::KeyValue(report) => report.verdict == Verdict::Linearizable,
            Self::Transactions(report) => !report.is_violated(),
        }
    }

    fn violations(&self) -> Vec<String> {
        match self {
            Self::KeyValue(report) => report.violations.iter().map(ToString::to_string).collect(),
            Self::Transactions(report) => report.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The table of the runs of one kind, or nothing if there are none: the columns between seed and verdict are the
/// figures that `figures` returns.
fn table<const N: usize>(
    found: &[Checked],
    columns: [&'static str; N],
    figures: impl Fn(&RunReport) -> Option<[u64; N]>,
) -> String {
    let numbers = ["seed"].into_iter().chain(columns).map(|name| Column::numbers(name, ""));
    let mut table = Table::new(numbers.chain([Column::words("checked")]).collect::<Vec<_>>());
    let mut rows = 0;
    for Checked { seed, checked, report } in found {
        let Some(figures) = figures(report) else { continue };
        let seed = seed.map_or_else(|| "-".to_owned(), grouped);
        table.row([seed].into_iter().chain(figures.map(grouped)).chain([(*checked).to_owned()]));
        rows += 1;
    }
    if rows == 0 { String::new() } else { format!("{table}\n") }
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
        let stores =
            table(found, ["operations", "keys", "keys in violation", "lost writes"], |report| match report {
                RunReport::KeyValue(report) => Some([
                    report.operations,
                    report.keys,
                    report.keys_in_violation,
                    report.lost_acknowledged_writes,
                ]),
                RunReport::Transactions(_) => None,
            });
        let transactions = table(
            found,
            ["transactions", "keys", "wrong reads", "versions written twice", "cycles"],
            |report| match report {
                RunReport::Transactions(report) => Some([
                    report.transactions,
                    report.keys,
                    report.wrong_reads,
                    report.doubled_versions,
                    report.cycles,
                ]),
                RunReport::KeyValue(_) => None,
            },
        );
        let violations = found.iter().flat_map(|run| run.report.violations());
        violations.fold(stores + &transactions, |text, violation| text + &format!("\n{violation}\n"))
    }

    fn holds(&self, found: &Vec<Checked>) -> bool {
        found.iter().all(|run| run.report.holds())
    }
}
