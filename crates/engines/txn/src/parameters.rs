//! Parameters of the engine: sizes, times and variants of the protocol.

use weft_time::Duration;
use weft_waist::{Capabilities, NODES_MAX};

/// A bug that a test switches on, to show that a checker finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// Reads are not validated.
    SkipValidate,
    /// Locks are released before the writes are logged.
    UnlockBeforeLog,
    /// A commit does not update the card's cached value.
    StaleCache,
    /// A promoted primary serves before its host has applied the log.
    LostLockOnPromotion,
    /// An attempt commits when the first replica has logged it.
    CommitAtFirstLog,
    /// The card does not check that the versions which its host has read are current.
    HostVersionUnchecked,
    /// A joining node reports that it is synced before its copy is complete.
    FullBeforeCopied,
    /// A replica answers LOG before its disk has the record.
    LoggedBeforeFlush,
    /// A replica answers WITHDRAW before its disk has the withdrawal.
    WithdrawnBeforeFlush,
    /// A node reports records in a view change before its disk has them.
    ReportedBeforeFlush,
    /// A node acts on the verdicts of a view change before its disk has them.
    SettledBeforeFlush,
    /// A joining node reports that it is synced before its disk has the copy.
    SyncedBeforeSaved,
    /// A snapshot does not have the attempts whose records it replaces.
    SnapshotWithoutAttempts,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [Self; 13] = [
        Self::SkipValidate,
        Self::UnlockBeforeLog,
        Self::StaleCache,
        Self::LostLockOnPromotion,
        Self::CommitAtFirstLog,
        Self::HostVersionUnchecked,
        Self::FullBeforeCopied,
        Self::LoggedBeforeFlush,
        Self::WithdrawnBeforeFlush,
        Self::ReportedBeforeFlush,
        Self::SettledBeforeFlush,
        Self::SyncedBeforeSaved,
        Self::SnapshotWithoutAttempts,
    ];

    /// Whether only nodes with disks can have it.
    pub const fn is_on_disk(self) -> bool {
        matches!(
            self,
            Self::LoggedBeforeFlush
                | Self::WithdrawnBeforeFlush
                | Self::ReportedBeforeFlush
                | Self::SettledBeforeFlush
                | Self::SyncedBeforeSaved
                | Self::SnapshotWithoutAttempts
        )
    }

    /// The bug's name on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SkipValidate => "skip-validate",
            Self::UnlockBeforeLog => "unlock-before-log",
            Self::StaleCache => "stale-cache",
            Self::LostLockOnPromotion => "lost-lock-on-promotion",
            Self::CommitAtFirstLog => "commit-at-first-log",
            Self::HostVersionUnchecked => "host-version-unchecked",
            Self::FullBeforeCopied => "full-before-copied",
            Self::LoggedBeforeFlush => "logged-before-flush",
            Self::WithdrawnBeforeFlush => "withdrawn-before-flush",
            Self::ReportedBeforeFlush => "reported-before-flush",
            Self::SettledBeforeFlush => "settled-before-flush",
            Self::SyncedBeforeSaved => "synced-before-saved",
            Self::SnapshotWithoutAttempts => "snapshot-without-attempts",
        }
    }
}

/// Which optimizations are enabled: those of Xenic (figure 9), and designs that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// A procedure runs on a card if it allows that. Otherwise all procedures run on hosts (4.2.2).
    pub ship_to_card: bool,
    /// A transaction whose keys are all of one shard, or of the coordinator's own shard and one more, runs at
    /// the primary of the other shard (4.2.3).
    pub multi_hop: bool,
    /// A key that is read and written is locked and read by one request. Otherwise it is read without a lock.
    /// After the procedure has run, a second request locks the written keys, and fails if a version has
    /// changed.
    pub combined: bool,
    /// A primary logs like any replica, and END carries no values. Otherwise only backups log, the outcome is
    /// reported, and then the primary gets the values, as in the designs that Weft is compared with. Such an
    /// engine does not survive a view change.
    pub log_at_primary: bool,
    /// How keys at other nodes that are only read are read and validated.
    pub reads: Reads,
    /// The coordinator writes records to backups by RDMA WRITE; otherwise it sends them in messages.
    pub log_by_write: bool,
    /// Replicas that hold the former value get a write as a difference, if that is shorter.
    pub log_differences: bool,
    /// The coordinator first checks whether its own keys are locked, so that a conflict is found before it
    /// sends requests. It reads those of its own keys that it does not lock last, after all other keys have
    /// arrived. If the locks and the run follow in the same event, these reads need no validation.
    pub order_own_keys: bool,
    /// Keys at other nodes are locked by RDMA atomics, also if they are only read, and committed by WRITEs.
    pub lock_by_atomic: bool,
}

/// How a coordinator reads keys without locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// By messages.
    Messages,
    /// By READs at the objects' addresses, which each coordinator caches.
    Cached,
    /// By READs of one bucket after the other along the chain.
    Traversed,
}

impl Default for Variant {
    fn default() -> Self {
        Self::XENIC
    }
}

impl Variant {
    /// Xenic with all optimizations, and with the corrections that PROTOCOL.md lists.
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

    /// FaSST (OSDI 2016): messages for everything, values with COMMIT, and each transaction runs where it was
    /// called. The engine must run on the host.
    pub const FASST: Self = Self {
        multi_hop: false,
        log_at_primary: false,
        log_differences: false,
        order_own_keys: false,
        ..Self::XENIC
    };

    /// DrTM+H (OSDI 2018): READs at cached addresses; messages that lock written keys if their versions are
    /// unchanged; READs that validate the other keys; WRITEs that log; messages that commit. The engine needs
    /// [`crate::Placement::Linked`] tables.
    pub const DRTMH: Self = Self { combined: false, reads: Reads::Cached, log_by_write: true, ..Self::FASST };

    /// DrTM+H without a cache of addresses.
    pub const DRTMH_NO_CACHE: Self = Self { reads: Reads::Traversed, ..Self::DRTMH };

    /// DrTM+R (EuroSys 2016): all keys are locked by RDMA atomics and then READ, so nothing is validated.
    /// WRITEs log and commit.
    pub const DRTMR: Self = Self { combined: true, lock_by_atomic: true, ..Self::DRTMH };

    /// The NIC capabilities that this variant needs.
    pub(crate) fn needs(&self) -> Capabilities {
        Capabilities { verbs: self.reads != Reads::Messages || self.log_by_write, ..Capabilities::CORE }
    }
}

/// Parameters of an engine, the same at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Number of founding nodes. Each is the first replica of one shard.
    pub nodes: usize,
    /// Replicas of each shard: f + 1, to survive f crashes.
    pub replicas: usize,
    /// Size of a coordinator's window: attempts that are under way, or not known to all nodes as decided. A
    /// power of two.
    pub window: usize,
    /// The most requests of other nodes that a node handles at a time.
    pub operations: usize,
    /// Bytes of the log, in the card's memory and in the host's: a multiple of [`crate::log::ALIGN`].
    pub log_bytes: usize,
    /// First address of the log in the host's memory.
    pub log_address: u64,
    /// Whether the host has a log on disk. Then a record counts as logged at a replica when its disk has it.
    pub has_disk: bool,
    /// The longest message between engines, in bytes.
    pub message_bytes: usize,
    /// Time until a request is repeated.
    pub repeat: Duration,
    /// Interval at which the engine checks for requests to repeat.
    pub tick: Duration,
    /// Enabled optimizations.
    pub variant: Variant,
    /// Whether reads and writes are recorded, for a checker: [`crate::Transactions::take_records`].
    pub record: bool,
    /// The planted bug that is switched on.
    #[cfg(feature = "planted-bugs")]
    pub bug: Option<PlantedBug>,
}

impl Parameters {
    /// Default sizes for a cluster of `nodes` nodes with `replicas` replicas of each shard.
    pub const fn new(nodes: usize, replicas: usize) -> Self {
        Self {
            nodes,
            replicas,
            window: 4096,
            operations: 4096,
            log_bytes: 4 << 20,
            log_address: 0,
            has_disk: false,
            message_bytes: 1408,
            repeat: Duration::from_us(100),
            tick: Duration::from_us(25),
            variant: Variant::XENIC,
            record: false,
            #[cfg(feature = "planted-bugs")]
            bug: None,
        }
    }

    /// # Panics
    /// If a parameter is invalid.
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
        assert!(whole || !self.has_disk, "all replicas log before the outcome is reported");
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
