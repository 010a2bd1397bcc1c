//! Known bugs of the program on a node's host, to run campaigns with.

/// A known bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A node that starts over leaves in its engines what they hold.
    EnginesKept,
    /// A node that comes back connects the queue pairs of its engines as those of the first incarnation.
    WiredToFormerIncarnation,
    /// One of the membership's: the lease holder has it.
    Cluster(weft_cluster::PlantedBug),
}
