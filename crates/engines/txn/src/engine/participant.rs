//! What a node does as a participant in attempts, its own included. As the primary of a shard it locks, reads
//! and validates keys. As a replica it logs the writes of keys.
//!
//! Requests may be repeated, late and out of order. For each coordinator a node keeps a ring of attempts, as
//! long as the coordinator's window. An attempt has *ended* when an END or its coordinator's watermark says
//! so. From then on nothing is locked or logged for it.

use std::mem::take;

use weft_waist::{Io, Memory, NODES_MAX};

use crate::engine::{TAG_LOG, TAG_LOOKUP, Transactions};
use crate::key::{Key, Version};
use crate::log;
use crate::message::{
    Claim, Content, Drawn, Got, Header, Held, Kind, Lack, List, Malformed, RecordPart, Seen, Status, Verdict,
    Want, Watermarks, Write, write, write_list,
};
use crate::operation::{Purpose, WantedKey};
use crate::parameters::PlantedBug;
use crate::procedure::Execution;
use crate::procedure::{Mode, ProcedureId};
use crate::room::{Demand, Room};
use crate::shard::{CachedLookup, LookupStep, Shards};
use crate::transaction::TransactionId;

/// A record of an attempt in this node's log. The writes of a shard may take several records, its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub place: RecordPart,
    /// Position in the log, or [`UNLOGGED`].
    pub position: u64,
}

/// The position of a part that was applied to the tables at once and takes no room in the log.
pub(crate) const UNLOGGED: u64 = u64::MAX;

/// This node's state of an attempt.
#[derive(Debug)]
pub(crate) struct Participation {
    pub id: Option<TransactionId>,
    pub ended: bool,
    /// The attempt is withdrawn: nothing more is locked or logged for it, but its locks stay until it ends.
    pub withdrawn: bool,
    pub verdict: Verdict,
    /// Number of operations of the attempt that are in progress.
    pub operations: u32,
    /// Keys that the attempt has locked here, and the versions that its writes of them will have.
    pub locks: Vec<(Key, Version)>,
    /// All shards that the attempt writes.
    pub shards: u16,
    pub parts: Vec<Part>,
    /// The shards of which this node had all records when it was restored from its disk.
    pub restored: u16,
    /// If the attempt was shipped to this node: its execution, and below the outcome.
    pub execution: Option<Execution>,
    pub procedure: ProcedureId,
    pub shipped: Option<(Status, u8)>,
}

impl Participation {
    fn empty() -> Self {
        Self {
            id: None,
            ended: true,
            withdrawn: false,
            verdict: Verdict::Undecided,
            operations: 0,
            locks: Vec::new(),
            shards: 0,
            parts: Vec::new(),
            restored: 0,
            execution: None,
            procedure: ProcedureId(0),
            shipped: None,
        }
    }

    fn begin(&mut self, id: TransactionId) {
        assert!(self.locks.is_empty() && self.execution.is_none(), "the former attempt has ended");
        self.id = Some(id);
        (self.ended, self.withdrawn) = (false, false);
        self.verdict = Verdict::Undecided;
        self.operations = 0;
        self.shards = 0;
        self.parts.clear();
        self.restored = 0;
        self.shipped = None;
    }

    /// The shards of which this node has all parts of the attempt's record.
    pub fn held(&self) -> u16 {
        let mut held = self.restored;
        for part in &self.parts {
            let of_shard = self.parts.iter().filter(|other| other.place.shard == part.place.shard).count();
            if of_shard == usize::from(part.place.parts) {
                held |= 1 << part.place.shard;
            }
        }
        held
    }
}

/// The attempts of all coordinators, as this node sees them.
#[derive(Debug)]
pub(crate) struct Participants {
    rings: Vec<Vec<Participation>>,
    decided: Vec<u64>,
    truncated: Vec<u64>,
    window: usize,
}

impl Participants {
    pub fn new(nodes: usize, window: usize) -> Self {
        let ring = || (0..window).map(|_| Participation::empty()).collect();
        Self {
            rings: (0..nodes).map(|_| ring()).collect(),
            decided: vec![0; nodes],
            truncated: vec![0; nodes],
            window,
        }
    }

    pub fn decided(&self, coordinator: usize) -> u64 {
        self.decided[coordinator]
    }

    pub fn slot(&mut self, id: TransactionId) -> &mut Participation {
        let index = id.sequence() as usize & (self.window - 1);
        &mut self.rings[id.coordinator()][index]
    }

    /// This node's state of an attempt, if it has any. A peer's message may name an invalid coordinator.
    fn find(&mut self, id: TransactionId) -> Option<&mut Participation> {
        let index = id.sequence() as usize & (self.window - 1);
        let slot = &mut self.rings.get_mut(id.coordinator())?[index];
        (slot.id == Some(id)).then_some(slot)
    }

    /// The state of an attempt that has not ended.
    pub fn open(&mut self, id: TransactionId) -> Option<&mut Participation> {
        self.find(id).filter(|slot| !slot.ended)
    }

    /// The state of an attempt that has not ended; a new attempt gets a slot. `None` if the attempt has ended
    /// or is withdrawn, or if another attempt that has not ended has the slot.
    pub fn enter(&mut self, id: TransactionId) -> Option<&mut Participation> {
        if id.coordinator() >= self.rings.len() || id.sequence() < self.decided[id.coordinator()] {
            return None;
        }
        let slot = self.slot(id);
        if slot.id == Some(id) {
            return (!slot.ended && !slot.withdrawn).then_some(slot);
        }
        if slot.operations > 0 || slot.id.is_some_and(|other| !slot.ended || other > id) {
            return None;
        }
        slot.begin(id);
        Some(slot)
    }

    pub fn holds_locks(&self) -> bool {
        self.rings.iter().flatten().any(|slot| !slot.locks.is_empty())
    }

    /// Whether an attempt has ended that had this record.
    fn has_ended_with(&mut self, place: &RecordPart) -> bool {
        self.find(place.id)
            .is_some_and(|slot| slot.ended && slot.parts.iter().any(|part| part.place == *place))
    }

    /// Attempts with records at this node that may not be decided at every node.
    pub fn held(&self) -> impl Iterator<Item = (&Participation, TransactionId)> {
        self.rings.iter().zip(&self.truncated).flat_map(|(ring, truncated)| {
            ring.iter().filter_map(move |slot| {
                let id = slot.id?;
                let has_records = !slot.parts.is_empty() || slot.restored != 0;
                (has_records && id.sequence() >= *truncated).then_some((slot, id))
            })
        })
    }

    /// For each coordinator, all its attempts with smaller sequences are decided.
    pub fn watermarks(&self) -> Watermarks {
        let mut decided = [0; NODES_MAX];
        decided[..self.decided.len()].copy_from_slice(&self.decided);
        decided
    }

    /// Restores the attempts that this node knew.
    pub fn restore(
        &mut self,
        decided: &Watermarks,
        held: impl Iterator<Item = Result<Held, Malformed>>,
    ) -> Result<(), Malformed> {
        let nodes = self.decided.len();
        self.decided.copy_from_slice(&decided[..nodes]);
        for held in held {
            let Held { id, shards, held, verdict } = held?;
            if id.coordinator() >= nodes {
                return Err(Malformed::Field("identifier"));
            }
            let slot = self.slot(id);
            slot.begin(id);
            (slot.shards, slot.restored, slot.verdict) = (shards, held, verdict);
        }
        Ok(())
    }

    /// Restores a record that is not applied yet. False if its attempt was not restored.
    pub fn restore_part(&mut self, place: RecordPart, position: u64) -> bool {
        let slot = self.find(place.id);
        slot.map(|slot| slot.parts.push(Part { place, position })).is_some()
    }

    /// Marks an attempt with the verdict of a view change.
    pub fn mark(&mut self, id: TransactionId, verdict: Verdict) {
        if let Some(slot) = self.find(id).filter(|slot| slot.verdict == Verdict::Undecided) {
            slot.verdict = verdict;
        }
    }

    /// Drops all attempts, and releases their executions and locks.
    pub fn clear(&mut self, executions: &mut Vec<Execution>, shards: &mut Shards, memory: &mut Memory) {
        for slot in self.rings.iter_mut().flatten() {
            executions.extend(slot.execution.take());
            if let Some(id) = slot.id {
                slot.locks.drain(..).for_each(|(key, _)| shards.unlock(memory, key, id));
            }
            slot.parts.clear();
            slot.restored = 0;
            (slot.id, slot.ended, slot.operations) = (None, true, 0);
        }
        // A coordinator that rejoins numbers its attempts from 0 again.
        self.decided.fill(0);
        self.truncated.fill(0);
    }
}

impl Transactions {
    /// A peer's watermark tells which of its attempts are decided. Those with a record at this node are
    /// committed; the others have no more to do here.
    pub(crate) fn on_watermarks(&mut self, from: usize, header: &Header, io: &mut Io<'_>) {
        let truncated = &mut self.participants.truncated[from];
        *truncated = header.truncated.max(*truncated);
        let old = self.participants.decided[from];
        if header.decided <= old {
            return;
        }
        self.participants.decided[from] = header.decided;
        let window = self.parameters.window as u64;
        for sequence in old.max(header.decided.saturating_sub(window))..header.decided {
            let slot = &self.participants.rings[from][(sequence & (window - 1)) as usize];
            if !slot.ended
                && let Some(id) = slot.id.filter(|id| id.sequence() == sequence)
            {
                self.end(id, io);
            }
        }
    }

    pub(crate) fn on_end(&mut self, id: TransactionId, io: &mut Io<'_>) {
        if self.participants.open(id).is_some() {
            self.end(id, io);
        } else if self.participants.enter(id).is_some() {
            // END makes sure that a late request of the attempt does not lock anything.
            self.end(id, io);
        }
    }

    /// An attempt is decided. It is committed if this node has records of it.
    fn end(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let slot = self.participants.slot(id);
        assert!(slot.id == Some(id) && !slot.ended, "an attempt ends once");
        slot.ended = true;
        let (parts, locks) = (take(&mut slot.parts), take(&mut slot.locks));
        self.executions.extend(slot.execution.take());
        if !parts.is_empty() {
            slot.verdict = Verdict::Committed;
        }
        for part in &parts {
            if part.position == UNLOGGED {
                continue;
            }
            if self.is_primary(part.place.shard) && !self.bug(PlantedBug::StaleCache) {
                self.commit_part(part.position, io);
            }
            self.log.decide(io.memory, part.position, true);
        }
        for (key, _) in &locks {
            self.shards.unlock(io.memory, *key, id);
        }
        let slot = self.participants.slot(id);
        (slot.parts, slot.locks) = (parts, locks);
        slot.locks.clear();
    }

    /// Makes the writes of a record visible to later readers.
    pub(crate) fn commit_part(&mut self, position: u64, io: &mut Io<'_>) {
        let mut bytes = take(&mut self.scratch);
        bytes.clear();
        let (near, length) = (self.log.near(position), self.log.length(position));
        bytes.extend_from_slice(io.memory.read(near, length));
        let record = log::parse(&bytes).expect("written by this engine");
        for write in record.writes() {
            self.shards.commit(io.memory, &write);
        }
        self.log.pin(position);
        self.scratch = bytes;
    }

    // Handling of EXECUTE.

    pub(crate) fn on_execute(&mut self, id: TransactionId, wants: &List<'_, Want>, io: &mut Io<'_>) {
        let Some(shard) = self.only_shard(wants.iter()) else { return };
        let Some(slot) = self.participants.enter(id) else {
            self.counters.stale += 1;
            return;
        };
        if slot.operations > 0 || !slot.parts.is_empty() || slot.execution.is_some() {
            self.counters.stale += 1;
            return;
        }
        let Some(number) = self.operations.begin(Purpose::Execute, id, shard) else {
            self.counters.operations_full += 1;
            return;
        };
        if let Err(status) = self.lock(id, number, wants.iter(), false, io) {
            self.operations.end(number);
            self.answer_execute(id, shard, status, io);
            return;
        }
        self.look_up(number, io);
    }

    // Handling of LOCK.

    /// Locks keys that were read before, if their versions are unchanged.
    pub(crate) fn on_lock(&mut self, id: TransactionId, claims: &List<'_, Claim>, io: &mut Io<'_>) {
        let wants = || claims.iter().map(|claim| claim.want);
        let Some(shard) = self.only_shard(wants()) else { return };
        let Some(slot) = self.participants.enter(id) else {
            self.counters.stale += 1;
            return;
        };
        if slot.operations > 0 || !slot.parts.is_empty() {
            self.counters.stale += 1;
            return;
        }
        let Some(number) = self.operations.begin(Purpose::Lock, id, shard) else {
            self.counters.operations_full += 1;
            return;
        };
        if let Err(status) = self.lock(id, number, wants(), false, io) {
            self.operations.end(number);
            self.answer_lock(id, shard, status, &[], io);
            return;
        }
        for (sought, claim) in self.operations.get(number).sought.iter_mut().zip(claims.iter()) {
            sought.version = claim.version;
        }
        self.look_up(number, io);
    }

    /// Answers with the versions that the writes of the locked keys will have. If a key has changed since it
    /// was read, the coordinator aborts the attempt, and its END releases the locks.
    fn complete_lock(&mut self, number: usize, io: &mut Io<'_>) {
        let operation = self.operations.get(number);
        let (id, shard) = (operation.id, operation.shard);
        if operation.failed {
            return self.answer_lock(id, shard, Status::Conflict, &[], io);
        }
        let sought = take(&mut operation.sought);
        self.answer_lock(id, shard, Status::Ok, &sought, io);
        self.operations.get(number).sought = sought;
    }

    fn answer_lock(
        &mut self,
        id: TransactionId,
        shard: usize,
        status: Status,
        locked: &[WantedKey],
        io: &mut Io<'_>,
    ) {
        let mut out = self.message();
        write::validated(&mut out, id, shard, status);
        write_list(&mut out, locked.iter().map(|sought| Drawn { index: sought.index, new: sought.new }));
        self.post_to(io.effects, id.coordinator(), Kind::Locked, out);
    }

    /// The shard of all keys, if they have the same one and this node is its primary.
    fn only_shard(&mut self, mut wants: impl Iterator<Item = Want>) -> Option<usize> {
        let shard = wants.next().map(|want| want.access.key.shard());
        match shard {
            Some(shard) if self.is_primary(shard) && wants.all(|want| want.access.key.shard() == shard) => {
                Some(shard)
            }
            _ => {
                self.counters.stale += 1;
                None
            }
        }
    }

    /// Locks all keys that need a lock, or none, and adds all keys to the operation. With `all`, keys that
    /// are only read are locked too.
    pub(crate) fn lock(
        &mut self,
        id: TransactionId,
        number: usize,
        wants: impl Iterator<Item = Want> + Clone,
        all: bool,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        if wants
            .clone()
            .any(|want| self.shards.holder(io.memory, want.access.key).is_some_and(|holder| holder != id))
        {
            return Err(Status::Conflict);
        }
        let held_before = self.participants.slot(id).locks.len();
        for want in wants {
            let (key, mode) = (want.access.key, want.access.mode);
            let mut new = Version::ZERO;
            if all || mode.locks() {
                let held = self.participants.slot(id).locks.iter().find(|(held, _)| *held == key).copied();
                new = match held {
                    Some((_, new)) => new,
                    None if self.shards.lock(io.memory, key, id) => {
                        let mut new = self.draw();
                        if self.parameters.variant.lock_by_atomic {
                            // Other coordinators write by RDMA WRITE, with versions that they choose
                            // themselves. So the new version must exceed the object's present one.
                            let mut value = take(&mut self.read_bytes);
                            if let CachedLookup::Known(version, _) =
                                self.shards.look_up_cached(io.memory, key, &mut value)
                            {
                                new = new.max(Version::from_bits(version.bits() + 1));
                            }
                            self.read_bytes = value;
                        }
                        self.participants.slot(id).locks.push((key, new));
                        new
                    }
                    None => {
                        while self.participants.slot(id).locks.len() > held_before {
                            let (key, _) = self.participants.slot(id).locks.pop().expect("more than before");
                            self.shards.unlock(io.memory, key, id);
                        }
                        return Err(Status::Full);
                    }
                };
            }
            let sought = WantedKey { index: want.index, key, mode, version: Version::ZERO, new, value: None };
            self.operations.get(number).sought.push(sought);
        }
        Ok(())
    }

    /// Looks up all keys of an operation, and completes it if none is missing.
    pub(crate) fn look_up(&mut self, number: usize, io: &mut Io<'_>) {
        let operation = self.operations.get(number);
        let id = operation.id;
        for at in 0..operation.sought.len() {
            let operation = self.operations.get(number);
            let sought = &operation.sought[at];
            if !sought.mode.reads() {
                continue;
            }
            self.counters.lookups += 1;
            let looks = if self.shards.are_in_engine() { 1 } else { 2 };
            if operation.purpose == Purpose::Validate {
                io.memory.touch_again(looks);
            } else {
                io.memory.touch(looks);
            }
            let start = operation.values.len();
            match self.shards.look_up_cached(io.memory, sought.key, &mut operation.values) {
                CachedLookup::Known(version, length) => {
                    let value = length.map(|length| start..start + length);
                    self.found(number, at, version, value);
                }
                CachedLookup::Miss => match self.shards.seek(sought.key, number, at) {
                    Some((tag, read)) => {
                        operation.missing += 1;
                        self.counters.misses += 1;
                        io.effects.host_read(TAG_LOOKUP | tag, read.host, read.near, read.length);
                    }
                    None => operation.failed = true,
                },
            }
        }
        self.participants.slot(id).operations += 1;
        if self.operations.get(number).missing == 0 {
            self.complete(number, io);
        } else {
            self.operations.get(number).atomic = false;
        }
    }

    fn found(&mut self, number: usize, at: usize, version: Version, value: Option<std::ops::Range<usize>>) {
        let operation = self.operations.get(number);
        let sought = &mut operation.sought[at];
        if operation.purpose == Purpose::Validate || operation.purpose == Purpose::Lock {
            operation.failed |= sought.version != version;
        } else {
            // After a repeated request the key's lock already has a version (`new`), and the read version
            // must precede it. For an absent key the look-up returns the version of the segment's latest
            // deletion, and that may be of another key and newer than the lock. Nobody else has written this
            // key, so the smaller of the two is right.
            let before = Version::from_bits(sought.new.bits().saturating_sub(1));
            let locked = sought.new != Version::ZERO;
            sought.version = if locked && value.is_none() { version.min(before) } else { version };
            sought.value = value;
        }
    }

    /// Bytes of the host's table have arrived.
    pub(crate) fn on_lookup(&mut self, tag: u64, io: &mut Io<'_>) {
        let (number, at) = self.shards.pending(tag);
        let operation = self.operations.get(number);
        let start = operation.values.len();
        match self.shards.sought(io.memory, tag, &mut operation.values) {
            LookupStep::Read(read) => {
                io.effects.host_read(TAG_LOOKUP | tag, read.host, read.near, read.length)
            }
            LookupStep::Known(version, length) => {
                let value = length.map(|length| start..start + length);
                self.found(number, at, version, value);
                let operation = self.operations.get(number);
                operation.missing -= 1;
                if operation.missing == 0 {
                    self.complete(number, io);
                }
            }
        }
    }

    /// All keys of the operation are found.
    fn complete(&mut self, number: usize, io: &mut Io<'_>) {
        let operation = self.operations.get(number);
        let (id, is_stale, purpose) = (operation.id, operation.is_stale, operation.purpose);
        if !is_stale {
            let slot = self.participants.slot(id);
            assert_eq!(slot.id, Some(id), "a slot waits for its operations");
            slot.operations -= 1;
            if !slot.ended {
                match purpose {
                    Purpose::Execute => self.complete_execute(number, io),
                    Purpose::Lock => self.complete_lock(number, io),
                    Purpose::Validate => self.complete_validate(number, io),
                    Purpose::Ship => self.complete_ship(number, io),
                }
            }
        }
        self.operations.end(number);
    }

    fn answer_execute(&mut self, id: TransactionId, shard: usize, status: Status, io: &mut Io<'_>) {
        let mut out = self.message();
        write::executed(&mut out, id, shard, status, false);
        write_list(&mut out, std::iter::empty::<Got<'_>>());
        self.post_to(io.effects, id.coordinator(), Kind::Executed, out);
    }

    /// Answers EXECUTE, in as many messages as the values need.
    fn complete_execute(&mut self, number: usize, io: &mut Io<'_>) {
        let operation = self.operations.get(number);
        let (id, shard, atomic) = (operation.id, operation.shard, operation.atomic);
        if operation.failed {
            return self.answer_execute(id, shard, Status::Full, io);
        }
        let sought = take(&mut operation.sought);
        let values = take(&mut operation.values);
        let mut rest = &sought[..];
        while !rest.is_empty() {
            let mut out = self.message();
            write::executed(&mut out, id, shard, Status::Ok, atomic);
            let room = self.parameters.message_bytes - out.len() - 1;
            let mut bytes = 0;
            let got = rest.iter().map(|sought| Got {
                index: sought.index,
                read: sought.version,
                new: sought.new,
                value: sought.value.clone().map(|range| &values[range]),
            });
            let fits = got.clone().take_while(|got| {
                bytes += got.bytes();
                bytes <= room
            });
            let count = fits.count().max(1);
            write_list(&mut out, got.take(count));
            self.post_to(io.effects, id.coordinator(), Kind::Executed, out);
            rest = &rest[count..];
        }
        let operation = self.operations.get(number);
        (operation.sought, operation.values) = (sought, values);
        if self.bug(PlantedBug::UnlockBeforeLog) {
            for (key, _) in &self.participants.slot(id).locks.clone() {
                self.shards.unlock(io.memory, *key, id);
            }
        }
    }

    // Handling of VALIDATE.

    pub(crate) fn on_validate(
        &mut self,
        id: TransactionId,
        shard: usize,
        seen: &List<'_, Seen>,
        io: &mut Io<'_>,
    ) {
        let mine = self.is_primary(shard) && seen.iter().all(|seen| seen.key.shard() == shard);
        if !mine || self.participants.enter(id).is_none_or(|slot| slot.operations > 0) {
            self.counters.stale += 1;
            return;
        }
        let Some(number) = self.operations.begin(Purpose::Validate, id, shard) else {
            self.counters.operations_full += 1;
            return;
        };
        let locked = seen
            .iter()
            .any(|seen| self.shards.holder(io.memory, seen.key).is_some_and(|holder| holder != id));
        let operation = self.operations.get(number);
        operation.failed = locked;
        if !locked {
            operation.sought.extend(seen.iter().map(|seen| WantedKey {
                index: 0,
                key: seen.key,
                mode: Mode::Read,
                version: seen.version,
                new: Version::ZERO,
                value: None,
            }));
        }
        self.look_up(number, io);
    }

    fn complete_validate(&mut self, number: usize, io: &mut Io<'_>) {
        let operation = self.operations.get(number);
        let (id, shard, mut failed) = (operation.id, operation.shard, operation.failed);
        if !operation.atomic {
            // Another attempt may have locked a key while a copy from the host was under way.
            for sought in &self.operations.get(number).sought {
                failed |= self.shards.holder(io.memory, sought.key).is_some_and(|holder| holder != id);
            }
        }
        let mut out = self.message();
        write::validated(&mut out, id, shard, if failed { Status::Conflict } else { Status::Ok });
        self.post_to(io.effects, id.coordinator(), Kind::Validated, out);
    }

    // Handling of LOG.

    pub(crate) fn on_log(
        &mut self,
        place: RecordPart,
        shards: u16,
        needs: Room,
        writes: &List<'_, Write<'_>>,
        io: &mut Io<'_>,
    ) {
        let node = weft_waist::NodeId::new(self.node).expect("a node");
        let fits = |write: Write<'_>| {
            let value = write.whole().and_then(|put| put.value);
            write.key.shard() == place.shard && self.shards.can_hold(value)
        };
        let mine = place.id.epoch() == self.view.epoch
            && self.replicas[place.shard].contains(node)
            && writes.iter().all(fits);
        if !mine || shards >> place.shard & 1 == 0 || self.participants.enter(place.id).is_none() {
            if self.commits_at_once(place.shard) && self.participants.has_ended_with(&place) {
                self.answer_log(&place, io);
            }
            self.counters.stale += 1;
            return;
        }
        // The primary accepts only writes for which it has given a lock. It shows them to readers before its
        // host has applied them.
        if self.is_primary(place.shard) {
            let slot = self.participants.slot(place.id);
            let is_locked = |write: &Write<'_>| slot.locks.contains(&(write.key, write.version));
            if !writes.iter().all(|write| is_locked(&write) && self.shards.can_show(&write)) {
                self.counters.stale += 1;
                return;
            }
        }
        let slot = self.participants.slot(place.id);
        slot.shards |= shards;
        let same = |part: &&Part| (part.place.shard, part.place.part) == (place.shard, place.part);
        if let Some(part) = slot.parts.iter().find(same) {
            let position = part.position;
            if self.log.is_durable(position) {
                self.acknowledge_record(&place, io);
            }
            return;
        }
        let mut record = take(&mut self.scratch);
        log::encode(&mut record, &place, shards, writes.iter());
        let deletions = writes.iter().filter(|write| matches!(write.content, Content::Whole(None))).count();
        let demand = Demand { needs, deletions: deletions as u32 };
        let lack = self.missing_space(record.len(), needs);
        // A primary that gets its values after the commit (Xenic's order) must accept them even if the log is
        // full. The room may be held by attempts that wait for another primary in the same way, and none of
        // them could withdraw, since their outcomes were reported. The backups have the record, and here the
        // log is only a queue in front of the tables, so the writes go into the tables at once.
        let at_once = self.commits_at_once(place.shard) && self.shards.are_in_engine();
        if lack.is_none() || at_once {
            let position = if lack.is_none() {
                self.append(place, &record, demand, writes, io)
            } else {
                writes.iter().for_each(|write| self.shards.commit(io.memory, &write));
                UNLOGGED
            };
            self.participants.slot(place.id).parts.push(Part { place, position });
            if self.shards.are_in_engine() {
                self.acknowledge_record(&place, io);
            }
            if self.commits_at_once(place.shard) {
                let slot = self.participants.slot(place.id);
                if slot.held() >> place.shard & 1 == 1 {
                    self.end(place.id, io);
                }
            }
        } else if let Some(lack) = lack {
            self.refuse_log(&place, shards, lack, io);
        }
        self.scratch = record;
    }

    /// Whether this node, as a primary, gets the values of a shard only after the commit.
    fn commits_at_once(&self, shard: usize) -> bool {
        !self.parameters.variant.log_at_primary && self.is_primary(shard)
    }

    /// Which space lacks room for a record of `bytes` bytes: the log, or the host's table on top of all that
    /// is logged already. The check is made before the attempt is decided, so each decided record has room at
    /// every replica.
    fn missing_space(&self, bytes: usize, needs: Room) -> Option<Lack> {
        let (logged, left) = (self.log.demand(), self.shards.room());
        match left.filter(|_| needs != Room::default()) {
            Some(left) if !left.covers(logged.needs.plus(needs)) => {
                let may_pass = left.covers(needs) || logged.deletions > 0;
                Some(if may_pass { Lack::Passing } else { Lack::Table })
            }
            _ => (!self.log.has_room(bytes)).then_some(Lack::Log),
        }
    }

    fn append(
        &mut self,
        place: RecordPart,
        record: &[u8],
        demand: Demand,
        writes: &List<'_, Write<'_>>,
        io: &mut Io<'_>,
    ) -> u64 {
        self.counters.records += 1;
        let near = self.shards.are_in_engine();
        let may_pin = !near && self.is_primary(place.shard);
        let keys = writes.iter().map(|write| write.key).filter(|_| may_pin);
        let (base, capacity) = (self.log.near(0) as u64, self.parameters.log_bytes as u64);
        let host = self.parameters.log_address;
        let mut begin = None;
        let (effects, memory) = (&mut *io.effects, &mut *io.memory);
        let position = self.log.append(memory, record, place, demand, keys, |entry| {
            begin.get_or_insert(entry.position);
            let offset = entry.position % capacity;
            // A filler is copied to the host without its body.
            let length = if entry.place.is_some() { entry.length } else { log::ALIGN } as u32;
            if !near {
                effects.host_write(TAG_LOG | entry.position, base + offset, host + offset, length);
            }
        });
        if near {
            for at in begin.into_iter().filter(|begin| *begin != position).chain([position]) {
                let _ = self.log.note_copied(at);
            }
        }
        position
    }

    /// Tells the coordinator that a record is logged here. If the procedure ran here, the answer tells the
    /// outcome of the run too.
    pub(crate) fn acknowledge_record(&mut self, place: &RecordPart, io: &mut Io<'_>) {
        let slot = self.participants.slot(place.id);
        let has_run =
            slot.shipped.is_some_and(|(status, _)| status == Status::Ok) && slot.execution.is_some();
        if slot.id == Some(place.id) && has_run {
            self.answer_shipped(place.id, io);
        } else {
            self.answer_log(place, io);
        }
    }

    fn answer_log(&mut self, place: &RecordPart, io: &mut Io<'_>) {
        let mut out = self.message();
        write::place(&mut out, place);
        self.post_to(io.effects, place.id.coordinator(), Kind::Logged, out);
    }

    /// The copy of a record to the host's memory has completed.
    pub(crate) fn on_copied_to_host(&mut self, position: u64, io: &mut Io<'_>) {
        match self.log.note_copied(position) {
            Ok(Some(place)) => self.answer_if_open(&place, io),
            Ok(None) => {}
            Err(log::VerdictOutdated) => self.copy_verdict(position, io),
        }
        self.write_records(io);
    }
}
