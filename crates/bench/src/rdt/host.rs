//! The application of a node: it sets its replica up, and is a closed loop of a client's operations.

use weft_check::replicated::Client;
use weft_nic::{HostCommand, HostEvent};
use weft_rdt::replica::message::{Answer, Ask, Call, Status};
use weft_sim::{Commands, Host};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, Epoch, NodeId, NodeSet, View};

use super::books::Shared;
use super::workload::{ClientWorkload, Operation};

/// The engine's slot in every card.
pub(super) const SLOT: u8 = 0;

/// How long a client waits before it asks again what its replica has no room for.
const BUSY_PAUSE: Duration = Duration::from_us(1);

/// How long a client waits before it looks again whether all others are ready.
const READY_PAUSE: Duration = Duration::from_us(1);

/// Updates that a client has open at a time before the measurement.
const LOADING: usize = 16;

/// Updates of a client that do not count, before those that do.
const WARMING: u8 = 10;

/// The token of what is no operation.
const NO_TOKEN: u32 = 0;

/// How a client goes about its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Operations that it has open at a time.
    pub(super) outstanding: usize,
    /// How long it waits after an answer before it asks again.
    pub(super) pause: Duration,
}

/// An operation that is not answered.
#[derive(Clone, Copy, Debug)]
struct Pending {
    token: u32,
    number: u64,
    operation: Operation,
    since: Instant,
    /// It is one of those that count.
    counts: bool,
    /// There was no room for it: ask again at this time.
    again: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Makes what must be there.
    Load,
    /// Makes so many calls that do not count: connections and leaders are there when they are answered.
    Warm(u8),
    /// Waits until all clients have.
    Ready,
    /// The measurement.
    Run,
    Done,
}

/// The application of one node in one life.
#[derive(Debug)]
pub(super) struct ClientHost {
    node: usize,
    nodes: usize,
    founder: bool,
    books: Shared,
    /// What the engine is told of its connections.
    wires: Vec<Vec<u8>>,
    workload: ClientWorkload,
    pace: Pace,
    client: Option<Client>,
    phase: Phase,
    is_full: bool,
    begun: bool,
    pending: Vec<Pending>,
    last_token: u32,
    /// Not before this time.
    next_at: Instant,
    wake_at: Option<Instant>,
}

impl ClientHost {
    pub(super) fn new(
        node: usize,
        nodes: usize,
        founder: bool,
        books: Shared,
        wires: Vec<Vec<u8>>,
        workload: ClientWorkload,
        pace: Pace,
    ) -> Self {
        Self {
            node,
            nodes,
            founder,
            books,
            wires,
            workload,
            pace,
            client: None,
            phase: if founder { Phase::Load } else { Phase::Ready },
            is_full: false,
            begun: false,
            pending: Vec::new(),
            last_token: NO_TOKEN,
            next_at: Instant::ZERO,
            wake_at: Some(Instant::ZERO),
        }
    }

    /// Sets the replica up.
    fn begin(&mut self, commands: &mut Commands) {
        let (client, incarnation) = self.books.borrow_mut().begin(self.node, self.founder);
        self.client = Some(client);
        for wire in &self.wires {
            commands.submit(HostCommand::Call {
                engine: SLOT,
                token: NO_TOKEN,
                kind: Call::Wire as u8,
                payload: wire,
            });
        }
        let node = NodeId::new(self.node).expect("a cluster has at most 8 nodes");
        let all = NodeSet::first(self.nodes);
        let view = if self.founder {
            View { epoch: Epoch(incarnation), full: all, joining: NodeSet::EMPTY }
        } else {
            let joining = NodeSet::EMPTY.with(node);
            View { epoch: Epoch(incarnation), full: all.without(node), joining }
        };
        commands.submit(HostCommand::Configure {
            engine: 0,
            configuration: Configuration { node, view, lease_until: Instant::FAR_FUTURE },
        });
    }

    /// The replica has lost what it had: it begins again, with nothing.
    fn begin_again(&mut self, commands: &mut Commands) {
        self.books.borrow_mut().stopped(self.node);
        self.pending.clear();
        self.founder = false;
        self.is_full = false;
        if matches!(self.phase, Phase::Load | Phase::Warm(_)) {
            self.phase = Phase::Ready;
        }
        commands.submit(HostCommand::Reset { engine: 0 });
        self.begin(commands);
    }

    /// Reads once, so that the replica takes in what it has put off.
    pub(super) fn read(&mut self, now: Instant, commands: &mut Commands) {
        if self.is_full && self.client.is_some() {
            let query = self.workload.query();
            self.ask(now, Operation::Query(query), commands);
        }
    }

    /// Looks again whether there is something to do.
    pub(super) fn nudge(&mut self, now: Instant, commands: &mut Commands) {
        self.pump(now, commands);
    }

    /// Asks as much as may be open.
    fn pump(&mut self, now: Instant, commands: &mut Commands) {
        loop {
            let most = if self.phase == Phase::Load { LOADING } else { self.pace.outstanding };
            if !self.is_full || self.pending.len() >= most {
                return;
            }
            match self.phase {
                // Who is not connected by then would be left behind.
                Phase::Load if now < self.books.borrow().begins_at => {
                    self.wake_at = Some(self.books.borrow().begins_at);
                    return;
                }
                Phase::Load => match self.workload.load() {
                    Some(call) => self.ask(now, Operation::Update(call), commands),
                    None if self.pending.is_empty() => self.phase = Phase::Warm(WARMING),
                    None => return,
                },
                Phase::Warm(0) if self.pending.is_empty() => self.phase = Phase::Ready,
                Phase::Warm(0) => return,
                Phase::Warm(left) => {
                    self.phase = Phase::Warm(left - 1);
                    let operation = self.workload.warm_up();
                    self.ask(now, operation, commands);
                }
                Phase::Ready => {
                    let mut books = self.books.borrow_mut();
                    books.nodes[self.node].is_loaded = true;
                    if !books.may_begin(now) {
                        self.wake_at = Some(now + READY_PAUSE);
                        return;
                    }
                    let this = &mut books.nodes[self.node];
                    (this.began, this.ended) = (now, now);
                    drop(books);
                    self.phase = Phase::Run;
                }
                Phase::Run | Phase::Done => {
                    if now < self.next_at {
                        self.wake_at = Some(self.next_at);
                        return;
                    }
                    let mut books = self.books.borrow_mut();
                    let this = &mut books.nodes[self.node];
                    if this.quota == 0 {
                        if self.pending.is_empty() && !this.is_done {
                            this.is_done = true;
                            self.phase = Phase::Done;
                        }
                        return;
                    }
                    this.quota -= 1;
                    this.is_done = false;
                    self.phase = Phase::Run;
                    drop(books);
                    let operation = self.workload.next_operation();
                    self.ask(now, operation, commands);
                }
            }
        }
    }

    /// Asks for an operation.
    fn ask(&mut self, now: Instant, operation: Operation, commands: &mut Commands) {
        let client = self.client.expect("a life has begun");
        let number = self.books.borrow_mut().asked(client, &operation);
        self.last_token = self.last_token.wrapping_add(1).max(NO_TOKEN + 1);
        let counts = matches!(self.phase, Phase::Run | Phase::Done);
        let pending = Pending { token: self.last_token, number, operation, since: now, counts, again: None };
        self.pending.push(pending);
        submit(&pending, commands);
    }

    /// Asks again what there was no room for.
    fn ask_again(&mut self, now: Instant, commands: &mut Commands) {
        for pending in &mut self.pending {
            if pending.again.is_some_and(|at| at <= now) {
                pending.again = None;
                submit(pending, commands);
            }
        }
    }

    fn answered(&mut self, now: Instant, token: u32, answer: &Answer) {
        // What an earlier life asked has no meaning any more.
        let Some(index) = self.pending.iter().position(|pending| pending.token == token) else { return };
        let client = self.client.expect("a life has begun");
        let mut books = self.books.borrow_mut();
        let pending = &mut self.pending[index];
        match (answer.status, pending.operation) {
            (Status::Busy | Status::NotServing, _) => {
                books.nodes[self.node].busy += 1;
                let again = now + BUSY_PAUSE;
                pending.again = Some(again);
                self.wake_at = Some(self.wake_at.map_or(again, |at| at.min(again)));
                return;
            }
            (Status::Done, Operation::Query(_)) => {
                books.check.told(client, pending.number, Some(answer.value));
            }
            (Status::Done, Operation::Update(_)) => books.check.done(client, pending.number),
            (Status::Refused, Operation::Update(_)) => {
                books.check.refused(client, pending.number);
                books.nodes[self.node].refused += u64::from(pending.counts);
            }
            (status, operation) => {
                books.wrong.push(format!("node{} was told {status:?} to {operation:?}", self.node));
            }
        }
        books.nodes[self.node].answered += 1;
        if pending.counts {
            let took = now.saturating_since(pending.since);
            books.nodes[self.node].record(&pending.operation, took);
            books.nodes[self.node].ended = now;
            self.next_at = now + self.pace.pause;
        }
        self.pending.swap_remove(index);
    }
}

fn submit(pending: &Pending, commands: &mut Commands) {
    let (kind, call) = match pending.operation {
        Operation::Query(query) => (Call::Query, query),
        Operation::Update(update) => (Call::Invoke, update),
    };
    let sequence = pending.number & u64::from(u32::MAX);
    let ask = Ask { sequence, method: call.method, arguments: call.arguments };
    commands.submit(HostCommand::Call {
        engine: SLOT,
        token: pending.token,
        kind: kind as u8,
        payload: &ask.encode(),
    });
}

impl Host for ClientHost {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            HostEvent::Status { status, .. } => {
                self.is_full = status.state == EngineState::Full;
                self.books.borrow_mut().nodes[self.node].is_full = self.is_full;
                if status.state == EngineState::Lost {
                    self.begin_again(commands);
                }
                self.pump(now, commands);
            }
            HostEvent::Reply { token, kind, payload, .. } if kind == Call::Answer as u8 => {
                let answer = Answer::parse(&payload).expect("an engine says well-formed things");
                if token == NO_TOKEN {
                    if answer.status != Status::Done {
                        let what = format!("node{} cannot be wired: {:?}", self.node, answer.status);
                        self.books.borrow_mut().wrong.push(what);
                    }
                    return;
                }
                self.answered(now, token, &answer);
                self.pump(now, commands);
            }
            HostEvent::Reply { .. }
            | HostEvent::Request { .. }
            | HostEvent::Frame(_)
            | HostEvent::Completion(_) => {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.wake_at
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if self.wake_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        if !self.begun {
            self.begun = true;
            self.begin(commands);
        }
        self.ask_again(now, commands);
        self.pump(now, commands);
        let again = self.pending.iter().filter_map(|pending| pending.again).min();
        self.wake_at = self.wake_at.into_iter().chain(again).min();
    }
}
