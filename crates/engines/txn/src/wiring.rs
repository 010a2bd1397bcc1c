//! What a node needs to access a peer's memory with verbs.

use weft_verbs::QueuePairNumber;

use crate::linked::LinkedShape;
use crate::parameters::Parameters;

/// Bytes of a coordinator's ring at a backup.
pub(crate) const RING_BYTES: usize = 1 << 18;

/// How verbs reach a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// The local queue pair that is connected to the peer.
    pub queue_pair: QueuePairNumber,
    /// The address, for verbs, of byte 0 of this node's engine memory.
    pub local_address: u64,
    /// The lkey of a region over that memory.
    pub lkey: u32,
    /// The address of byte 0 of the peer's engine memory.
    pub remote_address: u64,
    /// The rkey of a region over that memory that peers may read and write.
    pub rkey: u32,
}

pub(crate) fn landing_bytes(shape: &LinkedShape) -> usize {
    shape.bucket_bytes_max().next_multiple_of(64)
}

pub(crate) fn memory_bytes(parameters: &Parameters, shape: &LinkedShape) -> usize {
    parameters.operations * landing_bytes(shape) + 2 * parameters.nodes * RING_BYTES
}
