//! A card behind UDP sockets: the operating system's IP stack in place of a frame port.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::Card;
use weft_time::Instant;
use weft_waist::Engine;
use weft_wire::{icrc, roce};

use crate::{Composed, Datagram, UdpPort};

/// No RoCE v2 packet of the largest path MTU is longer, with its ICRC: all extended headers together do not reach 64
/// bytes.
const LONGEST_PACKET: usize = 4_096 + 64;

/// Connects a [`Card`] with a port for RoCE v2 and one for Weft datagrams.
///
/// The ICRC covers addresses and the IP identification. Both are known here: the address is the one that peers send to,
/// and [`UdpPort`] tells the identification.
#[derive(Debug)]
pub struct CardPorts<E> {
    card: Card<E>,
    address: Ipv4Addr,
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
        Self { card, address, outgoing: Outgoing::default() }
    }

    /// The card.
    pub fn card(&self) -> &Card<E> {
        &self.card
    }

    /// The card, to drive its host port.
    pub fn card_mut(&mut self) -> &mut Card<E> {
        &mut self.card
    }

    /// A datagram has arrived on the RoCE v2 port.
    ///
    /// The ICRC covers the UDP source port too: every Weft node sends from the port that it listens on.
    pub fn receive_roce(&mut self, now: Instant, datagram: Datagram<'_>) {
        let path = icrc::Path {
            source: *datagram.from.ip(),
            destination: self.address,
            source_port: datagram.from.port(),
            identification: datagram.identification,
            dont_fragment: true,
        };
        match path.verify(datagram.bytes) {
            Ok(packet) => self.card.receive_roce(now, *datagram.from.ip(), packet),
            Err(_) => self.card.count_icrc_error(),
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
                let transmit = self.card.poll_roce(now, buffer)?;
                buffer.extend_from_slice(&[0; icrc::BYTES]);
                Some(SocketAddrV4::new(transmit.destination, roce::UDP_PORT))
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
