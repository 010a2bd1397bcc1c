//! The sizes and intervals of a group.

use weft_time::Duration;

use crate::slot;

/// The most replicas of a group: a set of them is one byte in gateware.
pub const NODES_MAX: usize = 8;

/// The most bytes of a slot.
pub(crate) const SLOT_BYTES_MAX: usize = 4_096;

/// How a follower detects that the leader has written to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The follower polls its log.
    Polling,
    /// Each WRITE into the log also calls the follower's engine (RPC write-through). The latest slots are kept on
    /// chip, so that reading them costs no access to memory.
    WriteThrough,
}

/// Sizes and intervals of a group. All replicas use the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Replicas, 1 to 8. A majority of them decides.
    pub nodes: usize,
    /// Slots of the log's ring: a multiple of the window, at least 4 windows.
    pub slots: u64,
    /// Bytes of a slot: a multiple of 64, 64 to 4,096.
    pub slot_bytes: usize,
    /// Entries that a leader may have undecided, 1 to 16.
    pub window: u64,
    /// Room for a copy of the embedder's state, in bytes: a multiple of 64.
    pub snapshot_bytes: usize,
    /// How followers detect new entries.
    pub delivery: Delivery,
    /// Time until an unanswered request for permission is repeated.
    pub retry: Duration,
    /// Time after which a leader or a candidate pauses: a leader that decides nothing although entries are
    /// undecided, or a candidate that has not become leader. It pauses for eight times as long and reports that it
    /// cannot lead, so that the next replica leads (fate-sharing).
    pub patience: Duration,
    /// A deliberate bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

impl Default for Parameters {
    /// Three replicas, 256 slots of 128 bytes.
    fn default() -> Self {
        Self {
            nodes: 3,
            slots: 256,
            slot_bytes: 128,
            window: 16,
            snapshot_bytes: 4_096,
            delivery: Delivery::WriteThrough,
            retry: Duration::from_us(10),
            patience: Duration::from_us(200),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

impl Parameters {
    /// Checks that a group can run with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), ParametersError> {
        let require = |holds, what| if holds { Ok(()) } else { Err(ParametersError(what)) };
        require((1..=NODES_MAX).contains(&self.nodes), "nodes must be 1 to 8")?;
        require((1..=16).contains(&self.window), "window must be 1 to 16")?;
        require(
            self.slots.is_multiple_of(self.window) && self.slots >= 4 * self.window && self.slots <= 1 << 20,
            "slots must be a multiple of the window, from 4 windows to 2^20",
        )?;
        require(
            self.slot_bytes.is_multiple_of(64) && (64..=SLOT_BYTES_MAX).contains(&self.slot_bytes),
            "slot_bytes must be a multiple of 64 from 64 to 4096",
        )?;
        require(
            self.snapshot_bytes.is_multiple_of(64) && self.snapshot_bytes <= 1 << 30,
            "snapshot_bytes must be a multiple of 64 up to 2^30",
        )?;
        require(self.retry > Duration::ZERO, "retry must not be zero")
    }

    /// The most bytes of an entry.
    pub fn entry_bytes(&self) -> usize {
        self.slot_bytes - slot::OVERHEAD
    }

    /// Number of replicas that decide an entry.
    pub fn majority(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// The most work requests that a group has outstanding on one queue pair.
    pub const fn posts_max(&self) -> usize {
        4 * self.window as usize + 16
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn planted(&self, bug: PlantedBug) -> bool {
        self.planted_bug == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    pub(crate) fn planted(&self, _: PlantedBug) -> bool {
        false
    }
}

/// The member of [`Parameters`] that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParametersError(&'static str);

/// Deliberate bugs of state-machine replication. With the feature `planted-bugs` a group can run with one of them,
/// which shows that a checker would detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// An entry counts as decided, and is answered, when one follower has it.
    ReplyBeforeQuorum,
    /// A follower applies the entries in its log, decided or not.
    ApplyUndecided,
    /// A slot is reused without zeroing its old content.
    SlotNotZeroed,
    /// A new leader adopts the first entry that it finds for a slot instead of that of the highest proposal.
    HighestProposalIgnored,
    /// A replica grants access to a new leader without revoking that of the former one.
    GrantWithoutRevoke,
    /// A replica that has lost its memory takes part in decisions at once.
    AmnesiacCounts,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 6] = [
        Self::ReplyBeforeQuorum,
        Self::ApplyUndecided,
        Self::SlotNotZeroed,
        Self::HighestProposalIgnored,
        Self::GrantWithoutRevoke,
        Self::AmnesiacCounts,
    ];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReplyBeforeQuorum => "reply-before-quorum",
            Self::ApplyUndecided => "apply-undecided",
            Self::SlotNotZeroed => "slot-not-zeroed",
            Self::HighestProposalIgnored => "highest-proposal-ignored",
            Self::GrantWithoutRevoke => "grant-without-revoke",
            Self::AmnesiacCounts => "amnesiac-counts",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_named() {
        Parameters::default().check().unwrap();
        let default = Parameters::default;
        for (name, parameters) in [
            ("nodes", Parameters { nodes: 0, ..default() }),
            ("nodes", Parameters { nodes: 9, ..default() }),
            ("window", Parameters { window: 0, ..default() }),
            ("window", Parameters { window: 17, ..default() }),
            ("slots", Parameters { slots: 72, ..default() }),
            ("slots", Parameters { slots: 48, ..default() }),
            ("slots", Parameters { slots: 1 << 21, ..default() }),
            ("slot_bytes", Parameters { slot_bytes: 0, ..default() }),
            ("slot_bytes", Parameters { slot_bytes: 100, ..default() }),
            ("slot_bytes", Parameters { slot_bytes: 4_160, ..default() }),
            ("snapshot_bytes", Parameters { snapshot_bytes: 100, ..default() }),
            ("snapshot_bytes", Parameters { snapshot_bytes: (1 << 30) + 64, ..default() }),
            ("retry", Parameters { retry: Duration::ZERO, ..default() }),
        ] {
            let error = parameters.check().unwrap_err().to_string();
            assert!(error.contains(&format!("{name} must")), "{error}");
        }
    }
}
