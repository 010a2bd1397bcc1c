//! The engine's event counters: what it did, and what it refused for which reason.

weft_counters::counters! {
    /// Counted events of an engine.
    pub struct Counters {
        /// Attempts begun for the host.
        begun,
        /// Attempts that took effect.
        committed,
        /// Attempts that their procedure aborted.
        aborted,
        /// Attempts that ended because of a conflict with another attempt.
        conflicts,
        /// Attempts that ended because a primary had no room.
        full,
        /// Attempts that ended because of a view change, or because no node serves the shard.
        unavailable,
        /// Attempts that ran at another node.
        shipped,
        /// Attempts that the host had executed by itself.
        executed_by_host,
        /// Attempts executed by the host that ended in a conflict: a key was locked, or the host's table was
        /// out of date.
        host_conflicts,
        /// Attempts that asked for more keys after they were shipped, and restarted at their coordinator.
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
        /// Records that full members got as differences to the former values.
        differences,
        /// Records that were refused because the host's table might have had no room for them.
        table_full,
        /// Requests that were repeated because no answer came in time.
        repeats,
        /// Messages of another epoch, which were dropped.
        other_epoch,
        /// Messages that arrived while the node did not serve.
        not_serving,
        /// Messages that are malformed or inconsistent.
        malformed,
        /// Messages about attempts that have ended, or that do not concern this node.
        stale,
        /// Records that were refused because the log was full.
        log_full,
        /// Attempts that were withdrawn because some replica had no room for their records.
        withdrawn,
        /// Requests that were dropped because all operations were in use.
        operations_full,
        /// View changes in which survivors contradicted each other, so that the node stopped.
        contradictions,
        /// Decided records that did not fit the tables, so that the node stopped.
        strays,
        /// View changes that this node has gone through.
        recoveries,
        /// Attempts that a view change committed.
        recovered,
        /// Attempts that a view change aborted.
        rolled_back,
        /// Pages of shards that this node has read for joining nodes.
        pages_read,
        /// Pages of shards that this node has applied while it joined.
        pages_kept,
    }
}
