//! Packets that wait until the hardware address of their neighbour is known.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Packets that wait, over all neighbours, at most.
pub(crate) const WAITING_MAX: usize = 64;

/// Form of a packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Datagram,
    /// From the base transport header on, without ICRC.
    Roce,
}

/// A packet without its headers below UDP.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) content: Content,
    pub(crate) source_port: u16,
    pub(crate) to: SocketAddrV4,
    pub(crate) type_of_service: u8,
    pub(crate) payload: Vec<u8>,
}

/// The packets, in the order in which they were made.
#[derive(Debug)]
pub(crate) struct Waiting {
    packets: VecDeque<Outgoing>,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { packets: VecDeque::with_capacity(WAITING_MAX) }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() == WAITING_MAX
    }

    /// Keeps a packet.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn keep(&mut self, packet: Outgoing) {
        assert!(!self.is_full(), "only what has room is kept");
        self.packets.push_back(packet);
    }

    /// Takes out the oldest packet to `address`.
    pub(crate) fn take(&mut self, address: Ipv4Addr) -> Option<Outgoing> {
        let position = self.packets.iter().position(|packet| *packet.to.ip() == address)?;
        self.packets.remove(position)
    }
}
