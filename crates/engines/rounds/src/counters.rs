//! Counters of the engine: what it did, and which messages it refused or dropped, by reason.

weft_counters::counters! {
    /// The engine's counters.
    pub(crate) struct Counters {
        /// Rounds begun.
        rounds,
        /// Messages of rounds that arrived in time, early ones included.
        messages,
        /// Of these, messages that arrived before this node began their round.
        early,
        /// Messages that arrived after their round had ended here: they count as lost.
        late,
        /// Messages of a round later than the next one: this node is behind.
        far_ahead,
        /// Duplicate messages of one sender in one round.
        repeated,
        /// Rounds that this node shortened to catch up with faster members.
        trimmed,
        /// Members whose message did not arrive in its round, summed over rounds.
        unheard,
        /// Proposals decided, of this node and of others.
        decided,
        /// Changes of the members that took effect.
        epochs,
        /// Times that this node stopped by itself because decisions did not come in time (fenced).
        fenced,
        /// Messages dropped: unknown kind, or malformed content.
        dropped_malformed,
        /// Messages dropped: the sender is no member, or this node does not take such messages in its phase. Also
        /// calls refused because only the host may make them.
        dropped_not_member,
        /// Messages dropped: their content contradicts this node's state.
        dropped_contradiction,
        /// Configurations ignored: not applicable in this phase.
        configurations_ignored,
    }
}

/// Name and meaning of each counter of the engine.
pub const COUNTER_HELP: &[(&str, &str)] = Counters::HELP;
