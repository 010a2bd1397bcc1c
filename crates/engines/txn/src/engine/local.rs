//! Transactions that the host has executed optimistically over its own table (Xenic 4.2.4).
//!
//! All keys belong to shards whose primary this node is. In one event the card checks that no other attempt
//! has locked them, and that the versions that the host has read are the committed ones. In the same event it
//! locks the written keys; then it continues with LOG. The transaction takes effect at that event: all its
//! reads are current, and its written keys stay locked from then on. So nothing is validated later. No value
//! is fetched for it, and only the outcome goes back to the host.

use std::mem::take;

use weft_waist::Io;

use crate::engine::Transactions;
use crate::host_port::HostExecution;
use crate::key::{Key, Version};
use crate::message::Status;
use crate::parameters::PlantedBug;
use crate::procedure::{Access, Mode, ProcedureId, Step};
use crate::procedure::{Execution, Fault, Written};
use crate::transaction::TransactionId;
use crate::window::Stage;

/// A number that no procedure has: the host has executed the transaction.
const NONE: ProcedureId = ProcedureId(u16::MAX);

impl Transactions {
    pub(crate) fn on_local(&mut self, token: u32, executed: &HostExecution<'_>, io: &mut Io<'_>) {
        if self.refuses(token, io) {
            return;
        }
        self.counters.executed_by_host += 1;
        let id = self.open(token, NONE);
        let mut execution = take(&mut self.attempt_mut(id).execution);
        let outcome = self.convert_report(&mut execution, executed);
        let fits = outcome.and_then(|()| execution.check(executed.step));
        self.attempt_mut(id).execution = execution;
        match fits {
            Err(fault) => self.finish(id, Status::Faulty, fault as u8, io),
            Ok(_) if !self.is_as_read(id, executed, io) => {
                self.counters.host_conflicts += 1;
                self.finish(id, Status::Conflict, 0, io);
            }
            Ok(Step::Abort(reason)) => {
                self.attempt_mut(id).refused = Some(reason);
                self.log_writes(id, io);
            }
            Ok(Step::More) => unreachable!("all that is claimed is fetched: there is nothing to go on for"),
            Ok(Step::Commit) => match self.lock_written(id, io) {
                Ok(()) => self.log_writes(id, io),
                Err(status) => self.finish(id, status, 0, io),
            },
        }
    }

    /// Converts the host's report into an execution.
    fn convert_report(&self, execution: &mut Execution, executed: &HostExecution<'_>) -> Result<(), Fault> {
        let mut accesses = [Access { key: Key::new(0, 0), mode: Mode::Read }; crate::KEYS_MAX];
        let count = executed.claims.len();
        if count > crate::KEYS_MAX {
            return Err(Fault::TooManyKeys);
        }
        for (place, claim) in accesses.iter_mut().zip(executed.claims.iter()) {
            *place = claim.want.access;
        }
        execution.begin(&[], &accesses[..count])?;
        // The reads and claims are in the order of the keys.
        let mut read = executed.read.iter().peekable();
        for (index, claim) in executed.claims.iter().enumerate() {
            let version = match (claim.want.access.mode.reads(), claim.version) {
                (false, _) => Version::ZERO,
                (true, Version::ZERO) => self.shards.absent(claim.want.access.key),
                (true, version) => version,
            };
            let got = read.next_if(|got| usize::from(got.index) == index);
            execution.fetch(index, version, Version::ZERO, got.and_then(|got| got.value));
        }
        execution.begin_run();
        for put in executed.writes.iter() {
            let index = execution.find(put.key).unwrap_or(crate::KEYS_MAX);
            execution.write(index, put.value);
        }
        execution.answer(executed.answer);
        Ok(())
    }

    /// Whether this node is the primary of all keys, the versions that the host has read are current, and no
    /// other attempt has locked a key.
    fn is_as_read(&mut self, id: TransactionId, executed: &HostExecution<'_>, io: &mut Io<'_>) -> bool {
        let execution = take(&mut self.attempt_mut(id).execution);
        // A read made before the table had applied everything that was logged before this view may miss
        // writes of other primaries. So the host must have applied at least that much.
        let mut holds = executed.applied >= self.recovery.drained;
        for (index, claim) in executed.claims.iter().enumerate() {
            let Access { key, mode } = claim.want.access;
            if key.shard() >= self.parameters.nodes || !self.is_primary(key.shard()) {
                holds = false;
                break;
            }
            self.counters.lookups += 1;
            io.memory.touch(2);
            if mode.reads() || execution.written(index) != Written::Nothing {
                holds &= self.shards.holder(io.memory, key).is_none();
            }
            if mode.reads() && !self.bug(PlantedBug::HostVersionUnchecked) {
                holds &= self.shards.is_current(key, claim.version, executed.applied);
            }
        }
        self.attempt_mut(id).execution = execution;
        holds
    }

    /// Locks the keys to write, which no other attempt has locked.
    fn lock_written(&mut self, id: TransactionId, io: &mut Io<'_>) -> Result<(), Status> {
        let mut execution = take(&mut self.attempt_mut(id).execution);
        let shards = crate::engine::commit::written_shards(&execution);
        let mut outcome = Ok(());
        if shards != 0 && self.participants.enter(id).is_none() {
            // Operations of the former attempt in this slot are still under way.
            outcome = Err(Status::Conflict);
        }
        for index in 0..execution.accesses().len() {
            if outcome.is_err() {
                break;
            }
            if execution.written(index) == Written::Nothing {
                continue;
            }
            let key = execution.accesses()[index].key;
            if self.shards.lock(io.memory, key, id) {
                let new = self.draw();
                execution.lock(index, new);
                self.participants.slot(id).locks.push((key, new));
            } else {
                outcome = Err(Status::Full);
            }
        }
        let attempt = self.attempt_mut(id);
        attempt.execution = execution;
        attempt.stage = Stage::Locking;
        attempt.locked = shards;
        outcome
    }
}
