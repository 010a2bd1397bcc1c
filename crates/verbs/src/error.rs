//! Errors in calls of verbs.

use std::net::{Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::{QueuePairNumber, QueuePairState};

/// Reason for which a call was refused. The call has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApiError {
    /// All queue pairs of the NIC are in use.
    #[error("all {0} queue pairs are in use")]
    TooManyQueuePairs(usize),
    /// No queue pair has this number.
    #[error("no queue pair {0}")]
    UnknownQueuePair(QueuePairNumber),
    /// The state of the queue pair does not allow the call.
    #[error("queue pair {queue_pair} is in state {state}")]
    WrongState {
        /// The queue pair.
        queue_pair: QueuePairNumber,
        /// Its state.
        state: QueuePairState,
    },
    /// An attribute is outside the range that the specification or the configuration allows.
    #[error("{attribute} is {value}, which exceeds {limit}")]
    AttributeOutOfRange {
        /// Name of the attribute in verbs.
        attribute: &'static str,
        /// The requested value.
        value: u64,
        /// The largest possible value.
        limit: u64,
    },
    /// The send or receive queue already holds as many requests as it was created for.
    #[error("the queue of {0} requests is full")]
    QueueFull(usize),
    /// The completion queue could not hold the completion of another request: too many completions have not
    /// been polled.
    #[error("the completion queue has no room for another request")]
    CompletionQueueFull,
    /// The message needs more bytes or packets than a connection may have outstanding.
    #[error("a message of {0} bytes is too long")]
    MessageTooLong(u32),
    /// The local buffer of an atomic operation is not 8 bytes long.
    #[error("the local buffer of an atomic operation has {0} bytes instead of 8")]
    AtomicLength(u32),
    /// The queue pair was set up for no outstanding READ or atomic operation (`max_rd_atomic` is 0).
    #[error("the queue pair has max_rd_atomic 0")]
    NoReadResources,
    /// All regions of the NIC are in use.
    #[error("all {0} regions are in use")]
    TooManyRegions(usize),
    /// No shared receive queue has this number.
    #[error("no such shared receive queue")]
    UnknownSharedReceiveQueue,
    /// No region has these keys.
    #[error("no region has these keys")]
    UnknownRegion,
    /// This NIC must know the peer's hardware address when a queue pair is connected, and does not.
    #[error("no hardware address is known for {0}")]
    UnknownNeighbour(Ipv4Addr),
    /// The peer has an IPv6 address, but the NIC's port has only IPv4.
    #[error("{0} is no IPv4 address, and this NIC speaks IPv4 only")]
    NoIpv4(Ipv6Addr),
    /// The region extends beyond the end of the 64-bit address space.
    #[error("a region of {length} bytes at {address:#x} leaves the address space")]
    RegionWraps {
        /// Address of the region's first byte.
        address: u64,
        /// Number of bytes of the region.
        length: u64,
    },
}
