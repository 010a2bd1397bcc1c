//! The messages between agents and the membership service, byte by byte.
//!
//! One message is one UDP datagram. Numbers are big-endian.
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 4 | magic | `WFTM` |
//! | 4 | 1 | version | 1 |
//! | 5 | 1 | kind | 1 heartbeat, 2 grant, 3 refusal, 4 notice |
//! | 6 | 1 | node | whom it is from (heartbeat) or for (the others) |
//! | 7 | 1 | detail | heartbeat: state; refusal: reason; otherwise 0 |
//! | 8 | 4 | epoch | heartbeat: the engine's; otherwise: the service's |
//! | 12 | 8 | incarnation | the node's; notice: 0 |
//! | 20 | 8 | token | chosen by a heartbeat, echoed by its answer; notice: 0 |
//! | 28 | 2 | full | grant only: set of nodes, bit *i* is node *i* |
//! | 30 | 2 | joining | grant only: likewise |
//! | 32 | 8 | lease | grant only: nanoseconds |
//! | 28 or 40 | 4 | checksum | CRC-32 (IEEE 802.3) of all bytes before it |

use std::fmt;
use std::ops::Deref;

use weft_time::Duration;
use weft_waist::{EngineState, EngineStatus, Epoch, NodeId, NodeSet, View};

use crate::membership::{Incarnation, Reason};

/// The UDP port at which a membership service listens unless configured otherwise.
pub const MEMBERSHIP_PORT: u16 = 4794;

/// The shortest lease. Below it, heartbeats would crowd out the traffic that the lease protects.
pub const LEASE_MIN: Duration = Duration::from_us(100);
/// The longest lease. A crash stops the cluster's writes for about that long.
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);

const MAGIC: [u8; 4] = *b"WFTM";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 28;
const VIEW_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;
const SHORT_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;
const LONG_BYTES: usize = SHORT_BYTES + VIEW_BYTES;

/// A number by which an agent knows the heartbeat that an answer is for.
pub type Token = u64;

/// A node's request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Who asks.
    pub node: NodeId,
    /// In which life.
    pub incarnation: Incarnation,
    /// How its engine is doing.
    pub status: EngineStatus,
}

/// Anything that is said between an agent and the membership service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A node asks for a lease.
    Heartbeat {
        /// Chosen by the node.
        token: Token,
        /// The request.
        heartbeat: Heartbeat,
    },
    /// The lease is granted.
    Grant {
        /// Whose lease.
        node: NodeId,
        /// Of which life.
        incarnation: Incarnation,
        /// Of the heartbeat that this answers.
        token: Token,
        /// The current view; the node is a member of it.
        view: View,
        /// How long the lease lasts from the sending of that heartbeat: whole nanoseconds.
        lease: Duration,
    },
    /// The lease is not granted.
    Refusal {
        /// To whom.
        node: NodeId,
        /// In which life.
        incarnation: Incarnation,
        /// Of the heartbeat that this answers.
        token: Token,
        /// The service's epoch.
        epoch: Epoch,
        /// Why.
        reason: Reason,
    },
    /// A view has been published: ask for it. Only a hint, so it needs no answer and may be lost.
    Notice {
        /// To whom.
        node: NodeId,
        /// The view's epoch.
        epoch: Epoch,
    },
}

/// Why a datagram is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Its length is that of no message, or not that of its kind.
    #[error("a datagram of {0} bytes is no membership message")]
    Length(usize),
    /// It does not begin with the magic number.
    #[error("the datagram does not begin with the magic number of membership messages")]
    Magic,
    /// Its version is not spoken here.
    #[error("version {0} of the membership protocol is not spoken here")]
    Version(u8),
    /// The checksum does not fit.
    #[error("the checksum of the membership message is wrong")]
    Checksum,
    /// A field holds a value that it cannot have.
    #[error("the field `{0}` of the membership message holds an impossible value")]
    Field(&'static str),
}

/// An encoded message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    bytes: [u8; LONG_BYTES],
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

/// The header's fields after magic and version, in their order on the wire.
struct Header {
    kind: u8,
    node: NodeId,
    detail: u8,
    epoch: Epoch,
    incarnation: u64,
    token: Token,
}

impl Message {
    /// The bytes of the message.
    pub fn encode(&self) -> Datagram {
        let (header, grant) = match *self {
            Self::Heartbeat { token, heartbeat: Heartbeat { node, incarnation, status } } => (
                Header {
                    kind: 1,
                    node,
                    detail: encode_state(status.state),
                    epoch: status.epoch,
                    incarnation: incarnation.get(),
                    token,
                },
                None,
            ),
            Self::Grant { node, incarnation, token, view, lease } => (
                Header { kind: 2, node, detail: 0, epoch: view.epoch, incarnation: incarnation.get(), token },
                Some((view, lease)),
            ),
            Self::Refusal { node, incarnation, token, epoch, reason } => (
                Header {
                    kind: 3,
                    node,
                    detail: encode_reason(reason),
                    epoch,
                    incarnation: incarnation.get(),
                    token,
                },
                None,
            ),
            Self::Notice { node, epoch } => {
                (Header { kind: 4, node, detail: 0, epoch, incarnation: 0, token: 0 }, None)
            }
        };
        let mut writer = Writer { bytes: [0; LONG_BYTES], length: 0 };
        writer.put(MAGIC);
        writer.put([VERSION, header.kind, header.node.index() as u8, header.detail]);
        writer.put(header.epoch.0.to_be_bytes());
        writer.put(header.incarnation.to_be_bytes());
        writer.put(header.token.to_be_bytes());
        if let Some((view, lease)) = grant {
            writer.put(view.full.bits().to_be_bytes());
            writer.put(view.joining.bits().to_be_bytes());
            writer.put(lease.as_ns().to_be_bytes());
        }
        let checksum = crc32fast::hash(&writer.bytes[..writer.length]);
        writer.put(checksum.to_be_bytes());
        Datagram { bytes: writer.bytes, length: writer.length }
    }

    /// The message in a datagram.
    ///
    /// # Errors
    /// Bytes that [`Message::encode`] does not produce are refused, whoever sent them.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() != SHORT_BYTES && bytes.len() != LONG_BYTES {
            return Err(MessageError::Length(bytes.len()));
        }
        let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        let mut reader = Reader { rest: body };
        if reader.take() != MAGIC {
            return Err(MessageError::Magic);
        }
        let [version, kind, node, detail] = reader.take();
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        if crc32fast::hash(body).to_be_bytes() != checksum {
            return Err(MessageError::Checksum);
        }
        if (bytes.len() == LONG_BYTES) != (kind == 2) {
            return Err(MessageError::Length(bytes.len()));
        }
        let node = NodeId::new(usize::from(node)).ok_or(MessageError::Field("node"))?;
        let epoch = Epoch(u32::from_be_bytes(reader.take()));
        let incarnation_bits = u64::from_be_bytes(reader.take());
        let token = u64::from_be_bytes(reader.take());
        let incarnation = Incarnation::new(incarnation_bits).ok_or(MessageError::Field("incarnation"));
        let unused = |field, bits: u64| if bits == 0 { Ok(()) } else { Err(MessageError::Field(field)) };
        match kind {
            1 => {
                let status = EngineStatus { epoch, state: decode_state(detail)? };
                Ok(Self::Heartbeat {
                    token,
                    heartbeat: Heartbeat { node, incarnation: incarnation?, status },
                })
            }
            2 => {
                unused("detail", detail.into())?;
                let full = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                let joining = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                let view = View { epoch, full, joining };
                let consistent = epoch > Epoch(0)
                    && !full.is_empty()
                    && full.intersection(joining).is_empty()
                    && view.members().contains(node);
                if !consistent {
                    return Err(MessageError::Field("view"));
                }
                let lease_ns = u64::from_be_bytes(reader.take());
                if !(LEASE_MIN.as_ns()..=LEASE_MAX.as_ns()).contains(&lease_ns) {
                    return Err(MessageError::Field("lease"));
                }
                let lease = Duration::from_ns(lease_ns);
                Ok(Self::Grant { node, incarnation: incarnation?, token, view, lease })
            }
            3 => {
                let reason = decode_reason(detail)?;
                Ok(Self::Refusal { node, incarnation: incarnation?, token, epoch, reason })
            }
            4 => {
                unused("detail", detail.into())?;
                unused("incarnation", incarnation_bits)?;
                unused("token", token)?;
                Ok(Self::Notice { node, epoch })
            }
            _ => Err(MessageError::Field("kind")),
        }
    }
}

const fn encode_state(state: EngineState) -> u8 {
    match state {
        EngineState::Starting => 0,
        EngineState::Joining { synced: false } => 1,
        EngineState::Joining { synced: true } => 2,
        EngineState::Full => 3,
        EngineState::Lost => 4,
    }
}

const fn decode_state(detail: u8) -> Result<EngineState, MessageError> {
    Ok(match detail {
        0 => EngineState::Starting,
        1 => EngineState::Joining { synced: false },
        2 => EngineState::Joining { synced: true },
        3 => EngineState::Full,
        4 => EngineState::Lost,
        _ => return Err(MessageError::Field("state")),
    })
}

const fn encode_reason(reason: Reason) -> u8 {
    match reason {
        Reason::Waiting => 0,
        Reason::Rejoin => 1,
        Reason::Superseded => 2,
        Reason::Halted => 3,
        Reason::UnknownNode => 4,
        Reason::Ahead => 5,
    }
}

const fn decode_reason(detail: u8) -> Result<Reason, MessageError> {
    Ok(match detail {
        0 => Reason::Waiting,
        1 => Reason::Rejoin,
        2 => Reason::Superseded,
        3 => Reason::Halted,
        4 => Reason::UnknownNode,
        5 => Reason::Ahead,
        _ => return Err(MessageError::Field("reason")),
    })
}

struct Writer {
    bytes: [u8; LONG_BYTES],
    length: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&field);
        self.length += N;
    }
}

/// Takes fields off the front. The caller has checked the length of the whole.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.rest.split_first_chunk().expect("the length was checked");
        self.rest = rest;
        *field
    }
}

/// One line of a conversation: `node2#7 synced at epoch 4`.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heartbeat { heartbeat: Heartbeat { node, incarnation, status }, .. } => {
                write!(f, "heartbeat {node}#{incarnation} {} at {}", status.state, status.epoch)
            }
            Self::Grant { node, incarnation, view, lease, .. } => write!(
                f,
                "grant {node}#{incarnation} {}: full {:?} joining {:?} for {lease}",
                view.epoch, view.full, view.joining
            ),
            Self::Refusal { node, incarnation, epoch, reason, .. } => {
                write!(f, "refusal {node}#{incarnation} at {epoch}: {reason:?}")
            }
            Self::Notice { node, epoch } => write!(f, "notice {node} {epoch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> impl Strategy<Value = NodeId> {
        (0usize..16).prop_map(|index| NodeId::new(index).unwrap())
    }

    fn incarnation() -> impl Strategy<Value = Incarnation> {
        (1..=Incarnation::LAST.get()).prop_map(|number| Incarnation::new(number).unwrap())
    }

    fn message() -> impl Strategy<Value = Message> {
        let state = (0u8..5).prop_map(|detail| decode_state(detail).unwrap());
        let reason = (0u8..6).prop_map(|detail| decode_reason(detail).unwrap());
        let lease = LEASE_MIN.as_ns()..=LEASE_MAX.as_ns();
        prop_oneof![
            (node(), incarnation(), any::<u64>(), any::<u32>(), state).prop_map(
                |(node, incarnation, token, epoch, state)| Message::Heartbeat {
                    token,
                    heartbeat: Heartbeat {
                        node,
                        incarnation,
                        status: EngineStatus { epoch: Epoch(epoch), state }
                    },
                }
            ),
            (node(), incarnation(), any::<u64>(), 1u32.., any::<u16>(), any::<u16>(), lease).prop_map(
                |(node, incarnation, token, epoch, full, joining, lease)| {
                    let full = NodeSet::from_bits(full).with(node);
                    let joining = NodeSet::from_bits(joining & !full.bits());
                    let view = View { epoch: Epoch(epoch), full, joining };
                    Message::Grant { node, incarnation, token, view, lease: Duration::from_ns(lease) }
                }
            ),
            (node(), incarnation(), any::<u64>(), any::<u32>(), reason).prop_map(
                |(node, incarnation, token, epoch, reason)| Message::Refusal {
                    node,
                    incarnation,
                    token,
                    epoch: Epoch(epoch),
                    reason
                }
            ),
            (node(), any::<u32>()).prop_map(|(node, epoch)| Message::Notice { node, epoch: Epoch(epoch) }),
        ]
    }

    proptest! {
        #[test]
        fn every_message_survives_the_wire(message in message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn any_flipped_bit_is_found(message in message(), bit in any::<prop::sample::Index>()) {
            let mut bytes = message.encode().to_vec();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Message::decode(&bytes).is_err());
        }

        #[test]
        fn hostile_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Message::decode(&bytes);
            // With a valid frame around them, the fields themselves are tried.
            for length in [SHORT_BYTES, LONG_BYTES] {
                bytes.resize(length, 0xa5);
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = VERSION;
                bytes[5] %= 6;
                let checksum = crc32fast::hash(&bytes[..length - CHECKSUM_BYTES]);
                bytes[length - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_be_bytes());
                if let Ok(message) = Message::decode(&bytes) {
                    prop_assert_eq!(&*message.encode(), &bytes[..]);
                }
            }
        }
    }

    #[test]
    fn a_heartbeat_byte_by_byte() {
        let message = Message::Heartbeat {
            token: 0x0102,
            heartbeat: Heartbeat {
                node: NodeId::new(2).unwrap(),
                incarnation: Incarnation::new(7).unwrap(),
                status: EngineStatus { epoch: Epoch(4), state: EngineState::Joining { synced: true } },
            },
        };
        let bytes = message.encode();
        assert_eq!(bytes[..28], *b"WFTM\x01\x01\x02\x02\0\0\0\x04\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\x01\x02");
        assert_eq!(bytes.len(), 32);
        assert_eq!(message.to_string(), "heartbeat node2#7 synced at epoch 4");
    }
}
