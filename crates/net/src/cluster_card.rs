//! The card of a node between the node's ports: on this side addresses of the network, on that side those of
//! [`inside`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_nic::{Card, PayloadPlace};
use weft_node::NodeEngine;
use weft_rdma::Transmit;
use weft_time::Instant;

use crate::inside::{self, Clients, OWN_CLIENT};
use crate::{Datagram, Directory, Outgoing, RoceEnd, RocePath, UdpPort};

/// A card whose ports are those of Weft datagrams and of RoCE v2. The first places of a [`Directory`] are those of the
/// nodes, by number.
pub(crate) struct ClusterCard {
    card: Card<NodeEngine>,
    path: RocePath,
    outgoing: Outgoing<SocketAddr>,
    clients: Clients,
    nodes: usize,
    /// Number of datagrams and packets to peers without an address, or to clients that are not known any more.
    undelivered: u64,
}

impl ClusterCard {
    /// `address` is the address of the ports to which peers send. The peers of `card`, with itself `nodes`, have the
    /// addresses of [`inside::node`].
    pub(crate) fn new(card: Card<NodeEngine>, nodes: usize, address: IpAddr) -> Self {
        Self {
            card,
            path: RocePath::new(address),
            outgoing: Outgoing::default(),
            clients: Clients::default(),
            nodes,
            undelivered: 0,
        }
    }

    pub(crate) fn card(&self) -> &Card<NodeEngine> {
        &self.card
    }

    pub(crate) fn card_mut(&mut self) -> &mut Card<NodeEngine> {
        &mut self.card
    }

    /// Number of datagrams and packets dropped because their destination has no address.
    pub(crate) fn undelivered(&self) -> u64 {
        self.undelivered
    }

    /// Processes a datagram of the peer `node`, or of a client, that has arrived on the port of Weft datagrams.
    pub(crate) fn receive_datagram(
        &mut self,
        now: Instant,
        node: Option<usize>,
        datagram: Datagram<'_, SocketAddr>,
    ) {
        let from = match node {
            Some(node) => Some(inside::node(node)),
            None => self.clients.inside(datagram.from),
        };
        if let Some(from) = from {
            self.card.receive_datagram(now, from, datagram.bytes);
        }
    }

    /// Processes a datagram of the node's own client.
    pub(crate) fn receive_own(&mut self, now: Instant, bytes: &[u8]) {
        self.card.receive_datagram(now, OWN_CLIENT, bytes);
    }

    /// Moves Weft datagrams to their port until there are no more or the port is full. `take` gets those for the node's
    /// own client.
    pub(crate) fn transmit_datagrams(
        &mut self,
        port: &mut UdpPort<SocketAddr>,
        directory: &Directory,
        mut take: impl FnMut(&[u8]),
    ) {
        let Self { card, outgoing, clients, undelivered, .. } = self;
        outgoing.transmit(port, |bytes| {
            loop {
                let to = card.poll_datagram(bytes)?;
                if to == OWN_CLIENT {
                    take(bytes);
                    continue;
                }
                let address = match inside::node_at(*to.ip()) {
                    Some(node) => directory.address(node),
                    None => clients.outside(to),
                };
                if address.is_some() {
                    return address;
                }
                *undelivered += 1;
            }
        });
    }

    /// Processes a datagram that has arrived on the RoCE v2 port.
    pub(crate) fn receive_roce(
        &mut self,
        now: Instant,
        directory: &Directory,
        datagram: Datagram<'_, SocketAddr>,
    ) {
        let Self { card, path, undelivered, nodes, .. } = self;
        path.receive(now, datagram, &mut Translated { card, directory, nodes: *nodes, undelivered });
    }

    /// Moves RoCE v2 packets to their port until there are no more or the port is full.
    pub(crate) fn transmit_roce(
        &mut self,
        now: Instant,
        directory: &Directory,
        port: &mut UdpPort<SocketAddr>,
    ) {
        let Self { card, path, undelivered, nodes, .. } = self;
        path.transmit(now, port, &mut Translated { card, directory, nodes: *nodes, undelivered });
    }
}

/// A card for packets with addresses of the network.
struct Translated<'a> {
    card: &'a mut Card<NodeEngine>,
    directory: &'a Directory,
    nodes: usize,
    undelivered: &'a mut u64,
}

impl RoceEnd for Translated<'_> {
    fn receive_roce(&mut self, now: Instant, from: IpAddr, packet: &[u8]) {
        // All queue pairs are connected to peers; the transport counts a packet of anyone else.
        let node = self.directory.find_host(from).filter(|node| *node < self.nodes);
        let from = node.map_or(Ipv4Addr::UNSPECIFIED, |node| *inside::node(node).ip());
        self.card.receive_roce(now, from, packet);
    }

    fn count_icrc_error(&mut self) {
        self.card.count_icrc_error();
    }

    fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, place) = self.poll_roce_headers(now, out)?;
        if let Some(place) = place {
            out.extend_from_slice(self.card.payload(place));
        }
        Some(transmit)
    }

    fn poll_roce_headers(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(Transmit, Option<PayloadPlace>)> {
        let start = out.len();
        loop {
            let (transmit, place) = self.card.poll_roce_headers(now, out)?;
            let IpAddr::V4(inside) = transmit.destination else { unreachable!("peers have such addresses") };
            let node = inside::node_at(inside).expect("all queue pairs are connected to peers");
            if let Some(address) = self.directory.address(node) {
                return Some((Transmit { destination: address.ip(), ..transmit }, place));
            }
            *self.undelivered += 1;
            out.truncate(start);
        }
    }

    fn payload(&self, place: PayloadPlace) -> &[u8] {
        self.card.payload(place)
    }
}
