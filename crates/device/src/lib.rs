//! An RDMA device as programs of verbs see it.
//!
//! [`Device`] has what a program of libibverbs makes and asks for: protection domains, memory regions, completion
//! queues that raise events, shared receive queues, queue pairs of three services in all states, lists of elements,
//! inline data, asynchronous events. Reliable connections are those of [`weft_rdma`]; unreliable connections and
//! datagrams are here, since nothing of them is retransmitted.
//!
//! The device is pure: who owns it passes in packets and the time, takes packets and events out, and gives it a
//! [`HostMemory`], which copies to and from the memory of the program.
//!
//! # Contract
//!
//! That of [`weft_rdma::Transport`], and:
//!
//! - Whenever anything was passed in, [`Device::poll_event`] may have events.
//! - Objects are named by numbers, which are used again when their object is gone. A number that names nothing is an
//!   error of the caller.
//! - An element of a list is checked when a packet needs it, as cards do: a wrong key is a completion in error.
//!
//! # Choices where the specification leaves one
//!
//! - Atomic operations are atomic among those of one device (`IBV_ATOMIC_HCA`).
//! - A send queue that is drained (SQD) finishes what has been posted, and keeps what is posted meanwhile.
//! - A datagram that finds no receive request, or a wrong Q_Key, is dropped and counted.
//! - The 40 bytes in front of a received datagram hold the IPv4 header in their second half, as annex A17 has it.

mod completion;
mod device;
pub mod environment;
mod error;
mod event;
mod memory;
mod queue_pair;
mod unreliable;
mod work;

pub use completion::{CompletionQueueNumber, Notify, WorkCompletion};
pub use device::{Device, DeviceConfig, Mad, MemoryRegion, QueuePairInit, SharedReceiveInfo};
pub use error::DeviceError;
pub use event::Event;
pub use memory::HostMemory;
pub use queue_pair::{Attributes, Change, State};
pub use work::{Element, SendOperation, SendRequest};

/// The most elements of one list.
pub const ELEMENTS_MAX: usize = 32;

/// The most inline bytes of one request.
pub const INLINE_MAX: usize = 1_024;

/// Bytes in front of each received datagram.
pub const ROUTE_HEADER_BYTES: usize = 40;
