//! UDP (RFC 768) over IPv4.

use crate::ParseError;
use crate::bytes::{be16, take};
use crate::checksum::Sum;
use crate::ipv4::{self, Ipv4};

/// The most payload bytes of a datagram.
pub const PAYLOAD_BYTES_MAX: usize = ipv4::PAYLOAD_BYTES_MAX - Udp::BYTES;

/// The header without its length and its checksum, 8 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port. RoCE v2 varies it, so that switches distribute the load over paths.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

impl Udp {
    /// Bytes of the header on the wire.
    pub const BYTES: usize = 8;

    /// Decodes a datagram from an IPv4 packet's payload. Returns its header and its payload, cut to the
    /// datagram's length. A checksum of zero means that there is none.
    ///
    /// # Errors
    ///
    /// `Truncated` if the bytes end before the header or the payload does; `BadField` for a length below 8;
    /// `BadChecksum` for a wrong checksum other than zero.
    pub fn parse<'a>(bytes: &'a [u8], ipv4: &Ipv4) -> Result<(Udp, &'a [u8]), ParseError> {
        let (header, _) = take::<{ Self::BYTES }>(bytes)?;
        let length = usize::from(be16(header, 4));
        if length < Self::BYTES {
            return Err(ParseError::BadField { field: "UDP.Length", value: length as u64 });
        }
        let payload = bytes
            .get(Self::BYTES..length)
            .ok_or(ParseError::Truncated { have: bytes.len(), need: length })?;
        let has_checksum = be16(header, 6) != 0;
        if has_checksum && sum(ipv4, header, payload).finish() != 0 {
            return Err(ParseError::BadChecksum { which: "UDP" });
        }
        Ok((Udp { source_port: be16(header, 0), destination_port: be16(header, 2) }, payload))
    }

    /// Encodes the header of a datagram with `payload_bytes` bytes of payload, without a checksum: RoCE v2
    /// has the ICRC instead.
    ///
    /// # Panics
    ///
    /// If the payload exceeds [`PAYLOAD_BYTES_MAX`].
    pub fn to_bytes(&self, payload_bytes: usize) -> [u8; Self::BYTES] {
        assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "a UDP payload of {payload_bytes} bytes");
        let mut bytes = [0; Self::BYTES];
        bytes[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[4..6].copy_from_slice(&((Self::BYTES + payload_bytes) as u16).to_be_bytes());
        bytes
    }

    /// Encodes the header of a datagram with this payload, with its checksum.
    ///
    /// # Panics
    ///
    /// If the payload exceeds [`PAYLOAD_BYTES_MAX`].
    pub fn to_bytes_with_checksum(&self, ipv4: &Ipv4, payload: &[u8]) -> [u8; Self::BYTES] {
        let mut bytes = self.to_bytes(payload.len());
        // A checksum of zero is sent as all ones, which is equivalent, since zero means that there is no
        // checksum.
        let checksum = match sum(ipv4, &bytes, payload).finish() {
            0 => u16::MAX,
            checksum => checksum,
        };
        bytes[6..8].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

/// The sum over the pseudo header, the header and the payload.
fn sum(ipv4: &Ipv4, header: &[u8; Udp::BYTES], payload: &[u8]) -> Sum {
    Sum::default()
        .add(&ipv4.source.octets())
        .add(&ipv4.destination.octets())
        .add(&[0, ipv4::PROTOCOL_UDP])
        .add(&header[4..6])
        .add(header)
        .add(payload)
}
