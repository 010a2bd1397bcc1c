//! What happened, and what was refused and why.

weft_counters::counters! {
    /// The engine's counters.
    pub(crate) struct Counters {
        /// Rounds begun.
        rounds,
        /// Messages of a round that counted, early ones included.
        messages,
        /// Of these, those that came before their round had begun here.
        early,
        /// Messages of a round that has ended: they count as lost.
        late,
        /// Messages of a round after the next: this node is behind.
        far_ahead,
        /// Second messages of one sender in one round.
        repeated,
        /// Rounds that were shortened to catch up.
        trimmed,
        /// Members that were not heard in a round, summed over rounds.
        unheard,
        /// Proposals decided, own and others'.
        decided,
        /// Changes of the members that took effect.
        epochs,
        /// Times that the node has fenced itself.
        fenced,
        /// Messages dropped: no known kind, or bytes that are no message of it.
        dropped_malformed,
        /// Messages dropped: the sender is no member, or this node is in no phase for it. Also calls refused: they
        /// are the host's, and came from somebody else.
        dropped_not_member,
        /// Messages dropped: what they claim contradicts what is known.
        dropped_contradiction,
        /// Configurations ignored: nothing that this phase could follow.
        configurations_ignored,
    }
}

/// What each counter of the engine counts, by name.
pub const COUNTER_HELP: &[(&str, &str)] = Counters::HELP;
