//! The card's caching index (Xenic, section 4.1.3). For each segment of the host's table it holds where
//! objects lie, which objects are cached, and their locks.
//!
//! An *entry* belongs to one object. It holds the version and the value of the latest commit, if known, the
//! lock, and counters that keep it from being evicted. The entries of a segment are chained. The number of
//! entries is fixed, and each has room for a value, so a locked object can always take the committed value.
//! (Xenic has some slots in each segment and chains pages of them. One pool of entries wastes none on
//! segments that are rarely used.)
//!
//! A write that the host has not applied yet is *pinned*: its entry is newer than the table. Two rules keep
//! the card from using outdated data:
//!
//! - [`Index::commit`] pins. [`Index::unpin`] follows the host's acknowledgement, after the [`Report`]s that
//!   came with it were processed.
//! - Before a caller reads the table for the index, it calls [`Index::expect`]; afterwards it calls
//!   [`Index::fill`] with the result. A commit in between is not lost, because an expectation keeps the
//!   entry.
//!
//! An entry without lock, pin or expectation may be evicted, by the clock algorithm, when a new entry is
//! needed. Other entries are never evicted: if there are no evictable ones, the new entry is refused. In an
//! index that is nearly full, an object that was written and never read loses its entry with its last pin.

use super::layout::Layout;
use super::report::{Hint, Knowledge, Overflow, Precision, Report};
use crate::key::{Key, Version};
use crate::message::{Difference, Mismatch};

/// Index of no entry.
const NONE: u32 = u32::MAX;

/// The most entries that the clock hand examines for one new entry.
const HAND_STEPS: usize = 128;

/// The index counts as crowded if less than one in `CROWDED` entries is free. Then written objects that
/// nobody reads are dropped, since new rows would otherwise evict rows that are read.
const CROWDED: usize = 16;

/// Parameters of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexParameters {
    /// Precision for a segment.
    pub precision: Precision,
    /// Slots that a look-up reads beyond those in which the object is expected: k in the paper.
    pub ahead: u32,
    /// Entries, each with room for one value.
    pub entries: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
}

/// The reason why an object is not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// This holder has locked it already.
    Locked(T),
    /// All entries that the clock hand has examined are locked, pinned or expected.
    Full,
}

/// What the index contains about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached<'a> {
    /// The object exists, with this version and value.
    Value(Version, &'a [u8]),
    /// The object is absent. No write of it is newer than this version, that of the latest deletion in the
    /// segment.
    Absent(Version),
    /// The index has no information; the table must be read.
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
    /// First entry of the segment's chain.
    first: u32,
    /// The version of the latest deletion in the segment.
    deletion: Version,
    /// Log position up to which the host had applied records when it applied the latest write of the segment.
    applied: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    key: u64,
    version: Version,
    lock: Option<T>,
    content: Content,
    /// Number of commits that the host has not applied.
    pins: u16,
    /// Number of reads of the table that are under way.
    expected: u16,
    /// Whether the entry is in a segment's chain.
    in_use: bool,
    /// Whether the entry was used since the clock hand last passed it.
    recent: bool,
    /// The next entry of the segment, or of the list of free entries.
    next: u32,
}

impl<T> Entry<T> {
    fn is_evictable(&self) -> bool {
        self.lock.is_none() && self.pins == 0 && self.expected == 0
    }
}

/// The index. `T` identifies holders of locks.
#[derive(Clone, Debug)]
pub struct Index<T> {
    layout: Layout,
    parameters: IndexParameters,
    segments: Vec<Segment>,
    entries: Vec<Entry<T>>,
    values: Vec<u8>,
    /// First entry of the list of free entries.
    free: u32,
    hand: usize,
    used: u32,
    locked: u32,
}

impl<T: Copy + Eq> Index<T> {
    /// An empty index of a table with this layout.
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

    /// Drops everything, so that the index is as a new one.
    pub fn clear(&mut self) {
        for segment in &mut self.segments {
            segment.knowledge = Knowledge::UNKNOWN;
            (segment.page, segment.used) = Overflow::Unknown.pack();
        }
        self.forget_objects();
    }

    /// Drops all objects with their locks, and the versions of deletions. The positions of objects in the
    /// table are kept, because the host reports those of all shards, whoever leads them.
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

    /// Number of entries in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Number of locked objects.
    pub fn locked(&self) -> u32 {
        self.locked
    }

    /// Bytes for each segment that describe where its objects lie.
    pub fn hint_bytes(&self) -> usize {
        self.parameters.precision.bytes()
    }

    /// Enters the host's report of a segment.
    pub fn report(&mut self, report: &Report) {
        // A report of a segment that does not exist is a fault of the host, and is ignored.
        let Some(segment) = self.segments.get_mut(report.segment as usize) else { return };
        segment.knowledge = report.knowledge;
        (segment.page, segment.used) = report.overflow.pack();
    }

    /// Whether the index agrees with this report.
    pub fn knows(&self, report: &Report) -> bool {
        self.segments.get(report.segment as usize).is_some_and(|segment| {
            segment.knowledge == report.knowledge && (segment.page, segment.used) == report.overflow.pack()
        })
    }

    /// Where a look-up of this object in the table should start.
    pub fn hint(&self, key: Key) -> Hint {
        let home = self.layout.home(key.bits());
        let segment = self.layout.segment_of(home);
        let home = home - segment * self.layout.shape().segment_slots;
        let segment = &self.segments[segment as usize];
        let overflow = Overflow::unpack(segment.page, segment.used);
        let IndexParameters { precision, ahead, .. } = self.parameters;
        Hint::of(segment.knowledge, overflow, precision, home, ahead)
    }

    /// Returns what the index contains about an object.
    pub fn lookup(&mut self, key: Key) -> Cached<'_> {
        let Some(entry) = self.find(key) else { return Cached::Unknown };
        self.entries[entry].recent = true;
        self.cached(entry)
    }

    /// The version and the length of an object's cached value.
    pub fn known(&self, key: Key) -> Option<(Version, usize)> {
        let entry = &self.entries[self.find(key)?];
        match entry.content {
            Content::Value { length } => Some((entry.version, length.into())),
            Content::Unknown | Content::Absent => None,
        }
    }

    /// The version with which this object is read if the table does not have it: that of the latest deletion
    /// in its segment.
    pub fn absent(&self, key: Key) -> Version {
        self.segments[self.layout.segment(key.bits()) as usize].deletion
    }

    /// The holder of an object's lock.
    pub fn holder(&self, key: Key) -> Option<T> {
        self.entries[self.find(key)?].lock
    }

    /// Locks an object for `holder`. It is no error if `holder` has locked it already.
    ///
    /// # Errors
    /// If another holder has locked it, or no entry is free.
    pub fn lock(&mut self, key: Key, holder: T) -> Result<(), Refused<T>> {
        let entry = self.find_or_insert(key).ok_or(Refused::Full)?;
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

    /// Releases the lock of an object if `holder` has it, and returns whether it had.
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

    /// Reserves an entry for the result of a read of the table. Returns false if no entry is free. Then the
    /// result is valid as well, but it is not cached.
    pub fn expect(&mut self, key: Key) -> bool {
        let Some(entry) = self.find_or_insert(key) else { return false };
        let Some(expected) = self.entries[entry].expected.checked_add(1) else { return false };
        self.entries[entry].expected = expected;
        true
    }

    /// Ends an expectation with the result of the read (`None`: the object is absent). Returns what the index
    /// contains now, which is newer than the result if the object was committed meanwhile.
    ///
    /// # Panics
    /// If [`Index::expect`] has not reserved an entry.
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

    /// Enters a committed write of a locked object (`None`: a deletion), and pins it until the host has
    /// applied it.
    ///
    /// # Panics
    /// If the object is not locked, or has a higher version already.
    pub fn commit(&mut self, key: Key, version: Version, value: Option<&[u8]>) {
        let entry = self.pin(key, version);
        self.set(entry, value.map(|value| (version, value)));
        self.entries[entry].version = version;
        if value.is_none() {
            let segment = &mut self.segments[self.layout.segment(key.bits()) as usize];
            segment.deletion = segment.deletion.max(version);
        }
    }

    /// Enters a committed write that is a difference to the cached value.
    ///
    /// # Errors
    /// If there is no cached value, or it is not the one that the difference applies to.
    ///
    /// # Panics
    /// As [`Index::commit`].
    pub fn change(
        &mut self,
        key: Key,
        version: Version,
        difference: &Difference<'_>,
    ) -> Result<(), Mismatch> {
        let at = self.pin(key, version);
        let entry = &mut self.entries[at];
        let Content::Value { length } = entry.content else { return Err(Mismatch) };
        let value = &mut self.values[at * self.parameters.value_bytes_max..][..length.into()];
        difference.apply(Some(entry.version), value)?;
        entry.version = version;
        Ok(())
    }

    /// Pins the entry of a written object until the host has applied the write. If a record names an object
    /// twice, both writes have the same version.
    fn pin(&mut self, key: Key, version: Version) -> usize {
        let at = self.find(key).expect("a committed object has an entry");
        let entry = &mut self.entries[at];
        assert!(entry.lock.is_some(), "what is written is locked");
        assert!(entry.content == Content::Unknown || entry.version <= version, "versions of a key grow");
        entry.pins = entry.pins.checked_add(1).expect("commits are bounded by the log");
        at
    }

    /// Whether an object has not changed since the host read it at `version` (zero: absent) from the table,
    /// applied up to log position `applied`. Commits are pinned until the host has applied them. So if the
    /// index has nothing of an object, the table had its latest version, unless a write of the segment was
    /// applied after that read.
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

    /// The host has applied one write of this object, and the log up to `applied`. The reports that came with
    /// this were processed.
    ///
    /// # Panics
    /// If the object was not pinned.
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

    /// Number of commits of this object that the host has not applied.
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

    /// Frees an entry at once if it holds no information and nothing keeps it.
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

    fn find_or_insert(&mut self, key: Key) -> Option<usize> {
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

    /// The next evictable entry under the clock hand. Among the entries that the hand examines, those that
    /// were not used lately are preferred.
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
