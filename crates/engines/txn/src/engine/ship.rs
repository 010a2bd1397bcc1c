//! Transactions that run at another node's primary (Xenic 4.2.3). The primary locks all its keys, also those
//! that are only read, so nothing need be validated. It runs the procedure and sends the writes to the
//! replicas, which answer to the coordinator.

use std::mem::take;

use weft_waist::{Computation, Io, NodeId};

use crate::engine::Transactions;
use crate::engine::commit::written_shards;
use crate::message::{Got, Kind, List, Status, Want, write};
use crate::operation::Purpose;
use crate::procedure::{Access, Mode, ProcedureId, Step};
use crate::transaction::TransactionId;

impl Transactions {
    pub(crate) fn on_ship(
        &mut self,
        id: TransactionId,
        procedure: ProcedureId,
        input: &[u8],
        wants: &List<'_, Want>,
        local: &List<'_, Got<'_>>,
        io: &mut Io<'_>,
    ) {
        let here = |want: &Want| local.iter().all(|got| got.index != want.index);
        let shard = wants.iter().find(here).map(|want| want.access.key.shard());
        let known = wants.len() <= crate::KEYS_MAX && self.procedures.get(procedure).is_some();
        let Some(shard) = shard.filter(|&shard| known && self.is_primary(shard)) else {
            self.counters.stale += 1;
            return;
        };
        let ordered = wants.iter().enumerate().all(|(place, want)| usize::from(want.index) == place);
        let mine = wants.iter().filter(here).all(|want| want.access.key.shard() == shard);
        if !ordered || !mine || local.iter().any(|got| usize::from(got.index) >= wants.len()) {
            self.counters.malformed += 1;
            return;
        }
        let Some(slot) = self.participants.enter(id).filter(|slot| slot.operations == 0) else {
            self.counters.stale += 1;
            return;
        };
        if slot.shipped.is_some() {
            return self.repeat_ship(id, io);
        }
        let Some(number) = self.operations.begin(Purpose::Ship, id, shard) else {
            self.counters.operations_full += 1;
            return;
        };
        let mut accesses = [Access { key: crate::Key::new(0, 0), mode: Mode::Read }; crate::KEYS_MAX];
        for (place, want) in accesses.iter_mut().zip(wants.iter()) {
            *place = want.access;
        }
        let mut execution = self.executions.pop().unwrap_or_default();
        let begun = execution.begin(input, &accesses[..wants.len()]);
        let locked = match begun {
            Ok(()) => self.lock(id, number, wants.iter().filter(here), true, io),
            Err(_) => Err(Status::Faulty),
        };
        if let Err(status) = locked {
            self.executions.push(execution);
            self.operations.end(number);
            let reason = begun.err().map_or(0, |fault| fault as u8);
            return self.refuse_ship(id, status, reason, io);
        }
        for got in local.iter() {
            execution.fetch(usize::from(got.index), got.read, got.new, got.value);
        }
        let slot = self.participants.open(id).expect("entered above");
        (slot.execution, slot.procedure) = (Some(execution), procedure);
        self.look_up(number, io);
    }

    /// Refuses the request and remembers the refusal. Otherwise a repetition of the request might be executed
    /// and its writes logged, while the coordinator sees only the refusal and takes the attempt for aborted.
    fn refuse_ship(&mut self, id: TransactionId, status: Status, reason: u8, io: &mut Io<'_>) {
        self.participants.open(id).expect("the caller has it").shipped = Some((status, reason));
        self.answer_ship(id, status, reason, 0, &[], io);
    }

    fn answer_ship(
        &mut self,
        id: TransactionId,
        status: Status,
        reason: u8,
        shards: u16,
        answer: &[u8],
        io: &mut Io<'_>,
    ) {
        let mut out = self.message();
        write::shipped(&mut out, id, status, reason, shards, answer);
        self.post_to(io.effects, id.coordinator(), Kind::Shipped, out);
    }

    /// All keys are locked and read: runs the procedure.
    pub(crate) fn complete_ship(&mut self, number: usize, io: &mut Io<'_>) {
        let operation = self.operations.get(number);
        let id = operation.id;
        let slot = self.participants.open(id).expect("it waits for its operation");
        if operation.failed {
            self.executions.extend(slot.execution.take());
            self.unlock_all(id, io);
            return self.refuse_ship(id, Status::Full, 0, io);
        }
        let mut execution = slot.execution.take().expect("kept since it came");
        let procedure = slot.procedure;
        for sought in &operation.sought {
            let value = sought.value.clone().map(|range| &operation.values[range]);
            execution.fetch(usize::from(sought.index), sought.version, sought.new, value);
        }
        io.effects.computed(Computation::Procedure(procedure.0));
        let procedure = self.procedures.get(procedure).expect("looked up when it came");
        self.counters.runs += 1;
        let (status, reason) = match execution.run(procedure) {
            Ok(Step::Commit) => match self.misfit(&execution) {
                Some(fault) => (Status::Faulty, fault as u8),
                None if execution.pending().next().is_none() => (Status::Ok, 0),
                None => (Status::More, 0),
            },
            Ok(Step::More) => (Status::More, 0),
            Ok(Step::Abort(reason)) => (Status::Aborted, reason),
            Err(fault) => (Status::Faulty, fault as u8),
        };
        if status == Status::Ok {
            self.record(id, &execution);
        }
        let slot = self.participants.open(id).expect("it has not ended meanwhile");
        (slot.execution, slot.shipped) = (Some(execution), Some((status, reason)));
        self.repeat_ship(id, io);
    }

    /// Answers with the outcome of a run, and sends its writes to the replicas, for the first time or again.
    fn repeat_ship(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let slot = self.participants.open(id).expect("the caller has it");
        let (status, reason) = slot.shipped.expect("the caller has seen it");
        let Some(execution) = slot.execution.take() else {
            return self.answer_ship(id, status, reason, 0, &[], io);
        };
        let mut shards = 0;
        if status == Status::Ok {
            shards =
                self.send_log(id, &execution, |_| true, io, |engine, place| engine.replicas[place.shard]);
        }
        if status == Status::Ok && shards != 0 {
            self.participants.open(id).expect("as above").execution = Some(execution);
            return self.answer_shipped(id, io);
        }
        self.answer_ship(id, status, reason, shards, execution.answered(), io);
        self.participants.open(id).expect("as above").execution = Some(execution);
        // Nothing is logged, so the locks are released without waiting for the coordinator's END.
        self.unlock_all(id, io);
    }

    /// Answers with the outcome of a run whose writes are logged, once this node has logged all of its own
    /// records. The answer also confirms these records.
    pub(crate) fn answer_shipped(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let node = NodeId::new(self.node).expect("a node");
        let slot = self.participants.open(id).expect("the caller has it");
        let (Some((Status::Ok, reason)), Some(execution)) = (slot.shipped, slot.execution.take()) else {
            unreachable!("what is logged has run")
        };
        let shards = written_shards(&execution);
        let mine = (0..self.parameters.nodes).filter(|&shard| self.replicas[shard].contains(node));
        let mine = mine.fold(0, |set, shard| set | 1 << shard) & shards;
        let log = &mut self.log;
        if slot.held() & mine == mine && slot.parts.iter().all(|part| log.is_durable(part.position)) {
            self.answer_ship(id, Status::Ok, reason, shards, execution.answered(), io);
        }
        self.participants.open(id).expect("as above").execution = Some(execution);
    }

    /// Releases all locks of an attempt at this node.
    fn unlock_all(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let slot = self.participants.open(id).expect("the caller has it");
        let locks = take(&mut slot.locks);
        locks.iter().for_each(|(key, _)| self.shards.unlock(io.memory, *key, id));
    }
}
