//! ICMP echo (RFC 792), with which a NIC answers `ping`.

use crate::ParseError;
use crate::bytes::{be16, take};
use crate::checksum::{Sum, checksum};

/// An echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Echo request or echo reply.
    pub kind: EchoKind,
    /// Chosen by the requester; the reply repeats it.
    pub identifier: u16,
    /// Chosen by the requester; the reply repeats it.
    pub sequence: u16,
    /// Chosen by the requester; the reply repeats it.
    pub payload: &'a [u8],
}

/// The ICMP type: echo request or echo reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EchoKind {
    /// Echo reply.
    Reply = 0,
    /// Echo request.
    Request = 8,
}

impl<'a> Echo<'a> {
    /// Bytes of the header on the wire.
    pub const BYTES: usize = 8;

    /// Decodes a message that takes the whole payload of an IPv4 packet.
    ///
    /// # Errors
    ///
    /// `Truncated` if there are fewer than 8 bytes; `BadChecksum`; `Unsupported` for other ICMP messages;
    /// `BadField` for an echo whose code is not zero.
    pub fn parse(bytes: &'a [u8]) -> Result<Echo<'a>, ParseError> {
        let (header, payload) = take::<{ Echo::BYTES }>(bytes)?;
        if checksum(bytes) != 0 {
            return Err(ParseError::BadChecksum { which: "ICMP" });
        }
        let kind = match header[0] {
            0 => EchoKind::Reply,
            8 => EchoKind::Request,
            _ => return Err(ParseError::Unsupported { what: "ICMP messages but echo" }),
        };
        if header[1] != 0 {
            return Err(ParseError::BadField { field: "ICMP.Code", value: header[1].into() });
        }
        Ok(Echo { kind, identifier: be16(header, 4), sequence: be16(header, 6), payload })
    }

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut header = [0; Echo::BYTES];
        header[0] = self.kind as u8;
        header[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        header[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        let checksum = Sum::default().add(&header).add(self.payload).finish();
        header[2..4].copy_from_slice(&checksum.to_be_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(self.payload);
    }

    /// The reply to a request.
    pub fn answered(&self) -> Echo<'a> {
        Echo { kind: EchoKind::Reply, ..*self }
    }
}
