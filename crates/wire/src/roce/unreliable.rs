//! The unreliable services: unreliable connections, whose packets are not acknowledged, and datagrams.
//!
//! Their opcodes are those of the reliable connection with other leading bits (table 38), so their headers
//! are decoded and encoded with these bits cleared.

use super::{Bth, MASK_24, Opcode, Packet, pad_bytes};
use crate::ParseError;
use crate::bytes::{be24, be32, take};

/// The service that a packet belongs to: the three leading bits of its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection. Congestion notifications belong to it too.
    ReliableConnection,
    /// Unreliable connection.
    UnreliableConnection,
    /// Unreliable datagram.
    UnreliableDatagram,
}

impl Service {
    /// Leading bits of the opcodes.
    const fn bits(self) -> u8 {
        match self {
            Self::ReliableConnection => 0x00,
            Self::UnreliableConnection => 0x20,
            Self::UnreliableDatagram => 0x60,
        }
    }

    /// The service of a packet that begins with its base transport header; `None` for any other service.
    #[inline]
    pub fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 5 {
            0 | 4 => Some(Self::ReliableConnection),
            1 => Some(Self::UnreliableConnection),
            3 => Some(Self::UnreliableDatagram),
            _ => None,
        }
    }
}

/// The base transport header with the service's bits cleared.
fn header(bytes: &[u8]) -> Result<(Bth, &[u8]), ParseError> {
    let (header, rest) = take(bytes)?;
    let mut header: [u8; Bth::BYTES] = *header;
    header[0] &= 0x1f;
    Ok((Bth::from_bytes(&header)?, rest))
}

impl<'a> Packet<'a> {
    /// Decodes a packet of an unreliable connection, as [`Packet::parse`] does for a reliable connection.
    ///
    /// # Errors
    /// As [`Packet::parse`]; also `BadField` for an operation that this service does not have.
    pub fn parse_unreliable(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let (bth, _) = header(bytes)?;
        let opcode = bth.opcode;
        if !opcode.is_send() && !opcode.is_write() {
            return Err(ParseError::BadField { field: "BTH.OpCode", value: bytes[0].into() });
        }
        Packet::parse_behind(bth, bytes)
    }

    /// Appends the packet as a packet of an unreliable connection.
    ///
    /// # Panics
    /// As [`Packet::emit`].
    pub fn emit_unreliable(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.emit(out);
        out[start] |= Service::UnreliableConnection.bits();
    }
}

/// A packet of the unreliable datagram service, which is always a whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramPacket<'a> {
    /// Base transport header; the opcode is [`Opcode::SendOnly`] or [`Opcode::SendOnlyWithImmediate`].
    pub bth: Bth,
    /// Must be the queue key of the destination queue pair (`DETH.Q_Key`).
    pub queue_key: u32,
    /// The queue pair that sent it, 24 bits.
    pub source: u32,
    /// Immediate data, with [`Opcode::SendOnlyWithImmediate`].
    pub immediate: Option<u32>,
    /// Payload without pad bytes.
    pub payload: &'a [u8],
}

/// Bytes of the datagram extended transport header (clause 9.3.2).
const EXTENDED_BYTES: usize = 8;

impl<'a> DatagramPacket<'a> {
    /// Decodes a packet.
    ///
    /// # Errors
    /// As [`Packet::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (bth, rest) = header(bytes)?;
        if !matches!(bth.opcode, Opcode::SendOnly | Opcode::SendOnlyWithImmediate) {
            return Err(ParseError::BadField { field: "BTH.OpCode", value: bytes[0].into() });
        }
        let (extended, mut rest) = take::<EXTENDED_BYTES>(rest)?;
        let mut immediate = None;
        if bth.opcode.has_immediate() {
            let (word, after) = take(rest)?;
            (immediate, rest) = (Some(u32::from_be_bytes(*word)), after);
        }
        if !rest.len().is_multiple_of(4) {
            return Err(ParseError::BadField { field: "packet length", value: bytes.len() as u64 });
        }
        let pad = usize::from(bth.pad);
        let length =
            rest.len().checked_sub(pad).ok_or(ParseError::Truncated { have: rest.len(), need: pad })?;
        let (queue_key, source) = (be32(extended, 0), be24(extended, 5));
        Ok(Self { bth, queue_key, source, immediate, payload: &rest[..length] })
    }

    /// Appends the packet. Opcode and pad count are derived from the other fields.
    ///
    /// # Panics
    /// If a 24-bit field exceeds its bits.
    pub fn emit(&self, out: &mut Vec<u8>) {
        assert!(self.source <= MASK_24, "queue pair {:#x}", self.source);
        let opcode = if self.immediate.is_some() { Opcode::SendOnlyWithImmediate } else { Opcode::SendOnly };
        let bth = Bth { opcode, pad: pad_bytes(self.payload.len()), ..self.bth };
        let mut header = bth.to_bytes();
        header[0] |= Service::UnreliableDatagram.bits();
        out.extend_from_slice(&header);
        out.extend_from_slice(&self.queue_key.to_be_bytes());
        out.extend_from_slice(&self.source.to_be_bytes());
        if let Some(immediate) = self.immediate {
            out.extend_from_slice(&immediate.to_be_bytes());
        }
        out.extend_from_slice(self.payload);
        out.extend_from_slice(&[0; 3][..usize::from(bth.pad)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roce::Congestion;

    fn bth(opcode: Opcode) -> Bth {
        Bth {
            opcode,
            solicited: true,
            migration: true,
            pad: 0,
            partition_key: 0xffff,
            congestion: Congestion::default(),
            destination: 1,
            acknowledge: false,
            psn: 7,
        }
    }

    #[test]
    fn a_datagram_has_the_layout_of_the_specification() {
        let packet = DatagramPacket {
            bth: bth(Opcode::SendOnly),
            queue_key: 0x8001_0000,
            source: 0x12_3456,
            immediate: Some(0xdead_beef),
            payload: b"hello",
        };
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        assert_eq!(bytes[0], 0x65);
        assert_eq!(bytes[12..24], [0x80, 1, 0, 0, 0, 0x12, 0x34, 0x56, 0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(&bytes[24..], b"hello\0\0\0");
        assert_eq!(Service::of(&bytes), Some(Service::UnreliableDatagram));
        let parsed = DatagramPacket::parse(&bytes).unwrap();
        let whole = Bth { opcode: Opcode::SendOnlyWithImmediate, pad: 3, ..packet.bth };
        assert_eq!(parsed, DatagramPacket { bth: whole, ..packet });
        for length in 0..bytes.len() {
            assert!(DatagramPacket::parse(&bytes[..length]).is_err() || length == 24 + 4, "{length}");
        }
    }

    #[test]
    fn an_unreliable_connection_has_sends_and_writes_alone() {
        let mut bytes = Vec::new();
        Packet::new(bth(Opcode::SendOnly), b"abc").emit_unreliable(&mut bytes);
        assert_eq!((bytes[0], Service::of(&bytes)), (0x24, Some(Service::UnreliableConnection)));
        assert_eq!(Packet::parse_unreliable(&bytes).unwrap().payload, b"abc");
        bytes[0] = 0x2c;
        assert!(Packet::parse_unreliable(&bytes).is_err(), "READ");
    }
}
