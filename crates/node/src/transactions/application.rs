//! The application that all nodes of a cluster register.

use weft_txn::{Key, Procedures};

/// An application that all nodes of a cluster register: its procedures and its objects.
pub trait Application: Send + Sync {
    /// The procedures. They must have the same numbers at all nodes and clients.
    fn procedures(&self) -> Procedures;

    /// The most objects of a shard, for which tables are sized. A transaction that inserts more may end as
    /// [`weft_txn::Outcome::Full`].
    fn objects(&self) -> u64;

    /// The longest value, in bytes: at most [`weft_txn::VALUE_MAX`]. A procedure must not write a longer one.
    fn value_bytes(&self) -> usize;

    /// Calls `put` once for each object that `shard` has when the cluster is founded; the keys must belong to that
    /// shard.
    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8]));
}
