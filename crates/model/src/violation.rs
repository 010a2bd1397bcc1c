//! What a search finds.

use serde::Serialize;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// Its name.
    pub property: &'static str,
    /// How many schedules break it, if they were random.
    pub schedules: Option<u64>,
    /// The number of the first of them; with the seed it decides the run.
    pub schedule: Option<u64>,
    /// For each round and node, whose messages it loses, after all was delivered that need not be lost.
    pub losses: Vec<Vec<u8>>,
    /// That run, round by round.
    pub trace: String,
}
