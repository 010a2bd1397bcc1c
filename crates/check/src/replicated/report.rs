//! Results of a check.

use std::collections::BTreeMap;

use serde::Serialize;

use super::violation::{Findings, Rule, Violation};

/// Counts of the checked events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) refused: u64,
    pub(super) open: u64,
    pub(super) queries: u64,
    pub(super) applications: u64,
}

/// Results of a check of a replicated object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicatedReport {
    /// Number of calls of methods.
    pub calls: u64,
    /// Of these, calls that were refused.
    pub refused: u64,
    /// Of these, calls without an answer at the end.
    pub unanswered: u64,
    /// Number of queries, which change no state.
    pub queries: u64,
    /// Number of times that a call took effect at a replica: at each of these steps, state and invariant were
    /// checked.
    pub steps: u64,
    /// `holds`, or `violation`.
    pub verdict: &'static str,
    /// Number of violations by rule; rules without violations are left out.
    pub broken: BTreeMap<Rule, u64>,
    /// The violations, at most the first 8.
    pub violations: Vec<Violation>,
}

impl ReplicatedReport {
    pub(super) fn new(tally: &Tally, findings: &Findings) -> Self {
        let counts = Rule::ALL.into_iter().zip(findings.counts);
        let broken: BTreeMap<Rule, u64> = counts.filter(|(_, count)| *count > 0).collect();
        Self {
            calls: tally.calls,
            refused: tally.refused,
            unanswered: tally.open,
            queries: tally.queries,
            steps: tally.applications,
            verdict: if broken.is_empty() { "holds" } else { "violation" },
            broken,
            violations: findings.described.clone(),
        }
    }

    /// Number of violations of a rule.
    pub fn count(&self, rule: Rule) -> u64 {
        self.broken.get(&rule).copied().unwrap_or(0)
    }

    /// Whether no rule was violated.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}
