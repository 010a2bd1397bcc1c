//! The port at which an engine changes peers' access rights without the driver (SafarDB, design principle 3).

use std::collections::VecDeque;

use crate::package;

/// A change of a queue pair's access rights is in force, and all data allowed before it is in memory. The
/// latter includes earlier changes of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The queue pair, by the index in its number.
    pub index: u16,
    /// The cycle of the request: of this change, or of the first change of a region directly before it.
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

/// Changes on their way through the port.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    pub(crate) changes: VecDeque<Change>,
    /// When the first waiting change, or the first change of a region directly before it, was first driven.
    pub(crate) since: Option<u64>,
    /// Changes of queue pairs that the gateware has accepted and not marked yet: index, and cycle of the
    /// request.
    pub(crate) fences: VecDeque<(u16, u64)>,
    pub(crate) done: VecDeque<Changed>,
}
