//! The sequential specification of one key: a versioned register.
//!
//! The register is absent or holds a value at a version. A put is given a version greater than every earlier version
//! of the key. A delete of a present value is given one as well; a delete of an absent key answers "not found". A
//! compare-and-set succeeds exactly when its expected version is current (0: absent), and so does a
//! compare-and-delete, which expects no absence. The specification says that versions grow, not by how much, so an
//! operation whose reply was lost has an unknown version: a [`State`] stands for the *set* of registers that the
//! operations so far allow.

use crate::operation::{Action, Outcome, ValueId, Version};

/// The registers that are possible after some operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Any register at all: nothing is known of the time before the first operation.
    Anything,
    /// Absent; every earlier version is at most some number that is at least `highest`. Only "greater
    /// than" is ever asked of that number, so its least possible value stands for all.
    Absent { highest: Version },
    /// Present at `version` if `exact`, else at any version from `version` upwards. `value` is `None`
    /// while only the version was seen.
    Present { version: Version, exact: bool, value: Option<ValueId> },
}

impl State {
    /// The register of a key that nobody has touched.
    pub(crate) const EMPTY: Self = Self::Absent { highest: 0 };

    /// The least version that the latest mutation can have been given.
    pub(crate) fn least_version(self) -> Version {
        match self {
            Self::Anything => 0,
            Self::Absent { highest } => highest,
            Self::Present { version, .. } => version,
        }
    }

    /// Registers after `action` with the answer `outcome`; `None` if there is none.
    pub(crate) fn after(self, action: Action, outcome: Outcome) -> Option<Self> {
        match (action, outcome) {
            (Action::Get, Outcome::Found { version, value }) => match self.standing_at(version)? {
                Some(other) if other != value => None,
                _ => Some(Self::exactly(version, Some(value))),
            },
            (Action::Get | Action::Delete, Outcome::NotFound) => self.absent(),
            (Action::Put { value }, Outcome::Written { version }) => {
                (version > self.least_version()).then_some(Self::exactly(version, Some(value)))
            }
            (Action::Delete, Outcome::Deleted { version }) => {
                (version >= self.deleted()?).then_some(Self::Absent { highest: version })
            }
            (Action::CompareAndSet { expected, value }, Outcome::Written { version }) => {
                let greater = match expected {
                    0 => version > self.absent()?.least_version(),
                    _ => self.standing_at(expected).map(|_| version > expected)?,
                };
                greater.then_some(Self::exactly(version, Some(value)))
            }
            (Action::CompareAndDelete { expected }, Outcome::Deleted { version }) => {
                self.standing_at(expected).filter(|_| version > expected)?;
                Some(Self::Absent { highest: version })
            }
            (
                Action::CompareAndSet { expected, .. } | Action::CompareAndDelete { expected },
                Outcome::Mismatch { version },
            ) if version != expected => match version {
                0 => self.absent(),
                _ => self.standing_at(version).map(|value| Self::exactly(version, value)),
            },
            _ => None,
        }
    }

    /// The registers after `action` has changed the key and its version was not reported; `None` if it
    /// cannot change it.
    pub(crate) fn after_unreported(self, action: Action) -> Option<Self> {
        let present = |least: Option<Version>, value| {
            least.map(|version| Self::Present { version, exact: false, value: Some(value) })
        };
        match action {
            Action::Get => None,
            Action::Put { value } => present(self.least_version().checked_add(1), value),
            Action::Delete => self.deleted().map(|highest| Self::Absent { highest }),
            Action::CompareAndSet { expected: 0, value } => {
                present(self.absent()?.least_version().checked_add(1), value)
            }
            Action::CompareAndSet { expected, value } => {
                self.standing_at(expected)?;
                present(expected.checked_add(1), value)
            }
            Action::CompareAndDelete { expected } => {
                self.standing_at(expected)?;
                expected.checked_add(1).map(|highest| Self::Absent { highest })
            }
        }
    }

    fn exactly(version: Version, value: Option<ValueId>) -> Self {
        Self::Present { version, exact: true, value }
    }

    /// Value, as far as it is known, of the register that is present at `at`; `None` if none is.
    fn standing_at(self, at: Version) -> Option<Option<ValueId>> {
        match self {
            Self::Anything => (at > 0).then_some(None),
            Self::Absent { .. } => None,
            Self::Present { version, exact: true, value } => (at == version).then_some(value),
            Self::Present { version, exact: false, value } => (at >= version).then_some(value),
        }
    }

    fn absent(self) -> Option<Self> {
        match self {
            Self::Anything => Some(Self::EMPTY),
            Self::Absent { .. } => Some(self),
            Self::Present { .. } => None,
        }
    }

    /// The least version that deleting a present value can be given.
    fn deleted(self) -> Option<Version> {
        match self {
            // A present value has at least version 1.
            Self::Anything => Some(2),
            Self::Absent { .. } => None,
            Self::Present { version, .. } => version.checked_add(1),
        }
    }
}

/// Whether any register at all lets `action` answer `outcome`.
pub(crate) fn possible(action: Action, outcome: Outcome) -> bool {
    State::Anything.after(action, outcome).is_some()
}
