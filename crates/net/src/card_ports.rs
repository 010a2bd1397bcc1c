//! A card behind a UDP socket: it uses the operating system's IP stack instead of a port for frames.

use std::net::IpAddr;

use weft_nic::Card;
use weft_time::Instant;
use weft_waist::Engine;

use crate::{Address, Datagram, RocePath, UdpPort};

/// Connects a [`Card`] with a port for RoCE v2.
///
/// The ICRC covers the addresses and the IP identification, which a UDP socket does not show. The local address is
/// the one to which peers send. For outgoing packets, [`UdpPort`] reports the identification that they will carry.
/// For incoming packets it is solved from the ICRC, and must be one that the peer may have chosen (see the crate's
/// documentation).
#[derive(Debug)]
pub struct CardPorts<E> {
    card: Card<E>,
    path: RocePath,
}

impl<E: Engine> CardPorts<E> {
    /// `address` is the address of the port to which peers send.
    pub fn new(card: Card<E>, address: impl Into<IpAddr>) -> Self {
        Self { card, path: RocePath::new(address.into()) }
    }

    /// The card, to inspect its state.
    pub fn card(&self) -> &Card<E> {
        &self.card
    }

    /// The card, for access to its host port.
    pub fn card_mut(&mut self) -> &mut Card<E> {
        &mut self.card
    }

    /// Number of RoCE v2 packets dropped because of their identification: the ICRC was correct with it, but the
    /// peer cannot have reached it yet. The card's `icrc_errors` include them.
    pub fn identifications_refused(&self) -> u64 {
        self.path.identifications_refused()
    }

    /// Number of RoCE v2 packets that could not be sent because the peer of their queue pair has an address of the
    /// other family.
    pub fn unreachable(&self) -> u64 {
        self.path.unreachable()
    }

    /// Processes a datagram that has arrived on the RoCE v2 port.
    pub fn receive_roce<A: Address>(&mut self, now: Instant, datagram: Datagram<'_, A>) {
        self.path.receive(now, datagram, &mut self.card);
    }

    /// Moves RoCE v2 packets to their port until there are no more or the port is full.
    ///
    /// # Panics
    /// If the port's address is of another family than the card's.
    pub fn transmit_roce<A: Address>(&mut self, now: Instant, port: &mut UdpPort<A>) {
        self.path.transmit(now, port, &mut self.card);
    }
}
