//! Operations of clients on one key, and their answers.

use std::fmt;

use serde::Serialize;

/// A version of a key. Every mutation that takes effect gives its key a version greater than all
/// earlier ones; 0 stands for "absent".
pub type Version = u64;

/// A 64-bit fingerprint of a stored value. Recorders should give different writes different fingerprints; the
/// verdict is also correct if some are equal.
pub type ValueId = u64;

/// One operation as its client observed it. Times are nanoseconds on one clock for all clients of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The client that called. A client may have several operations in flight.
    pub client: u32,
    /// The key, at most [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) bytes.
    pub key: &'a [u8],
    /// Time of the invocation in nanoseconds.
    pub invoked_ns: u64,
    /// The request.
    pub action: Action,
    /// The answer. `None` if none was received: then the operation may have taken effect at any time after its
    /// invocation, or never.
    pub reply: Option<Reply>,
}

/// An answer that a client received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Time at which the answer reached the client, in nanoseconds; not before the invocation.
    pub returned_ns: u64,
    /// The answer.
    pub outcome: Outcome,
}

/// A request for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Read the value.
    Get,
    /// Store a value, whatever the key holds.
    Put {
        /// The value to store.
        value: ValueId,
    },
    /// Remove the value.
    Delete,
    /// Store a value if the key's version is `expected`.
    CompareAndSet {
        /// The version that must be current; 0 means that the key must be absent.
        expected: Version,
        /// The value to store.
        value: ValueId,
    },
    /// Remove the value if the key's version is `expected`.
    CompareAndDelete {
        /// The version that must be current; not 0.
        expected: Version,
    },
}

impl Action {
    /// Whether the action removes the value when it takes effect.
    pub const fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::CompareAndDelete { .. })
    }
}

/// An answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A get found a value.
    Found {
        /// The version at which the value was written.
        version: Version,
        /// The value that the client received.
        value: ValueId,
    },
    /// A get or a delete found the key absent.
    NotFound,
    /// A put or a compare-and-set took effect.
    Written {
        /// The version that the write was given.
        version: Version,
    },
    /// A delete or a compare-and-delete removed a value.
    Deleted {
        /// The version that the deletion was given.
        version: Version,
    },
    /// A compare-and-set or compare-and-delete found another version than it expected, and changed nothing.
    Mismatch {
        /// The version that was current; 0 when the key was absent.
        version: Version,
    },
    /// The operation had no effect and read nothing, so the checker ignores it.
    Refused,
}

impl Outcome {
    /// Whether the outcome shows that the key was changed.
    pub(crate) fn took_effect(self) -> bool {
        matches!(self, Self::Written { .. } | Self::Deleted { .. })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => write!(f, "get"),
            Self::Put { value } => write!(f, "put value {value:#x}"),
            Self::Delete => write!(f, "delete"),
            Self::CompareAndSet { expected: 0, value } => {
                write!(f, "compare-and-set absent, value {value:#x}")
            }
            Self::CompareAndSet { expected, value } => {
                write!(f, "compare-and-set version {expected}, value {value:#x}")
            }
            Self::CompareAndDelete { expected } => write!(f, "compare-and-delete version {expected}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { version, value } => write!(f, "found version {version}, value {value:#x}"),
            Self::NotFound => write!(f, "not found"),
            Self::Written { version } => write!(f, "written as version {version}"),
            Self::Deleted { version } => write!(f, "deleted as version {version}"),
            Self::Mismatch { version: 0 } => write!(f, "mismatch, absent"),
            Self::Mismatch { version } => write!(f, "mismatch, version {version}"),
            Self::Refused => write!(f, "refused"),
        }
    }
}

/// The form of an operation of one key that the search uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Index of the operation in the history.
    pub(crate) index: u32,
    pub(crate) client: u32,
    pub(crate) invoked: u64,
    /// [`NEVER`] if the outcome is unknown.
    pub(crate) returned: u64,
    pub(crate) action: Action,
    /// `None`: the operation may have taken effect at any time after the invocation, or never.
    pub(crate) outcome: Option<Outcome>,
}

/// The return time of an operation whose return was not observed.
pub(crate) const NEVER: u64 = u64::MAX;

impl Call {
    /// The version that was current just before this operation took effect, if its outcome shows it.
    pub(crate) fn observed_version(&self) -> Option<Version> {
        match (self.action, self.outcome?) {
            (_, Outcome::Found { version, .. }) => Some(version),
            (_, Outcome::Mismatch { version }) if version != 0 => Some(version),
            (Action::CompareAndSet { expected, .. }, Outcome::Written { .. }) if expected != 0 => {
                Some(expected)
            }
            (Action::CompareAndDelete { expected }, Outcome::Deleted { .. }) => Some(expected),
            _ => None,
        }
    }

    /// The version that this operation is known to have given its key.
    pub(crate) fn produced_version(&self) -> Option<Version> {
        match self.outcome? {
            Outcome::Written { version } | Outcome::Deleted { version } => Some(version),
            _ => None,
        }
    }

    /// The greatest version that the outcome names.
    pub(crate) fn greatest_version(&self) -> Option<Version> {
        self.produced_version().or(self.observed_version())
    }

    /// The version that a compare-and-set or compare-and-delete replaced; 0 if the key was absent.
    pub(crate) fn replaced_version(&self) -> Option<Version> {
        match (self.action, self.outcome) {
            (Action::CompareAndSet { expected, .. }, Some(Outcome::Written { .. })) => Some(expected),
            (Action::CompareAndDelete { expected }, Some(Outcome::Deleted { .. })) => Some(expected),
            _ => None,
        }
    }

    /// Whether the outcome shows that the key was absent just before this operation took effect.
    pub(crate) fn observed_absence(&self) -> bool {
        matches!(
            (self.action, self.outcome),
            (_, Some(Outcome::NotFound | Outcome::Mismatch { version: 0 }))
                | (Action::CompareAndSet { expected: 0, .. }, Some(Outcome::Written { .. }))
        )
    }

    /// Whether this operation returned before `other` was invoked. Operations with equal times overlap, because
    /// the clock cannot tell which was first.
    pub(crate) fn precedes(&self, other: &Call) -> bool {
        self.returned < other.invoked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_or_deleted_took_effect() {
        for outcome in [Outcome::Written { version: 1 }, Outcome::Deleted { version: 1 }] {
            assert!(outcome.took_effect(), "{outcome:?}");
        }
        let found = Outcome::Found { version: 1, value: 2 };
        for outcome in [found, Outcome::NotFound, Outcome::Mismatch { version: 1 }, Outcome::Refused] {
            assert!(!outcome.took_effect(), "{outcome:?}");
        }
    }
}
