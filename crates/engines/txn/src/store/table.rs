//! The host's table: Robin Hood hashing with a displacement limit, overflow pages and blocks (Xenic, section
//! 4.1.2).
//!
//! Objects are in the order of their homes; slots between them may be free. An insertion takes the first slot
//! that keeps the order. If that is not free, the objects from there to a free slot move by one slot. A
//! deletion fills its slot from the segment's overflow, or moves the objects that follow back. Every move
//! starts at the free slot, so an object that moves is in two slots for a while, and never in none.
//!
//! **Which objects overflow.** An object overflows if no slot is free within `probe` slots from its home, or
//! if its insertion would displace any object up to the limit. Xenic limits displacement "to limit the cost
//! of insertion". But at an occupancy of 90 % the next free slot is 50 slots away on average (Knuth, volume
//! 3, section 6.4: (1 + 1 / 0.1^2) / 2), even if each object in between is displaced only a little. So the
//! distance is limited too. With a limit of D_m, the table gives the paper's figures; see
//! docs/benchmarks/transactions.md.

use thiserror::Error;

use super::layout::{Layout, SLOT_BYTES_MAX, value_bytes};
use super::overflow::Pages;
use super::record::{self, Head, Lines, be32};
use super::report::{Knowledge, Precision, Report};
use crate::key::{Key, Version};
use crate::room::Room;

/// The table has no room for this object. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Full {
    /// No slot near the home and no overflow page is free.
    #[error("no slot and no overflow page is free")]
    Slots,
    /// No block for the value is free.
    #[error("no block is free for a long value")]
    Blocks,
}

/// Effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whether an object was inserted or deleted. False if an object was only overwritten, or if there was
    /// none to delete.
    pub moved: bool,
    /// The first and the last segment of which the card needs a new [`Report`]; `None` if no object has
    /// moved.
    pub segments: Option<(u32, u32)>,
}

impl Change {
    const NOTHING: Self = Self { moved: false, segments: None };
}

/// The slot for a new object: `target`, after the objects from there to the slot `free` have moved by one
/// slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InsertionPoint {
    free: u32,
    target: u32,
}

/// Position of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Slot(u32),
    Overflow(u64),
}

/// The table's state. The caller holds its bytes.
#[derive(Clone, Debug)]
pub struct Table {
    layout: Layout,
    /// Distance from its home within which an insertion looks for a free slot.
    probe: u32,
    pages: Pages,
    free_blocks: Vec<u32>,
    /// The stamp of the latest change.
    stamp: u16,
    objects: u64,
    overflowed: u64,
}

impl Table {
    /// An empty table. Its memory must be [`Layout::bytes`] zeros.
    pub fn new(layout: Layout) -> Self {
        let shape = layout.shape();
        Self {
            layout,
            probe: shape.displacement.map_or(u32::MAX, |limit| limit + limit / 2),
            pages: Pages::new(&layout),
            free_blocks: (0..shape.blocks).rev().collect(),
            stamp: 0,
            objects: 0,
            overflowed: 0,
        }
    }

    /// The same table, with the distance within which insertions look for a free slot. The default is 1.5
    /// D_m.
    #[must_use]
    pub fn with_probe(self, slots: u32) -> Self {
        Self { probe: slots, ..self }
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Number of objects in overflow pages.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Number of free overflow pages.
    pub fn free_pages(&self) -> usize {
        self.pages.free()
    }

    /// Free overflow pages and free blocks.
    pub fn room(&self) -> Room {
        Room { pages: self.pages.free() as u32, blocks: self.free_blocks.len() as u32 }
    }

    /// Reads an object. Returns its version and the length of its value, which is copied to the start of
    /// `value`.
    ///
    /// # Panics
    /// If `value` is too short.
    pub fn get(&self, bytes: &[u8], key: Key, value: &mut [u8]) -> Option<(Version, usize)> {
        let slot = self.record(self.find(bytes, key.bits())?);
        let mut record = &bytes[slot as usize..][..self.layout.shape().slot_bytes];
        let mut head = Head::parse(record);
        if head.in_block {
            record = &bytes[self.layout.block(block_of(record)) as usize..][..self.layout.block_bytes()];
            head = Head::parse(record);
            assert!(head.in_use && head.key == key.bits(), "a slot's block is its own");
        }
        record::copy_value(record, head.length, value);
        Some((Version::from_bits(head.version), head.length))
    }

    /// Writes an object, existing or new.
    ///
    /// # Errors
    /// If there is no room. Then nothing changes.
    ///
    /// # Panics
    /// If the value is longer than the table allows.
    pub fn put<L: Lines + ?Sized>(
        &mut self,
        memory: &mut L,
        key: Key,
        version: Version,
        value: &[u8],
    ) -> Result<Change, Full> {
        assert!(
            value.len() <= self.layout.shape().value_bytes_max,
            "no value is longer than the table's may be"
        );
        let (key, version) = (key.bits(), version.bits());
        match self.find(memory.bytes(), key) {
            Some(found) => self.update(memory, found, key, version, value).map(|()| Change::NOTHING),
            None => self.insert(memory, key, version, value),
        }
    }

    /// Deletes an object, if it exists.
    pub fn remove<L: Lines + ?Sized>(&mut self, memory: &mut L, key: Key) -> Change {
        let key = key.bits();
        let Some(found) = self.find(memory.bytes(), key) else { return Change::NOTHING };
        let segment = self.layout.segment(key);
        let block = self.block_at(memory.bytes(), self.record(found));
        self.objects -= 1;
        let segments = match found {
            Found::Overflow(at) => {
                self.overflowed -= 1;
                self.clear(memory, at);
                self.pages.trim(&self.layout, memory, segment);
                (segment, segment)
            }
            Found::Slot(slot) => {
                self.clear(memory, self.layout.slot(slot));
                let moved = self.refill(memory, segment).or_else(|| self.shift_back(memory, slot));
                moved.map_or((segment, segment), |(first, last)| (first.min(segment), last.max(segment)))
            }
        };
        if let Some(block) = block {
            self.free_block(memory, block);
        }
        Change { moved: true, segments: Some(segments) }
    }

    /// The report of a segment for the card.
    pub fn report(&self, bytes: &[u8], segment: u32, precision: Precision) -> Report {
        let first = segment * self.layout.shape().segment_slots;
        let behind = first + self.layout.shape().segment_slots;
        let end = self.layout.window_end(behind - 1).min(self.layout.slots_all());
        let homes = (first..end).filter_map(|slot| Some((self.home_at(bytes, slot)?, slot)));
        let objects = homes.skip_while(|&(home, _)| home < first).take_while(|&(home, _)| home < behind);
        Report {
            segment,
            knowledge: Knowledge::of(precision, objects.map(|(home, slot)| (home - first, slot - first))),
            overflow: Pages::overflow(&self.layout, bytes, segment),
        }
    }

    /// Calls `each` with the key, version and value of every object, in the order of their positions.
    pub fn for_each(&self, bytes: &[u8], mut each: impl FnMut(Key, Version, &[u8])) {
        let mut value = [0; crate::VALUE_MAX];
        let slots = (0..self.layout.slots_all()).map(|slot| self.layout.slot(slot));
        let pages = (0..self.layout.shape().pages).flat_map(|page| Pages::records(&self.layout, page));
        for at in slots.chain(pages) {
            let Some(key) = Head::key(&bytes[at as usize..]).and_then(Key::from_bits) else { continue };
            let (version, length) = self.get(bytes, key, &mut value).expect("it stands there");
            each(key, version, &value[..length]);
        }
    }

    /// The keys of a segment's objects, ascending. An object never leaves its segment.
    pub fn keys(&self, bytes: &[u8], segment: u32) -> Vec<Key> {
        let first = segment * self.layout.shape().segment_slots;
        let behind = first + self.layout.shape().segment_slots;
        let end = self.layout.window_end(behind - 1).min(self.layout.slots_all());
        let slots = (first..end).map(|slot| self.layout.slot(slot));
        let pages =
            Pages::chain(&self.layout, bytes, segment).flat_map(|page| Pages::records(&self.layout, page));
        let mut keys: Vec<Key> = slots
            .chain(pages)
            .filter_map(|at| Key::from_bits(Head::key(&bytes[at as usize..])?))
            .filter(|key| self.layout.segment(key.bits()) == segment)
            .collect();
        keys.sort_unstable();
        keys
    }

    fn record(&self, found: Found) -> u64 {
        match found {
            Found::Slot(slot) => self.layout.slot(slot),
            Found::Overflow(at) => at,
        }
    }

    /// The home of the object in a slot.
    fn home_at(&self, bytes: &[u8], slot: u32) -> Option<u32> {
        let key = Head::key(&bytes[self.layout.slot(slot) as usize..])?;
        let home = self.layout.home(key);
        debug_assert!(home <= slot && slot < self.layout.window_end(home), "an object stands near its home");
        Some(home)
    }

    fn find(&self, bytes: &[u8], key: u64) -> Option<Found> {
        let home = self.layout.home(key);
        for slot in home..self.layout.window_end(home) {
            let Some(there) = Head::key(&bytes[self.layout.slot(slot) as usize..]) else { continue };
            if there == key {
                return Some(Found::Slot(slot));
            }
            if self.layout.home(there) > home {
                break;
            }
        }
        Pages::find(&self.layout, bytes, self.layout.segment_of(home), key).map(Found::Overflow)
    }

    fn insert<L: Lines + ?Sized>(
        &mut self,
        memory: &mut L,
        key: u64,
        version: u64,
        value: &[u8],
    ) -> Result<Change, Full> {
        let home = self.layout.home(key);
        let segment = self.layout.segment_of(home);
        let long = value.len() > self.layout.inline_bytes();
        if long && self.free_blocks.is_empty() {
            return Err(Full::Blocks);
        }
        let place = self.place(memory.bytes(), home);
        let room = match place {
            Some(_) => None,
            None => Some(self.pages.room(&self.layout, memory.bytes(), segment).ok_or(Full::Slots)?),
        };
        let number;
        let mut head = Head { key, version, in_use: true, length: value.len(), ..Head::default() };
        let mut inline = value;
        if long {
            number = self.fill_block(memory, &head, value).to_be_bytes();
            (head.in_block, inline) = (true, &number);
        }
        self.objects += 1;
        let segments = match (place, room) {
            (Some(place), _) => self.shift(memory, place, Some((head, inline))),
            (None, Some((at, new_page))) => {
                self.overflowed += 1;
                head.stamp = self.next_stamp();
                record::write(memory, at, self.layout.shape().slot_bytes, &head, inline);
                if let Some(page) = new_page {
                    self.pages.link(&self.layout, memory, segment, page);
                }
                (segment, segment)
            }
            (None, None) => unreachable!("room was found"),
        };
        Ok(Change { moved: true, segments: Some(segments) })
    }

    /// Where to insert a new object of this home, so that as few objects as possible move.
    fn place(&self, bytes: &[u8], home: u32) -> Option<InsertionPoint> {
        let window = self.layout.window_end(home);
        // `before`: the last slot of the objects that must precede the new one. `free_before`: the last free
        // slot before that. `behind`: the first slot of the objects that must follow.
        let (mut before, mut free, mut free_before, mut behind) = (None, None, None, None);
        for slot in home..window {
            match self.home_at(bytes, slot) {
                None => free = Some(slot),
                Some(there) if there > home => {
                    behind = Some(slot);
                    break;
                }
                Some(_) => (before, free_before) = (Some(slot), free),
            }
        }
        let target = before.map_or(home, |slot| slot + 1);
        if target < window && behind != Some(target) {
            return Some(InsertionPoint { free: target, target });
        }
        if let (Some(free), Some(before)) = (free_before, before) {
            return Some(InsertionPoint { free, target: before });
        }
        if target >= window {
            return None;
        }
        for slot in target..home.saturating_add(self.probe).min(self.layout.slots_all()) {
            match self.home_at(bytes, slot) {
                None => return Some(InsertionPoint { free: slot, target }),
                Some(there) if slot + 1 >= self.layout.window_end(there) => return None,
                Some(_) => {}
            }
        }
        None
    }

    /// Moves the objects between the free slot and the target by one slot. Writes the new object to the
    /// target, or frees the target if there is none. Returns the first and the last segment that changed.
    fn shift<L: Lines + ?Sized>(
        &mut self,
        memory: &mut L,
        place: InsertionPoint,
        new: Option<(Head, &[u8])>,
    ) -> (u32, u32) {
        let InsertionPoint { free, target } = place;
        let stamp = self.next_stamp();
        let (first, last) = (free.min(target), free.max(target));
        let bytes = self.layout.shape().slot_bytes;
        let stamps = |memory: &L, slot: u32, layout: &Layout| {
            let old = Head::parse(&memory.bytes()[layout.slot(slot) as usize..]);
            [
                stamp,
                if slot > first { stamp } else { old.before },
                if slot < last { stamp } else { old.after },
            ]
        };
        let (mut lowest, mut highest) = (u32::MAX, 0);
        let mut slot = free;
        while slot != target {
            let from = if free > target { slot - 1 } else { slot + 1 };
            let home = self.home_at(memory.bytes(), from).expect("only the free slot is free");
            (lowest, highest) = (lowest.min(home), highest.max(home));
            let stamps = stamps(memory, slot, &self.layout);
            record::copy(memory, self.layout.slot(from), self.layout.slot(slot), bytes, stamps);
            slot = from;
        }
        let [stamp, before, after] = stamps(memory, target, &self.layout);
        let (head, value) = new.unwrap_or_default();
        if new.is_some() {
            let home = self.layout.home(head.key);
            (lowest, highest) = (lowest.min(home), highest.max(home));
        }
        let head = Head { stamp, before, after, ..head };
        record::write(memory, self.layout.slot(target), bytes, &head, value);
        (self.layout.segment_of(lowest), self.layout.segment_of(highest))
    }

    /// After a deletion: moves one object from the segment's overflow to the slots, if one fits there now.
    /// Returns the first and the last segment that changed.
    fn refill<L: Lines + ?Sized>(&mut self, memory: &mut L, segment: u32) -> Option<(u32, u32)> {
        let page = Pages::chain(&self.layout, memory.bytes(), segment).last()?;
        for at in Pages::records(&self.layout, page) {
            let Some(key) = Head::key(&memory.bytes()[at as usize..]) else { continue };
            let Some(place) = self.place(memory.bytes(), self.layout.home(key)) else { continue };
            let mut value = [0; SLOT_BYTES_MAX];
            let record = &memory.bytes()[at as usize..][..self.layout.shape().slot_bytes];
            let head = Head::parse(record);
            let length = if head.in_block { 4 } else { head.length };
            record::copy_value(record, length, &mut value);
            let segments = self.shift(memory, place, Some((head, &value[..length])));
            // The overflow record is cleared last. A reader that does not find the object in the overflow
            // reads the slots again, and finds it there.
            self.clear(memory, at);
            self.overflowed -= 1;
            self.pages.trim(&self.layout, memory, segment);
            return Some(segments);
        }
        None
    }

    /// Moves the objects that follow a free slot back by one slot, up to the first one that is at home and
    /// within the limit. Returns the first and the last segment that changed.
    fn shift_back<L: Lines + ?Sized>(&mut self, memory: &mut L, free: u32) -> Option<(u32, u32)> {
        let end = self
            .layout
            .shape()
            .displacement
            .map_or(self.layout.slots_all(), |limit| (free + limit).min(self.layout.slots_all()));
        let follows = |slot: &u32| self.home_at(memory.bytes(), *slot).is_some_and(|home| home < *slot);
        let target = (free + 1..end).take_while(follows).last()?;
        Some(self.shift(memory, InsertionPoint { free, target }, None))
    }

    fn update<L: Lines + ?Sized>(
        &mut self,
        memory: &mut L,
        found: Found,
        key: u64,
        version: u64,
        value: &[u8],
    ) -> Result<(), Full> {
        let at = self.record(found);
        let bytes = self.layout.shape().slot_bytes;
        let old = Head::parse(&memory.bytes()[at as usize..]);
        let long = value.len() > self.layout.inline_bytes();
        let mut head = Head { version, length: value.len(), stamp: self.next_stamp(), ..old };
        match (old.in_block, long) {
            (false, false) => record::write(memory, at, bytes, &head, value),
            (true, true) => {
                // Overwrites the block in place, so that a write succeeds even if no block is free. The
                // version in the slot stays that of the insertion.
                let block = block_of(&memory.bytes()[at as usize..][..bytes]);
                head.in_block = false;
                record::write(memory, self.layout.block(block), self.layout.block_bytes(), &head, value);
            }
            (false, true) => {
                if self.free_blocks.is_empty() {
                    return Err(Full::Blocks);
                }
                let content = Head { key, version, in_use: true, length: value.len(), ..Head::default() };
                let number = self.fill_block(memory, &content, value).to_be_bytes();
                head.in_block = true;
                record::write(memory, at, bytes, &head, &number);
            }
            (true, false) => {
                let block = block_of(&memory.bytes()[at as usize..][..bytes]);
                head.in_block = false;
                record::write(memory, at, bytes, &head, value);
                self.free_block(memory, block);
            }
        }
        Ok(())
    }

    /// Writes a value into a free block. The caller has checked that one is free.
    fn fill_block<L: Lines + ?Sized>(&mut self, memory: &mut L, head: &Head, value: &[u8]) -> u32 {
        let block = self.free_blocks.pop().expect("a free block");
        let head = Head { stamp: self.next_stamp(), ..*head };
        record::write(memory, self.layout.block(block), self.layout.block_bytes(), &head, value);
        block
    }

    /// The block that holds the value of the record at `at`, if the value is long.
    fn block_at(&self, bytes: &[u8], at: u64) -> Option<u32> {
        let record = &bytes[at as usize..][..self.layout.shape().slot_bytes];
        Head::parse(record).in_block.then(|| block_of(record))
    }

    /// Frees a block. Its record is marked unused, so a reader with an outdated reference notices that, and
    /// reads again.
    fn free_block<L: Lines + ?Sized>(&mut self, memory: &mut L, block: u32) {
        self.clear_record(memory, self.layout.block(block), self.layout.block_bytes());
        self.free_blocks.push(block);
    }

    fn clear<L: Lines + ?Sized>(&mut self, memory: &mut L, at: u64) {
        self.clear_record(memory, at, self.layout.shape().slot_bytes);
    }

    fn clear_record<L: Lines + ?Sized>(&mut self, memory: &mut L, at: u64, bytes: usize) {
        let old = Head::parse(&memory.bytes()[at as usize..]);
        let stamp = self.next_stamp();
        let head = Head { stamp, before: old.before, after: old.after, ..Head::default() };
        record::write(memory, at, bytes, &head, &[]);
    }

    fn next_stamp(&mut self) -> u16 {
        self.stamp = self.stamp.wrapping_add(1);
        self.stamp
    }

    /// Checks the table's invariants, for tests.
    ///
    /// # Panics
    /// If one is violated.
    pub fn check(&self, bytes: &[u8]) {
        let (mut objects, mut overflowed, mut highest) = (0, 0, 0);
        for slot in 0..self.layout.slots_all() {
            let record = &bytes[self.layout.slot(slot) as usize..][..self.layout.shape().slot_bytes];
            assert!(record::is_whole(record), "slot {slot} is whole");
            if slot > 0 {
                let last = Head::parse(&bytes[self.layout.slot(slot - 1) as usize..]);
                assert_eq!(last.after, Head::parse(record).before, "slot {slot} and the one before agree");
            }
            let Some(key) = Head::key(record) else { continue };
            let home = self.layout.home(key);
            assert!(
                home <= slot && slot < self.layout.window_end(home),
                "slot {slot} is within its home's window"
            );
            assert!(home >= highest, "slot {slot} is in the order of homes");
            (objects, highest) = (objects + 1, home);
        }
        for segment in 0..self.layout.segments() {
            let mut last_used = None;
            for page in Pages::chain(&self.layout, bytes, segment) {
                let used =
                    Pages::records(&self.layout, page).filter_map(|at| Head::key(&bytes[at as usize..]));
                last_used = Some(used.inspect(|&key| assert_eq!(self.layout.segment(key), segment)).count());
                overflowed += last_used.unwrap_or(0) as u64;
            }
            assert_ne!(last_used, Some(0), "the last page of segment {segment} is not empty");
        }
        assert_eq!(
            (objects + overflowed, overflowed),
            (self.objects, self.overflowed),
            "every object is counted"
        );
    }
}

/// The block that a record refers to.
pub(crate) fn block_of(record: &[u8]) -> u32 {
    be32(record, super::layout::HEAD)
}

const _: () = assert!(value_bytes(32) >= 4, "the smallest slot has room for the number of a block");
