//! Deliberate bugs of leases and of the membership service, which campaigns must detect.

/// A deliberate bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A lease counts from the receipt of the grant, not from the sending of the heartbeat.
    LeaseFromReceipt,
    /// The service answers before it has stored its state: the stored state lacks the newest view.
    AnswerBeforeStored,
    /// The service hears no heartbeats while it stores a change, and takes that time for the silence of members.
    DeafWhileStoring,
    /// While the service stores a view, it renews the leases of members that are not in it.
    RemovedRenewed,
    /// The service keeps members in the view that do not receive each other's beacons.
    PartitionedKept,
    /// A node listens to a keeper of an earlier term.
    EarlierTermAccepted,
    /// A keeper goes on granting leases when its term has ended.
    TermOverrun,
    /// A keeper takes the service over without waiting for the end of the holder's term.
    SuccessorInHaste,
}
