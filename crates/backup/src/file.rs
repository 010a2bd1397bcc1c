//! Writing and reading of backup files.

use std::io::{self, ErrorKind, Read, Write};

use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

use crate::totals::Totals;

/// Number of streams whose lengths a file has: one for each possible node.
pub const STREAMS: usize = 16;

const NAME: [u8; 7] = *b"WEFTBAK";
const VERSION: u8 = b'1';
const BLOCK_HEADER: usize = 24;
const CHECKSUM: std::ops::Range<usize> = 8..BLOCK_HEADER;
const HEAD_BYTES: usize = 16 + 8 * STREAMS;
const END_BYTES: usize = 32;
/// A block of records is written when it has as many bytes.
const BLOCK_BYTES: usize = 256 << 10;
/// The longest content of a block that is read: one more record fits behind [`BLOCK_BYTES`].
const CONTENT_MAX: usize = 512 << 10;
/// The longest key.
const KEY_BYTES_MAX: u32 = 1 << 10;
/// The longest text in a head.
const TEXT_BYTES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Head = 1,
    Records = 2,
    End = 3,
}

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it was begun, as text of at most 64 bytes.
    pub taken_at: String,
    /// Name of the cluster, at most 64 bytes.
    pub cluster: String,
    /// Bytes of every key in the file.
    pub key_bytes: u32,
    /// The epoch of the cluster.
    pub epoch: u32,
    /// How many writes of each leader in that epoch are in the backup.
    pub lengths: [u64; STREAMS],
    /// The node from which it was read.
    pub node: u8,
    /// It was made from what was left of a cluster's disks, and may lack acknowledged writes.
    pub is_recovered: bool,
}

/// Why a file is no whole backup.
#[derive(Debug, Error)]
pub enum BackupError {
    /// It cannot be read.
    #[error("cannot be read ({0})")]
    Io(#[from] io::Error),
    /// It is another kind of file.
    #[error("is no backup; give the file that `weft backup --to` wrote")]
    NotABackup,
    /// It has another version of the format.
    #[error("was written by another version of Weft; read it with that version")]
    Version,
    /// It ends too early.
    #[error("is cut off after {at} bytes; take another copy of it")]
    Truncated {
        /// Where the block begins that is not there.
        at: u64,
    },
    /// Some bytes have changed.
    #[error("is damaged in the block at byte {at}; take another copy of it")]
    Damaged {
        /// Where the damaged block begins.
        at: u64,
    },
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 2 * (1 + TEXT_BYTES_MAX));
        bytes.extend_from_slice(&self.key_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.epoch.to_le_bytes());
        bytes.extend_from_slice(&[self.node, self.is_recovered.into(), 0, 0, 0, 0, 0, 0]);
        self.lengths.iter().for_each(|length| bytes.extend_from_slice(&length.to_le_bytes()));
        for text in [&self.taken_at, &self.cluster] {
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (fixed, texts) = bytes.split_at_checked(HEAD_BYTES)?;
        let (taken_at, rest) = text(texts)?;
        let (cluster, _) = text(rest)?;
        let head = Self {
            taken_at,
            cluster,
            key_bytes: word(fixed, 0)?,
            epoch: word(fixed, 4)?,
            lengths: std::array::from_fn(|place| long(fixed, 16 + 8 * place).unwrap_or(0)),
            node: fixed[8],
            is_recovered: fixed[9] != 0,
        };
        (head.is_valid() && head.encode() == bytes).then_some(head)
    }

    fn is_valid(&self) -> bool {
        let is_text = |text: &str| text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control);
        is_text(&self.taken_at) && is_text(&self.cluster) && (1..=KEY_BYTES_MAX).contains(&self.key_bytes)
    }
}

/// The text with which `bytes` begin, and what follows it.
fn text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

impl Totals {
    fn encode(&self) -> [u8; END_BYTES] {
        let mut bytes = [0; END_BYTES];
        bytes[..8].copy_from_slice(&self.keys.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.longest_key.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.longest_value.to_le_bytes());
        bytes[24..].copy_from_slice(&self.digest.to_le_bytes());
        bytes
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn checksum(parent: &[u8; 16], header: &[u8], content: &[u8]) -> [u8; 16] {
    let mut hasher = Xxh3::new();
    hasher.update(parent);
    hasher.update(&header[..CHECKSUM.start]);
    hasher.update(content);
    hasher.digest128().to_le_bytes()
}

/// Writes a backup.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    key_bytes: usize,
    parent: [u8; 16],
    records: Vec<u8>,
    totals: Totals,
}

impl<W: Write> Writer<W> {
    /// Begins a backup.
    ///
    /// # Errors
    /// It cannot be written.
    ///
    /// # Panics
    /// If a text of the head is too long or has control characters, or keys are too long.
    pub fn new(out: W, head: &Head) -> io::Result<Self> {
        assert!(head.is_valid(), "the head can be read again");
        let mut writer = Self {
            out,
            key_bytes: head.key_bytes as usize,
            parent: [0; 16],
            records: Vec::with_capacity(CONTENT_MAX),
            totals: Totals::default(),
        };
        writer.out.write_all(&NAME)?;
        writer.out.write_all(&[VERSION])?;
        writer.write_block(Kind::Head, &head.encode())?;
        Ok(writer)
    }

    fn write_block(&mut self, kind: Kind, content: &[u8]) -> io::Result<()> {
        let mut header = [0; BLOCK_HEADER];
        header[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(content.len() as u32).to_le_bytes());
        self.parent = checksum(&self.parent, &header, content);
        header[CHECKSUM].copy_from_slice(&self.parent);
        self.out.write_all(&header)?;
        self.out.write_all(content)
    }

    /// Adds a key and its value.
    ///
    /// # Errors
    /// It cannot be written.
    ///
    /// # Panics
    /// If the key does not have the length that the head gives, or the value is longer than 65,535 bytes.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key_bytes, "keys have one length");
        let length = u16::try_from(value.len()).expect("a value's length has two bytes");
        self.records.extend_from_slice(&length.to_le_bytes());
        self.records.extend_from_slice(key);
        self.records.extend_from_slice(value);
        self.totals.add(key, value);
        if self.records.len() >= BLOCK_BYTES { self.write_records() } else { Ok(()) }
    }

    fn write_records(&mut self) -> io::Result<()> {
        let records = std::mem::take(&mut self.records);
        self.write_block(Kind::Records, &records)?;
        self.records = records;
        self.records.clear();
        Ok(())
    }

    /// Numbers about what was added so far.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Ends the backup.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<(W, Totals)> {
        if !self.records.is_empty() {
            self.write_records()?;
        }
        let end = self.totals.encode();
        self.write_block(Kind::End, &end)?;
        self.out.flush()?;
        Ok((self.out, self.totals))
    }
}

/// Reads a backup.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    head: Head,
    parent: [u8; 16],
    /// Bytes read so far.
    at: u64,
    content: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Begins to read a backup.
    ///
    /// # Errors
    /// It is no backup, or its head is damaged.
    pub fn open(mut input: R) -> Result<Self, BackupError> {
        let mut name = [0; 8];
        match input.read_exact(&mut name) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(BackupError::NotABackup),
            read => read?,
        }
        if name[..7] != NAME {
            return Err(BackupError::NotABackup);
        }
        if name[7] != VERSION {
            return Err(BackupError::Version);
        }
        let head = Head {
            taken_at: String::new(),
            cluster: String::new(),
            key_bytes: 1,
            epoch: 0,
            lengths: [0; STREAMS],
            node: 0,
            is_recovered: false,
        };
        let mut reader = Self { input, head, parent: [0; 16], at: 8, content: Vec::new() };
        let at = reader.at;
        let kind = reader.read_block()?;
        let head = Head::parse(&reader.content).filter(|_| kind == Kind::Head);
        reader.head = head.ok_or(BackupError::Damaged { at })?;
        Ok(reader)
    }

    /// What the backup is of.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Reads the next block into `content`.
    fn read_block(&mut self) -> Result<Kind, BackupError> {
        let at = self.at;
        let truncated = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => BackupError::Truncated { at },
            _ => BackupError::Io(error),
        };
        let mut header = [0; BLOCK_HEADER];
        self.input.read_exact(&mut header).map_err(truncated)?;
        let kind = match word(&header, 0) {
            Some(1) => Kind::Head,
            Some(2) => Kind::Records,
            Some(3) => Kind::End,
            _ => return Err(BackupError::Damaged { at }),
        };
        let length = word(&header, 4).unwrap_or(0) as usize;
        if length > CONTENT_MAX {
            return Err(BackupError::Damaged { at });
        }
        self.content.resize(length, 0);
        self.input.read_exact(&mut self.content).map_err(truncated)?;
        let found = checksum(&self.parent, &header, &self.content);
        if found != header[CHECKSUM] {
            return Err(BackupError::Damaged { at });
        }
        self.parent = found;
        self.at += (BLOCK_HEADER + length) as u64;
        Ok(kind)
    }

    /// Calls `visit` with each key and its value, and returns the totals. Nothing is known to be whole before this has
    /// returned: read a file once to check it, and then once more to use it.
    ///
    /// # Errors
    /// The file is damaged or cut off, or `visit` has failed.
    pub fn for_each<E: From<BackupError>>(
        mut self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<Totals, E> {
        let mut totals = Totals::default();
        let key_bytes = self.head.key_bytes as usize;
        loop {
            let damaged = BackupError::Damaged { at: self.at };
            match self.read_block()? {
                Kind::Head => return Err(damaged.into()),
                Kind::Records => {
                    let mut rest = &self.content[..];
                    while !rest.is_empty() {
                        let Some((key, value, behind)) = record(rest, key_bytes) else {
                            return Err(damaged.into());
                        };
                        totals.add(key, value);
                        visit(key, value)?;
                        rest = behind;
                    }
                }
                Kind::End => {
                    let mut byte = [0];
                    let has_more = self.input.read(&mut byte).map_err(BackupError::Io)? > 0;
                    if self.content != totals.encode() || has_more {
                        return Err(damaged.into());
                    }
                    return Ok(totals);
                }
            }
        }
    }
}

/// The first record of `bytes`: its key, its value, and what follows it.
fn record(bytes: &[u8], key_bytes: usize) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(key_bytes)?;
    let (value, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    Some((key, value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head() -> Head {
        Head {
            taken_at: "2026-11-24T02:08:32.123Z".into(),
            cluster: "orders".into(),
            key_bytes: 4,
            epoch: 3,
            lengths: std::array::from_fn(|place| place as u64),
            node: 2,
            is_recovered: false,
        }
    }

    type Records = Vec<([u8; 4], Vec<u8>)>;

    fn backup(records: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &head()).unwrap();
        records.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        writer.finish().unwrap().0
    }

    fn read(bytes: &[u8]) -> Result<(Head, Records), BackupError> {
        let reader = Reader::open(bytes)?;
        let (head, mut records) = (reader.head().clone(), Vec::new());
        reader.for_each(|key, value| {
            records.push((key.try_into().unwrap(), value.to_vec()));
            Ok::<_, BackupError>(())
        })?;
        Ok((head, records))
    }

    fn records(most: usize) -> impl Strategy<Value = Records> {
        prop::collection::vec((any::<[u8; 4]>(), prop::collection::vec(any::<u8>(), 0..50)), 0..most)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(records in records(50)) {
            let (found, read) = read(&backup(&records)).unwrap();
            prop_assert_eq!((found, read), (head(), records));
        }

        #[test]
        fn every_change_is_noticed(records in records(10), place: prop::sample::Index, bit in 0u8..8) {
            let mut bytes = backup(&records);
            let place = place.index(bytes.len());
            prop_assert!(read(&bytes[..place]).is_err());
            bytes[place] ^= 1 << bit;
            prop_assert!(read(&bytes).is_err());
        }
    }

    #[test]
    fn a_long_backup_has_several_blocks() {
        let value = vec![7; 60_000];
        let records: Vec<_> = (0..20u32).map(|key| (key.to_le_bytes(), value.clone())).collect();
        let bytes = backup(&records);
        assert_eq!(read(&bytes).unwrap().1, records);
        // A block that is left out is noticed, although the others are whole.
        let length = |at: usize| BLOCK_HEADER + word(&bytes, at + 4).unwrap() as usize;
        let first = 8 + length(8);
        let without = [&bytes[..first], &bytes[first + length(first)..]].concat();
        assert!(matches!(read(&without), Err(BackupError::Damaged { at }) if at == first as u64));
    }

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let bytes = backup(&[([1; 4], vec![2; 100])]);
        let says = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(says(b"key,value"), "is no backup; give the file that `weft backup --to` wrote");
        assert_eq!(says(b"key"), "is no backup; give the file that `weft backup --to` wrote");
        let other = [b"WEFTBAK2", &bytes[8..]].concat();
        assert_eq!(says(&other), "was written by another version of Weft; read it with that version");
        let cut = says(&bytes[..bytes.len() - 1]);
        assert!(cut.starts_with("is cut off after ") && cut.ends_with("take another copy of it"), "{cut}");
        let longer = [&bytes[..], &[0]].concat();
        assert!(says(&longer).starts_with("is damaged in the block at byte "));
    }
}
