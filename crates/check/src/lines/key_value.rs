//! Histories of a key-value store.

use serde::{Deserialize, Serialize};

use super::{Body, FORMAT, LineError, parse, push};
use crate::history::{History, RecordError};
use crate::operation::{Action, Operation, Outcome, Reply, ValueId, Version};
use crate::words::hex;
use crate::{Options, Report, Start, check};

pub(super) const KIND: &str = "key-value";

/// The history of one run of a key-value store, and what a checker must know about the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValueRun {
    /// State of each key before the first operation on it.
    pub start: Start,
    /// Seed of the run, if it is one of a campaign's.
    pub seed: Option<u64>,
    /// All operations.
    pub history: History,
}

impl KeyValueRun {
    /// Checks the history, from the state in which the run began.
    pub fn check(&self) -> Report {
        check(&self.history, &Options { start: self.start, ..Options::default() })
    }

    pub(super) fn write(&self, text: &mut String) {
        let header = Header {
            history: KIND.into(),
            format: FORMAT,
            start: self.start,
            seed: self.seed,
            operations: self.history.len(),
        };
        push(text, &header);
        self.history.operations().for_each(|operation| push(text, &Line::from(&operation)));
    }

    pub(super) fn read(header: &str, body: &mut Body<'_>) -> Result<Self, LineError> {
        let Header { start, seed, operations, .. } = body.header(header)?;
        let mut history = History::new();
        body.read(operations, "operation", |text| record(&mut history, text))?;
        Ok(Self { start, seed, history })
    }
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

fn record(history: &mut History, text: &str) -> Result<(), String> {
    let line: Line = parse(text, "an operation")?;
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
            key: hex(operation.key),
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

    use super::super::{Run, read_runs, write_runs};
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
            let start = if is_empty { Start::Empty } else { Start::Unknown };
            KeyValueRun { start, seed, history }.into()
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
    fn errors_name_the_line_and_the_reason() {
        let header = r#"{"history":"key-value","format":1,"start":"empty","operations":1}"#;
        let line =
            |fields: &str| format!("{header}\n{{\"client\":1,\"key\":\"6b\",\"invoked_ns\":5{fields}}}");
        for (text, says) in [
            (String::new(), "line 1: the file is empty"),
            ("nothing".into(), "line 1: not the header of a history: expected ident"),
            (
                header.replace(":1,\"start", ":2,\"start"),
                "line 1: a `key-value` history in format 2; this version reads `key-value` and `transactions` in format 1",
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
                "line 2: a key of 200 bytes: a history stores at most 72",
            ),
        ] {
            assert_eq!(read_runs(&text).unwrap_err().to_string(), says);
        }
    }
}
