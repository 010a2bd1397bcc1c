//! Two connected transports and the wire between them.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::net::Ipv4Addr;

use weft_rdma::{Config, FlatMemory, Transport};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, Completion, LocalBuffer, Operation, PathMtu, QueuePairAttributes, QueuePairNumber,
    ReadyToReceive, ReadyToSend, Region, RegionKeys, RemoteAddress, WorkRequest,
};

/// Bytes of each target's memory.
pub const MEMORY_BYTES: usize = 0x2_0000;

/// One NIC whose memory is a single region of host memory.
pub struct Node {
    pub transport: Transport,
    pub memory: FlatMemory,
    pub address: Ipv4Addr,
    pub keys: RegionKeys,
    pub queue_pair: QueuePairNumber,
}

impl Node {
    pub fn new(name: u8, config: Config) -> Self {
        let mut transport = Transport::new(config);
        let keys = transport.register_region(Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL)).unwrap();
        let queue_pair = transport.create_queue_pair(QueuePairAttributes::default()).unwrap();
        let address = Ipv4Addr::new(10, 0, 0, name);
        Self { transport, memory: FlatMemory::new(MEMORY_BYTES), address, keys, queue_pair }
    }

    /// A local buffer in this node's memory.
    pub fn local(&self, address: u64, length: u32) -> LocalBuffer {
        LocalBuffer { address, length, lkey: self.keys.lkey }
    }

    /// An address in this node's memory, with the rkey that its peer uses.
    pub fn remote(&self, address: u64) -> RemoteAddress {
        RemoteAddress { address, rkey: self.keys.rkey }
    }

    pub fn post(&mut self, now: Instant, id: u64, operation: Operation, local: LocalBuffer) {
        self.transport.post_send(now, self.queue_pair, WorkRequest::new(id, operation, local)).unwrap();
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.transport.poll_completion()).collect()
    }
}

/// Parameters of a connection between two queue pairs.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub path_mtu: PathMtu,
    /// First PSN of each direction.
    pub psn: [u32; 2],
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub rd_atomic: u8,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            path_mtu: PathMtu::Bytes256,
            psn: [100, 500],
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            rd_atomic: 4,
        }
    }
}

/// Takes the queue pair `number` of `transport` to RTS.
pub fn connect(
    transport: &mut Transport,
    number: QueuePairNumber,
    peer: (Ipv4Addr, QueuePairNumber),
    own_psn: u32,
    peer_psn: u32,
    with: &Connection,
) {
    let receive = ReadyToReceive {
        destination: peer.0.into(),
        destination_qp_num: peer.1,
        rq_psn: peer_psn,
        path_mtu: with.path_mtu,
        max_dest_rd_atomic: with.rd_atomic,
        min_rnr_timer: with.min_rnr_timer,
    };
    let send = ReadyToSend {
        sq_psn: own_psn,
        timeout: with.timeout,
        retry_cnt: with.retry_cnt,
        rnr_retry: with.rnr_retry,
        max_rd_atomic: with.rd_atomic,
    };
    transport.connect(number, AccessFlags::ALL, receive, send).unwrap();
}

/// Two nodes whose queue pairs are connected.
pub fn connected(config: &Config, with: &Connection) -> [Node; 2] {
    connected_pair([config, config], with)
}

/// Two nodes whose queue pairs are connected, each with its own configuration.
pub fn connected_pair(configs: [&Config; 2], with: &Connection) -> [Node; 2] {
    let mut nodes = [Node::new(1, configs[0].clone()), Node::new(2, configs[1].clone())];
    let ends = [0, 1].map(|side| (nodes[side].address, nodes[side].queue_pair));
    for side in 0..2 {
        let number = ends[side].1;
        connect(&mut nodes[side].transport, number, ends[1 - side], with.psn[side], with.psn[1 - side], with);
    }
    nodes
}
