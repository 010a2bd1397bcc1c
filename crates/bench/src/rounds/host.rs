//! The hosts of a cluster of rounds. They make proposals and record the decisions.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use weft_check::{Agreement, Entry};
use weft_harness::SimulatedHalf;
use weft_node::{HostHalf, HostIo, RoundsHalf};
use weft_results::histogram::Latencies;
use weft_rounds::message::{Answer, Call, Phase, Status, Value};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus};
use weft_workload::fingerprint;

use super::values::Batch;

/// The engine's slot in every NIC.
pub(super) const ROUNDS_SLOT: u8 = 0;

/// Pause before a host repeats a proposal that its engine has refused.
const PAUSE: Duration = Duration::from_us(10);

/// An upper bound on the size of a decision message, in bytes.
const DECIDED_BYTES_MAX: usize = 2_048;

/// The token of a status request.
const STATUS: u32 = 2;
/// Tokens of proposals count up from here.
const FIRST_PROPOSAL: u32 = 16;

/// Proposals of all hosts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLoad {
    /// Content of a proposal.
    pub batch: Batch,
    /// Outstanding proposals of a node.
    pub outstanding: usize,
}

/// Record of a run, over all nodes.
#[derive(Debug)]
pub(super) struct RunRecord {
    pub(super) agreement: Agreement,
    /// Whether hosts make proposals.
    pub(super) proposing: bool,
    /// Latencies from a host's proposal to the answer that it is decided.
    pub(super) latencies: Latencies,
    /// Number of proposals whose host was notified that they are decided.
    pub(super) answered: u64,
    /// Number of proposals whose host was notified that they are dropped.
    pub(super) dropped: u64,
    /// Number of proposals whose node crashed before their outcome was known.
    pub(super) unanswered: u64,
    pub(super) nodes: Vec<NodeRecord>,
}

/// Record of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRecord {
    /// Latest status of the node's engine.
    pub(super) state: EngineState,
    /// Answer to the latest status request, if there was one.
    pub(super) phase: Option<Phase>,
    /// The round in which that status request was answered.
    pub(super) round: u64,
    /// Time of the node's latest decision, on the node's clock.
    pub(super) decided_at: Instant,
    /// Number of decisions that the node has received, over all incarnations.
    pub(super) entries: u64,
    /// Number of the node's proposals that were dropped.
    pub(super) dropped: u64,
}

impl RunRecord {
    pub(super) fn new(nodes: usize) -> Rc<RefCell<Self>> {
        let node = NodeRecord {
            state: EngineState::Starting,
            phase: None,
            round: 0,
            decided_at: Instant::ZERO,
            entries: 0,
            dropped: 0,
        };
        Rc::new(RefCell::new(Self {
            agreement: Agreement::new(nodes),
            proposing: true,
            latencies: Latencies::new(),
            answered: 0,
            dropped: 0,
            unanswered: 0,
            nodes: vec![node; nodes],
        }))
    }

    /// Notes that a node has crashed with this number of outstanding proposals.
    pub(super) fn crashed(&mut self, node: usize, waiting: usize) {
        self.agreement.stopped(node);
        self.unanswered += waiting as u64;
    }

    /// Notes that a node restarts with empty memory. `now` is the time on its clock.
    pub(super) fn restarted(&mut self, node: usize, now: Instant) {
        self.agreement.restarted(node);
        let books = &mut self.nodes[node];
        (books.state, books.phase, books.decided_at) = (EngineState::Starting, None, now);
    }
}

/// The host half of a simulated node: the shipped host half of the rounds, with a proposer on the same host.
pub struct ProposerHalf {
    node: usize,
    life: u32,
    rounds: RoundsHalf,
    load: Option<HostLoad>,
    books: Rc<RefCell<RunRecord>>,
    /// Earliest time of the next proposal.
    again_at: Option<Instant>,
    due: bool,
    running: bool,
    number: u64,
    /// Outstanding proposals: token, value, and time of the proposal.
    waiting: VecDeque<(u32, u64, Instant)>,
    bytes: Vec<u8>,
}

impl ProposerHalf {
    pub(super) fn new(
        (node, life): (usize, u32),
        rounds: RoundsHalf,
        load: Option<HostLoad>,
        books: Rc<RefCell<RunRecord>>,
    ) -> Self {
        Self {
            node,
            life,
            rounds,
            load,
            books,
            again_at: None,
            due: false,
            running: false,
            number: 0,
            waiting: VecDeque::new(),
            bytes: Vec::new(),
        }
    }

    /// Number of outstanding proposals.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Proposes until the maximum number of proposals is outstanding.
    fn propose(&mut self, now: Instant, io: &mut HostIo<'_>) {
        let Some(load) = self.load else { return };
        let mut books = self.books.borrow_mut();
        while self.running && books.proposing && self.waiting.len() < load.outstanding {
            let value = load.batch.fill(self.node, self.life, self.number, &mut self.bytes);
            let token = FIRST_PROPOSAL + (self.number as u32 & 0x3fff_ffff);
            self.number += 1;
            books.agreement.proposed(self.node, value);
            self.waiting.push_back((token, value, now));
            io.call(token, Call::Propose as u8, &self.bytes);
        }
    }

    fn answered(&mut self, now: Instant, token: u32, answer: &Answer) {
        let mut books = self.books.borrow_mut();
        books.nodes[self.node].phase = Some(answer.phase);
        if token == STATUS {
            books.nodes[self.node].round = answer.number;
        }
        let Some(index) = self.waiting.iter().position(|(waiting, ..)| *waiting == token) else { return };
        let (_, value, since) = self.waiting.remove(index).expect("it was found there");
        match answer.status {
            Status::Ok => {
                books.answered += 1;
                books.latencies.record(now.saturating_since(since));
            }
            Status::Dropped => {
                books.dropped += 1;
                books.nodes[self.node].dropped += 1;
            }
            Status::Busy | Status::NotRunning | Status::BadRequest | Status::OutOfRange => {
                books.agreement.withdrawn(self.node, value);
                self.again_at = Some(now + PAUSE);
            }
            // The other nodes may have decided the proposal.
            Status::Fenced => {}
        }
    }

    fn decided(&self, now: Instant, payload: &[u8]) {
        let value = Value::parse(payload, DECIDED_BYTES_MAX).expect("an engine says well-formed things");
        let mut books = self.books.borrow_mut();
        let node = &mut books.nodes[self.node];
        (node.decided_at, node.entries) = (now, node.entries + 1);
        // Membership changes are proposals of the engine itself; only proposals of hosts are checked here.
        if !value.proposal.change {
            let entry = Entry {
                instance: value.instance,
                proposer: value.proposer,
                value: fingerprint(value.proposal.bytes),
            };
            books.agreement.decided(self.node, entry);
        }
    }
}

impl HostHalf for ProposerHalf {
    fn keeps_data_without_lease(&self) -> bool {
        self.rounds.keeps_data_without_lease()
    }

    fn follows_views(&self) -> bool {
        self.rounds.follows_views()
    }

    fn configure(&mut self, now: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        self.rounds.configure(now, configuration, io);
    }

    fn status(&mut self, now: Instant, status: EngineStatus, io: &mut HostIo<'_>) {
        self.rounds.status(now, status, io);
        let mut books = self.books.borrow_mut();
        let former = std::mem::replace(&mut books.nodes[self.node].state, status.state);
        self.running = status.state == EngineState::Full;
        if status.state == EngineState::Lost && former != EngineState::Lost {
            books.agreement.stopped(self.node);
            io.call(STATUS, Call::Status as u8, &[]);
        } else if former == EngineState::Lost {
            books.restarted(self.node, now);
            books.nodes[self.node].state = status.state;
        }
        drop(books);
        self.propose(now, io);
    }

    fn replied(&mut self, now: Instant, token: u32, (kind, payload): (u8, &[u8]), io: &mut HostIo<'_>) {
        self.rounds.replied(now, token, (kind, payload), io);
        if kind == Call::Decided as u8 {
            self.decided(now, payload);
        } else if kind == Call::Answer as u8 {
            let answer = Answer::parse(payload).expect("an engine says well-formed things");
            self.answered(now, token, &answer);
            if self.again_at.is_none() {
                self.propose(now, io);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.again_at.into_iter().chain(self.rounds.next_deadline()).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.rounds.handle_deadline(now);
        self.due |= self.again_at.take_if(|at| *at <= now).is_some();
    }

    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        self.rounds.settle(now, io);
        if std::mem::take(&mut self.due) {
            self.propose(now, io);
        }
    }
}

impl SimulatedHalf for ProposerHalf {}
