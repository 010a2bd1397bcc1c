//! A violation that a search finds.

use serde::Serialize;

/// A violated property.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// Name of the property.
    pub property: &'static str,
    /// Number of schedules that violate it, if they were random.
    pub schedules: Option<u64>,
    /// Number of the first of these schedules; together with the seed it determines the run.
    pub schedule: Option<u64>,
    /// For each round and node, the senders whose messages it loses, after all unnecessary losses were removed.
    pub losses: Vec<Vec<u8>>,
    /// The minimised run as text, round by round.
    pub trace: String,
}
