//! Fields of messages: how numbers, identifiers and versions are encoded.
//!
//! Most fields are identifiers and versions, and most of their bits are zero. A *number* takes as many bytes
//! as it needs: seven bits in each, the lowest first, with the top bit set in all bytes but the last. Values
//! that grow as long as a cluster runs (sequences of attempts, numbers of versions) take five bytes from the
//! beginning, so messages do not become longer over the years. Epochs grow with failures only, so they are
//! encoded as numbers.

use weft_waist::Epoch;

use super::Malformed;
use crate::key::{Key, Version};
use crate::transaction::TransactionId;

/// Payload bits in a byte of a number.
const NUMBER_BITS: u32 = 7;
const CONTINUES: u8 = 1 << NUMBER_BITS;

/// Bytes of a count: a value that grows as long as a cluster runs.
const COUNT_BYTES: usize = 5;

/// The most bytes of an identifier. Its epoch has 24 bits, which take up to four bytes.
pub(crate) const ID_BYTES_MAX: usize = 4 + COUNT_BYTES;

/// The most bytes of a header.
pub(crate) const HEADER_BYTES_MAX: usize = 5 + 5 + COUNT_BYTES;

/// Appends a number of variable length.
pub(super) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= u64::from(CONTINUES) {
        out.push(number as u8 | CONTINUES);
        number >>= NUMBER_BITS;
    }
    out.push(number as u8);
}

/// Bytes of an encoded number.
pub(super) const fn number_bytes(number: u64) -> usize {
    (number | 1).ilog2() as usize / NUMBER_BITS as usize + 1
}

/// Appends a count of 40 bits.
pub(super) fn write_count(out: &mut Vec<u8>, count: u64) {
    assert!(count >> (8 * COUNT_BYTES) == 0, "a count has 40 bits");
    out.extend_from_slice(&count.to_be_bytes()[8 - COUNT_BYTES..]);
}

/// Appends an identifier.
pub fn write_id(out: &mut Vec<u8>, id: TransactionId) {
    let (epoch, count) = id.parts();
    write_number(out, epoch.0.into());
    write_count(out, count);
}

/// Appends a version.
pub(super) fn write_version(out: &mut Vec<u8>, version: Version) {
    write_number(out, version.epoch().0.into());
    write_count(out, version.number());
}

/// Bytes of an encoded version.
pub(super) const fn version_bytes(version: Version) -> usize {
    number_bytes(version.epoch().0 as u64) + COUNT_BYTES
}

/// Decodes fields from the start of a byte slice.
#[derive(Clone, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`Malformed::Length`] if there are fewer bytes. All other functions of the reader return the same
    /// error.
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

    /// A number of variable length.
    ///
    /// # Errors
    /// If the encoding is longer than necessary, or the number does not fit in 64 bits.
    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(NUMBER_BITS as usize) {
            let byte = self.u8()?;
            let bits = u64::from(byte & !CONTINUES);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            number |= bits << shift;
            if byte & CONTINUES == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Field("number"))
    }

    /// A number of variable length that fits in 32 bits.
    pub(super) fn short_number(&mut self) -> Result<u32, Malformed> {
        self.number()?.try_into().map_err(|_| Malformed::Field("number"))
    }

    /// A count of 40 bits.
    pub(super) fn count(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes[8 - COUNT_BYTES..].copy_from_slice(self.bytes(COUNT_BYTES)?);
        Ok(u64::from_be_bytes(bytes))
    }

    /// An identifier of an attempt.
    pub fn id(&mut self) -> Result<TransactionId, Malformed> {
        let (epoch, count) = (Epoch(self.short_number()?), self.count()?);
        TransactionId::from_parts(epoch, count).ok_or(Malformed::Field("identifier"))
    }

    /// A version.
    pub(super) fn version(&mut self) -> Result<Version, Malformed> {
        let (epoch, number) = (Epoch(self.short_number()?), self.count()?);
        Version::try_new(epoch, number).ok_or(Malformed::Field("version"))
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

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Fails if bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Length) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_waist::NodeId;

    use super::*;

    fn number(bytes: &[u8]) -> Result<u64, Malformed> {
        let mut reader = Reader(bytes);
        let number = reader.number()?;
        reader.finish()?;
        Ok(number)
    }

    #[test]
    fn a_number_takes_the_bytes_that_it_needs() {
        for (value, length) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, value);
            assert_eq!((bytes.len(), number_bytes(value)), (length, length), "{value}");
            assert_eq!(number(&bytes), Ok(value));
        }
    }

    #[test]
    fn a_number_is_written_in_one_way_only() {
        let wrong = Err(Malformed::Field("number"));
        assert_eq!(number(&[0x85, 0]), wrong, "5 in two bytes");
        assert_eq!(number(&[0xff; 10]), wrong, "more than 64 bits");
        assert_eq!(number(&[&[0xff; 9][..], &[2]].concat()), wrong, "65 bits");
        assert_eq!(number(&[0x85]), Err(Malformed::Length));
    }

    #[test]
    fn names_and_versions_are_as_short_in_an_old_cluster_as_in_a_new_one() {
        let node = NodeId::new(15).unwrap();
        for sequence in [1, (1 << 36) - 1] {
            let id = TransactionId::new(node, Epoch(127), sequence);
            let mut bytes = Vec::new();
            write_id(&mut bytes, id);
            assert_eq!((bytes.len(), Reader(&bytes).id()), (6, Ok(id)));
        }
        for count in [1, (1 << 40) - 1] {
            let version = Version::new(Epoch(127), count);
            let mut bytes = Vec::new();
            write_version(&mut bytes, version);
            assert_eq!((bytes.len(), Reader(&bytes).version()), (6, Ok(version)));
        }
    }

    #[test]
    fn what_is_no_identifier_or_version_is_refused() {
        let with_epoch = |epoch| {
            let mut bytes = Vec::new();
            write_number(&mut bytes, epoch);
            write_count(&mut bytes, 7);
            bytes
        };
        for (epoch, field) in [(0, "identifier"), (1 << 24, "identifier"), (1 << 32, "number")] {
            assert_eq!(Reader(&with_epoch(epoch)).id(), Err(Malformed::Field(field)), "{epoch}");
        }
        for (epoch, field) in [(1 << 24, "version"), (1 << 32, "number")] {
            assert_eq!(Reader(&with_epoch(epoch)).version(), Err(Malformed::Field(field)), "{epoch}");
        }
        let bytes = with_epoch(1);
        assert_eq!(Reader(&bytes[..5]).id(), Err(Malformed::Length));
        assert_eq!(Reader(&bytes[..5]).version(), Err(Malformed::Length));
    }

    proptest! {
        #[test]
        fn versions_and_identifiers_read_back(bits in any::<u64>()) {
            let (mut bytes, version) = (Vec::new(), Version::from_bits(bits));
            write_version(&mut bytes, version);
            prop_assert_eq!(bytes.len(), version_bytes(version));
            prop_assert_eq!(Reader(&bytes).version(), Ok(version));
            if let Some(id) = TransactionId::from_bits(bits) {
                bytes.clear();
                write_id(&mut bytes, id);
                prop_assert!(bytes.len() <= ID_BYTES_MAX);
                prop_assert_eq!(Reader(&bytes).id(), Ok(id));
            }
        }
    }
}
