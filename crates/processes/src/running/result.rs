//! Results of a load on all engines.

use serde::Serialize;
use weft_check::lines;
use weft_results::table::{Table, grouped, three_digits};

use super::{ClusterLoad, Count};

/// Maximum number of findings of one engine that are described.
const FINDINGS_SHOWN: usize = 8;

/// Calls of one engine, and the findings about its answers.
#[derive(Clone, Debug, Serialize)]
pub struct EngineResult {
    /// `kv`, `transactions`, `rounds`, or the name of an object or a log.
    pub engine: String,
    /// Calls that were answered.
    pub acknowledged: u64,
    /// Calls that had no effect.
    pub refused: u64,
    /// Calls with an unknown outcome.
    pub unknown: u64,
    /// The longest time between two acknowledged calls that change something, in nanoseconds.
    pub longest_pause_ns: u64,
    /// Property that holds of the answers, or `violation`.
    pub checked: &'static str,
    /// Violations.
    pub findings: Vec<String>,
    /// The history, of an engine with keys that are registers.
    #[serde(skip)]
    pub history: Option<lines::Run>,
}

impl EngineResult {
    pub(super) fn new(
        engine: impl Into<String>,
        count: Count,
        holds: &'static str,
        mut findings: Vec<String>,
    ) -> Self {
        let more = findings.len().saturating_sub(FINDINGS_SHOWN);
        if more > 0 {
            findings.truncate(FINDINGS_SHOWN);
            findings.push(format!("and {more} more"));
        }
        let checked = if findings.is_empty() { holds } else { "violation" };
        let Count { acknowledged, refused, unknown } = count;
        Self {
            engine: engine.into(),
            acknowledged,
            refused,
            unknown,
            longest_pause_ns: 0,
            checked,
            findings,
            history: None,
        }
    }
}

/// Results of a load.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterResult {
    format: &'static str,
    /// The command that repeats the run.
    pub command: String,
    /// Duration of the run and its checks.
    pub seconds: f64,
    /// Number of clients, each of which called every engine.
    pub clients: u32,
    /// Results of each engine.
    pub engines: Vec<EngineResult>,
}

impl ClusterResult {
    pub(super) fn new(command: String, ns: u64, load: &ClusterLoad, engines: Vec<EngineResult>) -> Self {
        Self { format: "weft-cluster-1", command, seconds: ns as f64 / 1e9, clients: load.clients, engines }
    }

    /// Whether no violation was found.
    pub fn holds(&self) -> bool {
        self.engines.iter().all(|engine| engine.findings.is_empty())
    }

    /// The result as text: a table and the violations.
    pub fn to_text(&self) -> String {
        let table = Table::of(&self.engines)
            .words("engine", |engine| engine.engine.clone())
            .numbers("acknowledged", "", |engine| grouped(engine.acknowledged))
            .numbers("no effect", "", |engine| grouped(engine.refused))
            .numbers("unknown", "", |engine| grouped(engine.unknown))
            .numbers("longest pause", "ms", |engine| three_digits(engine.longest_pause_ns as f64 / 1e6))
            .words("checked", |engine| engine.checked);
        let mut text = table.to_string();
        for engine in &self.engines {
            for finding in &engine.findings {
                text += &format!("wrong, {}: {finding}\n", engine.engine);
            }
        }
        text
    }
}
