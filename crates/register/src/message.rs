//! The messages between proposers and coordinators, byte by byte.
//!
//! One message is one UDP datagram. Numbers are big-endian.
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 4 | magic | `WFTR` |
//! | 4 | 1 | version | 1 |
//! | 5 | 1 | kind | 1 query, 2 prepare, 3 accept, 4 report, 5 promise, 6 accepted, 7 refused |
//! | 6 | 1 | coordinator | the receiver of a request, the sender of an answer |
//! | 7 | 1 | | 0 |
//! | 8 | 8 | cluster | a number that differs between clusters |
//! | 16 | 17 | ballot | of the attempt; query, report: 0 |
//! | 33 | | body | |
//! | end - 4 | 4 | checksum | CRC-32 (IEEE 802.3) of all bytes before it |
//!
//! | kind | body |
//! |---|---|
//! | query, prepare, accepted | nothing |
//! | accept | value |
//! | report, promise | ballot of the accepted value, and the value |
//! | refused | ballot that the coordinator has promised |
//!
//! A ballot is a round (8 bytes) and a proposer: its number (1) and its incarnation (8). A value is a version (8), the
//! proposer that has set it (9), and its content, at most [`VALUE_BYTES_MAX`].

use std::fmt;
use std::ops::Deref;

use crate::COORDINATORS_MAX;
use crate::ballot::{Ballot, ProposerId};
use crate::value::{VALUE_BYTES_MAX, Value};

const MAGIC: [u8; 4] = *b"WFTR";
const VERSION: u8 = 1;
const BALLOT_BYTES: usize = 17;
const HEADER_BYTES: usize = 16 + BALLOT_BYTES;
const VALUE_HEADER_BYTES: usize = 17;
const CHECKSUM_BYTES: usize = 4;
const BYTES_MIN: usize = HEADER_BYTES + CHECKSUM_BYTES;
const BYTES_MAX: usize = BYTES_MIN + BALLOT_BYTES + VALUE_HEADER_BYTES + VALUE_BYTES_MAX;
// Every message fits into one packet of an Ethernet with IPv6, so none is fragmented.
const _: () = assert!(BYTES_MAX <= 1_500 - 48);

/// A proposer's request to a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Report the value that you have accepted. This promises nothing.
    Query,
    /// Promise to accept nothing of lower ballots, and report the value that you have accepted.
    Prepare {
        /// Ballot of the attempt.
        ballot: Ballot,
    },
    /// Accept this value.
    Accept {
        /// Ballot of the attempt.
        ballot: Ballot,
        /// The value.
        value: Value,
    },
}

/// A coordinator's answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The answer to a query.
    Report {
        /// Ballot of the accepted value.
        accepted: Ballot,
        /// The accepted value.
        value: Value,
    },
    /// The coordinator accepts nothing of lower ballots.
    Promise {
        /// Ballot of the attempt.
        ballot: Ballot,
        /// Ballot of the accepted value.
        accepted: Ballot,
        /// The accepted value.
        value: Value,
    },
    /// The coordinator has accepted the value.
    Accepted {
        /// Ballot of the attempt.
        ballot: Ballot,
    },
    /// The coordinator has made a promise to a later attempt.
    Refused {
        /// Ballot of the attempt.
        ballot: Ballot,
        /// Ballot of the later attempt.
        promised: Ballot,
    },
}

/// A message between a proposer and a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A request to a coordinator.
    Request(Request),
    /// A coordinator's answer.
    Answer(Answer),
}

/// Whether a datagram is a message of this protocol.
pub fn is_register(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Why a datagram is no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The length is not one of any message, or not one of its kind.
    #[error("a datagram of {0} bytes is no message of the register")]
    Length(usize),
    /// The datagram does not begin with the magic number.
    #[error("the datagram does not begin with the magic number of the register's messages")]
    Magic,
    /// The version is not supported.
    #[error("version {0} of the register's protocol is not spoken here")]
    Version(u8),
    /// The checksum is wrong.
    #[error("the checksum of the register's message is wrong")]
    Checksum,
    /// A field, by its name, has an invalid value.
    #[error("the field `{0}` of the register's message holds an impossible value")]
    Field(&'static str),
    /// The message belongs to another cluster.
    #[error("the register's message is another cluster's")]
    OtherCluster,
    /// The message is for another coordinator, or of a kind that its sender does not send.
    #[error("the register's message is not for this end")]
    NotForUs,
}

/// An encoded message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Deref for Datagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Datagram").field(&&**self).finish()
    }
}

impl Message {
    /// Encodes a message from or to the coordinator of this number, of a cluster.
    ///
    /// # Panics
    /// If the content of a value is longer than [`VALUE_BYTES_MAX`].
    pub fn encode(&self, cluster: u64, coordinator: u8) -> Datagram {
        let (kind, ballot) = match self {
            Self::Request(Request::Query) => (1, Ballot::ZERO),
            Self::Request(Request::Prepare { ballot }) => (2, *ballot),
            Self::Request(Request::Accept { ballot, .. }) => (3, *ballot),
            Self::Answer(Answer::Report { .. }) => (4, Ballot::ZERO),
            Self::Answer(Answer::Promise { ballot, .. }) => (5, *ballot),
            Self::Answer(Answer::Accepted { ballot }) => (6, *ballot),
            Self::Answer(Answer::Refused { ballot, .. }) => (7, *ballot),
        };
        let mut writer = Writer { bytes: [0; BYTES_MAX], length: 0 };
        writer.put(&MAGIC);
        writer.put(&[VERSION, kind, coordinator, 0]);
        writer.put(&cluster.to_be_bytes());
        writer.ballot(ballot);
        match self {
            Self::Request(Request::Query | Request::Prepare { .. })
            | Self::Answer(Answer::Accepted { .. }) => {}
            Self::Request(Request::Accept { value, .. }) => writer.value(value),
            Self::Answer(Answer::Report { accepted, value } | Answer::Promise { accepted, value, .. }) => {
                writer.ballot(*accepted);
                writer.value(value);
            }
            Self::Answer(Answer::Refused { promised, .. }) => writer.ballot(*promised),
        }
        let checksum = crc32fast::hash(&writer.bytes[..writer.length]);
        writer.put(&checksum.to_be_bytes());
        Datagram { bytes: writer.bytes, length: writer.length }
    }

    /// Decodes a datagram; returns its cluster, its coordinator and the message.
    ///
    /// # Errors
    /// [`Message::encode`] never produces such bytes.
    pub fn decode(bytes: &[u8]) -> Result<(u64, u8, Self), MessageError> {
        let length = MessageError::Length(bytes.len());
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) {
            return Err(length);
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        let mut reader = Reader { rest: content };
        if reader.take().ok_or(length)? != MAGIC {
            return Err(MessageError::Magic);
        }
        let [version, kind, coordinator, unused] = reader.take().ok_or(length)?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        if crc32fast::hash(content).to_be_bytes() != checksum {
            return Err(MessageError::Checksum);
        }
        if usize::from(coordinator) >= COORDINATORS_MAX {
            return Err(MessageError::Field("coordinator"));
        }
        if unused != 0 {
            return Err(MessageError::Field("unused"));
        }
        let cluster = u64::from_be_bytes(reader.take().ok_or(length)?);
        let ballot = reader.ballot()?;
        if matches!(kind, 1 | 4) != (ballot == Ballot::ZERO) {
            return Err(MessageError::Field("ballot"));
        }
        let message = match kind {
            1 => Self::Request(Request::Query),
            2 => Self::Request(Request::Prepare { ballot }),
            3 => Self::Request(Request::Accept { ballot, value: reader.value()? }),
            4 | 5 => {
                let (accepted, value) = (reader.ballot()?, reader.value()?);
                if (accepted == Ballot::ZERO) && value != Value::NONE {
                    return Err(MessageError::Field("accepted"));
                }
                Self::Answer(match kind {
                    4 => Answer::Report { accepted, value },
                    _ => Answer::Promise { ballot, accepted, value },
                })
            }
            6 => Self::Answer(Answer::Accepted { ballot }),
            7 => Self::Answer(Answer::Refused { ballot, promised: reader.ballot()? }),
            _ => return Err(MessageError::Field("kind")),
        };
        if reader.rest.is_empty() { Ok((cluster, coordinator, message)) } else { Err(length) }
    }
}

/// Writes fields to the end of a message.
struct Writer {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.length..self.length + field.len()].copy_from_slice(field);
        self.length += field.len();
    }

    fn proposer(&mut self, proposer: ProposerId) {
        self.put(&[proposer.number]);
        self.put(&proposer.incarnation.to_be_bytes());
    }

    fn ballot(&mut self, ballot: Ballot) {
        self.put(&ballot.round.to_be_bytes());
        self.proposer(ballot.proposer);
    }

    fn value(&mut self, value: &Value) {
        assert!(value.bytes.len() <= VALUE_BYTES_MAX, "the content of a value is bounded");
        self.put(&value.version.to_be_bytes());
        self.proposer(value.writer);
        self.put(&value.bytes);
    }
}

/// Parses fields from the front of a message.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    fn number(&mut self, field: &'static str) -> Result<u64, MessageError> {
        self.take().map(u64::from_be_bytes).ok_or(MessageError::Field(field))
    }

    fn proposer(&mut self) -> Result<ProposerId, MessageError> {
        let [number] = self.take().ok_or(MessageError::Field("proposer"))?;
        Ok(ProposerId { number, incarnation: self.number("incarnation")? })
    }

    fn ballot(&mut self) -> Result<Ballot, MessageError> {
        let round = self.number("round")?;
        let ballot = Ballot { round, proposer: self.proposer()? };
        // Only the lowest ballot has round 0, so no attempt has it.
        let is_one = round <= Ballot::ROUND_MAX && (round > 0 || ballot == Ballot::ZERO);
        if is_one { Ok(ballot) } else { Err(MessageError::Field("ballot")) }
    }

    /// The value that takes up the rest.
    fn value(&mut self) -> Result<Value, MessageError> {
        let version = self.number("version")?;
        let writer = self.proposer()?;
        let bytes = std::mem::take(&mut self.rest).to_vec();
        let value = Value { version, writer, bytes };
        let is_one = version <= Value::VERSION_MAX && value.bytes.len() <= VALUE_BYTES_MAX;
        if is_one && (version > 0 || value == Value::NONE) {
            Ok(value)
        } else {
            Err(MessageError::Field("value"))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn proposers() -> impl Strategy<Value = ProposerId> {
        any::<(u8, u64)>().prop_map(|(number, incarnation)| ProposerId { number, incarnation })
    }

    pub(crate) fn ballots() -> impl Strategy<Value = Ballot> {
        (1..=Ballot::ROUND_MAX, proposers()).prop_map(|(round, proposer)| Ballot { round, proposer })
    }

    pub(crate) fn values() -> impl Strategy<Value = Value> {
        let bytes = prop::collection::vec(any::<u8>(), 0..=VALUE_BYTES_MAX);
        let set = (1..=Value::VERSION_MAX, proposers(), bytes);
        prop_oneof![
            Just(Value::NONE),
            set.prop_map(|(version, writer, bytes)| Value { version, writer, bytes }),
        ]
    }

    fn messages() -> impl Strategy<Value = Message> {
        let request = prop_oneof![
            Just(Request::Query),
            ballots().prop_map(|ballot| Request::Prepare { ballot }),
            (ballots(), values()).prop_map(|(ballot, value)| Request::Accept { ballot, value }),
        ];
        let answer = prop_oneof![
            (ballots(), values()).prop_map(|(accepted, value)| Answer::Report { accepted, value }),
            (ballots(), ballots(), values()).prop_map(|(ballot, accepted, value)| Answer::Promise {
                ballot,
                accepted,
                value
            }),
            ballots().prop_map(|ballot| Answer::Accepted { ballot }),
            (ballots(), ballots()).prop_map(|(ballot, promised)| Answer::Refused { ballot, promised }),
        ];
        prop_oneof![request.prop_map(Message::Request), answer.prop_map(Message::Answer)]
    }

    #[test]
    fn the_layout_is_fixed() {
        let proposer = ProposerId { number: 3, incarnation: 0x0102 };
        let value = Value { version: 9, writer: proposer, bytes: b"abc".to_vec() };
        let accept = Request::Accept { ballot: Ballot { round: 7, proposer }, value };
        let bytes = Message::Request(accept).encode(0xaabb, 2);
        let mut expected = b"WFTR\x01\x03\x02\x00\0\0\0\0\0\0\xaa\xbb".to_vec();
        expected.extend(b"\0\0\0\0\0\0\0\x07\x03\0\0\0\0\0\0\x01\x02");
        expected.extend(b"\0\0\0\0\0\0\0\x09\x03\0\0\0\0\0\0\x01\x02abc");
        assert_eq!(bytes[..bytes.len() - 4], expected);
    }

    proptest! {
        #[test]
        fn messages_survive_a_round_trip(
            message in messages(),
            cluster in any::<u64>(),
            coordinator in 0..COORDINATORS_MAX as u8,
        ) {
            let bytes = message.encode(cluster, coordinator);
            prop_assert_eq!(Message::decode(&bytes), Ok((cluster, coordinator, message)));
        }

        #[test]
        fn a_changed_byte_is_noticed(message in messages(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let mut bytes = message.encode(1, 0).to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Message::decode(&bytes).is_err());
        }

        #[test]
        fn a_shorter_or_longer_datagram_is_refused(message in messages(), cut in 1..40usize) {
            let bytes = message.encode(1, 0);
            prop_assert!(Message::decode(&bytes[..bytes.len().saturating_sub(cut)]).is_err());
            let mut longer = bytes.to_vec();
            longer.resize(bytes.len() + cut, 0);
            prop_assert!(Message::decode(&longer).is_err());
        }

        #[test]
        fn whatever_decodes_is_encoded_to_the_same(
            kind in 0..9u8,
            body in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = b"WFTR\x01".to_vec();
            bytes.extend([kind, 1, 0]);
            bytes.extend([0; 16]);
            bytes.extend(body);
            bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
            if let Ok((cluster, coordinator, message)) = Message::decode(&bytes) {
                prop_assert_eq!(&*message.encode(cluster, coordinator), &bytes[..]);
            }
        }
    }
}
