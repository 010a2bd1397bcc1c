//! Numbers, states and attributes of queue pairs, with the names and numbers of verbs.

use std::fmt;
use std::net::IpAddr;

use crate::{AccessFlags, ProtectionDomain};

/// A queue pair of this NIC, 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePairNumber(pub u32);

/// As debuggers of verbs print it: hexadecimal, six digits.
impl fmt::Display for QueuePairNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// State of a queue pair: `ibv_qp_state`, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QueuePairState {
    /// Just created.
    Reset = 0,
    /// Takes receive requests.
    Init = 1,
    /// RTR: answers its peer.
    ReadyToReceive = 2,
    /// RTS: answers its peer and makes requests.
    ReadyToSend = 3,
    /// All requests complete as flushed.
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

/// The most payload bytes in one packet: `ibv_mtu`, by number.
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

    /// Bytes of payload.
    pub const fn bytes(self) -> u32 {
        128 << self as u8
    }
}

/// Attributes for the creation of a queue pair: `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairAttributes {
    /// Protection domain of the regions that the queue pair reaches.
    pub domain: ProtectionDomain,
    /// Work requests that can be queued.
    pub max_send_wr: u32,
    /// Receive requests that can be queued.
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
    /// The peer's address. Packets from any other are dropped.
    pub destination: IpAddr,
    /// The peer's queue pair (`dest_qp_num`).
    pub destination_qp_num: QueuePairNumber,
    /// PSN of the first request that the peer sends, 24 bits.
    pub rq_psn: u32,
    /// The most payload bytes in a packet.
    pub path_mtu: PathMtu,
    /// READs and atomics that the peer may have outstanding, and whose results are kept for duplicates.
    pub max_dest_rd_atomic: u8,
    /// How long the peer must wait when no receive request is posted: a code (table 45).
    pub min_rnr_timer: u8,
}

/// Attributes for the transition to RTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToSend {
    /// PSN of the first request, 24 bits.
    pub sq_psn: u32,
    /// Local acknowledgement time-out: a code (clause 9.9.2.1.2).
    pub timeout: u8,
    /// Attempts after the first, 0 to 7, before a request fails for lack of an answer.
    pub retry_cnt: u8,
    /// Attempts after the first, 0 to 6, before a request fails because the peer is not ready; 7: no limit.
    pub rnr_retry: u8,
    /// READs and atomics that may be outstanding; at most the peer's `max_dest_rd_atomic`.
    pub max_rd_atomic: u8,
}

/// A change of a queue pair: `ibv_modify_qp`. Legal transitions: any state to RESET and to ERROR;
/// RESET to INIT to RTR to RTS; INIT to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modify {
    /// To RESET: forgets everything, without completions.
    Reset,
    /// To INIT.
    Init {
        /// Operations that the peer may do through the queue pair (`qp_access_flags`).
        access: AccessFlags,
    },
    /// To RTR.
    ReadyToReceive(ReadyToReceive),
    /// To RTS.
    ReadyToSend(ReadyToSend),
    /// Stays in INIT, RTR or RTS and changes what the peer may do, from the next packet on.
    Access(AccessFlags),
    /// To ERROR: all requests end flushed.
    Error,
}

/// Current attributes of a queue pair: `ibv_query_qp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairInformation {
    /// State.
    pub state: QueuePairState,
    /// Attributes at its creation.
    pub attributes: QueuePairAttributes,
    /// Operations that the peer may do.
    pub access: AccessFlags,
    /// The peer's address.
    pub destination: IpAddr,
    /// The peer's queue pair.
    pub destination_qp_num: QueuePairNumber,
    /// The most payload bytes in a packet.
    pub path_mtu_bytes: u32,
    /// PSN of the next request packet to send.
    pub sq_psn: u32,
    /// PSN of the next request packet expected.
    pub rq_psn: u32,
    /// Work requests that have not completed.
    pub send_queued: usize,
    /// Receive requests that have not completed.
    pub receive_queued: usize,
    /// Packets that may be outstanding.
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
