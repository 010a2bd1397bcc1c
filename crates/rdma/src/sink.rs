//! The destination of packets that the transport makes.

use weft_wire::roce::Packet;

/// A destination of packets.
pub trait PacketSink {
    /// Takes a packet, which has no ICRC yet.
    fn put(&mut self, packet: &Packet<'_>);

    /// Total bytes of all packets so far, from the base transport header to the pad bytes.
    fn bytes(&self) -> usize;
}

/// Appends each packet, from its base transport header to its pad bytes.
impl PacketSink for Vec<u8> {
    #[inline]
    fn put(&mut self, packet: &Packet<'_>) {
        packet.emit(self);
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.len()
    }
}
