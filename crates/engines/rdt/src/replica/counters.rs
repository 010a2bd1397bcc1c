//! The replica's event counters: what it did, and what it refused for which reason.

weft_counters::counters! {
    /// The counters of a replica.
    pub struct Counters {
        /// Calls of clients answered as done.
        done,
        /// Calls that were not permissible.
        refused,
        /// Calls that were refused for lack of room.
        busy,
        /// Calls that arrived while the replica did not serve.
        not_serving,
        /// Calls that are malformed, or whose arguments are out of range.
        bad_requests,
        /// Queries answered.
        queries,
        /// Own calls that were summarized.
        summarized,
        /// Own calls that went through the ring.
        enqueued,
        /// Own conflicting calls, which go to a leader.
        forwarded,
        /// Conflicting calls that were sent to a leader again, because they were not decided in time.
        repeated,
        /// Summaries of other origins that were applied.
        absorbed,
        /// Ring entries of other origins that were delivered.
        delivered,
        /// Entries of a log that took effect.
        ordered,
        /// Times that an entry of a ring or a log had to wait for calls that it depends on.
        blocked,
        /// Calls that were delayed, because no majority had the calls that they depend on.
        held,
        /// Log entries without effect, because they were checked by a leader that no longer led.
        void,
        /// Entries of a log that repeat a call.
        repeated_entries,
        /// Number of times that this replica began to lead a group.
        terms,
        /// Times that a new incarnation of a node was detected, so that all write permissions were revoked.
        fences,
        /// Data connections that were established.
        connected,
        /// Data connections that failed.
        failures,
        /// READs of the header of a peer.
        header_reads,
        /// Ring entries that were copied from a peer, because their origin is dead or this replica is
        /// joining.
        pulled_entries,
        /// Summaries that were copied from a peer for the same reasons.
        pulled_summaries,
        /// Ring entries that were to be copied from a peer, but that the peer had overwritten.
        pull_misses,
        /// Snapshots that were made for peers.
        snapshots_given,
        /// Snapshots that were loaded from peers.
        snapshots_taken,
        /// Peers that were notified that they cannot catch up without a snapshot.
        outdated_peers,
        /// Entries, summaries and datagrams of peers that are malformed.
        malformed,
        /// Configurations that are inconsistent and were ignored.
        configurations_ignored,
        /// Calls reserved for the host that came from another caller.
        refused_strangers,
    }
}
