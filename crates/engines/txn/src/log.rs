//! A node's log: the writes of all shards that it replicates, in the order of arrival.
//!
//! The log is a ring in the host's memory, with a copy of the same bytes in the card's. A position counts
//! bytes since the beginning; its offset is `position mod size`. A record is *durable* when the host's memory
//! has it, and *decided* when the verdict on its attempt is known. The host applies the durable, decided
//! prefix in order, and then the space is reused. The order of arrival is also the order of each key's
//! versions: a later write locks the key after the earlier write's lock was released, and by then all
//! replicas had the earlier record.
//!
//! ```text
//! record   0 length(4)   4 verdict(1) shard(1) part(1) parts(1)   8 id(8)   16 shards(2)   18 count(1) { as in Log }
//!          length: of the whole record, a multiple of 16. verdict: 2 if the record is not to be applied.
//!          A filler of verdict 2 occupies the space between the last record that fits and the end of the ring.
//! ```

use std::collections::VecDeque;
use std::mem::take;

use weft_waist::Memory;

use crate::key::Key;
use crate::message::{Item, List, Malformed, Reader, RecordPart, Verdict, Write};
use crate::room::Demand;
use crate::transaction::TransactionId;

/// Alignment of records, in bytes.
pub const ALIGN: usize = 16;
const VERDICT: usize = 4;
/// Bytes of a record that precede its writes.
const HEAD_BYTES: usize = 19;

/// One record in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub position: u64,
    pub length: usize,
    /// The attempt, shard and part of the record; `None` for a filler.
    pub place: Option<RecordPart>,
    /// The host's memory has the record with its verdict.
    pub copied: bool,
    /// The verdict changed while the record was being copied to the host, so the record is to be copied
    /// again.
    pub again: bool,
    pub verdict: Verdict,
    /// Whether the primary's index has pinned the writes.
    pub pinned: bool,
    /// Number of entries of [`Log::keys`] that belong to this record.
    keys: usize,
    /// Room in the table that the writes may take.
    demand: Demand,
}

/// A decoded record.
pub(crate) struct Record<'a> {
    /// Bytes of the whole record.
    pub length: usize,
    /// The content; `None` if it is not to be applied.
    pub content: Option<RecordContent<'a>>,
}

/// The content of a record.
pub(crate) struct RecordContent<'a> {
    pub place: RecordPart,
    /// All shards that the attempt writes.
    pub shards: u16,
    pub writes: List<'a, Write<'a>>,
}

impl<'a> Record<'a> {
    /// The writes that are to be applied.
    pub fn writes(&self) -> impl Iterator<Item = Write<'a>> {
        self.content.iter().flat_map(|content| content.writes.iter())
    }
}

/// Encodes a record for [`Log::append`].
pub(crate) fn encode<'a, T: Item<'a>>(
    out: &mut Vec<u8>,
    place: &RecordPart,
    shards: u16,
    writes: impl Iterator<Item = T>,
) {
    out.clear();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[Verdict::Undecided as u8, place.shard as u8, place.part, place.parts]);
    out.extend_from_slice(&place.id.bits().to_be_bytes());
    out.extend_from_slice(&shards.to_be_bytes());
    crate::message::write_list(out, writes);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    let length = out.len() as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
}

/// Bytes of a record whose writes take `writes` bytes.
pub(crate) const fn length(writes: usize) -> usize {
    (HEAD_BYTES + writes).next_multiple_of(ALIGN)
}

/// The record at a position of the ring `ring`, which has one there.
///
/// # Panics
/// If it has none.
pub fn record_at(ring: &[u8], position: u64) -> &[u8] {
    let offset = (position % ring.len() as u64) as usize;
    let length = u32::from_be_bytes(ring[offset..offset + 4].try_into().expect("four bytes")) as usize;
    assert!(
        length.is_multiple_of(ALIGN) && length > 0 && offset + length <= ring.len(),
        "a record of the log"
    );
    &ring[offset..offset + length]
}

/// The attempt of a record, unless the record is not to be applied.
pub fn attempt_of(record: &[u8]) -> Option<TransactionId> {
    parse(record).ok()?.content.map(|content| content.place.id)
}

/// Decodes the record at the start of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Record<'_>, Malformed> {
    let mut reader = Reader(bytes);
    let length = reader.u32()? as usize;
    let verdict = reader.u8()?;
    if verdict == Verdict::Aborted as u8 {
        return Ok(Record { length, content: None });
    }
    let (shard, part, parts) = (reader.shard()?, reader.u8()?, reader.u8()?);
    let id = TransactionId::from_bits(reader.u64()?).ok_or(Malformed::Field("identifier"))?;
    let (shards, writes) = (reader.u16()?, List::read(&mut reader)?);
    let place = RecordPart { id, shard, part, parts };
    Ok(Record { length, content: Some(RecordContent { place, shards, writes }) })
}

/// The host's copy of a record has an outdated verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerdictOutdated;

/// The card's side of the log.
#[derive(Debug)]
pub(crate) struct Log {
    /// Address of the ring in the card's memory.
    near: usize,
    capacity: usize,
    tail: u64,
    applied: u64,
    entries: VecDeque<Entry>,
    /// Written keys of the records that this node may have pinned, in log order. With them, unpinning need
    /// not read the records again.
    keys: VecDeque<Key>,
    /// Number of leading entries that are durable and decided.
    ready: usize,
    /// Position up to which the host's memory has had all records.
    stored: u64,
    /// Position up to which the host's disk has all records; the end of all positions if it has no disk.
    on_disk: u64,
    /// Room in the table that all records may take, aborted ones excepted.
    demand: Demand,
}

impl Log {
    /// An empty log. `has_disk`: records are durable only when the host's disk has them.
    pub fn new(near: usize, capacity: usize, has_disk: bool) -> Self {
        Self {
            near,
            capacity,
            tail: 0,
            applied: 0,
            entries: VecDeque::new(),
            keys: VecDeque::new(),
            ready: 0,
            stored: 0,
            on_disk: if has_disk { 0 } else { u64::MAX },
            demand: Demand::default(),
        }
    }

    /// Address in the card's memory of a log position.
    pub fn near(&self, position: u64) -> usize {
        self.near + self.offset(position)
    }

    /// Offset in the ring of a log position.
    pub fn offset(&self, position: u64) -> usize {
        (position % self.capacity as u64) as usize
    }

    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// Position after the last record.
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// Room in the table that all records together may take, if all of them are applied.
    pub const fn demand(&self) -> Demand {
        self.demand
    }

    /// Position up to which the host may apply records.
    pub fn decided(&self) -> u64 {
        match self.ready.checked_sub(1) {
            None => self.applied,
            Some(last) => self.entries[last].position + self.entries[last].length as u64,
        }
    }

    /// Whether there is room for records of `all` bytes, the longest of which has `longest`, wherever the
    /// ring wraps.
    pub const fn has_room_for(&self, (all, longest): (usize, usize)) -> bool {
        (self.tail - self.applied) as usize + all + longest <= self.capacity
    }

    /// Whether there is room for a record of `length` bytes.
    pub fn has_room(&self, length: usize) -> bool {
        let to_end = self.capacity - self.offset(self.tail);
        let needed = if length > to_end { to_end + length } else { length };
        (self.tail - self.applied) as usize + needed <= self.capacity
    }

    /// Appends a record, for which there must be room. If the record would cross the end of the ring, a
    /// filler precedes it. Calls `write` for each entry, whose bytes the caller must copy to the host.
    /// `keys`: the written keys, if this node may pin them. `demand`: the room in the table that the writes
    /// may take.
    pub fn append(
        &mut self,
        memory: &mut Memory,
        record: &[u8],
        place: RecordPart,
        demand: Demand,
        keys: impl Iterator<Item = Key>,
        mut write: impl FnMut(&Entry),
    ) -> u64 {
        assert!(self.has_room(record.len()), "the caller has looked");
        let to_end = self.capacity - self.offset(self.tail);
        if record.len() > to_end {
            let mut filler = [0; ALIGN];
            filler[..4].copy_from_slice(&(to_end as u32).to_be_bytes());
            filler[VERDICT] = Verdict::Aborted as u8;
            memory.write(self.near(self.tail), &filler);
            let entry = Entry {
                position: self.tail,
                length: to_end,
                place: None,
                copied: false,
                again: false,
                verdict: Verdict::Aborted,
                pinned: false,
                keys: 0,
                demand: Demand::default(),
            };
            write(&entry);
            self.entries.push_back(entry);
            self.tail += to_end as u64;
        }
        let position = self.tail;
        memory.write(self.near(position), record);
        let before = self.keys.len();
        self.keys.extend(keys);
        let entry = Entry {
            position,
            length: record.len(),
            place: Some(place),
            copied: false,
            again: false,
            verdict: Verdict::Undecided,
            pinned: false,
            keys: self.keys.len() - before,
            demand,
        };
        self.demand = self.demand.plus(demand);
        write(&entry);
        self.entries.push_back(entry);
        self.tail += record.len() as u64;
        position
    }

    /// Appends a record that the host's disk and memory have already.
    pub fn restore(&mut self, memory: &mut Memory, record: &[u8], place: RecordPart) -> u64 {
        let position = self.append(memory, record, place, Demand::default(), std::iter::empty(), |_| {});
        self.find(position).expect("it was appended").copied = true;
        (self.stored, self.on_disk) = (self.tail, self.tail);
        position
    }

    /// Bytes of a record.
    pub fn length(&mut self, position: u64) -> usize {
        self.find(position).expect("it is not applied yet").length
    }

    fn find(&mut self, position: u64) -> Option<&mut Entry> {
        let index = self.entries.binary_search_by_key(&position, |entry| entry.position).ok()?;
        Some(&mut self.entries[index])
    }

    /// A copy of a record to the host has completed. Returns the record if it is durable now. `Err` if its
    /// verdict has changed meanwhile and must be copied too.
    pub fn note_copied(&mut self, position: u64) -> Result<Option<RecordPart>, VerdictOutdated> {
        let on_disk = self.on_disk;
        let entry = self.find(position).expect("what is not copied stays");
        if take(&mut entry.again) {
            return Err(VerdictOutdated);
        }
        entry.copied = true;
        let place = entry.place.filter(|_| position < on_disk);
        self.advance();
        Ok(place)
    }

    /// Position up to which the host's memory has all records, if that has grown since the last call.
    pub fn newly_stored(&mut self) -> Option<u64> {
        let before = self.stored;
        while let Some(entry) = self.find(self.stored).filter(|entry| entry.copied) {
            self.stored = entry.position + entry.length as u64;
        }
        (self.stored > before).then_some(self.stored)
    }

    /// Whether all records are durable, if the host has a disk.
    pub const fn is_on_disk(&self) -> bool {
        self.on_disk >= self.tail
    }

    /// The host's disk has all records up to a position. Calls `durable` for each record of which that is new.
    pub fn note_on_disk(&mut self, upto: u64, mut durable: impl FnMut(RecordPart)) {
        let first = self.entries.partition_point(|entry| entry.position < self.on_disk);
        for entry in self.entries.range(first..).take_while(|entry| entry.position < upto) {
            entry.place.into_iter().for_each(&mut durable);
        }
        self.on_disk = self.on_disk.max(upto);
        self.advance();
    }

    /// Whether a record is durable.
    pub fn is_durable(&mut self, position: u64) -> bool {
        let on_disk = self.on_disk;
        self.find(position).is_none_or(|entry| entry.copied && entry.position < on_disk)
    }

    /// Sets the verdict on a record. Returns whether the caller must now copy the head of the record to the
    /// host. The caller must do so if the record is aborted and no copy of it is outstanding. An outstanding
    /// copy might overwrite the new verdict, so in that case the head is copied after it.
    pub fn decide(&mut self, memory: &mut Memory, position: u64, committed: bool) -> bool {
        let near = self.near(position);
        let Some(entry) = self.find(position) else { return false };
        let mut copy = false;
        if entry.verdict == Verdict::Undecided {
            entry.verdict = if committed { Verdict::Committed } else { Verdict::Aborted };
            if !committed {
                let demand = take(&mut entry.demand);
                copy = take(&mut entry.copied);
                entry.again = !copy;
                memory.write(near + VERDICT, &[Verdict::Aborted as u8]);
                self.demand = self.demand.less(demand);
            }
        }
        self.advance();
        copy
    }

    /// Notes that the primary's index has pinned the writes of a record until the host has applied them.
    pub fn pin(&mut self, position: u64) {
        self.find(position).expect("it is not decided yet").pinned = true;
    }

    fn advance(&mut self) {
        while self.entries.get(self.ready).is_some_and(|entry| {
            entry.copied && entry.position < self.on_disk && entry.verdict != Verdict::Undecided
        }) {
            self.ready += 1;
        }
    }

    /// The host has applied everything before `upto`. Calls `released` for each entry whose space becomes
    /// free, with its keys.
    pub fn release(&mut self, upto: u64, mut released: impl FnMut(&Entry, &mut dyn Iterator<Item = Key>)) {
        while self.ready > 0
            && let Some(entry) = self.entries.front()
            && entry.position + entry.length as u64 <= upto
        {
            released(entry, &mut self.keys.drain(..entry.keys));
            self.applied = entry.position + entry.length as u64;
            self.demand = self.demand.less(entry.demand);
            self.entries.pop_front();
            self.ready -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::{Epoch, NodeId};

    use super::*;

    /// A copy to the host that is under way may carry the old verdict, and may complete after a copy that
    /// started later.
    #[test]
    fn a_verdict_is_copied_after_the_record_and_before_it_is_applied() {
        let id = TransactionId::new(NodeId::new(0).unwrap(), Epoch(1), 0);
        let place = RecordPart { id, shard: 0, part: 0, parts: 1 };
        let mut memory = Memory::new(1024);
        let mut log = Log::new(0, 1024, false);
        let mut record = Vec::new();
        encode(&mut record, &place, 1, std::iter::empty::<Write<'_>>());
        let first = log.append(&mut memory, &record, place, Demand::default(), std::iter::empty(), |_| {});
        let second = log.append(&mut memory, &record, place, Demand::default(), std::iter::empty(), |_| {});
        assert_eq!(log.note_copied(second), Ok(Some(place)));
        // The first record is still being copied; the second is not.
        assert!(!log.decide(&mut memory, first, false));
        assert!(log.decide(&mut memory, second, false));
        assert_eq!(log.note_copied(second), Ok(Some(place)));
        assert_eq!(log.note_copied(first), Err(VerdictOutdated));
        assert_eq!(log.decided(), 0, "the host would apply it");
        assert_eq!(log.note_copied(first), Ok(Some(place)));
        assert_eq!(log.decided(), log.tail());
    }

    /// The host's memory gets copies in any order; the disk gets records in the order of the log.
    #[test]
    fn with_a_disk_a_record_is_durable_when_the_disk_has_all_up_to_it() {
        let id = TransactionId::new(NodeId::new(0).unwrap(), Epoch(1), 0);
        let place = RecordPart { id, shard: 0, part: 0, parts: 1 };
        let mut memory = Memory::new(1024);
        let mut log = Log::new(0, 1024, true);
        let mut record = Vec::new();
        encode(&mut record, &place, 1, std::iter::empty::<Write<'_>>());
        let [first, second] = [0, 1]
            .map(|_| log.append(&mut memory, &record, place, Demand::default(), std::iter::empty(), |_| {}));
        assert_eq!(log.note_copied(second), Ok(None));
        assert_eq!(log.newly_stored(), None, "the first one is missing");
        assert_eq!(log.note_copied(first), Ok(None));
        assert_eq!((log.newly_stored(), log.newly_stored()), (Some(log.tail()), None));
        log.decide(&mut memory, first, true);
        assert_eq!((log.decided(), log.is_on_disk(), log.is_durable(first)), (0, false, false));
        let mut durable = Vec::new();
        log.note_on_disk(second, |place| durable.push(place));
        assert_eq!((durable.len(), log.decided(), log.is_on_disk()), (1, second, false));
        log.note_on_disk(log.tail(), |place| durable.push(place));
        assert_eq!((durable.len(), log.is_on_disk(), log.is_durable(second)), (2, true, true));
        // An aborted record waits for its verdict in the host's memory, not for the disk again.
        assert!(log.decide(&mut memory, second, false));
        assert_eq!(log.decided(), second);
        assert_eq!(log.note_copied(second), Ok(Some(place)));
        assert_eq!((log.newly_stored(), log.decided()), (None, log.tail()));
    }

    #[test]
    fn records_have_room_if_the_longest_may_also_leave_the_end_of_the_ring_empty() {
        let log = Log::new(0, 1024, false);
        assert!(log.has_room_for((512, 512)));
        assert!(!log.has_room_for((512, 513)));
        assert!(!log.has_room_for((1024, 8)));
    }
}
