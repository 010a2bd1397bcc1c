//! The messages between agents and the membership service, byte by byte.
//!
//! One message is one UDP datagram. Numbers are big-endian.
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 4 | magic | `WFTM` |
//! | 4 | 1 | version | 6 |
//! | 5 | 1 | kind | 1 heartbeat, 2 grant, 3 refusal, 4 notice, 5 other cluster, 6 other configuration, 7 beacon, 8 elsewhere |
//! | 6 | 1 | node | heartbeat, beacon: the sender; otherwise the receiver |
//! | 7 | 1 | detail | heartbeat: state; refusal: reason; other configuration: the node that has the cluster's value, 16 for the service; elsewhere: the keeper that holds the service, 16 if that is unknown; otherwise 0 |
//! | 8 | 8 | cluster | the sender's [`ClusterId`] |
//! | 16 | 4 | epoch | heartbeat: the engine's; grant, refusal, notice: the service's; otherwise 0 |
//! | 20 | 8 | incarnation | the node's; notice, beacon: 0 |
//! | 28 | 8 | token | chosen by a heartbeat, echoed by its answer; notice, beacon: 0 |
//! | 36 | | body | |
//! | end - 4 | 4 | checksum | CRC-32 (IEEE 802.3) of all bytes before it |
//!
//! | kind | body |
//! |---|---|
//! | heartbeat | 2 bytes: set of the nodes whose beacons the sender receives, with itself if it receives the service's answers; then, while the engine is starting: nothing, or its [`Profile`]; otherwise nothing, or the view that the node claims: 4 bytes: epoch; 2 bytes: set of full nodes; 2 bytes: joining nodes |
//! | grant | 4 bytes: the term; 2 bytes: set of full nodes, bit *i* is node *i*; 2 bytes: joining ones; 8 bytes: the lease in ns |
//! | refusal | 4 bytes: the term; superseded: 8 bytes, the newest incarnation |
//! | other cluster | the name of the service's cluster |
//! | other configuration | three texts, each a byte of length and its bytes: the key, the node's value, the cluster's value |
//! | beacon | 8 bytes: the length of a lease in ns; 0 if the node does not know it |
//!
//! A node sends beacons to each other node, at the port at which that node receives datagrams. All other messages
//! travel between a node and the membership service.

use std::fmt;
use std::ops::Deref;

use weft_time::Duration;
use weft_waist::{EngineState, EngineStatus, Epoch, NODES_MAX, NodeId, NodeSet, View};

use crate::identity::{ClusterId, ClusterName};
use crate::lease::{LEASE_MAX, LEASE_MIN};
use crate::membership::{Incarnation, Reason};
use crate::place::Family;
use crate::profile::{Difference, Holder, PROFILE_BYTES_MAX, Profile};
use crate::text::Text;

const MAGIC: [u8; 4] = *b"WFTM";
const VERSION: u8 = 6;
const HEADER_BYTES: usize = 36;
const TERM_BYTES: usize = 4;
const VIEW_BYTES: usize = TERM_BYTES + 12;
const HEARS_BYTES: usize = 2;
const CLAIM_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;
const TEXTS_BYTES_MAX: usize = 3 * (1 + Text::BYTES_MAX);
const BYTES_MIN: usize = HEADER_BYTES + CHECKSUM_BYTES;
const BYTES_MAX: usize = BYTES_MIN
    + HEARS_BYTES
    + if PROFILE_BYTES_MAX > TEXTS_BYTES_MAX { PROFILE_BYTES_MAX } else { TEXTS_BYTES_MAX };
// Every message fits into one packet of an Ethernet, so none is fragmented.
const _: () = assert!(BYTES_MAX <= 1_500 - Family::V6.header_bytes() as usize);
/// Node number that stands for the membership service.
const SERVICE: u8 = NODES_MAX as u8;

/// A number in a heartbeat by which an agent matches the answer.
pub type Token = u64;

/// A node's request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The node that requests the lease.
    pub node: NodeId,
    /// Incarnation of the node's engine.
    pub incarnation: Incarnation,
    /// Status of the node's engine.
    pub status: EngineStatus,
    /// The nodes from which this node has received a beacon within the length of a lease; with itself, if it has
    /// received an answer of the service in that time. See [`Beacons`](crate::Beacons).
    pub receives_from: NodeSet,
    /// The newest view that the node has received. It is sent only to a service that has lost its state: see
    /// [`Service`](crate::Service).
    pub claim: Option<View>,
}

/// A message between an agent and the membership service, or a beacon between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A node requests a lease.
    Heartbeat {
        /// Chosen by the node.
        token: Token,
        /// State of the node's engine, and its request for a lease.
        heartbeat: Heartbeat,
        /// The profile on which the nodes of the cluster must agree. Only a starting engine sends it.
        profile: Option<Profile>,
    },
    /// The lease is granted.
    Grant {
        /// The node that holds the lease.
        node: NodeId,
        /// Incarnation of the node's engine.
        incarnation: Incarnation,
        /// Token of the heartbeat that this answers.
        token: Token,
        /// The term of the keeper that holds the service; 0 if the service is one process.
        term: u32,
        /// The current view; the node is a member of it.
        view: View,
        /// Length of the lease from the sending of that heartbeat: whole nanoseconds.
        lease: Duration,
    },
    /// The lease is not granted.
    Refusal {
        /// The node that receives the refusal.
        node: NodeId,
        /// Incarnation of the node's engine.
        incarnation: Incarnation,
        /// Token of the heartbeat that this answers.
        token: Token,
        /// The term of the keeper that holds the service; 0 if the service is one process.
        term: u32,
        /// Epoch of the service's newest view.
        epoch: Epoch,
        /// Why the service grants no lease.
        reason: Reason,
    },
    /// A view has been published: the node should request it with a heartbeat. The notice is only a hint; it has
    /// no answer and may be lost.
    Notice {
        /// The node that receives the notice.
        node: NodeId,
        /// Epoch of the published view.
        epoch: Epoch,
    },
    /// The heartbeat came from another cluster than the service's.
    OtherCluster {
        /// The node that receives the answer.
        node: NodeId,
        /// Incarnation of the node's engine.
        incarnation: Incarnation,
        /// Token of the heartbeat that this answers.
        token: Token,
        /// Name of the service's cluster.
        name: ClusterName,
    },
    /// The node's configuration differs from those of the cluster.
    OtherConfiguration {
        /// The node that receives the answer.
        node: NodeId,
        /// Incarnation of the node's engine.
        incarnation: Incarnation,
        /// Token of the heartbeat that this answers.
        token: Token,
        /// The first difference that the service has found.
        difference: Difference,
    },
    /// A keeper that does not hold the service has received the heartbeat.
    Elsewhere {
        /// The node that receives the answer.
        node: NodeId,
        /// Incarnation of the node's engine.
        incarnation: Incarnation,
        /// Token of the heartbeat that this answers.
        token: Token,
        /// The keeper that holds the service, as far as this one knows.
        holder: Option<NodeId>,
    },
    /// A node shows its peers that its datagrams reach them.
    Beacon {
        /// The node that sends the beacon.
        node: NodeId,
        /// Length of leases, as far as the node knows it: whole nanoseconds.
        lease: Option<Duration>,
    },
}

/// Whether a datagram is a message of this protocol. A node uses it to recognise beacons among the datagrams that
/// it receives.
pub fn is_membership(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Why a datagram is no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The length is not one of any message, or not one of its kind.
    #[error("a datagram of {0} bytes is no membership message")]
    Length(usize),
    /// The datagram does not begin with the magic number.
    #[error("the datagram does not begin with the magic number of membership messages")]
    Magic,
    /// The version is not supported.
    #[error("version {0} of the membership protocol is not spoken here")]
    Version(u8),
    /// The checksum is wrong.
    #[error("the checksum of the membership message is wrong")]
    Checksum,
    /// A field, by its name, has an invalid value.
    #[error("the field `{0}` of the membership message holds an impossible value")]
    Field(&'static str),
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

/// The header's fields after magic and version, in the order in which they are sent.
struct Header {
    kind: u8,
    node: NodeId,
    detail: u8,
    epoch: Epoch,
    incarnation: u64,
    token: Token,
}

impl Message {
    /// Encodes the message, sent by a member of `cluster`.
    pub fn encode(&self, cluster: ClusterId) -> Datagram {
        let mut body = Vec::new();
        let header = match *self {
            Self::Heartbeat {
                token,
                heartbeat: Heartbeat { node, incarnation, status, receives_from, claim },
                ref profile,
            } => {
                body.extend(receives_from.bits().to_be_bytes());
                if let Some(profile) = profile {
                    profile.encode(&mut body);
                } else if let Some(view) = claim {
                    body.extend(view.epoch.0.to_be_bytes());
                    body.extend(view.full.bits().to_be_bytes());
                    body.extend(view.joining.bits().to_be_bytes());
                }
                let detail = encode_state(status.state);
                Header { kind: 1, node, detail, epoch: status.epoch, incarnation: incarnation.get(), token }
            }
            Self::Grant { node, incarnation, token, term, view, lease } => {
                body.extend(term.to_be_bytes());
                body.extend(view.full.bits().to_be_bytes());
                body.extend(view.joining.bits().to_be_bytes());
                body.extend(lease.as_ns().to_be_bytes());
                Header { kind: 2, node, detail: 0, epoch: view.epoch, incarnation: incarnation.get(), token }
            }
            Self::Refusal { node, incarnation, token, term, epoch, reason } => {
                let detail = encode_reason(reason);
                body.extend(term.to_be_bytes());
                if let Reason::Superseded { by } = reason {
                    body.extend(by.get().to_be_bytes());
                }
                Header { kind: 3, node, detail, epoch, incarnation: incarnation.get(), token }
            }
            Self::Notice { node, epoch } => {
                Header { kind: 4, node, detail: 0, epoch, incarnation: 0, token: 0 }
            }
            Self::OtherCluster { node, incarnation, token, name } => {
                body.extend(name.as_str().as_bytes());
                let incarnation = incarnation.get();
                Header { kind: 5, node, detail: 0, epoch: Epoch(0), incarnation, token }
            }
            Self::OtherConfiguration { node, incarnation, token, difference } => {
                let Difference { key, ours, theirs, holder } = difference;
                for text in [key, ours, theirs] {
                    body.push(text.as_bytes().len() as u8);
                    body.extend(text.as_bytes());
                }
                let detail = match holder {
                    Holder::Node(node) => node.index() as u8,
                    Holder::Service => SERVICE,
                };
                Header { kind: 6, node, detail, epoch: Epoch(0), incarnation: incarnation.get(), token }
            }
            Self::Beacon { node, lease } => {
                body.extend(lease.map_or(0, Duration::as_ns).to_be_bytes());
                Header { kind: 7, node, detail: 0, epoch: Epoch(0), incarnation: 0, token: 0 }
            }
            Self::Elsewhere { node, incarnation, token, holder } => {
                let detail = holder.map_or(SERVICE, |holder| holder.index() as u8);
                Header { kind: 8, node, detail, epoch: Epoch(0), incarnation: incarnation.get(), token }
            }
        };
        let mut writer = Writer { bytes: [0; BYTES_MAX], length: 0 };
        writer.put(&MAGIC);
        writer.put(&[VERSION, header.kind, header.node.index() as u8, header.detail]);
        writer.put(&cluster.0.to_be_bytes());
        writer.put(&header.epoch.0.to_be_bytes());
        writer.put(&header.incarnation.to_be_bytes());
        writer.put(&header.token.to_be_bytes());
        writer.put(&body);
        let checksum = crc32fast::hash(&writer.bytes[..writer.length]);
        writer.put(&checksum.to_be_bytes());
        Datagram { bytes: writer.bytes, length: writer.length }
    }

    /// Decodes a datagram; returns the cluster to which it belongs, and the message.
    ///
    /// # Errors
    /// [`Message::encode`] never produces such bytes.
    pub fn decode(bytes: &[u8]) -> Result<(ClusterId, Self), MessageError> {
        let length = MessageError::Length(bytes.len());
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) {
            return Err(length);
        }
        let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        let mut reader = Reader { rest: content };
        if reader.take() != MAGIC {
            return Err(MessageError::Magic);
        }
        let [version, kind, node, detail] = reader.take();
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        if crc32fast::hash(content).to_be_bytes() != checksum {
            return Err(MessageError::Checksum);
        }
        let node = NodeId::new(usize::from(node)).ok_or(MessageError::Field("node"))?;
        let cluster = ClusterId(u64::from_be_bytes(reader.take()));
        let epoch = Epoch(u32::from_be_bytes(reader.take()));
        let incarnation_bits = u64::from_be_bytes(reader.take());
        let token = u64::from_be_bytes(reader.take());
        let body = reader.rest;
        let incarnation = Incarnation::new(incarnation_bits).ok_or(MessageError::Field("incarnation"));
        let unused = |field, bits: u64| if bits == 0 { Ok(()) } else { Err(MessageError::Field(field)) };
        let empty = if body.is_empty() { Ok(()) } else { Err(length) };
        let message = match kind {
            1 => {
                let status = EngineStatus { epoch, state: decode_state(detail)? };
                if body.len() < HEARS_BYTES {
                    return Err(length);
                }
                let receives_from = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                let body = reader.rest;
                let (profile, claim) = match body {
                    [] => (None, None),
                    _ if status.state == EngineState::Starting => {
                        (Some(Profile::decode(body).ok_or(MessageError::Field("profile"))?), None)
                    }
                    _ if body.len() == CLAIM_BYTES => {
                        let epoch = Epoch(u32::from_be_bytes(reader.take()));
                        let full = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                        let joining = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                        let view = View { epoch, full, joining };
                        (None, Some(consistent(view, node).ok_or(MessageError::Field("claim"))?))
                    }
                    _ => return Err(length),
                };
                let heartbeat = Heartbeat { node, incarnation: incarnation?, status, receives_from, claim };
                Self::Heartbeat { token, heartbeat, profile }
            }
            2 => {
                unused("detail", detail.into())?;
                if body.len() != VIEW_BYTES {
                    return Err(length);
                }
                let term = u32::from_be_bytes(reader.take());
                let full = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                let joining = NodeSet::from_bits(u16::from_be_bytes(reader.take()));
                let view = View { epoch, full, joining };
                consistent(view, node).ok_or(MessageError::Field("view"))?;
                let lease = lease(u64::from_be_bytes(reader.take()))?;
                Self::Grant { node, incarnation: incarnation?, token, term, view, lease }
            }
            3 => {
                if body.len() < TERM_BYTES {
                    return Err(length);
                }
                let term = u32::from_be_bytes(reader.take());
                let body = reader.rest;
                let empty = if body.is_empty() { Ok(()) } else { Err(length) };
                let reason = match (detail, body) {
                    (SUPERSEDED, _) => {
                        let by = u64::from_be_bytes(body.try_into().map_err(|_| length)?);
                        Reason::Superseded { by: Incarnation::new(by).ok_or(MessageError::Field("by"))? }
                    }
                    _ => empty.and_then(|()| decode_reason(detail))?,
                };
                Self::Refusal { node, incarnation: incarnation?, token, term, epoch, reason }
            }
            4 => {
                empty?;
                unused("detail", detail.into())?;
                unused("incarnation", incarnation_bits)?;
                unused("token", token)?;
                Self::Notice { node, epoch }
            }
            5 => {
                unused("detail", detail.into())?;
                unused("epoch", epoch.0.into())?;
                let name = std::str::from_utf8(body).ok().and_then(ClusterName::new);
                let name = name.ok_or(MessageError::Field("name"))?;
                Self::OtherCluster { node, incarnation: incarnation?, token, name }
            }
            6 => {
                unused("epoch", epoch.0.into())?;
                let holder = match NodeId::new(usize::from(detail)) {
                    Some(node) => Holder::Node(node),
                    None if detail == SERVICE => Holder::Service,
                    None => return Err(MessageError::Field("holder")),
                };
                let mut text = || reader.text().ok_or(MessageError::Field("difference"));
                let difference = Difference { key: text()?, ours: text()?, theirs: text()?, holder };
                if !reader.rest.is_empty() {
                    return Err(length);
                }
                Self::OtherConfiguration { node, incarnation: incarnation?, token, difference }
            }
            7 => {
                unused("detail", detail.into())?;
                unused("epoch", epoch.0.into())?;
                unused("incarnation", incarnation_bits)?;
                unused("token", token)?;
                let lease_ns = u64::from_be_bytes(body.try_into().map_err(|_| length)?);
                let lease = (lease_ns > 0).then(|| lease(lease_ns)).transpose()?;
                Self::Beacon { node, lease }
            }
            8 => {
                empty?;
                unused("epoch", epoch.0.into())?;
                let holder = NodeId::new(usize::from(detail));
                if holder.is_none() && detail != SERVICE {
                    return Err(MessageError::Field("holder"));
                }
                Self::Elsewhere { node, incarnation: incarnation?, token, holder }
            }
            _ => return Err(MessageError::Field("kind")),
        };
        Ok((cluster, message))
    }
}

/// A lease of `ns` nanoseconds, if its length is valid.
fn lease(ns: u64) -> Result<Duration, MessageError> {
    let is_one = (LEASE_MIN.as_ns()..=LEASE_MAX.as_ns()).contains(&ns);
    if is_one { Ok(Duration::from_ns(ns)) } else { Err(MessageError::Field("lease")) }
}

/// The view, if it is consistent and `node` is a member of it.
fn consistent(view: View, node: NodeId) -> Option<View> {
    let View { epoch, full, joining } = view;
    let is_one = epoch > Epoch(0) && !full.is_empty() && full.intersection(joining).is_empty();
    (is_one && view.members().contains(node)).then_some(view)
}

pub(crate) const fn encode_state(state: EngineState) -> u8 {
    match state {
        EngineState::Starting => 0,
        EngineState::Joining { synced: false } => 1,
        EngineState::Joining { synced: true } => 2,
        EngineState::Full => 3,
        EngineState::Lost => 4,
        EngineState::Restored => 5,
        EngineState::Sealed => 6,
    }
}

pub(crate) const fn decode_state(detail: u8) -> Result<EngineState, MessageError> {
    Ok(match detail {
        0 => EngineState::Starting,
        1 => EngineState::Joining { synced: false },
        2 => EngineState::Joining { synced: true },
        3 => EngineState::Full,
        4 => EngineState::Lost,
        5 => EngineState::Restored,
        6 => EngineState::Sealed,
        _ => return Err(MessageError::Field("state")),
    })
}

/// The code of the one reason that has a body.
const SUPERSEDED: u8 = 2;

pub(crate) const fn encode_reason(reason: Reason) -> u8 {
    match reason {
        Reason::Waiting => 0,
        Reason::Rejoin => 1,
        Reason::Superseded { .. } => SUPERSEDED,
        Reason::Halted => 3,
        Reason::UnknownNode => 4,
        Reason::Ahead => 5,
        Reason::Occupied => 6,
        Reason::Taken => 7,
        Reason::Partitioned => 8,
    }
}

pub(crate) const fn decode_reason(detail: u8) -> Result<Reason, MessageError> {
    Ok(match detail {
        0 => Reason::Waiting,
        1 => Reason::Rejoin,
        3 => Reason::Halted,
        4 => Reason::UnknownNode,
        5 => Reason::Ahead,
        6 => Reason::Occupied,
        7 => Reason::Taken,
        8 => Reason::Partitioned,
        _ => return Err(MessageError::Field("reason")),
    })
}

struct Writer {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.length..self.length + field.len()].copy_from_slice(field);
        self.length += field.len();
    }
}

/// Parses fields from the front of a message.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// The next `N` bytes. They must be there: the caller has checked the length of the message.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.rest.split_first_chunk().expect("the length was checked");
        self.rest = rest;
        *field
    }

    fn text(&mut self) -> Option<Text> {
        let (length, rest) = self.rest.split_first()?;
        let (text, rest) = rest.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Text::from_bytes(text)
    }
}

/// One line of a log of messages: `node2#7 synced at epoch 4`.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heartbeat { heartbeat: Heartbeat { node, incarnation, status, .. }, .. } => {
                write!(f, "heartbeat {node}#{incarnation} {} at {}", status.state, status.epoch)
            }
            Self::Elsewhere { node, incarnation, holder: None, .. } => {
                write!(f, "no holder is known to {node}#{incarnation}'s keeper")
            }
            Self::Elsewhere { node, incarnation, holder: Some(holder), .. } => {
                write!(f, "{node}#{incarnation} is sent to keeper {}", holder.index())
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
            Self::OtherCluster { node, incarnation, name, .. } => {
                write!(f, "refusal {node}#{incarnation}: of cluster {name}")
            }
            Self::OtherConfiguration { node, incarnation, difference, .. } => {
                write!(f, "refusal {node}#{incarnation}: {difference}")
            }
            Self::Beacon { node, .. } => write!(f, "beacon {node}"),
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
        let state = (0u8..6).prop_map(|detail| decode_state(detail).unwrap());
        let reason = (0u8..9, incarnation()).prop_map(|(detail, by)| match detail {
            SUPERSEDED => Reason::Superseded { by },
            _ => decode_reason(detail).unwrap(),
        });
        let lease = LEASE_MIN.as_ns()..=LEASE_MAX.as_ns();
        prop_oneof![
            (node(), incarnation(), any::<u64>(), any::<u32>(), state, any::<u16>()).prop_map(
                |(node, incarnation, token, epoch, state, receives_from)| {
                    let status = EngineStatus { epoch: Epoch(epoch), state };
                    let tells = state == EngineState::Starting && token % 2 == 0;
                    let view = View {
                        epoch: Epoch(epoch.max(1)),
                        full: NodeSet::EMPTY.with(node),
                        joining: NodeSet::EMPTY,
                    };
                    let claim = (state != EngineState::Starting && token % 2 == 1).then_some(view);
                    Message::Heartbeat {
                        token,
                        heartbeat: Heartbeat {
                            node,
                            incarnation,
                            status,
                            receives_from: NodeSet::from_bits(receives_from),
                            claim,
                        },
                        profile: tells.then(|| crate::profile::tests::ledger(3, token)),
                    }
                }
            ),
            (node(), incarnation(), any::<u64>(), 1u32.., any::<u16>(), any::<u16>(), lease).prop_map(
                |(node, incarnation, token, epoch, full, joining, lease)| {
                    let full = NodeSet::from_bits(full).with(node);
                    let joining = NodeSet::from_bits(joining & !full.bits());
                    let view = View { epoch: Epoch(epoch), full, joining };
                    Message::Grant {
                        node,
                        incarnation,
                        token,
                        term: token as u32,
                        view,
                        lease: Duration::from_ns(lease),
                    }
                }
            ),
            (node(), prop::option::of(LEASE_MIN.as_ns()..=LEASE_MAX.as_ns()))
                .prop_map(|(node, lease)| Message::Beacon { node, lease: lease.map(Duration::from_ns) }),
            (node(), incarnation(), any::<u64>(), any::<u32>(), reason).prop_map(
                |(node, incarnation, token, epoch, reason)| Message::Refusal {
                    term: epoch / 2,
                    node,
                    incarnation,
                    token,
                    epoch: Epoch(epoch),
                    reason
                }
            ),
            (node(), incarnation(), any::<u64>(), prop::option::of(node())).prop_map(
                |(node, incarnation, token, holder)| Message::Elsewhere { node, incarnation, token, holder }
            ),
            (node(), any::<u32>()).prop_map(|(node, epoch)| Message::Notice { node, epoch: Epoch(epoch) }),
            (node(), incarnation(), any::<u64>(), "[a-z0-9._-]{1,32}").prop_map(
                |(node, incarnation, token, name)| {
                    let name = ClusterName::new(&name).unwrap();
                    Message::OtherCluster { node, incarnation, token, name }
                }
            ),
            (node(), incarnation(), any::<u64>(), prop::array::uniform3("[ -~]{0,64}")).prop_map(
                |(node, incarnation, token, texts)| {
                    let [key, ours, theirs] = texts.map(|text| Text::new(&text).unwrap());
                    let holder = if token % 2 == 0 { Holder::Service } else { Holder::Node(node) };
                    let difference = Difference { key, ours, theirs, holder };
                    Message::OtherConfiguration { node, incarnation, token, difference }
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn every_message_survives_the_wire(message in message()) {
            let cluster = ClusterId(7);
            prop_assert_eq!(Message::decode(&message.encode(cluster)), Ok((cluster, message)));
        }

        #[test]
        fn any_flipped_bit_is_found(message in message(), bit in any::<prop::sample::Index>()) {
            let mut bytes = message.encode(ClusterId::default()).to_vec();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Message::decode(&bytes).is_err());
        }

        #[test]
        fn hostile_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..64), length in BYTES_MIN..=BYTES_MAX,
        ) {
            let _ = Message::decode(&bytes);
            // With a valid header and checksum around them, the fields themselves are checked.
            for length in [BYTES_MIN, BYTES_MIN + 2, BYTES_MIN + 8, BYTES_MIN + 10, BYTES_MIN + VIEW_BYTES, length] {
                bytes.resize(length, 0xa5);
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = VERSION;
                bytes[5] %= 10;
                let checksum = crc32fast::hash(&bytes[..length - CHECKSUM_BYTES]);
                bytes[length - CHECKSUM_BYTES..].copy_from_slice(&checksum.to_be_bytes());
                if let Ok((cluster, message)) = Message::decode(&bytes) {
                    prop_assert_eq!(&*message.encode(cluster), &bytes[..]);
                }
            }
        }
    }

    #[test]
    fn a_beacon_with_a_wrong_field_is_refused() {
        let beacon = Message::Beacon { node: NodeId::new(1).unwrap(), lease: Some(LEASE_MIN) };
        let valid = beacon.encode(ClusterId::default()).to_vec();
        // Detail, epoch, incarnation and token are unused; a lease of 2^56 ns is too long, one of 1 ns too short.
        let last = valid.len() - CHECKSUM_BYTES - 1;
        let wrong = [(7, 1, "detail"), (19, 1, "epoch"), (27, 1, "incarnation"), (35, 1, "token")];
        for (at, value, field) in wrong.into_iter().chain([(HEADER_BYTES, 1, "lease")]) {
            let mut bytes = valid.clone();
            bytes[at] = value;
            assert_eq!(decode_with_checksum(bytes), Err(MessageError::Field(field)));
        }
        let mut short = valid.clone();
        short[HEADER_BYTES..=last].fill(0);
        short[last] = 1;
        assert_eq!(decode_with_checksum(short), Err(MessageError::Field("lease")));
        let mut cut = valid.clone();
        cut.drain(HEADER_BYTES..HEADER_BYTES + 1);
        assert!(decode_with_checksum(cut).is_err());
        assert!(decode_with_checksum(valid).is_ok());
    }

    /// Decodes bytes whose last four are replaced by the checksum of the others.
    fn decode_with_checksum(mut bytes: Vec<u8>) -> Result<(ClusterId, Message), MessageError> {
        let end = bytes.len() - CHECKSUM_BYTES;
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_be_bytes());
        Message::decode(&bytes)
    }

    #[test]
    fn a_heartbeat_byte_by_byte() {
        let message = Message::Heartbeat {
            token: 0x0102,
            heartbeat: Heartbeat {
                node: NodeId::new(2).unwrap(),
                incarnation: Incarnation::new(7).unwrap(),
                status: EngineStatus { epoch: Epoch(4), state: EngineState::Joining { synced: true } },
                receives_from: NodeSet::first(3),
                claim: None,
            },
            profile: None,
        };
        let bytes = message.encode(ClusterId(0x0a0b_0c0d_0e0f_1011));
        assert_eq!(bytes[..16], *b"WFTM\x06\x01\x02\x02\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11");
        assert_eq!(bytes[16..36], *b"\0\0\0\x04\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\x01\x02");
        assert_eq!(bytes[36..38], *b"\0\x07");
        assert_eq!(bytes.len(), 42);
        assert_eq!(message.to_string(), "heartbeat node2#7 synced at epoch 4");
    }
}
