//! Counters of events and of refused calls and messages, by cause.

weft_counters::counters! {
    /// The engine's counters.
    pub(crate) struct Counters {
        /// Locks granted to a new holder.
        granted,
        /// Of these, locks whose former holder's time to live had expired.
        expired,
        /// Locks renewed, or acquired again by their holder.
        renewed,
        /// Locks released.
        released,
        /// Calls with a token that does not hold the lock.
        denied,
        /// Epochs in which this node has served as leader.
        takeovers,
        /// Entries retransmitted.
        resent,
        /// Calls refused because the leader has no room at the moment.
        busy,
        /// Calls at a node that does not lead or has no lease.
        elsewhere,
        /// Messages dropped because they are malformed or out of range.
        dropped_malformed,
        /// Messages dropped because of another epoch, or because the sender has another role in the epoch.
        dropped_epoch,
        /// Entries received out of order.
        gaps,
    }
}

/// What each counter of the engine counts, by name.
pub const COUNTER_HELP: &[(&str, &str)] = Counters::HELP;
