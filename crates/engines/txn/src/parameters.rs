//! Sizes, times and choices of the engine.

use weft_time::Duration;
use weft_waist::{Capabilities, NODES_MAX};

/// A bug that a test switches on, to see it caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Reads are not validated.
    SkipValidate,
    /// Locks are given back before the writes are logged.
    UnlockBeforeLog,
    /// A commit leaves the former value in the card's cache.
    StaleCache,
    /// A promoted primary serves before its host has applied the log.
    LostLockOnPromotion,
    /// The first replica's answer commits.
    CommitAtFirstLog,
    /// The card does not check that the versions its host has read are current.
    HostVersionUnchecked,
    /// A joining node says that it holds everything before its copy is complete.
    FullBeforeCopied,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 7] = [
        Self::SkipValidate,
        Self::UnlockBeforeLog,
        Self::StaleCache,
        Self::LostLockOnPromotion,
        Self::CommitAtFirstLog,
        Self::HostVersionUnchecked,
        Self::FullBeforeCopied,
    ];

    /// Name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SkipValidate => "skip-validate",
            Self::UnlockBeforeLog => "unlock-before-log",
            Self::StaleCache => "stale-cache",
            Self::LostLockOnPromotion => "lost-lock-on-promotion",
            Self::CommitAtFirstLog => "commit-at-first-log",
            Self::HostVersionUnchecked => "host-version-unchecked",
            Self::FullBeforeCopied => "full-before-copied",
        }
    }
}

/// Enabled optimizations of Xenic (figure 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Procedures run on cards, if they say that they may; else on hosts only (4.2.2).
    pub ship_to_card: bool,
    /// Transactions of one shard, or of the own and one more, run at the other's primary (4.2.3).
    pub multi_hop: bool,
    /// A key that is read and written is read and locked by one request. Else it is read like any other; once the
    /// procedure has run, what it has written is locked by a request of its own, which fails if it is not as it was
    /// read.
    pub combined: bool,
    /// A primary logs like any replica, and END has no values. Else, as in the designs that Weft is compared with,
    /// backups log, the outcome is told, and then the primary gets the values; such an engine does not survive a view
    /// change.
    pub log_at_primary: bool,
    /// How keys that are only read are read and validated at other nodes.
    pub reads: Reads,
    /// Backups are logged to by WRITEs, else by messages.
    pub log_by_write: bool,
    /// Replicas that hold the former value get the difference of a write, where that is shorter than the value.
    pub log_differences: bool,
    /// A coordinator looks first whether its own keys are locked, and gives way before it asks others for theirs.
    /// Those that it only reads it reads last, when it has all that others hold: what is read in the event in which
    /// all is locked need not be validated.
    pub order_own_keys: bool,
    /// Keys at other nodes are locked by ATOMICs, also those that are only read, and committed by WRITEs.
    pub lock_by_atomic: bool,
}

/// How unlocked keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// By messages.
    Messages,
    /// By READs at their addresses, which each coordinator remembers.
    Cached,
    /// By READs of one bucket after the other.
    Traversed,
}

impl Default for Variant {
    fn default() -> Self {
        Self::XENIC
    }
}

impl Variant {
    /// All of Xenic, with the corrections that PROTOCOL.md names.
    pub const XENIC: Self = Self {
        ship_to_card: true,
        multi_hop: true,
        combined: true,
        log_at_primary: true,
        reads: Reads::Messages,
        log_by_write: false,
        log_differences: true,
        order_own_keys: true,
        lock_by_atomic: false,
    };

    /// FaSST (OSDI 2016): messages for everything, values with COMMIT, and each transaction run where it was called.
    /// For an engine on the host.
    pub const FASST: Self = Self {
        multi_hop: false,
        log_at_primary: false,
        log_differences: false,
        order_own_keys: false,
        ..Self::XENIC
    };

    /// DrTM+H (OSDI 2018): READs of all that is read, at remembered addresses; messages that lock what is written, if
    /// it is as it was read; READs that validate the rest; WRITEs that log; messages that commit. For an engine with
    /// [`crate::Placement::Linked`] tables.
    pub const DRTMH: Self = Self { combined: false, reads: Reads::Cached, log_by_write: true, ..Self::FASST };

    /// The same, which remembers no addresses.
    pub const DRTMH_NO_CACHE: Self = Self { reads: Reads::Traversed, ..Self::DRTMH };

    /// DrTM+R (EuroSys 2016): all keys are locked by ATOMICs and READ, and nothing is validated; WRITEs log and commit.
    pub const DRTMR: Self = Self { combined: true, lock_by_atomic: true, ..Self::DRTMH };

    /// Capabilities for its way of reading and logging.
    pub(crate) fn needs(&self) -> Capabilities {
        Capabilities { verbs: self.reads != Reads::Messages || self.log_by_write, ..Capabilities::CORE }
    }
}

/// Parameters of an engine, the same at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Nodes of the founding ring; each is the first replica of a shard.
    pub nodes: usize,
    /// Replicas of each shard, f + 1.
    pub replicas: usize,
    /// Attempts that a node has under way, or that not all nodes know to be decided: a power of two.
    pub window: usize,
    /// Requests of others that a node has under way.
    pub operations: usize,
    /// Bytes of the log, in the card's memory and in the host's: a multiple of [`crate::log::ALIGN`].
    pub log_bytes: usize,
    /// First address of the log in the host's memory.
    pub log_address: u64,
    /// The longest message between engines, in bytes.
    pub message_bytes: usize,
    /// Time until a request is repeated.
    pub repeat: Duration,
    /// Interval at which an engine looks for requests to repeat.
    pub tick: Duration,
    /// Enabled optimizations.
    pub variant: Variant,
    /// Time of a reference core to apply a write to a table that the engine itself holds.
    pub apply: Duration,
    /// Time of a reference core to find out where 1,024 bytes of a value have changed.
    pub compare: Duration,
    /// Whether reads and writes are recorded, for a checker: [`crate::Transactions::take_records`].
    pub record: bool,
    /// The bug that is switched on.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<PlantedBug>,
}

impl Parameters {
    /// Usual sizes for a cluster.
    pub const fn new(nodes: usize, replicas: usize) -> Self {
        Self {
            nodes,
            replicas,
            window: 4096,
            operations: 4096,
            log_bytes: 4 << 20,
            log_address: 0,
            message_bytes: 1408,
            repeat: Duration::from_us(100),
            tick: Duration::from_us(25),
            variant: Variant::XENIC,
            apply: Duration::ZERO,
            compare: Duration::ZERO,
            record: false,
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }

    /// # Panics
    /// If a size cannot be.
    pub(crate) fn check(&self) {
        assert!((1..=NODES_MAX).contains(&self.nodes), "a cluster has 1 to 16 nodes");
        assert!((1..=self.nodes).contains(&self.replicas), "a shard has at most one replica a node");
        assert!(
            self.window.is_power_of_two() && self.window <= 1 << 16,
            "a window is a power of two up to 65,536"
        );
        let shipped = self.variant.multi_hop && !self.variant.log_at_primary;
        assert!(!shipped, "what is shipped is logged at the primary");
        let apart = !self.variant.combined;
        assert!(!apart || !self.variant.multi_hop, "what is shipped is locked as it is read");
        assert!(!apart || !self.variant.lock_by_atomic, "an ATOMIC locks before the READ");
        let whole = self.variant.log_at_primary && !self.variant.log_by_write;
        assert!(whole || !self.variant.log_differences, "a primary keeps and shows whole values");
        assert!(self.operations > 0, "a node serves something");
        assert!(self.log_bytes.is_multiple_of(crate::log::ALIGN), "records are aligned");
        assert!(self.message_bytes >= 1280, "a message holds one value and all keys of a transaction");
        assert!(self.log_bytes >= 4 * self.message_bytes, "the log holds a few records");
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    pub(crate) const fn has(&self, _: PlantedBug) -> bool {
        false
    }
}
