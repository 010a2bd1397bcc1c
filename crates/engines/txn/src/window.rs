//! The attempts of a node as their coordinator: what each waits for, and the window that holds them.

use weft_time::Instant;
use weft_waist::{NodeId, NodeSet};

use crate::message::{Lack, RecordPart, Verdict};
use crate::procedure::Execution;
use crate::procedure::{Access, ProcedureId};
use crate::transaction::TransactionId;

/// A key that is locked at its primary by an ATOMIC. It keeps its landing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub landing: usize,
    pub primary: usize,
    pub address: u64,
    pub index: usize,
    /// Its READ is under way.
    pub reading: bool,
}

/// Event that an attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The attempt is decided.
    Ended,
    /// Answers to EXECUTE. `ship`: the rest then goes to the primary of this shard.
    Executing { ship: Option<usize> },
    /// The ends of its verbs; then it begins anew.
    Restarting,
    /// The host runs the procedure.
    AtHost,
    /// Answers to LOCK.
    Locking,
    /// Answers to VALIDATE.
    Validating,
    /// Waits for the answers to LOG messages.
    Logging,
    /// The primaries, which get the values only now that the outcome has been told.
    Committing,
    /// The primary of another shard, and answers to its LOGs.
    Shipped { shard: usize },
    /// Answers to WITHDRAW: there was no room for its writes everywhere.
    Withdrawing {
        /// Nodes that have not answered.
        waiting: NodeSet,
        /// The answer is known.
        answered: bool,
        /// Resource without room.
        lack: Lack,
    },
    /// A view change has decided it; the host learns it when all nodes know.
    Marked {
        /// The decision.
        verdict: Verdict,
        /// The answer is known.
        answered: bool,
    },
}

/// A part of the writes that not all replicas have answered for.
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
    /// Keys of the request itself; the rest was added.
    pub named: usize,
    /// Number of keys that are requested; those behind them are not yet.
    pub asked: usize,
    /// Keys that the host half was told.
    pub told: usize,
    /// The procedure has run to its end: keys still to be locked need no further run.
    pub ready: bool,
    /// The procedure has refused, for this reason: what it has read is validated, and nothing is logged.
    pub refused: Option<u8>,
    /// All was read at one moment of one shard.
    pub atomic: bool,
    /// This node's own keys that are only read are requested.
    pub own_asked: bool,
    /// The event in which keys were read here, and which, by their indices: nobody has locked them then.
    pub seen: (u64, u64),
    pub rounds: u32,
    /// Shards where it may hold locks.
    pub locked: u16,
    /// Addresses at their primaries of keys that were READ; 0: unknown.
    pub addresses: Vec<u64>,
    /// READs under way for VALIDATE.
    pub reading: usize,
    /// Locks taken by ATOMICs.
    pub held: Vec<HeldLock>,
    /// Shards that are asked by message though others are not.
    pub by_message: u16,
    /// Shards that have not answered.
    pub waiting: u16,
    pub acknowledgements: Vec<Acknowledgement>,
    /// Shards that the remote primary logs, according to its reply.
    pub shipped: Option<u16>,
    pub answer: Vec<u8>,
    pub repeat_at: Instant,
    /// Number of repetitions of LOG, or of its predecessor at another primary.
    pub log_repeats: u32,
}

impl Coordinated {
    fn new() -> Self {
        Self {
            id: None,
            stage: Stage::Ended,
            token: 0,
            procedure: ProcedureId(0),
            execution: Execution::default(),
            named: 0,
            asked: 0,
            told: 0,
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

/// The attempts of this node that are under way, or that not all nodes know to be decided.
#[derive(Debug)]
pub(crate) struct Window {
    slots: Vec<Coordinated>,
    /// All attempts before this one are decided.
    pub base: u64,
    pub next: u64,
    /// All attempts before this one are known to all nodes as decided.
    pub truncated: u64,
    heard: [u64; weft_waist::NODES_MAX],
}

impl Window {
    pub fn new(window: usize) -> Self {
        let slots = (0..window).map(|_| Coordinated::new()).collect();
        Self { slots, base: 0, next: 0, truncated: 0, heard: [0; weft_waist::NODES_MAX] }
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

    /// The attempts that are not decided.
    pub const fn open(&self) -> std::ops::Range<u64> {
        self.base..self.next
    }

    /// For whom the oldest attempt waits that is not decided, by the primaries of the shards.
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

    /// A view has ended, and everything with it.
    pub fn restart(&mut self) {
        self.base = self.next;
        self.truncated = self.next;
        self.heard = [self.next; weft_waist::NODES_MAX];
    }
}
