//! The frame: header and checksum of everything that is stored on the disk.
//!
//! ```text
//!    0  magic          8     48  first      8, a batch: its first record; a chunk: its snapshot
//!    8  kind           8     56  records    4
//!   16  identity      16     60  length     4, of the payload
//!   32  number         8     64  parent    16, checksum of the frame before
//!   40  at             8     80  checksum  16, over bytes 0 to 79 and the payload
//! ```
//!
//! Integers are little-endian. The payload follows; a frame is padded with zeros to whole sectors.

use xxhash_rust::xxh3::Xxh3;

use crate::disk::SECTOR;

/// Bytes before the payload.
pub(crate) const HEADER: usize = 96;
const CHECKED: usize = 80;
/// The first bytes of a frame in every version of the format. The version follows, one byte.
const NAME: [u8; 7] = *b"WEFTSTO";
/// Version of the format.
pub(crate) const VERSION: u8 = b'3';
const MAGIC: u64 = {
    let [a, b, c, d, e, f, g] = NAME;
    u64::from_le_bytes([a, b, c, d, e, f, g, VERSION])
};

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Superblock = 1,
    Batch = 2,
    Chunk = 3,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) identity: u128,
    pub(crate) number: u64,
    /// Position of the frame: for a batch its position in the log, which grows without bound; otherwise its
    /// position on the disk.
    pub(crate) at: u64,
    pub(crate) first: u64,
    pub(crate) records: u32,
    pub(crate) length: u32,
    pub(crate) parent: u128,
}

/// Number of sectors of a frame with a payload of this length.
pub(crate) const fn sectors_of(payload: usize) -> usize {
    (HEADER + payload).div_ceil(SECTOR)
}

/// The version of the format in which a frame was written; `None` if the bytes are no frame.
pub(crate) fn version(sectors: &[u8]) -> Option<u8> {
    sectors.strip_prefix(&NAME)?.first().copied()
}

impl Frame {
    /// Writes the header before the payload, which is already in `sectors`, and returns the checksum.
    pub(crate) fn seal(&self, sectors: &mut [u8]) -> u128 {
        let mut put = |at: usize, bytes: &[u8]| sectors[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(8, &(self.kind as u64).to_le_bytes());
        put(16, &self.identity.to_le_bytes());
        put(32, &self.number.to_le_bytes());
        put(40, &self.at.to_le_bytes());
        put(48, &self.first.to_le_bytes());
        put(56, &self.records.to_le_bytes());
        put(60, &self.length.to_le_bytes());
        put(64, &self.parent.to_le_bytes());
        let checksum = checksum(sectors, self.length as usize);
        sectors[CHECKED..HEADER].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// Parses a header. The payload may extend beyond `sectors`.
    pub(crate) fn parse(sectors: &[u8]) -> Option<Self> {
        let kind = match long(sectors, 8)? {
            1 => Kind::Superblock,
            2 => Kind::Batch,
            3 => Kind::Chunk,
            _ => return None,
        };
        (long(sectors, 0)? == MAGIC).then_some(Self {
            kind,
            identity: wide(sectors, 16)?,
            number: long(sectors, 32)?,
            at: long(sectors, 40)?,
            first: long(sectors, 48)?,
            records: word(sectors, 56)?,
            length: word(sectors, 60)?,
            parent: wide(sectors, 64)?,
        })
    }

    /// The payload and the checksum, if the checksum is correct.
    pub(crate) fn check<'a>(&self, sectors: &'a [u8]) -> Option<(&'a [u8], u128)> {
        let payload = sectors.get(HEADER..HEADER.checked_add(self.length as usize)?)?;
        let found = wide(sectors, CHECKED)?;
        (found == checksum(sectors, payload.len())).then_some((payload, found))
    }
}

fn checksum(sectors: &[u8], payload: usize) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&sectors[..CHECKED]);
    hasher.update(&sectors[HEADER..HEADER + payload]);
    hasher.digest128()
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

pub(crate) fn wide(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.get(at..at + 16)?.try_into().ok()?))
}
