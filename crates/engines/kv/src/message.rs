//! The messages, byte by byte.
//!
//! All integers are big-endian and aligned to their size. A key is padded with zeros to whole 64-bit words (`K`
//! bytes). Every message is a fixed header followed by content of variable length. [`crate::key`] describes how
//! keys of varying length are padded.
//!
//! ```text
//! Request       0 operation(1) zero(1) value length(2) zero(4)   8 client(8)   16 request(8)   24 expected version(8)
//!               32 key(K) value
//! Reply         0 status(1) zero(1) value length(2) epoch(4)     8 client(8)   16 request(8)   24 version(8)
//!               32 full(2) zero(6)   40 value
//! Write         0 epoch(4) operation(1) status(1) value length(2)   8 number(8)   16 committed(8)   24 client(8)
//!               32 request(8)   40 version(8)   48 key(K) value
//! Acknowledge   0 epoch(4) flags(1): 1 gap, 2 asks; zero(3)      8 accepted(8)   16 committed(8)
//!               24 durable(8), where the hosts keep logs
//! Commit        0 epoch(4) zero(4)                               8 committed(8)
//! Sealed        0 epoch(4) base(4)   8 base members(2) heard(2) cuts(1) zero(1) certain(2)   16 accepted(8) x 16
//!               144 for each cut: epoch(4) zero(4) length(8) x 16
//! EntryRequest  0 base(4) stream(1) zero(3)   8 from(8)
//! Entry         the message Write, with the epoch that is being closed
//! StateRequest  0 epoch(4) attempt(4)   8 what(1): 0 buckets, 1 sessions; zero(3) from(4)
//! StateChunk    0 epoch(4) attempt(4)   8 what(1) flags(1): 1 last; zero(2) from(4)   16 next(4) zero(4)
//!               24 tag(8)   32 records
//! ```
//!
//! In a scan's request, the field of the expected version holds the slot at which the scan starts; its highest bit
//! is set if the keys are only counted; the key is zeros. In its reply, the field of the version holds the slot at
//! which to continue, 0 at the end of the table; the value is the keys found, or their number (8 bytes).
//!
//! In a request for a part of a backup, that field is 0 for the first part, and otherwise holds the low half of the
//! number of the request for the first part, then the number of the part (4 bytes each); the key is zeros. In its
//! reply, the field of the version holds the slot up to which the table is copied, with the highest bit set if no
//! content follows. The value of the first part is the description of the backup, that of each further one whole
//! records:
//!
//! ```text
//! description   0 epoch(4) slots(4)   8 node(1) zero(7)   16 length(8) x 16
//! record        0 value length(2)   2 key, without padding   then the value
//! ```
//!
//! `Request` and `Reply` travel between clients and nodes, the others between nodes. Fields marked zero are sent
//! as zero. A node checks them in a `Request`, which untrusted clients send, and ignores them in the others.

use thiserror::Error;
use weft_waist::{Epoch, NODES_MAX, NodeId, NodeSet};

/// Kind of a message: the `kind` of messages in `weft_waist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A client's request.
    Request = 1,
    /// A node's answer to a client.
    Reply = 2,
    /// A leader replicates one write.
    Write = 3,
    /// A follower reports how much it has accepted.
    Acknowledge = 4,
    /// A leader reports how much is committed.
    Commit = 5,
    /// A member reports what it had accepted when the epoch closed.
    Sealed = 6,
    /// A joining node requests state.
    StateRequest = 7,
    /// State for a joining node.
    StateChunk = 8,
    /// The engine hands its host a record to log.
    Record = 9,
    /// The host reports how many records are durable.
    Durable = 10,
    /// The host replays one record of its log after a restart.
    Restore = 11,
    /// The host has replayed its whole log.
    Restored = 12,
    /// The host requests a part of a snapshot.
    Snapshot = 13,
    /// The engine answers with a part of a snapshot.
    SnapshotPart = 14,
    /// A client leaves and sends no more requests. Content: its number (8).
    Leave = 15,
    /// A restored member asks for entries that it lacks.
    EntryRequest = 16,
    /// An entry for a restored member.
    Entry = 17,
}

/// Operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Read the value and its version.
    Get = 1,
    /// Write the value.
    Put = 2,
    /// Remove the key.
    Delete = 3,
    /// Write the value if the key's version is the expected one; 0 expects that the key is absent.
    CompareAndSet = 4,
    /// Remove the key if its version is the expected one, which is not 0.
    CompareAndDelete = 5,
    /// List the keys that the node has, or count them, starting at a slot of its table.
    Scan = 6,
    /// Read a part of a copy of the table as it is at one instant.
    Backup = 7,
}

impl Operation {
    /// Whether the operation removes a key if it takes effect.
    pub const fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::CompareAndDelete)
    }

    /// Whether the operation only reads: it is no entry of a stream.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Scan | Self::Backup)
    }

    /// Whether the engine in gateware lacks the operation.
    pub const fn is_beyond_gates(self) -> bool {
        matches!(self, Self::CompareAndDelete | Self::Scan | Self::Backup)
    }

    const fn expects(self) -> bool {
        matches!(self, Self::CompareAndSet | Self::CompareAndDelete | Self::Scan | Self::Backup)
    }

    fn parse(value: u8) -> Result<Self, Malformed> {
        match value {
            1 => Ok(Self::Get),
            2 => Ok(Self::Put),
            3 => Ok(Self::Delete),
            4 => Ok(Self::CompareAndSet),
            5 => Ok(Self::CompareAndDelete),
            6 => Ok(Self::Scan),
            7 => Ok(Self::Backup),
            _ => Err(Malformed::Operation(value)),
        }
    }
}

/// Outcome of a request, or the reason for which it was not executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done. The version is that of the value read or written.
    #[default]
    Ok = 0,
    /// The key is absent: nothing to read or delete.
    NotFound = 1,
    /// The key has another version than expected; the reply has it: 0 if the key is absent.
    Mismatch = 2,
    /// The key's bucket has no free slot. Nothing changed.
    TableFull = 3,
    /// The node has as many undecided writes or waiting reads as it can hold. Nothing happened; repeat the request
    /// later.
    Busy = 4,
    /// Another node leads the key. Nothing happened; the client computes the leader from the reply's full members.
    NotLeader = 5,
    /// The node may not serve at present. The request may still take effect if a node accepted it before.
    NotServing = 6,
    /// The node has sessions for as many clients as it can hold. Nothing happened.
    SessionsFull = 7,
    /// The sizes or fields of the request are wrong. Nothing happened.
    BadRequest = 8,
    /// The node has no session for the client, and has dropped that of a client with the same or a higher number.
    /// The reply's version is the highest number dropped. Nothing happened; a client with a higher number is
    /// admitted.
    Forgotten = 9,
    /// The node has no such backup. The reply's version is 1 if it had, and writes have changed more of the table than
    /// it keeps for the reader; 0 otherwise.
    NoBackup = 10,
}

impl Status {
    fn parse(value: u8) -> Result<Self, Malformed> {
        Ok(match value {
            0 => Self::Ok,
            1 => Self::NotFound,
            2 => Self::Mismatch,
            3 => Self::TableFull,
            4 => Self::Busy,
            5 => Self::NotLeader,
            6 => Self::NotServing,
            7 => Self::SessionsFull,
            8 => Self::BadRequest,
            9 => Self::Forgotten,
            10 => Self::NoBackup,
            _ => return Err(Malformed::Status(value)),
        })
    }

    /// Whether a write can end with this status: such a status is replicated and kept in the client's session.
    pub const fn is_recorded(self) -> bool {
        matches!(self, Self::Ok | Self::NotFound | Self::Mismatch | Self::TableFull)
    }

    /// Parses the status byte of a write or of a session's record.
    pub(crate) fn parse_recorded(value: u8) -> Result<Self, Malformed> {
        Self::parse(value)
            .and_then(|status| if status.is_recorded() { Ok(status) } else { Err(Malformed::Status(value)) })
    }
}

/// Why bytes are no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The message ends before its fields do.
    #[error("{have} bytes where {need} are needed")]
    Truncated {
        /// Length of the bytes.
        have: usize,
        /// Bytes that the fields need.
        need: usize,
    },
    /// Bytes follow the end of the message.
    #[error("{0} bytes too many")]
    Trailing(usize),
    /// Unknown operation.
    #[error("operation {0} does not exist")]
    Operation(u8),
    /// Unknown status, or one that this message cannot have.
    #[error("status {0} does not exist or does not belong here")]
    Status(u8),
    /// A field, by its name, has an invalid value.
    #[error("the field {0} has a value that it cannot have")]
    Field(&'static str),
}

/// Splits a message into its header and the rest.
fn header<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Malformed> {
    bytes.split_first_chunk().ok_or(Malformed::Truncated { have: bytes.len(), need: N })
}

/// Splits `rest` into key and value, which must fill it exactly.
fn key_and_value(rest: &[u8], key_field: usize, value_length: usize) -> Result<(&[u8], &[u8]), Malformed> {
    let need = key_field + value_length;
    if rest.len() < need {
        return Err(Malformed::Truncated { have: rest.len(), need });
    }
    if rest.len() > need {
        return Err(Malformed::Trailing(rest.len() - need));
    }
    Ok(rest.split_at(key_field))
}

fn exact(rest: &[u8]) -> Result<(), Malformed> {
    if rest.is_empty() { Ok(()) } else { Err(Malformed::Trailing(rest.len())) }
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

/// Flag in the field of a scan's first slot: the scan only counts the keys.
pub const SCAN_COUNTS: u64 = 1 << 63;

/// Flag in the version of a reply with a part of a backup: no content follows.
pub const BACKUP_ENDS: u64 = 1 << 63;

/// The part number with which a reader says that it needs the backup no longer.
pub const BACKUP_DONE: u32 = u32::MAX;

/// What a backup reflects: the first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupDescription {
    /// The node that has made it.
    pub node: NodeId,
    /// The epoch in which it was begun.
    pub epoch: Epoch,
    /// Number of slots of the node's table.
    pub slots: u32,
    /// How much of each stream of the epoch is in it. All earlier epochs are in it as they were cut.
    pub lengths: Lengths,
}

impl BackupDescription {
    /// Bytes of the description.
    pub const BYTES: usize = 16 + 8 * NODES_MAX;

    /// Encodes the description.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.epoch.0.to_be_bytes());
        put(&mut bytes, 4, self.slots.to_be_bytes());
        bytes[8] = self.node.index() as u8;
        for (place, length) in self.lengths.iter().enumerate() {
            put(&mut bytes, 16 + 8 * place, length.to_be_bytes());
        }
        bytes
    }

    /// Parses a description.
    ///
    /// # Errors
    /// Wrong length, or a node that cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (bytes, rest) = header::<{ Self::BYTES }>(bytes)?;
        exact(rest)?;
        Ok(Self {
            node: NodeId::new(bytes[8].into()).ok_or(Malformed::Field("node"))?,
            epoch: Epoch(be32(bytes, 0)),
            slots: be32(bytes, 4),
            lengths: std::array::from_fn(|place| be64(bytes, 16 + 8 * place)),
        })
    }
}

/// Appends a record of a backup to `bytes`, unless that makes them longer than `room`. Returns whether it fits.
pub(crate) fn push_backup_record(bytes: &mut Vec<u8>, room: usize, key: &[u8], value: &[u8]) -> bool {
    let fits = bytes.len() + 2 + key.len() + value.len() <= room;
    if fits {
        bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    fits
}

/// The records of a part of a backup, as (key, value). The last item is an error if the bytes are no whole records.
pub fn backup_records(
    mut bytes: &[u8],
    key_bytes: usize,
) -> impl Iterator<Item = Result<(&[u8], &[u8]), Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let parsed = header::<2>(bytes).and_then(|(head, rest)| {
            let need = key_bytes + usize::from(be16(head, 0));
            let have = rest.len();
            rest.split_at_checked(need).ok_or(Malformed::Truncated { have, need })
        });
        bytes = parsed.map_or(&[], |(_, behind)| behind);
        Some(parsed.map(|(record, _)| record.split_at(key_bytes)))
    })
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The operation to execute.
    pub operation: Operation,
    /// Number of the client: no other client, past or present, has it.
    pub client: u64,
    /// The client's number for the request, from 1.
    pub request: u64,
    /// The version that a compare-and-set or compare-and-delete expects, the slot at which a scan starts, or the part
    /// of a backup; 0 otherwise.
    pub expected: u64,
    /// The key, padded.
    pub key: &'a [u8],
    /// The value of a put or compare-and-set; empty otherwise.
    pub value: &'a [u8],
}

impl<'a> Request<'a> {
    /// Bytes of the header.
    pub const HEADER: usize = 32;

    /// Encodes the header; key (padded) and value follow it in the message.
    pub fn header(&self) -> [u8; Request::HEADER] {
        let mut bytes = [0; Self::HEADER];
        bytes[0] = self.operation as u8;
        put(&mut bytes, 2, (self.value.len() as u16).to_be_bytes());
        put(&mut bytes, 8, self.client.to_be_bytes());
        put(&mut bytes, 16, self.request.to_be_bytes());
        put(&mut bytes, 24, self.expected.to_be_bytes());
        bytes
    }

    /// Client and request number of an encoded request: all that a node needs in order to refuse it.
    pub fn identity(bytes: &[u8]) -> Option<(u64, u64)> {
        (bytes.len() >= Self::HEADER).then(|| (be64(bytes, 8), be64(bytes, 16)))
    }

    /// Parses a request for keys of `key_bytes` bytes.
    ///
    /// # Errors
    /// Wrong length, an unknown operation, request 0, reserved or pad bytes that are not zero, or a value or an
    /// expected version where the operation has none.
    pub fn parse(bytes: &'a [u8], key_bytes: usize) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Request::HEADER }>(bytes)?;
        let operation = Operation::parse(head[0])?;
        if head[1] != 0 || be32(head, 4) != 0 {
            return Err(Malformed::Field("reserved"));
        }
        let key_field = key_bytes.next_multiple_of(8);
        let (key, value) = key_and_value(rest, key_field, be16(head, 2).into())?;
        if key[key_bytes..].iter().any(|&pad| pad != 0) {
            return Err(Malformed::Field("key padding"));
        }
        let request = Self {
            operation,
            client: be64(head, 8),
            request: be64(head, 16),
            expected: be64(head, 24),
            key,
            value,
        };
        if request.request == 0 {
            return Err(Malformed::Field("request"));
        }
        let has_value = matches!(operation, Operation::Put | Operation::CompareAndSet);
        if value.is_empty() == has_value {
            return Err(Malformed::Field("value length"));
        }
        let expects_nothing = request.expected == 0;
        if !expects_nothing && !operation.expects()
            || expects_nothing && operation == Operation::CompareAndDelete
        {
            return Err(Malformed::Field("expected version"));
        }
        Ok(request)
    }
}

/// A node's answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Outcome of the request.
    pub status: Status,
    /// Identity of the client.
    pub client: u64,
    /// The client's number for the request.
    pub request: u64,
    /// The key's version, or the number that [`Status`] and scans define instead.
    pub version: u64,
    /// The epoch in which the node answered.
    pub epoch: Epoch,
    /// The full members of that epoch, from which the client computes the leader of a key.
    pub full: NodeSet,
    /// The value that a get found, or the result of a scan; empty otherwise.
    pub value: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Bytes of the header.
    pub const HEADER: usize = 40;

    /// Encodes the header; the value follows it in the message.
    pub fn header(&self) -> [u8; Reply::HEADER] {
        let mut bytes = [0; Self::HEADER];
        bytes[0] = self.status as u8;
        put(&mut bytes, 2, (self.value.len() as u16).to_be_bytes());
        put(&mut bytes, 4, self.epoch.0.to_be_bytes());
        put(&mut bytes, 8, self.client.to_be_bytes());
        put(&mut bytes, 16, self.request.to_be_bytes());
        put(&mut bytes, 24, self.version.to_be_bytes());
        put(&mut bytes, 32, self.full.bits().to_be_bytes());
        bytes
    }

    /// Parses a reply.
    ///
    /// # Errors
    /// Wrong length or an unknown status.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Reply::HEADER }>(bytes)?;
        let (_, value) = key_and_value(rest, 0, be16(head, 2).into())?;
        Ok(Self {
            status: Status::parse(head[0])?,
            epoch: Epoch(be32(head, 4)),
            client: be64(head, 8),
            request: be64(head, 16),
            version: be64(head, 24),
            full: NodeSet::from_bits(be16(head, 32)),
            value,
        })
    }
}

/// One entry of a leader's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The epoch of the stream.
    pub epoch: Epoch,
    /// The client's operation: never one for which [`Operation::reads`] holds.
    pub operation: Operation,
    /// Its outcome: a status for which [`Status::is_recorded`] holds.
    pub status: Status,
    /// Sequence number in the stream, from 1.
    pub number: u64,
    /// Committed length of the stream when the write was sent.
    pub committed: u64,
    /// Identity of the client that requested the write.
    pub client: u64,
    /// The client's number for the request.
    pub request: u64,
    /// Version in the reply to the client.
    pub version: u64,
    /// The key, padded with zeros to 64-bit words.
    pub key: &'a [u8],
    /// The value if the entry writes one; empty otherwise.
    pub value: &'a [u8],
}

impl<'a> Write<'a> {
    /// Bytes of the header.
    pub const HEADER: usize = 48;

    /// Encodes the header; key (padded) and value follow it in the message.
    pub fn header(&self) -> [u8; Write::HEADER] {
        let mut bytes = [0; Self::HEADER];
        put(&mut bytes, 0, self.epoch.0.to_be_bytes());
        bytes[4] = self.operation as u8;
        bytes[5] = self.status as u8;
        put(&mut bytes, 6, (self.value.len() as u16).to_be_bytes());
        put(&mut bytes, 8, self.number.to_be_bytes());
        put(&mut bytes, 16, self.committed.to_be_bytes());
        put(&mut bytes, 24, self.client.to_be_bytes());
        put(&mut bytes, 32, self.request.to_be_bytes());
        put(&mut bytes, 40, self.version.to_be_bytes());
        bytes
    }

    /// Parses a write with a key of `key_field` padded bytes.
    ///
    /// # Errors
    /// Wrong length, an operation or status that no entry has, number or request 0, or a value although operation
    /// and status have none, or none although they need one.
    pub fn parse(bytes: &'a [u8], key_field: usize) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Write::HEADER }>(bytes)?;
        let (key, value) = key_and_value(rest, key_field, be16(head, 6).into())?;
        let write = Self {
            epoch: Epoch(be32(head, 0)),
            operation: Operation::parse(head[4])?,
            status: Status::parse_recorded(head[5])?,
            number: be64(head, 8),
            committed: be64(head, 16),
            client: be64(head, 24),
            request: be64(head, 32),
            version: be64(head, 40),
            key,
            value,
        };
        if write.operation.reads() {
            return Err(Malformed::Operation(head[4]));
        }
        if write.number == 0 {
            return Err(Malformed::Field("number"));
        }
        if write.request == 0 {
            return Err(Malformed::Field("request"));
        }
        let has_value = write.status == Status::Ok && !write.operation.removes();
        if value.is_empty() == has_value {
            return Err(Malformed::Field("value length"));
        }
        Ok(write)
    }
}

/// A follower's report of how much of a leader's stream it has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledge {
    /// The epoch of the stream.
    pub epoch: Epoch,
    /// Length that the follower has accepted.
    pub accepted: u64,
    /// Committed length that the follower has received from the leader.
    pub committed: u64,
    /// Length that is durable at the follower; `None` if it keeps no log.
    pub durable: Option<u64>,
    /// The follower received a write that does not follow the last one it accepted: some are missing.
    pub gap: bool,
    /// Nothing has changed at the follower for a while: the leader should send the committed length.
    pub asks: bool,
}

impl Acknowledge {
    const HEADER: usize = 24;
    /// The most bytes of the message.
    pub const BYTES_MAX: usize = Self::HEADER + 8;

    /// Writes the message to the front of `bytes` and returns its length.
    pub fn encode(&self, bytes: &mut [u8; Self::BYTES_MAX]) -> usize {
        bytes.fill(0);
        put(bytes, 0, self.epoch.0.to_be_bytes());
        bytes[4] = u8::from(self.gap) | u8::from(self.asks) << 1;
        put(bytes, 8, self.accepted.to_be_bytes());
        put(bytes, 16, self.committed.to_be_bytes());
        let Some(durable) = self.durable else { return Self::HEADER };
        put(bytes, Self::HEADER, durable.to_be_bytes());
        Self::BYTES_MAX
    }

    /// Parses an acknowledgement.
    ///
    /// # Errors
    /// Wrong length, unknown flags, or more committed or durable than accepted.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Self::HEADER }>(bytes)?;
        let durable = rest.first_chunk().map(|durable| u64::from_be_bytes(*durable));
        exact(rest.get(8..).unwrap_or(rest))?;
        if head[4] > 3 {
            return Err(Malformed::Field("flags"));
        }
        let (accepted, committed) = (be64(head, 8), be64(head, 16));
        if committed > accepted {
            return Err(Malformed::Field("committed"));
        }
        if durable.is_some_and(|durable| durable > accepted) {
            return Err(Malformed::Field("durable"));
        }
        Ok(Self {
            epoch: Epoch(be32(head, 0)),
            accepted,
            committed,
            durable,
            gap: head[4] & 1 != 0,
            asks: head[4] & 2 != 0,
        })
    }
}

/// A leader's report of how much of its stream is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The epoch of the stream.
    pub epoch: Epoch,
    /// Number of committed entries of the stream.
    pub committed: u64,
}

impl Commit {
    /// Bytes of the message.
    pub const BYTES: usize = 16;

    /// Encodes the message.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.epoch.0.to_be_bytes());
        put(&mut bytes, 8, self.committed.to_be_bytes());
        bytes
    }

    /// Parses a commit.
    ///
    /// # Errors
    /// Wrong length.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Self::BYTES }>(bytes)?;
        exact(rest)?;
        Ok(Self { epoch: Epoch(be32(head, 0)), committed: be64(head, 8) })
    }
}

/// Length of each leader's stream, indexed by node.
pub type Lengths = [u64; NODES_MAX];

/// Where the streams of a closed epoch end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The epoch that was closed.
    pub epoch: Epoch,
    /// The length of each stream.
    pub lengths: Lengths,
}

/// The most requests of one client that are outstanding.
pub const SESSION_WINDOW: u64 = 16;

/// Bytes of a session in a state transfer: the client, then for each slot of its window request, version, status,
/// zeros.
pub(crate) const SESSION_BYTES: usize = 8 + 24 * SESSION_WINDOW as usize;

/// The number of cuts that a node keeps.
pub const CUTS_MAX: usize = 4;

/// A member's report of its state when it received the view of a new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sealed {
    /// The epoch that the view opens.
    pub epoch: Epoch,
    /// The last epoch in whose streams the member took part.
    pub base: Epoch,
    /// The members of that epoch.
    pub base_members: NodeSet,
    /// The members whose reports for the new epoch this member has, itself included.
    pub heard: NodeSet,
    /// Where the hosts keep logs: those of them that certainly have every committed entry of the base epoch.
    pub certain: NodeSet,
    /// Accepted length of each stream of the base epoch.
    pub accepted: Lengths,
    /// The member's last cuts, newest first; epoch 0 marks an unused entry.
    pub cuts: [Cut; CUTS_MAX],
}

impl Sealed {
    const CUT_BYTES: usize = 8 + 8 * NODES_MAX;
    const HEADER: usize = 16 + 8 * NODES_MAX;
    /// The most bytes of the message.
    pub const BYTES_MAX: usize = Self::HEADER + CUTS_MAX * Self::CUT_BYTES;

    /// Writes the message to the front of `bytes` and returns its length.
    pub fn encode(&self, bytes: &mut [u8; Self::BYTES_MAX]) -> usize {
        let cuts = self.cuts.iter().take_while(|cut| cut.epoch.0 != 0).count();
        bytes.fill(0);
        put(bytes, 0, self.epoch.0.to_be_bytes());
        put(bytes, 4, self.base.0.to_be_bytes());
        put(bytes, 8, self.base_members.bits().to_be_bytes());
        put(bytes, 10, self.heard.bits().to_be_bytes());
        bytes[12] = cuts as u8;
        put(bytes, 14, self.certain.bits().to_be_bytes());
        for (node, accepted) in self.accepted.iter().enumerate() {
            put(bytes, 16 + 8 * node, accepted.to_be_bytes());
        }
        for (place, cut) in self.cuts[..cuts].iter().enumerate() {
            let at = Self::HEADER + place * Self::CUT_BYTES;
            put(bytes, at, cut.epoch.0.to_be_bytes());
            for (node, length) in cut.lengths.iter().enumerate() {
                put(bytes, at + 8 + 8 * node, length.to_be_bytes());
            }
        }
        Self::HEADER + cuts * Self::CUT_BYTES
    }

    /// Parses a sealed message.
    ///
    /// # Errors
    /// Wrong length, too many cuts, a cut of epoch 0, or a base that is 0 or not before the epoch.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, mut rest) = header::<{ Self::HEADER }>(bytes)?;
        let count = usize::from(head[12]);
        if count > CUTS_MAX {
            return Err(Malformed::Field("cuts"));
        }
        let mut cuts = [Cut::default(); CUTS_MAX];
        for cut in &mut cuts[..count] {
            let (bytes, after) = header::<{ Self::CUT_BYTES }>(rest)?;
            cut.epoch = Epoch(be32(bytes, 0));
            if cut.epoch.0 == 0 {
                return Err(Malformed::Field("cut epoch"));
            }
            cut.lengths = std::array::from_fn(|node| be64(bytes, 8 + 8 * node));
            rest = after;
        }
        exact(rest)?;
        let (epoch, base) = (Epoch(be32(head, 0)), Epoch(be32(head, 4)));
        if base.0 == 0 || base >= epoch {
            return Err(Malformed::Field("base"));
        }
        Ok(Self {
            epoch,
            base,
            base_members: NodeSet::from_bits(be16(head, 8)),
            heard: NodeSet::from_bits(be16(head, 10)),
            certain: NodeSet::from_bits(be16(head, 14)),
            accepted: std::array::from_fn(|node| be64(head, 16 + 8 * node)),
            cuts,
        })
    }
}

/// A restored member asks for the entries of a stream from number `from` on, which it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRequest {
    /// The epoch of the stream: the one that is being closed.
    pub base: Epoch,
    /// Number of the stream.
    pub stream: u8,
    /// The first entry.
    pub from: u64,
}

impl EntryRequest {
    /// Bytes of the message.
    pub const BYTES: usize = 16;

    /// Encodes the message.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.base.0.to_be_bytes());
        bytes[4] = self.stream;
        put(&mut bytes, 8, self.from.to_be_bytes());
        bytes
    }

    /// Parses a request for entries.
    ///
    /// # Errors
    /// Wrong length, or a stream that no node can have.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Self::BYTES }>(bytes)?;
        exact(rest)?;
        if usize::from(head[4]) >= NODES_MAX {
            return Err(Malformed::Field("stream"));
        }
        Ok(Self { base: Epoch(be32(head, 0)), stream: head[4], from: be64(head, 8) })
    }
}

/// Content of a state transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum What {
    /// Buckets of the table, from the node that leads them.
    Buckets = 0,
    /// Sessions, from any full member.
    Sessions = 1,
}

impl What {
    fn parse(value: u8) -> Result<Self, Malformed> {
        match value {
            0 => Ok(Self::Buckets),
            1 => Ok(Self::Sessions),
            _ => Err(Malformed::Field("what")),
        }
    }
}

/// A joining node asks for the state that follows position `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRequest {
    /// The epoch in which the node joins.
    pub epoch: Epoch,
    /// Number of the attempt: chunks repeat it.
    pub attempt: u32,
    /// Whether buckets of the table or sessions are requested.
    pub what: What,
    /// The first slot of the table, or the first entry of the session table.
    pub from: u32,
}

impl StateRequest {
    /// Bytes of the message.
    pub const BYTES: usize = 16;

    /// Encodes the message.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.epoch.0.to_be_bytes());
        put(&mut bytes, 4, self.attempt.to_be_bytes());
        bytes[8] = self.what as u8;
        put(&mut bytes, 12, self.from.to_be_bytes());
        bytes
    }

    /// Parses a request for state.
    ///
    /// # Errors
    /// Wrong length or an unknown `what`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = header::<{ Self::BYTES }>(bytes)?;
        exact(rest)?;
        Ok(Self {
            epoch: Epoch(be32(head, 0)),
            attempt: be32(head, 4),
            what: What::parse(head[8])?,
            from: be32(head, 12),
        })
    }
}

/// The state from position `from` up to, not including, `next`. All chunks of one answer reflect the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChunk<'a> {
    /// The epoch in which the receiver joins.
    pub epoch: Epoch,
    /// The attempt of the request that this chunk answers.
    pub attempt: u32,
    /// Whether the records are buckets of the table or sessions.
    pub what: What,
    /// Whether this is the last chunk of the answer.
    pub last: bool,
    /// First position: in the first chunk the request's `from`, in the others the previous chunk's `next`.
    pub from: u32,
    /// The position that follows this chunk; all ones at the end.
    pub next: u32,
    /// The committed length of the sender's stream that the chunk's buckets reflect.
    pub tag: u64,
    /// Slots or sessions, encoded as the `transfer` module says.
    pub records: &'a [u8],
}

impl<'a> StateChunk<'a> {
    /// Bytes of the header.
    pub const HEADER: usize = 32;

    /// Encodes the header; the records follow it in the message.
    pub fn header(&self) -> [u8; StateChunk::HEADER] {
        let mut bytes = [0; Self::HEADER];
        put(&mut bytes, 0, self.epoch.0.to_be_bytes());
        put(&mut bytes, 4, self.attempt.to_be_bytes());
        bytes[8] = self.what as u8;
        bytes[9] = self.last.into();
        put(&mut bytes, 12, self.from.to_be_bytes());
        put(&mut bytes, 16, self.next.to_be_bytes());
        put(&mut bytes, 24, self.tag.to_be_bytes());
        bytes
    }

    /// Parses a chunk, without its records.
    ///
    /// # Errors
    /// Wrong length, an unknown `what`, or a `next` that is not beyond `from`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (head, records) = header::<{ StateChunk::HEADER }>(bytes)?;
        let chunk = Self {
            epoch: Epoch(be32(head, 0)),
            attempt: be32(head, 4),
            what: What::parse(head[8])?,
            last: head[9] & 1 != 0,
            from: be32(head, 12),
            next: be32(head, 16),
            tag: be64(head, 24),
            records,
        };
        if chunk.next <= chunk.from {
            return Err(Malformed::Field("next"));
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn operation() -> impl Strategy<Value = Operation> {
        prop::sample::select(vec![Operation::Put, Operation::Delete, Operation::CompareAndSet])
    }

    fn lengths() -> impl Strategy<Value = Lengths> {
        prop::collection::vec(any::<u64>(), NODES_MAX).prop_map(|list| Lengths::try_from(list).unwrap())
    }

    proptest! {
        #[test]
        fn requests_survive(op in operation(), client: u64, request in 1u64.., version: u64, key: [u8; 13],
                            value in prop::collection::vec(any::<u8>(), 1..300)) {
            let mut padded = key.to_vec();
            padded.resize(16, 0);
            let value = if op == Operation::Delete { &[] } else { &value[..] };
            let expected = if op == Operation::CompareAndSet { version } else { 0 };
            let request = Request { operation: op, client, request, expected, key: &padded, value };
            let bytes = [&request.header()[..], &padded, value].concat();
            prop_assert_eq!(Request::parse(&bytes, 13), Ok(request));
            prop_assert_eq!(Request::identity(&bytes), Some((client, request.request)));
            prop_assert_eq!(Request::parse(&bytes[..bytes.len() - 1], 13).is_ok(), false);
            prop_assert_eq!(Request::parse(&bytes, 12).is_ok(), key[12] == 0);
        }

        #[test]
        fn replies_survive(status in 0u8..11, client: u64, request: u64, version: u64, epoch: u32, full: u16,
                           value in prop::collection::vec(any::<u8>(), 0..300)) {
            let status = Status::parse(status).unwrap();
            let full = NodeSet::from_bits(full);
            let reply = Reply { status, client, request, version, epoch: Epoch(epoch), full, value: &value };
            let bytes = [&reply.header()[..], &value].concat();
            prop_assert_eq!(Reply::parse(&bytes), Ok(reply));
        }

        #[test]
        fn writes_survive(op in operation(), epoch: u32, number in 1u64.., committed: u64, client: u64, request in 1u64..,
                          version: u64, key: [u8; 8], value in prop::collection::vec(any::<u8>(), 1..300)) {
            let value = if op == Operation::Delete { &[] } else { &value[..] };
            let write = Write {
                epoch: Epoch(epoch), operation: op, status: Status::Ok, number, committed, client, request, version,
                key: &key, value,
            };
            let bytes = [&write.header()[..], &key, value].concat();
            prop_assert_eq!(Write::parse(&bytes, 8), Ok(write));
        }

        #[test]
        fn small_messages_survive(epoch: u32, a: u64, b: u64, gap: bool, asks: bool, attempt: u32, from: u32) {
            let (epoch, committed, accepted) = (Epoch(epoch), a.min(b), a.max(b));
            for durable in [None, Some(committed)] {
                let message = Acknowledge { epoch, accepted, committed, durable, gap, asks };
                let mut bytes = [0xff; Acknowledge::BYTES_MAX];
                let length = message.encode(&mut bytes);
                prop_assert_eq!(Acknowledge::parse(&bytes[..length]), Ok(message));
            }
            let message = EntryRequest { base: epoch, stream: 15, from: a };
            prop_assert_eq!(EntryRequest::parse(&message.encode()), Ok(message));
            let message = Commit { epoch, committed };
            prop_assert_eq!(Commit::parse(&message.encode()), Ok(message));
            let message = StateRequest { epoch, attempt, what: What::Sessions, from };
            prop_assert_eq!(StateRequest::parse(&message.encode()), Ok(message));
        }

        #[test]
        fn sealed_survives(epoch in 2u32.., members: u16, heard: u16, accepted in lengths(),
                           cuts in prop::collection::vec((1u32.., lengths()), 0..=CUTS_MAX)) {
            let mut past = [Cut::default(); CUTS_MAX];
            for (place, (epoch, lengths)) in past.iter_mut().zip(cuts) {
                *place = Cut { epoch: Epoch(epoch), lengths };
            }
            let sealed = Sealed {
                epoch: Epoch(epoch), base: Epoch(epoch - 1), base_members: NodeSet::from_bits(members),
                heard: NodeSet::from_bits(heard), certain: NodeSet::from_bits(!heard), accepted, cuts: past,
            };
            let mut bytes = [0xff; Sealed::BYTES_MAX];
            let length = sealed.encode(&mut bytes);
            prop_assert_eq!(Sealed::parse(&bytes[..length]), Ok(sealed));
        }

        #[test]
        fn chunks_survive(epoch: u32, attempt: u32, last: bool, from in 0u32..1000, tag: u64,
                          records in prop::collection::vec(any::<u8>(), 0..300)) {
            let chunk = StateChunk {
                epoch: Epoch(epoch), attempt, what: What::Buckets, last, from, next: from + 1, tag,
                records: &records,
            };
            let bytes = [&chunk.header()[..], &records].concat();
            prop_assert_eq!(StateChunk::parse(&bytes), Ok(chunk));
        }

        #[test]
        fn records_of_a_backup_survive(records in prop::collection::vec((any::<[u8; 5]>(), prop::collection::vec(any::<u8>(), 1..40)), 0..20)) {
            let mut bytes = Vec::new();
            let fitting: Vec<_> = records.iter()
                .take_while(|(key, value)| push_backup_record(&mut bytes, 300, key, value))
                .map(|(key, value)| (&key[..], &value[..]))
                .collect();
            prop_assert!(bytes.len() <= 300);
            let read: Result<Vec<_>, _> = backup_records(&bytes, 5).collect();
            prop_assert_eq!(read, Ok(fitting));
        }

        #[test]
        fn descriptions_of_backups_survive(epoch: u32, slots: u32, node in 0..NODES_MAX, lengths in lengths()) {
            let node = NodeId::new(node).unwrap();
            let description = BackupDescription { node, epoch: Epoch(epoch), slots, lengths };
            prop_assert_eq!(BackupDescription::parse(&description.encode()), Ok(description));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..900)) {
            let _ = Request::parse(&bytes, 8);
            let _ = Reply::parse(&bytes);
            let _ = Write::parse(&bytes, 8);
            let _ = Acknowledge::parse(&bytes);
            let _ = Commit::parse(&bytes);
            let _ = EntryRequest::parse(&bytes);
            let _ = Sealed::parse(&bytes);
            let _ = StateRequest::parse(&bytes);
            let _ = StateChunk::parse(&bytes);
            let _ = BackupDescription::parse(&bytes);
            assert!(backup_records(&bytes, 8).count() <= bytes.len());
        }
    }

    #[test]
    fn a_request_byte_by_byte() {
        let request = Request {
            operation: Operation::CompareAndSet,
            client: 0x0102_0304_0506_0708,
            request: 9,
            expected: 1 << 40 | 3,
            key: b"aaaaaaaa",
            value: b"xyz",
        };
        let bytes = [&request.header()[..], request.key, request.value].concat();
        let expected: &[u8] = &[
            4, 0, 0, 3, 0, 0, 0, 0, // operation, value length
            1, 2, 3, 4, 5, 6, 7, 8, // client
            0, 0, 0, 0, 0, 0, 0, 9, // request
            0, 0, 1, 0, 0, 0, 0, 3, // expected version
            b'a', b'a', b'a', b'a', b'a', b'a', b'a', b'a', // key
            b'x', b'y', b'z',
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn reports_that_no_node_can_make_are_refused() {
        let of = |committed, durable| {
            let epoch = Epoch(2);
            let message = Acknowledge { epoch, accepted: 7, committed, durable, gap: false, asks: false };
            let mut bytes = [0; Acknowledge::BYTES_MAX];
            let length = message.encode(&mut bytes);
            Acknowledge::parse(&bytes[..length]).map(|_| ())
        };
        assert_eq!((of(7, None), of(7, Some(7))), (Ok(()), Ok(())));
        assert_eq!(of(8, None), Err(Malformed::Field("committed")));
        assert_eq!(of(7, Some(8)), Err(Malformed::Field("durable")));
        let request = EntryRequest { base: Epoch(2), stream: NODES_MAX as u8, from: 1 };
        assert_eq!(EntryRequest::parse(&request.encode()), Err(Malformed::Field("stream")));
    }

    #[test]
    fn what_an_operation_does_not_have_is_refused() {
        let request = |operation, expected, value: &'static [u8]| {
            let request = Request { operation, client: 1, request: 1, expected, key: &[0; 8], value };
            Request::parse(&[&request.header()[..], &[0; 8], value].concat(), 8).map(|_| ())
        };
        assert_eq!(request(Operation::Get, 0, b"x"), Err(Malformed::Field("value length")));
        assert_eq!(request(Operation::Put, 0, b""), Err(Malformed::Field("value length")));
        assert_eq!(request(Operation::Put, 7, b"x"), Err(Malformed::Field("expected version")));
        assert_eq!(request(Operation::CompareAndSet, 7, b"x"), Ok(()));
    }
}
