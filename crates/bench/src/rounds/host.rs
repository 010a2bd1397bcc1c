//! The program on the host of a node: it founds the cluster or joins it, proposes, and reports what is decided.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use weft_check::{Agreement, Entry};
use weft_nic::{HostCommand, HostEvent};
use weft_rounds::message::{Answer, Call, Phase, Status, Value};
use weft_sim::{Commands, Host};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus, Epoch, NodeId, NodeSet, View};

use super::values::Batch;
use crate::histogram::Latencies;
use crate::workload::fingerprint;

/// The engine's slot in every NIC.
pub(super) const ROUNDS_SLOT: u8 = 0;

/// When the bootstrapper starts the cluster: every node has been configured by then.
const START_AFTER: Duration = Duration::from_us(20);

/// How long a host waits before it proposes again what its engine would not take.
const PAUSE: Duration = Duration::from_us(10);

/// Longer than any decided message.
const DECIDED_BYTES_MAX: usize = 2_048;

/// Tokens of calls; those of proposals count up from here.
const SUBSCRIBE: u32 = 0;
const START: u32 = 1;
const STATUS: u32 = 2;
const FIRST_PROPOSAL: u32 = 16;

/// What all hosts of a run propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLoad {
    /// What a proposal holds.
    pub batch: Batch,
    /// Proposals of a node that it waits for at a time.
    pub outstanding: usize,
}

/// What has come of a run, over all nodes.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) agreement: Agreement,
    /// Whether hosts propose.
    pub(super) proposing: bool,
    /// From a host's proposal to the answer that it is decided.
    pub(super) latencies: Latencies,
    /// Proposals that their hosts were told of: decided, and decided without.
    pub(super) answered: u64,
    pub(super) dropped: u64,
    pub(super) nodes: Vec<NodeBooks>,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeBooks {
    /// What its engine said last.
    pub(super) state: EngineState,
    /// What it is doing, by its own word, if it was asked.
    pub(super) phase: Option<Phase>,
    /// The round in which it was asked.
    pub(super) round: u64,
    /// When it was told last that something is decided, on its clock.
    pub(super) decided_at: Instant,
    /// Entries that it was told of, over all its lives.
    pub(super) entries: u64,
    /// Of its proposals: how many were dropped.
    pub(super) dropped: u64,
}

impl Books {
    pub(super) fn new(nodes: usize) -> Rc<RefCell<Self>> {
        let node = NodeBooks {
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
            nodes: vec![node; nodes],
        }))
    }

    /// A node comes back, empty; its clock shows `now`.
    pub(super) fn restarted(&mut self, node: usize, now: Instant) {
        self.agreement.restarted(node);
        let books = &mut self.nodes[node];
        (books.state, books.phase, books.decided_at) = (EngineState::Starting, None, now);
    }
}

/// How a node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// It is one of the founders, and calls the start if it is to.
    Founder {
        /// Whether it calls the start.
        starts: bool,
    },
    /// It has lost everything and asks to be a member again.
    Joiner,
}

/// The host's program.
pub(super) struct RoundsHost {
    node: usize,
    nodes: usize,
    life: u32,
    beginning: Beginning,
    load: Option<HostLoad>,
    books: Rc<RefCell<Books>>,
    /// What it does next without being asked, and when.
    next: Option<(Instant, Step)>,
    running: bool,
    number: u64,
    /// Proposals that were not answered: token, value, and when they were made.
    waiting: VecDeque<(u32, u64, Instant)>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Configure,
    Start,
    Propose,
}

impl RoundsHost {
    pub(super) fn new(
        node: usize,
        nodes: usize,
        life: u32,
        beginning: Beginning,
        load: Option<HostLoad>,
        books: Rc<RefCell<Books>>,
    ) -> Self {
        Self {
            node,
            nodes,
            life,
            beginning,
            load,
            books,
            next: Some((Instant::ZERO, Step::Configure)),
            running: false,
            number: 0,
            waiting: VecDeque::new(),
            bytes: Vec::new(),
        }
    }

    fn configuration(&self) -> Configuration {
        let node = NodeId::new(self.node).expect("a cluster has at most 8 nodes");
        let all = NodeSet::first(self.nodes);
        let view = match self.beginning {
            Beginning::Founder { .. } => View { epoch: Epoch(1), full: all, joining: NodeSet::EMPTY },
            Beginning::Joiner => {
                View { epoch: Epoch(2), full: all.without(node), joining: NodeSet::EMPTY.with(node) }
            }
        };
        Configuration { node, view, lease_until: Instant::FAR_FUTURE }
    }

    /// Proposes until as many are outstanding as may be.
    fn propose(&mut self, now: Instant, commands: &mut Commands) {
        let Some(load) = self.load else { return };
        let mut books = self.books.borrow_mut();
        while self.running && books.proposing && self.waiting.len() < load.outstanding {
            let value = load.batch.fill(self.node, self.life, self.number, &mut self.bytes);
            let token = FIRST_PROPOSAL + (self.number as u32 & 0x7fff_ffff);
            self.number += 1;
            books.agreement.proposed(self.node, value);
            self.waiting.push_back((token, value, now));
            commands.submit(call(token, Call::Propose, &self.bytes));
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
                self.next = Some((now + PAUSE, Step::Propose));
            }
            // The others may have decided it.
            Status::Fenced => {}
        }
    }

    fn status(&mut self, status: EngineStatus, commands: &mut Commands) {
        let mut books = self.books.borrow_mut();
        books.nodes[self.node].state = status.state;
        self.running = status.state == EngineState::Full;
        if status.state == EngineState::Lost {
            books.agreement.stopped(self.node);
            commands.submit(call(STATUS, Call::Status, &[]));
        }
    }
}

fn call(token: u32, call: Call, payload: &[u8]) -> HostCommand<'_> {
    HostCommand::Call { engine: ROUNDS_SLOT, token, kind: call as u8, payload }
}

impl Host for RoundsHost {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            HostEvent::Status { status, .. } => {
                self.status(status, commands);
                self.propose(now, commands);
            }
            HostEvent::Reply { kind, payload, .. } if kind == Call::Decided as u8 => {
                let value =
                    Value::parse(&payload, DECIDED_BYTES_MAX).expect("an engine says well-formed things");
                let mut books = self.books.borrow_mut();
                let node = &mut books.nodes[self.node];
                (node.decided_at, node.entries) = (now, node.entries + 1);
                // Changes of the members are the engine's own proposals.
                if !value.proposal.change {
                    let entry = Entry {
                        instance: value.instance,
                        proposer: value.proposer,
                        value: fingerprint(value.proposal.bytes),
                    };
                    books.agreement.decided(self.node, entry);
                }
            }
            HostEvent::Reply { token, kind, payload, .. } if kind == Call::Answer as u8 => {
                let answer = Answer::parse(&payload).expect("an engine says well-formed things");
                self.answered(now, token, &answer);
                if self.next.is_none() {
                    self.propose(now, commands);
                }
            }
            HostEvent::Reply { .. }
            | HostEvent::Request { .. }
            | HostEvent::Frame(_)
            | HostEvent::Completion(_) => {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        let Some((_, step)) = self.next.take_if(|(at, _)| *at <= now) else { return };
        match step {
            Step::Configure => {
                commands.submit(HostCommand::Configure { engine: 0, configuration: self.configuration() });
                if self.load.is_some() {
                    commands.submit(call(SUBSCRIBE, Call::Subscribe, &[]));
                }
                if self.beginning == (Beginning::Founder { starts: true }) {
                    self.next = Some((now + START_AFTER, Step::Start));
                }
            }
            Step::Start => commands.submit(call(START, Call::Start, &[])),
            Step::Propose => self.propose(now, commands),
        }
    }
}
