//! Sends and receives RoCE v2 packets over a UDP socket, on the operating system's IP stack.

use std::net::IpAddr;

use weft_nic::{Card, PayloadPlace};
use weft_rdma::Transmit;
use weft_time::Instant;
use weft_waist::Engine;
use weft_wire::{icrc, roce};

use crate::identification::Identifications;
use crate::port::LeftOut;
use crate::{Address, Composed, Datagram, UdpPort};

/// Upper bound of a RoCE v2 packet of the largest path MTU, with its ICRC: all headers together have fewer than 64
/// bytes.
const LONGEST_PACKET: usize = 4_096 + 64;

/// The owner of queue pairs at one end of a RoCE v2 path: a card, for example.
pub trait RoceEnd {
    /// Processes a packet, from its base transport header to its last pad byte, whose ICRC was correct.
    fn receive_roce(&mut self, now: Instant, from: IpAddr, packet: &[u8]);

    /// Counts a packet whose ICRC was wrong.
    fn count_icrc_error(&mut self);

    /// Appends the next packet to `out`, without its ICRC, and returns its destination; `None` if there is none.
    fn poll_roce(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit>;

    /// As [`RoceEnd::poll_roce`], but the payload of a long packet, without pad bytes, may stay in its memory.
    /// [`RoceEnd::payload`] then returns it, until a method other than these is called.
    fn poll_roce_headers(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(Transmit, Option<PayloadPlace>)> {
        Some((self.poll_roce(now, out)?, None))
    }

    /// A payload that [`RoceEnd::poll_roce_headers`] has left in its memory.
    fn payload(&self, _place: PayloadPlace) -> &[u8] {
        unreachable!("no payload was left where it lies")
    }
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

    fn poll_roce_headers(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(Transmit, Option<PayloadPlace>)> {
        Card::poll_roce_headers(self, now, out)
    }

    fn payload(&self, place: PayloadPlace) -> &[u8] {
        Card::payload(self, place)
    }
}

/// Connects a [`RoceEnd`] with a [`UdpPort`]: computes the ICRCs of outgoing packets, and checks those of incoming
/// ones.
#[derive(Debug)]
pub struct RocePath {
    address: IpAddr,
    identifications: Identifications,
    unreachable: u64,
    /// Payloads that the port is about to send from their memory.
    payloads: Vec<PayloadPlace>,
}

impl RocePath {
    /// `address` is the address of the port to which peers send.
    pub fn new(address: IpAddr) -> Self {
        let identifications = Identifications::new();
        Self { address, identifications, unreachable: 0, payloads: Vec::new() }
    }

    /// Number of packets dropped because of their identification: the ICRC was correct with it, but the peer
    /// cannot have reached it yet.
    pub fn identifications_refused(&self) -> u64 {
        self.identifications.refused()
    }

    /// Number of packets that could not be sent because the peer of their queue pair has an address of the other
    /// family.
    pub fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// Passes a datagram to `end` if its ICRC is correct.
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

    /// Moves packets of `end` to the port until there are no more or the port is full.
    ///
    /// # Panics
    /// If the port's address is of another family than this path's.
    pub fn transmit<A: Address, E: RoceEnd>(&mut self, now: Instant, port: &mut UdpPort<A>, end: &mut E) {
        let local = port.local_address();
        let (source, source_port) = (self.address, local.udp_port());
        assert_eq!(source.is_ipv4(), local.ip_address().is_ipv4(), "both ends of a path are of one family");
        let (mut context, is_sealed) = ((end, None), port.is_sealed());
        loop {
            let compose = |(end, payload): &mut (&mut E, Option<PayloadPlace>), buffer: &mut Vec<u8>| {
                let start = buffer.len();
                loop {
                    // A payload is sealed where the datagram is.
                    let (transmit, place) = match is_sealed {
                        true => (end.poll_roce(now, buffer)?, None),
                        false => end.poll_roce_headers(now, buffer)?,
                    };
                    if let Some(to) = local.reach(transmit.destination, roce::UDP_PORT) {
                        *payload = place;
                        let left_out = place.map(|place| LeftOut {
                            place: buffer.len() - start,
                            length: place.bytes(),
                            number: self.payloads.len(),
                        });
                        self.payloads.extend(place);
                        buffer.extend_from_slice(&[0; icrc::BYTES]);
                        return Some((to, left_out));
                    }
                    self.unreachable += 1;
                    buffer.truncate(start);
                }
            };
            let complete = |(end, payload): &mut (&mut E, Option<PayloadPlace>),
                            to: A,
                            identification,
                            datagram: &mut [u8]| {
                let (headers, checksum) = datagram.split_at_mut(datagram.len() - icrc::BYTES);
                let payload = payload.map_or(&[][..], |place| end.payload(place));
                let icrc = match (source, to.ip_address()) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        let dont_fragment = true;
                        icrc::Path { source, destination, source_port, identification, dont_fragment }
                            .icrc_of_parts(headers, payload)
                    }
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        icrc::PathV6 { source, destination, source_port }.icrc_of_parts(headers, payload)
                    }
                    _ => unreachable!("a port sends to addresses of its own family"),
                };
                checksum.copy_from_slice(&icrc.to_le_bytes());
            };
            let composed = port.push_parts(LONGEST_PACKET, &mut context, compose, complete);
            if composed == Composed::Queued {
                continue;
            }
            let had_parts = port.has_parts();
            if had_parts {
                // An error that makes the socket unusable occurs again in the next flush.
                let _ = port.flush_parts(|number| context.0.payload(self.payloads[number]));
                self.payloads.clear();
            }
            if composed == Composed::Nothing || !had_parts {
                return;
            }
        }
    }
}
