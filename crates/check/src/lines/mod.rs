//! Histories as lines of JSON, for other programs to read and for [`read_runs`].
//!
//! A file holds the histories of one or more runs: for each a header, and a line for each operation or transaction. The
//! section "Histories as files" of `docs/verification.md` describes the fields.

mod key_value;
mod transactions;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use key_value::KeyValueRun;
pub use transactions::TransactionsRun;

/// Version of the layout, which each header names.
const FORMAT: u32 = 1;

/// The history of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// Operations of a key-value store.
    KeyValue(KeyValueRun),
    /// Transactions.
    Transactions(TransactionsRun),
}

impl From<KeyValueRun> for Run {
    fn from(run: KeyValueRun) -> Self {
        Self::KeyValue(run)
    }
}

impl From<TransactionsRun> for Run {
    fn from(run: TransactionsRun) -> Self {
        Self::Transactions(run)
    }
}

/// Reason for which a text is not a file of histories.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {reason}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The error.
    pub reason: String,
}

/// The fields that all headers have.
#[derive(Deserialize)]
struct Layout {
    history: String,
    format: u32,
}

/// The lines of a file that have not been read.
struct Body<'a> {
    lines: std::str::Lines<'a>,
    /// Number of the line that was read last, from 1.
    number: usize,
}

impl<'a> Body<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let line = self.lines.next()?;
        self.number += 1;
        Some(line)
    }

    fn at(&self, reason: String) -> LineError {
        LineError { line: self.number, reason }
    }

    /// Parses the header that was read last.
    fn header<T: DeserializeOwned>(&self, text: &str) -> Result<T, LineError> {
        parse(text, "the header of a history").map_err(|reason| self.at(reason))
    }

    /// Calls `record` with each of the next `count` lines, which hold one `item` each.
    fn read(
        &mut self,
        count: usize,
        item: &str,
        mut record: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<(), LineError> {
        for done in 0..count {
            let Some(text) = self.next() else {
                let reason = format!("the file ends after {done} of {count} {item}s");
                return Err(LineError { line: self.number + 1, reason });
            };
            record(text).map_err(|reason| self.at(reason))?;
        }
        Ok(())
    }
}

/// The histories of `runs` as lines of JSON.
pub fn write_runs<'a>(runs: impl IntoIterator<Item = &'a Run>) -> String {
    let mut text = String::new();
    for run in runs {
        match run {
            Run::KeyValue(run) => run.write(&mut text),
            Run::Transactions(run) => run.write(&mut text),
        }
    }
    text
}

/// The runs whose histories `text` holds.
///
/// # Errors
/// A line is no header, operation or transaction, or lines are missing.
pub fn read_runs(text: &str) -> Result<Vec<Run>, LineError> {
    let mut body = Body { lines: text.lines(), number: 0 };
    let mut runs = Vec::new();
    while let Some(text) = body.next() {
        let Layout { history, format } = body.header(text)?;
        runs.push(match (history.as_str(), format) {
            (key_value::KIND, FORMAT) => KeyValueRun::read(text, &mut body)?.into(),
            (transactions::KIND, FORMAT) => TransactionsRun::read(text, &mut body)?.into(),
            _ => {
                return Err(body.at(format!(
                    "a `{}` history in format {format}; this version reads `{}` and `{}` in format {FORMAT}",
                    history.escape_debug(),
                    key_value::KIND,
                    transactions::KIND
                )));
            }
        });
    }
    if runs.is_empty() {
        return Err(LineError { line: 1, reason: "the file is empty".into() });
    }
    Ok(runs)
}

fn push(text: &mut String, line: &impl Serialize) {
    *text += &serde_json::to_string(line).expect("a line has string keys only");
    text.push('\n');
}

/// Parses a line; the error says that the line is not `what`.
fn parse<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        // Each line is parsed alone, so the line and column of the error would mislead.
        let error = error.to_string();
        let reason = error.split_once(" at line ").map_or(error.as_str(), |(reason, _)| reason);
        format!("not {what}: {reason}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serializable::{Access, Fate, TransactionId, TransactionRecord};
    use crate::{Action, History, Operation, Outcome, Reply, Start};

    #[test]
    fn lines_have_the_form_that_is_documented() {
        let mut history = History::new();
        let mut record = |client, invoked_ns, action, reply| {
            history.record(Operation { client, key: b"k", invoked_ns, action, reply }).unwrap();
        };
        let outcome = Outcome::Written { version: 1 };
        record(3, 100, Action::Put { value: 7 }, Some(Reply { returned_ns: 250, outcome }));
        record(4, 120, Action::Get, None);
        let key_value = KeyValueRun { start: Start::Empty, seed: None, history };
        let deposit = TransactionRecord {
            id: TransactionId { coordinator: 0, epoch: 1, sequence: 5 },
            started_ps: 100,
            fate: Fate::Committed { ended_ps: 250 },
            reads: vec![Access::absent(9, 0)],
            writes: vec![Access { key: 9, version: 1, value: 7.try_into().ok() }],
        };
        let transactions = TransactionsRun { initial_version: 0, seed: Some(2), transactions: vec![deposit] };
        let page = include_str!("../../../../docs/verification.md");
        let documented: String =
            page.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
        assert_eq!(write_runs(&[key_value.into(), transactions.into()]), documented);
    }
}
