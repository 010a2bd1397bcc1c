//! Results of a check, for programs (serde) and for people (`Display`).

use std::fmt;

use serde::{Serialize, Serializer};

use crate::Start;
use crate::operation::{Action, Call, Outcome};
use crate::words::hex;

/// Verdict on a history, or on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Some order of the operations explains all answers. It was found and verified.
    Linearizable,
    /// No order explains the answers. This is proved.
    Violation,
    /// The search used up its effort without a result, and no violation was found elsewhere.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linearizable => "linearizable",
            Self::Violation => "violation",
            Self::Undecided => "undecided",
        })
    }
}

/// The result of [`check`](crate::check).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The verdict on the whole history: the worst verdict of any key.
    pub verdict: Verdict,
    /// Number of operations in the history, of every kind and outcome.
    pub operations: u64,
    /// Number of distinct keys in the history.
    pub keys: u64,
    /// Number of keys whose operations have no order.
    pub keys_in_violation: u64,
    /// Number of keys for which the search used up its effort.
    pub keys_undecided: u64,
    /// The violations of the first keys in violation, at most
    /// [`Options::violations_shown`](crate::Options::violations_shown).
    pub violations: Vec<Violation>,
    /// See [`lost_acknowledged_writes`](crate::lost_acknowledged_writes).
    pub lost_acknowledged_writes: u64,
}

impl Report {
    /// The verdict as one word: "linearizable", "violation" or "undecided".
    pub fn checked(&self) -> &'static str {
        match self.verdict {
            Verdict::Linearizable => "linearizable",
            Verdict::Violation => "violation",
            Verdict::Undecided => "undecided",
        }
    }
}

/// A key for whose operations no order exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The key; displayed as text if it is printable ASCII, otherwise in hexadecimal.
    #[serde(serialize_with = "serialize_key")]
    pub key: Box<[u8]>,
    /// Explanation in one sentence.
    pub explanation: String,
    /// The smallest part of the history that was found to show the violation.
    pub window: Window,
}

/// A few operations of one key that have no order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The first invocation in the window, in nanoseconds.
    pub from_ns: u64,
    /// The last return or invocation in the window, in nanoseconds.
    pub to_ns: u64,
    /// Possible states of the key when the window begins.
    pub start: Start,
    /// The operations, ordered by invocation.
    pub operations: Vec<WindowOperation>,
}

/// An operation in a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WindowOperation {
    /// Index of the operation in the history.
    pub index: u32,
    /// The client that called.
    pub client: u32,
    /// Time of the invocation in nanoseconds.
    pub invoked_ns: u64,
    /// Time of the return in nanoseconds; `None` if no reply was seen.
    pub returned_ns: Option<u64>,
    /// The request.
    pub action: Action,
    /// The answer.
    pub outcome: Option<Outcome>,
    /// False if the operation extends beyond the window or has no reply: then the proof allows it to take effect
    /// inside the window, at any version, or not at all.
    pub binding: bool,
}

impl Window {
    /// The window of the operations `shown`, each as it is in the history `recorded`. Both lists are ordered by
    /// invocation.
    pub(crate) fn new(shown: &[Call], recorded: &[Call], start: Start) -> Self {
        let find =
            |shown: &Call| *recorded.iter().find(|call| call.index == shown.index).expect("is recorded");
        let operations: Vec<WindowOperation> = shown
            .iter()
            .map(|shown| {
                let call = find(shown);
                WindowOperation {
                    index: call.index,
                    client: call.client,
                    invoked_ns: call.invoked,
                    returned_ns: call.outcome.map(|_| call.returned),
                    action: call.action,
                    outcome: call.outcome,
                    binding: shown.outcome.is_some(),
                }
            })
            .collect();
        let from_ns = operations.iter().map(|operation| operation.invoked_ns).min().unwrap_or(0);
        let to_ns = operations
            .iter()
            .map(|operation| operation.returned_ns.unwrap_or(operation.invoked_ns))
            .max()
            .unwrap_or(0);
        Self { from_ns, to_ns, start, operations }
    }
}

/// Width of the timeline in columns.
const TIMELINE_WIDTH: usize = 56;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key {}: {}", printable(&self.key), self.explanation)?;
        write!(f, "{}", self.window)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = match self.start {
            Start::Empty => "the key is absent",
            Start::Unknown => "the key may hold anything",
        };
        writeln!(f, "window from {} ns to {} ns; before it, {start}", self.from_ns, self.to_ns)?;
        writeln!(f)?;
        let heading = ["client", "invoked (ns)", "returned (ns)", "operation", "outcome"].map(String::from);
        let mut rows = vec![heading];
        rows.extend(self.operations.iter().map(|operation| {
            let outcome = match operation.outcome {
                None => "no reply".into(),
                Some(outcome) if operation.binding => outcome.to_string(),
                Some(outcome) => format!("{outcome} (reaches over the edge)"),
            };
            [
                operation.client.to_string(),
                operation.invoked_ns.to_string(),
                operation.returned_ns.map_or("-".into(), |time| time.to_string()),
                operation.action.to_string(),
                outcome,
            ]
        }));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2), width(3)];
        for [client, invoked, returned, action, outcome] in &rows {
            let [a, b, c, d] = widths;
            writeln!(f, "  {client:>a$}  {invoked:>b$}  {returned:>c$}  {action:<d$}  {outcome}")?;
        }
        writeln!(f)?;
        for operation in &self.operations {
            let label = format!("client {}", operation.client);
            let (left, bar) = self.bar(operation);
            writeln!(f, "  {label:<14}  {:left$}{bar}", "")?;
        }
        Ok(())
    }
}

impl Window {
    /// The indent and the bar of an operation in the timeline.
    fn bar(&self, operation: &WindowOperation) -> (usize, String) {
        let span = u128::from(self.to_ns - self.from_ns).max(1);
        let column =
            |time: u64| (u128::from(time - self.from_ns) * (TIMELINE_WIDTH as u128 - 1) / span) as usize;
        let left = column(operation.invoked_ns);
        match operation.returned_ns {
            None => (left, format!("|{}>", "-".repeat(TIMELINE_WIDTH - left))),
            Some(returned) => match column(returned) - left {
                0 => (left, "|".into()),
                length => (left, format!("|{}|", "-".repeat(length - 1))),
            },
        }
    }
}

fn printable(key: &[u8]) -> String {
    if !key.is_empty() && key.iter().all(u8::is_ascii_graphic) {
        return String::from_utf8_lossy(key).into_owned();
    }
    format!("0x{}", hex(key))
}

fn serialize_key<S: Serializer>(key: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&printable(key))
}
