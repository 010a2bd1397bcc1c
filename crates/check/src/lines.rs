//! Histories as lines of JSON, for other programs to read and for [`read_runs`].
//!
//! A file holds the histories of one or more runs: for each a header, and a line for each operation. The section
//! "Histories as files" of `docs/verification.md` describes the fields.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::history::{History, RecordError};
use crate::operation::{Action, Operation, Outcome, Reply, ValueId, Version};
use crate::{Options, Report, Start, check};

const KIND: &str = "key-value";
const FORMAT: u32 = 1;

/// The history of one run, and what a checker must know about the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// State of each key before the first operation on it.
    pub start: Start,
    /// Seed of the run, if it is one of a campaign's.
    pub seed: Option<u64>,
    /// All operations.
    pub history: History,
}

impl Run {
    /// Checks the history, from the state in which the run began.
    pub fn check(&self) -> Report {
        check(&self.history, &Options { start: self.start, ..Options::default() })
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    history: String,
    format: u32,
    start: Start,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    operations: usize,
}

#[derive(Serialize, Deserialize)]
struct Line {
    client: u32,
    key: String,
    invoked_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned_ns: Option<u64>,
    #[serde(flatten)]
    action: LineAction,
    #[serde(flatten)]
    outcome: LineOutcome,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum LineAction {
    Get,
    Put { value: ValueId },
    Delete,
    CompareAndSet { expected: Version, value: ValueId },
    CompareAndDelete { expected: Version },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum LineOutcome {
    Found { version: Version, read: ValueId },
    NotFound,
    Written { version: Version },
    Deleted { version: Version },
    Mismatch { version: Version },
    Refused,
    Unknown,
}

/// The histories of `runs` as lines of JSON.
pub fn write_runs<'a>(runs: impl IntoIterator<Item = &'a Run>) -> String {
    let mut text = String::new();
    for Run { start, seed, history } in runs {
        let header = Header {
            history: KIND.into(),
            format: FORMAT,
            start: *start,
            seed: *seed,
            operations: history.len(),
        };
        push(&mut text, &header);
        for operation in history.operations() {
            push(&mut text, &Line::from(&operation));
        }
    }
    text
}

fn push(text: &mut String, line: &impl Serialize) {
    *text += &serde_json::to_string(line).expect("a line has string keys only");
    text.push('\n');
}

/// The runs whose histories `text` holds.
///
/// # Errors
/// A line is no operation, or lines are missing.
pub fn read_runs(text: &str) -> Result<Vec<Run>, LineError> {
    let mut lines = text.lines().zip(1..);
    let mut runs = Vec::new();
    while let Some((text, line)) = lines.next() {
        let at = |line: usize, reason: String| LineError { line, reason };
        let header: Header = serde_json::from_str(text)
            .map_err(|error| at(line, format!("not the header of a history: {}", without_place(&error))))?;
        if header.history != KIND || header.format != FORMAT {
            let (kind, format) = (header.history, header.format);
            let reason =
                format!("a `{kind}` history in format {format}; this version reads `{KIND}`, {FORMAT}");
            return Err(at(line, reason));
        }
        let mut history = History::new();
        for done in 0..header.operations {
            let Some((text, number)) = lines.next() else {
                let reason = format!("the file ends after {done} of {} operations", header.operations);
                return Err(at(line + done + 1, reason));
            };
            record(&mut history, text).map_err(|reason| at(number, reason))?;
        }
        runs.push(Run { start: header.start, seed: header.seed, history });
    }
    if runs.is_empty() {
        return Err(LineError { line: 1, reason: "the file is empty".into() });
    }
    Ok(runs)
}

fn record(history: &mut History, text: &str) -> Result<(), String> {
    let line: Line =
        serde_json::from_str(text).map_err(|error| format!("not an operation: {}", without_place(&error)))?;
    let key = from_hex(&line.key)
        .ok_or_else(|| format!("the key `{}` is not in hexadecimal", line.key.escape_debug()))?;
    let reply = match (line.outcome.outcome(), line.returned_ns) {
        (Some(outcome), Some(returned_ns)) => Some(Reply { returned_ns, outcome }),
        (None, None) => None,
        (Some(_), None) => return Err("an outcome without `returned_ns`".into()),
        (None, Some(_)) => return Err("`returned_ns` with the outcome `unknown`".into()),
    };
    let action = line.action.into();
    let operation = Operation { client: line.client, key: &key, invoked_ns: line.invoked_ns, action, reply };
    history.record(operation).map_err(|error: RecordError| error.to_string())
}

/// The error without its line and column: each line is parsed alone.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all that is written");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

impl From<&Operation<'_>> for Line {
    fn from(operation: &Operation<'_>) -> Self {
        Self {
            client: operation.client,
            key: to_hex(operation.key),
            invoked_ns: operation.invoked_ns,
            returned_ns: operation.reply.map(|reply| reply.returned_ns),
            action: operation.action.into(),
            outcome: operation.reply.map_or(LineOutcome::Unknown, |reply| reply.outcome.into()),
        }
    }
}

impl From<Action> for LineAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Get => Self::Get,
            Action::Put { value } => Self::Put { value },
            Action::Delete => Self::Delete,
            Action::CompareAndSet { expected, value } => Self::CompareAndSet { expected, value },
            Action::CompareAndDelete { expected } => Self::CompareAndDelete { expected },
        }
    }
}

impl From<LineAction> for Action {
    fn from(action: LineAction) -> Self {
        match action {
            LineAction::Get => Self::Get,
            LineAction::Put { value } => Self::Put { value },
            LineAction::Delete => Self::Delete,
            LineAction::CompareAndSet { expected, value } => Self::CompareAndSet { expected, value },
            LineAction::CompareAndDelete { expected } => Self::CompareAndDelete { expected },
        }
    }
}

impl From<Outcome> for LineOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Found { version, value } => Self::Found { version, read: value },
            Outcome::NotFound => Self::NotFound,
            Outcome::Written { version } => Self::Written { version },
            Outcome::Deleted { version } => Self::Deleted { version },
            Outcome::Mismatch { version } => Self::Mismatch { version },
            Outcome::Refused => Self::Refused,
        }
    }
}

impl LineOutcome {
    /// The outcome, where one is known.
    fn outcome(self) -> Option<Outcome> {
        Some(match self {
            Self::Found { version, read } => Outcome::Found { version, value: read },
            Self::NotFound => Outcome::NotFound,
            Self::Written { version } => Outcome::Written { version },
            Self::Deleted { version } => Outcome::Deleted { version },
            Self::Mismatch { version } => Outcome::Mismatch { version },
            Self::Refused => Outcome::Refused,
            Self::Unknown => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MAX_KEY_BYTES;

    fn action() -> impl Strategy<Value = Action> {
        let number = any::<u64>();
        prop_oneof![
            Just(Action::Get),
            number.prop_map(|value| Action::Put { value }),
            Just(Action::Delete),
            (number, number).prop_map(|(expected, value)| Action::CompareAndSet { expected, value }),
            number.prop_map(|expected| Action::CompareAndDelete { expected }),
        ]
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        let number = any::<u64>();
        prop_oneof![
            (number, number).prop_map(|(version, value)| Outcome::Found { version, value }),
            Just(Outcome::NotFound),
            number.prop_map(|version| Outcome::Written { version }),
            number.prop_map(|version| Outcome::Deleted { version }),
            number.prop_map(|version| Outcome::Mismatch { version }),
            Just(Outcome::Refused),
        ]
    }

    prop_compose! {
        fn run()(
            is_empty in any::<bool>(),
            seed in any::<Option<u64>>(),
            operations in prop::collection::vec(
                (any::<u32>(), prop::collection::vec(any::<u8>(), 0..=MAX_KEY_BYTES), any::<u32>(), action(),
                 prop::option::of((any::<u32>(), outcome()))),
                0..20,
            ),
        ) -> Run {
            let mut history = History::new();
            for (client, key, invoked, action, reply) in operations {
                let invoked_ns = invoked.into();
                let reply = reply
                    .map(|(took, outcome)| Reply { returned_ns: invoked_ns + u64::from(took), outcome });
                history.record(Operation { client, key: &key, invoked_ns, action, reply }).unwrap();
            }
            Run { start: if is_empty { Start::Empty } else { Start::Unknown }, seed, history }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(runs in prop::collection::vec(run(), 1..4)) {
            prop_assert_eq!(read_runs(&write_runs(&runs)), Ok(runs));
        }

        #[test]
        fn a_file_without_its_last_line_is_refused(run in run()) {
            let text = write_runs(&[run]);
            let lines: Vec<_> = text.lines().collect();
            prop_assert!(read_runs(&lines[..lines.len() - 1].join("\n")).is_err());
        }
    }

    #[test]
    fn a_line_has_the_form_that_is_documented() {
        let mut history = History::new();
        let mut record = |client, invoked_ns, action, reply| {
            history.record(Operation { client, key: b"k", invoked_ns, action, reply }).unwrap();
        };
        let outcome = Outcome::Written { version: 1 };
        record(3, 100, Action::Put { value: 7 }, Some(Reply { returned_ns: 250, outcome }));
        record(4, 120, Action::Get, None);
        let text = write_runs(&[Run { start: Start::Empty, seed: None, history }]);
        let page = include_str!("../../../docs/verification.md");
        let documented: String =
            page.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
        assert_eq!(text, documented);
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        let header = r#"{"history":"key-value","format":1,"start":"empty","operations":1}"#;
        let line =
            |fields: &str| format!("{header}\n{{\"client\":1,\"key\":\"6b\",\"invoked_ns\":5{fields}}}");
        for (text, says) in [
            (String::new(), "line 1: the file is empty"),
            ("nothing".into(), "line 1: not the header of a history: expected ident"),
            (
                header.replace(":1,\"start", ":2,\"start"),
                "line 1: a `key-value` history in format 2; this version reads `key-value`, 1",
            ),
            (header.into(), "line 2: the file ends after 0 of 1 operations"),
            (
                line(r#","action":"put","outcome":"unknown""#),
                "line 2: not an operation: missing field `value`",
            ),
            (line(r#","action":"get","outcome":"not_found""#), "line 2: an outcome without `returned_ns`"),
            (
                line(r#","returned_ns":6,"action":"get","outcome":"unknown""#),
                "line 2: `returned_ns` with the outcome `unknown`",
            ),
            (
                line(r#","returned_ns":4,"action":"get","outcome":"not_found""#),
                "line 2: an operation that returned at 4 ns, before it was invoked at 5 ns",
            ),
            (
                line(r#","action":"get","outcome":"unknown""#).replace("6b", "6"),
                "line 2: the key `6` is not in hexadecimal",
            ),
            (
                line(r#","action":"get","outcome":"unknown""#).replace("6b", &"6b".repeat(200)),
                "line 2: a key of 200 bytes: a history stores at most 64",
            ),
        ] {
            assert_eq!(read_runs(&text).unwrap_err().to_string(), says);
        }
    }
}
