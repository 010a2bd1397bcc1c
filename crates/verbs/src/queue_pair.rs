//! Numbers, states and attributes of queue pairs, with the names and numbers of verbs.

use std::fmt;
use std::net::IpAddr;

use crate::{AccessFlags, ProtectionDomain};

/// The number of a queue pair of this NIC: 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePairNumber(pub u32);

/// In the form that debugging tools for verbs use: hexadecimal with six digits.
impl fmt::Display for QueuePairNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// State of a queue pair: `ibv_qp_state`, with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QueuePairState {
    /// The state after creation.
    Reset = 0,
    /// INIT: the program can post receive requests.
    Init = 1,
    /// RTR: the queue pair handles and answers the peer's requests.
    ReadyToReceive = 2,
    /// RTS: the queue pair also sends requests.
    ReadyToSend = 3,
    /// ERROR: all requests complete with a "flushed" status.
    Error = 6,
}

/// The specification's names: `RESET`, `INIT`, `RTR`, `RTS`, `ERROR`.
impl fmt::Display for QueuePairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::ReadyToReceive => "RTR",
            Self::ReadyToSend => "RTS",
            Self::Error => "ERROR",
        })
    }
}

/// The largest payload of one packet: `ibv_mtu`, with the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PathMtu {
    /// 256 bytes.
    Bytes256 = 1,
    /// 512 bytes.
    Bytes512 = 2,
    /// 1,024 bytes.
    Bytes1024 = 3,
    /// 2,048 bytes.
    Bytes2048 = 4,
    /// 4,096 bytes.
    Bytes4096 = 5,
}

impl PathMtu {
    /// All path MTUs, smallest first.
    pub const ALL: [Self; 5] =
        [Self::Bytes256, Self::Bytes512, Self::Bytes1024, Self::Bytes2048, Self::Bytes4096];

    /// Number of payload bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u8
    }
}

/// Attributes for the creation of a queue pair: `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairAttributes {
    /// Protection domain of the queue pair: its requests reach only regions of this domain.
    pub domain: ProtectionDomain,
    /// Number of work requests that the send queue can hold.
    pub max_send_wr: u32,
    /// Number of receive requests that the receive queue can hold.
    pub max_recv_wr: u32,
}

impl Default for QueuePairAttributes {
    fn default() -> Self {
        Self { domain: ProtectionDomain(0), max_send_wr: 128, max_recv_wr: 128 }
    }
}

/// Attributes for the transition to RTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToReceive {
    /// The peer's address. Packets from other addresses are dropped.
    pub destination: IpAddr,
    /// Number of the peer's queue pair (`dest_qp_num`).
    pub destination_qp_num: QueuePairNumber,
    /// PSN of the peer's first request: 24 bits.
    pub rq_psn: u32,
    /// The largest payload of a packet.
    pub path_mtu: PathMtu,
    /// Number of READs and atomic operations that the peer may have outstanding. As many results are kept to
    /// answer duplicates.
    pub max_dest_rd_atomic: u8,
    /// How long the peer must wait if no receive request is posted: a code of table 45.
    pub min_rnr_timer: u8,
}

/// Attributes for the transition to RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToSend {
    /// PSN of the first request that this queue pair sends: 24 bits.
    pub sq_psn: u32,
    /// Local acknowledgement time-out: a code as in clause 9.9.2.1.2.
    pub timeout: u8,
    /// How often a request is repeated without an answer before it fails: 0 to 7.
    pub retry_cnt: u8,
    /// How often a request is repeated when the peer is not ready, before it fails: 0 to 6; 7 means no limit.
    pub rnr_retry: u8,
    /// Number of READs and atomic operations that may be outstanding: at most the peer's
    /// `max_dest_rd_atomic`.
    pub max_rd_atomic: u8,
}

/// A change of a queue pair: `ibv_modify_qp`. These transitions are allowed: any state to RESET and to ERROR;
/// RESET to INIT, INIT to RTR, RTR to RTS; INIT to INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modify {
    /// To RESET: discards all requests without completing them.
    Reset,
    /// To INIT.
    Init {
        /// Operations that the peer may use through the queue pair (`qp_access_flags`).
        access: AccessFlags,
    },
    /// To RTR.
    ReadyToReceive(ReadyToReceive),
    /// To RTS.
    ReadyToSend(ReadyToSend),
    /// Stays in INIT, RTR or RTS, and changes which operations the peer may use, from the next packet on.
    Access(AccessFlags),
    /// To ERROR: all requests complete with a "flushed" status.
    Error,
}

/// Current attributes of a queue pair: `ibv_query_qp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairInformation {
    /// The state.
    pub state: QueuePairState,
    /// The attributes at creation.
    pub attributes: QueuePairAttributes,
    /// Operations that the peer may use.
    pub access: AccessFlags,
    /// The peer's address.
    pub destination: IpAddr,
    /// Number of the peer's queue pair.
    pub destination_qp_num: QueuePairNumber,
    /// The largest payload of a packet.
    pub path_mtu_bytes: u32,
    /// PSN of the next request packet to send.
    pub sq_psn: u32,
    /// PSN of the next request packet expected.
    pub rq_psn: u32,
    /// Number of work requests that have not completed.
    pub send_queued: usize,
    /// Number of receive requests that have not completed.
    pub receive_queued: usize,
    /// Number of packets that may be outstanding.
    pub window: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtus_have_the_numbers_of_verbs() {
        assert_eq!(PathMtu::ALL.map(PathMtu::bytes), [256, 512, 1_024, 2_048, 4_096]);
        assert_eq!(PathMtu::Bytes4096 as u8, 5);
    }
}
