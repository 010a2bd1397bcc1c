//! What happened, and what was refused and why.

weft_counters::counters! {
    /// Counted events of an engine.
    pub struct Counters {
        /// Attempts begun for the host.
        begun,
        /// Attempts that took effect.
        committed,
        /// Attempts that their procedure gave up.
        aborted,
        /// Attempts that gave way to others.
        conflicts,
        /// Attempts that found no room at a primary.
        full,
        /// Attempts that were given up because of a view change, or because nobody serves.
        unavailable,
        /// Attempts that ran at another node.
        shipped,
        /// Attempts that the host had executed by itself.
        executed_by_host,
        /// Those among them that gave way: something was locked, or the host's table was too old.
        host_conflicts,
        /// Attempts that asked for more keys than known after they were shipped, and began anew.
        recalled,
        /// Procedures run on this card.
        runs,
        /// Keys looked up.
        lookups,
        /// Keys looked up in the host's memory.
        misses,
        /// READs and WRITEs posted.
        verbs,
        /// Records appended to the log.
        records,
        /// Records of which backups were told only what they change.
        differences,
        /// Records that the host's table might have had no room for.
        table_full,
        /// Requests that were repeated.
        repeats,
        /// Messages of another epoch.
        other_epoch,
        /// Messages that came while the node did not serve.
        not_serving,
        /// Messages that contradict what they say elsewhere.
        malformed,
        /// Messages about attempts that have ended, or that this node has nothing to do with.
        stale,
        /// Records that found no room in the log.
        log_full,
        /// Attempts that were withdrawn because their records found no room everywhere.
        withdrawn,
        /// Requests that found no free operation.
        operations_full,
        /// View changes in which survivors contradicted each other: the node has stopped.
        contradictions,
        /// Times that the log did not fit the tables: the node has stopped.
        strays,
        /// View changes that this node has gone through.
        recoveries,
        /// Attempts that a view change committed.
        recovered,
        /// Attempts that a view change aborted.
        rolled_back,
        /// Pages of shards that this node has read for joining nodes.
        pages_read,
        /// Pages of shards that it has taken in itself when it joined.
        pages_kept,
    }
}
