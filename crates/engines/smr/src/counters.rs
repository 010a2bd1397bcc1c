//! Counters of a group: what it did, and what it refused, by reason.

weft_counters::counters! {
    /// The counters of a group.
    #[derive(Hash)]
    pub struct Counters {
        /// Times that this replica requested the permissions it needs to lead.
        campaigns,
        /// Times that this replica became leader.
        leaderships,
        /// Times that this replica paused its candidacy because it decided nothing, or did not become leader.
        stood_back,
        /// Times that this replica gave way to another leader, because it lacks entries that are no longer in any
        /// log.
        behind,
        /// Requests for permission that this replica granted.
        granted,
        /// Of these, requests for which it revoked another leader's permission.
        revoked,
        /// Requests for permission that arrived late or twice.
        stale_requests,
        /// Grants that arrived late or twice.
        stale_grants,
        /// Entries that this replica proposed.
        proposed,
        /// Of these, entries that were undecided when it stopped leading.
        abandoned,
        /// Undecided entries of former leaders that this replica adopted when it became leader.
        adopted,
        /// Gaps between these entries that it filled with empty entries.
        holes,
        /// Entries applied.
        applied,
        /// Invalid messages, invalid log content written by peers, and entries that the embedder could not decode.
        malformed,
        /// Connections that failed.
        failures,
        /// Followers brought up to date with slots of the log.
        synced,
        /// Followers that were sent a snapshot of the state.
        snapshots_sent,
        /// Snapshots of the state that this replica installed.
        snapshots_taken,
        /// Slots that were zeroed for reuse.
        recycled,
    }
}
