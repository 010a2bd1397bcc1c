//! Work requests and receive requests, as programs post them.

use crate::CompletionOpcode;

/// A range of local memory in a registered region: `ibv_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalBuffer {
    /// Address of the first byte, within the region's addresses.
    pub address: u64,
    /// Number of bytes.
    pub length: u32,
    /// Local key of the region. Ignored if `length` is zero.
    pub lkey: u32,
}

/// An address in the peer's memory, with its remote key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address in the peer's region.
    pub address: u64,
    /// Remote key of that region.
    pub rkey: u32,
}

/// The operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends the local buffer; it arrives in a receive request of the peer (`IBV_WR_SEND`,
    /// `IBV_WR_SEND_WITH_IMM`).
    Send {
        /// Immediate data, which the peer's completion contains.
        immediate: Option<u32>,
    },
    /// Writes the local buffer to the peer's memory (`IBV_WR_RDMA_WRITE`, `IBV_WR_RDMA_WRITE_WITH_IMM`).
    Write {
        /// Where to write.
        remote: RemoteAddress,
        /// Immediate data. The message takes a receive request of the peer, whose completion contains the
        /// data. In an RPC region, the engine gets the data instead, and no receive request is taken.
        immediate: Option<u32>,
    },
    /// Reads the peer's memory into the local buffer (`IBV_WR_RDMA_READ`).
    Read {
        /// Where to read.
        remote: RemoteAddress,
    },
    /// Adds to an 8-byte word of the peer. The word's old value is stored in the local buffer
    /// (`IBV_WR_ATOMIC_FETCH_AND_ADD`).
    FetchAdd {
        /// Address of the word; a multiple of 8.
        remote: RemoteAddress,
        /// Value to add, modulo 2^64.
        add: u64,
    },
    /// Stores `swap` in an 8-byte word of the peer if the word contains `compare`. The word's old value is
    /// stored in the local buffer (`IBV_WR_ATOMIC_CMP_AND_SWP`).
    CompareSwap {
        /// Address of the word; a multiple of 8.
        remote: RemoteAddress,
        /// The value that the word is compared with.
        compare: u64,
        /// The value to store if they are equal.
        swap: u64,
    },
}

impl Operation {
    /// Whether the peer answers with data, and therefore uses a responder resource.
    pub const fn has_response(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::FetchAdd { .. } | Self::CompareSwap { .. })
    }

    /// Whether this is FETCH_ADD or CMP_SWAP.
    pub const fn is_atomic(&self) -> bool {
        matches!(self, Self::FetchAdd { .. } | Self::CompareSwap { .. })
    }

    /// Opcode of the operation's completion.
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

/// A work request for a queue pair: `ibv_send_wr` with one local buffer.
///
/// The program must leave the memory of `local` unchanged until the request completes: if a packet is lost,
/// the transport reads its bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The program's tag (`wr_id`).
    pub id: u64,
    /// The operation.
    pub operation: Operation,
    /// The local memory to send from, or to store the answer in. For atomic operations: 8 bytes,
    /// little-endian.
    pub local: LocalBuffer,
    /// Whether the request also produces a completion if it succeeds (`IBV_SEND_SIGNALED`). A failed request
    /// always does.
    pub signaled: bool,
    /// Whether the request waits until all earlier READs and atomic operations of the queue pair have
    /// completed (`IBV_SEND_FENCE`).
    pub fence: bool,
    /// Whether to set the solicited-event bit of the last packet (`IBV_SEND_SOLICITED`).
    pub solicited: bool,
}

impl WorkRequest {
    /// A request that is signaled and has no fence.
    pub const fn new(id: u64, operation: Operation, local: LocalBuffer) -> Self {
        Self { id, operation, local, signaled: true, fence: false, solicited: false }
    }
}

/// A receive request, which provides the buffer for one SEND: `ibv_recv_wr` with one local buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRequest {
    /// The program's tag (`wr_id`).
    pub id: u64,
    /// The buffer for the message. Its region must allow [`crate::AccessFlags::LOCAL_WRITE`].
    pub local: LocalBuffer,
}
