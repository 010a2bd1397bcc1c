//! A file with all that transaction attempts have read and written at a node, and with the final content of its
//! tables: for a checker.
//!
//! ```text
//! life      'L'                                                    a process starts
//! attempt   'T' identifier(8)  reads(1) { item }  writes(1) { item }
//! object    'O' item                                               final content of the tables, when the node stops
//! item      key(8) version(8) length(2) value                      length 0xffff: the key is absent
//! ```
//!
//! All integers are big-endian. The reads and writes of an attempt are in the file before any message about it is
//! sent. So if a client or node has received such a message, the record exists, even if the process was killed. A
//! killed process may leave an incomplete record, which the next process cuts off.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weft_txn::message::{Malformed, Reader};
use weft_txn::{Key, Recorded, TransactionId, Version};

const LIFE: u8 = b'L';
const ATTEMPT: u8 = b'T';
const OBJECT: u8 = b'O';
const ABSENT: u16 = u16::MAX;

/// The objects of a node: key, version, value.
pub type Objects = Vec<(Key, Version, Vec<u8>)>;

/// The content of a record file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The attempts of all processes that have written to the file.
    pub attempts: Vec<Recorded>,
    /// The content of the last process's tables when it stopped. `None` if it was killed.
    pub objects: Option<Objects>,
}

impl Record {
    /// Parses a record file; returns the records and the number of bytes that they take. A killed process may
    /// leave an incomplete record behind them.
    ///
    /// # Errors
    /// If the bytes are no record file.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut record = Self::default();
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            let whole = bytes.len() - reader.0.len();
            match record.take(&mut reader, whole == 0) {
                Ok(()) => {}
                Err(Malformed::Length) => return Ok((record, whole)),
                Err(error) => return Err(error),
            }
        }
        Ok((record, bytes.len()))
    }

    /// Parses the next record. The first record must mark the start of a process.
    fn take(&mut self, reader: &mut Reader<'_>, is_first: bool) -> Result<(), Malformed> {
        match reader.u8()? {
            LIFE => self.objects = None,
            _ if is_first => return Err(Malformed::Field("beginning")),
            ATTEMPT => {
                let id = TransactionId::from_bits(reader.u64()?).ok_or(Malformed::Field("identifier"))?;
                let (reads, writes) = (read_items(reader)?, read_items(reader)?);
                self.attempts.push(Recorded { id, reads, writes });
            }
            OBJECT => {
                let (key, version, value) = read_item(reader)?;
                let value = value.ok_or(Malformed::Field("object"))?;
                self.objects.get_or_insert_default().push((key, version, value));
            }
            _ => return Err(Malformed::Kind),
        }
        Ok(())
    }
}

/// Reads a file of records.
///
/// # Errors
/// The file cannot be read, or is no record file. An incomplete record at the end, left by a killed process, is no
/// error.
pub fn read_record(path: &Path) -> io::Result<Record> {
    Ok(read_whole(path)?.0)
}

fn read_whole(path: &Path) -> io::Result<(Record, usize)> {
    Record::parse(&std::fs::read(path)?).map_err(|error| {
        let says = format!(
            "it holds something else than records of transactions ({error}); name another file, or remove it"
        );
        io::Error::new(io::ErrorKind::InvalidData, says)
    })
}

type Item = (Key, Version, Option<Vec<u8>>);

fn read_items(reader: &mut Reader<'_>) -> Result<Vec<Item>, Malformed> {
    let count = reader.u8()?;
    (0..count).map(|_| read_item(reader)).collect()
}

fn read_item(reader: &mut Reader<'_>) -> Result<Item, Malformed> {
    let key = reader.key()?;
    let version = Version::from_bits(reader.u64()?);
    let value = match reader.u16()? {
        ABSENT => None,
        length => Some(reader.bytes(length.into())?.to_vec()),
    };
    Ok((key, version, value))
}

/// The record file that a node writes.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
}

impl RecordFile {
    /// Opens the file to append to the records of earlier processes of the node. A file of another kind is left
    /// unchanged.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let (_, whole) = read_whole(path)?;
        file.set_len(whole as u64)?;
        file.write_all(&[LIFE])?;
        Ok(Self { path: path.to_owned(), file, bytes: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn attempt(&mut self, recorded: &Recorded) {
        self.bytes.push(ATTEMPT);
        self.bytes.extend_from_slice(&recorded.id.bits().to_be_bytes());
        for items in [&recorded.reads, &recorded.writes] {
            self.bytes.push(u8::try_from(items.len()).expect("a transaction has at most 64 keys"));
            items.iter().for_each(|(key, version, value)| {
                write_item(&mut self.bytes, *key, *version, value.as_deref());
            });
        }
    }

    pub(crate) fn object(&mut self, key: Key, version: Version, value: &[u8]) {
        self.bytes.push(OBJECT);
        write_item(&mut self.bytes, key, version, Some(value));
    }

    /// Writes the buffered records to the operating system, which keeps them even if this process ends.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.file.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }
}

fn write_item(out: &mut Vec<u8>, key: Key, version: Version, value: Option<&[u8]>) {
    out.extend_from_slice(&key.bits().to_be_bytes());
    out.extend_from_slice(&version.bits().to_be_bytes());
    let length = value.map_or(ABSENT, |value| value.len() as u16);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use weft_txn::TransactionId;
    use weft_waist::{Epoch, NodeId};

    use super::*;

    #[test]
    fn a_file_goes_on_behind_the_last_whole_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let recorded = |sequence| Recorded {
            id: TransactionId::new(NodeId::new(1).unwrap(), Epoch(2), sequence),
            reads: vec![(Key::new(0, 1), Version::new(Epoch(1), 4), Some(vec![1, 2]))],
            writes: vec![(Key::new(0, 1), Version::new(Epoch(2), 5), None)],
        };
        let mut file = RecordFile::open(&path).unwrap();
        file.attempt(&recorded(1));
        file.object(Key::new(0, 1), Version::ZERO, b"old");
        file.attempt(&recorded(2));
        file.flush().unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 3).unwrap();
        let record = read_record(&path).unwrap();
        assert_eq!(record.attempts, [recorded(1)]);
        let mut file = RecordFile::open(&path).unwrap();
        file.attempt(&recorded(3));
        file.flush().unwrap();
        let record = read_record(&path).unwrap();
        assert_eq!(record.attempts, [recorded(1), recorded(3)]);
        assert_eq!(record.objects, None, "what a former process held is gone");
        file.object(Key::new(0, 1), Version::ZERO, b"new");
        file.flush().unwrap();
        let expected = vec![(Key::new(0, 1), Version::ZERO, b"new".to_vec())];
        assert_eq!(read_record(&path).unwrap().objects, Some(expected));
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        let object = [&[LIFE, OBJECT][..], &[0; 16], &ABSENT.to_be_bytes()].concat();
        let foreign_key = [&[LIFE, OBJECT][..], &[0xff; 16], &[0, 0]].concat();
        for bytes in [&b"to do: nothing"[..], b"LTD", b"T", &object, &foreign_key].map(<[u8]>::to_vec) {
            let is_record = Record::parse(&bytes).is_ok();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(is_record, bytes == b"LTD", "a piece of a record may be one: {bytes:?}");
            assert_eq!(RecordFile::open(&path).is_ok(), is_record);
            if !is_record {
                assert!(read_record(&path).unwrap_err().to_string().contains("something else"));
                assert_eq!(std::fs::read(&path).unwrap(), bytes);
            }
        }
    }
}
