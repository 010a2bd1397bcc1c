//! The queue pairs of engines, which are set up alike on every card of a cluster.
//!
//! An engine that writes into its peers' memory needs two queue pairs for each peer and each *purpose* (a log, the
//! heartbeats, the data of an object): one on which it makes requests, and one on which the peer does. So the
//! peer's access rights can be changed without affecting the engine's own requests. All cards open them in the
//! same order, with the same numbers and keys. So nodes need not exchange anything before they are connected.

use std::net::Ipv4Addr;

use weft_nic::{Card, Peering, RdmaDriver};
use weft_rdt::replica::ReplicaParameters;
use weft_smr::Wiring;
use weft_smr::log::{GROUP, LogParameters, Wire};
use weft_smr::message::PULSE;
use weft_verbs::{
    AccessFlags, ApiError, PathMtu, QueuePairAttributes, QueuePairNumber, Region, RegionKeys, Target,
};
use weft_waist::{Engine, engine_address};

/// Purpose of a queue pair of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The group to which the queue pair belongs, by the engine's numbering.
    pub group: u8,
    /// The most requests that the engine has outstanding on such a queue pair.
    pub posts: u32,
}

impl Purpose {
    /// Purposes of the queue pairs of a replicated log.
    pub fn of_log(log: &LogParameters) -> Vec<Self> {
        let posts = log.group.posts_max() as u32;
        [GROUP, PULSE].map(|group| Self { group, posts }).to_vec()
    }

    /// Purposes of the queue pairs of a replicated object.
    pub fn of_object(object: &ReplicaParameters) -> Vec<Self> {
        let purpose = |group| Self { group, posts: object.posts_max(group) as u32 };
        object.purposes().into_iter().map(purpose).collect()
    }
}

/// Parameters with which queue pairs are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// The most payload bytes in a packet.
    pub path_mtu: PathMtu,
    /// Code of the local acknowledgement time-out, see [`weft_rdma::local_ack_timeout`].
    pub timeout: u8,
    /// Retransmissions after a time-out, 0 to 7, before a request fails.
    pub retry_cnt: u8,
    /// READs and atomics that may be outstanding, in each direction.
    pub max_rd_atomic: u8,
}

/// Where an engine's memory is, for verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineMemory {
    /// The region target that contains the memory.
    pub target: Target,
    /// Address of the first byte in the target.
    pub address: u64,
    /// Length of the memory in bytes.
    pub bytes: u64,
    /// The slot of the engine that a WRITE into the calling region calls; `None` if it calls no engine.
    pub calls: Option<u8>,
}

impl EngineMemory {
    /// The memory of the engine in a card's slot.
    pub fn on_card(slot: u8, bytes: usize) -> Self {
        Self { target: Target::Hbm, address: engine_address(slot, 0), bytes: bytes as u64, calls: Some(slot) }
    }
}

/// The queue pairs and regions that an engine has on every card of a cluster.
#[derive(Clone, Debug)]
pub struct Connections {
    nodes: usize,
    purposes: Vec<Purpose>,
    /// Queue pair numbers, by purpose, then by other node: one for the node's own requests, one for those of the
    /// other.
    numbers: Vec<QueuePairNumber>,
    address: u64,
    plain: RegionKeys,
    calling: RegionKeys,
}

impl Connections {
    /// Sets up the engine in a slot of a card, whose memory has the given number of bytes: opens its queue pairs
    /// and connects them. Returns the connections for the engine's Wire calls.
    ///
    /// # Errors
    /// The card has too few queue pairs or regions.
    pub fn wire<E: Engine>(
        card: &mut Card<E>,
        (slot, memory_bytes): (u8, usize),
        (node, nodes): (usize, usize),
        purposes: &[Purpose],
        connection: ConnectionParameters,
        address: impl Fn(usize) -> Ipv4Addr,
    ) -> Result<Vec<Wire>, ApiError> {
        let memory = EngineMemory::on_card(slot, memory_bytes);
        let connections = Self::open(card, nodes, purposes, memory)?;
        for (queue_pair, peering) in connections.peerings(node, connection, address) {
            card.assign(queue_pair, slot, peering);
        }
        Ok(connections.wires(node, connection))
    }

    /// Number of queue pairs that [`Connections::open`] creates.
    pub const fn queue_pairs(nodes: usize, purposes: usize) -> usize {
        2 * nodes.saturating_sub(1) * purposes
    }

    /// Creates the queue pairs of an engine on a card and registers its memory. All cards of the cluster must make
    /// the same calls in the same order.
    ///
    /// # Errors
    /// The card has too few queue pairs or regions.
    pub fn open(
        driver: &mut impl RdmaDriver,
        nodes: usize,
        purposes: &[Purpose],
        memory: EngineMemory,
    ) -> Result<Self, ApiError> {
        let mut numbers = Vec::with_capacity(Self::queue_pairs(nodes, purposes.len()));
        for purpose in purposes {
            for _ in 0..Self::queue_pairs(nodes, 1) {
                let attributes = QueuePairAttributes {
                    max_send_wr: purpose.posts,
                    max_recv_wr: 1,
                    ..QueuePairAttributes::default()
                };
                numbers.push(driver.create_queue_pair(attributes)?);
            }
        }
        let region = Region {
            target: memory.target,
            address: memory.address,
            ..Region::host(0, memory.bytes, AccessFlags::ALL)
        };
        let plain = driver.register_region(region)?;
        let calling = driver.register_region(Region { rpc: memory.calls, ..region })?;
        Ok(Self { nodes, purposes: purposes.to_vec(), numbers, address: memory.address, plain, calling })
    }

    /// The queue pair at `node`, for the purpose of this index and towards `other`, on which requests are made by
    /// `node` (`own_requests`) or by the other.
    fn number(&self, purpose: usize, node: usize, other: usize, own_requests: bool) -> QueuePairNumber {
        let others = self.nodes - 1;
        let place = if other < node { other } else { other - 1 };
        self.numbers[2 * (purpose * others + place) + usize::from(!own_requests)]
    }

    /// The queue pairs of `node`, and the peer's queue pair to which each is connected; `address` returns the
    /// address of a node.
    pub fn peerings(
        &self,
        node: usize,
        connection: ConnectionParameters,
        address: impl Fn(usize) -> Ipv4Addr,
    ) -> Vec<(QueuePairNumber, Peering)> {
        let mut peerings = Vec::with_capacity(self.numbers.len());
        for purpose in 0..self.purposes.len() {
            for other in (0..self.nodes).filter(|other| *other != node) {
                for own_requests in [true, false] {
                    let peering = Peering {
                        destination: address(other),
                        destination_qp_num: self.number(purpose, other, node, !own_requests),
                        path_mtu: connection.path_mtu,
                        timeout: connection.timeout,
                        retry_cnt: connection.retry_cnt,
                        max_rd_atomic: connection.max_rd_atomic,
                    };
                    peerings.push((self.number(purpose, node, other, own_requests), peering));
                }
            }
        }
        peerings
    }

    /// The connections for the Wire calls to the engine of `node`.
    pub fn wires(&self, node: usize, connection: ConnectionParameters) -> Vec<Wire> {
        let mut wires = Vec::new();
        for (index, purpose) in self.purposes.iter().enumerate() {
            for peer in (0..self.nodes).filter(|peer| *peer != node) {
                let wiring = Wiring {
                    request: self.number(index, node, peer, true),
                    respond: self.number(index, node, peer, false),
                    local_address: self.address,
                    lkey: self.plain.lkey,
                    remote_address: self.address,
                    rkey: self.plain.rkey,
                    call_rkey: self.calling.rkey,
                    path_mtu: connection.path_mtu.bytes(),
                };
                wires.push(Wire { group: purpose.group, peer, wiring });
            }
        }
        wires
    }
}

#[cfg(test)]
mod tests {
    use weft_nic::{Card, CardConfig, NoEngine};
    use weft_waist::NODES_MAX;

    use super::*;

    const CONNECTION: ConnectionParameters =
        ConnectionParameters { path_mtu: PathMtu::Bytes1024, timeout: 8, retry_cnt: 7, max_rd_atomic: 4 };
    const PURPOSES: [Purpose; 2] = [Purpose { group: 0, posts: 8 }, Purpose { group: 255, posts: 4 }];

    fn open(nodes: usize) -> Connections {
        let mut card: Card<NoEngine> = Card::new(
            CardConfig {
                peers: [None; NODES_MAX],
                datagram_bytes: 1_472,
                transport: weft_rdma::Config::default(),
                region_bytes: 4_096,
            },
            Vec::new(),
        );
        let memory = EngineMemory { target: Target::Hbm, address: 0, bytes: 4_096, calls: None };
        Connections::open(&mut card, nodes, &PURPOSES, memory).unwrap()
    }

    /// Each request queue pair is connected to the peer's queue pair for responses, with matching PSNs.
    #[test]
    fn both_ends_of_each_connection_name_each_other() {
        for nodes in 1..=5 {
            let connections = open(nodes);
            let address = |node: usize| Ipv4Addr::new(10, 0, 0, node as u8);
            let ends: Vec<_> =
                (0..nodes).map(|node| connections.peerings(node, CONNECTION, address)).collect();
            for (node, own) in ends.iter().enumerate() {
                assert_eq!(own.len(), Connections::queue_pairs(nodes, PURPOSES.len()));
                for (number, peering) in own {
                    let peer = usize::from(peering.destination.octets()[3]);
                    let back = ends[peer].iter().find(|(other, _)| *other == peering.destination_qp_num);
                    let (_, back) = back.expect("the peer has this queue pair");
                    assert_eq!((back.destination, back.destination_qp_num), (address(node), *number));
                }
                for wire in connections.wires(node, CONNECTION) {
                    let destination = |number: QueuePairNumber| {
                        own.iter().find(|(other, _)| *other == number).map(|(_, peering)| *peering).unwrap()
                    };
                    let theirs = connections.wires(wire.peer, CONNECTION);
                    let theirs = theirs.iter().find(|other| other.peer == node && other.group == wire.group);
                    let theirs = theirs.unwrap().wiring;
                    assert_eq!(destination(wire.wiring.request).destination_qp_num, theirs.respond);
                    assert_eq!(destination(wire.wiring.respond).destination_qp_num, theirs.request);
                }
            }
        }
    }
}
