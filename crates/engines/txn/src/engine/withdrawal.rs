//! Withdrawal: how an attempt is aborted after LOG, when some replicas have logged its records and others
//! have no room for them.
//!
//! A log gains room when the record at its head is decided. Attempts that hold room in one log and need room
//! in another can wait for each other in a cycle. So can attempts of one coordinator: its watermark tells the
//! backups that a later attempt is decided only after all earlier ones are. Therefore a coordinator whose
//! record is refused again after repetitions asks all replicas of the written shards to *withdraw* the
//! attempt. They drop its records and log no others. When all have done so, the attempt is decided, and the
//! host half tries the transaction again.
//!
//! **Why outcomes stay consistent.** A coordinator that withdraws an attempt ignores later answers to LOG, so
//! it never reports that the attempt took effect. It reports that the attempt did not take effect only when
//! no replica has a record, or will have one. After that any view change finds a survivor without a record,
//! and aborts the attempt too. Before that nothing is reported, so a view change may decide either way. It
//! commits the attempt if all replicas that have withdrawn it are dead and all survivors have its records.
//! Therefore the locks stay until the attempt is decided: if another attempt wrote the keys meanwhile, this
//! one could no longer take effect.

use weft_waist::{Io, NodeId, NodeSet};

use crate::engine::Transactions;
use crate::engine::commit::written_shards;
use crate::host_port::TABLE;
use crate::message::{Kind, Lack, RecordPart, Status, write, write_id};
use crate::transaction::TransactionId;
use crate::window::Stage;

/// A refusal for lack of log room counts only after this number of repetitions, because hosts may free room
/// soon.
const PATIENCE: u32 = 2;

impl Transactions {
    /// Tells the coordinator that this node has no room for a record. `shards`: all shards that the attempt
    /// writes.
    pub(crate) fn refuse_log(&mut self, place: &RecordPart, shards: u16, lack: Lack, io: &mut Io<'_>) {
        let counters = &mut self.counters;
        *(if lack == Lack::Log { &mut counters.log_full } else { &mut counters.table_full }) += 1;
        let mut out = self.message();
        write::refused(&mut out, place, shards, lack);
        self.post_to(io.effects, place.id.coordinator(), Kind::Refused, out);
    }

    pub(crate) fn on_refused(
        &mut self,
        from: usize,
        place: &RecordPart,
        shards: u16,
        lack: Lack,
        io: &mut Io<'_>,
    ) {
        let node = NodeId::new(from).expect("a node");
        // Records that were WRITTEN into rings cannot be withdrawn.
        if self.parameters.variant.log_by_write || !self.replicas[place.shard].contains(node) {
            return;
        }
        let Some(attempt) = self.attempt(place.id) else { return };
        let (shards, answered) = match &mut attempt.stage {
            Stage::Logging => (written_shards(&attempt.execution), true),
            Stage::Shipped { .. } => (shards, attempt.shipped.is_some()),
            // One replica with a full table decides the reported reason, whatever the other replicas lack.
            Stage::Withdrawing { lack: worst, .. } => return *worst = lack.max(*worst),
            _ => return,
        };
        // An attempt that waits for room in a table holds locks that others need, so it is withdrawn at once.
        if lack == Lack::Log && attempt.log_repeats < PATIENCE {
            return;
        }
        let written = (0..self.parameters.nodes).filter(|shard| shards >> shard & 1 == 1);
        let waiting = written.fold(NodeSet::EMPTY, |all, shard| all.union(self.replicas[shard]));
        self.counters.withdrawn += 1;
        self.attempt_mut(place.id).stage = Stage::Withdrawing { waiting, answered, lack };
        self.send_withdraw(place.id, waiting, io);
    }

    pub(crate) fn send_withdraw(&mut self, id: TransactionId, to: NodeSet, io: &mut Io<'_>) {
        let mut out = self.message();
        write_id(&mut out, id);
        self.post(io.effects, to, Kind::Withdraw, out);
    }

    /// Drops the records of an attempt from this node's log, and answers once it cannot forget that. Its locks
    /// stay, since it may take effect at other nodes.
    pub(crate) fn on_withdraw(&mut self, id: TransactionId, io: &mut Io<'_>) {
        // LOG of this attempt may still arrive, so an unknown attempt gets a slot that refuses it.
        if self.participants.open(id).is_none() && self.participants.enter(id).is_none() {
            self.counters.stale += 1;
            return;
        }
        let slot = self.participants.slot(id);
        slot.withdrawn = true;
        let parts = std::mem::take(&mut slot.parts);
        for part in &parts {
            self.decide(part.position, false, io);
        }
        if self.write_withdrawal(id, !parts.is_empty(), io) {
            self.answer_withdraw(id, io);
        }
    }

    pub(crate) fn on_withdrawn(&mut self, from: usize, id: TransactionId, io: &mut Io<'_>) {
        let node = NodeId::new(from).expect("a node");
        let Some(attempt) = self.attempt(id) else { return };
        let Stage::Withdrawing { waiting, lack, .. } = &mut attempt.stage else { return };
        *waiting = waiting.without(node);
        if waiting.is_empty() {
            let reason = if *lack == Lack::Table { TABLE } else { 0 };
            attempt.answer.clear();
            self.finish(id, Status::Full, reason, io);
        }
    }
}
