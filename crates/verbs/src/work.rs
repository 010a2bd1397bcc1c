//! Work requests and receive requests, as users post them.

use crate::CompletionOpcode;

/// A range of local memory in a registered region: `ibv_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalBuffer {
    /// First byte, as an address of the region.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Local key of the region. Not looked at if `length` is zero.
    pub lkey: u32,
}

/// Address in the peer's memory, with its rkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address in the peer's region.
    pub address: u64,
    /// Remote key of that region.
    pub rkey: u32,
}

/// Operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends the local buffer into a receive request of the peer (`IBV_WR_SEND`, `IBV_WR_SEND_WITH_IMM`).
    Send {
        /// Delivered with the peer's completion.
        immediate: Option<u32>,
    },
    /// Writes the local buffer to the peer's memory (`IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_WRITE_WITH_IMM`).
    Write {
        /// To where.
        remote: RemoteAddress,
        /// Consumes a receive request of the peer and is delivered with its completion; in an RPC region
        /// it goes to the engine instead and consumes nothing.
        immediate: Option<u32>,
    },
    /// Reads the peer's memory into the local buffer (`IBV_WR_RDMA_READ`).
    Read {
        /// From where.
        remote: RemoteAddress,
    },
    /// Adds to an 8-byte word; its old value goes to the local buffer (`IBV_WR_ATOMIC_FETCH_AND_ADD`).
    FetchAdd {
        /// Address of the word; a multiple of 8.
        remote: RemoteAddress,
        /// Value to add, modulo 2^64.
        add: u64,
    },
    /// Stores `swap` in an 8-byte word if it holds `compare`; its old value goes to the local buffer
    /// (`IBV_WR_ATOMIC_CMP_AND_SWP`).
    CompareSwap {
        /// Address of the word; a multiple of 8.
        remote: RemoteAddress,
        /// The value that the word must hold.
        compare: u64,
        /// The value that it gets.
        swap: u64,
    },
}

impl Operation {
    /// Whether the peer answers with data and therefore spends a responder resource.
    pub const fn has_response(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::FetchAdd { .. } | Self::CompareSwap { .. })
    }

    /// Whether this is FETCH_ADD or CMP_SWAP.
    pub const fn is_atomic(&self) -> bool {
        matches!(self, Self::FetchAdd { .. } | Self::CompareSwap { .. })
    }

    /// Opcode of its completion.
    pub const fn completion_opcode(&self) -> CompletionOpcode {
        match self {
            Self::Send { .. } => CompletionOpcode::Send,
            Self::Write { .. } => CompletionOpcode::Write,
            Self::Read { .. } => CompletionOpcode::Read,
            Self::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            Self::CompareSwap { .. } => CompletionOpcode::CompareSwap,
        }
    }
}

/// What to do on a queue pair: `ibv_send_wr` with one local buffer.
///
/// The memory of `local` belongs to the transport until the request completes: a lost packet is made
/// again from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The poster's tag (`wr_id`).
    pub id: u64,
    /// What to do.
    pub operation: Operation,
    /// The local memory to send from, or to put the answer in (8 bytes for atomics, in little-endian order).
    pub local: LocalBuffer,
    /// Completes visibly even if it succeeds (`IBV_SEND_SIGNALED`). A failure always does.
    pub signaled: bool,
    /// Waits until all earlier READs and atomics of the queue pair have completed (`IBV_SEND_FENCE`).
    pub fence: bool,
    /// Sets the solicited-event bit of the last packet (`IBV_SEND_SOLICITED`).
    pub solicited: bool,
}

impl WorkRequest {
    /// A signaled request without fence.
    pub const fn new(id: u64, operation: Operation, local: LocalBuffer) -> Self {
        Self { id, operation, local, signaled: true, fence: false, solicited: false }
    }
}

/// Receive buffer of a SEND: `ibv_recv_wr` with one local buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// The poster's tag (`wr_id`).
    pub id: u64,
    /// Buffer for the message; its region needs [`crate::AccessFlags::LOCAL_WRITE`].
    pub local: LocalBuffer,
}
