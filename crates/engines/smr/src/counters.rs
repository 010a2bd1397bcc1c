//! What happened, and what was refused and why.

weft_counters::counters! {
    /// The counters of a group.
    #[derive(Hash)]
    pub struct Counters {
        /// Times that this replica has asked for the permission to lead.
        campaigns,
        /// Times that it came to lead.
        leaderships,
        /// Times that it stood back because it came to nothing.
        stood_back,
        /// Times that it let another one lead because it lacks entries that are in no log any more.
        behind,
        /// Requests for permission that were granted.
        granted,
        /// Of these, those for which another leader's permission was revoked.
        revoked,
        /// Requests that came late or twice.
        stale_requests,
        /// Grants that came late or twice.
        stale_grants,
        /// Entries that were proposed here.
        proposed,
        /// Of these, those that were undecided when this replica stopped leading.
        abandoned,
        /// Undecided entries of former leaders that were adopted.
        adopted,
        /// Holes between them that were filled.
        holes,
        /// Entries applied.
        applied,
        /// What peers have said or written of a log that cannot be, and entries that make no sense to the embedder.
        malformed,
        /// Connections that have failed.
        failures,
        /// Followers brought up to date by slots of the log.
        synced,
        /// Followers that were sent a copy of the state.
        snapshots_sent,
        /// Copies of the state that were taken over.
        snapshots_taken,
        /// Slots that were zeroed to be used again.
        recycled,
    }
}
