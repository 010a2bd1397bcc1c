//! Addresses and incarnations of the machines of simulated clusters, and their clocks.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_cluster::Incarnation;
use weft_sim::{LocalClock, Stream};
use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId};
use weft_wire::datagram;
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::Endpoint;

/// Bytes of UDP payload in one datagram: Ethernet's 1,500 less 28.
pub const DATAGRAM_BYTES: usize = 1_472;

/// Bytes of UDP payload in one datagram. PSP takes some of them if frames are sealed.
pub const fn datagram_bytes(sealed: bool) -> usize {
    if sealed { DATAGRAM_BYTES - weft_service::psp::OVERHEAD_BYTES } else { DATAGRAM_BYTES }
}

/// Number of coordinators of the keepers' register.
pub(crate) const COORDINATORS: usize = 3;

/// A machine of a cluster, which determines its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterHost {
    /// A node.
    Node(NodeId),
    /// The membership service, if it is one process.
    Membership,
    /// A keeper of the membership service.
    Keeper(u8),
    /// A coordinator of the keepers' register.
    Coordinator(u8),
    /// A machine of clients.
    Clients(u8),
}

impl ClusterHost {
    /// The node of this number.
    pub fn node(index: usize) -> Self {
        Self::Node(node_id(index))
    }

    /// The machines of the membership service: one process, or several keepers and their coordinators.
    pub fn membership(keepers: usize) -> Vec<Self> {
        let of = |count: usize, kind: fn(u8) -> Self| (0..count as u8).map(kind);
        if keepers == 1 {
            return vec![Self::Membership];
        }
        of(keepers, Self::Keeper).chain(of(COORDINATORS, Self::Coordinator)).collect()
    }

    /// Hardware address.
    pub const fn hardware(self) -> MacAddress {
        let [kind, number] = self.numbers();
        MacAddress([2, 0, 0, 0, kind, number])
    }

    /// IPv4 address.
    pub const fn address(self) -> Ipv4Addr {
        let [kind, number] = self.numbers();
        Ipv4Addr::new(10, 0, kind, 1 + number)
    }

    /// Name in plans and captures.
    pub fn name(self) -> String {
        match self {
            Self::Node(node) => node.to_string(),
            Self::Membership => "membership0".into(),
            Self::Keeper(index) => format!("keeper{index}"),
            Self::Coordinator(index) => format!("coordinator{index}"),
            Self::Clients(index) => format!("clients{index}"),
        }
    }

    const fn numbers(self) -> [u8; 2] {
        match self {
            Self::Node(node) => [0, node.index() as u8],
            Self::Membership => [1, 0],
            Self::Clients(index) => [2, index],
            Self::Keeper(index) => [3, index],
            Self::Coordinator(index) => [4, index],
        }
    }

    /// Endpoint at this UDP port.
    pub const fn endpoint(self, port: u16) -> Endpoint {
        Endpoint { hardware: self.hardware(), address: self.address(), port }
    }
}

/// The identifier of a node from its index.
///
/// # Panics
/// If the index is 16 or more.
pub fn node_id(node: usize) -> NodeId {
    NodeId::new(node).expect("a cluster has at most 16 nodes")
}

/// The first incarnation of the process of a node or of a keeper. `life` is the number of earlier starts. Each
/// process has a range of incarnations, because a node that must rejoin takes the next one.
pub fn incarnation(life: u32) -> Incarnation {
    Incarnation::new(1 + (u64::from(life) << 32)).expect("it is not zero")
}

/// The hardware address of a node.
pub fn hardware(node: usize) -> MacAddress {
    ClusterHost::node(node).hardware()
}

/// The address of a node.
pub fn address(node: usize) -> Ipv4Addr {
    ClusterHost::node(node).address()
}

/// Addresses at which the nodes of a cluster receive datagrams.
pub fn peers(nodes: usize) -> [Option<SocketAddrV4>; NODES_MAX] {
    std::array::from_fn(|node| (node < nodes).then(|| SocketAddrV4::new(address(node), datagram::UDP_PORT)))
}

/// The clock of a machine, with a random offset and a random drift of at most `drift_ppm` parts per million.
pub fn clock(seed: u64, machine: usize, drift_ppm: u32) -> LocalClock {
    let mut random = Stream::new(seed, "clock", machine as u64);
    let drift = random.between(0, 2 * u64::from(drift_ppm)) as i32 - drift_ppm as i32;
    LocalClock::new(Duration::from_us(random.below(1_000_000)), drift)
}
