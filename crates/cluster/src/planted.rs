//! Known bugs of leases and of the membership service, to run campaigns with.

/// A known bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A lease counts from the receipt of the grant, not from the sending of the heartbeat.
    LeaseFromReceipt,
    /// The service answers before it has stored its state: the stored state lacks the newest view.
    AnswerBeforeStored,
    /// The service does not care who hears whom.
    PartedKept,
}
