//! Counters of the engine: what it did, and which requests and messages it refused or dropped, by reason.

weft_counters::counters! {
    /// The engine's counters.
    #[derive(Hash)]
    pub(crate) struct Counters {
        /// Gets answered with a value or with "not found".
        reads,
        /// Of these reads, those that waited for a write to be decided.
        reads_waited,
        /// Writes appended to the node's own stream.
        writes_led,
        /// Writes accepted from other leaders.
        writes_followed,
        /// Entries applied to the table.
        entries_applied,
        /// Accepted entries that a view change removed, because not all members had them.
        entries_cut,
        /// Requests executed before and answered from the record in the client's session.
        duplicates_answered,
        /// Duplicate requests ignored: the first copy is still undecided, or the client has ended the request.
        duplicates_ignored,
        /// Writes of a leader that arrived again.
        writes_repeated,
        /// Writes of a leader that arrived with a gap before them.
        gaps,
        /// Writes that this leader sent to a follower again.
        writes_resent,
        /// View changes completed.
        view_changes,
        /// Chunks of state sent to joining nodes.
        chunks_sent,
        /// Chunks of state installed while joining.
        chunks_installed,
        /// Chunks of state refused because they were older than the table.
        chunks_stale,
        /// Backups begun.
        backups_begun,
        /// Parts of backups sent to clients.
        backup_parts,
        /// Contents of slots set aside for a backup before a write changed them.
        backup_records_kept,
        /// Requests refused: wrong sizes or fields.
        refused_bad_request,
        /// Requests refused: the window of undecided writes, or the pool of waiting reads, is full.
        refused_busy,
        /// Requests refused: another node leads the key.
        refused_not_leader,
        /// Requests refused: this node has no lease, is between two views, joins, is no member, or has lost its
        /// data.
        refused_not_serving,
        /// Requests refused: as many clients have sessions as the node can hold.
        refused_sessions_full,
        /// Requests refused: the client may be one whose session was dropped.
        refused_forgotten,
        /// Writes refused because the key's bucket had no free slot.
        table_full,
        /// Messages dropped: unknown kind, or malformed content.
        dropped_malformed,
        /// Messages dropped: of an older epoch.
        dropped_old_epoch,
        /// Messages dropped: of an epoch newer than this node's view.
        dropped_future_epoch,
        /// Messages dropped: in the current view, the sender or this node does not have the role that the message
        /// needs.
        dropped_wrong_role,
        /// Messages dropped: their content contradicts this node's state.
        dropped_contradiction,
        /// Configurations ignored: older than the current view.
        configurations_ignored,
        /// Sessions dropped before their client was idle for `session_idle`.
        sessions_evicted_early,
    }
}

/// Name and meaning of each counter of the engine.
pub const COUNTER_HELP: &[(&str, &str)] = Counters::HELP;
