//! A whole packet: base header, the extended headers that its opcode requires, and payload.

use super::{Aeth, AtomicEth, Bth, Congestion, Opcode, Reth};
use crate::ParseError;
use crate::bytes::take;

/// One packet of the reliable-connection service, or a congestion notification, without its ICRC.
///
/// Exactly the extended headers that the opcode requires are `Some`. [`Packet::parse`] ensures that, and
/// [`Packet::emit`] requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// In WRITE FIRST, WRITE ONLY and READ REQUEST.
    pub reth: Option<Reth>,
    /// In CMP_SWAP and FETCH_ADD.
    pub atomic: Option<AtomicEth>,
    /// In acknowledgements, and in READ RESPONSE FIRST, LAST and ONLY.
    pub aeth: Option<Aeth>,
    /// The word's value before the operation; in ATOMIC ACKNOWLEDGE.
    pub atomic_ack: Option<u64>,
    /// In the opcodes with immediate.
    pub immediate: Option<u32>,
    /// Payload without pad bytes.
    pub payload: &'a [u8],
}

/// Number of pad bytes, 0 to 3, after a payload of this length: the value of [`Bth::pad`].
pub const fn pad_bytes(payload_bytes: usize) -> u8 {
    (payload_bytes.wrapping_neg() & 3) as u8
}

impl<'a> Packet<'a> {
    /// A packet with the base header only. The caller must add the extended headers that its opcode requires.
    /// Sets [`Bth::pad`] to fit the payload.
    #[inline]
    pub fn new(bth: Bth, payload: &'a [u8]) -> Packet<'a> {
        Packet {
            bth: Bth { pad: pad_bytes(payload.len()), ..bth },
            reth: None,
            atomic: None,
            aeth: None,
            atomic_ack: None,
            immediate: None,
            payload,
        }
    }

    /// A congestion notification to queue pair `destination`: the peer's queue pair that is connected to it
    /// has received a marked packet (annex A17.9.3).
    pub fn congestion_notification(destination: u32, partition_key: u16) -> Packet<'static> {
        let bth = Bth {
            opcode: Opcode::CongestionNotification,
            solicited: false,
            migration: false,
            pad: 0,
            partition_key,
            congestion: Congestion { forward: false, backward: true },
            destination,
            acknowledge: false,
            psn: 0,
        };
        Packet::new(bth, &[])
    }

    /// Decodes a packet from a UDP datagram's payload without the ICRC. The values of pad bytes and reserved
    /// bits are ignored.
    ///
    /// # Errors
    ///
    /// `Truncated` if the bytes end before a header or the pad bytes do; `BadField` for an opcode of another
    /// service, an unknown header version, a reserved syndrome, a payload where the opcode allows none, or a
    /// length that is not a multiple of four.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let (bth, _) = take(bytes)?;
        Self::parse_behind(Bth::from_bytes(bth)?, bytes)
    }

    /// Decodes a packet whose base header, with which `bytes` begins, is already decoded.
    #[inline]
    pub(super) fn parse_behind(bth: Bth, bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let mut rest = &bytes[Bth::BYTES..];
        let opcode = bth.opcode;
        let mut packet = Packet {
            bth,
            reth: None,
            atomic: None,
            aeth: None,
            atomic_ack: None,
            immediate: None,
            payload: &[],
        };
        if opcode.has_reth() {
            let (reth, after) = take(rest)?;
            (packet.reth, rest) = (Some(Reth::from_bytes(reth)), after);
        }
        if opcode.has_atomic() {
            let (atomic, after) = take(rest)?;
            (packet.atomic, rest) = (Some(AtomicEth::from_bytes(atomic)), after);
        }
        if opcode.has_aeth() {
            let (aeth, after) = take(rest)?;
            (packet.aeth, rest) = (Some(Aeth::from_bytes(aeth)?), after);
        }
        if opcode.has_atomic_ack() {
            let (original, after) = take(rest)?;
            (packet.atomic_ack, rest) = (Some(u64::from_be_bytes(*original)), after);
        }
        if opcode.has_immediate() {
            let (immediate, after) = take(rest)?;
            (packet.immediate, rest) = (Some(u32::from_be_bytes(*immediate)), after);
        }
        let (_, rest) = rest
            .split_at_checked(opcode.reserved_bytes())
            .ok_or(ParseError::Truncated { have: rest.len(), need: opcode.reserved_bytes() })?;
        if !rest.len().is_multiple_of(4) {
            return Err(ParseError::BadField { field: "packet length", value: bytes.len() as u64 });
        }
        let pad = usize::from(bth.pad);
        let payload_bytes =
            rest.len().checked_sub(pad).ok_or(ParseError::Truncated { have: rest.len(), need: pad })?;
        if payload_bytes > 0 && !opcode.has_payload() {
            return Err(ParseError::BadField { field: "payload length", value: payload_bytes as u64 });
        }
        packet.payload = &rest[..payload_bytes];
        Ok(packet)
    }

    /// Appends the packet, with its pad bytes and without an ICRC.
    ///
    /// # Panics
    ///
    /// If the headers are not those that the opcode requires, there is a payload where the opcode allows
    /// none, the pad does not fit the payload, or a field exceeds its bits.
    #[inline]
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_headers(out);
        out.extend_from_slice(self.payload);
        out.extend_from_slice(&[0; 3][..usize::from(self.bth.pad)]);
    }

    /// Appends only the headers, for a sender that passes the payload to the system separately.
    ///
    /// # Panics
    ///
    /// As [`Packet::emit`].
    #[inline]
    pub fn emit_headers(&self, out: &mut Vec<u8>) {
        self.assert_consistent();
        out.extend_from_slice(&self.bth.to_bytes());
        if let Some(reth) = self.reth {
            out.extend_from_slice(&reth.to_bytes());
        }
        if let Some(atomic) = self.atomic {
            out.extend_from_slice(&atomic.to_bytes());
        }
        if let Some(aeth) = self.aeth {
            out.extend_from_slice(&aeth.to_bytes());
        }
        if let Some(original) = self.atomic_ack {
            out.extend_from_slice(&original.to_be_bytes());
        }
        if let Some(immediate) = self.immediate {
            out.extend_from_slice(&immediate.to_be_bytes());
        }
        out.extend_from_slice(&[0; 16][..self.bth.opcode.reserved_bytes()]);
    }

    /// Bytes that [`Packet::emit`] appends.
    pub fn wire_bytes(&self) -> usize {
        self.bth.opcode.header_bytes() + self.payload.len() + usize::from(self.bth.pad)
    }

    #[inline]
    fn assert_consistent(&self) {
        let opcode = self.bth.opcode;
        assert_eq!(self.reth.is_some(), opcode.has_reth(), "RETH of {opcode:?}");
        assert_eq!(self.atomic.is_some(), opcode.has_atomic(), "AtomicETH of {opcode:?}");
        assert_eq!(self.aeth.is_some(), opcode.has_aeth(), "AETH of {opcode:?}");
        assert_eq!(self.atomic_ack.is_some(), opcode.has_atomic_ack(), "AtomicAckETH of {opcode:?}");
        assert_eq!(self.immediate.is_some(), opcode.has_immediate(), "ImmDt of {opcode:?}");
        assert!(self.payload.is_empty() || opcode.has_payload(), "payload of {opcode:?}");
        assert_eq!(self.bth.pad, pad_bytes(self.payload.len()), "pad of {} bytes", self.payload.len());
    }
}
