//! A card behind UDP sockets: the operating system's IP stack in place of a frame port.

use std::net::{IpAddr, SocketAddrV4};

use weft_nic::Card;
use weft_time::Instant;
use weft_waist::Engine;

use crate::{Address, Datagram, RocePath, UdpPort};

/// Connects a [`Card`] with a port for RoCE v2 and one for Weft datagrams.
///
/// The ICRC covers addresses and the IP identification. The address is the one that peers send to. Of what is sent,
/// [`UdpPort`] tells the identification; of what arrives it is solved from the ICRC, and must be one that the peer may
/// have chosen (see the crate's documentation).
#[derive(Debug)]
pub struct CardPorts<E> {
    card: Card<E>,
    path: RocePath,
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
    /// `address` is that of the ports, as peers send to it.
    pub fn new(card: Card<E>, address: impl Into<IpAddr>) -> Self {
        Self { card, path: RocePath::new(address.into()), outgoing: Outgoing::default() }
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
        self.path.identifications_refused()
    }

    /// RoCE v2 packets that could not be sent because their queue pair's peer has an address of the other family.
    pub fn unreachable(&self) -> u64 {
        self.path.unreachable()
    }

    /// A datagram has arrived on the RoCE v2 port.
    pub fn receive_roce<A: Address>(&mut self, now: Instant, datagram: Datagram<'_, A>) {
        self.path.receive(now, datagram, &mut self.card);
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
        self.path.transmit(now, port, &mut self.card);
    }
}
