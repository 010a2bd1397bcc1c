//! The coordinator: takes a transaction of its host through EXECUTE, a run of its procedure, VALIDATE and LOG
//! (Xenic 4.2).
//!
//! Each attempt has a new identifier and ends at the first conflict; the host half tries the transaction
//! again. Requests are repeated until they are answered. An attempt is *decided* in one of three cases: all
//! replicas have logged its writes; it ended before any replica was asked to log; or all replicas that were
//! asked have dropped its records again (withdrawal.rs).

use std::mem::take;

use weft_waist::{Caller, Computation, Io, NodeId, NodeSet};

use crate::engine::Transactions;
use crate::engine::one_sided::ReadPurpose;
use crate::host_port::{self, HostKind};
use crate::key::Key;
use crate::message::{
    Claim, Drawn, Got, Kind, List, Put, RecordPart, Seen, Status, Verdict, Want, write, write_id,
};
use crate::parameters::{PlantedBug, Reads};
use crate::procedure::{Access, Mode, ProcedureId, Step};
use crate::procedure::{Execution, Fault, Written};
use crate::transaction::TransactionId;
use crate::window::{Coordinated, Stage};

impl Transactions {
    /// The attempt with this identifier, if this node coordinates it and it is not decided.
    pub(crate) fn attempt(&mut self, id: TransactionId) -> Option<&mut Coordinated> {
        if id.coordinator() != self.node || !self.window.open().contains(&id.sequence()) {
            return None;
        }
        let attempt = self.window.at(id.sequence());
        (attempt.id == Some(id) && attempt.stage != Stage::Ended).then_some(attempt)
    }

    pub(crate) fn attempt_mut(&mut self, id: TransactionId) -> &mut Coordinated {
        self.window.at(id.sequence())
    }

    pub(crate) fn reply(
        &mut self,
        token: u32,
        id: TransactionId,
        status: Status,
        reason: u8,
        answer: &[u8],
        io: &mut Io<'_>,
    ) {
        let mut out = take(&mut self.scratch);
        out.clear();
        host_port::write::outcome(&mut out, id, status, reason, answer);
        io.effects.reply(Caller::Host(token), HostKind::Outcome as u8, &[&out]);
        self.scratch = out;
    }

    // Starting an attempt.

    /// Whether no attempt can begin, because the attempt that last used the window's next slot is not known
    /// to all nodes as decided.
    pub(crate) const fn is_window_full(&self) -> bool {
        self.window.next - self.window.truncated >= self.parameters.window as u64
    }

    pub(crate) fn begin(
        &mut self,
        token: u32,
        procedure: ProcedureId,
        input: &[u8],
        wants: &List<'_, Want>,
        io: &mut Io<'_>,
    ) {
        if self.refuses(token, io) {
            return;
        }
        let node = NodeId::new(self.node).expect("a node");
        let mut accesses = [Access { key: crate::Key::new(0, 0), mode: Mode::Read }; crate::KEYS_MAX];
        let count = wants.len();
        let id = TransactionId::none(node);
        let refuse = |engine: &mut Self, fault: Fault, io: &mut Io<'_>| {
            engine.reply(token, id, Status::Faulty, fault as u8, &[], io);
        };
        if count > crate::KEYS_MAX {
            return refuse(self, Fault::TooManyKeys, io);
        }
        for (place, want) in accesses.iter_mut().zip(wants.iter()) {
            *place = want.access;
        }
        if self.procedures.get(procedure).is_none() {
            return refuse(self, Fault::NoSuchProcedure, io);
        }
        self.start(token, procedure, input, &accesses[..count], (true, 0), io);
    }

    /// Whether no attempt can begin now. If so, the host is notified.
    pub(crate) fn refuses(&mut self, token: u32, io: &mut Io<'_>) -> bool {
        if self.serves() && !self.is_window_full() {
            self.counters.begun += 1;
            return false;
        }
        self.counters.unavailable += 1;
        let node = NodeId::new(self.node).expect("a node");
        let reason = if self.never_serves() { host_port::NOBODY } else { 0 };
        self.reply(token, TransactionId::none(node), Status::Unavailable, reason, &[], io);
        true
    }

    /// Assigns a slot of the window to a new attempt.
    pub(crate) fn open(&mut self, token: u32, procedure: ProcedureId) -> TransactionId {
        let node = NodeId::new(self.node).expect("a node");
        let id = TransactionId::new(node, self.view.epoch, self.window.next);
        self.window.next += 1;
        let repeat_at = self.now + self.parameters.repeat;
        let attempt = self.attempt_mut(id);
        attempt.id = Some(id);
        attempt.stage = Stage::Executing { ship: None };
        (attempt.token, attempt.procedure, attempt.named) = (token, procedure, 0);
        (attempt.asked, attempt.sent, attempt.rounds) = (0, 0, 0);
        (attempt.ready, attempt.refused, attempt.atomic) = (false, None, true);
        attempt.seen = (0, 0);
        (attempt.locked, attempt.waiting, attempt.shipped) = (0, 0, None);
        (attempt.by_message, attempt.reading) = (0, 0);
        assert!(attempt.held.is_empty(), "the former attempt has given its locks back");
        attempt.acknowledgements.clear();
        attempt.answer.clear();
        (attempt.repeat_at, attempt.log_repeats) = (repeat_at, 0);
        id
    }

    /// Starts an attempt. It is shipped to another primary if `may_ship` and that saves messages (Xenic
    /// 4.2.3), and runs here otherwise.
    pub(crate) fn start(
        &mut self,
        token: u32,
        procedure: ProcedureId,
        input: &[u8],
        accesses: &[Access],
        (may_ship, by_message): (bool, u16),
        io: &mut Io<'_>,
    ) {
        let id = self.open(token, procedure);
        let attempt = self.attempt_mut(id);
        (attempt.named, attempt.by_message) = (accesses.len(), by_message);
        if let Err(fault) = attempt.execution.begin(input, accesses) {
            return self.finish(id, Status::Faulty, fault as u8, io);
        }
        match self.shorter_way(id, may_ship) {
            Some(shard) if self.attempt_mut(id).shards(|_| true).count_ones() == 1 => {
                self.ship(id, shard, io)
            }
            Some(shard) => {
                self.attempt_mut(id).stage = Stage::Executing { ship: Some(shard) };
                self.request(id, io);
            }
            None => self.request(id, io),
        }
    }

    /// The shard whose primary should run a transaction: the only shard of its keys, or the only one besides
    /// this node's own.
    fn shorter_way(&mut self, id: TransactionId, may_ship: bool) -> Option<usize> {
        let variant = self.parameters.variant;
        let attempt = self.window.at(id.sequence());
        let procedure = self.procedures.get(attempt.procedure).expect("looked up when it began");
        if !may_ship
            || !variant.multi_hop
            || !variant.ship_to_card
            || !procedure.ship()
            || !procedure.keys_known()
        {
            return None;
        }
        let shards = attempt.shards(|_| true);
        if attempt.shards(|access| access.mode.locks()) == 0 {
            return None;
        }
        let mut own = 0;
        for shard in 0..self.parameters.nodes {
            own |= u16::from(self.is_primary(shard)) << shard;
        }
        let remote = shards & !own;
        match (shards.count_ones(), remote.count_ones()) {
            (1, _) => Some(shards.trailing_zeros() as usize),
            (2, 1) => Some(remote.trailing_zeros() as usize),
            _ => None,
        }
    }

    // EXECUTE: requesting keys from their primaries.

    /// Requests the keys that were not requested yet, each from its primary.
    fn request(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let attempt = self.attempt_mut(id);
        let asked = attempt.asked;
        attempt.asked = attempt.execution.accesses().len();
        if asked == attempt.asked {
            return self.fetched(id, io);
        }
        attempt.rounds += 1;
        attempt.own_asked = false;
        attempt.atomic &= attempt.rounds == 1;
        if !self.parameters.variant.combined {
            // A key that is written but not read is not fetched here: it is locked when its write is known.
            let execution = &mut self.attempt_mut(id).execution;
            for index in asked..execution.accesses().len() {
                if execution.accesses()[index].mode == Mode::Write {
                    execution.fetch(index, crate::Version::ZERO, crate::Version::ZERO, None);
                }
            }
            if execution.pending().next().is_none() {
                return self.fetched(id, io);
            }
        }
        self.attempt_mut(id).addresses.resize(crate::KEYS_MAX, 0);
        if self.parameters.variant.order_own_keys && self.would_give_way_here(id, asked, io) {
            return self.finish(id, Status::Conflict, 0, io);
        }
        self.send_execute(id, asked, io);
        if self.attempt(id).is_some() {
            self.read_remotely(id, asked, ReadPurpose::Execute, io);
        }
        if self.attempt(id).is_some() {
            self.lock_by_atomics(id, asked, io);
        }
    }

    /// Whether this node is the primary of a key's shard. The shard may not exist.
    fn is_own(&self, key: Key) -> bool {
        self.primaries.get(key.shard()).is_some_and(|&primary| primary == Some(self.node))
    }

    /// Whether another attempt has locked one of this node's own keys, from index `from` on. If so, the
    /// attempt ends before other primaries lock and read for it in vain.
    fn would_give_way_here(&mut self, id: TransactionId, from: usize, io: &mut Io<'_>) -> bool {
        let execution = take(&mut self.attempt_mut(id).execution);
        let mut looks = 0;
        let gives_way =
            execution.accesses()[from..].iter().filter(|access| self.is_own(access.key)).any(|access| {
                looks += 1;
                let holder = self.shards.holder(io.memory, access.key).filter(|&holder| holder != id);
                // A lock of this node's own attempt that ended in this event does not count: the END that
                // releases it is queued, and is handled before EXECUTE.
                holder
                    .is_some_and(|holder| holder.coordinator() != self.node || !self.window.has_ended(holder))
            });
        if gives_way {
            // Without a conflict EXECUTE makes the same look-ups at once, and is charged for them.
            io.memory.touch(2 * looks);
        }
        self.attempt_mut(id).execution = execution;
        gives_way
    }

    /// The keys, as a bit set of indices, that this node reads from its own tables only after all other keys
    /// have arrived. Empty once they have.
    fn own_reads_to_wait(&mut self, id: TransactionId) -> u64 {
        let attempt = self.window.at(id.sequence());
        if !self.parameters.variant.order_own_keys || attempt.stage != (Stage::Executing { ship: None }) {
            return 0;
        }
        let (asked, execution) = (attempt.asked, take(&mut attempt.execution));
        let (mut own, mut others_missing) = (0, false);
        for index in (0..asked).filter(|&index| !execution.fetched(index)) {
            let access = &execution.accesses()[index];
            if access.mode == Mode::Read && self.is_own(access.key) {
                own |= 1 << index;
            } else {
                others_missing = true;
            }
        }
        self.attempt_mut(id).execution = execution;
        if others_missing { own } else { 0 }
    }

    /// Sends EXECUTE for those keys, from index `from` on, that have not arrived.
    pub(crate) fn send_execute(&mut self, id: TransactionId, from: usize, io: &mut Io<'_>) {
        let waits = self.own_reads_to_wait(id);
        let attempt = self.attempt_mut(id);
        attempt.own_asked = waits == 0;
        let ship = match attempt.stage {
            Stage::Executing { ship } => ship,
            _ => None,
        };
        let execution = take(&mut attempt.execution);
        let (asked, by_message) = (attempt.asked, attempt.by_message);
        let nodes = self.parameters.nodes;
        if execution.accesses()[from..asked].iter().any(|access| access.key.shard() >= nodes) {
            // The shard does not exist, so nobody would answer.
            self.attempt_mut(id).execution = execution;
            return self.finish(id, Status::Unavailable, host_port::NOBODY, io);
        }
        let all_locked = self.parameters.variant.lock_by_atomic;
        let by_message = (from..asked).fold(0u64, |set, index| {
            let access = &execution.accesses()[index];
            let by_verbs = self.is_read_remotely(access) || self.is_locked_by_atomic(access, by_message);
            set | u64::from(!by_verbs && waits >> index & 1 == 0) << index
        });
        // A procedure that is shipped later runs under locks, so this node's own keys are locked even if they
        // are only read.
        let combined = self.parameters.variant.combined;
        let wants = |shard: usize| {
            (from..asked).filter(|&index| !execution.fetched(index)).filter_map({
                let execution = &execution;
                move |index| {
                    let Access { key, mut mode } = execution.accesses()[index];
                    if by_message & 1 << index == 0 {
                        return None;
                    }
                    if (ship.is_some() || all_locked) && mode == Mode::Read {
                        mode = Mode::Update;
                    }
                    if !combined {
                        mode = Mode::Read;
                    }
                    (key.shard() == shard)
                        .then_some(Want { index: index as u8, access: Access { key, mode } })
                }
            })
        };
        for shard in (0..self.parameters.nodes).filter(|&shard| ship != Some(shard)) {
            if wants(shard).next().is_none() {
                continue;
            }
            let Some(primary) = self.primaries[shard] else {
                self.attempt_mut(id).execution = execution;
                return self.finish(id, Status::Unavailable, host_port::NOBODY, io);
            };
            let attempt = self.attempt_mut(id);
            attempt.locked |= u16::from(wants(shard).any(|want| want.access.mode.locks())) << shard;
            let mut out = self.message();
            write::execute(&mut out, id, wants(shard));
            self.post_to(io.effects, primary, Kind::Execute, out);
        }
        self.attempt_mut(id).execution = execution;
    }

    pub(crate) fn on_executed(
        &mut self,
        id: TransactionId,
        shard: usize,
        status: Status,
        atomic: bool,
        got: &List<'_, Got<'_>>,
        io: &mut Io<'_>,
    ) {
        let (event, is_own) = (self.events, self.primaries[shard] == Some(self.node));
        let Some(attempt) = self.attempt(id) else { return };
        let Stage::Executing { .. } = attempt.stage else { return };
        if status != Status::Ok {
            // If the first answer has already arrived, an answer to the repeated request is ignored.
            let answered = (0..attempt.asked)
                .filter(|&index| attempt.execution.accesses()[index].key.shard() == shard)
                .all(|index| attempt.execution.fetched(index));
            if !answered {
                self.finish(id, status, 0, io);
            }
            return;
        }
        attempt.atomic &= atomic;
        let mut seen = if attempt.seen.0 == event { attempt.seen.1 } else { 0 };
        for got in got.iter() {
            let index = usize::from(got.index);
            if index < attempt.asked
                && attempt.execution.accesses()[index].key.shard() == shard
                && !attempt.execution.fetched(index)
            {
                attempt.execution.fetch(index, got.read, got.new, got.value);
                seen |= u64::from(atomic && is_own) << index;
            }
        }
        attempt.seen = (event, seen);
        self.continue_if_fetched(id, io);
    }

    /// Continues once all requested keys have arrived.
    pub(crate) fn continue_if_fetched(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let attempt = self.attempt_mut(id);
        let Stage::Executing { ship } = attempt.stage else { return };
        let accesses = attempt.execution.accesses();
        let missing =
            |index: &usize| ship != Some(accesses[*index].key.shard()) && !attempt.execution.fetched(*index);
        if (0..attempt.asked).any(|index| missing(&index)) {
            // An answer that arrives from now on may be the answer to a repeated request, and so may show
            // values of another moment.
            attempt.atomic = false;
            if !attempt.own_asked && self.own_reads_to_wait(id) == 0 {
                self.send_execute(id, 0, io);
            }
            return;
        }
        match ship {
            Some(shard) => self.ship(id, shard, io),
            None => self.fetched(id, io),
        }
    }

    /// All requested keys have arrived.
    fn fetched(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let attempt = self.window.at(id.sequence());
        if attempt.ready {
            return self.lock_writes(id, io);
        }
        let procedure = self.procedures.get(attempt.procedure).expect("looked up when it began");
        if !procedure.ship() || !self.parameters.variant.ship_to_card {
            return self.run_at_host(id, io);
        }
        io.effects.computed(Computation::Procedure(attempt.procedure.0));
        self.counters.runs += 1;
        let step = attempt.execution.run(procedure);
        self.after_run(id, step, io);
    }

    fn after_run(&mut self, id: TransactionId, step: Result<Step, Fault>, io: &mut Io<'_>) {
        let attempt = self.attempt_mut(id);
        match step {
            Err(fault) => self.finish(id, Status::Faulty, fault as u8, io),
            Ok(Step::Abort(reason)) => {
                attempt.refused = Some(reason);
                self.validate(id, io);
            }
            Ok(Step::More) => {
                attempt.stage = Stage::Executing { ship: None };
                self.request(id, io);
            }
            Ok(Step::Commit) => {
                attempt.ready = true;
                attempt.stage = Stage::Executing { ship: None };
                self.request(id, io);
            }
        }
    }

    fn run_at_host(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let attempt = self.window.at(id.sequence());
        attempt.stage = Stage::AtHost;
        let (sent, asked) = (attempt.sent, attempt.asked);
        attempt.sent = asked;
        let execution = &attempt.execution;
        let got = (sent..asked).map(|index| Got {
            index: index as u8,
            read: execution.read_version(index),
            new: execution.new_version(index),
            value: execution.value(index),
        });
        let mut out = take(&mut self.scratch);
        out.clear();
        host_port::write::run(&mut out, id, got);
        io.effects.reply(Caller::Host(attempt.token), HostKind::Run as u8, &[&out]);
        self.scratch = out;
    }

    pub(crate) fn on_ran(
        &mut self,
        id: TransactionId,
        step: Step,
        added: &List<'_, Want>,
        writes: &List<'_, Put<'_>>,
        answer: &[u8],
        io: &mut Io<'_>,
    ) {
        // The view change decides attempts of former views. The result of such a run comes too late.
        let is_of_this_view = id.epoch() == self.view.epoch;
        let runs = |attempt: &&mut Coordinated| is_of_this_view && attempt.stage == Stage::AtHost;
        let Some(attempt) = self.attempt(id).filter(runs) else { return };
        let execution = &mut attempt.execution;
        execution.begin_run();
        for want in added.iter() {
            execution.add(want.access.key, want.access.mode);
        }
        for put in writes.iter() {
            let index = execution.find(put.key).unwrap_or(crate::KEYS_MAX);
            execution.write(index, put.value);
        }
        execution.answer(answer);
        let step = execution.check(step);
        self.after_run(id, step, io);
    }

    // LOCK: locking written keys that were only read before.

    /// Locks the keys that the procedure has written, unless they were locked when they were read.
    fn lock_writes(&mut self, id: TransactionId, io: &mut Io<'_>) {
        if self.parameters.variant.combined {
            return self.validate(id, io);
        }
        let attempt = self.attempt_mut(id);
        attempt.waiting = crate::engine::commit::written_shards(&attempt.execution);
        attempt.locked |= attempt.waiting;
        attempt.stage = Stage::Locking;
        let waiting = attempt.waiting;
        if waiting == 0 {
            return self.validate(id, io);
        }
        self.send_lock(id, waiting, io);
    }

    fn send_lock(&mut self, id: TransactionId, shards: u16, io: &mut Io<'_>) {
        let execution = take(&mut self.attempt_mut(id).execution);
        for shard in (0..self.parameters.nodes).filter(|shard| shards >> shard & 1 == 1) {
            let Some(primary) = self.primaries[shard] else {
                self.attempt_mut(id).execution = execution;
                return self.finish(id, Status::Unavailable, host_port::NOBODY, io);
            };
            let claims = execution.accesses().iter().enumerate().filter_map(|(index, &access)| {
                let (version, written) = (execution.read_version(index), execution.written(index));
                let want = Want { index: index as u8, access };
                (written != Written::Nothing && access.key.shard() == shard)
                    .then_some(Claim { want, version })
            });
            let mut out = self.message();
            write::lock(&mut out, id, claims);
            self.post_to(io.effects, primary, Kind::Lock, out);
        }
        self.attempt_mut(id).execution = execution;
    }

    pub(crate) fn on_locked(
        &mut self,
        id: TransactionId,
        shard: usize,
        status: Status,
        drawn: &List<'_, Drawn>,
        io: &mut Io<'_>,
    ) {
        let Some(attempt) = self.attempt(id).filter(|attempt| attempt.stage == Stage::Locking) else {
            return;
        };
        if attempt.waiting >> shard & 1 == 0 {
            return;
        }
        if status != Status::Ok {
            return self.finish(id, status, 0, io);
        }
        for drawn in drawn.iter() {
            attempt.execution.lock(drawn.index.into(), drawn.new);
        }
        attempt.waiting &= !(1 << shard);
        if attempt.waiting == 0 {
            self.validate(id, io);
        }
    }

    // VALIDATE: checking that keys that were only read are unchanged.

    /// Whether a key was read without a lock and is still not locked.
    pub(crate) fn is_unlocked(&self, execution: &Execution, refused: bool, index: usize) -> bool {
        is_unlocked(self.parameters.variant.combined, execution, refused, index)
    }

    /// The keys, as a bit set of indices, that this node has read in the current event. VALIDATE would find
    /// them unchanged.
    fn seen_now(&mut self, id: TransactionId) -> u64 {
        let (event, seen) = self.window.at(id.sequence()).seen;
        let counts = self.parameters.variant.order_own_keys && event == self.events;
        if counts { seen } else { 0 }
    }

    /// Validates the keys that were read and not locked: asks their primaries whether they are unchanged.
    fn validate(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let skip = self.bug(PlantedBug::SkipValidate);
        let attempt = self.attempt_mut(id);
        let (execution, refused) = (take(&mut attempt.execution), attempt.refused.is_some());
        let count = execution.accesses().len();
        let seen_now = self.seen_now(id);
        let unlocked = (0..count).filter(|&index| self.is_unlocked(&execution, refused, index));
        let (mut reads, mut shards, mut seen_before) = (0, 0u16, 0u16);
        for index in unlocked {
            let shard = execution.accesses()[index].key.shard();
            reads += 1;
            shards |= 1 << shard;
            seen_before |= u16::from(seen_now >> index & 1 == 0) << shard;
        }
        let attempt = self.attempt_mut(id);
        attempt.execution = execution;
        // A transaction without locks takes effect when it reads, if it has read all keys at one moment.
        let one_moment = attempt.locked == 0 && (reads == 1 || attempt.atomic && shards.count_ones() == 1);
        attempt.stage = Stage::Validating;
        if one_moment || skip || self.parameters.variant.lock_by_atomic {
            return self.log_writes(id, io);
        }
        let read_remotely = self.parameters.variant.reads != Reads::Messages;
        let own =
            (0..self.parameters.nodes).fold(0, |own, shard| own | u16::from(self.is_primary(shard)) << shard);
        let waiting = if read_remotely { seen_before & own } else { seen_before };
        self.attempt_mut(id).waiting = waiting;
        self.attempt_mut(id).reading = 0;
        self.send_validate(id, waiting, io);
        let reading = if read_remotely { self.read_remotely(id, 0, ReadPurpose::Validate, io) } else { 0 };
        if self.attempt(id).is_some() {
            self.attempt_mut(id).reading = reading;
            self.continue_if_valid(id, io);
        }
    }

    /// Continues once all reads are known to be valid.
    pub(crate) fn continue_if_valid(&mut self, id: TransactionId, io: &mut Io<'_>) {
        let attempt = self.attempt_mut(id);
        if attempt.waiting == 0 && attempt.reading == 0 {
            self.log_writes(id, io);
        }
    }

    fn send_validate(&mut self, id: TransactionId, shards: u16, io: &mut Io<'_>) {
        let attempt = self.attempt_mut(id);
        let (execution, refused) = (take(&mut attempt.execution), attempt.refused.is_some());
        let combined = self.parameters.variant.combined;
        for shard in (0..self.parameters.nodes).filter(|shard| shards >> shard & 1 == 1) {
            let seen = execution.accesses().iter().enumerate().filter_map(|(index, access)| {
                let (key, version) = (access.key, execution.read_version(index));
                let asked = key.shard() == shard && is_unlocked(combined, &execution, refused, index);
                asked.then_some(Seen { key, version })
            });
            let mut out = self.message();
            write::validate(&mut out, id, shard, seen);
            let primary = self.primaries[shard].expect("it has executed here in this epoch");
            self.post_to(io.effects, primary, Kind::Validate, out);
        }
        self.attempt_mut(id).execution = execution;
    }

    pub(crate) fn on_validated(&mut self, id: TransactionId, shard: usize, status: Status, io: &mut Io<'_>) {
        let Some(attempt) = self.attempt(id).filter(|attempt| attempt.stage == Stage::Validating) else {
            return;
        };
        if attempt.waiting >> shard & 1 == 0 {
            return;
        }
        if status != Status::Ok {
            return self.finish(id, status, 0, io);
        }
        attempt.waiting &= !(1 << shard);
        self.continue_if_valid(id, io);
    }

    // Ending an attempt.

    /// Ends an attempt: reports its status to the host and sends END to the primaries.
    pub(crate) fn finish(&mut self, id: TransactionId, status: Status, reason: u8, io: &mut Io<'_>) {
        self.tell(id, status, reason, io);
        self.end_at_primaries(id, io);
        self.advance(io);
    }

    /// Reports to the host how an attempt has ended.
    pub(crate) fn tell(&mut self, id: TransactionId, status: Status, reason: u8, io: &mut Io<'_>) {
        match status {
            Status::Ok => self.counters.committed += 1,
            Status::Aborted => self.counters.aborted += 1,
            Status::Conflict => self.counters.conflicts += 1,
            Status::Full => self.counters.full += 1,
            Status::Unavailable => self.counters.unavailable += 1,
            Status::Faulty | Status::More => {}
        }
        let attempt = self.attempt_mut(id);
        let (token, answer) = (attempt.token, take(&mut attempt.answer));
        self.reply(token, id, status, reason, &answer, io);
        self.attempt_mut(id).answer = answer;
    }

    /// Ends an attempt at the primaries: they release its locks.
    pub(crate) fn end_at_primaries(&mut self, id: TransactionId, io: &mut Io<'_>) {
        self.give_locks_back(id, io);
        let attempt = self.attempt_mut(id);
        attempt.stage = Stage::Ended;
        let locked = attempt.locked | attempt.shipped.unwrap_or(0);
        let mut primaries = NodeSet::EMPTY;
        for shard in (0..self.parameters.nodes).filter(|shard| locked >> shard & 1 == 1) {
            primaries = primaries.union(self.primaries[shard].and_then(NodeId::new).into_iter().collect());
        }
        if !primaries.is_empty() {
            let mut out = self.message();
            write_id(&mut out, id);
            self.post(io.effects, primaries, Kind::End, out);
        }
    }

    /// Moves the watermark past all leading attempts that are decided.
    pub(crate) fn advance(&mut self, io: &mut Io<'_>) {
        let before = self.window.base;
        while !self.window.is_idle() && self.window.at(self.window.base).stage == Stage::Ended {
            self.window.base += 1;
        }
        if self.window.base != before {
            let others = self.others();
            self.window.truncate(others);
            let header = crate::message::Header {
                epoch: self.view.epoch,
                decided: self.window.base,
                truncated: self.window.truncated,
            };
            self.on_watermarks(self.node, &header, io);
        }
    }

    /// Repeats the requests that were not answered in time.
    pub(crate) fn repeat_requests(&mut self, io: &mut Io<'_>) {
        for sequence in self.window.open() {
            let now = self.now;
            let again = now + self.parameters.repeat;
            let attempt = self.window.at(sequence);
            if attempt.repeat_at > now {
                continue;
            }
            attempt.repeat_at = again;
            let id = attempt.id.expect("it has begun");
            let waiting = attempt.waiting;
            let logs = matches!(attempt.stage, Stage::Logging | Stage::Shipped { .. });
            attempt.log_repeats += u32::from(logs);
            match attempt.stage {
                Stage::Ended | Stage::Restarting | Stage::AtHost | Stage::Marked { .. } => continue,
                Stage::Logging if self.parameters.variant.log_by_write => continue,
                Stage::Executing { .. } => self.send_execute(id, 0, io),
                Stage::Locking => self.send_lock(id, waiting, io),
                Stage::Validating => self.send_validate(id, waiting, io),
                Stage::Logging | Stage::Committing => {
                    let execution = take(&mut attempt.execution);
                    let known = take(&mut attempt.acknowledgements);
                    let waiting = |place: &RecordPart| {
                        known
                            .iter()
                            .find(|known| (known.place.shard, known.place.part) == (place.shard, place.part))
                            .map_or(NodeSet::EMPTY, |known| known.waiting)
                    };
                    let wanted = |place: &RecordPart| !waiting(place).is_empty();
                    self.send_log(id, &execution, wanted, io, |_, place| waiting(&place));
                    let attempt = self.attempt_mut(id);
                    (attempt.execution, attempt.acknowledgements) = (execution, known);
                }
                Stage::Shipped { shard } => self.ship(id, shard, io),
                Stage::Withdrawing { waiting, .. } => self.send_withdraw(id, waiting, io),
            }
            self.counters.repeats += 1;
        }
    }

    /// Calls `each` for the attempts of this node that a view change has decided and whose outcome the host
    /// does not have yet.
    pub(crate) fn marked_attempts(&mut self, mut each: impl FnMut(TransactionId, Verdict)) {
        for sequence in self.window.open() {
            let attempt = self.window.at(sequence);
            if let (Some(id), Stage::Marked { verdict, .. }) = (attempt.id, attempt.stage) {
                each(id, verdict);
            }
        }
    }

    /// Marks this node's open attempts with the verdict of a view change.
    pub(crate) fn mark_attempts(&mut self, committed: impl Fn(TransactionId) -> bool) {
        for sequence in self.window.open() {
            let attempt = self.window.at(sequence);
            let id = attempt.id.expect("it has begun");
            if !matches!(attempt.stage, Stage::Ended | Stage::Marked { .. }) {
                let verdict = if committed(id) { Verdict::Committed } else { Verdict::Aborted };
                let answered = match attempt.stage {
                    Stage::Logging => true,
                    Stage::Withdrawing { answered, .. } => answered,
                    _ => attempt.shipped.is_some(),
                };
                attempt.stage = Stage::Marked { verdict, answered };
            }
        }
    }

    /// Reports the verdicts of a view change to the host.
    pub(crate) fn close_attempts(&mut self, io: &mut Io<'_>) {
        for sequence in self.window.open() {
            let attempt = self.window.at(sequence);
            let Stage::Marked { verdict, answered } = attempt.stage else { continue };
            let unanswered = !answered;
            attempt.stage = Stage::Ended;
            let (id, token) = (attempt.id.expect("it has begun"), attempt.token);
            let answer = take(&mut attempt.answer);
            let status = if verdict == Verdict::Committed { Status::Ok } else { Status::Unavailable };
            // If the procedure ran at another node, its answer may be lost with that node.
            self.reply(token, id, status, u8::from(unanswered), &answer, io);
            self.attempt_mut(id).answer = answer;
        }
        self.window.restart();
    }
}

fn is_unlocked(combined: bool, execution: &Execution, refused: bool, index: usize) -> bool {
    match execution.accesses()[index].mode {
        Mode::Read => true,
        Mode::Update if combined => false,
        Mode::Update => refused || execution.written(index) == Written::Nothing,
        Mode::Write => false,
    }
}
