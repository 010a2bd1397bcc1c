//! Pages of a shard, by which a rejoining node copies the shard's objects.
//!
//! A reader visits the table's segments in order, and in each segment the keys in order. An object never
//! leaves its segment, however the table moves it. So a reader that fetches page after page misses no object
//! that exists all the time. Objects that are inserted meanwhile are in the log of the reader's node.

use std::collections::BTreeMap;

use crate::key::{Key, Version};
use crate::message::{Cursor, Item, Put};
use crate::procedure::VALUE_MAX;
use crate::store::Table;

/// The most segments that are searched for one page.
const SEGMENTS: u32 = 256;

/// Encodes a page into a message.
pub(crate) struct PageWriter<'a> {
    out: &'a mut Vec<u8>,
    shard: usize,
    from: Cursor,
    /// Offset of the page's head in the message. The shard and `from` precede it.
    at: usize,
    /// The maximum length of the message.
    end: usize,
    count: u8,
}

impl<'a> PageWriter<'a> {
    /// A page of at most `bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, shard: usize, from: Cursor, bytes: usize) -> Self {
        let end = out.len() + bytes;
        out.push(shard as u8);
        from.write(out);
        let at = out.len();
        Cursor::END.write(out);
        out.push(0);
        Self { out, shard, from, at, end, count: 0 }
    }

    /// Adds an object, and returns whether the page had room for it.
    fn add(&mut self, put: &Put<'_>) -> bool {
        if self.count == u8::MAX || self.out.len() + put.bytes() > self.end {
            return false;
        }
        put.write(self.out);
        self.count += 1;
        true
    }

    fn finish(self, next: Cursor) -> (u64, Cursor) {
        let head = &mut self.out[self.at..];
        head[..4].copy_from_slice(&next.segment.to_be_bytes());
        head[4..Cursor::BYTES].copy_from_slice(&next.key.to_be_bytes());
        head[Cursor::BYTES] = self.count;
        (self.count.into(), next)
    }

    /// Fills the page from objects in the order of their keys. The table has no segments, so only a cursor in
    /// segment 0 finds objects.
    pub fn fill<'o>(mut self, objects: impl Iterator<Item = (Key, Version, &'o [u8])>) {
        let is_behind = self.from.segment > 0;
        for (key, version, value) in objects.take_while(|_| !is_behind) {
            if !self.add(&Put { key, version, value: Some(value) }) {
                self.finish(Cursor { segment: 0, key: key.bits() });
                return;
            }
        }
        self.finish(Cursor::END);
    }

    /// Fills the page from a table. Returns the number of objects in the page, and where the next page begins.
    pub fn fill_from(mut self, table: &Table, bytes: &[u8]) -> (u64, Cursor) {
        let mut value = [0; VALUE_MAX];
        let segments = table.layout().segments();
        let last = self.from.segment.saturating_add(SEGMENTS).min(segments);
        for segment in self.from.segment..last {
            for key in table.keys(bytes, segment) {
                let passed = segment == self.from.segment && key.bits() < self.from.key;
                if key.shard() != self.shard || passed {
                    continue;
                }
                let (version, length) = table.get(bytes, key, &mut value).expect("it stands there");
                if !self.add(&Put { key, version, value: Some(&value[..length]) }) {
                    return self.finish(Cursor { segment, key: key.bits() });
                }
            }
        }
        self.finish(if last == segments { Cursor::END } else { Cursor { segment: last, key: 0 } })
    }
}

/// Merges pages and log records that arrive in any order: the newest version of each object wins. A deletion
/// leaves nothing in the table, so the versions of deletions are kept here until all pages have arrived.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    deleted: BTreeMap<Key, Version>,
}

impl Merge {
    /// Whether a write is newer than the present record or deletion, so that it must be applied.
    pub fn is_newer(&mut self, table: &Table, bytes: &[u8], put: &Put<'_>) -> bool {
        let mut value = [0; VALUE_MAX];
        let present = table.get(bytes, put.key, &mut value).map(|(version, _)| version);
        let there = present.max(self.deleted.get(&put.key).copied());
        if there.is_some_and(|there| there >= put.version) {
            return false;
        }
        match put.value {
            Some(_) => self.deleted.remove(&put.key),
            None => self.deleted.insert(put.key, put.version),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{List, Page, Reader};
    use crate::store::{Layout, Shape};

    fn version(number: u64) -> Version {
        Version::from_bits(number)
    }

    /// The objects of a page, and the cursor of the next page.
    fn parse(bytes: &[u8]) -> (Vec<(Key, Version)>, Cursor) {
        let mut reader = Reader(bytes);
        let page = Page::read(&mut reader).unwrap();
        reader.finish().unwrap();
        (page.puts.iter().map(|put| (put.key, put.version)).collect(), page.next)
    }

    /// A request for a page past the end would get no answer.
    #[test]
    fn the_next_page_begins_behind_this_one_and_not_behind_the_end() {
        let beyond = Cursor { key: 1, ..Cursor::END };
        for (from, next, is_page) in [
            (Cursor::START, Cursor::END, true),
            (Cursor::START, Cursor::START, false),
            (Cursor::END, Cursor::END, false),
            (Cursor::START, beyond, false),
        ] {
            let mut bytes = Vec::new();
            Page { shard: 1, from, next, puts: List::read(&mut Reader(&[0])).unwrap() }.write(&mut bytes);
            assert_eq!(Page::read(&mut Reader(&bytes)).is_ok(), is_page, "{from:?} {next:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Some objects are inserted and deleted between two pages, which moves other objects. An object that
        /// is there all the time is in exactly one page.
        #[test]
        fn pages_have_what_stays_whatever_comes_and_goes(
            stays in vec((0usize..2, 0u64..4_000), 1..120),
            goes in vec((0usize..2, 4_000u64..4_300), 1..200),
            changes in vec((0usize..200, any::<bool>()), 0..2_000),
            page_bytes in 80usize..600,
        ) {
            // The table is nearly full, so that insertions move many objects, and has more segments than are
            // searched for one page.
            let shape = Shape {
                slots: 600,
                segment_slots: 2,
                displacement: Some(4),
                slot_bytes: 64,
                pages: 400,
                page_slots: 4,
                blocks: 0,
                value_bytes_max: 40,
            };
            let mut table = Table::new(Layout::new(shape).unwrap());
            let mut bytes = vec![0; table.layout().bytes() as usize];
            let mut expected = std::collections::BTreeSet::new();
            for (shard, local) in stays {
                let key = Key::new(shard, local);
                table.put(&mut bytes[..], key, version(1), &[7; 12]).unwrap();
                if shard == 1 {
                    expected.insert(key);
                }
            }
            let mut changes = changes.into_iter();
            let (mut from, mut seen) = (Cursor::START, Vec::new());
            while from != Cursor::END {
                for (which, there) in changes.by_ref().take(40) {
                    let (shard, local) = goes[which % goes.len()];
                    let key = Key::new(shard, local);
                    if there {
                        table.put(&mut bytes[..], key, version(2), &[9; 20]).unwrap();
                    } else {
                        table.remove(&mut bytes[..], key);
                    }
                }
                let mut out = Vec::new();
                PageWriter::new(&mut out, 1, from, page_bytes).fill_from(&table, &bytes);
                prop_assert!(out.len() <= page_bytes);
                let (objects, next) = parse(&out);
                seen.extend(objects.into_iter().filter(|(_, seen)| *seen == version(1)).map(|(key, _)| key));
                from = next;
            }
            let count = seen.len();
            let seen: std::collections::BTreeSet<_> = seen.into_iter().collect();
            prop_assert_eq!(count, seen.len(), "an object is in two pages");
            prop_assert_eq!(seen, expected);
        }

        /// Pages and records are applied in any order. The newest of them decides each object's value.
        #[test]
        fn the_newest_stays(
            pages in vec((0u64..6, 0u64..12), 0..20), records in vec((0u64..6, any::<bool>()), 0..30), order: u64,
        ) {
            let shape = Shape {
                slots: 16,
                segment_slots: 4,
                displacement: Some(4),
                slot_bytes: 64,
                pages: 8,
                page_slots: 4,
                blocks: 0,
                value_bytes_max: 8,
            };
            let mut table = Table::new(Layout::new(shape).unwrap());
            let mut bytes = vec![0; table.layout().bytes() as usize];
            let mut merge = Merge::default();
            // Writes with the same version have the same content.
            let log: Vec<(u64, u64, bool)> =
                records.iter().zip(1..).map(|(&(key, deletes), number)| (key, number, deletes)).collect();
            let at = |key: u64, upto: u64| {
                log.iter().rfind(|(of, number, _)| *of == key && *number <= upto).copied()
            };
            // A page shows an object as it was at some moment. It says nothing about objects that it does not
            // show.
            let pages = pages.into_iter().filter_map(|(key, upto)| at(key, upto)).filter(|(_, _, deletes)| !deletes);
            let (mut pages, mut records) = (pages.peekable(), log.iter().copied().peekable());
            let mut turn = order;
            while pages.peek().is_some() || records.peek().is_some() {
                turn = turn.rotate_left(1);
                let next = if turn & 1 == 0 || records.peek().is_none() { pages.next() } else { records.next() };
                let Some((key, number, deletes)) = next else { continue };
                let value = number.to_be_bytes();
                let value = (!deletes).then_some(&value[..]);
                let put = Put { key: Key::new(0, key), version: version(number), value };
                if merge.is_newer(&table, &bytes, &put) {
                    match put.value {
                        Some(value) => {
                            table.put(&mut bytes[..], put.key, put.version, value).unwrap();
                        }
                        None => {
                            table.remove(&mut bytes[..], put.key);
                        }
                    }
                }
            }
            for key in 0..6 {
                let there = table.get(&bytes, Key::new(0, key), &mut [0; 8]).map(|(version, _)| version);
                let expected = at(key, u64::MAX).filter(|(_, _, deletes)| !deletes);
                prop_assert_eq!(there, expected.map(|(_, number, _)| version(number)));
            }
        }
    }
}
