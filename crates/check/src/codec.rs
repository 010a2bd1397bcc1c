//! Histories as bytes.
//!
//! All integers are little-endian. A file is: the 8 bytes `weft-his`; the format's number (u32, 1); the
//! number of keys (u32) and of operations (u32); each key as its length (u8) and its bytes; each operation
//! in 58 bytes (invoked and returned time, value and version of the action, value and version of the
//! outcome, each u64; key number and client, each u32; the tags of action and outcome, each u8); and the
//! CRC-32 (u32) of all that precedes it.

use std::io::{self, Write};
use std::path::Path;

use thiserror::Error;

use crate::history::{History, MAX_KEY_BYTES, Record, RecordError};
use crate::operation::{Operation, Reply};

const MAGIC: [u8; 8] = *b"weft-his";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 20;
const OPERATION_BYTES: usize = 58;
const CHECKSUM_BYTES: usize = 4;

/// Why bytes are no valid history.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The file could not be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// The bytes do not begin with the magic bytes of a history.
    #[error("not a history: it does not begin with \"weft-his\"")]
    NotAHistory,
    /// The history has a format that this program does not know.
    #[error("a history in format {found}; this version reads format {FORMAT}")]
    UnknownFormat {
        /// Format number in the file.
        found: u32,
    },
    /// The end of the history is missing.
    #[error("a truncated history: {found} bytes where at least {expected} were announced")]
    Truncated {
        /// Bytes that the part read so far requires.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// There are bytes after the end.
    #[error("{bytes} bytes after the end of the history")]
    TrailingBytes {
        /// Number of bytes after the end.
        bytes: u64,
    },
    /// The checksum is wrong.
    #[error("a damaged history: its checksum is wrong")]
    Damaged,
    /// The checksum is correct, but an entry is invalid.
    #[error("entry {entry} of the history makes no sense: {reason}")]
    Invalid {
        /// Number of the key or operation, counted from 0.
        entry: u64,
        /// Why the entry is invalid.
        reason: InvalidEntry,
    },
}

/// Why an entry of a history is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidEntry {
    /// A key longer than [`MAX_KEY_BYTES`], or one that occurs twice.
    #[error("its key is too long or not unique")]
    Key,
    /// A key number that is not less than the number of keys.
    #[error("it names a key that does not exist")]
    KeyNumber,
    /// An unknown tag.
    #[error("its action or outcome is unknown")]
    Tag,
    /// An operation that a history cannot record.
    #[error(transparent)]
    Operation(#[from] RecordError),
}

impl History {
    /// Encodes the history.
    pub fn encode(&self) -> Vec<u8> {
        let keys: usize = self.keys().iter().map(|key| key.len() + 1).sum();
        let operations = self.len() * OPERATION_BYTES;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + keys + operations + CHECKSUM_BYTES);
        bytes.extend(MAGIC);
        for number in [FORMAT, self.key_count() as u32, self.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        for key in self.keys() {
            bytes.push(key.len() as u8);
            bytes.extend_from_slice(key);
        }
        for record in self.records() {
            let &Record {
                invoked,
                returned,
                action_value,
                action_version,
                outcome_value,
                outcome_version,
                ..
            } = record;
            for number in [invoked, returned, action_value, action_version, outcome_value, outcome_version] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(record.key.to_le_bytes());
            bytes.extend(record.client.to_le_bytes());
            bytes.extend([record.action, record.outcome]);
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Decodes a history.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let begins = bytes.iter().zip(MAGIC).all(|(&found, expected)| found == expected);
        if !begins {
            return Err(DecodeError::NotAHistory);
        }
        let mut reader = Reader { bytes, at: MAGIC.len() };
        let format = reader.u32()?;
        if format != FORMAT {
            return Err(DecodeError::UnknownFormat { found: format });
        }
        let (key_count, operation_count) = (reader.u32()? as usize, reader.u32()? as usize);
        // At least this many bytes must follow; checked before memory is allocated for them.
        reader.demand(key_count + operation_count * OPERATION_BYTES + CHECKSUM_BYTES)?;
        let mut keys = Vec::with_capacity(key_count);
        for _ in 0..key_count {
            let length = reader.take::<1>()?[0] as usize;
            keys.push(reader.slice(length)?);
        }
        reader.demand(operation_count * OPERATION_BYTES + CHECKSUM_BYTES)?;
        let end = reader.at + operation_count * OPERATION_BYTES;
        if let Some(trailing) = bytes.len().checked_sub(end + CHECKSUM_BYTES).filter(|&trailing| trailing > 0)
        {
            return Err(DecodeError::TrailingBytes { bytes: trailing as u64 });
        }
        if crc32fast::hash(&bytes[..end]).to_le_bytes() != bytes[end..] {
            return Err(DecodeError::Damaged);
        }
        Self::rebuild(&keys, operation_count, &mut reader)
    }

    fn rebuild(keys: &[&[u8]], operation_count: usize, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut history = Self::with_capacity(operation_count);
        for (entry, &key) in keys.iter().enumerate() {
            if key.len() > MAX_KEY_BYTES || history.intern(key) != entry as u32 {
                return Err(DecodeError::Invalid { entry: entry as u64, reason: InvalidEntry::Key });
            }
        }
        for entry in 0..operation_count as u64 {
            let record = reader.record()?;
            let invalid = |reason| DecodeError::Invalid { entry, reason };
            let key = keys.get(record.key as usize).ok_or(invalid(InvalidEntry::KeyNumber))?;
            let action = record.action().ok_or(invalid(InvalidEntry::Tag))?;
            let outcome = record.outcome().ok_or(invalid(InvalidEntry::Tag))?;
            let reply = outcome.map(|outcome| Reply { returned_ns: record.returned, outcome });
            let operation =
                Operation { client: record.client, key, invoked_ns: record.invoked, action, reply };
            history.record(operation).map_err(|error| invalid(error.into()))?;
        }
        Ok(history)
    }

    /// Writes the history to `path`. On an error the file keeps its former content.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let write = || -> io::Result<()> {
            let mut file = std::fs::File::create(&partial)?;
            file.write_all(&self.encode())?;
            drop(file);
            std::fs::rename(&partial, path)
        };
        write().inspect_err(|_| {
            // The first error is returned, whether or not the partial file could be removed.
            let _ = std::fs::remove_file(&partial);
        })
    }

    /// Reads the history in the file at `path`.
    pub fn load(path: &Path) -> Result<Self, DecodeError> {
        Self::decode(&std::fs::read(path)?)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn demand(&self, more: usize) -> Result<(), DecodeError> {
        let (expected, found) = (self.at + more, self.bytes.len());
        if expected > found {
            return Err(DecodeError::Truncated { expected: expected as u64, found: found as u64 });
        }
        Ok(())
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        self.demand(length)?;
        let slice = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(slice)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.slice(N)?.try_into().expect("the slice has this length"))
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn record(&mut self) -> Result<Record, DecodeError> {
        Ok(Record {
            invoked: self.u64()?,
            returned: self.u64()?,
            action_value: self.u64()?,
            action_version: self.u64()?,
            outcome_value: self.u64()?,
            outcome_version: self.u64()?,
            key: self.u32()?,
            client: self.u32()?,
            action: self.take::<1>()?[0],
            outcome: self.take::<1>()?[0],
        })
    }
}
