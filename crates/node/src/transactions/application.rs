//! The application that all nodes of a cluster register.

use weft_txn::{Key, Procedures};

/// An application that all nodes of a cluster register: its procedures and its objects.
pub trait Application: Send + Sync {
    /// The procedures, with the same numbers at all nodes and clients.
    fn procedures(&self) -> Procedures;

    /// The most objects that a shard is to hold. Tables are made for them; a transaction that inserts more may end as
    /// [`weft_txn::Outcome::Full`].
    fn objects(&self) -> u64;

    /// The longest value, in bytes: at most [`weft_txn::VALUE_MAX`]. A procedure that writes a longer one is at fault.
    fn value_bytes(&self) -> usize;

    /// Gives all objects that `shard` has when the cluster is founded, each once, with keys of that shard.
    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8]));
}
