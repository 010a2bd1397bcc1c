//! Giving up after LOG: the records of an attempt found room in the logs of some replicas, and none at others.
//!
//! Room is made when a record at the head of a log is decided. Attempts that hold room in one log and want it in
//! another can wait for each other in a circle; so can attempts of one coordinator, whose backups learn that a later
//! one is decided only when the earlier is, from the watermark. So who is refused again after it has repeated itself
//! makes room: it asks all replicas of what it writes to *withdraw* it. They drop its records and log no others. When
//! all have, it is decided, and tried again by the host half.
//!
//! **Why nothing contradicts.** A coordinator that withdraws takes no answer to LOG any more, so it never tells that
//! the attempt took effect. It tells that it did not once no replica has a record, nor will have one: whoever
//! survives, a view change finds a survivor without a record, and aborts it. Until then nothing is told, and either
//! outcome of a view change stands: committed, if all who have withdrawn it are dead and all survivors have its
//! records. Therefore its locks stay until then, too: had another written the keys meanwhile, it could not take
//! effect any more.

use weft_waist::{Io, NodeId, NodeSet};

use crate::engine::Transactions;
use crate::engine::commit::written_shards;
use crate::host_port::TABLE;
use crate::message::{Kind, Lack, RecordPart, Status, write, write_id};
use crate::transaction::TransactionId;
use crate::window::Stage;

/// An attempt repeats itself so often before a refusal counts: room that hosts are about to make is worth waiting for.
const PATIENCE: u32 = 2;

impl Transactions {
    /// Tells the coordinator of a record that finds no room here. `shards`: all that the attempt writes.
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
        // Records WRITTEN into rings stay there.
        if self.parameters.variant.log_by_write || !self.replicas[place.shard].contains(node) {
            return;
        }
        let Some(attempt) = self.attempt(place.id) else { return };
        let (shards, answered) = match &mut attempt.stage {
            Stage::Logging => (written_shards(&attempt.execution), true),
            Stage::Shipped { .. } => (shards, attempt.shipped.is_some()),
            // One replica with a full table is enough, whatever the others lack.
            Stage::Withdrawing { lack: worst, .. } => return *worst = lack.max(*worst),
            _ => return,
        };
        // An attempt that waits for a table keeps its locks.
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

    /// Drops the local log record of an attempt. Its locks stay: it may take effect elsewhere.
    pub(crate) fn on_withdraw(&mut self, id: TransactionId, io: &mut Io<'_>) {
        // A LOG of an unknown attempt may arrive later.
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
        let mut out = self.message();
        write_id(&mut out, id);
        self.post_to(io.effects, id.coordinator(), Kind::Withdrawn, out);
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
