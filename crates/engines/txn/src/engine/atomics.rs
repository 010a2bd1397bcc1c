//! Locks by RDMA atomics, as DrTM+R takes them (Xenic, section 2.2.2). The coordinator swaps its attempt's
//! identifier into the lock of every key of a transaction, also of keys that it only reads. Then it READs the
//! object. It releases the lock with the WRITE that commits the object, or with a WRITE of the lock alone.
//!
//! Nothing is validated, since every key is locked. An absent object has no address; in that case the
//! coordinator asks the shard's primary by message.

use std::mem::take;

use weft_verbs::Operation;
use weft_waist::Io;

use crate::engine::Transactions;
use crate::engine::one_sided::{ReadPurpose, Reading};
use crate::key::Version;
use crate::message::Status;
use crate::procedure::Access;
use crate::procedure::Written;
use crate::store::{Bucket, Chained};
use crate::transaction::TransactionId;
use crate::window::{Coordinated, HeldLock, Stage};

/// Flag in an element's length field: the object exists.
const PRESENT: u64 = 1 << 63;

impl Transactions {
    /// Whether a key is locked by an RDMA atomic at its primary. `by_message`: the shards whose primaries the
    /// attempt asks by message instead.
    pub(crate) fn is_locked_by_atomic(&self, access: &Access, by_message: u16) -> bool {
        let shard = access.key.shard();
        self.parameters.variant.lock_by_atomic && !self.is_primary(shard) && by_message >> shard & 1 == 0
    }

    /// Locks those keys of an attempt, from index `from` on, that are locked by an atomic.
    pub(crate) fn lock_by_atomics(&mut self, id: TransactionId, from: usize, io: &mut Io<'_>) {
        for index in from..self.attempt_mut(id).execution.accesses().len() {
            let attempt = self.window.at(id.sequence());
            let (access, by_message) = (attempt.execution.accesses()[index], attempt.by_message);
            if !self.is_locked_by_atomic(&access, by_message) {
                continue;
            }
            let key = access.key;
            let Some(primary) = self.primaries[key.shard()] else { continue };
            let Some(landing) = self.one_sided.take_landing() else {
                return self.finish(id, Status::Full, 0, io);
            };
            let linked = self.shards.linked().expect("who locks so has such tables itself");
            self.counters.verbs += 1;
            match self.one_sided.address(key) {
                Some(at) => {
                    let length = linked.element_bytes(key);
                    let why = ReadPurpose::Lock;
                    self.swap(
                        landing,
                        Reading { id, index, key, why, primary, at, is_bucket: false, length },
                        io,
                    );
                }
                None => {
                    let Bucket { at, length } = linked.remote_bucket(key);
                    let why = ReadPurpose::Find;
                    let reading = Reading { id, index, key, why, primary, at, is_bucket: true, length };
                    self.one_sided.read(landing, reading, io.effects);
                }
            }
        }
    }

    /// Swaps the attempt's identifier into the lock of an element.
    fn swap(&mut self, landing: usize, reading: Reading, io: &mut Io<'_>) {
        let near = self.one_sided.landing(landing);
        let (peer, lock, swap) = (reading.primary, reading.at + Chained::LOCK, reading.id.bits());
        self.one_sided.expect(landing, Reading { why: ReadPurpose::Lock, ..reading });
        self.one_sided.post(landing as u64, (peer, lock), (near, 8), io.effects, |remote| {
            Operation::CompareSwap { remote, compare: 0, swap }
        });
    }

    /// The search for an object that is to be locked has ended: with its address, or with the result that it
    /// does not exist.
    pub(crate) fn on_found(
        &mut self,
        landing: usize,
        reading: Reading,
        address: Option<u64>,
        io: &mut Io<'_>,
    ) {
        let stage = self.attempt(reading.id).map(|attempt| attempt.stage);
        match (address, stage) {
            (Some(at), Some(Stage::Executing { .. })) => {
                let length = self.shards.linked().expect("it has READ there").element_bytes(reading.key);
                self.counters.verbs += 1;
                self.swap(landing, Reading { at, length, is_bucket: false, ..reading }, io);
            }
            _ => {
                self.one_sided.give_back(landing);
                if let (None, Some(Stage::Executing { .. } | Stage::Restarting)) = (address, stage) {
                    self.begin_by_message(reading.id, 1 << reading.key.shard(), io);
                }
            }
        }
    }

    /// An atomic swap has completed.
    pub(crate) fn on_swapped(&mut self, landing: usize, reading: Reading, io: &mut Io<'_>) {
        let near = self.one_sided.landing(landing);
        let old = u64::from_le_bytes(io.memory.image()[near..near + 8].try_into().expect("eight bytes"));
        let (locked, id) = (old == 0, reading.id);
        let lock = HeldLock {
            landing,
            primary: reading.primary,
            address: reading.at,
            index: reading.index,
            reading: true,
        };
        match self.attempt(id).filter(|attempt| matches!(attempt.stage, Stage::Executing { .. })) {
            Some(attempt) if locked => {
                attempt.held.push(lock);
                self.counters.verbs += 1;
                self.one_sided.read(landing, Reading { why: ReadPurpose::Locked, ..reading }, io.effects);
            }
            Some(_) => {
                self.one_sided.give_back(landing);
                self.finish(id, Status::Conflict, 0, io);
            }
            None if locked => self.give_lock_back(id, &lock, io),
            None => self.one_sided.give_back(landing),
        }
    }

    /// The READ of a locked object has completed.
    pub(crate) fn on_locked_read(
        &mut self,
        landing: usize,
        reading: Reading,
        object: Option<(Version, Option<&[u8]>)>,
        io: &mut Io<'_>,
    ) {
        let id = reading.id;
        let lock = HeldLock {
            landing,
            primary: reading.primary,
            address: reading.at,
            index: reading.index,
            reading: false,
        };
        let beginning = Version::new(self.view.epoch, 0);
        let executes = |attempt: &&mut Coordinated| matches!(attempt.stage, Stage::Executing { .. });
        let Some(attempt) = self.attempt(id).filter(executes) else {
            return self.give_lock_back(id, &lock, io);
        };
        let held = attempt.held.iter_mut().find(|held| held.landing == landing).expect("it was locked");
        held.reading = false;
        let Some((version, value)) = object else {
            // The element now holds another object.
            self.one_sided.forget(reading.key);
            return self.finish(id, Status::Conflict, 0, io);
        };
        let new = Version::from_bits(version.max(beginning).bits() + 1);
        let value = value.filter(|_| attempt.execution.accesses()[reading.index].mode.reads());
        attempt.execution.fetch(reading.index, version, new, value);
        self.continue_if_fetched(id, io);
    }

    /// Releases a lock by a WRITE.
    fn give_lock_back(&mut self, id: TransactionId, lock: &HeldLock, io: &mut Io<'_>) {
        self.write_element(id, lock, &[0; 8], io);
    }

    fn write_element(&mut self, id: TransactionId, lock: &HeldLock, bytes: &[u8], io: &mut Io<'_>) {
        let near = self.one_sided.landing(lock.landing);
        io.memory.image_mut()[near..near + bytes.len()].copy_from_slice(bytes);
        let reading = Reading {
            id,
            index: lock.index,
            key: crate::Key::new(0, 0),
            why: ReadPurpose::Release,
            primary: lock.primary,
            at: lock.address,
            is_bucket: false,
            length: bytes.len(),
        };
        self.counters.verbs += 1;
        self.one_sided.expect(lock.landing, reading);
        let far = (lock.primary, lock.address + Chained::LOCK);
        self.one_sided.post(lock.landing as u64, far, (near, bytes.len()), io.effects, |remote| {
            Operation::Write { remote, immediate: None }
        });
    }

    /// Releases all locks of an attempt that has ended. A lock whose READ is outstanding is released when the
    /// READ completes.
    pub(crate) fn give_locks_back(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let mut held = take(&mut self.attempt_mut(id).held);
        for lock in held.drain(..).filter(|lock| !lock.reading) {
            self.give_lock_back(id, &lock, io);
        }
        self.attempt_mut(id).held = held;
    }

    /// Commits the locked keys: one WRITE per object holds its new value and the released lock. The card
    /// writes memory packet by packet, and an element is shorter than a packet, so each WRITE is atomic.
    /// Returns the number of WRITEs.
    pub(crate) fn commit_by_writes(&mut self, id: TransactionId, io: &mut Io<'_>) -> usize {
        let attempt = self.attempt_mut(id);
        let (execution, mut held) = (take(&mut attempt.execution), take(&mut attempt.held));
        let count = held.len();
        for lock in held.drain(..) {
            let (length, value) = match execution.written(lock.index) {
                Written::Nothing => {
                    self.give_lock_back(id, &lock, io);
                    continue;
                }
                Written::Deleted => (0, &[][..]),
                Written::Value(value) => (PRESENT | value.len() as u64, value),
            };
            let mut element = take(&mut self.read_bytes);
            element.clear();
            let key = execution.accesses()[lock.index].key;
            for word in [0, execution.new_version(lock.index).bits(), key.bits(), length] {
                element.extend_from_slice(&word.to_le_bytes());
            }
            element.extend_from_slice(value);
            self.write_element(id, &lock, &element, io);
            self.read_bytes = element;
        }
        let attempt = self.attempt_mut(id);
        (attempt.execution, attempt.held) = (execution, held);
        count
    }

    /// A WRITE that releases a lock has completed.
    pub(crate) fn on_released(&mut self, landing: usize, reading: Reading, io: &mut Io<'_>) {
        self.one_sided.give_back(landing);
        if let Some(attempt) = self.attempt(reading.id).filter(|attempt| attempt.stage == Stage::Committing) {
            attempt.reading -= 1;
            self.continue_if_logged(reading.id, io);
        }
    }
}
