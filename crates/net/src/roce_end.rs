//! What sends and receives RoCE v2 packets, between the IP stack of the operating system and a UDP socket.

use std::net::IpAddr;

use weft_nic::Card;
use weft_rdma::Transmit;
use weft_time::Instant;
use weft_waist::Engine;
use weft_wire::{icrc, roce};

use crate::identification::Identifications;
use crate::{Address, Composed, Datagram, UdpPort};

/// No RoCE v2 packet of the largest path MTU is longer, with its ICRC: all extended headers together do not reach 64
/// bytes.
const LONGEST_PACKET: usize = 4_096 + 64;

/// One end of a RoCE v2 path: a card, or what else holds queue pairs.
pub trait RoceEnd {
    /// Takes a packet, from its base transport header to its last pad byte, whose ICRC was right.
    fn receive_roce(&mut self, now: Instant, from: IpAddr, packet: &[u8]);

    /// Counts a packet whose ICRC was wrong.
    fn count_icrc_error(&mut self);

    /// Appends the next packet to `out`, without its ICRC, and says where it goes; `None` if there is none.
    fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit>;
}

impl<E: Engine> RoceEnd for Card<E> {
    fn receive_roce(&mut self, now: Instant, from: IpAddr, packet: &[u8]) {
        Card::receive_roce(self, now, from, packet);
    }

    fn count_icrc_error(&mut self) {
        Card::count_icrc_error(self);
    }

    fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        Card::poll_roce(self, now, out)
    }
}

/// Connects a [`RoceEnd`] with a [`UdpPort`]: computes ICRCs, and checks those of what arrives.
#[derive(Debug)]
pub struct RocePath {
    address: IpAddr,
    identifications: Identifications,
    unreachable: u64,
}

impl RocePath {
    /// `address` is that of the port, as peers send to it.
    pub fn new(address: IpAddr) -> Self {
        Self { address, identifications: Identifications::new(), unreachable: 0 }
    }

    /// Packets that were dropped for their identification: with it the ICRC was right, but the peer should not have
    /// come to it yet.
    pub fn identifications_refused(&self) -> u64 {
        self.identifications.refused()
    }

    /// Packets that could not be sent because their queue pair's peer has an address of the other family.
    pub fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// Hands a datagram to `end` if its ICRC is right.
    pub fn receive<A: Address>(&mut self, now: Instant, datagram: Datagram<'_, A>, end: &mut impl RoceEnd) {
        let source_port = datagram.from.udp_port();
        match (datagram.from.ip_address(), self.address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let identification = datagram.identification;
                let path =
                    icrc::Path { source, destination, source_port, identification, dont_fragment: true };
                match path.solve(datagram.bytes) {
                    Ok((packet, solved))
                        if self.identifications.accept(now, source, identification, solved) =>
                    {
                        end.receive_roce(now, source.into(), packet);
                    }
                    _ => end.count_icrc_error(),
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                match (icrc::PathV6 { source, destination, source_port }).verify(datagram.bytes) {
                    Ok(packet) => end.receive_roce(now, source.into(), packet),
                    Err(_) => end.count_icrc_error(),
                }
            }
            _ => end.count_icrc_error(),
        }
    }

    /// Moves packets of `end` to the port until there are no more or the port takes none.
    ///
    /// # Panics
    /// If the port's address is of another family than this path's.
    pub fn transmit<A: Address>(&mut self, now: Instant, port: &mut UdpPort<A>, end: &mut impl RoceEnd) {
        let local = port.local_address();
        let (source, source_port) = (self.address, local.udp_port());
        assert_eq!(source.is_ipv4(), local.ip_address().is_ipv4(), "both ends of a path are of one family");
        loop {
            let compose = |buffer: &mut Vec<u8>| {
                let start = buffer.len();
                loop {
                    let transmit = end.poll_roce(now, buffer)?;
                    if let Some(to) = local.reach(transmit.destination, roce::UDP_PORT) {
                        buffer.extend_from_slice(&[0; icrc::BYTES]);
                        return Some(to);
                    }
                    self.unreachable += 1;
                    buffer.truncate(start);
                }
            };
            let composed = port.push_composed(LONGEST_PACKET, compose, |to, identification, datagram| {
                let (packet, checksum) = datagram.split_at_mut(datagram.len() - icrc::BYTES);
                let icrc = match (source, to.ip_address()) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        let dont_fragment = true;
                        icrc::Path { source, destination, source_port, identification, dont_fragment }
                            .icrc(packet)
                    }
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        icrc::PathV6 { source, destination, source_port }.icrc(packet)
                    }
                    _ => unreachable!("a port sends to addresses of its own family"),
                };
                checksum.copy_from_slice(&icrc.to_le_bytes());
            });
            if composed != Composed::Queued {
                return;
            }
        }
    }
}
