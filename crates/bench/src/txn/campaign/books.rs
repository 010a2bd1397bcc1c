//! The record of a run: the answers to hosts, the records of engines, and the final state of the nodes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use weft_applications::Audit;
use weft_check::serializable::{self, Access, Fate, History, Options, Report, Transaction};
use weft_time::Instant;
use weft_txn::host::Finished;
use weft_txn::message::Status;
use weft_txn::{Key, LOADED, Outcome, Recorded, Request, TransactionId, Version};

use super::super::checker::{access, name};

/// The record, which all hosts share.
pub(super) type Shared = Rc<RefCell<RunRecord>>;

/// Outcome of an attempt, which its host has received.
#[derive(Clone, Copy, Debug)]
struct Ending {
    began: Instant,
    fate: Fate,
}

/// Answers to the clients of a node, over all its incarnations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeRecord {
    pub(super) committed: u64,
    pub(super) aborted: u64,
    /// Number of answers that a shard is lost.
    pub(super) unavailable: u64,
    /// Calls that were outstanding when their node crashed.
    pub(super) unanswered: u64,
    pub(super) lives: u64,
}

/// Record of a run. All times are on the world's clock.
pub(super) struct RunRecord {
    pub(super) nodes: Vec<NodeRecord>,
    /// Whether clients begin no new calls.
    pub(super) stopped: bool,
    /// Violations.
    pub(super) wrong: Vec<String>,
    /// Whether a shard may be lost in this run.
    pub(super) may_lose: bool,
    told: BTreeMap<TransactionId, Ending>,
    records: BTreeMap<TransactionId, Recorded>,
    audit: Box<dyn Audit>,
}

/// A node's content of a shard.
pub(super) type Held = BTreeMap<Key, (Version, Vec<u8>)>;

impl RunRecord {
    pub(super) fn new(nodes: usize, audit: Box<dyn Audit>) -> Self {
        Self {
            nodes: vec![NodeRecord::default(); nodes],
            stopped: false,
            wrong: Vec::new(),
            may_lose: false,
            told: BTreeMap::new(),
            records: BTreeMap::new(),
            audit,
        }
    }

    /// Records that the card has reported the end of an attempt. `began` is the time of the host's request.
    pub(super) fn told(&mut self, id: TransactionId, status: Status, began: Instant, now: Instant) {
        let fate = match status {
            Status::Ok => Fate::Committed { ended_ps: now.as_ps() },
            _ => Fate::Aborted,
        };
        if let Some(former) = self.told.insert(id, Ending { began, fate }) {
            self.wrong.push(format!("{id} has ended twice, first with {former:?}"));
        }
    }

    /// Records that a call has ended.
    pub(super) fn finished(&mut self, node: usize, request: &Request, finished: &Finished) {
        let books = &mut self.nodes[node];
        match &finished.outcome {
            Outcome::Committed { answer } => {
                books.committed += 1;
                self.audit.committed(request, answer);
            }
            Outcome::Unanswered => {
                books.committed += 1;
                self.audit.unknown(request);
            }
            Outcome::Aborted { .. } => books.aborted += 1,
            Outcome::Conflict => {}
            Outcome::Unavailable if self.may_lose => books.unavailable += 1,
            outcome => self.wrong.push(format!("{} has ended with {outcome:?}", finished.id)),
        }
    }

    /// Records that a call was outstanding when its node crashed.
    pub(super) fn unanswered(&mut self, node: usize, request: &Request) {
        self.nodes[node].unanswered += 1;
        self.audit.unknown(request);
    }

    /// Adds a record of an engine.
    pub(super) fn record(&mut self, records: Vec<Recorded>) {
        for record in records {
            let id = record.id;
            if self.records.insert(id, record).is_some() {
                self.wrong.push(format!("{id} was recorded twice"));
            }
        }
    }

    /// Compares the final states of the replicas. `held` has the contents by shard and node, and no entry for
    /// a lost shard.
    pub(super) fn compare(&mut self, held: &[Vec<(usize, Held)>]) {
        for (shard, replicas) in held.iter().enumerate() {
            let Some((first, objects)) = replicas.first() else { continue };
            for (other, others) in &replicas[1..] {
                let differs = |(key, value): &(&Key, &(Version, Vec<u8>))| others.get(*key) != Some(*value);
                let lacks = objects.iter().find(differs).map(|(key, _)| key);
                let has_more = others.keys().find(|key| !objects.contains_key(key));
                if let Some(key) = lacks.or(has_more) {
                    self.wrong.push(format!("node{first} and node{other} differ in {key} of shard {shard}"));
                }
            }
            objects.iter().for_each(|(key, (_, value))| self.audit.object(*key, value));
        }
        if held.iter().all(|replicas| !replicas.is_empty()) {
            self.wrong.extend(self.audit.findings());
        }
    }

    /// The history of the run, without the final state of the nodes.
    pub(super) fn history(&mut self) -> History {
        let mut history = History::default();
        for (id, told) in &self.told {
            if matches!(told.fate, Fate::Committed { .. }) && !self.records.contains_key(id) {
                self.wrong.push(format!("{id} has committed, and no client has recorded it"));
            }
        }
        for (id, record) in &self.records {
            let told = self.told.get(id).copied();
            // If a transaction has no answer, its start is unknown.
            let Ending { began, fate } = told.unwrap_or(Ending { began: Instant::ZERO, fate: Fate::Unknown });
            let reads: Vec<Access> = record.reads.iter().map(access).collect();
            let writes: Vec<Access> = record.writes.iter().map(access).collect();
            let started_ps = began.as_ps();
            history.record(&Transaction { id: name(*id), started_ps, fate, reads: &reads, writes: &writes });
        }
        history
    }
}

/// Checks a history with the final state of all nodes.
pub(super) fn check(mut history: History, held: &[Vec<(usize, Held)>]) -> Report {
    let options = Options { initial_version: LOADED.bits(), ..Options::default() };
    for (shard, replicas) in held.iter().enumerate() {
        for (node, objects) in replicas {
            let holds = move |bits| Key::from_bits(bits).is_some_and(|key| key.shard() == shard);
            let present = |(key, (version, value)): (&Key, &(Version, Vec<u8>))| {
                Access::present(key.bits(), version.bits(), value)
            };
            let name = format!("node{node}, shard {shard}");
            history.final_state(&name, holds, objects.iter().map(present), &options);
        }
    }
    serializable::check(history, &options)
}
