//! A card behind UDP sockets: the operating system's IP stack in place of a frame port.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use weft_nic::Card;
use weft_time::Instant;
use weft_waist::Engine;
use weft_wire::{icrc, roce};

use crate::identification::Identifications;
use crate::{Composed, Datagram, UdpPort};

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
    address: Ipv4Addr,
    identifications: Identifications,
    outgoing: Outgoing,
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
    /// `address` is that of the ports, as peers know it.
    pub fn new(card: Card<E>, address: Ipv4Addr) -> Self {
        Self { card, address, identifications: Identifications::new(), outgoing: Outgoing::default() }
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

    /// A datagram has arrived on the RoCE v2 port.
    pub fn receive_roce(&mut self, now: Instant, datagram: Datagram<'_>) {
        let source = *datagram.from.ip();
        let path = icrc::Path {
            source,
            destination: self.address,
            source_port: datagram.from.port(),
            identification: datagram.identification,
            dont_fragment: true,
        };
        match path.solve(datagram.bytes) {
            Ok((packet, identification))
                if self.identifications.accept(now, source, datagram.identification, identification) =>
            {
                self.card.receive_roce(now, source, packet);
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
    pub fn transmit_roce(&mut self, now: Instant, port: &mut UdpPort) {
        let source_port = port.local_address().port();
        let source = self.address;
        loop {
            let compose = |buffer: &mut Vec<u8>| {
                let start = buffer.len();
                let transmit = self.card.poll_roce(now, buffer)?;
                let IpAddr::V4(destination) = transmit.destination else {
                    buffer.truncate(start);
                    return None;
                };
                buffer.extend_from_slice(&[0; icrc::BYTES]);
                Some(SocketAddrV4::new(destination, roce::UDP_PORT))
            };
            let composed = port.push_composed(LONGEST_PACKET, compose, |to, identification, datagram| {
                let destination = *to.ip();
                let path =
                    icrc::Path { source, destination, source_port, identification, dont_fragment: true };
                let (packet, checksum) = datagram.split_at_mut(datagram.len() - icrc::BYTES);
                checksum.copy_from_slice(&path.icrc(packet).to_le_bytes());
            });
            if composed != Composed::Queued {
                return;
            }
        }
    }
}
