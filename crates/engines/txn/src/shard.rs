//! The tables of a node: held by the engine itself, or in the host's memory behind an index on the card.

use weft_waist::{Epoch, Memory};

use crate::copy::PageWriter;
use crate::key::{Key, Version};
use crate::linked::{Linked, LinkedShape};
use crate::message::{Content, Cursor, Mismatch, Put, Write};
use crate::parameters::Parameters;
use crate::plain::Plain;
use crate::procedure::VALUE_MAX;
use crate::room::Room;
use crate::store::{Cached, Index, IndexParameters, Layout, Lookup, Next, Region, Report, Shape};
use crate::transaction::TransactionId;

/// Where the tables are, as seen from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The engine runs on the host and holds the tables in its own memory.
    Host,
    /// As `Host`, at fixed addresses, so that peers can access the tables with verbs.
    Linked {
        /// The number of this node. The table of its own shard comes first.
        node: usize,
        /// Sizes of each shard's tables.
        shape: LinkedShape,
    },
    /// The engine runs on a card. The table is in the host's memory, and the card has an index of it (Xenic
    /// 4.1).
    Card {
        /// Sizes of the table, which holds all shards that the node replicates.
        shape: Shape,
        /// Parameters of the index.
        index: IndexParameters,
        /// First address of the table in the host's memory: a multiple of 64.
        table_address: u64,
    },
}

/// A copy from the host's memory to the card's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub host: u64,
    pub near: u64,
    pub length: u32,
}

/// Result of a look-up without a copy from the host's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachedLookup {
    /// The version, and the length of the value, which was appended to the values; `None` if the object is
    /// absent.
    Known(Version, Option<usize>),
    /// The engine cannot answer; the host's table must be read.
    Miss,
}

/// Result of a look-up step, after a copy from the host's memory has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupStep {
    /// As [`CachedLookup::Known`].
    Known(Version, Option<usize>),
    /// Another copy is needed.
    Read(Read),
}

/// A look-up in the host's table that is under way.
#[derive(Clone, Copy, Debug)]
struct PendingLookup {
    operation: usize,
    at: usize,
    key: Key,
    lookup: Lookup,
    length: usize,
    /// Whether the index keeps an entry for the result.
    expected: bool,
}

/// The table in the host's memory, as the card sees it.
#[derive(Debug)]
struct HostTable {
    layout: Layout,
    address: u64,
    index: Index<TransactionId>,
    /// Free room of the table. Logged records that are not applied yet are not subtracted.
    room: Room,
    pending_lookups: Vec<Option<PendingLookup>>,
    free: Vec<usize>,
    /// Address in the card's memory of the first landing buffer for copies, and the distance between buffers.
    landing: usize,
    stride: usize,
}

#[derive(Debug)]
enum Tables {
    InEngine(Plain),
    Linked(Linked),
    InHostMemory(Box<HostTable>),
}

/// The tables of a node.
#[derive(Debug)]
pub struct Shards {
    placement: Placement,
    tables: Tables,
    /// The lowest version with which absent objects are read.
    floor: Version,
}

/// Bytes of the longest copy that a look-up needs.
fn stride(shape: &Shape) -> usize {
    let window = shape.displacement.unwrap_or(16) as usize + 2;
    let slots = window.max(shape.page_slots as usize + 1) * shape.slot_bytes + 64;
    slots.max(2 * VALUE_MAX).next_multiple_of(64)
}

impl Shards {
    pub(crate) fn new(parameters: &Parameters, placement: Placement) -> Self {
        let tables = match placement {
            Placement::Host => Tables::InEngine(Plain::default()),
            Placement::Linked { node, shape } => {
                let base = parameters.log_bytes;
                Tables::Linked(Linked::new(&shape, node, parameters.nodes, parameters.replicas, base))
            }
            Placement::Card { shape, index, table_address } => {
                let layout = Layout::new(shape).expect("the shape of a table");
                assert!(
                    index.value_bytes_max >= shape.value_bytes_max,
                    "the index takes every value of the table"
                );
                Tables::InHostMemory(Box::new(HostTable {
                    layout,
                    address: table_address,
                    index: Index::new(layout, index),
                    room: Room::of_empty(&layout),
                    pending_lookups: vec![None; parameters.operations],
                    free: (0..parameters.operations).rev().collect(),
                    landing: parameters.log_bytes,
                    stride: stride(&shape),
                }))
            }
        };
        Self { placement, tables, floor: Version::ZERO }
    }

    /// Bytes that the tables take in the engine's memory, after the log.
    pub(crate) fn memory_bytes(parameters: &Parameters, placement: &Placement) -> usize {
        match placement {
            Placement::Host => 0,
            Placement::Linked { shape, .. } => {
                shape.bytes() * parameters.replicas + crate::wiring::memory_bytes(parameters, shape)
            }
            Placement::Card { shape, .. } => parameters.operations * stride(shape),
        }
    }

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// Whether the engine itself holds the tables.
    pub(crate) fn are_in_engine(&self) -> bool {
        !matches!(self.tables, Tables::InHostMemory(_))
    }

    pub(crate) fn load(&mut self, put: &Put<'_>) {
        match &mut self.tables {
            Tables::InEngine(plain) => plain.put(put),
            Tables::Linked(_) => panic!("these tables are in the engine's memory"),
            Tables::InHostMemory(_) => panic!("the host loads its own table"),
        }
    }

    pub(crate) fn learn(&mut self, report: &Report) {
        if let Tables::InHostMemory(far) = &mut self.tables {
            far.index.report(report);
        }
    }

    /// Whether the card's index agrees with this report.
    pub fn knows(&self, report: &Report) -> bool {
        matches!(&self.tables, Tables::InHostMemory(far) if far.index.knows(report))
    }

    pub(crate) fn learn_room(&mut self, room: Room) {
        if let Tables::InHostMemory(far) = &mut self.tables {
            far.room = room;
        }
    }

    /// Free room of the host's table. Logged records that are not applied yet are not subtracted. `None` if
    /// the engine holds the tables itself: those can grow.
    pub fn room(&self) -> Option<Room> {
        match &self.tables {
            Tables::InHostMemory(far) => Some(far.room),
            Tables::InEngine(_) | Tables::Linked(_) => None,
        }
    }

    /// The most room in the host's table that a write of `length` bytes may take. `former`: the length of the
    /// value that it replaces, if there is one.
    pub(crate) fn needs(&self, length: usize, former: Option<usize>) -> Room {
        match &self.tables {
            Tables::InHostMemory(far) => Room::for_write(far.layout.inline_bytes(), length, former),
            Tables::InEngine(_) | Tables::Linked(_) => Room::default(),
        }
    }

    /// Whether a value is short enough for the tables. A deletion always is.
    pub(crate) fn can_hold(&self, value: Option<&[u8]>) -> bool {
        let longest = match &self.tables {
            Tables::InHostMemory(far) => far.layout.shape().value_bytes_max,
            Tables::InEngine(_) | Tables::Linked(_) => VALUE_MAX,
        };
        value.is_none_or(|value| value.len() <= longest)
    }

    pub(crate) fn warm(&mut self, key: Key, value: &[u8]) {
        if let Tables::InHostMemory(far) = &mut self.tables
            && far.index.expect(key)
        {
            far.index.fill(key, Some((crate::LOADED, value)));
        }
    }

    /// The tables that peers access with verbs, if the node has such tables.
    pub(crate) fn linked(&self) -> Option<&Linked> {
        match &self.tables {
            Tables::Linked(linked) => Some(linked),
            _ => None,
        }
    }

    /// Calls `each` with every object in the engine's memory. For [`Placement::Linked`] only.
    pub fn for_each(&self, memory: &[u8], each: impl FnMut(Key, Version, &[u8])) {
        if let Tables::Linked(linked) = &self.tables {
            linked.for_each(memory, each);
        }
    }

    /// Whether any object in the engine's memory is locked. For [`Placement::Linked`] only.
    pub fn holds_locks(&self, memory: &Memory) -> bool {
        let mut locked = false;
        if let Tables::Linked(linked) = &self.tables {
            linked.for_each(memory.image(), |key, _, _| locked |= linked.holder(memory, key).is_some());
        }
        locked
    }

    /// All objects that exist. For [`Placement::Host`] only.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Version, &[u8])> {
        let near = match &self.tables {
            Tables::InEngine(plain) => Some(plain.iter()),
            Tables::Linked(_) | Tables::InHostMemory(_) => None,
        };
        near.into_iter().flatten()
    }

    pub(crate) fn holder(&self, memory: &Memory, key: Key) -> Option<TransactionId> {
        match &self.tables {
            Tables::InEngine(plain) => plain.holder(key),
            Tables::Linked(linked) => linked.holder(memory, key),
            Tables::InHostMemory(far) => far.index.holder(key),
        }
    }

    /// Locks a key that no attempt has locked. Returns `false` if there is no room for another lock.
    pub(crate) fn lock(&mut self, memory: &mut Memory, key: Key, id: TransactionId) -> bool {
        match &mut self.tables {
            Tables::InEngine(plain) => {
                plain.lock(key, id);
                true
            }
            Tables::Linked(linked) => linked.lock(memory, key, id),
            Tables::InHostMemory(far) => far.index.lock(key, id).is_ok(),
        }
    }

    pub(crate) fn unlock(&mut self, memory: &mut Memory, key: Key, id: TransactionId) {
        match &mut self.tables {
            Tables::Linked(linked) => linked.unlock(memory, key, id),
            Tables::InEngine(plain) => plain.unlock(key, id),
            Tables::InHostMemory(far) => {
                far.index.unlock(key, id);
            }
        }
    }

    /// Looks a key up without a copy from the host's memory, and appends its value to `values`.
    pub(crate) fn look_up_cached(&mut self, memory: &Memory, key: Key, values: &mut Vec<u8>) -> CachedLookup {
        match &mut self.tables {
            Tables::Linked(linked) => {
                let (version, length) = linked.get(memory, key, values);
                CachedLookup::Known(version, length)
            }
            Tables::InEngine(plain) => {
                let (version, value) = plain.get(key);
                values.extend_from_slice(value.unwrap_or_default());
                // This node does not know of deletions from before it held the shard, so the floor applies.
                let version = if value.is_none() { version.max(self.floor) } else { version };
                CachedLookup::Known(version, value.map(<[u8]>::len))
            }
            Tables::InHostMemory(far) => match far.index.lookup(key) {
                Cached::Value(version, value) => {
                    values.extend_from_slice(value);
                    CachedLookup::Known(version, Some(value.len()))
                }
                Cached::Absent(version) => CachedLookup::Known(version.max(self.floor), None),
                Cached::Unknown => CachedLookup::Miss,
            },
        }
    }

    /// Whether a key has not changed since the host read it: the host's table, applied up to log position
    /// `applied`, had it at `version` (zero: absent).
    pub(crate) fn is_current(&self, key: Key, version: Version, applied: u64) -> bool {
        match &self.tables {
            Tables::InHostMemory(far) => far.index.is_current(key, version, applied),
            Tables::InEngine(_) | Tables::Linked(_) => false,
        }
    }

    /// The version with which an absent key is read at present.
    pub(crate) fn absent(&self, key: Key) -> Version {
        match &self.tables {
            Tables::InHostMemory(far) => far.index.absent(key).max(self.floor),
            Tables::InEngine(_) | Tables::Linked(_) => self.floor,
        }
    }

    /// Starts a look-up in the host's table, for the `at`-th key of an operation. Returns the tag of the copy
    /// and what to copy. `None` if too many look-ups are under way.
    pub(crate) fn seek(&mut self, key: Key, operation: usize, at: usize) -> Option<(u64, Read)> {
        let Tables::InHostMemory(far) = &mut self.tables else { panic!("what is near is not missed") };
        let number = far.free.pop()?;
        let expected = far.index.expect(key);
        let (lookup, region) = Lookup::new(&far.layout, key, far.index.hint(key));
        far.pending_lookups[number] =
            Some(PendingLookup { operation, at, key, lookup, length: region.length, expected });
        Some((number as u64, far.read(number, &region)))
    }

    /// The operation, and the index of its key, that a copy belongs to.
    pub(crate) fn pending(&self, tag: u64) -> (usize, usize) {
        let Tables::InHostMemory(far) = &self.tables else { panic!("what is near is not missed") };
        let pending = far.pending_lookups[tag as usize].as_ref().expect("a copy was asked for");
        (pending.operation, pending.at)
    }

    /// Handles the bytes of a copy. If the look-up is complete, the value is appended to `values`.
    pub(crate) fn sought(&mut self, memory: &mut Memory, tag: u64, values: &mut Vec<u8>) -> LookupStep {
        let Tables::InHostMemory(far) = &mut self.tables else { panic!("what is near is not missed") };
        let number = tag as usize;
        let mut pending = far.pending_lookups[number].expect("a copy was asked for");
        let bytes = memory.read(far.landing + number * far.stride, pending.length);
        let mut value = [0; VALUE_MAX];
        let object = match pending.lookup.take(&far.layout, bytes, &mut value) {
            Next::Read(region) => {
                pending.length = region.length;
                far.pending_lookups[number] = Some(pending);
                return LookupStep::Read(far.read(number, &region));
            }
            Next::Found(version, length) => Some((version, &value[..length])),
            Next::Absent => None,
        };
        far.pending_lookups[number] = None;
        far.free.push(number);
        let absent = far.index.absent(pending.key);
        let cached = if pending.expected {
            far.index.fill(pending.key, object)
        } else {
            object.map_or(Cached::Absent(absent), |(version, value)| Cached::Value(version, value))
        };
        match cached {
            Cached::Value(version, value) => {
                values.extend_from_slice(value);
                LookupStep::Known(version, Some(value.len()))
            }
            Cached::Absent(version) => LookupStep::Known(version.max(self.floor), None),
            Cached::Unknown => unreachable!("it was just told"),
        }
    }

    /// The version and the length of a value that the engine can read without a copy from the host's memory.
    pub(crate) fn known(&self, key: Key) -> Option<(Version, usize)> {
        match &self.tables {
            Tables::InEngine(plain) => {
                let (version, value) = plain.get(key);
                Some((version, value?.len()))
            }
            Tables::InHostMemory(far) => far.index.known(key),
            // Peers write these tables, so the version may change at any time.
            Tables::Linked(_) => None,
        }
    }

    /// Whether the primary can make a write to a locked key visible at once. For a difference it needs the
    /// former value, which then stays available as long as the key is locked.
    pub(crate) fn can_show(&self, write: &Write<'_>) -> bool {
        match &write.content {
            Content::Whole(_) => true,
            Content::Changed(difference) => {
                self.known(write.key).is_some_and(|(version, length)| difference.fits(Some(version), length))
            }
        }
    }

    /// Makes a committed write visible at the primary, which [can show](Shards::can_show) it and holds the
    /// key's lock. A second call with the same write changes nothing.
    pub(crate) fn commit(&mut self, memory: &mut Memory, write: &Write<'_>) {
        match (&mut self.tables, &write.content) {
            (Tables::InHostMemory(far), Content::Whole(value)) => {
                far.index.commit(write.key, write.version, *value)
            }
            (Tables::InHostMemory(far), Content::Changed(difference)) => {
                let _ = far.index.change(write.key, write.version, difference);
            }
            (Tables::InEngine(_) | Tables::Linked(_), _) => {
                let _ = self.apply_write(memory, write);
            }
        }
    }

    /// Applies a write to tables that the engine itself holds.
    pub(crate) fn apply(&mut self, memory: &mut Memory, put: &Put<'_>) {
        match &mut self.tables {
            Tables::InEngine(plain) => plain.put(put),
            Tables::Linked(linked) => linked.put(memory, put),
            Tables::InHostMemory(_) => {}
        }
    }

    /// Applies a logged write to tables that the engine itself holds.
    ///
    /// # Errors
    /// If the write is a difference to another value than the tables have.
    pub(crate) fn apply_write(&mut self, memory: &mut Memory, write: &Write<'_>) -> Result<(), Mismatch> {
        let Content::Changed(difference) = &write.content else {
            write.whole().iter().for_each(|put| self.apply(memory, put));
            return Ok(());
        };
        let Tables::InEngine(plain) = &mut self.tables else { return Err(Mismatch) };
        plain.change(write.key, write.version, difference)
    }

    /// The host has applied a write that was committed at this card.
    pub(crate) fn unpin(&mut self, key: Key, applied: u64) {
        if let Tables::InHostMemory(far) = &mut self.tables {
            far.index.unpin(key, applied);
        }
    }

    /// Encodes a page of a shard. For [`Placement::Host`] only.
    pub(crate) fn write_page(&self, page: PageWriter<'_>, shard: usize, from: Cursor) {
        if let Tables::InEngine(plain) = &self.tables {
            page.fill(plain.of_shard(shard, from.key));
        }
    }

    /// Drops all objects, because the node starts to join.
    pub(crate) fn empty(&mut self, epoch: Epoch) {
        match &mut self.tables {
            Tables::InEngine(plain) => *plain = Plain::default(),
            Tables::Linked(_) => {}
            Tables::InHostMemory(far) => {
                far.index.clear();
                far.room = Room::of_empty(&far.layout);
            }
        }
        self.begin_epoch(epoch, true);
    }

    /// Starts a new epoch, without any locks. `leads_other_shards`: compared with the previous epoch.
    pub(crate) fn begin_epoch(&mut self, epoch: Epoch, leads_other_shards: bool) {
        self.floor = Version::new(epoch, 0);
        match &mut self.tables {
            Tables::InEngine(plain) => plain.unlock_all(),
            Tables::Linked(_) => {}
            Tables::InHostMemory(far) if leads_other_shards => {
                far.index.forget_objects();
                far.pending_lookups.iter_mut().flatten().for_each(|pending| pending.expected = false);
            }
            Tables::InHostMemory(_) => {}
        }
    }
}

impl HostTable {
    fn read(&self, number: usize, region: &Region) -> Read {
        assert!(region.length <= self.stride, "a landing holds the longest copy");
        Read {
            host: self.address + region.at,
            near: (self.landing + number * self.stride) as u64,
            length: region.length as u32,
        }
    }
}
