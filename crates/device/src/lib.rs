//! An RDMA device, as programs that use verbs see it.
//!
//! [`Device`] has the objects and functions that libibverbs offers to programs: protection domains, memory
//! regions, completion queues that raise events, shared receive queues, queue pairs of three services in all
//! states, lists of elements, inline data, asynchronous events. Reliable connections are implemented by
//! [`weft_rdma`]; unreliable connections and datagrams are implemented here, because they need no
//! retransmission.
//!
//! The device does no input or output of its own. Its owner passes in packets and the time, takes packets and
//! events out, and provides a [`HostMemory`], which copies to and from the program's memory.
//!
//! # Contract
//!
//! The contract of [`weft_rdma::Transport`], and:
//!
//! - Whenever anything was passed in, [`Device::poll_event`] may have events.
//! - Objects are identified by numbers. The number of a removed object is used again for another object. If
//!   no object has a given number, the call returns an error.
//! - An element of a list is checked only when a packet needs it, as on hardware cards. With a wrong key, the
//!   request completes in error.
//!
//! # Choices where the specification allows several
//!
//! - Atomic operations are atomic with respect to those of the same device (`IBV_ATOMIC_HCA`).
//! - A send queue that is being drained (SQD) finishes the requests posted before, and holds back those
//!   posted meanwhile.
//! - A datagram is dropped and counted if no receive request is posted or its Q_Key is wrong.
//! - In the 40 bytes in front of a received datagram, the second half contains the IPv4 header, as in annex
//!   A17.

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

/// The largest number of elements of one list.
pub const ELEMENTS_MAX: usize = 32;

/// The largest number of inline bytes of one request.
pub const INLINE_MAX: usize = 1_024;

/// Number of bytes in front of each received datagram.
pub const ROUTE_HEADER_BYTES: usize = 40;
