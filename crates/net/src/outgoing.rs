//! Datagrams on their way from what composes them to a port.

use std::net::SocketAddrV4;

use crate::UdpPort;

/// Moves datagrams from a source to a port, without copying their bytes where the port can take the buffer. It keeps a
/// datagram that was taken from the source while the port was full.
#[derive(Debug, Default)]
pub struct Outgoing {
    to: Option<SocketAddrV4>,
    bytes: Vec<u8>,
}

impl Outgoing {
    /// Moves datagrams to the port, until there are no more or the port is full. `poll` replaces the content of its
    /// argument by the next datagram and returns the destination.
    pub fn transmit(&mut self, port: &mut UdpPort, poll: impl FnMut(&mut Vec<u8>) -> Option<SocketAddrV4>) {
        self.transmit_except(port, poll, |_, _| false);
    }

    /// As [`Outgoing::transmit`], except that datagrams which `take` takes need no port.
    pub(crate) fn transmit_except(
        &mut self,
        port: &mut UdpPort,
        mut poll: impl FnMut(&mut Vec<u8>) -> Option<SocketAddrV4>,
        mut take: impl FnMut(SocketAddrV4, &[u8]) -> bool,
    ) {
        loop {
            if self.to.is_none() {
                self.to = poll(&mut self.bytes);
            }
            let Some(to) = self.to else { return };
            if !take(to, &self.bytes) && !port.push_exchanged(to, &mut self.bytes) && port.queued() > 0 {
                return;
            }
            self.to = None;
        }
    }
}
