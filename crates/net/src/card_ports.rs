//! A card behind UDP sockets: the operating system's IP stack in place of a frame port.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::Card;
use weft_time::Instant;
use weft_waist::Engine;
use weft_wire::{icrc, roce};

use crate::{Datagram, UdpPort};

/// Connects a [`Card`] with a port for RoCE v2 and one for Weft datagrams.
///
/// The ICRC covers addresses and the IP identification. Both are known here: the address is the one that peers send to,
/// and [`UdpPort`] tells the identification.
#[derive(Debug)]
pub struct CardPorts<E> {
    card: Card<E>,
    address: Ipv4Addr,
    /// What has been taken from the card and not yet by its port: at most one of each kind.
    datagram: Option<SocketAddrV4>,
    datagram_bytes: Vec<u8>,
    packet: Option<Ipv4Addr>,
    packet_bytes: Vec<u8>,
}

impl<E: Engine> CardPorts<E> {
    /// `address` is that of the ports, as peers know it.
    pub fn new(card: Card<E>, address: Ipv4Addr) -> Self {
        Self {
            card,
            address,
            datagram: None,
            datagram_bytes: Vec::new(),
            packet: None,
            packet_bytes: Vec::new(),
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
        loop {
            if self.datagram.is_none() {
                self.datagram_bytes.clear();
                self.datagram = self.card.poll_datagram(&mut self.datagram_bytes);
            }
            let Some(to) = self.datagram else { return };
            if !port.push(to, &self.datagram_bytes) && port.queued() > 0 {
                return;
            }
            self.datagram = None;
        }
    }

    /// Moves RoCE v2 packets to their port until there are no more or the port takes none.
    pub fn transmit_roce(&mut self, now: Instant, port: &mut UdpPort) {
        let source_port = port.local_address().port();
        loop {
            if self.packet.is_none() {
                self.packet_bytes.clear();
                self.packet =
                    self.card.poll_roce(now, &mut self.packet_bytes).map(|transmit| transmit.destination);
            }
            let Some(destination) = self.packet else { return };
            let to = SocketAddrV4::new(destination, roce::UDP_PORT);
            let (source, packet) = (self.address, &self.packet_bytes);
            let pushed = port.push_with(to, packet.len() + icrc::BYTES, |identification, buffer| {
                let path =
                    icrc::Path { source, destination, source_port, identification, dont_fragment: true };
                let (content, checksum) = buffer.split_at_mut(packet.len());
                content.copy_from_slice(packet);
                checksum.copy_from_slice(&path.icrc(packet).to_le_bytes());
            });
            if !pushed && port.queued() > 0 {
                return;
            }
            self.packet = None;
        }
    }
}
