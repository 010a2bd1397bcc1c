//! The second half of an attempt: all replicas log its writes. This node sends them, or the primary that the
//! attempt was shipped to.

use std::mem::take;

use weft_waist::{Computation, Io, NodeId, NodeSet};

use crate::engine::Transactions;
use crate::host_port;
use crate::log;
use crate::message::{
    DIFFERENCE_BYTES_MIN, Got, HEADER_BYTES_MAX, Kind, Put, RecordPart, Replacement, Status, Want, write,
};
use crate::parameters::PlantedBug;
use crate::procedure::{Execution, Fault, Written};
use crate::room::Room;
use crate::transaction::TransactionId;
use crate::window::{Acknowledgement, Stage};
use crate::wiring::RING_BYTES;

impl Transactions {
    pub(crate) fn log_writes(&mut self, id: TransactionId, io: &mut Io<'_>) {
        if let Some(reason) = self.attempt_mut(id).refused {
            let attempt = self.attempt_mut(id);
            attempt.answer.clear();
            attempt.answer.extend_from_slice(attempt.execution.answered());
            return self.finish(id, Status::Aborted, reason, io);
        }
        let execution = take(&mut self.attempt_mut(id).execution);
        let by_write = self.parameters.variant.log_by_write;
        if let Some(fault) = self.misfit(&execution) {
            self.attempt_mut(id).execution = execution;
            return self.finish(id, Status::Faulty, fault as u8, io);
        }
        // A record that was written by RDMA WRITE cannot be withdrawn. So none is written before all backups'
        // rings, and this node's own log, have room for it.
        let own_room = |engine: &Self| engine.log.has_room_for(engine.log_bytes_at(&execution, engine.node));
        if by_write && !(self.rings_have_room(bytes_of(&execution)) && own_room(self)) {
            self.attempt_mut(id).execution = execution;
            return self.finish(id, Status::Full, 0, io);
        }
        self.record(id, &execution);
        let mut acknowledgements = take(&mut self.attempt_mut(id).acknowledgements);
        let own = NodeSet::EMPTY.with(NodeId::new(self.node).expect("a node"));
        let shards = self.send_log(
            id,
            &execution,
            |_| true,
            io,
            |engine, place| {
                let waiting = engine.loggers(place.shard);
                acknowledgements.push(Acknowledgement { place, waiting });
                if by_write { waiting.intersection(own) } else { waiting }
            },
        );
        if by_write {
            self.write_log(&execution, shards, &acknowledgements, io);
        }
        let attempt = self.attempt_mut(id);
        attempt.answer.clear();
        attempt.answer.extend_from_slice(execution.answered());
        attempt.execution = execution;
        attempt.acknowledgements = acknowledgements;
        attempt.stage = Stage::Logging;
        self.continue_if_logged(id, io);
    }

    /// WRITEs the records of an execution into this node's rings at the backups.
    fn write_log(&mut self, execution: &Execution, shards: u16, parts: &[Acknowledgement], io: &mut Io<'_>) {
        let budget = self.log_budget();
        let mut record = take(&mut self.scratch);
        for &Acknowledgement { place, waiting } in parts {
            log::encode(&mut record, &place, shards, puts_of(execution, place.shard, place.part, budget));
            let own = NodeId::new(self.node).expect("a node");
            for peer in waiting.without(own).iter() {
                self.write_record(peer.index(), place, &record, io);
            }
        }
        self.scratch = record;
    }

    /// The maximum bytes of writes in one record.
    const fn log_budget(&self) -> usize {
        self.parameters.message_bytes - HEADER_BYTES_MAX - write::LOG_HEAD_BYTES_MAX
    }

    /// Bytes of all records of an execution that a node logs, and bytes of the longest of them.
    fn log_bytes_at(&self, execution: &Execution, node: usize) -> (usize, usize) {
        let (budget, node) = (self.log_budget(), NodeId::new(node).expect("a node"));
        let shards = written_shards(execution);
        let logs = |shard: &usize| shards >> shard & 1 == 1 && self.loggers(*shard).contains(node);
        let (mut all, mut longest) = (0, 0);
        for shard in (0..self.parameters.nodes).filter(logs) {
            for part in 0..split(execution, shard, budget).1 {
                let puts = puts_of(execution, shard, part, budget);
                let length = log::length(puts.map(|put| put.bytes()).sum());
                (all, longest) = (all + length, longest.max(length));
            }
        }
        (all, longest)
    }

    /// The reason for which no replica could ever hold the writes of an execution, if there is one.
    pub(crate) fn misfit(&self, execution: &Execution) -> Option<Fault> {
        let is_long = |index| match execution.written(index) {
            Written::Value(value) => !self.shards.can_hold(Some(value)),
            Written::Nothing | Written::Deleted => false,
        };
        if (0..execution.accesses().len()).any(is_long) {
            Some(Fault::LongValue)
        } else {
            self.is_too_large(execution).then_some(Fault::TooLarge)
        }
    }

    /// Whether some log is too short for all records of an execution, even if it holds nothing else. Such an
    /// attempt would never end.
    fn is_too_large(&self, execution: &Execution) -> bool {
        let rings = self.parameters.variant.log_by_write && 2 * bytes_of(execution) > RING_BYTES;
        let is_short = |node: usize| {
            let (all, longest) = self.log_bytes_at(execution, node);
            all + longest > self.parameters.log_bytes
        };
        // The sum over all shards is cheap to compute, and nearly always small enough. The nodes are examined
        // only if it is not.
        rings
            || 2 * bytes_of(execution) > self.parameters.log_bytes && (0..self.parameters.nodes).any(is_short)
    }

    /// The nodes that must log the writes of a shard before the attempt is committed.
    fn loggers(&self, shard: usize) -> NodeSet {
        let primary =
            self.primaries[shard].and_then(NodeId::new).filter(|_| !self.parameters.variant.log_at_primary);
        primary.map_or(self.replicas[shard], |primary| self.replicas[shard].without(primary))
    }

    /// Reports the outcome to the host, then sends the values to the primaries. The attempt is decided when
    /// all primaries have them.
    fn commit_at_primaries(&mut self, id: TransactionId, io: &mut Io<'_>) {
        self.tell(id, Status::Ok, 0, io);
        let attempt = self.attempt_mut(id);
        attempt.stage = Stage::Committing;
        // The primaries of written shards release their locks as they commit. The other primaries need END.
        let execution = take(&mut attempt.execution);
        attempt.locked &= !written_shards(&execution);
        let mut acknowledgements = take(&mut attempt.acknowledgements);
        let asked_by_message = attempt.by_message;
        let by_message = |engine: &Self, shard: usize| {
            let locked_so = engine.parameters.variant.lock_by_atomic;
            !locked_so || engine.is_primary(shard) || asked_by_message >> shard & 1 == 1
        };
        for known in &mut acknowledgements {
            let shard = known.place.shard;
            let primary = self.primaries[shard].filter(|_| by_message(self, shard));
            known.waiting = primary.and_then(NodeId::new).into_iter().collect();
        }
        self.send_log(
            id,
            &execution,
            |_| true,
            io,
            |engine, place| {
                let primary = engine.primaries[place.shard].filter(|_| by_message(engine, place.shard));
                primary.and_then(NodeId::new).into_iter().collect()
            },
        );
        let attempt = self.attempt_mut(id);
        (attempt.execution, attempt.acknowledgements) = (execution, acknowledgements);
        attempt.reading = 0;
        let writes = self.commit_by_writes(id, io);
        self.attempt_mut(id).reading = writes;
        self.continue_if_logged(id, io);
    }

    /// Sends the records of an execution, split into messages, to the nodes that `to` returns for each
    /// record.
    pub(crate) fn send_log(
        &mut self,
        id: TransactionId,
        execution: &Execution,
        wanted: impl Fn(&RecordPart) -> bool,
        io: &mut Io<'_>,
        mut to: impl FnMut(&mut Self, RecordPart) -> NodeSet,
    ) -> u16 {
        let budget = self.log_budget();
        let shards = written_shards(execution);
        for shard in (0..self.parameters.nodes).filter(|shard| shards >> shard & 1 == 1) {
            let parts = split(execution, shard, budget).1;
            for part in 0..parts {
                let place = RecordPart { id, shard, part, parts };
                if !wanted(&place) {
                    continue;
                }
                let receivers = to(self, place);
                let needs = self.needs_of(execution, &place);
                let sent = self.log_differences(execution, &place, shards, needs, receivers, io);
                let receivers = receivers.minus(sent);
                if !receivers.is_empty() {
                    let mut out = self.message();
                    write::log(&mut out, &place, shards, needs, puts_of(execution, shard, part, budget));
                    self.post(io.effects, receivers, Kind::Log, out);
                }
            }
        }
        shards
    }

    /// Sends a record as differences to the values that were read, if that is shorter. Returns the nodes that
    /// it was sent to. These are full members only, since a joining node may lack the former value. If this
    /// node is the primary, it must have the value itself too: after an execution on the host alone, the card
    /// may never have seen it.
    fn log_differences(
        &mut self,
        execution: &Execution,
        place: &RecordPart,
        shards: u16,
        needs: Room,
        receivers: NodeSet,
        io: &mut Io<'_>,
    ) -> NodeSet {
        let holders = receivers.intersection(self.view.full);
        let puts = puts_of(execution, place.shard, place.part, self.log_budget());
        let is_long = |put: Put<'_>| put.value.is_some_and(|value| value.len() > DIFFERENCE_BYTES_MIN);
        let may_be_shorter = self.parameters.variant.log_differences && puts.clone().any(is_long);
        if !may_be_shorter || holders.is_empty() {
            return NodeSet::EMPTY;
        }
        let (mut compared, is_primary) = (0, self.is_primary(place.shard));
        let mut out = self.message();
        let replacements = puts.map(|put| {
            let index = execution.find(put.key).expect("it writes the key");
            let read = execution.value(index).map(|value| (execution.read_version(index), value));
            let is_near = |version| self.shards.known(put.key).is_some_and(|(near, _)| near == version);
            let read = read.filter(|&(version, _)| !is_primary || is_near(version));
            compared += read.and(put.value).map_or(0, |value| value.len() as u64);
            Replacement { put, read }
        });
        let shorter = write::log_differences(&mut out, place, shards, needs, replacements);
        io.effects.computed(Computation::Compare(compared));
        self.counters.differences += u64::from(shorter);
        let sent = if shorter { holders } else { NodeSet::EMPTY };
        self.post(io.effects, sent, Kind::Log, out);
        sent
    }

    /// The most room in a table that the writes of a record may take. A key that the attempt has not read
    /// counts as inserted.
    fn needs_of(&self, execution: &Execution, place: &RecordPart) -> Room {
        let puts = puts_of(execution, place.shard, place.part, self.log_budget());
        puts.fold(Room::default(), |all, put| {
            let Some(value) = put.value else { return all };
            let index = execution.find(put.key).expect("it writes the key");
            let former = execution.value(index).map(<[u8]>::len);
            all.plus(self.shards.needs(value.len(), former))
        })
    }

    pub(crate) fn on_logged(&mut self, from: usize, place: RecordPart, io: &mut Io<'_>) {
        let replicas = self.replicas[place.shard];
        let first = self.bug(PlantedBug::CommitAtFirstLog);
        let Some(attempt) = self.attempt(place.id) else { return };
        if !matches!(attempt.stage, Stage::Logging | Stage::Committing | Stage::Shipped { .. }) {
            return;
        }
        let same =
            |known: &&mut Acknowledgement| (known.place.shard, known.place.part) == (place.shard, place.part);
        let node = NodeId::new(from).expect("a node");
        match attempt.acknowledgements.iter_mut().find(same) {
            Some(known) => {
                known.waiting = if first { NodeSet::EMPTY } else { known.waiting.without(node) };
            }
            None if matches!(attempt.stage, Stage::Logging | Stage::Committing) => return,
            // A replica's answer may arrive before that of the primary that sent it the record.
            None => attempt.acknowledgements.push(Acknowledgement { place, waiting: replicas.without(node) }),
        }
        self.continue_if_logged(place.id, io);
    }

    pub(crate) fn continue_if_logged(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let attempt = self.window.at(id.sequence());
        let writes = attempt.stage == Stage::Committing && attempt.reading > 0;
        // The primary that has reported the outcome of its run has logged its own records.
        let mut said = NodeSet::EMPTY;
        if let (Stage::Shipped { shard }, Some(_)) = (attempt.stage, attempt.shipped) {
            said = self.primaries[shard].and_then(NodeId::new).into_iter().collect();
        }
        let waits = |known: &Acknowledgement| known.waiting.intersection(said) != known.waiting;
        if writes || attempt.acknowledgements.iter().any(waits) {
            return;
        }
        if let Stage::Shipped { .. } = attempt.stage {
            let Some(shards) = attempt.shipped else { return };
            for shard in (0..16).filter(|shard| shards >> shard & 1 == 1) {
                if self.replicas[shard].intersection(said) == self.replicas[shard] {
                    continue;
                }
                let parts = attempt.acknowledgements.iter().filter(|known| known.place.shard == shard);
                let complete =
                    parts.clone().next().is_some_and(|first| parts.count() == usize::from(first.place.parts));
                if !complete {
                    return;
                }
            }
        }
        let written = !attempt.acknowledgements.is_empty();
        let stage = attempt.stage;
        match stage {
            Stage::Committing => {
                self.end_at_primaries(id, io);
                self.advance(io);
            }
            Stage::Logging if written && !self.parameters.variant.log_at_primary => {
                self.commit_at_primaries(id, io)
            }
            _ => self.finish(id, Status::Ok, 0, io),
        }
    }

    // Restarting an attempt.

    /// Restarts an attempt, which then asks the primaries of `shards` by message. The restart waits until its
    /// locks are released. Otherwise the new attempt would conflict with the locks of the old one, and
    /// restart for ever.
    pub(crate) fn begin_by_message(&mut self, id: TransactionId, shards: u16, io: &mut Io<'_>) {
        let attempt = self.attempt_mut(id);
        attempt.by_message |= shards;
        attempt.stage = Stage::Restarting;
        self.give_locks_back(id, io);
    }

    /// Called when a verb of this attempt has completed. If the attempt waits to be restarted and this was
    /// its last outstanding verb, restarts it.
    pub(crate) fn continue_if_restarted(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let Some(attempt) = self.attempt(id).filter(|attempt| attempt.stage == Stage::Restarting) else {
            return;
        };
        let by_message = attempt.by_message;
        if !self.one_sided.is_busy_with(id) {
            self.restart_attempt(id, by_message, io);
        }
    }

    /// Replaces an attempt whose outcome was not reported by a new one, which runs on this node and is not
    /// shipped.
    fn restart_attempt(&mut self, id: TransactionId, by_message: u16, io: &mut Io<'_>) {
        if self.is_window_full() {
            return self.finish(id, Status::Full, 0, io);
        }
        let attempt = self.attempt_mut(id);
        let execution = take(&mut attempt.execution);
        let (token, procedure, named) = (attempt.token, attempt.procedure, attempt.named);
        self.end_at_primaries(id, io);
        let accesses = &execution.accesses()[..named];
        self.start(token, procedure, execution.input(), accesses, (false, by_message), io);
        self.attempt_mut(id).execution = execution;
        self.advance(io);
    }

    // Shipping a transaction to another primary (Xenic's multi-hop transactions).

    /// Ships a transaction to the primary of a shard, with the keys that this node has locked and read.
    pub(crate) fn ship(&mut self, id: TransactionId, shard: usize, io: &mut Io<'_>) {
        let Some(primary) = self.primaries[shard] else {
            return self.finish(id, Status::Unavailable, host_port::NOBODY, io);
        };
        let attempt = self.window.at(id.sequence());
        attempt.stage = Stage::Shipped { shard };
        attempt.locked |= 1 << shard;
        let execution = take(&mut attempt.execution);
        let procedure = attempt.procedure;
        let mut out = self.message();
        let wants = execution
            .accesses()
            .iter()
            .enumerate()
            .map(|(index, &access)| Want { index: index as u8, access });
        let local =
            (0..execution.accesses().len()).filter(|&index| execution.fetched(index)).map(|index| Got {
                index: index as u8,
                read: execution.read_version(index),
                new: execution.new_version(index),
                value: execution.value(index),
            });
        write::ship(&mut out, id, procedure, execution.input(), wants, local);
        self.attempt_mut(id).execution = execution;
        if out.len() > self.parameters.message_bytes {
            // The values read here do not fit into one message. So the attempt is not shipped: it sends
            // EXECUTE to that primary as usual. Locked keys stay locked.
            let attempt = self.attempt_mut(id);
            attempt.stage = Stage::Executing { ship: None };
            attempt.asked = attempt.execution.accesses().len();
            return self.send_execute(id, 0, io);
        }
        self.counters.shipped += 1;
        self.post_to(io.effects, primary, Kind::Ship, out);
    }

    pub(crate) fn on_shipped(
        &mut self,
        id: TransactionId,
        status: Status,
        reason: u8,
        shards: u16,
        answer: &[u8],
        io: &mut Io<'_>,
    ) {
        let Some(attempt) = self.attempt(id) else { return };
        if !matches!(attempt.stage, Stage::Shipped { .. }) || attempt.shipped.is_some() {
            return;
        }
        attempt.answer.clear();
        attempt.answer.extend_from_slice(answer);
        match status {
            Status::Ok => {
                attempt.shipped = Some(shards);
                self.continue_if_logged(id, io);
            }
            Status::More => {
                self.counters.recalled += 1;
                self.restart_attempt(id, 0, io);
            }
            _ => self.finish(id, status, reason, io),
        }
    }
}

/// An upper bound of the bytes of all records of an execution.
fn bytes_of(execution: &Execution) -> usize {
    let puts = (0..execution.accesses().len()).filter_map(|index| put_of(execution, index));
    puts.map(|put| 64 + put.bytes()).sum()
}

/// The shards that an execution writes, as a bit set.
pub(crate) fn written_shards(execution: &Execution) -> u16 {
    let written = |index: &usize| execution.written(*index) != Written::Nothing;
    let accesses = execution.accesses();
    (0..accesses.len()).filter(written).fold(0, |set, index| set | 1 << accesses[index].key.shard())
}

fn put_of(execution: &Execution, index: usize) -> Option<Put<'_>> {
    let (key, version) = (execution.accesses()[index].key, execution.new_version(index));
    match execution.written(index) {
        Written::Nothing => None,
        Written::Deleted => Some(Put { key, version, value: None }),
        Written::Value(value) => Some(Put { key, version, value: Some(value) }),
    }
}

/// Assigns the written keys of a shard, in order, to parts of at most `budget` bytes. Returns the part of
/// each key, and the number of parts.
fn split(execution: &Execution, shard: usize, budget: usize) -> ([u8; crate::KEYS_MAX], u8) {
    let mut part_of = [0; crate::KEYS_MAX];
    let (mut part, mut bytes) = (0, 0);
    for (index, in_part) in part_of.iter_mut().enumerate().take(execution.accesses().len()) {
        if let Some(put) = put_of(execution, index).filter(|put| put.key.shard() == shard) {
            let length = put.bytes();
            if bytes > 0 && bytes + length > budget {
                (part, bytes) = (part + 1, 0);
            }
            bytes += length;
            *in_part = part;
        }
    }
    (part_of, part + 1)
}

fn puts_of(
    execution: &Execution,
    shard: usize,
    part: u8,
    budget: usize,
) -> impl Iterator<Item = Put<'_>> + Clone {
    let part_of = split(execution, shard, budget).0;
    (0..execution.accesses().len())
        .filter(move |&index| part_of[index] == part)
        .filter_map(|index| put_of(execution, index))
        .filter(move |put| put.key.shard() == shard)
}
