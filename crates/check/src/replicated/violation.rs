//! Violations of a run of a replicated object.

use std::fmt;

use serde::Serialize;

/// A rule that a run must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Replicas that run to the end have applied the same calls and have the same state.
    Convergence,
    /// The invariant holds after every step of every replica.
    Invariant,
    /// A call is permissible wherever it takes effect.
    Permissible,
    /// An answered call takes effect at every replica that runs to the end; an unanswered one at all of them or at
    /// none.
    Lost,
    /// A call takes effect at most once at a replica.
    Doubled,
    /// A call that takes effect was made by a client, with these arguments, and was not refused.
    Invented,
    /// Calls of a group take effect in the same order everywhere; other calls of one client on one stream in the
    /// order in which they were made.
    Order,
    /// If a call was answered before another one of its group was made, it precedes that one in the group's order.
    RealTime,
    /// A call takes effect only where the calls on which it depends have taken effect.
    Dependency,
    /// The answer to a query is correct for a state that its replica had while the query was open.
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

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule that is violated.
    pub rule: Rule,
    /// Description of the violation.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// Number of violations that are described; all are counted.
const DESCRIBED_MAX: usize = 8;

/// The violations of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) described: Vec<Violation>,
    pub(super) counts: [u64; Rule::ALL.len()],
}

impl Findings {
    /// Records a violation. `what` is called only if the violation is one of the first.
    pub(super) fn add(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        self.counts[rule as usize] += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(Violation { rule, what: what() });
        }
    }
}
