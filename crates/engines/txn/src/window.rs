//! The attempts that a node coordinates: their state, and the window that holds them.

use weft_time::Instant;
use weft_waist::{NodeId, NodeSet};

use crate::message::{Lack, RecordPart, Verdict};
use crate::procedure::Execution;
use crate::procedure::{Access, ProcedureId};
use crate::transaction::TransactionId;

/// A key that is locked at its primary by an RDMA atomic. It keeps its landing buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub landing: usize,
    pub primary: usize,
    pub address: u64,
    pub index: usize,
    /// Whether the READ of the object is under way.
    pub reading: bool,
}

/// The stage of an attempt, which says what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The attempt is decided.
    Ended,
    /// Waits for answers to EXECUTE. `ship`: afterwards the attempt is shipped to the primary of this shard.
    Executing { ship: Option<usize> },
    /// Waits for its outstanding verbs; then it restarts.
    Restarting,
    /// Waits for its host, which runs the procedure.
    AtHost,
    /// Waits for answers to LOCK.
    Locking,
    /// Waits for answers to VALIDATE.
    Validating,
    /// Waits for answers to LOG.
    Logging,
    /// Waits for the primaries, which get the values after the outcome was reported.
    Committing,
    /// Waits for the primary of another shard, and for the answers to the LOG messages that it sends.
    Shipped { shard: usize },
    /// Waits for answers to WITHDRAW: some replica had no room for the writes.
    Withdrawing {
        /// Nodes that have not answered.
        waiting: NodeSet,
        /// Whether the procedure's answer is known.
        answered: bool,
        /// What lacked room.
        lack: Lack,
    },
    /// Decided by a view change. The host is notified when all nodes know of it.
    Marked {
        /// The verdict.
        verdict: Verdict,
        /// Whether the procedure's answer is known.
        answered: bool,
    },
}

/// A record for which some replicas have not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement {
    pub place: RecordPart,
    pub waiting: NodeSet,
}

/// An attempt of this node.
#[derive(Debug)]
pub(crate) struct Coordinated {
    pub id: Option<TransactionId>,
    pub stage: Stage,
    pub token: u32,
    pub procedure: ProcedureId,
    pub execution: Execution,
    /// Number of keys in the request itself. The procedure has added the others.
    pub named: usize,
    /// Number of keys that were requested, in their order.
    pub asked: usize,
    /// Number of keys whose values were sent to the host half.
    pub sent: usize,
    /// Whether the procedure has finished. Keys that are still to be locked need no further run.
    pub ready: bool,
    /// The reason with which the procedure has aborted. Its reads are validated, and nothing is logged.
    pub refused: Option<u8>,
    /// Whether all keys were read in one shard at one moment.
    pub atomic: bool,
    /// Whether those of this node's own keys that are only read were requested.
    pub own_asked: bool,
    /// The number of the event in which own keys were read, and these keys as a bit set of indices. No other
    /// attempt had locked them then.
    pub seen: (u64, u64),
    pub rounds: u32,
    /// Shards in which the attempt may hold locks.
    pub locked: u16,
    /// Address at its primary of each key that was READ; 0: unknown.
    pub addresses: Vec<u64>,
    /// Outstanding READs of VALIDATE.
    pub reading: usize,
    /// Locks taken by RDMA atomics.
    pub held: Vec<HeldLock>,
    /// Shards whose primaries are asked by message, although this variant uses verbs.
    pub by_message: u16,
    /// Shards that have not answered.
    pub waiting: u16,
    pub acknowledgements: Vec<Acknowledgement>,
    /// The shards that the remote primary logs, according to its answer.
    pub shipped: Option<u16>,
    pub answer: Vec<u8>,
    pub repeat_at: Instant,
    /// Repetitions of LOG, or of SHIP.
    pub log_repeats: u32,
}

impl Coordinated {
    /// No attempt, with an empty execution.
    fn none(execution: Execution) -> Self {
        Self {
            id: None,
            stage: Stage::Ended,
            token: 0,
            procedure: ProcedureId(0),
            execution,
            named: 0,
            asked: 0,
            sent: 0,
            ready: false,
            refused: None,
            atomic: true,
            own_asked: false,
            seen: (0, 0),
            rounds: 0,
            locked: 0,
            addresses: Vec::new(),
            reading: 0,
            held: Vec::new(),
            by_message: 0,
            waiting: 0,
            acknowledgements: Vec::new(),
            shipped: None,
            answer: Vec::new(),
            repeat_at: Instant::ZERO,
            log_repeats: 0,
        }
    }

    pub fn shards(&self, only: impl Fn(&Access) -> bool) -> u16 {
        self.execution
            .accesses()
            .iter()
            .filter(|access| only(access))
            .fold(0, |set, access| set | 1 << access.key.shard())
    }
}

/// The attempts of this node that are under way, or not known to all nodes as decided.
#[derive(Debug)]
pub(crate) struct Window {
    slots: Vec<Coordinated>,
    /// All attempts below this sequence are decided.
    pub base: u64,
    pub next: u64,
    /// All attempts below this sequence are known to all nodes as decided.
    pub truncated: u64,
    heard: [u64; weft_waist::NODES_MAX],
}

impl Window {
    pub fn new(window: usize) -> Self {
        let slots = (0..window).map(|_| Coordinated::none(Execution::default())).collect();
        Self::of(slots)
    }

    const fn of(slots: Vec<Coordinated>) -> Self {
        Self { slots, base: 0, next: 0, truncated: 0, heard: [0; weft_waist::NODES_MAX] }
    }

    /// Takes the window, and makes it as a new one. The executions keep their allocations: to make those of a window
    /// takes tens of milliseconds, for which a node that starts over would not renew its lease.
    pub fn take_emptied(&mut self) -> Self {
        let emptied = |slot: Coordinated| {
            let mut execution = slot.execution;
            execution.clear();
            Coordinated::none(execution)
        };
        Self::of(std::mem::take(&mut self.slots).into_iter().map(emptied).collect())
    }

    pub const fn decided(&self) -> u64 {
        self.base
    }

    pub const fn truncated(&self) -> u64 {
        self.truncated
    }

    pub const fn is_idle(&self) -> bool {
        self.base == self.next
    }

    pub const fn heard_by(&self, peer: usize) -> u64 {
        self.heard[peer]
    }

    pub fn heard(&mut self, peer: usize, heard: u64) {
        self.heard[peer] = self.heard[peer].max(heard.min(self.base));
    }

    pub fn wants_to_be_heard(&self, others: NodeSet) -> bool {
        others.iter().any(|peer| self.heard[peer.index()] < self.base)
    }

    pub fn truncate(&mut self, others: NodeSet) {
        let all = others.iter().map(|peer| self.heard[peer.index()]).min().unwrap_or(self.base);
        self.truncated = self.truncated.max(all);
    }

    fn index(&self, sequence: u64) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }

    pub fn at(&mut self, sequence: u64) -> &mut Coordinated {
        let index = self.index(sequence);
        &mut self.slots[index]
    }

    /// Whether an attempt of this node is decided.
    pub fn has_ended(&self, id: TransactionId) -> bool {
        let attempt = &self.slots[self.index(id.sequence())];
        id.sequence() < self.base || attempt.id == Some(id) && attempt.stage == Stage::Ended
    }

    /// Sequences of the attempts that may be undecided.
    pub const fn open(&self) -> std::ops::Range<u64> {
        self.base..self.next
    }

    /// The nodes that the oldest undecided attempt waits for. `primaries`: the primary of each shard.
    pub fn waits_for(&self, primaries: &[Option<usize>]) -> NodeSet {
        if self.is_idle() {
            return NodeSet::EMPTY;
        }
        let attempt = &self.slots[self.index(self.base)];
        let of_shards = |shards: u16| -> NodeSet {
            let wanted = primaries.iter().enumerate().filter(|(shard, _)| shards >> shard & 1 == 1);
            wanted.filter_map(|(_, primary)| NodeId::new((*primary)?)).collect()
        };
        match attempt.stage {
            Stage::Ended | Stage::Restarting | Stage::AtHost | Stage::Marked { .. } => NodeSet::EMPTY,
            Stage::Executing { .. } => {
                let accesses = attempt.execution.accesses().iter().take(attempt.asked).enumerate();
                let unanswered = accesses.filter(|(index, _)| !attempt.execution.fetched(*index));
                of_shards(unanswered.fold(0, |set, (_, access)| set | 1 << access.key.shard()))
            }
            Stage::Locking | Stage::Validating => of_shards(attempt.waiting),
            Stage::Shipped { shard } => of_shards(1 << shard),
            Stage::Withdrawing { waiting, .. } => waiting,
            Stage::Logging | Stage::Committing => {
                let acknowledgements = attempt.acknowledgements.iter();
                acknowledgements.fold(NodeSet::EMPTY, |all, known| all.union(known.waiting))
            }
        }
    }

    /// Closes all attempts at the end of a view.
    pub fn restart(&mut self) {
        self.base = self.next;
        self.truncated = self.next;
        self.heard = [self.next; weft_waist::NODES_MAX];
    }
}

#[cfg(test)]
mod tests {
    use weft_waist::Epoch;

    use super::*;
    use crate::key::Key;
    use crate::procedure::{Access, Mode};

    #[test]
    fn an_emptied_window_is_as_a_new_one_and_keeps_its_allocations() {
        let mut window = Window::new(4);
        let executions: Vec<_> = window.slots.iter().map(|slot| slot.execution.input().as_ptr()).collect();
        for sequence in 0..6 {
            let attempt = window.at(sequence);
            attempt.id = Some(TransactionId::new(NodeId::new(1).unwrap(), Epoch(2), sequence));
            (attempt.stage, attempt.token, attempt.asked, attempt.ready) = (Stage::Locking, 7, 1, true);
            let access = Access { key: Key::new(1, sequence), mode: Mode::Write };
            attempt.execution.begin(b"input", &[access]).unwrap();
            attempt.addresses.push(64);
            attempt.answer.push(1);
        }
        (window.base, window.next, window.truncated) = (2, 6, 1);
        window.heard(1, 2);
        let emptied = window.take_emptied();
        assert_eq!(format!("{emptied:?}"), format!("{:?}", Window::new(4)));
        let kept: Vec<_> = emptied.slots.iter().map(|slot| slot.execution.input().as_ptr()).collect();
        assert_eq!(kept, executions);
    }
}
