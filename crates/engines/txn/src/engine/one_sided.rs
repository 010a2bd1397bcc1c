//! How designs without an engine on the card use verbs (DrTM+H, OSDI 2018). A coordinator READs objects and
//! their versions at their primaries, and WRITEs its log into the memory of backups. The processors of these
//! nodes take no part in either.
//!
//! A coordinator READs an object at its address if it has cached that, as DrTM+H does. Otherwise it READs
//! bucket after bucket (Xenic's DrTM+H-NC). Each coordinator has a ring in the memory of each backup. Its
//! watermark tells the backup how much of the ring is decided, and the backup applies that much. Rings have
//! no order among each other, so a backup skips a write if the table has a later version of the key.
//!
//! ```text
//! memory, behind the tables   landing buffers of READs, one for each operation
//!                             a ring for each coordinator: its records at this node
//!                             a ring for each backup: this node's records, the source of its WRITEs
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::mem::take;

use weft_verbs::{CompletionStatus, LocalBuffer, Operation, RemoteAddress, WorkRequest};
use weft_waist::{Computation, Effects, Io, Memory};

use crate::engine::{TAG_VERB, Transactions};
use crate::key::{Key, Version};
use crate::linked::LinkedShape;
use crate::log;
use crate::message::{RecordPart, Status, Verdict};
use crate::parameters::{Parameters, Reads};
use crate::procedure::{Access, Mode};
use crate::store::{Bucket, Element};
use crate::transaction::TransactionId;
use crate::window::Stage;
use crate::wiring::{RING_BYTES, Wiring, landing_bytes};

/// Bytes of an element that precede its value.
const HEAD_BYTES: usize = 32;

/// Purpose of a verb that uses a landing buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    Execute,
    Validate,
    /// A READ that looks for the address of an object that is to be locked.
    Find,
    /// The atomic that locks an object.
    Lock,
    /// The READ of a locked object.
    Locked,
    /// The WRITE that releases a lock.
    Release,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub id: TransactionId,
    pub index: usize,
    pub key: Key,
    pub why: ReadPurpose,
    pub primary: usize,
    /// Address at the primary. `is_bucket`: whether it is the address of a bucket and not of an object.
    pub at: u64,
    pub is_bucket: bool,
    pub length: usize,
}

#[derive(Clone, Copy, Debug)]
enum Posted {
    Log { place: RecordPart, peer: usize },
    Filler,
}

/// Flag in the tag of a WRITE to a log. Tags without the flag are numbers of landing buffers.
const TAG_LOG_WRITE: u64 = 1 << 40;

/// This node's records at one backup. Positions count bytes since the beginning.
#[derive(Debug, Default)]
struct Ring {
    tail: u64,
    /// Position up to which the backup has applied the ring.
    applied: u64,
    /// Position up to which the ring is decided.
    decided: u64,
    /// The end of each undecided record, and its attempt's sequence number.
    records: VecDeque<(u64, u64)>,
}

/// State of a node's one-sided verbs.
#[derive(Debug)]
pub(crate) struct OneSided {
    wirings: Vec<Option<Wiring>>,
    posted: Vec<Option<Posted>>,
    free_posted: Vec<usize>,
    /// The verb that uses each landing buffer.
    readings: Vec<Option<Reading>>,
    free: Vec<usize>,
    addresses: BTreeMap<Key, u64>,
    landings: usize,
    stride: usize,
    rings: Vec<Ring>,
    /// Position up to which this node has applied each coordinator's ring.
    applied: Vec<u64>,
    /// Start addresses of the rings: `theirs` of the coordinators, `mine` of this node.
    theirs: usize,
    mine: usize,
}

impl OneSided {
    pub fn new(parameters: &Parameters, shape: &LinkedShape) -> Self {
        let landings = parameters.log_bytes + parameters.replicas * shape.bytes();
        let theirs = landings + parameters.operations * landing_bytes(shape);
        Self {
            wirings: vec![None; parameters.nodes],
            posted: Vec::new(),
            free_posted: Vec::new(),
            readings: vec![None; parameters.operations],
            free: (0..parameters.operations).rev().collect(),
            addresses: BTreeMap::new(),
            landings,
            stride: landing_bytes(shape),
            rings: (0..parameters.nodes).map(|_| Ring::default()).collect(),
            applied: vec![0; parameters.nodes],
            theirs,
            mine: theirs + parameters.nodes * RING_BYTES,
        }
    }

    pub fn wire(&mut self, peer: usize, wiring: Wiring) {
        self.wirings[peer] = Some(wiring);
    }

    pub fn remember(&mut self, key: Key, address: u64) {
        self.addresses.insert(key, address);
    }

    /// Posts a READ into a landing buffer, and notes its purpose.
    pub fn read(&mut self, number: usize, reading: Reading, effects: &mut Effects) {
        self.readings[number] = Some(reading);
        let (primary, at, length) = (reading.primary, reading.at, reading.length);
        self.post(number as u64, (primary, at), (self.landing(number), length), effects, |remote| {
            Operation::Read { remote }
        });
    }

    /// Notes the purpose of a landing buffer.
    pub fn expect(&mut self, number: usize, reading: Reading) {
        self.readings[number] = Some(reading);
    }

    pub fn address(&self, key: Key) -> Option<u64> {
        self.addresses.get(&key).copied()
    }

    pub fn forget(&mut self, key: Key) {
        self.addresses.remove(&key);
    }

    /// Address of a landing buffer in this node's memory.
    pub fn landing(&self, number: usize) -> usize {
        self.landings + number * self.stride
    }

    /// Posts a work request that moves bytes between a peer's memory and this node's.
    pub fn post(
        &mut self,
        number: u64,
        (peer, far): (usize, u64),
        (near, length): (usize, usize),
        effects: &mut Effects,
        operation: impl Fn(RemoteAddress) -> Operation,
    ) {
        let wiring = self.wirings[peer].expect("peers are wired before they are asked");
        let remote = RemoteAddress { address: wiring.remote_address + far, rkey: wiring.rkey };
        let address = wiring.local_address + near as u64;
        let local = LocalBuffer { address, length: length as u32, lkey: wiring.lkey };
        effects.post(wiring.queue_pair, WorkRequest::new(TAG_VERB | number, operation(remote), local));
    }

    /// Allocates a landing buffer, if one is free.
    pub fn take_landing(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Whether a verb of an attempt is outstanding, other than WRITEs to logs.
    pub fn is_busy_with(&self, id: TransactionId) -> bool {
        self.readings.iter().flatten().any(|reading| reading.id == id)
    }

    pub fn give_back(&mut self, number: usize) {
        self.readings[number] = None;
        self.free.push(number);
    }

    /// WRITEs bytes to a position of this node's ring at a backup.
    fn write(
        &mut self,
        (node, peer): (usize, usize),
        position: u64,
        bytes: &[u8],
        what: Posted,
        (memory, effects): (&mut Memory, &mut Effects),
    ) {
        let number = self.free_posted.pop().unwrap_or(self.posted.len());
        if number == self.posted.len() {
            self.posted.push(None);
        }
        self.posted[number] = Some(what);
        let offset = (position % RING_BYTES as u64) as usize;
        let (near, far) = (self.mine + peer * RING_BYTES + offset, self.theirs + node * RING_BYTES + offset);
        memory.image_mut()[near..near + bytes.len()].copy_from_slice(bytes);
        let number = TAG_LOG_WRITE | number as u64;
        self.post(number, (peer, far as u64), (near, bytes.len()), effects, |remote| Operation::Write {
            remote,
            immediate: None,
        });
    }

    /// Whether the ring at a backup has room for records of `bytes` bytes in all, wherever they wrap around
    /// its end.
    pub fn has_room(&self, peer: usize, bytes: usize) -> bool {
        let ring = &self.rings[peer];
        (ring.tail - ring.applied) as usize + 2 * bytes <= RING_BYTES
    }

    /// The position up to which this node's ring at a peer is decided, given that all attempts below `base`
    /// are.
    pub fn decided(&mut self, peer: usize, base: u64) -> u64 {
        let ring = &mut self.rings[peer];
        while let Some((end, _)) = ring.records.front().filter(|(_, sequence)| *sequence < base) {
            ring.decided = *end;
            ring.records.pop_front();
        }
        ring.decided
    }

    /// A peer reports that it has applied this node's ring up to position `applied`.
    pub fn heard(&mut self, peer: usize, applied: u64) {
        let ring = &mut self.rings[peer];
        ring.applied = ring.applied.max(applied.min(ring.decided));
    }

    /// Position up to which this node has applied a peer's ring.
    pub fn applied(&self, peer: usize) -> u64 {
        self.applied[peer]
    }
}

impl Transactions {
    /// Whether the coordinator READs a key at its primary, instead of asking by message.
    pub(crate) fn is_read_remotely(&self, access: &Access) -> bool {
        self.parameters.variant.reads != Reads::Messages
            && !self.parameters.variant.lock_by_atomic
            && (access.mode == Mode::Read || !self.parameters.variant.combined && access.mode.reads())
            && !self.is_primary(access.key.shard())
    }

    /// READs those keys of an attempt, from index `from` on, that are read by verbs. For VALIDATE it READs
    /// their headers only.
    pub(crate) fn read_remotely(
        &mut self,
        id: TransactionId,
        from: usize,
        why: ReadPurpose,
        io: &mut Io<'_>,
    ) -> usize {
        let count = self.attempt_mut(id).execution.accesses().len();
        let mut reads = 0;
        for index in from..count {
            let access = self.attempt_mut(id).execution.accesses()[index];
            let attempt = self.window.at(id.sequence());
            let refused = attempt.refused.is_some();
            let execution = take(&mut attempt.execution);
            let wanted = match why {
                ReadPurpose::Validate => self.is_unlocked(&execution, refused, index),
                _ => !execution.fetched(index),
            };
            self.attempt_mut(id).execution = execution;
            if !wanted || !self.is_read_remotely(&access) {
                continue;
            }
            let key = access.key;
            let Some(primary) = self.primaries[key.shard()] else { continue };
            let Some(number) = self.one_sided.take_landing() else {
                self.finish(id, Status::Full, 0, io);
                return 0;
            };
            reads += 1;
            let linked = self.shards.linked().expect("who READs has such tables itself");
            let known = match why {
                ReadPurpose::Validate => {
                    Some(self.window.at(id.sequence()).addresses[index]).filter(|at| *at != 0)
                }
                _ => self.one_sided.addresses.get(&key).copied(),
            };
            let (Bucket { at, length }, is_bucket) = match (known, why) {
                (Some(at), ReadPurpose::Validate) => (Bucket { at, length: HEAD_BYTES }, false),
                (Some(at), _) => (Bucket { at, length: linked.element_bytes(key) }, false),
                (None, _) => (linked.remote_bucket(key), true),
            };
            let reading = Reading { id, index, key, why, primary, at, is_bucket, length };
            self.counters.verbs += 1;
            self.one_sided.read(number, reading, io.effects);
        }
        reads
    }

    /// A posted verb has completed.
    pub(crate) fn on_verb(&mut self, tag: u64, status: CompletionStatus, io: &mut Io<'_>) {
        let success = status == CompletionStatus::Success;
        if tag & TAG_LOG_WRITE != 0 {
            let number = (tag & !TAG_LOG_WRITE) as usize;
            let posted = self.one_sided.posted[number].take().expect("it was posted");
            self.one_sided.free_posted.push(number);
            // If the WRITE failed, the backup is unreachable. This design has no view change, so nothing is
            // done about it.
            if let Posted::Log { place, peer } = posted
                && success
            {
                self.on_logged(peer, place, io);
            }
            return;
        }
        let number = tag as usize;
        let reading = self.one_sided.readings[number].expect("it was posted");
        if success {
            match reading.why {
                ReadPurpose::Lock => self.on_swapped(number, reading, io),
                ReadPurpose::Release => self.on_released(number, reading, io),
                _ => self.on_read(number, reading, io),
            }
            self.continue_if_restarted(reading.id, io);
        } else {
            self.one_sided.give_back(number);
            if self.attempt(reading.id).is_some() {
                self.finish(reading.id, Status::Unavailable, 0, io);
            }
        }
    }

    fn on_read(&mut self, number: usize, mut reading: Reading, io: &mut Io<'_>) {
        let near = self.one_sided.landing(number);
        let mut bytes = take(&mut self.read_bytes);
        bytes.clear();
        bytes.extend_from_slice(&io.memory.image()[near..near + reading.length]);
        let linked = self.shards.linked().expect("who READs has such tables itself");
        let position = if reading.is_bucket { linked.position(&bytes, reading.key) } else { Some(0) };
        match position {
            Some(position) => {
                let end = (position + linked.element_bytes(reading.key)).min(bytes.len());
                let element = Element::parse(&bytes[position..end]);
                let address = reading.at + position as u64;
                if element.key == reading.key.bits() {
                    if reading.is_bucket && self.parameters.variant.reads == Reads::Cached {
                        self.one_sided.remember(reading.key, address);
                    }
                    match reading.why {
                        ReadPurpose::Find => self.on_found(number, reading, Some(address), io),
                        ReadPurpose::Locked => {
                            let object = Some((element.version, element.value));
                            self.on_locked_read(number, reading, object, io);
                        }
                        _ => {
                            self.one_sided.give_back(number);
                            let Element { lock, version, value, .. } = element;
                            self.object_read(&reading, address, lock, version, value, io);
                        }
                    }
                } else if reading.why == ReadPurpose::Locked {
                    self.on_locked_read(number, reading, None, io);
                } else {
                    // The cached address is out of date.
                    self.one_sided.addresses.remove(&reading.key);
                    let bucket = self.shards.linked().expect("as above").remote_bucket(reading.key);
                    (reading.at, reading.length, reading.is_bucket) = (bucket.at, bucket.length, true);
                    self.counters.verbs += 1;
                    self.one_sided.read(number, reading, io.effects);
                }
            }
            None => match linked.remote_next(&bytes, reading.key) {
                Some(bucket) => {
                    (reading.at, reading.length) = (bucket.at, bucket.length);
                    self.counters.verbs += 1;
                    self.one_sided.read(number, reading, io.effects);
                }
                None if reading.why == ReadPurpose::Find => self.on_found(number, reading, None, io),
                None => {
                    self.one_sided.give_back(number);
                    self.object_read(&reading, 0, 0, Version::ZERO, None, io);
                }
            },
        }
        self.read_bytes = bytes;
    }

    fn object_read(
        &mut self,
        reading: &Reading,
        address: u64,
        lock: u64,
        version: Version,
        value: Option<&[u8]>,
        io: &mut Io<'_>,
    ) {
        let id = reading.id;
        let locked = lock != 0 && lock != id.bits();
        let Some(attempt) = self.attempt(id) else { return };
        match (reading.why, attempt.stage) {
            (ReadPurpose::Execute, Stage::Executing { .. }) if !attempt.execution.fetched(reading.index) => {
                if locked {
                    return self.finish(id, Status::Conflict, 0, io);
                }
                attempt.atomic = false;
                attempt.addresses[reading.index] = address;
                attempt.execution.fetch(reading.index, version, Version::ZERO, value);
                self.continue_if_fetched(id, io);
            }
            (ReadPurpose::Validate, Stage::Validating) => {
                if locked || attempt.execution.read_version(reading.index) != version {
                    return self.finish(id, Status::Conflict, 0, io);
                }
                attempt.reading -= 1;
                self.continue_if_valid(id, io);
            }
            _ => {}
        }
    }

    /// Whether the rings at all backups have room for records of `bytes` bytes in all.
    pub(crate) fn rings_have_room(&self, bytes: usize) -> bool {
        self.others().iter().all(|peer| self.one_sided.has_room(peer.index(), bytes))
    }

    /// WRITEs a record into this node's ring at a backup.
    pub(crate) fn write_record(&mut self, peer: usize, place: RecordPart, record: &[u8], io: &mut Io<'_>) {
        self.counters.verbs += 1;
        let ring = &mut self.one_sided.rings[peer];
        let to_end = RING_BYTES - (ring.tail % RING_BYTES as u64) as usize;
        let filler = (record.len() > to_end).then_some(ring.tail);
        if filler.is_some() {
            ring.tail += to_end as u64;
        }
        let position = ring.tail;
        ring.tail += record.len() as u64;
        ring.records.push_back((ring.tail, place.id.sequence()));
        let (node, target) = (self.node, (&mut *io.memory, &mut *io.effects));
        if let Some(at) = filler {
            let mut head = [0; log::ALIGN];
            head[..4].copy_from_slice(&(to_end as u32).to_be_bytes());
            head[4] = Verdict::Aborted as u8;
            self.one_sided.write((node, peer), at, &head, Posted::Filler, (&mut *target.0, &mut *target.1));
        }
        self.one_sided.write((node, peer), position, record, Posted::Log { place, peer }, target);
    }

    /// A coordinator reports how much of its ring at this node is decided. This node applies that much.
    pub(crate) fn apply_ring(&mut self, from: usize, decided: u64, io: &mut Io<'_>) {
        let mut bytes = take(&mut self.scratch);
        while self.one_sided.applied[from] < decided {
            let offset = (self.one_sided.applied[from] % RING_BYTES as u64) as usize;
            let ring = self.one_sided.theirs + from * RING_BYTES;
            bytes.clear();
            bytes.extend_from_slice(&io.memory.image()[ring + offset..ring + RING_BYTES]);
            let Ok(record) = log::parse(&bytes) else {
                self.counters.malformed += 1;
                break;
            };
            let length = record.length;
            if length == 0 || offset + length > RING_BYTES {
                self.counters.malformed += 1;
                break;
            }
            for put in record.writes().filter_map(|write| write.whole()) {
                self.shards.apply(io.memory, &put);
                io.effects.computed(Computation::Apply);
            }
            self.one_sided.applied[from] += length as u64;
        }
        self.scratch = bytes;
    }
}
