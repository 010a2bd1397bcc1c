//! A card behind UDP sockets: the operating system's IP stack in place of a frame port.

use std::net::{IpAddr, SocketAddrV4};

use weft_nic::Card;
use weft_time::Instant;
use weft_waist::Engine;
use weft_wire::{icrc, roce};

use crate::identification::Identifications;
use crate::{Address, Composed, Datagram, UdpPort};

/// No RoCE v2 packet of the largest path MTU is longer, with its ICRC: all extended headers together do not reach 64
/// bytes.
const LONGEST_PACKET: usize = 4_096 + 64;

/// Connects a [`Card`] with a port for RoCE v2 and one for Weft datagrams.
///
/// The ICRC covers addresses and the IP identification. The address is the one that peers send to. Of what is sent,
/// [`UdpPort`] tells the identification; of what arrives it is solved from the ICRC, and must be one that the peer may
/// have chosen (see the crate's documentation).
#[derive(Debug)]
pub struct CardPorts<E> {
    card: Card<E>,
    address: IpAddr,
    identifications: Identifications,
    outgoing: Outgoing,
    unreachable: u64,
}

/// Datagrams on their way to a port, of which one may have been taken from where it is from and not yet by the port.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    to: Option<SocketAddrV4>,
    bytes: Vec<u8>,
}

impl Outgoing {
    /// Moves what `poll` gives to the port, until there is no more or the port takes none.
    pub(crate) fn transmit(
        &mut self,
        port: &mut UdpPort,
        mut poll: impl FnMut(&mut Vec<u8>) -> Option<SocketAddrV4>,
    ) {
        loop {
            if self.to.is_none() {
                self.bytes.clear();
                self.to = poll(&mut self.bytes);
            }
            let Some(to) = self.to else { return };
            if !port.push(to, &self.bytes) && port.queued() > 0 {
                return;
            }
            self.to = None;
        }
    }
}

impl<E: Engine> CardPorts<E> {
    /// `address` is that of the ports, as peers send to it.
    pub fn new(card: Card<E>, address: impl Into<IpAddr>) -> Self {
        Self {
            card,
            address: address.into(),
            identifications: Identifications::new(),
            outgoing: Outgoing::default(),
            unreachable: 0,
        }
    }

    /// The card.
    pub fn card(&self) -> &Card<E> {
        &self.card
    }

    /// The card, to drive its host port.
    pub fn card_mut(&mut self) -> &mut Card<E> {
        &mut self.card
    }

    /// RoCE v2 packets that were dropped for their identification: with it the ICRC was right, but the peer should not
    /// have come to it yet. They are among the card's `icrc_errors`.
    pub fn identifications_refused(&self) -> u64 {
        self.identifications.refused()
    }

    /// RoCE v2 packets that could not be sent because their queue pair's peer has an address of the other family.
    pub fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// A datagram has arrived on the RoCE v2 port.
    pub fn receive_roce<A: Address>(&mut self, now: Instant, datagram: Datagram<'_, A>) {
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
                        self.card.receive_roce(now, source, packet);
                    }
                    _ => self.card.count_icrc_error(),
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                match (icrc::PathV6 { source, destination, source_port }).verify(datagram.bytes) {
                    Ok(packet) => self.card.receive_roce(now, source, packet),
                    Err(_) => self.card.count_icrc_error(),
                }
            }
            _ => self.card.count_icrc_error(),
        }
    }

    /// A datagram has arrived on the port of Weft datagrams.
    pub fn receive_datagram(&mut self, now: Instant, datagram: Datagram<'_>) {
        self.card.receive_datagram(now, datagram.from, datagram.bytes);
    }

    /// Moves Weft datagrams to their port until there are no more or the port takes none.
    pub fn transmit_datagrams(&mut self, port: &mut UdpPort) {
        self.outgoing.transmit(port, |datagram| self.card.poll_datagram(datagram));
    }

    /// Moves RoCE v2 packets to their port until there are no more or the port takes none.
    ///
    /// # Panics
    /// If the port's address is of another family than the card's.
    pub fn transmit_roce<A: Address>(&mut self, now: Instant, port: &mut UdpPort<A>) {
        let local = port.local_address();
        let (source, source_port) = (self.address, local.udp_port());
        assert_eq!(source.is_ipv4(), local.ip_address().is_ipv4(), "card and port are of one family");
        loop {
            let compose = |buffer: &mut Vec<u8>| {
                let start = buffer.len();
                loop {
                    let transmit = self.card.poll_roce(now, buffer)?;
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
