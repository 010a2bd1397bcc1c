//! Where packets go as they are made.

use weft_wire::roce::Packet;

/// Takes packets as they are made.
pub trait PacketSink {
    /// Takes one, which has no ICRC yet.
    fn put(&mut self, packet: &Packet<'_>);

    /// Bytes of all packets that were taken, from the base transport header to the pad bytes.
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
