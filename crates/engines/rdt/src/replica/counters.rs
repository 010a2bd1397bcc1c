//! What happened, and what was refused and why.

weft_counters::counters! {
    /// The counters of a replica.
    pub struct Counters {
        /// Calls of clients answered as done.
        done,
        /// Calls that were not permissible.
        refused,
        /// Calls that there was no room for.
        busy,
        /// Calls that came while the replica did not serve.
        not_serving,
        /// Malformed calls, and those with arguments that the type does not admit.
        bad_requests,
        /// Queries answered.
        queries,
        /// Own summarized calls.
        summarized,
        /// Own calls that went through the ring.
        enqueued,
        /// Own conflicting calls.
        forwarded,
        /// Conflicting calls that were sent to a leader again.
        repeated,
        /// Summaries of others that were taken in.
        absorbed,
        /// Ring entries of others that were delivered.
        delivered,
        /// Entries of a log that took effect.
        ordered,
        /// Times that an entry of a ring or a log had to wait for what it depends on.
        blocked,
        /// Calls whose sending had to wait until a majority had what they depend on.
        held,
        /// Entries of a log that a former leader had checked, so that they have no effect.
        void,
        /// Entries of a log that repeat a call.
        repeated_entries,
        /// Leaderships of a group that began here.
        terms,
        /// Times that a new life of some node was heard of, so that all permissions were taken back.
        fences,
        /// Data connections that came up.
        connected,
        /// Data connections that failed.
        failures,
        /// READs of the header of a peer.
        header_reads,
        /// Ring entries of dead origins, or of any while joining, that were copied from a peer.
        pulled_entries,
        /// Likewise, summaries.
        pulled_summaries,
        /// Ring entries that a peer was to have and has not any more.
        pull_misses,
        /// Snapshots that were handed out.
        snapshots_given,
        /// Snapshots that were taken over.
        snapshots_taken,
        /// Peers that were told that they cannot catch up.
        outdated_peers,
        /// Entries, summaries and datagrams of peers that are malformed.
        malformed,
        /// Configurations that do not fit.
        configurations_ignored,
        /// Calls of the host that came from somebody else.
        refused_strangers,
    }
}
