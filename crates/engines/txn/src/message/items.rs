//! The items of lists in messages: keys, versions and values.

use super::difference::Difference;
use super::fields::{number_bytes, version_bytes, write_number, write_version};
use super::list::Item;
use super::{Malformed, Reader};
use crate::key::{Key, Version};
use crate::procedure::{Access, Mode, VALUE_MAX};

/// Values of the length field of a write: for a deletion, a difference, and an empty value.
const DELETED: u64 = 0;
const DIFFERENCE: u64 = 1;
const EMPTY: u64 = 2;

/// A key that is to be locked or read, with its index among the transaction's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The index.
    pub index: u8,
    /// The key and its access mode.
    pub access: Access,
}

impl Item<'_> for Want {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let index = reader.u8()?;
        let mode = match reader.u8()? {
            0 => Mode::Read,
            1 => Mode::Update,
            2 => Mode::Write,
            _ => return Err(Malformed::Field("mode")),
        };
        Ok(Self { index, access: Access { key: reader.key()?, mode } })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.index);
        out.push(self.access.mode as u8);
        out.extend_from_slice(&self.access.key.bits().to_be_bytes());
    }
}

/// A key that was read, and perhaps locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got<'a> {
    /// Index among the transaction's keys.
    pub index: u8,
    /// The version that was read.
    pub read: Version,
    /// The version that a write of the key will have; zero if the key is not locked.
    pub new: Version,
    /// The value; `None` if it is absent or was not asked for.
    pub value: Option<&'a [u8]>,
}

impl<'a> Item<'a> for Got<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (index, length) = (reader.u8()?, reader.number()?);
        let read = reader.version()?;
        let new = if length & 1 == 1 { reader.version()? } else { Version::ZERO };
        if length & 1 == 1 && new == Version::ZERO {
            return Err(Malformed::Field("version"));
        }
        let value = (length >> 1).checked_sub(1).map(|length| value(reader, length)).transpose()?;
        Ok(Self { index, read, new, value })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.index);
        write_number(out, self.length());
        write_version(out, self.read);
        if self.new != Version::ZERO {
            write_version(out, self.new);
        }
        out.extend_from_slice(self.value.unwrap_or_default());
    }
}

impl Got<'_> {
    /// The length field: twice v, plus 1 if there is a new version. v is the value's length plus 1, or 0 without a
    /// value.
    fn length(&self) -> u64 {
        let length = self.value.map_or(0, |value| value.len() as u64 + 1);
        length << 1 | u64::from(self.new != Version::ZERO)
    }

    /// Bytes of the encoded item.
    pub(crate) fn bytes(&self) -> usize {
        let new = if self.new == Version::ZERO { 0 } else { version_bytes(self.new) };
        1 + number_bytes(self.length()) + version_bytes(self.read) + new + self.value.map_or(0, <[u8]>::len)
    }
}

/// A key and the version that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The key.
    pub key: Key,
    /// Version read.
    pub version: Version,
}

impl Item<'_> for Seen {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { key: reader.key()?, version: reader.version()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.bits().to_be_bytes());
        write_version(out, self.version);
    }
}

/// A key that is to be locked, if it still has the version that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Access that is requested of the key.
    pub want: Want,
    /// Version read; zero if the access mode does not read.
    pub version: Version,
}

impl Item<'_> for Claim {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { want: Want::read(reader)?, version: reader.version()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.want.write(out);
        write_version(out, self.version);
    }
}

/// A locked key, and the version that was drawn for its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Index among the transaction's keys.
    pub index: u8,
    /// The version that a write will have.
    pub new: Version,
}

impl Item<'_> for Drawn {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { index: reader.u8()?, new: reader.version()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.index);
        write_version(out, self.new);
    }
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put<'a> {
    /// The key.
    pub key: Key,
    /// New version.
    pub version: Version,
    /// New value; `None` deletes it.
    pub value: Option<&'a [u8]>,
}

impl<'a> Item<'a> for Put<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Write::read(reader)?.whole().ok_or(Malformed::Field("length"))
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_head(out, self.key, self.version, self.length());
        out.extend_from_slice(self.value.unwrap_or_default());
    }
}

impl Put<'_> {
    fn length(&self) -> u64 {
        self.value.map_or(DELETED, |value| EMPTY + value.len() as u64)
    }

    /// Bytes of the encoded item.
    pub(crate) fn bytes(&self) -> usize {
        8 + version_bytes(self.version) + number_bytes(self.length()) + self.value.map_or(0, <[u8]>::len)
    }
}

/// The content of a logged write.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// A new value; `None` deletes it.
    Whole(Option<&'a [u8]>),
    /// The former value with this difference applied.
    Changed(Difference<'a>),
}

/// A write in a record of the log.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The key.
    pub key: Key,
    /// New version.
    pub version: Version,
    /// New content.
    pub content: Content<'a>,
}

impl<'a> Write<'a> {
    /// The write, if its content is a whole value or a deletion.
    pub const fn whole(&self) -> Option<Put<'a>> {
        match self.content {
            Content::Whole(value) => Some(Put { key: self.key, version: self.version, value }),
            Content::Changed(_) => None,
        }
    }
}

impl<'a> Item<'a> for Write<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (key, version) = (reader.key()?, reader.version()?);
        let content = match reader.number()? {
            DELETED => Content::Whole(None),
            DIFFERENCE => Content::Changed(Difference::read(reader)?),
            length => Content::Whole(Some(value(reader, length - EMPTY)?)),
        };
        Ok(Self { key, version, content })
    }

    fn write(&self, out: &mut Vec<u8>) {
        match &self.content {
            Content::Whole(value) => Put { key: self.key, version: self.version, value: *value }.write(out),
            Content::Changed(difference) => {
                write_head(out, self.key, self.version, DIFFERENCE);
                difference.write(out);
            }
        }
    }
}

/// Appends the fields that precede a value or a difference.
fn write_head(out: &mut Vec<u8>, key: Key, version: Version, length: u64) {
    out.extend_from_slice(&key.bits().to_be_bytes());
    write_version(out, version);
    write_number(out, length);
}

fn value<'a>(reader: &mut Reader<'a>, length: u64) -> Result<&'a [u8], Malformed> {
    if length > VALUE_MAX as u64 {
        return Err(Malformed::Field("length"));
    }
    reader.bytes(length as usize)
}

/// A write, together with the value that its transaction has read. It can be logged as a difference.
#[derive(Clone, Copy, Debug)]
pub struct Replacement<'a> {
    /// The write.
    pub put: Put<'a>,
    /// The version and the value that were read; `None` if the key was not read.
    pub read: Option<(Version, &'a [u8])>,
}

impl Replacement<'_> {
    /// Appends the write: as a difference if that is shorter, otherwise as a whole value. Returns whether it
    /// is a difference.
    pub fn write_shorter(&self, out: &mut Vec<u8>) -> bool {
        let (start, put) = (out.len(), &self.put);
        if let (Some((base, old)), Some(new)) = (self.read, put.value) {
            write_head(out, put.key, put.version, DIFFERENCE);
            if super::difference::write(out, base, old, new) && out.len() - start < put.bytes() {
                return true;
            }
            out.truncate(start);
        }
        put.write(out);
        false
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::Epoch;

    use super::*;

    const VERSION: Version = Version::new(Epoch(1), 7);
    const LONG: [u8; VALUE_MAX + 1] = [0; VALUE_MAX + 1];

    fn read<'a, T: Item<'a>>(bytes: &'a [u8]) -> Option<Malformed> {
        T::read(&mut Reader(bytes)).err()
    }

    #[test]
    fn what_is_locked_has_a_version() {
        let mut bytes = Vec::new();
        Got { index: 0, read: VERSION, new: VERSION, value: None }.write(&mut bytes);
        assert_eq!(read::<Got<'_>>(&bytes), None);
        bytes.truncate(bytes.len() - version_bytes(VERSION));
        write_version(&mut bytes, Version::ZERO);
        assert_eq!(read::<Got<'_>>(&bytes), Some(Malformed::Field("version")));
    }

    #[test]
    fn no_value_is_longer_than_the_longest() {
        let (key, mut bytes) = (Key::new(0, 1), Vec::new());
        Got { index: 0, read: VERSION, new: Version::ZERO, value: Some(&LONG) }.write(&mut bytes);
        assert_eq!(read::<Got<'_>>(&bytes), Some(Malformed::Field("length")));
        bytes.clear();
        Put { key, version: VERSION, value: Some(&LONG) }.write(&mut bytes);
        assert_eq!(read::<Put<'_>>(&bytes), Some(Malformed::Field("length")));
    }

    #[test]
    fn what_must_be_whole_is_no_difference() {
        let (old, mut new, mut bytes) = ([1; 40], [1; 40], Vec::new());
        new[7] = 2;
        let put = Put { key: Key::new(0, 1), version: VERSION, value: Some(&new) };
        assert!(Replacement { put, read: Some((Version::ZERO, &old)) }.write_shorter(&mut bytes));
        assert_eq!(read::<Write<'_>>(&bytes), None);
        assert_eq!(read::<Put<'_>>(&bytes), Some(Malformed::Field("length")));
    }

    #[test]
    fn an_item_has_the_bytes_that_it_says() {
        for value in [None, Some(&LONG[..0]), Some(&LONG[..63]), Some(&LONG[..200])] {
            for new in [Version::ZERO, VERSION] {
                let mut bytes = Vec::new();
                let got = Got { index: 3, read: VERSION, new, value };
                got.write(&mut bytes);
                assert_eq!((bytes.len(), Got::read(&mut Reader(&bytes))), (got.bytes(), Ok(got)));
            }
            let mut bytes = Vec::new();
            let put = Put { key: Key::new(0, 1), version: VERSION, value };
            put.write(&mut bytes);
            assert_eq!((bytes.len(), Put::read(&mut Reader(&bytes))), (put.bytes(), Ok(put)));
        }
    }
}
