//! The messages, byte by byte.
//!
//! All integers are big-endian and aligned to their size; all messages begin at a multiple of 8 bytes. Fields
//! marked zero are sent as zero and ignored by receivers.
//!
//! ```text
//! Round     0 round(8)   8 epoch(2) members(1) flags(1) proposal bytes(2) algorithm(1) next(1)
//!           16 the algorithm's area, padded with zeros so that the proposal begins on a multiple of 64
//!           .. proposal
//!           members: of the instance that begins in this round. flags: bit 0: the proposal is a change; bits 2 to 7:
//!           `ahead`, the number of rounds after which the members are `next`; 0 if no change is pending
//! Fetch     0 instance(8)   8 wanted(1) zero(7)
//! Value     0 instance(8)   8 proposer(1) flags(1): 1 change; bytes(2) zero(52)   64 proposal
//! Start     0 zero(8)
//! Join      0 zero(8)
//! Record    0 rows(8)   8 suspected(1) decision(1) flags(1): 1 locked, 2 decided, 4 present; zero(1)
//! Change    0 add(1) remove(1) zero(6)
//!
//! calls     Start, Status, Subscribe, Leave, Timing: empty. Propose: the proposal. SetPeriod: 0 cycles of 4 ns (4) zero(4)
//!           Start, Subscribe, Leave and SetPeriod are for the host only; other callers get BadRequest
//! Answer    0 status(1) phase(1) epoch(2) members(1) zero(3)   8 instance or round(8)
//! Decided   as Value
//! Timings   0 round(8)   8 begin of the round(8)   16 period(4) one way(4)   24 largest lag(4) node(1) missed(1) known(1)
//!           decision quorum(1)   32 lag of each node(4 each, two's complement). Times are cycles of 4 ns
//! ```
//!
//! The area of the consensus is one record of 12 bytes for each instance in flight, oldest first. With a window of
//! four, the head and the area together fill one beat of 64 bytes. A proposal begins at a multiple of 64 bytes in
//! every message, so that no card needs to shift it.

use thiserror::Error;

use crate::instance::Record;
use crate::members::{MEMBERS_MAX, Members};

/// Kind of a message between nodes: the `kind` of messages in `weft_waist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A member's message of a round.
    Round = 1,
    /// A member requests decided proposals that it lacks.
    Fetch = 2,
    /// The answer, one proposal.
    Value = 3,
    /// A founder starts the founding of the cluster.
    Start = 4,
    /// A node that is no member asks to be added.
    Join = 5,
}

impl Kind {
    /// The kind of that number.
    pub fn parse(kind: u8) -> Option<Self> {
        [Self::Round, Self::Fetch, Self::Value, Self::Start, Self::Join]
            .into_iter()
            .find(|known| *known as u8 == kind)
    }
}

/// Kind of a request or an answer of a host or client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Call {
    /// Found the cluster: this node begins, and notifies the other founders.
    Start = 16,
    /// Ask for the node's progress.
    Status = 17,
    /// Propose these bytes.
    Propose = 18,
    /// Send all decisions to this caller from now on.
    Subscribe = 19,
    /// Leave the cluster in an orderly way.
    Leave = 20,
    /// Set the period from the next round on, at this node: in cycles of 4 ns.
    SetPeriod = 21,
    /// Ask for the arrival times of messages, relative to their expected times.
    Timing = 22,
    /// The answer to each of the calls above but `Timing`.
    Answer = 24,
    /// A decided proposal, sent to a subscriber.
    Decided = 25,
    /// The answer to `Timing`.
    Timings = 26,
}

impl Call {
    /// The call of that kind; `None` for answers.
    pub fn parse(kind: u8) -> Option<Self> {
        let calls = [
            Self::Start,
            Self::Status,
            Self::Propose,
            Self::Subscribe,
            Self::Leave,
            Self::SetPeriod,
            Self::Timing,
        ];
        calls.into_iter().find(|known| *known as u8 == kind)
    }

    /// Whether only the node's own host may make the call, because it changes the node. From other callers it is
    /// refused.
    pub const fn is_for_host(self) -> bool {
        matches!(self, Self::Start | Self::Subscribe | Self::Leave | Self::SetPeriod)
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Success. A proposal with this status is decided.
    Ok = 0,
    /// The instance decided without the proposal, which had no effect: propose it again.
    Dropped = 1,
    /// The queue of proposals is full. Nothing happened.
    Busy = 2,
    /// The node takes no part now, or cannot do this in its phase. Nothing happened.
    NotRunning = 3,
    /// The node has fenced itself. A proposal may have been decided by the others.
    Fenced = 4,
    /// The size is wrong, or only the node's host may make this call. Nothing happened.
    BadRequest = 5,
    /// The value to set is out of its range. Nothing happened.
    OutOfRange = 6,
}

impl Status {
    fn parse(value: u8) -> Result<Self, Malformed> {
        Ok(match value {
            0 => Self::Ok,
            1 => Self::Dropped,
            2 => Self::Busy,
            3 => Self::NotRunning,
            4 => Self::Fenced,
            5 => Self::BadRequest,
            6 => Self::OutOfRange,
            _ => return Err(Malformed::Field("status")),
        })
    }
}

/// Phase of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// It has no configuration yet.
    Idle = 0,
    /// A founder that waits for the start.
    Ready = 1,
    /// It asks the members to add it.
    Joining = 2,
    /// It is a member and sends a message in every round.
    Running = 3,
    /// It could not complete a decision in time and has stopped; it has to join again.
    Fenced = 4,
    /// It was removed, at its own request or because it was silent.
    Left = 5,
}

impl Phase {
    fn parse(value: u8) -> Result<Self, Malformed> {
        Ok(match value {
            0 => Self::Idle,
            1 => Self::Ready,
            2 => Self::Joining,
            3 => Self::Running,
            4 => Self::Fenced,
            5 => Self::Left,
            _ => return Err(Malformed::Field("phase")),
        })
    }
}

/// Why bytes are no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The length differs from the one that the fields give.
    #[error("{have} bytes where {need} are needed")]
    Length {
        /// Length of the bytes.
        have: usize,
        /// Bytes that the fields need.
        need: usize,
    },
    /// A field, by its name, has an invalid value.
    #[error("the field {0} has a value that it cannot have")]
    Field(&'static str),
}

/// Upper bound of round numbers: at one round per nanosecond it is reached after 146 years.
pub const ROUNDS_MAX: u64 = 1 << 62;

fn exactly(bytes: &[u8], need: usize) -> Result<&[u8], Malformed> {
    if bytes.len() == need { Ok(bytes) } else { Err(Malformed::Length { have: bytes.len(), need }) }
}

fn at_least(bytes: &[u8], need: usize) -> Result<&[u8], Malformed> {
    if bytes.len() >= need { Ok(bytes) } else { Err(Malformed::Length { have: bytes.len(), need }) }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

/// A member's proposal in one instance: bytes of a client, or a change of the members; empty if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proposal<'a> {
    /// Whether the bytes are a [`Change`].
    pub change: bool,
    /// The content.
    pub bytes: &'a [u8],
}

impl<'a> Proposal<'a> {
    fn parse(flags: u8, bytes: &'a [u8]) -> Result<Self, Malformed> {
        let change = flags & 1 == 1;
        if change {
            Change::parse(bytes)?;
        }
        Ok(Self { change, bytes })
    }
}

/// A change of the members that a member proposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Change {
    /// Nodes that become members.
    pub add: Members,
    /// Nodes to remove: the proposer itself, or members from which it has received nothing for too long.
    pub remove: Members,
}

impl Change {
    /// Bytes of a change.
    pub const BYTES: usize = 8;

    /// Encodes the change.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        [self.add.bits(), self.remove.bits(), 0, 0, 0, 0, 0, 0]
    }

    /// Decodes the change.
    ///
    /// # Errors
    /// It is not 8 bytes long.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        Ok(Self { add: Members::from_bits(bytes[0]), remove: Members::from_bits(bytes[1]) })
    }
}

/// Header of every message of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The round; also the number of the instance that begins in it.
    pub round: u64,
    /// The epoch of that instance.
    pub epoch: u16,
    /// The members of that instance.
    pub members: Members,
    /// In this number of rounds, 1 to 63, the members will be these.
    pub next: Option<(u8, Members)>,
    /// Algorithm of the area that follows.
    pub algorithm: u8,
}

/// A member's message of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round<'a> {
    /// Header with the round.
    pub head: Head,
    /// Area of the algorithm.
    pub area: &'a [u8],
    /// The member's proposal for the instance that begins.
    pub proposal: Proposal<'a>,
}

impl<'a> Round<'a> {
    /// Bytes of the head.
    pub const HEAD: usize = 16;

    /// Offset of the proposal behind an area of this length.
    pub const fn proposal_at(area_bytes: usize) -> usize {
        (Self::HEAD + area_bytes).next_multiple_of(64)
    }

    /// Encodes the head of a message with that proposal.
    pub fn head(head: &Head, proposal: &Proposal<'_>) -> [u8; Round::HEAD] {
        let mut bytes = [0; Self::HEAD];
        let (ahead, next) = head.next.unwrap_or_default();
        put(&mut bytes, 0, head.round.to_be_bytes());
        put(&mut bytes, 8, head.epoch.to_be_bytes());
        bytes[10] = head.members.bits();
        bytes[11] = ahead << 2 | u8::from(proposal.change);
        put(&mut bytes, 12, (proposal.bytes.len() as u16).to_be_bytes());
        bytes[14] = head.algorithm;
        bytes[15] = next.bits();
        bytes
    }

    /// Parses a message with an area of `area_bytes` bytes and a proposal of at most `value_bytes` bytes.
    ///
    /// # Errors
    /// Wrong length, a round number beyond the bound, a proposal that is too long, or a malformed change.
    pub fn parse(bytes: &'a [u8], area_bytes: usize, value_bytes: usize) -> Result<Self, Malformed> {
        let proposal_at = Self::proposal_at(area_bytes);
        at_least(bytes, proposal_at)?;
        let proposal_bytes = usize::from(be16(bytes, 12));
        if proposal_bytes > value_bytes {
            return Err(Malformed::Field("proposal bytes"));
        }
        exactly(bytes, proposal_at + proposal_bytes)?;
        let (round, flags, ahead) = (be64(bytes, 0), bytes[11], bytes[11] >> 2);
        if round >= ROUNDS_MAX {
            return Err(Malformed::Field("round"));
        }
        Ok(Self {
            head: Head {
                round,
                epoch: be16(bytes, 8),
                members: Members::from_bits(bytes[10]),
                next: (ahead > 0).then_some((ahead, Members::from_bits(bytes[15]))),
                algorithm: bytes[14],
            },
            area: &bytes[Self::HEAD..Self::HEAD + area_bytes],
            proposal: Proposal::parse(flags, &bytes[proposal_at..])?,
        })
    }
}

impl Record {
    /// Bytes of a record.
    pub const BYTES: usize = 12;

    /// Encodes the record.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (byte, row) in bytes.iter_mut().zip(self.rows) {
            *byte = row.bits();
        }
        bytes[8] = self.suspected.bits();
        bytes[9] = self.decision.unwrap_or_default().bits();
        bytes[10] = u8::from(self.locked) | u8::from(self.decision.is_some()) << 1 | 4;
        bytes
    }

    /// Decodes a record; `None` if the sender has no record of the instance.
    ///
    /// # Panics
    /// If there are fewer bytes than [`Record::BYTES`].
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let flags = bytes[10];
        (flags & 4 != 0).then(|| Self {
            rows: std::array::from_fn::<_, MEMBERS_MAX, _>(|node| Members::from_bits(bytes[node])),
            suspected: Members::from_bits(bytes[8]),
            locked: flags & 1 != 0,
            decision: (flags & 2 != 0).then_some(Members::from_bits(bytes[9])),
        })
    }
}

/// A member's request for decided proposals that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The instance whose proposals are missing.
    pub instance: u64,
    /// Proposers of the requested proposals.
    pub wanted: Members,
}

impl Fetch {
    /// Bytes of the message.
    pub const BYTES: usize = 16;

    /// Encodes the request.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.instance.to_be_bytes());
        bytes[8] = self.wanted.bits();
        bytes
    }

    /// Decodes the request.
    ///
    /// # Errors
    /// Wrong length.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        Ok(Self { instance: be64(bytes, 0), wanted: Members::from_bits(bytes[8]) })
    }
}

/// One proposal: the answer to a [`Fetch`], or a notification of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The instance in which the proposal was made.
    pub instance: u64,
    /// The member that proposed it.
    pub proposer: usize,
    /// The proposal, which is decided.
    pub proposal: Proposal<'a>,
}

impl<'a> Value<'a> {
    /// Bytes of the header: one beat.
    pub const HEADER: usize = 64;

    /// Encodes the header; the proposal follows it in the message.
    pub fn header(&self) -> [u8; Value::HEADER] {
        let mut bytes = [0; Self::HEADER];
        put(&mut bytes, 0, self.instance.to_be_bytes());
        bytes[8] = self.proposer as u8;
        bytes[9] = u8::from(self.proposal.change);
        put(&mut bytes, 10, (self.proposal.bytes.len() as u16).to_be_bytes());
        bytes
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// Wrong length, an invalid proposer, a proposal of more than `value_bytes`, or a malformed change.
    pub fn parse(bytes: &'a [u8], value_bytes: usize) -> Result<Self, Malformed> {
        let (head, proposal) = at_least(bytes, Self::HEADER)?.split_at(Self::HEADER);
        exactly(proposal, be16(head, 10).into())?;
        if usize::from(head[8]) >= MEMBERS_MAX {
            return Err(Malformed::Field("proposer"));
        }
        if proposal.len() > value_bytes {
            return Err(Malformed::Field("bytes"));
        }
        Ok(Self {
            instance: be64(head, 0),
            proposer: head[8].into(),
            proposal: Proposal::parse(head[9], proposal)?,
        })
    }
}

/// Bytes of `Start` and `Join`, which have no content.
pub const SIGNAL_BYTES: usize = 8;

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Outcome of the call.
    pub status: Status,
    /// Phase of the node.
    pub phase: Phase,
    /// Epoch of the node's current members.
    pub epoch: u16,
    /// The members, as the node knows them.
    pub members: Members,
    /// In the answer to a proposal, the instance in which it was proposed; otherwise the round.
    pub number: u64,
}

impl Answer {
    /// Bytes of the message.
    pub const BYTES: usize = 16;

    /// Encodes the answer.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.status as u8, self.phase as u8);
        put(&mut bytes, 2, self.epoch.to_be_bytes());
        bytes[4] = self.members.bits();
        put(&mut bytes, 8, self.number.to_be_bytes());
        bytes
    }

    /// Decodes the answer.
    ///
    /// # Errors
    /// Wrong length, an unknown status or phase.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        Ok(Self {
            status: Status::parse(bytes[0])?,
            phase: Phase::parse(bytes[1])?,
            epoch: be16(bytes, 2),
            members: Members::from_bits(bytes[4]),
            number: be64(bytes, 8),
        })
    }
}

/// The content of `SetPeriod`: a round's length in cycles of 4 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub u32);

impl Period {
    /// Bytes of the message.
    pub const BYTES: usize = 8;

    /// Encodes the period.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.0.to_be_bytes());
        bytes
    }

    /// Decodes the period.
    ///
    /// # Errors
    /// Wrong length.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        Ok(Self(be32(exactly(bytes, Self::BYTES)?, 0)))
    }
}

/// Measurements from which an operator chooses a period, in cycles of 4 ns of the node's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// The running round, 0 before the first.
    pub round: u64,
    /// When the running round was due to begin; 0 before the first.
    pub begin: u64,
    /// Length of future rounds.
    pub period: u32,
    /// The shortest one-way delay, as configured.
    pub one_way: u32,
    /// The largest lag of any message since the node took part or its period was set. A message whose lag exceeds
    /// the period less the one-way delay arrived too late for its round. Messages that arrived later than the
    /// following round are not measured.
    pub largest_lag: u32,
    /// Number of the node that answers.
    pub node: usize,
    /// Members whose message of the round before the running one has not arrived.
    pub missed: Members,
    /// Number of locked members that make a decision.
    pub decision_quorum: u8,
    /// The lag of each node's last message: how much later it arrived than after the shortest one-way delay, if
    /// its sender had begun the round when this node did. Negative if it arrived sooner; `None` if no message has
    /// arrived yet.
    pub lags: [Option<i32>; MEMBERS_MAX],
}

impl Timings {
    /// Bytes of the message.
    pub const BYTES: usize = 64;

    /// Encodes the timings.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.round.to_be_bytes());
        put(&mut bytes, 8, self.begin.to_be_bytes());
        put(&mut bytes, 16, self.period.to_be_bytes());
        put(&mut bytes, 20, self.one_way.to_be_bytes());
        put(&mut bytes, 24, self.largest_lag.to_be_bytes());
        let known: Members = (0..MEMBERS_MAX).filter(|&node| self.lags[node].is_some()).collect();
        (bytes[28], bytes[29]) = (self.node as u8, self.missed.bits());
        (bytes[30], bytes[31]) = (known.bits(), self.decision_quorum);
        for (node, lag) in self.lags.iter().enumerate() {
            put(&mut bytes, 32 + 4 * node, lag.unwrap_or_default().to_be_bytes());
        }
        bytes
    }

    /// Decodes the timings.
    ///
    /// # Errors
    /// Wrong length, or an invalid node.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        if usize::from(bytes[28]) >= MEMBERS_MAX {
            return Err(Malformed::Field("node"));
        }
        let known = Members::from_bits(bytes[30]);
        let lag = |node| known.contains(node).then(|| be32(bytes, 32 + 4 * node).cast_signed());
        Ok(Self {
            round: be64(bytes, 0),
            begin: be64(bytes, 8),
            period: be32(bytes, 16),
            one_way: be32(bytes, 20),
            largest_lag: be32(bytes, 24),
            node: bytes[28].into(),
            missed: Members::from_bits(bytes[29]),
            decision_quorum: bytes[31],
            lags: std::array::from_fn(lag),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members() -> impl Strategy<Value = Members> {
        any::<u8>().prop_map(Members::from_bits)
    }

    fn proposal() -> impl Strategy<Value = (bool, Vec<u8>)> {
        prop_oneof![
            (members(), members()).prop_map(|(add, remove)| (true, Change { add, remove }.encode().to_vec())),
            prop::collection::vec(any::<u8>(), 0..70).prop_map(|bytes| (false, bytes)),
        ]
    }

    proptest! {
        #[test]
        fn rounds_survive_the_wire(
            (round, epoch, members, next) in (0..ROUNDS_MAX, any::<u16>(), members(), prop::option::of((1u8..64, members()))),
            (change, bytes) in proposal(),
            area in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let proposal = Proposal { change, bytes: &bytes };
            let head = Head { round, epoch, members, next, algorithm: 1 };
            let mut message = Round::head(&head, &proposal).to_vec();
            message.extend(&area);
            message.resize(Round::proposal_at(area.len()), 0);
            message.extend(&bytes);
            prop_assert_eq!(Round::parse(&message, area.len(), 70), Ok(Round { head, area: &area, proposal }));
            prop_assert!(Round::parse(&message[..message.len() - 1], area.len(), 70).is_err());
            if bytes.len() > 1 {
                prop_assert!(Round::parse(&message, area.len(), bytes.len() - 1).is_err());
            }
        }

        #[test]
        fn values_survive_the_wire(instance in any::<u64>(), proposer in 0usize..8, (change, bytes) in proposal()) {
            let value = Value { instance, proposer, proposal: Proposal { change, bytes: &bytes } };
            let message = [&value.header()[..], &bytes].concat();
            prop_assert_eq!(Value::parse(&message, 70), Ok(value));
        }

        #[test]
        fn records_survive_the_wire(
            (rows, suspected) in (any::<[u8; 8]>(), members()),
            (locked, decision) in (any::<bool>(), prop::option::of(members())),
        ) {
            let record = Record { rows: rows.map(Members::from_bits), suspected, locked, decision };
            prop_assert_eq!(Record::parse(&record.encode()), Some(record));
            prop_assert_eq!(Record::parse(&[0; Record::BYTES]), None);
        }

        #[test]
        fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Round::parse(&bytes, 48, 64);
            let _ = Value::parse(&bytes, 64);
            let _ = (Fetch::parse(&bytes), Answer::parse(&bytes), Change::parse(&bytes));
            let _ = (Period::parse(&bytes), Timings::parse(&bytes));
        }
    }

    #[test]
    fn what_has_a_fixed_size_survives_the_wire() {
        let fetch = Fetch { instance: 7, wanted: Members::only(3) };
        assert_eq!(Fetch::parse(&fetch.encode()), Ok(fetch));
        for (status, phase) in [(Status::Ok, Phase::Running), (Status::BadRequest, Phase::Left)] {
            let answer = Answer { status, phase, epoch: 3, members: Members::first(3), number: 1 << 40 };
            assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
        }
        assert_eq!(Period::parse(&Period(500).encode()), Ok(Period(500)));
        let timings = Timings {
            round: 1 << 40,
            begin: 1 << 47,
            period: 500,
            one_way: 346,
            largest_lag: 17,
            node: 2,
            missed: Members::only(1),
            decision_quorum: 2,
            lags: std::array::from_fn(|node| (node != 1).then_some(node as i32 - 3)),
        };
        assert_eq!(Timings::parse(&timings.encode()), Ok(timings));
        assert_eq!(Round::proposal_at(4 * Record::BYTES), 64, "a window of four fills one beat");
        assert_eq!(Round::proposal_at(8 * Record::BYTES), 128);
    }
}
