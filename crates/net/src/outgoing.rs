//! Datagrams on their way from what composes them to a port.

use std::net::SocketAddrV4;

use crate::{Address, UdpPort};

/// Moves datagrams from a source to a port, without copying their bytes where the port can take the buffer. It keeps a
/// datagram that was taken from the source while the port was full.
#[derive(Debug)]
pub struct Outgoing<A = SocketAddrV4> {
    to: Option<A>,
    bytes: Vec<u8>,
}

impl<A> Default for Outgoing<A> {
    fn default() -> Self {
        Self { to: None, bytes: Vec::new() }
    }
}

impl<A: Address> Outgoing<A> {
    /// Moves datagrams to the port, until there are no more or the port is full. `poll` replaces the content of its
    /// argument by the next datagram and returns the destination.
    pub fn transmit(&mut self, port: &mut UdpPort<A>, mut poll: impl FnMut(&mut Vec<u8>) -> Option<A>) {
        loop {
            if self.to.is_none() {
                self.to = poll(&mut self.bytes);
            }
            let Some(to) = self.to else { return };
            if !port.push_exchanged(to, &mut self.bytes) && port.queued() > 0 {
                return;
            }
            self.to = None;
        }
    }
}
