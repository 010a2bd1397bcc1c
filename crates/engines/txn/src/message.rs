//! Messages between engines, byte by byte. All integers are big-endian.
//!
//! ```text
//! every message  0 epoch(4)   4 behind(4)   8 decided(8)                                                  16 what follows
//!                decided: all attempts of the sender below it are decided; decided - behind: and all nodes know
//! Execute        id(8) count(1) { index(1) mode(1) key(8) }
//! Executed       id(8) shard(1) status(1) flags(1) count(1) { index(1) length(2) read(8) new(8) value }
//! Validate       id(8) shard(1) count(1) { key(8) version(8) }
//! Validated      id(8) shard(1) status(1)
//! Log            id(8) shard(1) part(1) parts(1) shards(2) pages(1) blocks(1) count(1) { key(8) version(8) length(2) value or difference }
//!                a difference (length 65,533) is base(8) count(1) { offset(2) length(2) bytes }
//!                pages, blocks: what the writes take of a table at worst (`Room`)
//! Logged         id(8) shard(1) part(1) parts(1)
//! Refused        id(8) shard(1) part(1) parts(1) shards(2) lack(1)
//! Withdraw       id(8)
//! Withdrawn      id(8)
//! End            id(8)
//! Marks          heard(8) written(8) applied(8) asks(1)
//!                written: so much of the sender's ring here is decided; applied: so much of the receiver's there is applied (one_sided.rs)
//! Ship           id(8) procedure(2) length(2) input  count(1) { index(1) mode(1) key(8) }  count(1) { as in Executed }
//! Shipped        id(8) status(1) reason(1) shards(2) length(2) answer
//! Report         asks(1) base(4) full(2) joining(2) part(2) parts(2) count(1) { id(8) shards(2) held(2) verdict(1) }
//! Settled        acts(1)
//! Copy           shard(1) from(12)
//! Lock           id(8) count(1) { index(1) mode(1) key(8) version(8) }
//! Locked         id(8) shard(1) status(1) count(1) { index(1) new(8) }
//! Copied         shard(1) from(12) next(12)  count(1) { key(8) version(8) length(2) value }                     a cursor is segment(4) key(8)
//! ```
//!
//! A length of 65,535 stands for an absent (deleted) value, 65,534 for one that was not read.

mod difference;
mod items;
pub mod write;

pub(crate) use difference::DIFFERENCE_BYTES_MIN;
pub use difference::{Difference, Stray};
pub use items::{Claim, Content, Drawn, Got, Item, List, Put, Replacement, Seen, Want, Write, write_list};

use weft_waist::{Epoch, NodeSet};

use crate::copy::{Cursor, Page};
use crate::key::Key;
use crate::procedure::{ANSWER_MAX, INPUT_MAX, ProcedureId, VALUE_MAX};
use crate::store::Room;
use crate::transaction::TransactionId;

/// Bytes of the header of every message.
pub const HEADER_BYTES: usize = 16;
const ABSENT: u16 = u16::MAX;
const NOT_READ: u16 = u16::MAX - 1;
const DIFFERENCE: u16 = u16::MAX - 2;

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No such kind of message.
    #[error("unknown kind of message")]
    Kind,
    /// It ends too early, or too late.
    #[error("wrong length")]
    Length,
    /// A field has a value that it cannot have.
    #[error("impossible {0}")]
    Field(&'static str),
}

/// The kinds of messages between engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Lock and read keys of a shard.
    Execute,
    /// What was read, or that something is in the way.
    Executed,
    /// Are these versions current, and nobody else's?
    Validate,
    /// Whether they are.
    Validated,
    /// Keep these writes.
    Log,
    /// They are kept.
    Logged,
    /// An attempt is decided: by its log if it has one, and given up if not.
    End,
    /// What the sender has heard, and a question for the same.
    Marks,
    /// Execute and log a transaction.
    Ship,
    /// What came of it.
    Shipped,
    /// What a survivor holds of undecided attempts.
    Report,
    /// The sender has the reports of all.
    Settled,
    /// A joining node wants a page of a shard.
    Copy,
    /// A page of a shard.
    Copied,
    /// Lock these keys, if what was read of them has still this version.
    Lock,
    /// The versions that writes of them will have, or that something is in the way.
    Locked,
    /// There is no room for these writes now.
    Refused,
    /// Drop what is logged of an attempt, and log nothing more of it.
    Withdraw,
    /// That is done.
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

    /// The kind of this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(kind: u8) -> Result<Self, Malformed> {
        Self::ALL.get(usize::from(kind)).copied().ok_or(Malformed::Kind)
    }
}

/// Where there is no room for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lack {
    /// In the log.
    Log = 0,
    /// In the table for now: what others have logged may take what is left, or give some back.
    Passing = 1,
    /// In the table, whatever becomes of the others.
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

/// What every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's epoch.
    pub epoch: Epoch,
    /// All attempts of the sender with lower sequences are decided.
    pub decided: u64,
    /// All attempts of the sender with lower sequences are known to be decided by all nodes. Not above `decided`.
    pub truncated: u64,
}

impl Header {
    /// Writes it at the beginning of `out`, which is emptied.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        let behind = u32::try_from(self.decided - self.truncated).expect("a window has far fewer attempts");
        out.extend_from_slice(&behind.to_be_bytes());
        out.extend_from_slice(&self.decided.to_be_bytes());
    }

    /// Reads it.
    ///
    /// # Errors
    /// If the message is too short or contradicts itself.
    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, behind, decided) = (Epoch(reader.u32()?), reader.u32()?, reader.u64()?);
        let truncated = decided.checked_sub(u64::from(behind)).ok_or(Malformed::Field("watermark"))?;
        Ok(Self { epoch, decided, truncated })
    }
}

/// Reads bytes from the front.
#[derive(Clone, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`Malformed::Length`] if there are fewer; so do all others.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(Malformed::Length)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.bytes(N)?.try_into().expect("as many as asked for"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// An identifier of an attempt.
    pub fn id(&mut self) -> Result<TransactionId, Malformed> {
        TransactionId::from_bits(self.u64()?).ok_or(Malformed::Field("identifier"))
    }

    /// A key.
    pub fn key(&mut self) -> Result<Key, Malformed> {
        Key::from_bits(self.u64()?).ok_or(Malformed::Field("key"))
    }

    /// The number of a shard.
    pub fn shard(&mut self) -> Result<usize, Malformed> {
        let shard = usize::from(self.u8()?);
        if shard < crate::key::SHARDS_MAX { Ok(shard) } else { Err(Malformed::Field("shard")) }
    }

    fn value(&mut self, length: u16) -> Result<Option<&'a [u8]>, Malformed> {
        match length {
            ABSENT | NOT_READ => Ok(None),
            _ if usize::from(length) > VALUE_MAX => Err(Malformed::Field("length")),
            _ => self.bytes(usize::from(length)).map(Some),
        }
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Length) }
    }
}

/// Whether a request could be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// It was.
    Ok,
    /// Another transaction holds or has changed a key.
    Conflict,
    /// There is no room to lock or keep it now.
    Full,
    /// The procedure refused.
    Aborted,
    /// The procedure, or the request, broke its contract; the reason says how.
    Faulty,
    /// The procedure asks for more keys than the request names.
    More,
    /// The node does not serve, or nobody holds the shard.
    Unavailable,
}

impl Status {
    /// The status of this number.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(status: u8) -> Result<Self, Malformed> {
        [Self::Ok, Self::Conflict, Self::Full, Self::Aborted, Self::Faulty, Self::More, Self::Unavailable]
            .get(usize::from(status))
            .copied()
            .ok_or(Malformed::Field("status"))
    }
}

/// What is known of the fate of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Nothing.
    Undecided,
    /// It takes effect.
    Committed,
    /// It never happened.
    Aborted,
}

/// What a survivor holds of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The attempt.
    pub id: TransactionId,
    /// The shards that it writes.
    pub shards: u16,
    /// Those of them whose records the survivor has in full.
    pub held: u16,
    /// What it knows.
    pub verdict: Verdict,
}

impl Held {
    /// Bytes of an item.
    pub const BYTES: usize = 13;
}

impl Item<'_> for Held {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (id, shards, held) = (reader.id()?, reader.u16()?, reader.u16()?);
        let verdict = match reader.u8()? {
            0 => Verdict::Undecided,
            1 => Verdict::Committed,
            2 => Verdict::Aborted,
            _ => return Err(Malformed::Field("verdict")),
        };
        Ok(Self { id, shards, held, verdict })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.bits().to_be_bytes());
        out.extend_from_slice(&self.shards.to_be_bytes());
        out.extend_from_slice(&self.held.to_be_bytes());
        out.push(self.verdict as u8);
    }
}

/// Where a record belongs: which part of which shard's writes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The attempt.
    pub id: TransactionId,
    /// Whose writes.
    pub shard: usize,
    /// Which part of them.
    pub part: u8,
    /// How many parts they have.
    pub parts: u8,
}

/// What a message says behind its header.
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
        place: Place,
        shards: u16,
        needs: Room,
        writes: List<'a, Write<'a>>,
    },
    Logged {
        place: Place,
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
        place: Place,
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

/// The last view in which a node has served, or taken part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// Its epoch.
    pub epoch: Epoch,
    /// Who was full in it.
    pub full: NodeSet,
    /// Who was joining.
    pub joining: NodeSet,
}

fn place(reader: &mut Reader<'_>) -> Result<Place, Malformed> {
    let (id, shard, part, parts) = (reader.id()?, reader.shard()?, reader.u8()?, reader.u8()?);
    if part < parts { Ok(Place { id, shard, part, parts }) } else { Err(Malformed::Field("part")) }
}

impl Body<'_> {
    /// The attempt whose coordinator alone may say this. (A record may come from whom the attempt was shipped to.)
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
    /// Reads what follows a header.
    ///
    /// # Errors
    /// If it is malformed.
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
                let (part, parts) = (r.u16()?, r.u16()?);
                if part >= parts {
                    return Err(Malformed::Field("part"));
                }
                Self::Report { asks, base: Base { epoch, full, joining }, part, parts, held: List::read(r)? }
            }
            Kind::Settled => Self::Settled { acts: r.u8()? & 1 == 1 },
            Kind::Copy => {
                let (shard, from) = (r.shard()?, Cursor::read(r)?);
                // Nothing is left to ask for.
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
