//! Requests and answers byte by byte.
//!
//! One message is one UDP datagram. Numbers are big-endian, times are in milliseconds.
//!
//! | offset | bytes | field | |
//! |---|---|---|---|
//! | 0 | 4 | magic | `WFTS` |
//! | 4 | 1 | version | 2 |
//! | 5 | 1 | kind | 0 request, 1 answer |
//! | 6 | 1 | part | 0 node, 1 engine, 2 counters, 3 service |
//! | 7 | 1 | detail | engine: slot; counters: page; otherwise 0 |
//! | 8 | 8 | cluster | the sender's [`ClusterId`] |
//! | 16 | 8 | token | chosen by a request, echoed by its answer |
//! | 24 | | body | |
//! | end - 4 | 4 | checksum | CRC-32 (IEEE 802.3) of all bytes before it |
//!
//! | message | body |
//! |---|---|
//! | request | zeros, so that the datagram has [`DATAGRAM_BYTES`] |
//! | node | node (1), engines (1), counters (2), incarnation (8), uptime (8), view (8), lease (4), lease left (4), refusal (1): 255 for none, superseding incarnation (8) |
//! | engine | state (1), epoch (4), leads (4), shards (4), sessions (4), most sessions (4), waits for (2), stalled for (2), name |
//! | counters | for each: value (8), name |
//! | service | phase (1): 0 bootstrapping, 1 running, 2 halted; missing (2), view (8), replicas (1), holder (1) or 255, term (4), name of the cluster, number of nodes (1), for each: incarnation (8) or 0, lease left (4), silent (4) or 2^32 - 1, reported epoch (4) |
//!
//! A view is its epoch (4), the set of full nodes (2) and that of joining ones (2). A text is one byte with its
//! length, followed by its bytes.

use weft_time::Duration;
use weft_waist::{EngineStatus, Epoch, NODES_MAX, NodeId, NodeSet, View};

use super::Phase;
use super::{
    COUNTERS_PER_PAGE, CounterPage, EngineReport, MemberStatus, NodeStatus, ServiceStatus, StatusAnswer,
    StatusPart,
};
use crate::identity::{ClusterId, ClusterName};
use crate::membership::{Incarnation, Reason};
use crate::message::{decode_reason, decode_state, encode_reason, encode_state};
use crate::text::Text;

/// The length of each request, and the most of an answer. It fits into the shortest packets that a cluster can be
/// configured for.
pub const DATAGRAM_BYTES: usize = 512;

const MAGIC: [u8; 4] = *b"WFTS";
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
const NO_REFUSAL: u8 = u8::MAX;
const NEVER: u32 = u32::MAX;
const NO_HOLDER: u8 = u8::MAX;

/// Whether a datagram claims to be a status message. The port receives other messages, too.
#[inline]
pub fn is_status(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The datagram is no valid status message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the datagram is no message of a status, or a damaged one")]
pub struct NoStatus;

/// A request for a part of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRequest {
    /// Number of the cluster to which the request is sent.
    pub cluster: ClusterId,
    /// Chosen by the client.
    pub token: u64,
    /// The part that is requested.
    pub part: StatusPart,
}

impl StatusRequest {
    /// Encodes the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = header(REQUEST, self.part, self.cluster, self.token);
        bytes.resize(DATAGRAM_BYTES - CHECKSUM_BYTES, 0);
        seal(bytes)
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// [`StatusRequest::encode`] never produces such bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoStatus> {
        let (header, body) = open(bytes, REQUEST)?;
        let is_padded = bytes.len() == DATAGRAM_BYTES && body.rest.iter().all(|byte| *byte == 0);
        if is_padded { Ok(header) } else { Err(NoStatus) }
    }
}

impl StatusAnswer {
    /// The part of the status that the answer contains.
    pub fn part(&self) -> StatusPart {
        match self {
            Self::Node(_) => StatusPart::Node,
            Self::Engine(engine) => StatusPart::Engine(engine.slot),
            Self::Counters(page) => StatusPart::Counters(page.page),
            Self::Service(_) => StatusPart::Service,
        }
    }

    /// Encodes the answer to a request with `token`. Times are rounded down to milliseconds, and counters beyond a
    /// page are left out.
    pub fn encode(&self, cluster: ClusterId, token: u64) -> Vec<u8> {
        let mut out = header(ANSWER, self.part(), cluster, token);
        match self {
            Self::Node(node) => put_node(&mut out, node),
            Self::Engine(engine) => put_engine(&mut out, engine),
            Self::Counters(page) => {
                for (name, value) in page.counters.iter().take(COUNTERS_PER_PAGE) {
                    out.extend(value.to_be_bytes());
                    put_text(&mut out, name.as_bytes());
                }
            }
            Self::Service(service) => put_service(&mut out, service),
        }
        seal(out)
    }

    /// Decodes an answer; returns its cluster, the token of the request, and the answer.
    ///
    /// # Errors
    /// [`StatusAnswer::encode`] never produces such bytes.
    pub fn decode(bytes: &[u8]) -> Result<(ClusterId, u64, Self), NoStatus> {
        let (StatusRequest { cluster, token, part }, mut body) = open(bytes, ANSWER)?;
        let answer = match part {
            StatusPart::Node => body.node().map(Self::Node),
            StatusPart::Engine(slot) => body.engine(slot).map(Self::Engine),
            StatusPart::Counters(page) => body.counters(page).map(Self::Counters),
            StatusPart::Service => body.service().map(Self::Service),
        };
        let answer = answer.filter(|_| body.rest.is_empty()).ok_or(NoStatus)?;
        Ok((cluster, token, answer))
    }
}

fn header(kind: u8, part: StatusPart, cluster: ClusterId, token: u64) -> Vec<u8> {
    let (part, detail) = match part {
        StatusPart::Node => (0, 0),
        StatusPart::Engine(slot) => (1, slot),
        StatusPart::Counters(page) => (2, page),
        StatusPart::Service => (3, 0),
    };
    let mut bytes = Vec::with_capacity(DATAGRAM_BYTES);
    bytes.extend(MAGIC);
    bytes.extend([VERSION, kind, part, detail]);
    bytes.extend(cluster.0.to_be_bytes());
    bytes.extend(token.to_be_bytes());
    bytes
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_be_bytes());
    debug_assert!(bytes.len() <= DATAGRAM_BYTES, "an answer is as long as a request");
    bytes
}

/// Checks a message of this kind and splits it into header and body.
fn open(bytes: &[u8], kind: u8) -> Result<(StatusRequest, Body<'_>), NoStatus> {
    if !(HEADER_BYTES + CHECKSUM_BYTES..=DATAGRAM_BYTES).contains(&bytes.len()) {
        return Err(NoStatus);
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let mut body = Body { rest: content };
    let mut parse = || {
        let is_ours = body.take()? == MAGIC && body.take()? == [VERSION, kind];
        let part = match body.take()? {
            [0, 0] => StatusPart::Node,
            [1, slot] => StatusPart::Engine(slot),
            [2, page] => StatusPart::Counters(page),
            [3, 0] => StatusPart::Service,
            _ => return None,
        };
        let cluster = ClusterId(u64::from_be_bytes(body.take()?));
        let token = u64::from_be_bytes(body.take()?);
        is_ours.then_some(StatusRequest { cluster, token, part })
    };
    let header = parse().ok_or(NoStatus)?;
    let is_whole = crc32fast::hash(content).to_be_bytes() == checksum;
    if is_whole { Ok((header, body)) } else { Err(NoStatus) }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(text.len() as u8);
    out.extend(text);
}

fn put_view(out: &mut Vec<u8>, view: View) {
    out.extend(view.epoch.0.to_be_bytes());
    out.extend(view.full.bits().to_be_bytes());
    out.extend(view.joining.bits().to_be_bytes());
}

fn put_ms(out: &mut Vec<u8>, time: Duration) {
    out.extend((milliseconds(time).min(u64::from(NEVER - 1)) as u32).to_be_bytes());
}

const fn milliseconds(time: Duration) -> u64 {
    time.as_ns() / 1_000_000
}

fn put_node(out: &mut Vec<u8>, node: &NodeStatus) {
    out.extend([node.node.index() as u8, node.engines]);
    out.extend(node.counters.to_be_bytes());
    out.extend(node.incarnation.get().to_be_bytes());
    out.extend(milliseconds(node.uptime).to_be_bytes());
    put_view(out, node.view);
    put_ms(out, node.lease);
    put_ms(out, node.lease_left);
    out.push(node.refusal.map_or(NO_REFUSAL, encode_reason));
    let by = if let Some(Reason::Superseded { by }) = node.refusal { by.get() } else { 0 };
    out.extend(by.to_be_bytes());
}

fn put_engine(out: &mut Vec<u8>, engine: &EngineReport) {
    out.push(encode_state(engine.status.state));
    out.extend(engine.status.epoch.0.to_be_bytes());
    for number in [engine.leads, engine.shards, engine.sessions, engine.sessions_max] {
        out.extend(number.to_be_bytes());
    }
    out.extend(engine.waits_for.bits().to_be_bytes());
    out.extend(engine.stalled_for.bits().to_be_bytes());
    put_text(out, engine.name.as_bytes());
}

fn put_service(out: &mut Vec<u8>, service: &ServiceStatus) {
    let (phase, missing) = match service.phase {
        Phase::Bootstrapping { missing } => (0, missing),
        Phase::Running => (1, NodeSet::EMPTY),
        Phase::Halted => (2, NodeSet::EMPTY),
    };
    out.push(phase);
    out.extend(missing.bits().to_be_bytes());
    put_view(out, service.view);
    out.push(service.replicas);
    out.push(service.holder.map_or(NO_HOLDER, |holder| holder.index() as u8));
    out.extend(service.term.to_be_bytes());
    put_text(out, service.cluster.as_str().as_bytes());
    let nodes = &service.nodes[..service.nodes.len().min(NODES_MAX)];
    out.push(nodes.len() as u8);
    for node in nodes {
        out.extend(node.incarnation.map_or(0, Incarnation::get).to_be_bytes());
        put_ms(out, node.lease_left);
        match node.silent {
            Some(silent) => put_ms(out, silent),
            None => out.extend(NEVER.to_be_bytes()),
        }
        out.extend(node.reported.0.to_be_bytes());
    }
}

/// Parses fields from the front of a body; `None` if a field is missing or invalid.
struct Body<'a> {
    rest: &'a [u8],
}

impl Body<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn set(&mut self) -> Option<NodeSet> {
        self.take().map(|bits| NodeSet::from_bits(u16::from_be_bytes(bits)))
    }

    fn view(&mut self) -> Option<View> {
        Some(View { epoch: Epoch(self.u32()?), full: self.set()?, joining: self.set()? })
    }

    fn ms(&mut self) -> Option<Duration> {
        self.u32().filter(|ms| *ms != NEVER).map(|ms| Duration::from_ms(ms.into()))
    }

    fn text(&mut self) -> Option<Text> {
        let length = usize::from(self.byte()?);
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Text::from_bytes(text)
    }

    fn node(&mut self) -> Option<NodeStatus> {
        let node = NodeId::new(self.byte()?.into())?;
        let engines = self.byte()?;
        let counters = u16::from_be_bytes(self.take()?);
        let incarnation = Incarnation::new(self.u64()?)?;
        // Up to the longest time that a [`Duration`] can express.
        let uptime = self.u64().filter(|ms| *ms <= u64::MAX / 1_000_000_000).map(Duration::from_ms)?;
        let (view, lease, lease_left) = (self.view()?, self.ms()?, self.ms()?);
        let (reason, by) = (self.byte()?, self.u64()?);
        let refusal = match (reason, Incarnation::new(by)) {
            (NO_REFUSAL, None) => None,
            (reason, None) => Some(decode_reason(reason).ok()?),
            (reason, Some(by)) => {
                Some(Reason::Superseded { by }).filter(|this| encode_reason(*this) == reason)
            }
        };
        let is_one = by == 0 || refusal.is_some();
        let status =
            NodeStatus { node, incarnation, uptime, view, lease, lease_left, refusal, engines, counters };
        is_one.then_some(status)
    }

    fn engine(&mut self, slot: u8) -> Option<EngineReport> {
        let state = decode_state(self.byte()?).ok()?;
        Some(EngineReport {
            slot,
            status: EngineStatus { epoch: Epoch(self.u32()?), state },
            leads: self.u32()?,
            shards: self.u32()?,
            sessions: self.u32()?,
            sessions_max: self.u32()?,
            waits_for: self.set()?,
            stalled_for: self.set()?,
            name: self.text()?,
        })
    }

    fn counters(&mut self, page: u8) -> Option<CounterPage> {
        let mut counters = Vec::new();
        while !self.rest.is_empty() {
            let value = self.u64()?;
            counters.push((self.text()?, value));
        }
        (counters.len() <= COUNTERS_PER_PAGE).then_some(CounterPage { page, counters })
    }

    fn service(&mut self) -> Option<ServiceStatus> {
        let (phase, missing) = (self.byte()?, self.set()?);
        let phase = match phase {
            0 => Phase::Bootstrapping { missing },
            1 if missing.is_empty() => Phase::Running,
            2 if missing.is_empty() => Phase::Halted,
            _ => return None,
        };
        let (view, replicas) = (self.view()?, self.byte()?);
        let holder = match self.byte()? {
            NO_HOLDER => None,
            holder => Some(NodeId::new(holder.into())?),
        };
        let term = self.u32()?;
        let cluster = ClusterName::new(self.text()?.as_str())?;
        let count = usize::from(self.byte()?);
        let nodes = (0..count).map(|_| self.member()).collect::<Option<Vec<_>>>()?;
        (count <= NODES_MAX).then_some(ServiceStatus { cluster, phase, view, replicas, holder, term, nodes })
    }

    fn member(&mut self) -> Option<MemberStatus> {
        let incarnation = match self.u64()? {
            0 => None,
            number => Some(Incarnation::new(number)?),
        };
        let lease_left = self.ms()?;
        let silent = match self.u32()? {
            NEVER => None,
            ms => Some(Duration::from_ms(ms.into())),
        };
        Some(MemberStatus { incarnation, lease_left, silent, reported: Epoch(self.u32()?) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_waist::EngineState;

    use super::*;

    fn ms() -> impl Strategy<Value = Duration> {
        (0..NEVER).prop_map(|ms| Duration::from_ms(ms.into()))
    }

    fn set() -> impl Strategy<Value = NodeSet> {
        any::<u16>().prop_map(NodeSet::from_bits)
    }

    fn view() -> impl Strategy<Value = View> {
        (any::<u32>(), set(), set()).prop_map(|(epoch, full, joining)| View {
            epoch: Epoch(epoch),
            full,
            joining,
        })
    }

    fn text(most: usize) -> impl Strategy<Value = Text> {
        prop::collection::vec(b' '..=b'~', 0..=most).prop_map(|bytes| Text::from_bytes(&bytes).unwrap())
    }

    fn incarnation() -> impl Strategy<Value = Incarnation> {
        (1..=Incarnation::LAST.get()).prop_map(|number| Incarnation::new(number).unwrap())
    }

    fn refusal() -> impl Strategy<Value = Option<Reason>> {
        (0u8..9, incarnation()).prop_map(|(code, by)| match code {
            8 => None,
            _ => Some(decode_reason(code).unwrap_or(Reason::Superseded { by })),
        })
    }

    fn node() -> impl Strategy<Value = NodeStatus> {
        let times = (ms(), ms(), ms());
        (0..NODES_MAX, any::<u8>(), any::<u16>(), incarnation(), times, view(), refusal()).prop_map(
            |(node, engines, counters, incarnation, (uptime, lease, lease_left), view, refusal)| NodeStatus {
                node: NodeId::new(node).unwrap(),
                incarnation,
                uptime,
                view,
                lease,
                lease_left,
                refusal,
                engines,
                counters,
            },
        )
    }

    fn engine() -> impl Strategy<Value = EngineReport> {
        let state = prop::sample::select(vec![
            EngineState::Starting,
            EngineState::Joining { synced: false },
            EngineState::Joining { synced: true },
            EngineState::Full,
            EngineState::Lost,
            EngineState::Restored,
        ]);
        (any::<u8>(), text(Text::BYTES_MAX), any::<u32>(), state, any::<[u32; 4]>(), set(), set()).prop_map(
            |(slot, name, epoch, state, [leads, shards, sessions, sessions_max], waits_for, stalled_for)| {
                let status = EngineStatus { epoch: Epoch(epoch), state };
                EngineReport {
                    slot,
                    name,
                    status,
                    leads,
                    shards,
                    sessions,
                    sessions_max,
                    waits_for,
                    stalled_for,
                }
            },
        )
    }

    fn service() -> impl Strategy<Value = ServiceStatus> {
        let member = (prop::option::of(incarnation()), ms(), prop::option::of(ms()), any::<u32>()).prop_map(
            |(incarnation, lease_left, silent, epoch)| MemberStatus {
                incarnation,
                lease_left,
                silent,
                reported: Epoch(epoch),
            },
        );
        let phase = prop_oneof![
            set().prop_map(|missing| Phase::Bootstrapping { missing }),
            Just(Phase::Running),
            Just(Phase::Halted)
        ];
        let nodes = prop::collection::vec(member, 0..=NODES_MAX);
        let holder = prop::option::of(0..NODES_MAX).prop_map(|node| node.and_then(NodeId::new));
        ("[a-z0-9._-]{1,32}", phase, view(), any::<u8>(), (holder, any::<u32>()), nodes).prop_map(
            |(name, phase, view, replicas, (holder, term), nodes)| ServiceStatus {
                cluster: ClusterName::new(&name).unwrap(),
                phase,
                view,
                replicas,
                holder,
                term,
                nodes,
            },
        )
    }

    fn answer() -> impl Strategy<Value = StatusAnswer> {
        let counters = prop::collection::vec((text(48), any::<u64>()), 0..=COUNTERS_PER_PAGE);
        let page = (any::<u8>(), counters).prop_map(|(page, counters)| CounterPage { page, counters });
        prop_oneof![
            node().prop_map(StatusAnswer::Node),
            engine().prop_map(StatusAnswer::Engine),
            page.prop_map(StatusAnswer::Counters),
            service().prop_map(StatusAnswer::Service),
        ]
    }

    proptest! {
        #[test]
        fn an_answer_survives_a_round_trip_and_is_no_longer_than_a_request(
            answer in answer(), cluster: u64, token: u64,
        ) {
            let bytes = answer.encode(ClusterId(cluster), token);
            prop_assert!(bytes.len() <= DATAGRAM_BYTES && is_status(&bytes));
            prop_assert_eq!(StatusAnswer::decode(&bytes), Ok((ClusterId(cluster), token, answer)));
            prop_assert_eq!(StatusRequest::decode(&bytes), Err(NoStatus));
        }

        #[test]
        fn a_request_survives_a_round_trip_and_is_padded(cluster: u64, token: u64, which in 0u8..4, detail: u8) {
            let part = [
                StatusPart::Node, StatusPart::Engine(detail), StatusPart::Counters(detail), StatusPart::Service,
            ][usize::from(which)];
            let request = StatusRequest { cluster: ClusterId(cluster), token, part };
            let bytes = request.encode();
            prop_assert_eq!(bytes.len(), DATAGRAM_BYTES);
            prop_assert_eq!(StatusRequest::decode(&bytes), Ok(request));
            prop_assert_eq!(StatusAnswer::decode(&bytes), Err(NoStatus));
            // An unpadded request is refused: its answer would have more bytes than it has.
            let short = seal(bytes[..HEADER_BYTES].to_vec());
            prop_assert_eq!(StatusRequest::decode(&short), Err(NoStatus));
        }

        #[test]
        fn damage_is_noticed(answer in answer(), place: usize, bit in 0u8..8) {
            let mut bytes = answer.encode(ClusterId(1), 2);
            let place = place % bytes.len();
            bytes[place] ^= 1_u8 << bit;
            prop_assert_eq!(StatusAnswer::decode(&bytes), Err(NoStatus));
        }

        #[test]
        fn arbitrary_bytes_have_one_form(bytes in prop::collection::vec(any::<u8>(), 0..200), fill: bool) {
            let mut bytes = bytes;
            if fill && bytes.len() > HEADER_BYTES {
                bytes[..6].copy_from_slice(b"WFTS\x01\x01");
                bytes[6] %= 4;
                bytes = seal(bytes);
            }
            if let Ok((cluster, token, answer)) = StatusAnswer::decode(&bytes) {
                prop_assert_eq!(answer.encode(cluster, token), bytes);
            }
        }
    }
}
