//! Violations of a run of a replicated object.

use std::fmt;

use serde::Serialize;

/// Rules of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Replicas that run to the end have taken in the same calls and are in the same state.
    Convergence,
    /// The invariant holds after every step of every replica.
    Invariant,
    /// A call is permissible wherever it takes effect.
    Permissible,
    /// A call that was answered takes effect at every replica that runs to the end; one that was not, at all of them
    /// or at none.
    Lost,
    /// A call takes effect at a replica once.
    Doubled,
    /// A call that takes effect was made, as its client made it, and was not refused.
    Invented,
    /// Calls of a group take effect everywhere in one order; calls of one client of one other method as they were made.
    Order,
    /// A call that was answered before another of its group was made is before it in the group's order.
    RealTime,
    /// A call takes effect only where the calls that it depends on have.
    Dependency,
    /// The answer of a query is that of a state that its replica was in while the query was open.
    Answer,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 10] = [
        Self::Convergence,
        Self::Invariant,
        Self::Permissible,
        Self::Lost,
        Self::Doubled,
        Self::Invented,
        Self::Order,
        Self::RealTime,
        Self::Dependency,
        Self::Answer,
    ];

    /// Name of the rule.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Convergence => "convergence",
            Self::Invariant => "invariant",
            Self::Permissible => "permissible",
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Invented => "invented",
            Self::Order => "order",
            Self::RealTime => "real_time",
            Self::Dependency => "dependency",
            Self::Answer => "answer",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Description in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Violations that are described; all are counted.
const DESCRIBED_MAX: usize = 8;

/// The violations of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) described: Vec<Violation>,
    pub(super) counts: [u64; Rule::ALL.len()],
}

impl Findings {
    /// Notes a violation; it is put into words only if it is one of the first.
    pub(super) fn add(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        self.counts[rule as usize] += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(Violation { rule, what: what() });
        }
    }
}
