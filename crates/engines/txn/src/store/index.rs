//! The card's caching index (Xenic, section 4.1.3): what is known of each segment of the host's table, the objects
//! that are cached, and what transactions do with them.
//!
//! An *entry* is one object: its version and value as of the latest commit, if known, its lock, and what keeps it
//! from being evicted. The entries of a segment are chained; there is a fixed number of entries in all, each with
//! room for a value, so an object that is locked can always take the value that is committed. (Xenic has some
//! positions in each segment and chains pages of them; one pool of entries wastes none on segments that are cold.)
//!
//! What the host has not applied yet is *pinned*: its entry is newer than the table. The rules, without which the
//! card would read what is out of date:
//!
//! - [`Index::commit`] pins; [`Index::unpin`] follows the host's acknowledgement, after the [`Report`]s that came
//!   with it.
//! - Who reads the table for the index calls [`Index::expect`] first and [`Index::fill`] with the answer. A commit in
//!   between stays: the expectation keeps its entry.
//!
//! An entry without lock, pin or expectation may be evicted, by a clock hand, when a new one is needed. No other ever
//! is: if there are only such, the newcomer is refused. What was written and never read leaves a crowded index with
//! its last pin.

use super::layout::Layout;
use super::report::{Hint, Knowledge, Overflow, Precision, Report};
use crate::key::{Key, Version};
use crate::message::{Difference, Stray};

/// No entry.
const NONE: u32 = u32::MAX;

/// Entries that the clock hand looks at for one newcomer, at most.
const HAND_STEPS: usize = 128;

/// An index is crowded when less than one in so many of its entries is free. What is written then and not read need
/// not stay: new rows would drive out what is read.
const CROWDED: usize = 16;

/// Parameters of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexParameters {
    /// Precision for a segment.
    pub precision: Precision,
    /// Slots that are read beyond those in which an object must be as far as is known: the paper's k.
    pub ahead: u32,
    /// Entries, each with room for one value.
    pub entries: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
}

/// Reason for which an object is not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// It is locked already.
    Locked(T),
    /// Every entry within reach is locked, pinned or expected.
    Full,
}

/// The index's knowledge of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached<'a> {
    /// It is present.
    Value(Version, &'a [u8]),
    /// It is absent; no write of it is newer than this version, which is that of the segment's latest deletion.
    Absent(Version),
    /// Unknown: the table knows.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Unknown,
    Absent,
    Value { length: u16 },
}

#[derive(Clone, Debug)]
struct Segment {
    knowledge: Knowledge,
    used: u8,
    page: u32,
    /// The first of its entries.
    first: u32,
    /// The version of the latest deletion.
    deletion: Version,
    /// Log position that the host had applied when it had the last of the segment's writes.
    applied: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    key: u64,
    version: Version,
    lock: Option<T>,
    content: Content,
    /// Commits that the host has not applied.
    pins: u16,
    /// Reads of the table under way.
    expected: u16,
    /// Whether it is in a chain.
    in_use: bool,
    /// Whether it was looked at since the hand came by.
    recent: bool,
    /// The next entry of the segment, or of the free ones.
    next: u32,
}

impl<T> Entry<T> {
    fn is_evictable(&self) -> bool {
        self.lock.is_none() && self.pins == 0 && self.expected == 0
    }
}

/// The index. `T` identifies the holder of a lock.
#[derive(Clone, Debug)]
pub struct Index<T> {
    layout: Layout,
    parameters: IndexParameters,
    segments: Vec<Segment>,
    entries: Vec<Entry<T>>,
    values: Vec<u8>,
    /// The first free entry.
    free: u32,
    hand: usize,
    used: u32,
    locked: u32,
}

impl<T: Copy + Eq> Index<T> {
    /// An empty index of a table of this layout: nothing is known, nothing is cached.
    pub fn new(layout: Layout, parameters: IndexParameters) -> Self {
        assert!((1..NONE).contains(&parameters.entries), "an index has entries");
        assert!(parameters.value_bytes_max <= crate::VALUE_MAX, "no value is longer");
        let segment = Segment {
            knowledge: Knowledge::UNKNOWN,
            used: 0,
            page: Overflow::Unknown.pack().0,
            first: NONE,
            deletion: Version::ZERO,
            applied: 0,
        };
        let entry = Entry {
            key: 0,
            version: Version::ZERO,
            lock: None,
            content: Content::Unknown,
            pins: 0,
            expected: 0,
            in_use: false,
            recent: false,
            next: NONE,
        };
        let mut index = Self {
            layout,
            parameters,
            segments: vec![segment; layout.segments() as usize],
            entries: vec![entry; parameters.entries as usize],
            values: vec![0; parameters.entries as usize * parameters.value_bytes_max],
            free: NONE,
            hand: 0,
            used: 0,
            locked: 0,
        };
        index.clear();
        index
    }

    /// Forgets everything, as in a new index.
    pub fn clear(&mut self) {
        for segment in &mut self.segments {
            segment.knowledge = Knowledge::UNKNOWN;
            (segment.page, segment.used) = Overflow::Unknown.pack();
        }
        self.forget_objects();
    }

    /// Forgets all objects, their locks and deletions. Where the table has its objects stays known: the host tells
    /// that of all of them, whoever their primary is.
    pub fn forget_objects(&mut self) {
        for segment in &mut self.segments {
            (segment.first, segment.deletion, segment.applied) = (NONE, Version::ZERO, 0);
        }
        for (next, entry) in (1..).zip(&mut self.entries) {
            (entry.in_use, entry.lock, entry.next) = (false, None, next);
        }
        self.entries.last_mut().expect("an index has entries").next = NONE;
        (self.free, self.hand, self.used, self.locked) = (0, 0, 0, 0);
    }

    /// Entries in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Objects that are locked.
    pub fn locked(&self) -> u32 {
        self.locked
    }

    /// Bytes that each segment takes for where its objects are.
    pub fn hint_bytes(&self) -> usize {
        self.parameters.precision.bytes()
    }

    /// Takes what the host tells about a segment.
    pub fn report(&mut self, report: &Report) {
        // A report of no segment of the table is a mistake of the host; it would hint at nothing.
        let Some(segment) = self.segments.get_mut(report.segment as usize) else { return };
        segment.knowledge = report.knowledge;
        (segment.page, segment.used) = report.overflow.pack();
    }

    /// Whether this is the index's knowledge of a segment.
    pub fn knows(&self, report: &Report) -> bool {
        self.segments.get(report.segment as usize).is_some_and(|segment| {
            segment.knowledge == report.knowledge && (segment.page, segment.used) == report.overflow.pack()
        })
    }

    /// First position of a lookup of this object in the table.
    pub fn hint(&self, key: Key) -> Hint {
        let home = self.layout.home(key.bits());
        let segment = self.layout.segment_of(home);
        let home = home - segment * self.layout.shape().segment_slots;
        let segment = &self.segments[segment as usize];
        let overflow = Overflow::unpack(segment.page, segment.used);
        let IndexParameters { precision, ahead, .. } = self.parameters;
        Hint::of(segment.knowledge, overflow, precision, home, ahead)
    }

    /// The index's knowledge of an object.
    pub fn lookup(&mut self, key: Key) -> Cached<'_> {
        let Some(entry) = self.find(key) else { return Cached::Unknown };
        self.entries[entry].recent = true;
        self.cached(entry)
    }

    /// The version of an object that is cached, and the length of its value.
    pub fn known(&self, key: Key) -> Option<(Version, usize)> {
        let entry = &self.entries[self.find(key)?];
        match entry.content {
            Content::Value { length } => Some((entry.version, length.into())),
            Content::Unknown | Content::Absent => None,
        }
    }

    /// The version that a reader of this object gets if the table does not have it: that of the latest deletion in
    /// its segment.
    pub fn absent(&self, key: Key) -> Version {
        self.segments[self.layout.segment(key.bits()) as usize].deletion
    }

    /// Holder of the lock of an object.
    pub fn holder(&self, key: Key) -> Option<T> {
        self.entries[self.find(key)?].lock
    }

    /// Locks an object for `holder`, which may hold it already.
    ///
    /// # Errors
    /// If another holds it, or there is no entry for it.
    pub fn lock(&mut self, key: Key, holder: T) -> Result<(), Refused<T>> {
        let entry = self.find_or_make(key).ok_or(Refused::Full)?;
        match self.entries[entry].lock {
            Some(other) if other != holder => return Err(Refused::Locked(other)),
            Some(_) => {}
            None => {
                self.entries[entry].lock = Some(holder);
                self.locked += 1;
            }
        }
        Ok(())
    }

    /// Frees the lock of an object if `holder` holds it, and says whether it did.
    pub fn unlock(&mut self, key: Key, holder: T) -> bool {
        let Some(entry) = self.find(key) else { return false };
        if self.entries[entry].lock != Some(holder) {
            return false;
        }
        self.entries[entry].lock = None;
        self.locked -= 1;
        self.drop_if_empty(entry);
        true
    }

    /// Keeps an entry for what a read of the table will tell. Without one (false) the answer is not kept either, and
    /// is as good.
    pub fn expect(&mut self, key: Key) -> bool {
        let Some(entry) = self.find_or_make(key) else { return false };
        let Some(expected) = self.entries[entry].expected.checked_add(1) else { return false };
        self.entries[entry].expected = expected;
        true
    }

    /// Ends an expectation with what the table told (`None`: the object is not there) and returns what is known now,
    /// which is newer if something was committed meanwhile.
    ///
    /// # Panics
    /// If [`Index::expect`] did not promise it.
    pub fn fill(&mut self, key: Key, object: Option<(Version, &[u8])>) -> Cached<'_> {
        let entry = self.end_expectation(key);
        if self.entries[entry].content == Content::Unknown {
            self.set(entry, object);
        }
        self.entries[entry].recent = true;
        self.cached(entry)
    }

    /// Ends an expectation without an answer.
    ///
    /// # Panics
    /// As [`Index::fill`].
    pub fn give_up(&mut self, key: Key) {
        let entry = self.end_expectation(key);
        self.drop_if_empty(entry);
    }

    /// Takes a committed write (`None`: a deletion) of a locked object, and pins it until the host has applied it.
    ///
    /// # Panics
    /// If the object is not locked, or its version becomes less.
    pub fn commit(&mut self, key: Key, version: Version, value: Option<&[u8]>) {
        let entry = self.pin(key, version);
        self.set(entry, value.map(|value| (version, value)));
        self.entries[entry].version = version;
        if value.is_none() {
            let segment = &mut self.segments[self.layout.segment(key.bits()) as usize];
            segment.deletion = segment.deletion.max(version);
        }
    }

    /// The same of a write that changes the value that is known.
    ///
    /// # Errors
    /// If that is none, or not what the write changes.
    ///
    /// # Panics
    /// As [`Index::commit`].
    pub fn change(&mut self, key: Key, version: Version, difference: &Difference<'_>) -> Result<(), Stray> {
        let at = self.pin(key, version);
        let entry = &mut self.entries[at];
        let Content::Value { length } = entry.content else { return Err(Stray) };
        let value = &mut self.values[at * self.parameters.value_bytes_max..][..length.into()];
        difference.apply(Some(entry.version), value)?;
        entry.version = version;
        Ok(())
    }

    /// Holds the entry of an object that is written until the host has it. A record that names an object twice writes
    /// the same version twice.
    fn pin(&mut self, key: Key, version: Version) -> usize {
        let at = self.find(key).expect("a committed object has an entry");
        let entry = &mut self.entries[at];
        assert!(entry.lock.is_some(), "what is written is locked");
        assert!(entry.content == Content::Unknown || entry.version <= version, "versions of a key grow");
        entry.pins = entry.pins.checked_add(1).expect("commits are bounded by the log");
        at
    }

    /// Whether an object was as it is now, at `version` (zero: absent), in the host's table when that had the log up
    /// to `applied`. What is committed is pinned until the host has it: so of what is not known here, the table had
    /// the latest version unless a write of the segment was applied since.
    pub fn is_current(&self, key: Key, version: Version, applied: u64) -> bool {
        let known = self.find(key).map(|entry| &self.entries[entry]);
        match known.map(|entry| (entry.content, entry.version)) {
            Some((Content::Value { .. }, known)) => known == version,
            Some((Content::Absent, _)) => version == Version::ZERO,
            Some((Content::Unknown, _)) | None => {
                self.segments[self.layout.segment(key.bits()) as usize].applied <= applied
            }
        }
    }

    /// The host has applied one write of this object, and the log up to `applied`, and its reports have been taken.
    ///
    /// # Panics
    /// If it was not pinned.
    pub fn unpin(&mut self, key: Key, applied: u64) {
        let segment = &mut self.segments[self.layout.segment(key.bits()) as usize];
        segment.applied = segment.applied.max(applied);
        let entry = self.find(key).expect("a pinned object has an entry");
        self.entries[entry].pins = self.entries[entry].pins.checked_sub(1).expect("a pinned object");
        let is_crowded = self.used as usize > self.entries.len() - self.entries.len() / CROWDED;
        if is_crowded && self.entries[entry].is_evictable() && !self.entries[entry].recent {
            self.release(entry);
        }
    }

    /// Commits of this object that the host has not applied.
    pub fn pins(&self, key: Key) -> u16 {
        self.find(key).map_or(0, |entry| self.entries[entry].pins)
    }

    fn cached(&self, entry: usize) -> Cached<'_> {
        let Entry { key, version, content, .. } = self.entries[entry];
        match content {
            Content::Unknown => Cached::Unknown,
            Content::Absent => Cached::Absent(self.segments[self.layout.segment(key) as usize].deletion),
            Content::Value { length } => Cached::Value(
                version,
                &self.values[entry * self.parameters.value_bytes_max..][..length.into()],
            ),
        }
    }

    fn set(&mut self, entry: usize, object: Option<(Version, &[u8])>) {
        let Some((version, value)) = object else {
            self.entries[entry].content = Content::Absent;
            return;
        };
        self.entries[entry].version = version;
        self.entries[entry].content = Content::Value { length: value.len() as u16 };
        self.values[entry * self.parameters.value_bytes_max..][..value.len()].copy_from_slice(value);
    }

    fn end_expectation(&mut self, key: Key) -> usize {
        let entry = self.find(key).expect("an expected object has an entry");
        self.entries[entry].expected = self.entries[entry].expected.checked_sub(1).expect("it was expected");
        entry
    }

    /// An entry that says nothing and keeps nothing is freed at once.
    fn drop_if_empty(&mut self, entry: usize) {
        if self.entries[entry].content == Content::Unknown && self.entries[entry].is_evictable() {
            self.release(entry);
        }
    }

    fn find(&self, key: Key) -> Option<usize> {
        let key = key.bits();
        let mut entry = self.segments[self.layout.segment(key) as usize].first;
        while entry != NONE {
            let there = &self.entries[entry as usize];
            if there.key == key {
                return Some(entry as usize);
            }
            entry = there.next;
        }
        None
    }

    fn find_or_make(&mut self, key: Key) -> Option<usize> {
        if let Some(entry) = self.find(key) {
            return Some(entry);
        }
        if self.free == NONE {
            let victim = self.victim()?;
            self.release(victim);
        }
        let entry = self.free;
        let segment = &mut self.segments[self.layout.segment(key.bits()) as usize];
        let made = &mut self.entries[entry as usize];
        self.free = made.next;
        *made = Entry {
            key: key.bits(),
            version: Version::ZERO,
            lock: None,
            content: Content::Unknown,
            pins: 0,
            expected: 0,
            in_use: true,
            recent: false,
            next: segment.first,
        };
        segment.first = entry;
        self.used += 1;
        Some(entry as usize)
    }

    /// The next entry under the clock hand that nobody needs, and nobody has looked at lately if there is such a one
    /// within reach.
    fn victim(&mut self) -> Option<usize> {
        let mut needless = None;
        for _ in 0..HAND_STEPS.min(self.entries.len()) {
            let entry = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            if self.entries[entry].is_evictable() {
                if !std::mem::take(&mut self.entries[entry].recent) {
                    return Some(entry);
                }
                needless.get_or_insert(entry);
            }
        }
        needless
    }

    fn release(&mut self, entry: usize) {
        let Entry { key, next, in_use, .. } = self.entries[entry];
        assert!(in_use && self.entries[entry].is_evictable(), "nobody needs what is evicted");
        let segment = &mut self.segments[self.layout.segment(key) as usize];
        if segment.first == entry as u32 {
            segment.first = next;
        } else {
            let mut before = segment.first as usize;
            while self.entries[before].next != entry as u32 {
                before = self.entries[before].next as usize;
            }
            self.entries[before].next = next;
        }
        (self.entries[entry].in_use, self.entries[entry].next) = (false, self.free);
        self.free = entry as u32;
        self.used -= 1;
    }
}
