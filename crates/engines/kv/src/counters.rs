//! What happened, and what was refused and why.

weft_counters::counters! {
    /// The engine's counters.
    pub(crate) struct Counters {
        /// Gets answered with a value or its absence.
        reads,
        /// Of these, those that had waited for a write to be decided.
        reads_waited,
        /// Writes appended to the node's own stream.
        writes_led,
        /// Writes accepted from other leaders.
        writes_followed,
        /// Entries applied to the table.
        entries_applied,
        /// Entries that a view change cut off.
        entries_cut,
        /// Requests answered from a session's record.
        duplicates_answered,
        /// Requests that are in the window or superseded, and left alone.
        duplicates_ignored,
        /// Writes that were received again.
        writes_repeated,
        /// Writes beyond the next one.
        gaps,
        /// Writes sent again.
        writes_resent,
        /// View changes gone through.
        view_changes,
        /// Chunks of state sent to joining nodes.
        chunks_sent,
        /// Chunks of state taken in.
        chunks_installed,
        /// Chunks of state that were older than the table.
        chunks_stale,
        /// Requests refused: wrong sizes or fields.
        refused_bad_request,
        /// Requests refused: the window or the pool of waiting reads is full.
        refused_busy,
        /// Requests refused: another node leads the key.
        refused_not_leader,
        /// Requests refused: no lease, or between views, joining, outside or lost.
        refused_not_serving,
        /// Requests refused: too many clients.
        refused_sessions_full,
        /// Requests refused: of a client that may have been forgotten.
        refused_forgotten,
        /// Writes that found their bucket full.
        table_full,
        /// Messages dropped: no known kind, or bytes that are no message of it.
        dropped_malformed,
        /// Messages dropped: of an older epoch.
        dropped_old_epoch,
        /// Messages dropped: of an epoch that this node has not been told of.
        dropped_future_epoch,
        /// Messages dropped: the sender or this node has not the role for it.
        dropped_wrong_role,
        /// Messages dropped: what they claim contradicts what is known.
        dropped_contradiction,
        /// Configurations ignored: older than the current view.
        configurations_ignored,
        /// Clients forgotten before they were idle for long enough.
        sessions_evicted_early,
    }
}

/// What each counter of the engine counts, by name.
pub const COUNTER_HELP: &[(&str, &str)] = Counters::HELP;
