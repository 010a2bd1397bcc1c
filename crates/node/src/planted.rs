//! Known bugs of the program on a node's host, to run campaigns with.

/// A known bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A node that starts over leaves in its engines what they hold.
    EnginesKept,
    /// One of the membership's: the lease holder has it.
    Cluster(weft_cluster::PlantedBug),
}
