//! The sequential specification of one key: a versioned register.
//!
//! The register is absent or holds a value at a version. A put gets a version greater than every earlier version
//! of the key. A delete of a present value gets one as well; a delete of an absent key returns "not found". A
//! compare-and-set succeeds exactly if its expected version is current (0: absent), and so does a
//! compare-and-delete, which cannot expect absence. The specification says that versions grow, but not by how
//! much, so an operation whose reply was lost has an unknown version. Therefore a [`State`] is the *set* of
//! registers that the operations so far allow.

use crate::operation::{Action, Outcome, ValueId, Version};

/// The registers that are possible after a sequence of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Any register: nothing is known about the time before the first operation.
    Anything,
    /// Absent. The greatest earlier version is unknown, but at least `highest`. Later versions only have to be
    /// greater than it, so its smallest possible value stands for all.
    Absent { highest: Version },
    /// Present, at `version` if `exact`, otherwise at any version from `version` on. `value` is `None` while only
    /// the version is known.
    Present { version: Version, exact: bool, value: Option<ValueId> },
}

impl State {
    /// The register of a key that was never written.
    pub(crate) const EMPTY: Self = Self::Absent { highest: 0 };

    /// The smallest version that the latest mutation can have got.
    pub(crate) fn least_version(self) -> Version {
        match self {
            Self::Anything => 0,
            Self::Absent { highest } => highest,
            Self::Present { version, .. } => version,
        }
    }

    /// The registers that are possible after `action` was answered with `outcome`; `None` if there are none.
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

    /// The registers that are possible after `action` has changed the key without reporting its version; `None` if
    /// it cannot have changed it.
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

    /// The value at version `at`, as far as it is known; `None` if the register cannot be present at `at`.
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

    /// The smallest version that the deletion of a present value can get.
    fn deleted(self) -> Option<Version> {
        match self {
            // A present value has at least version 1.
            Self::Anything => Some(2),
            Self::Absent { .. } => None,
            Self::Present { version, .. } => version.checked_add(1),
        }
    }
}

/// Whether there is a register that answers `action` with `outcome`.
pub(crate) fn possible(action: Action, outcome: Outcome) -> bool {
    State::Anything.after(action, outcome).is_some()
}
