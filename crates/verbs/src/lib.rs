//! The types of verbs: what engines, NICs and programs use to describe queue pairs, regions and requests.
//!
//! Names and numbers are those of `<infiniband/verbs.h>`. This crate only defines types. `weft-rdma`
//! implements their behaviour; another implementation of a card can use the same types.

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
