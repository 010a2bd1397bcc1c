//! Queue pairs and regions of one side, and the information that the sides must exchange to connect.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_nic::{CardConfig, RdmaDriver};
use weft_verbs::{
    AccessFlags, LocalBuffer, Modify, ProtectionDomain, QueuePairAttributes, QueuePairNumber, ReadyToReceive,
    ReadyToSend, ReceiveRequest, Region,
};
use weft_waist::NODES_MAX;

use super::draw::draw;
use super::load::{Load, OUTSTANDING_READS};
use super::payload::{self, MessageId, ServerMemory};

/// A side of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// The message that one side sends to the other out of band, as perftest does over TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) address: Ipv4Addr,
    pub(super) rkey: u32,
    /// Address of the first buffer.
    base: u64,
    /// Number and first PSN of each queue pair.
    queue_pairs: Vec<(u32, u32)>,
}

/// One side's queue pairs, before they are connected.
#[derive(Debug)]
pub(super) struct Local {
    lkey: u32,
    pub(super) introduction: Introduction,
}

/// Connected queue pairs.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) local_key: u32,
    /// Address of this side's first buffer.
    pub(super) local_base: u64,
    pub(super) remote_key: u32,
    /// Address of the other side's first buffer.
    pub(super) remote_base: u64,
    /// The queue pairs under load.
    working: Vec<QueuePairNumber>,
}

impl Connection {
    /// The queue pair under load with this index.
    pub(super) fn queue_pair(&self, flow: u32) -> QueuePairNumber {
        self.working[flow as usize]
    }

    /// The queue pairs under load.
    pub(super) fn queue_pairs(&self) -> &[QueuePairNumber] {
        &self.working
    }

    /// The receive request for a message of a queue pair under load.
    pub(super) fn receive_request(&self, load: &Load, message: MessageId) -> ReceiveRequest {
        let is_send = load.operation.is_send();
        let local = if is_send {
            let address = self.local_base + ServerMemory::receive_address(load, message);
            LocalBuffer { address, length: load.size, lkey: self.local_key }
        } else {
            LocalBuffer::default()
        };
        ReceiveRequest { id: message.tag(), local }
    }
}

/// Number of packets that a NIC can keep if they arrive out of order: 4 MiB of payload.
const REORDER_PACKETS: usize = 1_024;

/// The configuration of a card with this many connection ends: one, or two if the card is client and server
/// at once.
pub(super) fn card_config(load: &Load, ends: u32) -> CardConfig {
    let requests = load.depth + load.receive_depth();
    CardConfig {
        peers: [None; NODES_MAX],
        datagram_bytes: 1_472,
        transport: weft_rdma::Config {
            max_queue_pairs: (load.queue_pairs * ends) as usize,
            // The card itself uses one region.
            max_regions: 1 + ends as usize,
            completion_queue_depth: (requests * load.busy * ends) as usize,
            rpc_queue_depth: 1,
            max_queue_depth: requests,
            max_rd_atomic: OUTSTANDING_READS,
            window_packets: load.window_packets(),
            // Four acknowledgements per window are enough to keep the window open; more would only take time.
            acknowledge_interval: load.window_packets() / 4,
            reorder_packets: REORDER_PACKETS,
            read_parts: true,
            burst_packets: load.tuning.burst_packets,
            key_seed: load.seed,
            ..weft_rdma::Config::default()
        },
        region_bytes: payload::memory_bytes(load) as usize * ends as usize,
    }
}

/// Where one end of a connection is: side, machine, address in the machine's memory, and IP address.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndPlace {
    pub(super) side: Side,
    pub(super) machine: u32,
    pub(super) base: u64,
    pub(super) address: Ipv4Addr,
}

/// Creates one side's queue pairs and registers its memory.
pub(super) fn open(driver: &mut impl RdmaDriver, load: &Load, place: EndPlace) -> Local {
    let EndPlace { side, machine, base, address } = place;
    let bytes = payload::memory_bytes(load);
    let region = Region { target: payload::TARGET, ..Region::host(base, bytes, AccessFlags::ALL) };
    let keys = driver.register_region(region).expect("the configuration has room for it");
    let queue_pairs = (0..load.queue_pairs).map(|place| {
        let attributes = QueuePairAttributes {
            domain: ProtectionDomain(0),
            max_send_wr: load.depth,
            max_recv_wr: load.receive_depth(),
        };
        let number = driver.create_queue_pair(attributes).expect("the configuration has room for it");
        let end = u64::from(machine) << 1 | side as u64;
        let psn = draw(load.seed, end, place.into()) as u32 & 0xff_ffff;
        (number.0, psn)
    });
    let introduction = Introduction { address, rkey: keys.rkey, base, queue_pairs: queue_pairs.collect() };
    Local { lkey: keys.lkey, introduction }
}

/// Connects each queue pair with the peer's queue pair at the same index. Returns `None` if the peer has a
/// different number of queue pairs.
pub(super) fn connect(
    driver: &mut impl RdmaDriver,
    load: &Load,
    local: &Local,
    remote: &Introduction,
) -> Option<Connection> {
    let queue_pairs = &local.introduction.queue_pairs;
    if queue_pairs.len() != remote.queue_pairs.len() {
        return None;
    }
    for (&(number, sq_psn), &(remote_number, rq_psn)) in queue_pairs.iter().zip(&remote.queue_pairs) {
        let changes = [
            Modify::Init { access: AccessFlags::ALL },
            Modify::ReadyToReceive(ReadyToReceive {
                destination: remote.address.into(),
                destination_qp_num: QueuePairNumber(remote_number),
                rq_psn,
                path_mtu: load.path_mtu(),
                max_dest_rd_atomic: OUTSTANDING_READS,
                min_rnr_timer: 12,
            }),
            Modify::ReadyToSend(ReadyToSend {
                sq_psn,
                timeout: load.tuning.timeout(),
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: OUTSTANDING_READS,
            }),
        ];
        for change in changes {
            driver.modify_queue_pair(QueuePairNumber(number), change).ok()?;
        }
    }
    let working = (0..load.busy).map(|flow| QueuePairNumber(queue_pairs[load.place(flow)].0)).collect();
    Some(Connection {
        local_key: local.lkey,
        local_base: local.introduction.base,
        remote_key: remote.rkey,
        remote_base: remote.base,
        working,
    })
}
