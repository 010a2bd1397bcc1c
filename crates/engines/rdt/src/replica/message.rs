//! Calls and datagrams, byte by byte.
//!
//! Integers are big-endian and aligned to their size. Fields marked zero are written as zero and ignored.
//! Arguments are four 8-byte numbers. `incarnations` are the incarnation numbers, 4 bytes each, that the sender
//! knows of nodes 0 to 7.
//!
//! ```text
//! Calls of hosts and clients
//! Wire     as weft_smr::log::Wire; purpose 255 is the pulse, 254 the data connection, 0 to 5 a group. The host's: anybody else
//!          is refused with BadRequest, and counted
//! Invoke   0 sequence(8)   8 method(1) zero(7)   16 arguments(32)
//! Query    0 sequence(8)   8 query(1) zero(7)    16 arguments(32)
//! Status   empty, or 0 sequence(8)
//! Answer   0 sequence(8)   8 status(1) leader(1) state(1) zero(5)   16 value(8)   24 incarnation(4) zero(4)
//!          leader: of group 0; 255 if none is known or there is no group. state: 0 starting, 1 joining, 2 full, 3 lost
//!
//! Datagrams between replicas
//! Connect    0 as weft_smr::message::Control, a request(24)    24 incarnations(32)
//! Connected  0 as weft_smr::message::Control, a grant(16)      16 incarnations(32)
//! Incarnations  0 incarnations(32)
//! Forward    0 group(1) method(1) zero(2) incarnation(4)   8 number(8)   16 sequence(4) zero(4)   24 arguments(32)
//! Outdated   0 incarnation(4) forked(1) zero(3)
//! Ask        0 incarnation(4) zero(4)   8 attempt(8)
//! Ready      0 attempt(8)   8 bytes(8)
//! ```

use weft_smr::log::exactly;
use weft_smr::message::{Control, Granted, Malformed, Request};
use weft_smr::{NODES_MAX, slot::word};

use crate::object::Arguments;

/// The purpose number of data connections.
pub const DATA: u8 = 254;

/// The kind of the RPC call that the WRITE of a summary makes.
pub const CALL_SUMMARY: u8 = 241;

/// The kind of the RPC call that the WRITE of a ring entry makes.
pub const CALL_ENTRY: u8 = 242;

/// Kinds of requests and answers of hosts and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Call {
    /// The host passes in a connection to a peer, before the node is configured.
    Wire = 16,
    /// Requests the replica's progress. The value of the answer is the number of own updates that are not
    /// answered yet.
    Status = 20,
    /// Requests a call that changes the object. It is answered once, when its outcome is decided.
    Invoke = 32,
    /// Requests a query of the object, in this replica's state.
    Query = 33,
    /// The answer to any of these.
    Answer = 40,
}

impl Call {
    pub(crate) fn parse(kind: u8) -> Option<Self> {
        [Self::Wire, Self::Status, Self::Invoke, Self::Query].into_iter().find(|known| *known as u8 == kind)
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The update took effect, and is as durable as the commit rule demands; or the query was answered.
    Done = 0,
    /// The call is not permissible, and has not taken effect.
    Refused = 1,
    /// There is no room for the call at present. Nothing has happened.
    Busy = 2,
    /// The replica does not serve. Nothing has happened.
    NotServing = 3,
    /// The call is malformed, or its arguments are out of range or belong to another replica. Nothing has
    /// happened.
    BadRequest = 4,
}

impl Status {
    fn parse(status: u8) -> Result<Self, Malformed> {
        [Self::Done, Self::Refused, Self::Busy, Self::NotServing, Self::BadRequest]
            .into_iter()
            .find(|known| *known as u8 == status)
            .ok_or(Malformed::Field("status"))
    }
}

/// A client's request. [`Call::Invoke`] and [`Call::Query`] have the same layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// A number of the client's choice, at most 2^32 - 1. The answer repeats it.
    pub sequence: u64,
    /// The method or query.
    pub method: u8,
    /// The arguments. Unused ones are 0, and so are those that the replica fills in.
    pub arguments: Arguments,
}

impl Ask {
    /// Bytes of the message.
    pub const BYTES: usize = 48;

    /// Encodes the request.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8] = self.method;
        put_arguments(&mut bytes[16..], &self.arguments);
        bytes
    }

    /// Decodes the request.
    ///
    /// # Errors
    /// If the length is wrong, or the sequence has more than 32 bits.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        let sequence = word(bytes, 0);
        if sequence > u32::MAX.into() {
            return Err(Malformed::Field("sequence"));
        }
        Ok(Self { sequence, method: bytes[8], arguments: arguments(&bytes[16..]) })
    }
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The sequence of the request; 0 if that cannot be decoded.
    pub sequence: u64,
    /// The outcome.
    pub status: Status,
    /// The leader of group 0, as far as this replica knows.
    pub leader: Option<usize>,
    /// Phase of the replica: 0 starting, 1 joining, 2 full, 3 lost.
    pub state: u8,
    /// The answer to a query.
    pub value: i64,
    /// The replica's incarnation.
    pub incarnation: u32,
}

impl Answer {
    /// Bytes of the message.
    pub const BYTES: usize = 32;

    /// Encodes the answer.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8] = self.status as u8;
        bytes[9] = self.leader.map_or(255, |leader| leader as u8);
        bytes[10] = self.state;
        bytes[16..24].copy_from_slice(&self.value.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes
    }

    /// Decodes the answer.
    ///
    /// # Errors
    /// If the length is wrong, or the status is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        Ok(Self {
            sequence: word(bytes, 0),
            status: Status::parse(bytes[8])?,
            leader: (bytes[9] != 255).then_some(bytes[9].into()),
            state: bytes[10],
            value: word(bytes, 16) as i64,
            incarnation: half(bytes, 24),
        })
    }
}

/// Incarnation numbers of all nodes.
pub(crate) type Incarnations = [u32; NODES_MAX];

const INCARNATIONS_BYTES: usize = 4 * NODES_MAX;

/// A conflicting call that is sent to the leader of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forward {
    pub group: u8,
    pub method: u8,
    /// Incarnation of the origin.
    pub incarnation: u32,
    /// Number of the call among the origin's calls in this group and incarnation.
    pub number: u64,
    /// The client's sequence.
    pub sequence: u32,
    pub arguments: Arguments,
}

/// A datagram between replicas. The heartbeats and the groups have datagrams of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram {
    /// Requests a data connection.
    Connect(Request, Incarnations),
    /// Grants a data connection.
    Connected(Granted, Incarnations),
    /// The receiver does not know of all of these incarnations.
    Incarnations(Incarnations),
    /// A conflicting call.
    Forward(Forward),
    /// The receiver, in this incarnation, lacks calls that can no longer be sent to it; or (`forked`) it has
    /// calls that all others have lost.
    Outdated { incarnation: u32, forked: bool },
    /// Requests a snapshot.
    Ask { incarnation: u32, attempt: u64 },
    /// The requested snapshot is ready to be READ.
    Ready { attempt: u64, bytes: u64 },
}

/// A buffer that is large enough for any datagram.
pub(crate) type Space = [u8; 56];

impl Datagram {
    const CONNECT: u8 = 10;
    const CONNECTED: u8 = 11;
    const INCARNATIONS: u8 = 12;
    const FORWARD: u8 = 13;
    const OUTDATED: u8 = 14;
    const ASK: u8 = 15;
    const READY: u8 = 16;

    /// Encodes the datagram into `space`, and returns its kind and its bytes.
    pub fn encode<'s>(&self, space: &'s mut Space) -> (u8, &'s [u8]) {
        *space = [0; 56];
        let mut control = [0; 24];
        let (kind, length) = match self {
            Self::Connect(request, incarnations) => {
                space[..24].copy_from_slice(Control::Request(*request).encode(&mut control));
                put_incarnations(&mut space[24..], incarnations);
                (Self::CONNECT, 24 + INCARNATIONS_BYTES)
            }
            Self::Connected(granted, incarnations) => {
                space[..16].copy_from_slice(Control::Granted(*granted).encode(&mut control));
                put_incarnations(&mut space[16..], incarnations);
                (Self::CONNECTED, 16 + INCARNATIONS_BYTES)
            }
            Self::Incarnations(incarnations) => {
                put_incarnations(&mut space[..], incarnations);
                (Self::INCARNATIONS, INCARNATIONS_BYTES)
            }
            Self::Forward(forward) => {
                (space[0], space[1]) = (forward.group, forward.method);
                space[4..8].copy_from_slice(&forward.incarnation.to_be_bytes());
                space[8..16].copy_from_slice(&forward.number.to_be_bytes());
                space[16..20].copy_from_slice(&forward.sequence.to_be_bytes());
                put_arguments(&mut space[24..], &forward.arguments);
                (Self::FORWARD, 56)
            }
            Self::Outdated { incarnation, forked } => {
                space[..4].copy_from_slice(&incarnation.to_be_bytes());
                space[4] = u8::from(*forked);
                (Self::OUTDATED, 8)
            }
            Self::Ask { incarnation, attempt } => {
                space[..4].copy_from_slice(&incarnation.to_be_bytes());
                space[8..16].copy_from_slice(&attempt.to_be_bytes());
                (Self::ASK, 16)
            }
            Self::Ready { attempt, bytes } => {
                space[..8].copy_from_slice(&attempt.to_be_bytes());
                space[8..16].copy_from_slice(&bytes.to_be_bytes());
                (Self::READY, 16)
            }
        };
        (kind, &space[..length])
    }

    /// Decodes a datagram of this kind.
    ///
    /// # Errors
    /// If the kind is unknown, the length is wrong, or a field has an invalid value.
    pub fn parse(kind: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let (need, purpose) = match kind {
            Self::CONNECT => (24 + INCARNATIONS_BYTES, DATA),
            Self::CONNECTED => (16 + INCARNATIONS_BYTES, DATA),
            Self::INCARNATIONS => (INCARNATIONS_BYTES, DATA),
            Self::FORWARD => (56, DATA),
            Self::OUTDATED => (8, DATA),
            Self::ASK | Self::READY => (16, DATA),
            _ => return Err(Malformed::Kind(kind)),
        };
        exactly(bytes, need)?;
        let control = |kind: u8, length: usize| {
            let control = Control::parse(kind, &bytes[..length])?;
            if control.group() == purpose { Ok(control) } else { Err(Malformed::Field("purpose")) }
        };
        Ok(match kind {
            Self::CONNECT => match control(weft_smr::message::Kind::Request as u8, 24)? {
                Control::Request(request) => Self::Connect(request, parse_incarnations(&bytes[24..])),
                Control::Granted(_) => return Err(Malformed::Kind(kind)),
            },
            Self::CONNECTED => match control(weft_smr::message::Kind::Granted as u8, 16)? {
                Control::Granted(granted) => Self::Connected(granted, parse_incarnations(&bytes[16..])),
                Control::Request(_) => return Err(Malformed::Kind(kind)),
            },
            Self::INCARNATIONS => Self::Incarnations(parse_incarnations(bytes)),
            Self::FORWARD => Self::Forward(Forward {
                group: bytes[0],
                method: bytes[1],
                incarnation: half(bytes, 4),
                number: word(bytes, 8),
                sequence: half(bytes, 16),
                arguments: arguments(&bytes[24..]),
            }),
            Self::OUTDATED => Self::Outdated { incarnation: half(bytes, 0), forked: bytes[4] != 0 },
            Self::ASK => Self::Ask { incarnation: half(bytes, 0), attempt: word(bytes, 8) },
            _ => Self::Ready { attempt: word(bytes, 0), bytes: word(bytes, 8) },
        })
    }
}

pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn put_arguments(bytes: &mut [u8], arguments: &Arguments) {
    for (bytes, argument) in bytes.chunks_exact_mut(8).zip(arguments) {
        bytes.copy_from_slice(&argument.to_be_bytes());
    }
}

pub(crate) fn arguments(bytes: &[u8]) -> Arguments {
    std::array::from_fn(|place| word(bytes, 8 * place) as i64)
}

pub(crate) fn put_incarnations(bytes: &mut [u8], incarnations: &Incarnations) {
    for (bytes, incarnation) in bytes.chunks_exact_mut(4).zip(incarnations) {
        bytes.copy_from_slice(&incarnation.to_be_bytes());
    }
}

pub(crate) fn parse_incarnations(bytes: &[u8]) -> Incarnations {
    std::array::from_fn(|node| half(bytes, 4 * node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let incarnations = [1, 2, 3, 4, 5, 6, 7, 8];
        let request = Request { group: DATA, number: 5 << 32 | 1, connection: 9, psn: 77 };
        let forward = Forward {
            group: 1,
            method: 2,
            incarnation: 3,
            number: 4,
            sequence: 5,
            arguments: [6, -7, 8, i64::MIN],
        };
        let all = [
            Datagram::Connect(request, incarnations),
            Datagram::Connected(Granted { group: DATA, number: 8, incarnation: 2 }, incarnations),
            Datagram::Incarnations(incarnations),
            Datagram::Forward(forward),
            Datagram::Outdated { incarnation: 7, forked: true },
            Datagram::Ask { incarnation: 3, attempt: 4 },
            Datagram::Ready { attempt: 4, bytes: 1 << 20 },
        ];
        for datagram in all {
            let mut space = [0; 56];
            let (kind, bytes) = datagram.encode(&mut space);
            assert_eq!(Datagram::parse(kind, bytes), Ok(datagram));
            assert!(Datagram::parse(kind, &bytes[1..]).is_err());
            assert!(Datagram::parse(3, bytes).is_err());
        }
        let answer = Answer {
            sequence: 3,
            status: Status::Busy,
            leader: Some(2),
            state: 2,
            value: -5,
            incarnation: 9,
        };
        assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
        let ask = Ask { sequence: 4, method: 1, arguments: [1, -2, 3, 4] };
        assert_eq!(Ask::parse(&ask.encode()), Ok(ask));
        assert!(Ask::parse(&Ask { sequence: 1 << 32, ..ask }.encode()).is_err());
    }
}
