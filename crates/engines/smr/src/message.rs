//! The datagrams, byte by byte. All else travels as WRITEs and READs.
//!
//! Integers are big-endian and aligned to their size. Fields marked zero are sent as zero and ignored by
//! receivers.
//!
//! ```text
//! Request   0 group(1) zero(3) psn(4)          8 number(8)   16 connection(8)
//! Granted   0 group(1) zero(3) incarnation(4)  8 number(8)
//! ```
//!
//! A Request asks for a connection on which its sender may make requests of the receiver: to a group's log, with
//! the permission to write, or to the pulse (group [`PULSE`]), to read. *number* grows with every request of a
//! node, across restarts: its upper half is the incarnation. *connection* is the number of the connection for
//! which the sender has connected its end, starting with *psn*. If the number is new, the receiver connects its
//! own end as well.

use thiserror::Error;
use weft_waist::{Effects, NodeId, NodeSet};

/// The group number of the pulse.
pub const PULSE: u8 = 255;

/// PSNs have 24 bits.
pub(crate) const PSN_MASK: u32 = 0xff_ffff;

/// Kind of a datagram: the `kind` of messages in `weft_waist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The sender requests write access to the receiver's log.
    Request = 1,
    /// The sender grants that access.
    Granted = 2,
}

/// Why bytes are no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Unknown kind of message.
    #[error("there is no message of kind {0}")]
    Kind(u8),
    /// The length differs from that of the kind.
    #[error("{have} bytes where {need} are needed")]
    Length {
        /// Length of the bytes.
        have: usize,
        /// Bytes that the kind needs.
        need: usize,
    },
    /// A field, by its name, has an invalid value.
    #[error("the field {0} has a value that it cannot have")]
    Field(&'static str),
}

/// A message between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// A candidate requests a connection, with permission to write.
    Request(Request),
    /// The peer grants the connection.
    Granted(Granted),
}

/// A request for a connection, and with it for the permission to write to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The group, or [`PULSE`].
    pub group: u8,
    /// Number of the request; the grant repeats it.
    pub number: u64,
    /// Number of the connection, which distinguishes it from earlier ones.
    pub connection: u64,
    /// The first PSN of that connection, 24 bits.
    pub psn: u32,
}

/// The grant of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Granted {
    /// The group, or [`PULSE`].
    pub group: u8,
    /// Number of the request that is granted.
    pub number: u64,
    /// Incarnation of the granting replica.
    pub incarnation: u32,
}

impl Control {
    /// Kind of the message.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Request(_) => Kind::Request as u8,
            Self::Granted(_) => Kind::Granted as u8,
        }
    }

    /// Group of the message.
    pub fn group(&self) -> u8 {
        match self {
            Self::Request(request) => request.group,
            Self::Granted(granted) => granted.group,
        }
    }

    /// Encodes the message at the front of `bytes`, and returns the bytes that it takes.
    pub fn encode<'b>(&self, bytes: &'b mut [u8; 24]) -> &'b [u8] {
        *bytes = [0; 24];
        bytes[0] = self.group();
        match self {
            Self::Request(request) => {
                bytes[4..8].copy_from_slice(&request.psn.to_be_bytes());
                bytes[8..16].copy_from_slice(&request.number.to_be_bytes());
                bytes[16..].copy_from_slice(&request.connection.to_be_bytes());
                &bytes[..]
            }
            Self::Granted(granted) => {
                bytes[4..8].copy_from_slice(&granted.incarnation.to_be_bytes());
                bytes[8..16].copy_from_slice(&granted.number.to_be_bytes());
                &bytes[..16]
            }
        }
    }

    /// Decodes a message of this kind.
    ///
    /// # Errors
    /// An unknown kind, a wrong length, or a PSN of more than 24 bits.
    pub fn parse(kind: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let exactly = |need| {
            if bytes.len() == need { Ok(()) } else { Err(Malformed::Length { have: bytes.len(), need }) }
        };
        let half = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let word = |at| crate::slot::word(bytes, at);
        if kind == Kind::Request as u8 {
            exactly(24)?;
            if half(4) > PSN_MASK {
                return Err(Malformed::Field("psn"));
            }
            let request = Request { group: bytes[0], psn: half(4), number: word(8), connection: word(16) };
            Ok(Self::Request(request))
        } else if kind == Kind::Granted as u8 {
            exactly(16)?;
            Ok(Self::Granted(Granted { group: bytes[0], incarnation: half(4), number: word(8) }))
        } else {
            Err(Malformed::Kind(kind))
        }
    }
}

pub(crate) fn node(index: usize) -> NodeId {
    NodeId::new(index).expect("a group has at most eight replicas")
}

pub(crate) fn send(to: usize, message: &Control, effects: &mut Effects) {
    let mut bytes = [0; 24];
    effects.send(NodeSet::EMPTY.with(node(to)), message.kind(), &[message.encode(&mut bytes)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let request =
            Control::Request(Request { group: 3, number: 1 << 32 | 7, connection: 9, psn: 0xabcdef });
        let granted = Control::Granted(Granted { group: PULSE, number: 8, incarnation: 2 });
        for message in [request, granted] {
            let mut space = [0; 24];
            let bytes = message.encode(&mut space);
            assert_eq!(Control::parse(message.kind(), bytes), Ok(message));
            assert!(Control::parse(message.kind(), &bytes[1..]).is_err());
            assert!(Control::parse(9, bytes).is_err());
        }
        let mut space = [0; 24];
        request.encode(&mut space);
        space[4] = 1;
        assert_eq!(Control::parse(1, &space), Err(Malformed::Field("psn")));
    }
}
