//! IPv4 (RFC 791): unfragmented packets without options. Weft sends and accepts only these.

use std::net::Ipv4Addr;

use crate::ParseError;
use crate::bytes::{be16, take};
use crate::checksum::checksum;

/// Protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;

/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// The two bits of the type of service for explicit congestion notification (RFC 3168, 5).
pub const CONGESTION_MASK: u8 = 0b11;

/// Value of these bits: a congested router may mark the packet, ECT(0).
pub const CONGESTION_CAPABLE: u8 = 0b10;

/// Value of these bits: a congested router has marked the packet, CE.
pub const CONGESTION_EXPERIENCED: u8 = 0b11;

/// The time to live of packets that Weft originates.
pub const TIME_TO_LIVE: u8 = 64;

/// The most payload bytes of a packet.
pub const PAYLOAD_BYTES_MAX: usize = u16::MAX as usize - Ipv4::BYTES;

/// Marks an IPv4 packet as a congested router does: [`CONGESTION_EXPERIENCED`]. Returns `false`, without any
/// change, if the bytes are not such a packet, or if it must not be marked.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<{ Ipv4::BYTES }>().filter(|header| header[0] == 0x45) else {
        return false;
    };
    if header[1] & CONGESTION_MASK == 0 {
        return false;
    }
    header[1] |= CONGESTION_EXPERIENCED;
    header[10..12].fill(0);
    let checksum = checksum(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Changes the total length of a packet, and updates its checksum by the difference (RFC 1624, equation 3): a
/// wrong checksum stays wrong.
///
/// # Panics
/// If `packet` is shorter than a header.
pub fn set_total_length(packet: &mut [u8], bytes: u16) {
    let header = packet.first_chunk_mut::<{ Ipv4::BYTES }>().expect("a header");
    let sum = u32::from(!be16(header, 10)) + u32::from(!be16(header, 2)) + u32::from(bytes);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[2..4].copy_from_slice(&bytes.to_be_bytes());
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// The header without its lengths and its checksum, 20 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Type of service: six bits of differentiated services, two of congestion notification.
    pub type_of_service: u8,
    /// Identification for reassembly. It has no meaning in a packet that must not be fragmented.
    pub identification: u16,
    /// Routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Remaining hops.
    pub time_to_live: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4 {
    /// Bytes of the header on the wire.
    pub const BYTES: usize = 20;

    /// Decodes a packet. Returns its header and its payload, cut to the total length.
    ///
    /// # Errors
    ///
    /// `Truncated` if the bytes end before the header or the payload does; `BadField` for a wrong version,
    /// length or reserved flag; `BadChecksum`; `Unsupported` for a packet with options and for a fragment.
    pub fn parse(bytes: &[u8]) -> Result<(Ipv4, &[u8]), ParseError> {
        let (header, _) = take::<{ Self::BYTES }>(bytes)?;
        let version = header[0] >> 4;
        if version != 4 {
            return Err(ParseError::BadField { field: "IPv4.Version", value: version.into() });
        }
        let header_bytes = usize::from(header[0] & 0x0f) * 4;
        if header_bytes < Self::BYTES {
            return Err(ParseError::BadField { field: "IPv4.IHL", value: (header[0] & 0x0f).into() });
        }
        let with_options = bytes
            .get(..header_bytes)
            .ok_or(ParseError::Truncated { have: bytes.len(), need: header_bytes })?;
        if checksum(with_options) != 0 {
            return Err(ParseError::BadChecksum { which: "IPv4" });
        }
        let total_bytes = usize::from(be16(header, 2));
        if total_bytes < header_bytes {
            return Err(ParseError::BadField { field: "IPv4.TotalLength", value: total_bytes as u64 });
        }
        let payload = bytes
            .get(header_bytes..total_bytes)
            .ok_or(ParseError::Truncated { have: bytes.len(), need: total_bytes })?;
        let flags_and_offset = be16(header, 6);
        if flags_and_offset & 0x8000 != 0 {
            return Err(ParseError::BadField { field: "IPv4.Flags", value: (flags_and_offset >> 13).into() });
        }
        if header_bytes > Self::BYTES {
            return Err(ParseError::Unsupported { what: "IPv4 options" });
        }
        if flags_and_offset & 0x3fff != 0 {
            return Err(ParseError::Unsupported { what: "IPv4 fragments" });
        }
        let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let ipv4 = Ipv4 {
            type_of_service: header[1],
            identification: be16(header, 4),
            dont_fragment: flags_and_offset & 0x4000 != 0,
            time_to_live: header[8],
            protocol: header[9],
            source: address(12),
            destination: address(16),
        };
        Ok((ipv4, payload))
    }

    /// Encodes the header, with its checksum, of a packet with `payload_bytes` bytes of payload.
    ///
    /// # Panics
    ///
    /// If the payload exceeds [`PAYLOAD_BYTES_MAX`].
    pub fn to_bytes(&self, payload_bytes: usize) -> [u8; Self::BYTES] {
        assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "an IPv4 payload of {payload_bytes} bytes");
        let mut bytes = [0; Self::BYTES];
        bytes[0] = 0x45; // version 4, header of five words
        bytes[1] = self.type_of_service;
        bytes[2..4].copy_from_slice(&((Self::BYTES + payload_bytes) as u16).to_be_bytes());
        bytes[4..6].copy_from_slice(&self.identification.to_be_bytes());
        bytes[6] = u8::from(self.dont_fragment) << 6;
        bytes[8] = self.time_to_live;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&self.destination.octets());
        let checksum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// The header of an answer: source and destination are exchanged, and the time to live is
    /// [`TIME_TO_LIVE`].
    pub fn answered(&self) -> Ipv4 {
        Ipv4 { source: self.destination, destination: self.source, time_to_live: TIME_TO_LIVE, ..*self }
    }
}
