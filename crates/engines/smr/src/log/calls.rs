//! Calls and answers of the service. The documentation of [`crate::log`] has their byte layouts.

use weft_verbs::QueuePairNumber;
use weft_waist::Message;

use crate::link::Wiring;
use crate::message::Malformed;
use crate::slot::word;

/// Kind of a request or an answer of a host or client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Call {
    /// The host sets the connection to a peer, before the node is configured.
    Wire = 16,
    /// Append to the log.
    Append = 17,
    /// Reads an entry of the log.
    Read = 18,
    /// Subscribes the host to all entries applied from now on.
    Subscribe = 19,
    /// Requests the node's progress.
    Status = 20,
    /// The answer to each of the calls above, except that a successful Read is answered with an Entry.
    Answer = 24,
    /// An entry of the log: the answer to a Read, or a notification to the subscriber.
    Entry = 25,
    /// Notification to the subscriber: the node's state was replaced by a snapshot.
    Restored = 26,
}

impl Call {
    pub(super) fn parse(kind: u8) -> Option<Self> {
        [Self::Wire, Self::Append, Self::Read, Self::Subscribe, Self::Status]
            .into_iter()
            .find(|known| *known as u8 == kind)
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Success. An append with this status is decided.
    Ok = 0,
    /// This node does not lead. Nothing happened here.
    NotLeader = 1,
    /// Too many entries are undecided. Nothing happened.
    Busy = 2,
    /// This node stopped leading. The append may or may not be decided: repeat it.
    Abandoned = 3,
    /// There is no such entry here yet.
    NoEntry = 4,
    /// The call is malformed, comes at the wrong time, is reserved to the host, or repeats a number that the
    /// session no longer holds.
    BadRequest = 5,
    /// A new leader has filled this index with an empty entry: there never will be an entry of a client.
    Void = 6,
    /// No replica keeps the entry any more: its slot was recycled for a later one.
    Forgotten = 7,
    /// This node got a snapshot of the state behind the entry instead of the entry. Another replica may have it.
    Skipped = 8,
}

impl Status {
    const ALL: [Self; 9] = [
        Self::Ok,
        Self::NotLeader,
        Self::Busy,
        Self::Abandoned,
        Self::NoEntry,
        Self::BadRequest,
        Self::Void,
        Self::Forgotten,
        Self::Skipped,
    ];

    fn parse(status: u8) -> Result<Self, Malformed> {
        let known = Self::ALL.into_iter().find(|known| *known as u8 == status);
        known.ok_or(Malformed::Field("status"))
    }
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the call succeeded, or why not.
    pub status: Status,
    /// Role of the node: 0 follower, 1 requesting, 2 collecting, 3 leading.
    pub role: u8,
    /// The leader, as the node sees it.
    pub leader: Option<usize>,
    /// Whether the node takes part in decisions.
    pub member: bool,
    /// Whether too many nodes have lost their memory, so that nothing can be decided any more.
    pub halted: bool,
    /// Incarnation of the node's engine.
    pub incarnation: u32,
    /// The entry's index; in the answer to [`Call::Status`] the number of applied entries.
    pub index: u64,
    /// Number of entries that the node knows to be decided.
    pub decided: u64,
}

impl Answer {
    /// Bytes of the message.
    pub const BYTES: usize = 24;

    /// Encodes the answer.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.status as u8, self.role);
        bytes[2] = self.leader.map_or(255, |leader| leader as u8);
        bytes[3] = u8::from(self.member) | u8::from(self.halted) << 1;
        bytes[4..8].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.index.to_be_bytes());
        bytes[16..].copy_from_slice(&self.decided.to_be_bytes());
        bytes
    }

    /// Decodes the answer.
    ///
    /// # Errors
    /// Wrong length, or an unknown status.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        Ok(Self {
            status: Status::parse(bytes[0])?,
            role: bytes[1],
            leader: (bytes[2] != 255).then_some(bytes[2].into()),
            member: bytes[3] & 1 != 0,
            halted: bytes[3] & 2 != 0,
            incarnation: half(bytes, 4),
            index: word(bytes, 8),
            decided: word(bytes, 16),
        })
    }
}

/// What an answer refers to. It follows the [`Answer`] to a client on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An append.
    Append {
        /// The client; not 0.
        origin: u64,
        /// The client's number for the append.
        sequence: u64,
    },
    /// A read of the entry at this index.
    Read(u64),
    /// A call other than an append or a read.
    Other,
}

impl Subject {
    /// Bytes of an encoded subject.
    pub const BYTES: usize = 16;

    /// The subject of a call, whether or not the call is well formed.
    pub(super) fn of(message: Message<'_>) -> Self {
        let payload = message.payload;
        match Call::parse(message.kind) {
            Some(Call::Append) => Append::parse(payload).map_or(Self::Other, |append| Self::Append {
                origin: append.origin,
                sequence: append.sequence,
            }),
            Some(Call::Read) if payload.len() == 8 => Self::Read(word(payload, 0)),
            _ => Self::Other,
        }
    }

    /// Encodes the subject.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let (origin, number) = match *self {
            Self::Append { origin, sequence } => (origin, sequence),
            Self::Read(index) => (0, index),
            Self::Other => (0, u64::MAX),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&origin.to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    /// Decodes the subject.
    ///
    /// # Errors
    /// Wrong length.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        Ok(match (word(bytes, 0), word(bytes, 8)) {
            (0, u64::MAX) => Self::Other,
            (0, index) => Self::Read(index),
            (origin, sequence) => Self::Append { origin, sequence },
        })
    }
}

/// An append, which is also the content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append<'a> {
    /// Identity of the client that appends.
    pub origin: u64,
    /// The client's number for the append.
    pub sequence: u64,
    /// Content of the entry.
    pub content: &'a [u8],
}

impl<'a> Append<'a> {
    /// Bytes before the content.
    pub const HEADER: usize = 16;

    /// The header; the content follows it.
    pub fn header(&self) -> [u8; Append::HEADER] {
        let mut bytes = [0; Self::HEADER];
        bytes[..8].copy_from_slice(&self.origin.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }

    /// Decodes the call.
    ///
    /// # Errors
    /// The message is too short.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, content) = bytes
            .split_at_checked(Self::HEADER)
            .ok_or(Malformed::Length { have: bytes.len(), need: Self::HEADER })?;
        Ok(Self { origin: word(header, 0), sequence: word(header, 8), content })
    }
}

/// Connection to a peer, as the host sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// For the log (0) or the pulse (255); engines that embed several groups use other numbers.
    pub group: u8,
    /// Index of the peer.
    pub peer: usize,
    /// Queue pairs, addresses and keys of the connection.
    pub wiring: Wiring,
}

impl Wire {
    /// Bytes of the message.
    pub const BYTES: usize = 48;

    /// Encodes the message.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let Wiring { request, respond, local_address, lkey, remote_address, rkey, call_rkey, path_mtu } =
            self.wiring;
        let mut bytes = [0; Self::BYTES];
        (bytes[0], bytes[1]) = (self.group, self.peer as u8);
        let halves =
            [(8, request.0), (12, respond.0), (32, lkey), (36, rkey), (40, call_rkey), (44, path_mtu)];
        for (at, half) in halves {
            bytes[at..at + 4].copy_from_slice(&half.to_be_bytes());
        }
        bytes[16..24].copy_from_slice(&local_address.to_be_bytes());
        bytes[24..32].copy_from_slice(&remote_address.to_be_bytes());
        bytes
    }

    /// Decodes the message.
    ///
    /// # Errors
    /// Wrong length, or a path MTU of 0.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        exactly(bytes, Self::BYTES)?;
        if half(bytes, 44) == 0 {
            return Err(Malformed::Field("path mtu"));
        }
        let wiring = Wiring {
            request: QueuePairNumber(half(bytes, 8)),
            respond: QueuePairNumber(half(bytes, 12)),
            local_address: word(bytes, 16),
            remote_address: word(bytes, 24),
            lkey: half(bytes, 32),
            rkey: half(bytes, 36),
            call_rkey: half(bytes, 40),
            path_mtu: half(bytes, 44),
        };
        Ok(Self { group: bytes[0], peer: bytes[1].into(), wiring })
    }
}

/// Checks the length of a message.
///
/// # Errors
/// The length differs from `need`.
pub fn exactly(bytes: &[u8], need: usize) -> Result<(), Malformed> {
    if bytes.len() == need { Ok(()) } else { Err(Malformed::Length { have: bytes.len(), need }) }
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
