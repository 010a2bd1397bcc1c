//! Which engine owns a queue pair, and which peer the engine may connect it to.

use std::net::{IpAddr, Ipv4Addr};

use weft_verbs::{PathMtu, QueuePairNumber, ReadyToReceive, ReadyToSend};

/// The receiver-not-ready time for peers that find no receive request: 0.64 ms, as a code of
/// [`weft_rdma::rnr_timer`]. Engines post no receive requests.
const MIN_RNR_TIMER: u8 = 12;

/// The other end of an engine's queue pair, and the parameters of every connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peering {
    /// The peer's address.
    pub destination: Ipv4Addr,
    /// The peer's queue pair.
    pub destination_qp_num: QueuePairNumber,
    /// The most payload bytes in a packet.
    pub path_mtu: PathMtu,
    /// Local acknowledgement time-out: a code, see [`weft_rdma::local_ack_timeout`].
    pub timeout: u8,
    /// Retries, 0 to 7, before a request without an answer fails.
    pub retry_cnt: u8,
    /// The most outstanding READs and atomics, in each direction.
    pub max_rd_atomic: u8,
}

impl Peering {
    /// Attributes for the transition to RTR. `receive_psn`: the PSN of the peer's first request.
    pub const fn ready_to_receive(&self, receive_psn: u32) -> ReadyToReceive {
        ReadyToReceive {
            destination: IpAddr::V4(self.destination),
            destination_qp_num: self.destination_qp_num,
            rq_psn: receive_psn,
            path_mtu: self.path_mtu,
            max_dest_rd_atomic: self.max_rd_atomic,
            min_rnr_timer: MIN_RNR_TIMER,
        }
    }

    /// Attributes for the transition to RTS. `send_psn`: the PSN of the first request.
    pub const fn ready_to_send(&self, send_psn: u32) -> ReadyToSend {
        ReadyToSend {
            sq_psn: send_psn,
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.retry_cnt,
            max_rd_atomic: self.max_rd_atomic,
        }
    }
}

/// The queue pairs of engines. All others belong to the host.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    /// Sorted by queue pair number.
    entries: Vec<(QueuePairNumber, u8, Peering)>,
}

impl Ownership {
    /// Assigns a queue pair to an engine. A former assignment is replaced.
    pub(crate) fn assign(&mut self, queue_pair: QueuePairNumber, slot: u8, peering: Peering) {
        let entry = (queue_pair, slot, peering);
        match self.find(queue_pair) {
            Ok(place) => self.entries[place] = entry,
            Err(place) => self.entries.insert(place, entry),
        }
    }

    /// The slot of the engine that owns a queue pair; `None` if the host does.
    pub(crate) fn owner(&self, queue_pair: QueuePairNumber) -> Option<u8> {
        self.find(queue_pair).ok().map(|place| self.entries[place].1)
    }

    /// The peer of a queue pair of the engine in `slot`.
    pub(crate) fn peering(&self, queue_pair: QueuePairNumber, slot: u8) -> Option<Peering> {
        let (_, owner, peering) = self.entries[self.find(queue_pair).ok()?];
        (owner == slot).then_some(peering)
    }

    fn find(&self, queue_pair: QueuePairNumber) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&queue_pair, |entry| entry.0)
    }
}
