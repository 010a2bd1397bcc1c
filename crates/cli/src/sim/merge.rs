//! `weft sim merge`: combines the results of a campaign's slices into one result.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use weft_results::merge::merge;
use weft_results::table::{Column, Table, grouped};

use crate::failure::Failure;
use crate::task::Task;

/// Help text: what the command reads, and why it has no `--quick`.
const METHOD: &str = "\
Reads the results and adds them up; it runs nothing, so there is no --quick. All slices of one campaign must be there, \
each once.";

/// Results to merge.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = METHOD)]
pub(crate) struct Merge {
    /// Results of all slices (`weft sim ... --slice I/N --json FILE`), in any order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Task for Merge {
    type Found = Value;

    const KIND: &'static str = "sim merge";
    const IS_QUICK: bool = false;

    fn work(&self) -> Result<Value, Failure> {
        let read = |path: &PathBuf| {
            let text = fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
            serde_json::from_str(&text).map_err(|error| Failure::at(path, error))
        };
        let results: Result<Vec<Value>, Failure> = self.files.iter().map(read).collect();
        merge(results?).map_err(|error| Failure::new(error.to_string()))
    }

    fn to_text(&self, found: &Value) -> String {
        let number = |name: &str| found[name].as_u64().unwrap_or_default();
        let word = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        let mut table = Table::new([
            Column::numbers("first seed", ""),
            Column::numbers("runs", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            number("seed").to_string(),
            grouped(number("seeds_run")),
            grouped(number("violations_found")),
            word("checked"),
        ]);
        let mut text = format!("{table}\n  log hash    {}\n", word("log_hash"));
        for violation in found["violations"].as_array().into_iter().flatten() {
            let word = |name: &str| violation[name].as_str().unwrap_or_default();
            text +=
                &format!("\nseed {}: {}\n  repeat  {}\n", violation["seed"], word("what"), word("replay"));
        }
        text
    }

    fn holds(&self, found: &Value) -> bool {
        found["violations_found"] == 0
    }
}
