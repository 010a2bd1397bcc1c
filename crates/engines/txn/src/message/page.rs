//! A page of a shard, and the cursor at which the next page starts.

use super::{List, Malformed, Put, Reader};

/// Where a page starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The segment of the table; 0 if the table has no segments.
    pub segment: u32,
    /// The bits of the smallest key that may be in the page.
    pub key: u64,
}

impl Cursor {
    /// The cursor of the first page.
    pub const START: Self = Self { segment: 0, key: 0 };
    /// The cursor after the last page.
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
    /// The shard.
    pub shard: usize,
    /// Where this page starts.
    pub from: Cursor,
    /// Where the next page starts. It is greater than `from`.
    pub next: Cursor,
    /// Objects of the shard, each with its version and value.
    pub puts: List<'a, Put<'a>>,
}

impl<'a> Page<'a> {
    /// Bytes of a page that precede the objects.
    pub const HEAD_BYTES: usize = 2 + 2 * Cursor::BYTES;

    /// Decodes a page after the header of its message.
    ///
    /// # Errors
    /// If the page is malformed.
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
