//! Reading and writing of records. Their layout is defined in [`super::layout`].

use super::layout::{HEAD, LINE, SLOT_BYTES_MAX, STAMP, value_bytes};

const STAMP_AT: usize = 16;
pub(crate) const BEFORE_AT: usize = 18;
pub(crate) const AFTER_AT: usize = 20;
const LENGTH_AT: usize = 22;

const IN_USE: u16 = 0x8000;
const IN_BLOCK: u16 = 0x4000;
const LENGTH: u16 = 0x07ff;

/// Host memory, which only one writer writes, line by line.
pub trait Lines {
    /// All bytes of the memory.
    fn bytes(&self) -> &[u8];
    /// Writes bytes within one line, atomically.
    fn write(&mut self, at: u64, bytes: &[u8]);
}

impl Lines for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// A decoded record without its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub key: u64,
    pub version: u64,
    pub stamp: u16,
    pub before: u16,
    pub after: u16,
    pub in_use: bool,
    pub in_block: bool,
    pub length: usize,
}

impl Head {
    pub fn parse(bytes: &[u8]) -> Self {
        let length = be16(bytes, LENGTH_AT);
        Self {
            key: be64(bytes, 0),
            version: be64(bytes, 8),
            stamp: be16(bytes, STAMP_AT),
            before: be16(bytes, BEFORE_AT),
            after: be16(bytes, AFTER_AT),
            in_use: length & IN_USE != 0,
            in_block: length & IN_BLOCK != 0,
            length: (length & LENGTH).into(),
        }
    }

    /// The key, if the record is in use. Most records are examined for their key only.
    pub fn key(bytes: &[u8]) -> Option<u64> {
        (be16(bytes, LENGTH_AT) & IN_USE != 0).then(|| be64(bytes, 0))
    }

    fn encode(&self, line: &mut [u8]) {
        let flags = if self.in_use { IN_USE } else { 0 } | if self.in_block { IN_BLOCK } else { 0 };
        line[..8].copy_from_slice(&self.key.to_be_bytes());
        line[8..16].copy_from_slice(&self.version.to_be_bytes());
        line[STAMP_AT..BEFORE_AT].copy_from_slice(&self.stamp.to_be_bytes());
        line[BEFORE_AT..AFTER_AT].copy_from_slice(&self.before.to_be_bytes());
        line[AFTER_AT..LENGTH_AT].copy_from_slice(&self.after.to_be_bytes());
        line[LENGTH_AT..HEAD].copy_from_slice(&(flags | self.length as u16).to_be_bytes());
    }
}

/// Whether all lines of the record have the stamp of the same write.
pub(crate) fn is_whole(record: &[u8]) -> bool {
    let stamp = &record[STAMP_AT..BEFORE_AT];
    record.chunks(LINE).skip(1).all(|line| &line[..STAMP] == stamp)
}

/// Copies the value of a record to the start of `value`.
pub(crate) fn copy_value(record: &[u8], length: usize, value: &mut [u8]) {
    assert!(length <= value_bytes(record.len()), "the value stands in the record");
    let mut copied = 0;
    for (i, line) in record.chunks(LINE).enumerate() {
        let part = &line[if i == 0 { HEAD } else { STAMP }..];
        let count = part.len().min(length - copied);
        value[copied..copied + count].copy_from_slice(&part[..count]);
        copied += count;
    }
    debug_assert_eq!(copied, length);
}

/// Writes all lines of a record of `bytes` bytes, each with the stamp of `head`.
pub(crate) fn write<L: Lines + ?Sized>(memory: &mut L, at: u64, bytes: usize, head: &Head, value: &[u8]) {
    assert!(value.len() <= value_bytes(bytes), "the value fits into the record");
    let mut rest = value;
    for offset in (0..bytes).step_by(LINE) {
        let mut line = [0; LINE];
        let line = &mut line[..LINE.min(bytes - offset)];
        let begin = if offset == 0 {
            head.encode(line);
            HEAD
        } else {
            line[..STAMP].copy_from_slice(&head.stamp.to_be_bytes());
            STAMP
        };
        let (part, later) = rest.split_at(rest.len().min(line.len() - begin));
        line[begin..begin + part.len()].copy_from_slice(part);
        rest = later;
        memory.write(at + offset as u64, line);
    }
}

/// Copies the content of the slot at `from` to the slot at `to`, with the stamps that the target gets.
pub(crate) fn copy<L: Lines + ?Sized>(memory: &mut L, from: u64, to: u64, bytes: usize, stamps: [u16; 3]) {
    let mut content = [0; SLOT_BYTES_MAX];
    let content = &mut content[..bytes];
    content.copy_from_slice(&memory.bytes()[from as usize..][..bytes]);
    let [stamp, before, after] = stamps;
    content[STAMP_AT..BEFORE_AT].copy_from_slice(&stamp.to_be_bytes());
    content[BEFORE_AT..AFTER_AT].copy_from_slice(&before.to_be_bytes());
    content[AFTER_AT..LENGTH_AT].copy_from_slice(&after.to_be_bytes());
    for (i, line) in content.chunks_mut(LINE).enumerate() {
        if i > 0 {
            line[..STAMP].copy_from_slice(&stamp.to_be_bytes());
        }
        memory.write(to + (i * LINE) as u64, line);
    }
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for (bytes, length) in [(32, 8), (64, 40), (128, 102), (320, 256), (1088, 1032), (128, 3), (64, 0)] {
            let mut memory = vec![0xaa; bytes];
            let value: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let head = Head {
                key: 7,
                version: 9,
                stamp: 3,
                before: 1,
                after: 2,
                in_use: true,
                in_block: false,
                length,
            };
            write(memory.as_mut_slice(), 0, bytes, &head, &value);
            assert_eq!(Head::parse(&memory), head);
            assert!(is_whole(&memory));
            let mut read = vec![0; length];
            copy_value(&memory, length, &mut read);
            assert_eq!(read, value);
        }
    }

    #[test]
    fn a_line_of_another_write_is_noticed() {
        let mut memory = vec![0; 192];
        let head = Head { stamp: 5, ..Head::default() };
        write(memory.as_mut_slice(), 0, 192, &head, &[]);
        memory[128 + 1] = 4;
        assert!(!is_whole(&memory));
    }
}
