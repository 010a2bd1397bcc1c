//! Observers of the calls that take effect at a replica. Used by checks only.

use weft_smr::{GROUPS_MAX, NODES_MAX};

use crate::object::{Arguments, Object};

/// Numbers of calls in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By origin: summarized calls of all methods.
    pub summaries: [u64; NODES_MAX],
    /// By origin: calls through its ring.
    pub entries: [u64; NODES_MAX],
    /// By group: conflicting calls that took effect.
    pub groups: [u64; GROUPS_MAX],
}

/// An observer that is notified of each call when it takes effect at a replica, in order.
pub trait Observer {
    /// A call took effect. `sequence` is the number that the client of `origin` has given it. The arguments
    /// include those that the checking replica has filled in. `object` is the state afterwards.
    fn applied(
        &mut self,
        origin: usize,
        incarnation: u32,
        sequence: u32,
        method: usize,
        arguments: &Arguments,
        object: &Object,
    );

    /// The first `count` summarized calls of `origin`, over all methods and incarnations, are in `object`
    /// now; later ones may be too. A replica's own calls are reported by `applied` instead.
    fn absorbed(&mut self, origin: usize, count: u64, object: &Object);

    /// The state was replaced by that of another replica.
    fn restored(&mut self, object: &Object, counts: &Counts);
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    #[inline]
    fn applied(&mut self, _: usize, _: u32, _: u32, _: usize, _: &Arguments, _: &Object) {}

    #[inline]
    fn absorbed(&mut self, _: usize, _: u64, _: &Object) {}

    fn restored(&mut self, _: &Object, _: &Counts) {}
}
