//! Observers of what takes effect at a replica: for checks only.

use weft_smr::{GROUPS_MAX, NODES_MAX};

use crate::object::{Arguments, Object};

/// Number of calls in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By origin: summarized calls, of all methods.
    pub summaries: [u64; NODES_MAX],
    /// By origin: calls that came through its ring.
    pub entries: [u64; NODES_MAX],
    /// By group: conflicting calls that took effect.
    pub groups: [u64; GROUPS_MAX],
}

/// Is told each call that takes effect at a replica, in order and at that moment.
pub trait Witness {
    /// A call took effect that the client of `origin` had given that number. The arguments are as the checking replica
    /// has filled them in, `object` is the state afterwards.
    fn applied(
        &mut self,
        origin: usize,
        incarnation: u32,
        sequence: u32,
        method: usize,
        arguments: &Arguments,
        object: &Object,
    );

    /// The first `count` summarized calls of `origin`, of all methods and lives, are in `object` now; later ones may
    /// be, too. Of its own calls a replica is told by `applied`.
    fn absorbed(&mut self, origin: usize, count: u64, object: &Object);

    /// The state was replaced by another replica's.
    fn restored(&mut self, object: &Object, counts: &Counts);
}

/// A witness that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Witness for Unwatched {
    #[inline]
    fn applied(&mut self, _: usize, _: u32, _: u32, _: usize, _: &Arguments, _: &Object) {}

    #[inline]
    fn absorbed(&mut self, _: usize, _: u64, _: &Object) {}

    fn restored(&mut self, _: &Object, _: &Counts) {}
}
