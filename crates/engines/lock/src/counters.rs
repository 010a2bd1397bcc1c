//! What happened, and what was refused and why.

/// The engine's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Locks granted to a new holder.
    pub granted: u64,
    /// Of these, locks whose former holder's time had run out.
    pub expired: u64,
    /// Locks renewed, or acquired again by their holder.
    pub renewed: u64,
    /// Locks released.
    pub released: u64,
    /// Calls of those who do not hold the lock.
    pub denied: u64,
    /// Epochs in which this node came to serve as leader.
    pub takeovers: u64,
    /// Entries sent again.
    pub resent: u64,
    /// Calls that the leader has no room for at the moment.
    pub busy: u64,
    /// Calls at a node that does not serve.
    pub elsewhere: u64,
    /// Messages dropped: bytes that are no message, or a call that is out of range.
    pub dropped_malformed: u64,
    /// Messages dropped: of another epoch, or of a node that has another part in it.
    pub dropped_epoch: u64,
    /// Entries that came out of order.
    pub gaps: u64,
}

impl Counters {
    /// All of them by name, in a fixed order.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("granted", self.granted),
            ("expired", self.expired),
            ("renewed", self.renewed),
            ("released", self.released),
            ("denied", self.denied),
            ("takeovers", self.takeovers),
            ("resent", self.resent),
            ("busy", self.busy),
            ("elsewhere", self.elsewhere),
            ("dropped_malformed", self.dropped_malformed),
            ("dropped_epoch", self.dropped_epoch),
            ("gaps", self.gaps),
        ]
    }
}
