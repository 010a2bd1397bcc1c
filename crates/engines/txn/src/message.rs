//! Messages between engines, byte by byte. All integers are big-endian, except numbers of variable length
//! (n), which take one byte or more.
//!
//! ```text
//! every message  epoch(n) behind(n) decided(5), then the fields below
//!                decided: all attempts of the sender with lower sequence numbers are decided
//!                decided - behind: all nodes know that all attempts below this number are decided
//! id             epoch(n) coordinator and sequence(5)
//! version        epoch(n) number(5)
//!
//! Execute        id count(1) { index(1) mode(1) key(8) }
//! Executed       id shard(1) status(1) flags(1) count(1) { index(1) length(n) read:version new:version value }
//!                length: twice v, plus 1 if the key is locked; only then the field `new` is present.
//!                v: the value's length plus 1, or 0 if the object is absent or its value was not requested
//! Validate       id shard(1) count(1) { key(8) version }
//! Validated      id shard(1) status(1)
//! Log            id shard(1) part(1) parts(1) shards(2) pages(1) blocks(1) count(1) { key(8) version length(n) value or difference }
//!                length: the value's length plus 2; 0: the object is deleted; 1: a difference follows,
//!                encoded as base:version count(1) { offset(n) length(n) bytes }
//!                pages, blocks: the most room that the writes take in a table (`Room`)
//! Logged         id shard(1) part(1) parts(1)
//! Refused        id shard(1) part(1) parts(1) shards(2) lack(1)
//! Withdraw       id
//! Withdrawn      id
//! End            id
//! Marks          heard(8) written(8) applied(8) asks(1)
//!                written: position up to which the sender's ring at the receiver is decided
//!                applied: position up to which the sender has applied the receiver's ring (one_sided.rs)
//! Ship           id procedure(2) length(2) input  count(1) { index(1) mode(1) key(8) }  count(1) { as in Executed }
//! Shipped        id status(1) reason(1) shards(2) length(2) answer
//! Report         asks(1) base(4) full(2) joining(2) decided(5) x 16 part(2) parts(2)
//!                count(1) { id shards(2) held(2) verdict(1) }
//!                decided: for each coordinator, all its attempts of the base with smaller sequences are decided
//! Settled        acts(1)
//! Copy           shard(1) from(12)
//! Lock           id count(1) { index(1) mode(1) key(8) version }
//! Locked         id shard(1) status(1) count(1) { index(1) new:version }
//! Copied         shard(1) from(12) next(12)  count(1) { key(8) version length(n) value }
//!                from, next: cursors, encoded as segment(4) key(8)
//! ```

mod difference;
mod fields;
mod items;
mod list;
mod page;
pub mod write;

pub(crate) use difference::DIFFERENCE_BYTES_MIN;
pub use difference::{Difference, Mismatch};
pub(crate) use fields::HEADER_BYTES_MAX;
pub use fields::{Reader, write_id};
pub use items::{Claim, Content, Drawn, Got, Put, Replacement, Seen, Want, Write};
pub use list::{Item, List, write_list};
pub use page::{Cursor, Page};

use weft_waist::{Epoch, NODES_MAX, NodeSet};

use crate::procedure::{ANSWER_MAX, INPUT_MAX, ProcedureId};
use crate::room::Room;
use crate::transaction::TransactionId;

/// The reason why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The kind is unknown.
    #[error("unknown kind of message")]
    Kind,
    /// The length is wrong.
    #[error("wrong length")]
    Length,
    /// The field with this name has an invalid value.
    #[error("impossible {0}")]
    Field(&'static str),
}

/// The kinds of messages between engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Lock and read keys of a shard.
    Execute,
    /// The values that were read, or a conflict.
    Executed,
    /// Ask whether these versions are current and no other attempt holds a lock.
    Validate,
    /// The answer to VALIDATE.
    Validated,
    /// Log these writes.
    Log,
    /// The writes are logged.
    Logged,
    /// An attempt is decided: committed if the receiver has a record of it, aborted otherwise.
    End,
    /// The sender's watermarks: which members it has heard from, and how far rings are decided and applied.
    /// It may ask for the receiver's.
    Marks,
    /// Execute and log a transaction.
    Ship,
    /// The outcome of the shipped execution.
    Shipped,
    /// What the sender, a surviving node, knows about undecided attempts.
    Report,
    /// The sender has the reports of all members.
    Settled,
    /// A joining node requests a page of a shard.
    Copy,
    /// A page of a shard.
    Copied,
    /// Lock these keys, if they still have the versions that were read.
    Lock,
    /// The versions that the writes will have, or a conflict.
    Locked,
    /// The sender has no room for these writes at present.
    Refused,
    /// Drop the log records of an attempt, and log no more of it.
    Withdraw,
    /// The sender has withdrawn the attempt.
    Withdrawn,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::Execute,
        Self::Executed,
        Self::Validate,
        Self::Validated,
        Self::Log,
        Self::Logged,
        Self::End,
        Self::Marks,
        Self::Ship,
        Self::Shipped,
        Self::Report,
        Self::Settled,
        Self::Copy,
        Self::Copied,
        Self::Lock,
        Self::Locked,
        Self::Refused,
        Self::Withdraw,
        Self::Withdrawn,
    ];

    /// The kind with this number.
    ///
    /// # Errors
    /// If no kind has it.
    pub fn parse(kind: u8) -> Result<Self, Malformed> {
        Self::ALL.get(usize::from(kind)).copied().ok_or(Malformed::Kind)
    }
}

/// What lacks room for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lack {
    /// The log.
    Log = 0,
    /// The table, for the moment: other logged records may leave or free enough room.
    Passing = 1,
    /// The table, even without the other logged records.
    Table = 2,
}

impl Lack {
    fn parse(lack: u8) -> Result<Self, Malformed> {
        match lack {
            0 => Ok(Self::Log),
            1 => Ok(Self::Passing),
            2 => Ok(Self::Table),
            _ => Err(Malformed::Field("lack")),
        }
    }
}

/// Header of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's epoch.
    pub epoch: Epoch,
    /// All attempts of the sender with lower sequences are decided.
    pub decided: u64,
    /// All attempts of the sender with lower sequences are known to all nodes as decided. Never above
    /// `decided`.
    pub truncated: u64,
}

impl Header {
    /// Clears `out`, and writes the header to it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        fields::write_number(out, self.epoch.0.into());
        fields::write_number(out, self.decided - self.truncated);
        fields::write_count(out, self.decided);
    }

    /// Decodes the header.
    ///
    /// # Errors
    /// If the message is too short or inconsistent.
    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, behind, decided) =
            (Epoch(reader.short_number()?), reader.short_number()?, reader.count()?);
        let truncated = decided.checked_sub(u64::from(behind)).ok_or(Malformed::Field("watermark"))?;
        Ok(Self { epoch, decided, truncated })
    }
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Success.
    Ok,
    /// Another attempt holds the lock of a key, or has changed it.
    Conflict,
    /// There is no room at present: for a lock, a record or an object.
    Full,
    /// The procedure aborted.
    Aborted,
    /// The procedure, or the request, broke its contract; the reason says how.
    Faulty,
    /// The procedure asks for more keys than the request names.
    More,
    /// The node does not serve, or no node holds the shard.
    Unavailable,
}

impl Status {
    /// The status with this number.
    ///
    /// # Errors
    /// If no status has it.
    pub fn parse(status: u8) -> Result<Self, Malformed> {
        [Self::Ok, Self::Conflict, Self::Full, Self::Aborted, Self::Faulty, Self::More, Self::Unavailable]
            .get(usize::from(status))
            .copied()
            .ok_or(Malformed::Field("status"))
    }
}

/// What is known of the outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Undecided.
    Undecided,
    /// It takes effect.
    Committed,
    /// It never happened.
    Aborted,
}

impl Verdict {
    /// The verdict with this number.
    ///
    /// # Errors
    /// There is none.
    pub(crate) const fn parse(number: u8) -> Result<Self, Malformed> {
        match number {
            0 => Ok(Self::Undecided),
            1 => Ok(Self::Committed),
            2 => Ok(Self::Aborted),
            _ => Err(Malformed::Field("verdict")),
        }
    }
}

/// What a surviving node knows about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The attempt.
    pub id: TransactionId,
    /// The shards that it writes.
    pub shards: u16,
    /// Those of these shards of which the surviving node has all records.
    pub held: u16,
    /// The verdict that the survivor knows.
    pub verdict: Verdict,
}

impl Held {
    /// The most bytes of an encoded item.
    pub(crate) const BYTES_MAX: usize = fields::ID_BYTES_MAX + 5;
}

impl Item<'_> for Held {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (id, shards, held) = (reader.id()?, reader.u16()?, reader.u16()?);
        Ok(Self { id, shards, held, verdict: Verdict::parse(reader.u8()?)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_id(out, self.id);
        out.extend_from_slice(&self.shards.to_be_bytes());
        out.extend_from_slice(&self.held.to_be_bytes());
        out.push(self.verdict as u8);
    }
}

/// Identifies a record: an attempt's writes to one shard may be split into several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPart {
    /// The attempt.
    pub id: TransactionId,
    /// The shard.
    pub shard: usize,
    /// Index of the part.
    pub part: u8,
    /// Number of parts.
    pub parts: u8,
}

/// A decoded message without its header.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the table above says what the fields are")]
pub enum Body<'a> {
    Execute {
        id: TransactionId,
        wants: List<'a, Want>,
    },
    Executed {
        id: TransactionId,
        shard: usize,
        status: Status,
        atomic: bool,
        got: List<'a, Got<'a>>,
    },
    Validate {
        id: TransactionId,
        shard: usize,
        seen: List<'a, Seen>,
    },
    Validated {
        id: TransactionId,
        shard: usize,
        status: Status,
    },
    Log {
        place: RecordPart,
        shards: u16,
        needs: Room,
        writes: List<'a, Write<'a>>,
    },
    Logged {
        place: RecordPart,
    },
    End {
        id: TransactionId,
    },
    Marks {
        heard: u64,
        written: u64,
        applied: u64,
        asks: bool,
    },
    Ship {
        id: TransactionId,
        procedure: ProcedureId,
        input: &'a [u8],
        wants: List<'a, Want>,
        local: List<'a, Got<'a>>,
    },
    Shipped {
        id: TransactionId,
        status: Status,
        reason: u8,
        shards: u16,
        answer: &'a [u8],
    },
    Report {
        asks: bool,
        base: Base,
        decided: Watermarks,
        part: u16,
        parts: u16,
        held: List<'a, Held>,
    },
    Settled {
        acts: bool,
    },
    Copy {
        shard: usize,
        from: Cursor,
    },
    Copied(Page<'a>),
    Lock {
        id: TransactionId,
        claims: List<'a, Claim>,
    },
    Locked {
        id: TransactionId,
        shard: usize,
        status: Status,
        drawn: List<'a, Drawn>,
    },
    Refused {
        place: RecordPart,
        shards: u16,
        lack: Lack,
    },
    Withdraw {
        id: TransactionId,
    },
    Withdrawn {
        id: TransactionId,
    },
}

/// For each coordinator, a sequence: all attempts with smaller ones are decided.
pub type Watermarks = [u64; NODES_MAX];

/// The last view in which a node has served, or was a synced joining member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Its epoch.
    pub epoch: Epoch,
    /// The full members.
    pub full: NodeSet,
    /// The joining members.
    pub joining: NodeSet,
}

fn place(reader: &mut Reader<'_>) -> Result<RecordPart, Malformed> {
    let (id, shard, part, parts) = (reader.id()?, reader.shard()?, reader.u8()?, reader.u8()?);
    if part < parts { Ok(RecordPart { id, shard, part, parts }) } else { Err(Malformed::Field("part")) }
}

impl Body<'_> {
    /// The attempt whose coordinator alone may send this message. Records are exempt: they may also come from
    /// the node that the attempt was shipped to.
    pub(crate) const fn of_coordinator(&self) -> Option<TransactionId> {
        match self {
            Self::Execute { id, .. }
            | Self::Lock { id, .. }
            | Self::Validate { id, .. }
            | Self::Ship { id, .. }
            | Self::Withdraw { id }
            | Self::End { id } => Some(*id),
            _ => None,
        }
    }
}

impl<'a> Body<'a> {
    /// Decodes a message after its header.
    ///
    /// # Errors
    /// If the message is malformed.
    pub fn parse(kind: Kind, mut reader: Reader<'a>) -> Result<Self, Malformed> {
        let r = &mut reader;
        let body = match kind {
            Kind::Execute => Self::Execute { id: r.id()?, wants: List::read(r)? },
            Kind::Executed => Self::Executed {
                id: r.id()?,
                shard: r.shard()?,
                status: Status::parse(r.u8()?)?,
                atomic: r.u8()? & 1 == 1,
                got: List::read(r)?,
            },
            Kind::Validate => Self::Validate { id: r.id()?, shard: r.shard()?, seen: List::read(r)? },
            Kind::Validated => {
                Self::Validated { id: r.id()?, shard: r.shard()?, status: Status::parse(r.u8()?)? }
            }
            Kind::Log => Self::Log {
                place: place(r)?,
                shards: r.u16()?,
                needs: Room { pages: r.u8()?.into(), blocks: r.u8()?.into() },
                writes: List::read(r)?,
            },
            Kind::Logged => Self::Logged { place: place(r)? },
            Kind::End => Self::End { id: r.id()? },
            Kind::Marks => {
                Self::Marks { heard: r.u64()?, written: r.u64()?, applied: r.u64()?, asks: r.u8()? & 1 == 1 }
            }
            Kind::Ship => {
                let (id, procedure, length) = (r.id()?, ProcedureId(r.u16()?), usize::from(r.u16()?));
                if length > INPUT_MAX {
                    return Err(Malformed::Field("length"));
                }
                Self::Ship {
                    id,
                    procedure,
                    input: r.bytes(length)?,
                    wants: List::read(r)?,
                    local: List::read(r)?,
                }
            }
            Kind::Shipped => {
                let (id, status, reason) = (r.id()?, Status::parse(r.u8()?)?, r.u8()?);
                let (shards, length) = (r.u16()?, usize::from(r.u16()?));
                if length > ANSWER_MAX {
                    return Err(Malformed::Field("length"));
                }
                Self::Shipped { id, status, reason, shards, answer: r.bytes(length)? }
            }
            Kind::Report => {
                let asks = r.u8()? & 1 == 1;
                let epoch = Epoch(r.u32()?);
                let (full, joining) = (NodeSet::from_bits(r.u16()?), NodeSet::from_bits(r.u16()?));
                let mut decided = [0; NODES_MAX];
                for watermark in &mut decided {
                    *watermark = r.count()?;
                }
                let (part, parts) = (r.u16()?, r.u16()?);
                if part >= parts {
                    return Err(Malformed::Field("part"));
                }
                let base = Base { epoch, full, joining };
                Self::Report { asks, base, decided, part, parts, held: List::read(r)? }
            }
            Kind::Settled => Self::Settled { acts: r.u8()? & 1 == 1 },
            Kind::Copy => {
                let (shard, from) = (r.shard()?, Cursor::read(r)?);
                // A request for a page past the end is invalid.
                if from >= Cursor::END {
                    return Err(Malformed::Field("cursor"));
                }
                Self::Copy { shard, from }
            }
            Kind::Copied => Self::Copied(Page::read(r)?),
            Kind::Lock => Self::Lock { id: r.id()?, claims: List::read(r)? },
            Kind::Locked => Self::Locked {
                id: r.id()?,
                shard: r.shard()?,
                status: Status::parse(r.u8()?)?,
                drawn: List::read(r)?,
            },
            Kind::Refused => {
                Self::Refused { place: place(r)?, shards: r.u16()?, lack: Lack::parse(r.u8()?)? }
            }
            Kind::Withdraw => Self::Withdraw { id: r.id()? },
            Kind::Withdrawn => Self::Withdrawn { id: r.id()? },
        };
        reader.finish()?;
        Ok(body)
    }
}
