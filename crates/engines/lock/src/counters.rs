//! What happened, and what was refused and why.

weft_counters::counters! {
    /// The engine's counters.
    pub(crate) struct Counters {
        /// Locks granted to a new holder.
        granted,
        /// Of these, locks whose former holder's time had run out.
        expired,
        /// Locks renewed, or acquired again by their holder.
        renewed,
        /// Locks released.
        released,
        /// Calls of those who do not hold the lock.
        denied,
        /// Epochs in which this node came to serve as leader.
        takeovers,
        /// Entries sent again.
        resent,
        /// Calls that the leader has no room for at the moment.
        busy,
        /// Calls at a node that does not serve.
        elsewhere,
        /// Messages dropped: bytes that are no message, or a call that is out of range.
        dropped_malformed,
        /// Messages dropped: of another epoch, or of a node that has another part in it.
        dropped_epoch,
        /// Entries that came out of order.
        gaps,
    }
}

/// What each counter of the engine counts, by name.
pub const COUNTER_HELP: &[(&str, &str)] = Counters::HELP;
