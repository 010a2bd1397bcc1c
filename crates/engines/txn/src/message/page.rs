//! A page of a shard, and where the next one begins.

use super::{List, Malformed, Put, Reader};

/// Beginning of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The segment of the table; 0 where it has none.
    pub segment: u32,
    /// The bits of the first key that may be in the page.
    pub key: u64,
}

impl Cursor {
    /// Of the first page.
    pub const START: Self = Self { segment: 0, key: 0 };
    /// Behind the last page.
    pub const END: Self = Self { segment: u32::MAX, key: 0 };
    /// Bytes of an encoded cursor.
    pub const BYTES: usize = 12;

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment.to_be_bytes());
        out.extend_from_slice(&self.key.to_be_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { segment: reader.u32()?, key: reader.u64()? })
    }
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// Of which shard.
    pub shard: usize,
    /// Beginning of this page.
    pub from: Cursor,
    /// Beginning of the next page, behind this one.
    pub next: Cursor,
    /// Objects of the shard, each with its version and value.
    pub puts: List<'a, Put<'a>>,
}

impl<'a> Page<'a> {
    /// Bytes before the objects.
    pub const HEAD_BYTES: usize = 2 + 2 * Cursor::BYTES;

    /// Reads what follows the header of a message.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (shard, from, next) = (reader.shard()?, Cursor::read(reader)?, Cursor::read(reader)?);
        let puts = List::<Put<'_>>::read(reader)?;
        if next <= from || next > Cursor::END {
            return Err(Malformed::Field("cursor"));
        }
        if puts.iter().any(|put| put.key.shard() != shard || put.value.is_none()) {
            return Err(Malformed::Field("object"));
        }
        Ok(Self { shard, from, next, puts })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.shard as u8);
        self.from.write(out);
        self.next.write(out);
        crate::message::write_list(out, self.puts.iter());
    }
}
