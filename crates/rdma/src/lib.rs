//! Reliable-connection queue pairs and memory regions as one pure state machine.

use weft_time::Duration;

/// A queue pair of this NIC, 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePairNumber(pub u32);

/// How a work request ended: `ibv_wc_status`, by number and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionStatus {
    /// `IBV_WC_SUCCESS`.
    Success = 0,
}

/// What to do on a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The poster's tag (`wr_id`).
    pub id: u64,
}

#[doc(hidden)]
pub type _Placeholder = Duration;
