//! Completions of work requests and receive requests.

use crate::QueuePairNumber;

macro_rules! completion_statuses {
    ($($variant:ident = $number:literal, $name:literal;)*) => {
        /// Status of a completed work request: `ibv_wc_status`, by number and name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum CompletionStatus {
            $(#[doc = concat!("`", $name, "`.")] $variant = $number,)*
        }

        impl CompletionStatus {
            /// The status's name in `<infiniband/verbs.h>`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

completion_statuses! {
    Success = 0, "IBV_WC_SUCCESS";
    LocalLengthError = 1, "IBV_WC_LOC_LEN_ERR";
    LocalQueuePairOperationError = 2, "IBV_WC_LOC_QP_OP_ERR";
    LocalEndToEndContextOperationError = 3, "IBV_WC_LOC_EEC_OP_ERR";
    LocalProtectionError = 4, "IBV_WC_LOC_PROT_ERR";
    WorkRequestFlushed = 5, "IBV_WC_WR_FLUSH_ERR";
    MemoryWindowBindError = 6, "IBV_WC_MW_BIND_ERR";
    BadResponse = 7, "IBV_WC_BAD_RESP_ERR";
    LocalAccessError = 8, "IBV_WC_LOC_ACCESS_ERR";
    RemoteInvalidRequest = 9, "IBV_WC_REM_INV_REQ_ERR";
    RemoteAccessError = 10, "IBV_WC_REM_ACCESS_ERR";
    RemoteOperationError = 11, "IBV_WC_REM_OP_ERR";
    RetryExceeded = 12, "IBV_WC_RETRY_EXC_ERR";
    ReceiverNotReadyRetryExceeded = 13, "IBV_WC_RNR_RETRY_EXC_ERR";
    LocalReliableDatagramDomainViolation = 14, "IBV_WC_LOC_RDD_VIOL_ERR";
    RemoteInvalidReliableDatagramRequest = 15, "IBV_WC_REM_INV_RD_REQ_ERR";
    RemoteAborted = 16, "IBV_WC_REM_ABORT_ERR";
    InvalidEndToEndContextNumber = 17, "IBV_WC_INV_EECN_ERR";
    InvalidEndToEndContextState = 18, "IBV_WC_INV_EEC_STATE_ERR";
    FatalError = 19, "IBV_WC_FATAL_ERR";
    ResponseTimeOut = 20, "IBV_WC_RESP_TIMEOUT_ERR";
    GeneralError = 21, "IBV_WC_GENERAL_ERR";
    TagMatchingError = 22, "IBV_WC_TM_ERR";
    TagMatchingRendezvousIncomplete = 23, "IBV_WC_TM_RNDV_INCOMPLETE";
}

impl CompletionStatus {
    /// The status's number in `<infiniband/verbs.h>`.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The operation that completed: `ibv_wc_opcode`, with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionOpcode {
    /// `IBV_WC_SEND`.
    Send = 0,
    /// `IBV_WC_RDMA_WRITE`.
    Write = 1,
    /// `IBV_WC_RDMA_READ`.
    Read = 2,
    /// `IBV_WC_COMP_SWAP`.
    CompareSwap = 3,
    /// `IBV_WC_FETCH_ADD`.
    FetchAdd = 4,
    /// `IBV_WC_RECV`.
    Receive = 128,
    /// `IBV_WC_RECV_RDMA_WITH_IMM`.
    ReceiveWriteWithImmediate = 129,
}

/// The completion of one work request or receive request: `ibv_wc`.
///
/// As in `ibv_poll_cq(3)`, unless `status` is [`CompletionStatus::Success`], only `id`, `status`,
/// `queue_pair` and `vendor_error` are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's tag (`wr_id`).
    pub id: u64,
    /// Whether the request succeeded, or why it failed.
    pub status: CompletionStatus,
    /// The operation of the request.
    pub opcode: CompletionOpcode,
    /// Number of bytes received, or read from the peer; zero for SEND and WRITE (`byte_len`).
    pub bytes: u32,
    /// Immediate data that came with the message (`imm_data`).
    pub immediate: Option<u32>,
    /// The queue pair on which it was posted (`qp_num`).
    pub queue_pair: QueuePairNumber,
    /// If the peer refused the request, the syndrome byte of its acknowledgement; for a message that a service has
    /// marked, [`Completion::MARKED`]; otherwise zero (`vendor_err`).
    pub vendor_error: u32,
}

impl Completion {
    /// `vendor_error` of a receive request that has succeeded with a message of which a service has marked a packet.
    /// Verbs have no other field for that, and programs of verbs see this one.
    pub const MARKED: u32 = 1;

    /// Whether a service has marked a packet of the received message.
    pub fn is_marked(&self) -> bool {
        self.status == CompletionStatus::Success && self.vendor_error == Self::MARKED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_numbers_and_names_of_verbs() {
        assert_eq!(CompletionStatus::WorkRequestFlushed.number(), 5);
        assert_eq!(CompletionStatus::RetryExceeded.number(), 12);
        assert_eq!(CompletionStatus::RetryExceeded.name(), "IBV_WC_RETRY_EXC_ERR");
        assert_eq!(CompletionStatus::TagMatchingRendezvousIncomplete.number(), 23);
    }
}
