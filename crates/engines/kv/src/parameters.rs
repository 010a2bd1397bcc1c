//! The sizes and intervals of an engine.

use weft_time::Duration;
use weft_waist::NODES_MAX;

use crate::message::{Operation, SESSION_BYTES, StateChunk};
use crate::placement::PARTITIONS;

/// The most bytes of a key.
pub(crate) const KEY_BYTES_MAX: usize = 72;
/// Bytes of a slot in a state transfer before its key.
pub(crate) const SLOT_HEADER_BYTES: usize = 16;

/// Sizes and intervals of an engine. All nodes of a cluster use the same sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// Bytes of a key, 1 to 72.
    pub key_bytes: usize,
    /// The most bytes of a value, 1 to 16,384; a value has at least one.
    pub value_bytes_max: usize,
    /// Buckets of the table: a power of two, at least [`PARTITIONS`].
    pub buckets: u32,
    /// Slots of a bucket: a power of two, at most 32.
    pub ways: u32,
    /// The most writes of one leader that are accepted but undecided. Further writes are refused with `Busy`.
    pub window: usize,
    /// The most reads that wait at this node for a write to be decided. Further reads are refused with `Busy`.
    pub waiting_reads: usize,
    /// The most clients with a session at a leader. Further clients are refused with `SessionsFull`.
    pub sessions: usize,
    /// A client that was silent for longer may be forgotten. The time must exceed the sum of the clients' request
    /// time-out and the lifetime of a datagram.
    pub session_idle: Duration,
    /// Time without progress after which a node repeats its messages.
    pub retransmit: Duration,
    /// Upper limit of that time, which doubles while there is no progress.
    pub retransmit_max: Duration,
    /// The most writes that are sent again at once to one follower.
    pub burst: usize,
    /// The most bytes of one message of a state transfer.
    pub chunk_bytes: usize,
    /// The most bytes of keys and values that a node keeps for the reader of a backup, because writes have changed them
    /// meanwhile. A backup that needs more ends.
    pub backup_bytes: usize,
    /// How many full members have an entry on disk before it is committed, unless disks may lag; all of them if there
    /// are fewer. 0: the hosts keep no logs. See [`crate::journal`].
    pub durable_copies: usize,
    /// Where the hosts keep logs: if this is given, a write is committed without waiting for disks. A leader whose
    /// oldest write that is not on disk at `durable_copies` full members was accepted longer ago accepts no further
    /// one, and answers `Busy`.
    pub disk_lag: Option<Duration>,
    /// Whether the engine has the operations that the engine in gateware lacks ([`Operation::is_beyond_gates`]).
    /// Without them it behaves as the gateware: it refuses these operations as `BadRequest`, drops only sessions
    /// of idle clients, and admits a dropped client as a new one.
    pub beyond_gates: bool,
    /// A deliberate bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

impl Default for Parameters {
    /// 8-byte keys, values of up to 1,024 bytes, room for about 160,000 keys (see [`Parameters::for_keys`]).
    fn default() -> Self {
        Self {
            key_bytes: 8,
            value_bytes_max: 1024,
            buckets: 1 << 14,
            ways: 32,
            window: 1024,
            waiting_reads: 1024,
            sessions: 1024,
            session_idle: Duration::from_secs(60),
            retransmit: Duration::from_ms(2),
            retransmit_max: Duration::from_ms(64),
            burst: 64,
            chunk_bytes: 1280,
            backup_bytes: 16 << 20,
            durable_copies: 0,
            disk_lag: None,
            beyond_gates: true,
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }
}

impl Parameters {
    /// The default parameters with a table for `keys` evenly hashed keys. On average at most 10 of a bucket's 32
    /// slots are used, so a bucket overflows with a probability near 10^-8 (Poisson).
    #[must_use]
    pub fn for_keys(keys: u64) -> Self {
        let buckets = keys.div_ceil(10).next_power_of_two().clamp(u64::from(PARTITIONS), 1 << 26);
        Self { buckets: buckets as u32, ..Self::default() }
    }

    /// The sizes of the engine in gateware (`rtl/engines/kv/kv_pkg.sv`), with a table of `buckets` buckets.
    #[must_use]
    pub fn gateware(buckets: u32) -> Self {
        Self {
            buckets,
            window: 256,
            waiting_reads: 256,
            sessions: 256,
            beyond_gates: false,
            ..Self::default()
        }
    }

    /// Checks that an engine can run with these sizes.
    ///
    /// # Errors
    /// The first size that is out of range.
    pub fn check(&self) -> Result<(), ParametersError> {
        let require = |holds, what| if holds { Ok(()) } else { Err(ParametersError(what)) };
        require((1..=KEY_BYTES_MAX).contains(&self.key_bytes), "key_bytes must be 1 to 72")?;
        require((1..=16_384).contains(&self.value_bytes_max), "value_bytes_max must be 1 to 16384")?;
        require(
            self.buckets.is_power_of_two() && self.buckets >= PARTITIONS && self.buckets <= 1 << 26,
            "buckets must be a power of two from 256 to 2^26",
        )?;
        require(self.ways.is_power_of_two() && self.ways <= 32, "ways must be a power of two, at most 32")?;
        require((1..=1 << 20).contains(&self.window), "window must be 1 to 2^20")?;
        require((1..=1 << 20).contains(&self.waiting_reads), "waiting_reads must be 1 to 2^20")?;
        require((1..=1 << 20).contains(&self.sessions), "sessions must be 1 to 2^20")?;
        require(self.retransmit > Duration::ZERO, "retransmit must not be zero")?;
        require(self.retransmit_max >= self.retransmit, "retransmit_max must be at least retransmit")?;
        require(self.burst >= 1, "burst must be at least 1")?;
        require(
            self.chunk_bytes >= chunk_bytes_least(self) && self.chunk_bytes <= 65_535,
            "chunk_bytes must hold one slot and one session, and be at most 65535",
        )
    }

    /// Whether the hosts keep logs.
    pub const fn is_durable(&self) -> bool {
        self.durable_copies > 0
    }

    /// Whether a write is committed only once it is on disk at enough members.
    pub(crate) const fn waits_for_disks(&self) -> bool {
        self.is_durable() && self.disk_lag.is_none()
    }

    /// The most entries of a stream that a node has accepted and that are not durable there. A disk that lags by
    /// more delays its stream.
    pub(crate) const fn lag_max(&self) -> u64 {
        3 * self.window as u64
    }

    /// Number of entries of a stream that a node keeps. When members with logs come together, the accepted lengths
    /// of two of them differ by at most [`Parameters::lag_max`] and a window, and the one that lacks entries may
    /// know two windows less to be committed.
    pub(crate) const fn kept_entries(&self) -> usize {
        if self.is_durable() { 6 * self.window } else { self.window }
    }

    /// The most bytes of the entries that a node keeps, with their heads in a log.
    pub const fn kept_bytes(&self) -> usize {
        let entry = 64 + self.key_bytes + self.value_bytes_max;
        if self.is_durable() { NODES_MAX * self.kept_entries() * entry } else { 0 }
    }

    /// Of the `full` members of an epoch, the number that must come together to have every entry that was committed
    /// in it: each set of so many has one of the members at which the entry is durable.
    pub(crate) fn quorum(&self, full: usize) -> usize {
        full + 1 - self.durable_copies.min(full)
    }

    /// Whether the engine is configured to have an operation.
    pub(crate) fn has(&self, operation: Operation) -> bool {
        self.beyond_gates || !operation.is_beyond_gates()
    }

    /// Bytes that a key takes in messages and memory: whole 64-bit words.
    pub(crate) fn key_field(&self) -> usize {
        self.key_bytes.next_multiple_of(8)
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

/// Deliberate replication bugs. With the feature `planted-bugs` an engine can run with one of them, which shows
/// that a checker would detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlantedBug {
    /// The leader applies and answers a write before any follower has accepted it.
    AcknowledgeBeforeReplicating,
    /// A follower answers a read although a newer write is accepted and undecided.
    StaleReadAtFollower,
    /// At a view change each node keeps the entries that it saw committed, not those that all members accepted.
    LostUpdateOnFailover,
    /// A request that arrives again is executed again.
    DuplicateApply,
    /// A compare-and-delete removes the key whatever its version is.
    DeleteWithoutComparing,
    /// The engine checks neither the epoch of a message nor its lease.
    EpochNotChecked,
    /// A write counts as durable when it is accepted.
    AcknowledgeBeforeFlush,
    /// When an epoch closes, a member reports the entries that it accepted before all of them are durable.
    SealedBeforeFlush,
    /// A full member acts in an epoch before its record of the epoch's opening is durable.
    ActsBeforeOpening,
    /// Restored members recover with one report less than they need.
    TooFewReports,
    /// Restored members take the shortest prefix instead of the longest.
    ShortestAtRecovery,
    /// A member forgets that it was restored, and counts as one that has every committed entry.
    RestoredVotes,
    /// A leader accepts writes however far the disks lag behind it.
    LagNotBounded,
    /// The mark of a backup is what the node knows to be committed, not what it has accepted.
    BackupOfCommitted,
    /// While a backup waits for its instant, the node acknowledges later writes.
    BackupHoldsNothing,
    /// A backup has later writes of slots that were changed before they were copied.
    BackupCopiesNewer,
}

impl PlantedBug {
    /// All planted bugs but those of durability.
    pub const ALL: [Self; 6] = [
        Self::AcknowledgeBeforeReplicating,
        Self::StaleReadAtFollower,
        Self::LostUpdateOnFailover,
        Self::DuplicateApply,
        Self::DeleteWithoutComparing,
        Self::EpochNotChecked,
    ];

    /// The planted bugs of durability: only a cluster whose nodes have disks shows them.
    pub const OF_DISKS: [Self; 6] = [
        Self::AcknowledgeBeforeFlush,
        Self::SealedBeforeFlush,
        Self::ActsBeforeOpening,
        Self::TooFewReports,
        Self::ShortestAtRecovery,
        Self::RestoredVotes,
    ];

    /// The planted bugs of writes that are answered before they are on disk.
    pub const OF_LAG: [Self; 1] = [Self::LagNotBounded];

    /// The planted bugs of backups.
    pub const OF_BACKUPS: [Self; 3] =
        [Self::BackupOfCommitted, Self::BackupHoldsNothing, Self::BackupCopiesNewer];

    /// Name of the bug on command lines: lower case, words joined by hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcknowledgeBeforeReplicating => "acknowledge-before-replicating",
            Self::StaleReadAtFollower => "stale-read-at-follower",
            Self::LostUpdateOnFailover => "lost-update-on-failover",
            Self::DuplicateApply => "duplicate-apply",
            Self::DeleteWithoutComparing => "delete-without-comparing",
            Self::EpochNotChecked => "epoch-not-checked",
            Self::AcknowledgeBeforeFlush => "acknowledge-before-flush",
            Self::SealedBeforeFlush => "sealed-before-flush",
            Self::ActsBeforeOpening => "acts-before-opening",
            Self::TooFewReports => "too-few-reports",
            Self::ShortestAtRecovery => "shortest-at-recovery",
            Self::RestoredVotes => "restored-votes",
            Self::LagNotBounded => "lag-not-bounded",
            Self::BackupOfCommitted => "backup-of-committed",
            Self::BackupHoldsNothing => "backup-holds-nothing",
            Self::BackupCopiesNewer => "backup-copies-newer",
        }
    }
}

/// The smallest `chunk_bytes` for which every record fits into a chunk.
fn chunk_bytes_least(parameters: &Parameters) -> usize {
    let slot = SLOT_HEADER_BYTES + parameters.key_field() + parameters.value_bytes_max.next_multiple_of(8);
    StateChunk::HEADER + slot.max(SESSION_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        Parameters::default().check().unwrap();
        Parameters::gateware(16_384).check().unwrap();
        for keys in [0, 1, 10_000, 1_000_000] {
            Parameters::for_keys(keys).check().unwrap();
        }
        assert_eq!(Parameters::for_keys(10_000).buckets, 1024);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let parameters = Parameters { buckets: 300, ..Parameters::default() };
        assert!(parameters.check().unwrap_err().to_string().contains("buckets"));
        let parameters = Parameters { chunk_bytes: 512, ..Parameters::default() };
        assert!(parameters.check().unwrap_err().to_string().contains("chunk_bytes"));
    }
}
