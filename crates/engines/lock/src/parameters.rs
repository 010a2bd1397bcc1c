//! Sizes and times of the engine.

use weft_time::Duration;

/// The shortest time to live of a lock.
pub const TTL_MIN: Duration = Duration::from_us(100);
/// The longest time to live of a lock.
pub const TTL_MAX: Duration = Duration::from_secs(3_600);

/// Sizes and times of the engine; all nodes have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Maximum number of locks held at a time, at least 1.
    pub locks: usize,
    /// Window of the stream: maximum number of entries sent beyond the last one that a member has accepted,
    /// at least 1.
    pub window: usize,
    /// Maximum number of answers that wait for entries to be accepted.
    pub waiting: usize,
    /// Time after which an entry that a member has not accepted is retransmitted.
    pub retransmit: Duration,
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            locks: 1_024,
            window: 64,
            waiting: 1_024,
            retransmit: Duration::from_us(100),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

/// A known bug.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// The leader answers before the members have accepted the entry.
    AnswerBeforeAccepted,
    /// A new leader gives no time to live to locks that its predecessor has granted.
    NoTimeAfterTakeover,
    /// A new leader serves before all members have entered its epoch.
    ServeBeforeEntered,
    /// A leader serves without a lease.
    LeaseIgnored,
    /// A client counts the time to live from the answer, not from its request.
    TtlFromAnswer,
}

#[cfg(feature = "planted-bugs")]
impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 5] = [
        Self::AnswerBeforeAccepted,
        Self::NoTimeAfterTakeover,
        Self::ServeBeforeEntered,
        Self::LeaseIgnored,
        Self::TtlFromAnswer,
    ];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnswerBeforeAccepted => "answer-before-accepted",
            Self::NoTimeAfterTakeover => "no-time-after-takeover",
            Self::ServeBeforeEntered => "serve-before-entered",
            Self::LeaseIgnored => "lease-ignored",
            Self::TtlFromAnswer => "ttl-from-answer",
        }
    }
}
