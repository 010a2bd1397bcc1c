//! Transactions that the host has executed over its own table, optimistically (Xenic 4.2.4).
//!
//! All keys are of shards whose primary this node is. The card looks in one event whether nobody else has locked them
//! and whether what the host has read is what is committed, locks what is written, and goes on with LOG. At that
//! moment all is as it was read, and what is written stays locked from then on: that is when the transaction happens,
//! and nothing is validated later. No value is fetched for it, nothing but the outcome goes back to the host.

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

/// No procedure has this number: the host has executed it.
const NONE: ProcedureId = ProcedureId(u16::MAX);

impl Transactions {
    pub(crate) fn on_local(&mut self, token: u32, executed: &HostExecution<'_>, io: &mut Io<'_>) {
        if self.refuses(token, io) {
            return;
        }
        self.counters.executed_by_host += 1;
        let id = self.open(token, NONE);
        let mut execution = take(&mut self.attempt_mut(id).execution);
        let outcome = self.take_in(&mut execution, executed);
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

    /// Makes an execution of what the host says that it has done.
    fn take_in(&self, execution: &mut Execution, executed: &HostExecution<'_>) -> Result<(), Fault> {
        let mut accesses = [Access { key: Key::new(0, 0), mode: Mode::Read }; crate::KEYS_MAX];
        let count = executed.claims.len();
        if count > crate::KEYS_MAX {
            return Err(Fault::TooManyKeys);
        }
        for (place, claim) in accesses.iter_mut().zip(executed.claims.iter()) {
            *place = claim.want.access;
        }
        execution.begin(&[], &accesses[..count])?;
        // In the order of the keys.
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

    /// Whether all that the host has read is this node's to change and as it was read, and nobody has locked any of
    /// it, or of what is written.
    fn is_as_read(&mut self, id: TransactionId, executed: &HostExecution<'_>, io: &mut Io<'_>) -> bool {
        let execution = take(&mut self.attempt_mut(id).execution);
        // Between what a table had before this view and what this node has served since there may be anything.
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
            // Copies for the former attempt in its place are under way.
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
