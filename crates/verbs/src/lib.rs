//! The words of verbs, as types only: what engines, NICs and programs say of queue pairs, regions and work requests.
//!
//! Names and numbers are those of `<infiniband/verbs.h>`. Nothing here does anything: `weft-rdma` is the state machine
//! that gives these words their meaning, and any other implementation of a card may do the same.

mod completion;
mod error;
mod queue_pair;
mod region;
mod work;

pub use completion::{Completion, CompletionOpcode, CompletionStatus};
pub use error::ApiError;
pub use queue_pair::{
    Modify, PathMtu, QueuePairAttributes, QueuePairInformation, QueuePairNumber, QueuePairState,
    ReadyToReceive, ReadyToSend,
};
pub use region::{AccessFlags, ProtectionDomain, Region, RegionKeys, Target};
pub use work::{LocalBuffer, Operation, ReceiveRequest, RemoteAddress, WorkRequest};
