//! Packets that wait for the hardware address of their neighbour.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The most packets that wait, over all neighbours.
pub(crate) const WAITING_MAX: usize = 64;

/// What a packet contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Datagram,
    /// A RoCE packet, from the base transport header on, without ICRC.
    Roce,
}

/// A packet without its Ethernet, IP and UDP headers.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) content: Content,
    pub(crate) source_port: u16,
    pub(crate) to: SocketAddrV4,
    pub(crate) type_of_service: u8,
    pub(crate) payload: Vec<u8>,
}

/// The waiting packets, in the order in which they were made.
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

    /// Adds a packet.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn keep(&mut self, packet: Outgoing) {
        assert!(!self.is_full(), "only what has room is kept");
        self.packets.push_back(packet);
    }

    /// Removes the oldest packet to `address`, and returns it.
    pub(crate) fn take(&mut self, address: Ipv4Addr) -> Option<Outgoing> {
        let position = self.packets.iter().position(|packet| *packet.to.ip() == address)?;
        self.packets.remove(position)
    }
}
