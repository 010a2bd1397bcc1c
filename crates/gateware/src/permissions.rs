//! The port at which an engine changes what peers may do, without the driver (SafarDB, design principle 3).

use std::collections::VecDeque;

use crate::package;

/// A change of a queue pair's access is in force, and all that was allowed before it, and before changes of regions
/// that were asked for earlier, lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The queue pair, by the index in its number.
    pub index: u16,
    /// The cycle in which it was asked for: this change, or the first of the regions' right before it.
    pub requested: u64,
    /// The cycle of the gateware's marker.
    pub done: u64,
}

/// A change that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    QueuePair { index: u16, access: package::Access },
    Region { index: u16, access: package::Access },
}

/// Changes that pass through the port.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    pub(crate) changes: VecDeque<Change>,
    /// When the first change, or the first of regions right before it, was first on the port.
    pub(crate) since: Option<u64>,
    /// Changes of queue pairs that the gateware has taken and not marked yet, and since when they were asked for.
    pub(crate) fences: VecDeque<(u16, u64)>,
    pub(crate) done: VecDeque<Changed>,
}
