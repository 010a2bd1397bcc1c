//! Messages between an engine and the host half of its node. No message is lost, and they arrive in order.
//!
//! ```text
//! Begin     procedure(2) length(2) input  count(1) { as in Execute }
//! Ran       id step(1) reason(1)  count(1) { as in Execute: the keys that were added }
//!           count(1) { as a whole value in Log: the writes; the version is zero }  length(2) answer
//! Local     applied(8) step(1) reason(1)  count(1) { as in Lock: the keys, with the versions that were read, zero if absent }
//!           count(1) { as in Ran: the writes }  length(2) answer
//!           count(1) { as in Executed: the values read of the written keys; of all keys if attempts are recorded }
//! Wire      peer(1) queue pair(4) local address(8) lkey(4) remote address(8) rkey(4)
//! Applied   upto(8) pages(4) blocks(4)  { 12 bytes each: the changed segments of the table (`Report`) }
//!           pages, blocks: the free room in the table (`Room`)
//! Mismatch
//! Durable   count(8)
//! Snapshot
//! Saved     epoch(4)
//! Restore   an entry of the log on disk (`journal`)
//! Restored
//! Page      epoch(4) peer(1)  as in Copied
//! Kept      epoch(4) shard(1) next(12) pages(4) blocks(4)  { as in Applied }
//! Outcome   id status(1) reason(1) length(2) answer
//! Run       id  count(1) { as in Executed: the keys that were fetched since the last Run }
//! Decided   upto(8)
//! Clear
//! Read      epoch(4) peer(1) bytes(2)  as in Copy
//! Keep      epoch(4)  as in Copied
//! Whole     epoch(4)
//! Serves    shards(2)
//! Stored    upto(8)
//! Entry     an entry of the log on disk
//! State     the same; nothing if a snapshot is not possible now
//! ```
//!
//! An `id` is encoded as in the messages between engines.

use weft_verbs::QueuePairNumber;
use weft_waist::{Caller, Epoch};

use crate::journal::Entry;
use crate::message::{
    Claim, Cursor, Got, List, Malformed, Page, Put, Reader, Status, Want, write_id, write_list,
};
use crate::procedure::{ANSWER_MAX, INPUT_MAX, ProcedureId, Step};
use crate::room::Room;
use crate::store::Report;
use crate::transaction::TransactionId;
use crate::wiring::Wiring;

/// The token of all messages about the log.
pub const LOG_TOKEN: u32 = u32::MAX;

/// Reason of `Unavailable` when it is permanent: no node holds the shard any more.
pub(crate) const NOBODY: u8 = 2;

/// Reason of `Full` when a replica's table has no room.
pub(crate) const TABLE: u8 = 1;

/// The caller that messages about the log are addressed to.
pub(crate) const LOG_CALLER: Caller = Caller::Host(LOG_TOKEN);

/// The kinds of messages from and to the host half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HostKind {
    /// To the card: begin a transaction.
    Begin = 64,
    /// To the card: the result of a run of a procedure.
    Ran = 65,
    /// To the card: the log position up to which the host has applied records.
    Applied = 66,
    /// To the card: the queue pair and memory region by which it reaches a peer with verbs.
    Wire = 67,
    /// To the card: a page of the table, to be sent to a joining peer.
    Page = 68,
    /// To the card: the host has applied a page to the table.
    Kept = 69,
    /// To the card: a transaction that the host has executed alone.
    Local = 70,
    /// To the card: a decided record does not fit the table. There is no room for it, or its former value is
    /// missing.
    Mismatch = 71,
    /// To the card: how many of its [`HostKind::Stored`] and [`HostKind::Entry`] messages the disk has.
    Durable = 72,
    /// To the card: begin a snapshot.
    Snapshot = 73,
    /// To the card: the disk has the copy of which the card has said that it is whole.
    Saved = 74,
    /// To the card: an entry of the log on disk, when a process starts.
    Restore = 75,
    /// To the card: that was all.
    Restored = 76,
    /// To the host: how an attempt has ended.
    Outcome = 80,
    /// To the host: run the procedure.
    Run = 81,
    /// To the host: the log position up to which records are decided.
    Decided = 82,
    /// To the host: empty the table. From now on pages and log records arrive in any order, and the newest
    /// version of each object wins.
    Clear = 83,
    /// To the host: read a page of the table for a joining peer.
    Read = 84,
    /// To the host: apply a page to the table.
    Keep = 85,
    /// To the host: all pages have arrived. If the host has a disk, a snapshot has to follow.
    Whole = 86,
    /// To the host: the shards that this node now serves as primary.
    Serves = 87,
    /// To the host: its memory has all records up to this log position. Write them to the disk.
    Stored = 88,
    /// To the host: write this entry to the disk.
    Entry = 89,
    /// To the host: the beginning of a snapshot.
    State = 90,
}

/// A transaction that the host has executed over its own table.
#[derive(Clone, Debug)]
pub struct HostExecution<'a> {
    /// Log position up to which the table was applied when it was read.
    pub applied: u64,
    /// Result of the last run.
    pub step: Step,
    /// All keys in the order in which they were named, with the versions that were read. The version of an
    /// absent key is zero.
    pub claims: List<'a, Claim>,
    /// Values to write.
    pub writes: List<'a, Put<'a>>,
    /// Answer to the caller.
    pub answer: &'a [u8],
    /// Values that were read of the written keys; of all keys if attempts are recorded.
    pub read: List<'a, Got<'a>>,
}

/// A decoded message.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the table above says what the fields are")]
pub enum HostMessage<'a> {
    Begin { procedure: ProcedureId, input: &'a [u8], wants: List<'a, Want> },
    Ran { id: TransactionId, step: Step, added: List<'a, Want>, writes: List<'a, Put<'a>>, answer: &'a [u8] },
    Local(HostExecution<'a>),
    Applied { upto: u64, room: Room, reports: &'a [u8] },
    Mismatch,
    Durable { count: u64 },
    Snapshot,
    Saved { epoch: Epoch },
    Restore(Entry<'a>),
    Restored,
    Wire { peer: usize, wiring: Wiring },
    Outcome { id: TransactionId, status: Status, reason: u8, answer: &'a [u8] },
    Run { id: TransactionId, got: List<'a, Got<'a>> },
    Decided { upto: u64 },
    Page { epoch: Epoch, peer: usize, page: Page<'a>, bytes: &'a [u8] },
    Kept { epoch: Epoch, shard: usize, next: Cursor, room: Room, reports: &'a [u8] },
    Clear,
    Read { epoch: Epoch, peer: usize, bytes: usize, shard: usize, from: Cursor },
    Keep { epoch: Epoch, page: Page<'a> },
    Whole { epoch: Epoch },
    Serves { shards: u16 },
    Stored { upto: u64 },
    Entry { bytes: &'a [u8] },
    State { bytes: &'a [u8] },
}

impl<'a> HostMessage<'a> {
    /// Decodes a message.
    ///
    /// # Errors
    /// If the message is malformed.
    pub fn parse(kind: u8, payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(payload);
        let r = &mut reader;
        let message = match kind {
            kind if kind == HostKind::Begin as u8 => {
                let (procedure, length) = (ProcedureId(r.u16()?), usize::from(r.u16()?));
                if length > INPUT_MAX {
                    return Err(Malformed::Field("length"));
                }
                Self::Begin { procedure, input: r.bytes(length)?, wants: List::read(r)? }
            }
            kind if kind == HostKind::Ran as u8 => {
                let (id, step) = (r.id()?, step(r)?);
                Self::Ran { id, step, added: List::read(r)?, writes: List::read(r)?, answer: answer(r)? }
            }
            kind if kind == HostKind::Local as u8 => {
                let (applied, step) = (r.u64()?, step(r)?);
                let (claims, writes) = (List::read(r)?, List::read(r)?);
                let (answer, read) = (answer(r)?, List::read(r)?);
                Self::Local(HostExecution { applied, step, claims, writes, answer, read })
            }
            kind if kind == HostKind::Applied as u8 => {
                let (upto, room) = (r.u64()?, room(r)?);
                Self::Applied { upto, room, reports: reports(r)? }
            }
            kind if kind == HostKind::Mismatch as u8 => Self::Mismatch,
            kind if kind == HostKind::Wire as u8 => {
                let peer = usize::from(r.u8()?);
                let queue_pair = QueuePairNumber(r.u32()?);
                let (local_address, lkey) = (r.u64()?, r.u32()?);
                let (remote_address, rkey) = (r.u64()?, r.u32()?);
                let wiring = Wiring { queue_pair, local_address, lkey, remote_address, rkey };
                Self::Wire { peer, wiring }
            }
            kind if kind == HostKind::Outcome as u8 => Self::Outcome {
                id: r.id()?,
                status: Status::parse(r.u8()?)?,
                reason: r.u8()?,
                answer: answer(r)?,
            },
            kind if kind == HostKind::Run as u8 => Self::Run { id: r.id()?, got: List::read(r)? },
            kind if kind == HostKind::Decided as u8 => Self::Decided { upto: r.u64()? },
            kind if kind == HostKind::Page as u8 => {
                let (epoch, peer, bytes) = (Epoch(r.u32()?), usize::from(r.u8()?), r.0);
                Self::Page { epoch, peer, page: Page::read(r)?, bytes }
            }
            kind if kind == HostKind::Kept as u8 => {
                let (epoch, shard, next) = (Epoch(r.u32()?), r.shard()?, Cursor::read(r)?);
                Self::Kept { epoch, shard, next, room: room(r)?, reports: reports(r)? }
            }
            kind if kind == HostKind::Clear as u8 => Self::Clear,
            kind if kind == HostKind::Read as u8 => {
                let (epoch, peer, bytes) = (Epoch(r.u32()?), r.u8()?.into(), r.u16()?.into());
                Self::Read { epoch, peer, bytes, shard: r.shard()?, from: Cursor::read(r)? }
            }
            kind if kind == HostKind::Keep as u8 => {
                Self::Keep { epoch: Epoch(r.u32()?), page: Page::read(r)? }
            }
            kind if kind == HostKind::Whole as u8 => Self::Whole { epoch: Epoch(r.u32()?) },
            kind if kind == HostKind::Serves as u8 => Self::Serves { shards: r.u16()? },
            kind if kind == HostKind::Durable as u8 => Self::Durable { count: r.u64()? },
            kind if kind == HostKind::Snapshot as u8 => Self::Snapshot,
            kind if kind == HostKind::Saved as u8 => Self::Saved { epoch: Epoch(r.u32()?) },
            kind if kind == HostKind::Restore as u8 => Self::Restore(Entry::parse(r.rest())?),
            kind if kind == HostKind::Restored as u8 => Self::Restored,
            kind if kind == HostKind::Stored as u8 => Self::Stored { upto: r.u64()? },
            kind if kind == HostKind::Entry as u8 => Self::Entry { bytes: r.rest() },
            kind if kind == HostKind::State as u8 => Self::State { bytes: r.rest() },
            _ => return Err(Malformed::Kind),
        };
        reader.finish()?;
        Ok(message)
    }
}

/// The payload of a [`HostKind::Wire`] message.
pub fn wire(peer: usize, wiring: &Wiring) -> Vec<u8> {
    let mut out = vec![peer as u8];
    out.extend_from_slice(&wiring.queue_pair.0.to_be_bytes());
    out.extend_from_slice(&wiring.local_address.to_be_bytes());
    out.extend_from_slice(&wiring.lkey.to_be_bytes());
    out.extend_from_slice(&wiring.remote_address.to_be_bytes());
    out.extend_from_slice(&wiring.rkey.to_be_bytes());
    out
}

fn step(reader: &mut Reader<'_>) -> Result<Step, Malformed> {
    let (step, reason) = (reader.u8()?, reader.u8()?);
    match step {
        0 => Ok(Step::Commit),
        1 => Ok(Step::More),
        2 => Ok(Step::Abort(reason)),
        _ => Err(Malformed::Field("step")),
    }
}

fn write_step(out: &mut Vec<u8>, step: Step) {
    out.extend_from_slice(&match step {
        Step::Commit => [0, 0],
        Step::More => [1, 0],
        Step::Abort(reason) => [2, reason],
    });
}

fn room(reader: &mut Reader<'_>) -> Result<Room, Malformed> {
    Ok(Room { pages: reader.u32()?, blocks: reader.u32()? })
}

/// Reads all whole reports that follow.
fn reports<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    reader.bytes(reader.0.len() / Report::BYTES * Report::BYTES)
}

fn answer<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = usize::from(reader.u16()?);
    if length > ANSWER_MAX { Err(Malformed::Field("length")) } else { reader.bytes(length) }
}

fn write_answer(out: &mut Vec<u8>, answer: &[u8]) {
    out.extend_from_slice(&(answer.len() as u16).to_be_bytes());
    out.extend_from_slice(answer);
}

/// Encoders of messages.
pub(crate) mod write {
    use super::*;

    pub fn begin(out: &mut Vec<u8>, procedure: ProcedureId, input: &[u8], wants: impl Iterator<Item = Want>) {
        out.extend_from_slice(&procedure.0.to_be_bytes());
        out.extend_from_slice(&(input.len() as u16).to_be_bytes());
        out.extend_from_slice(input);
        write_list(out, wants);
    }

    pub fn ran<'a>(
        out: &mut Vec<u8>,
        id: TransactionId,
        step: Step,
        added: impl Iterator<Item = Want>,
        writes: impl Iterator<Item = Put<'a>>,
        answer: &[u8],
    ) {
        write_id(out, id);
        write_step(out, step);
        write_list(out, added);
        write_list(out, writes);
        write_answer(out, answer);
    }

    pub fn local<'a>(
        out: &mut Vec<u8>,
        (applied, step): (u64, Step),
        claims: impl Iterator<Item = Claim>,
        writes: impl Iterator<Item = Put<'a>>,
        answer: &[u8],
        read: impl Iterator<Item = Got<'a>>,
    ) {
        out.extend_from_slice(&applied.to_be_bytes());
        write_step(out, step);
        write_list(out, claims);
        write_list(out, writes);
        write_answer(out, answer);
        write_list(out, read);
    }

    pub fn outcome(out: &mut Vec<u8>, id: TransactionId, status: Status, reason: u8, answer: &[u8]) {
        write_id(out, id);
        out.extend_from_slice(&[status as u8, reason]);
        write_answer(out, answer);
    }

    pub fn run<'a>(out: &mut Vec<u8>, id: TransactionId, got: impl Iterator<Item = Got<'a>>) {
        write_id(out, id);
        write_list(out, got);
    }
}
