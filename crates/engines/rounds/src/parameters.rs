//! The sizes and intervals of an engine.

/// Known ways to get consensus wrong. With the feature `planted-bugs` an engine can be told to have one of them, which
/// proves that a checker would see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// A member goes on to accept one that suspects it: suspicion is not mutual.
    SuspicionNotMutual,
    /// A member accepts again one that it had not heard: suspicion does not last.
    SuspicionForgotten,
    /// A member decides as soon as it is locked, without a quorum.
    DecideWhenLocked,
    /// A member locks after the first round whatever it missed.
    LockAtOnce,
    /// A member releases what it believes when a slot leaves the window undecided, instead of fencing itself.
    GuessInsteadOfFence,
    /// A message that comes a round late counts.
    LateMessageCounts,
}

impl PlantedBug {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::SuspicionNotMutual,
        Self::SuspicionForgotten,
        Self::DecideWhenLocked,
        Self::LockAtOnce,
        Self::GuessInsteadOfFence,
        Self::LateMessageCounts,
    ];

    /// Its name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SuspicionNotMutual => "suspicion-not-mutual",
            Self::SuspicionForgotten => "suspicion-forgotten",
            Self::DecideWhenLocked => "decide-when-locked",
            Self::LockAtOnce => "lock-at-once",
            Self::GuessInsteadOfFence => "guess-instead-of-fence",
            Self::LateMessageCounts => "late-message-counts",
        }
    }
}
