//! A node's log: the writes of all shards that it replicates, in the order of their arrival.
//!
//! It is a ring in the host's memory, and the same bytes in the card's, at `position mod size`. A record is *durable*
//! when the host's memory has it and *decided* when the fate of its attempt is known. The host applies the durable,
//! decided prefix, in order; what it has applied is overwritten. The order of arrival is the order of the versions of
//! each key: a later write of a key locks it after the earlier one's lock was given back, which was after all
//! replicas had the earlier one's record.
//!
//! ```text
//! record   0 length(4)   4 verdict(1) shard(1) part(1) parts(1)   8 id(8)   16 shards(2)   18 count(1) { as in Log }
//!          length: of all of it, a multiple of 16. verdict: 2 if it is not to be applied. Behind the last record before the
//!          end of the ring stands a filler of verdict 2 up to the end.
//! ```

use std::collections::VecDeque;
use std::mem::take;

use weft_waist::Memory;

use crate::key::Key;
use crate::message::{Item, List, Malformed, Reader, RecordPart, Verdict, Write};
use crate::room::Demand;
use crate::transaction::TransactionId;

/// Every record begins at a multiple of so many bytes.
pub const ALIGN: usize = 16;
const VERDICT: usize = 4;
/// Bytes of a record before its writes.
const HEAD_BYTES: usize = 19;

/// One record in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub position: u64,
    pub length: usize,
    /// Its attempt and shard; `None` for a filler.
    pub place: Option<RecordPart>,
    pub durable: bool,
    /// The verdict has changed while the record was being copied to the host: it is to be copied once more.
    pub again: bool,
    pub verdict: Verdict,
    /// The primary's index has its writes pinned.
    pub pinned: bool,
    /// So many keys of the log's are its own.
    keys: usize,
    /// Effect of its writes on the room of the table.
    demand: Demand,
}

/// A record as it lies in the ring.
pub(crate) struct Record<'a> {
    /// Bytes of the whole record.
    pub length: usize,
    /// Its writes; `None` if they are not to be applied.
    pub writes: Option<List<'a, Write<'a>>>,
}

/// Writes a record for [`Log::append`].
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

/// Bytes of a record with `writes` bytes of writes.
pub(crate) const fn length(writes: usize) -> usize {
    (HEAD_BYTES + writes).next_multiple_of(ALIGN)
}

/// Reads the record at the beginning of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Record<'_>, Malformed> {
    let mut reader = Reader(bytes);
    let length = reader.u32()? as usize;
    let verdict = reader.u8()?;
    if verdict == Verdict::Aborted as u8 {
        return Ok(Record { length, writes: None });
    }
    reader.bytes(3)?;
    TransactionId::from_bits(reader.u64()?).ok_or(Malformed::Field("identifier"))?;
    reader.u16()?;
    Ok(Record { length, writes: Some(List::read(&mut reader)?) })
}

/// The verdict in the host's copy of a record is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VerdictOutdated;

/// The card's side of the log.
#[derive(Debug)]
pub(crate) struct Log {
    /// First byte of the ring in the card's memory.
    near: usize,
    capacity: usize,
    tail: u64,
    applied: u64,
    entries: VecDeque<Entry>,
    /// Written keys of the records that this node may have pinned, in their order: unpinning reads nothing again.
    keys: VecDeque<Key>,
    /// So many of the entries are durable and decided, and all before them.
    ready: usize,
    /// The same of all entries that are not aborted.
    demand: Demand,
}

impl Log {
    pub fn new(near: usize, capacity: usize) -> Self {
        Self {
            near,
            capacity,
            tail: 0,
            applied: 0,
            entries: VecDeque::new(),
            keys: VecDeque::new(),
            ready: 0,
            demand: Demand::default(),
        }
    }

    /// Address of a position in the card's memory.
    pub fn near(&self, position: u64) -> usize {
        self.near + self.offset(position)
    }

    /// Offset of a position in the ring.
    pub fn offset(&self, position: u64) -> usize {
        (position % self.capacity as u64) as usize
    }

    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// The end of all that was appended.
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// Demand on the room of the table by all records that may yet be applied.
    pub const fn demand(&self) -> Demand {
        self.demand
    }

    /// The end of what the host may apply.
    pub fn decided(&self) -> u64 {
        match self.ready.checked_sub(1) {
            None => self.applied,
            Some(last) => self.entries[last].position + self.entries[last].length as u64,
        }
    }

    /// Whether records of so many bytes in all, the longest of so many, fit now, wherever the ring ends.
    pub const fn has_room_for(&self, (all, longest): (usize, usize)) -> bool {
        (self.tail - self.applied) as usize + all + longest <= self.capacity
    }

    /// Whether a record of so many bytes fits now.
    pub fn has_room(&self, length: usize) -> bool {
        let to_end = self.capacity - self.offset(self.tail);
        let needed = if length > to_end { to_end + length } else { length };
        (self.tail - self.applied) as usize + needed <= self.capacity
    }

    /// Appends a record that has room, with a filler before it if it would not end before the ring does. Calls
    /// `write` for each entry, whose bytes are to be brought to the host. `keys`: what it writes, if this node may
    /// pin it. `demand`: what that may do to the room of the table.
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
                durable: false,
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
            durable: false,
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

    /// The bytes of a record.
    pub fn length(&mut self, position: u64) -> usize {
        self.find(position).expect("it is not applied yet").length
    }

    fn find(&mut self, position: u64) -> Option<&mut Entry> {
        let index = self.entries.binary_search_by_key(&position, |entry| entry.position).ok()?;
        Some(&mut self.entries[index])
    }

    /// A copy of a record to the host has ended. It is durable then, unless its verdict must be copied once more,
    /// which `Err` says.
    pub fn make_durable(&mut self, position: u64) -> Result<Option<RecordPart>, VerdictOutdated> {
        let entry = self.find(position).expect("what is not durable stays");
        if take(&mut entry.again) {
            return Err(VerdictOutdated);
        }
        entry.durable = true;
        let place = entry.place;
        self.advance();
        Ok(place)
    }

    /// Whether the host's memory has a record.
    pub fn is_durable(&mut self, position: u64) -> bool {
        self.find(position).is_none_or(|entry| entry.durable)
    }

    /// The fate of a record's attempt is known. Returns whether the head of the record is to be copied to the host
    /// now: an aborted one, of which no copy is under way that might arrive later.
    pub fn decide(&mut self, memory: &mut Memory, position: u64, committed: bool) -> bool {
        let near = self.near(position);
        let Some(entry) = self.find(position) else { return false };
        let mut copy = false;
        if entry.verdict == Verdict::Undecided {
            entry.verdict = if committed { Verdict::Committed } else { Verdict::Aborted };
            if !committed {
                let demand = take(&mut entry.demand);
                copy = take(&mut entry.durable);
                entry.again = !copy;
                memory.write(near + VERDICT, &[Verdict::Aborted as u8]);
                self.demand = self.demand.less(demand);
            }
        }
        self.advance();
        copy
    }

    /// The primary's index holds the writes of a record until the host has applied them.
    pub fn pin(&mut self, position: u64) {
        self.find(position).expect("it is not decided yet").pinned = true;
    }

    fn advance(&mut self) {
        while self
            .entries
            .get(self.ready)
            .is_some_and(|entry| entry.durable && entry.verdict != Verdict::Undecided)
        {
            self.ready += 1;
        }
    }

    /// The host has applied everything before `upto`. Calls `released` for each entry that is overwritten from now
    /// on, with its keys.
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

    /// A copy to the host that has begun may bring the former verdict, and end after one that was begun later.
    #[test]
    fn a_verdict_is_copied_after_the_record_and_before_it_is_applied() {
        let id = TransactionId::new(NodeId::new(0).unwrap(), Epoch(1), 0);
        let place = RecordPart { id, shard: 0, part: 0, parts: 1 };
        let mut memory = Memory::new(1024);
        let mut log = Log::new(0, 1024);
        let mut record = Vec::new();
        encode(&mut record, &place, 1, std::iter::empty::<Write<'_>>());
        let first = log.append(&mut memory, &record, place, Demand::default(), std::iter::empty(), |_| {});
        let second = log.append(&mut memory, &record, place, Demand::default(), std::iter::empty(), |_| {});
        assert_eq!(log.make_durable(second), Ok(Some(place)));
        // The first is still being copied, the second is not.
        assert!(!log.decide(&mut memory, first, false));
        assert!(log.decide(&mut memory, second, false));
        assert_eq!(log.make_durable(second), Ok(Some(place)));
        assert_eq!(log.make_durable(first), Err(VerdictOutdated));
        assert_eq!(log.decided(), 0, "the host would apply it");
        assert_eq!(log.make_durable(first), Ok(Some(place)));
        assert_eq!(log.decided(), log.tail());
    }
}
