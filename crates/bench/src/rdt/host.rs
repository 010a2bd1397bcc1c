//! The application of a node on its host: a client that performs its operations in a closed loop.

use weft_check::replicated::Client;
use weft_harness::{SimulatedHalf, node_id};
use weft_node::{HostHalf, HostIo, WiredHalf};
use weft_rdt::replica::message::{Answer, Ask, Call, Status};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus, Epoch};

use super::books::Shared;
use super::workload::{ClientWorkload, Operation};

/// The engine's slot in every card.
pub(super) const SLOT: u8 = 0;

/// Pause before a client repeats an operation for which its replica had no room.
const BUSY_PAUSE: Duration = Duration::from_us(1);

/// Interval at which a client checks whether all others are ready.
const READY_PAUSE: Duration = Duration::from_us(1);

/// Outstanding updates of a client during loading.
const LOADING: usize = 16;

/// Number of warm-up updates of a client; they are not measured.
const WARMING: u8 = 10;

/// The token of requests that do not belong to an operation.
const NO_TOKEN: u32 = 0;

/// Pace of a client's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Outstanding operations of a client.
    pub(super) outstanding: usize,
    /// Pause between an answer and the next request.
    pub(super) pause: Duration,
}

/// An outstanding operation.
#[derive(Clone, Copy, Debug)]
struct Pending {
    token: u32,
    number: u64,
    operation: Operation,
    since: Instant,
    /// Whether the operation is measured.
    counts: bool,
    /// Time at which the operation is repeated, if the replica had no room.
    again: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Loads initial elements.
    Load,
    /// Makes calls that are not measured. When they are answered, connections and leaders are established.
    Warm(u8),
    /// Waits until all clients have finished loading and warm-up.
    Ready,
    /// The measurement.
    Run,
    Done,
}

/// The host half of a simulated node: the shipped host half of the object, with a client on the same host.
pub struct ClientHalf {
    node: usize,
    nodes: usize,
    books: Shared,
    wired: WiredHalf,
    /// Whether a replica that has lost its state restarts empty.
    begins_again: bool,
    workload: ClientWorkload,
    pace: Pace,
    /// The client of the current incarnation, once the engine is configured.
    client: Option<Client>,
    phase: Phase,
    is_full: bool,
    /// Whether the client must check for due operations.
    due: bool,
    pending: Vec<Pending>,
    last_token: u32,
    /// Earliest time of the next request.
    next_at: Instant,
    wake_at: Option<Instant>,
}

impl ClientHalf {
    pub(super) fn new(
        (node, nodes): (usize, usize),
        books: Shared,
        (wired, begins_again): (WiredHalf, bool),
        workload: ClientWorkload,
        pace: Pace,
    ) -> Self {
        Self {
            node,
            nodes,
            books,
            wired,
            begins_again,
            workload,
            pace,
            client: None,
            phase: Phase::Ready,
            is_full: false,
            due: true,
            pending: Vec::new(),
            last_token: NO_TOKEN,
            next_at: Instant::ZERO,
            wake_at: None,
        }
    }

    /// Handles that the replica has lost its state and restarts empty. This happens only if updates are
    /// answered before other replicas have them ([`super::Commit::Local`]).
    fn begin_again(&mut self, io: &mut HostIo<'_>) {
        let mut books = self.books.borrow_mut();
        books.stopped(self.node);
        let view = books.joining_view(self.node, self.nodes);
        self.client = Some(books.begin(self.node, view.epoch.0));
        drop(books);
        self.pending.clear();
        self.is_full = false;
        if matches!(self.phase, Phase::Load | Phase::Warm(_)) {
            self.phase = Phase::Ready;
        }
        io.reset();
        self.wired.begin(io);
        io.configure(Configuration { node: node_id(self.node), view, lease_until: Instant::FAR_FUTURE });
    }

    /// Reads once, so that the replica applies delayed effects.
    pub(super) fn read(&mut self, now: Instant, io: &mut HostIo<'_>) {
        if self.is_full && self.client.is_some() {
            let query = self.workload.query();
            self.ask(now, Operation::Query(query), io);
        }
    }

    /// Checks for due operations.
    pub(super) fn nudge(&mut self, now: Instant, io: &mut HostIo<'_>) {
        self.pump(now, io);
    }

    /// Makes requests until the maximum number is outstanding.
    fn pump(&mut self, now: Instant, io: &mut HostIo<'_>) {
        loop {
            let most = if self.phase == Phase::Load { LOADING } else { self.pace.outstanding };
            if !self.is_full || self.pending.len() >= most {
                return;
            }
            match self.phase {
                // A replica that is not connected when loading begins would fall behind.
                Phase::Load if now < self.books.borrow().begins_at => {
                    self.wake_at = Some(self.books.borrow().begins_at);
                    return;
                }
                Phase::Load => match self.workload.load() {
                    Some(call) => self.ask(now, Operation::Update(call), io),
                    None if self.pending.is_empty() => self.phase = Phase::Warm(WARMING),
                    None => return,
                },
                Phase::Warm(0) if self.pending.is_empty() => self.phase = Phase::Ready,
                Phase::Warm(0) => return,
                Phase::Warm(left) => {
                    self.phase = Phase::Warm(left - 1);
                    let operation = self.workload.warm_up();
                    self.ask(now, operation, io);
                }
                Phase::Ready => {
                    let mut books = self.books.borrow_mut();
                    books.nodes[self.node].is_loaded = true;
                    if !books.may_begin(now) {
                        self.wake_at = Some(now + READY_PAUSE);
                        return;
                    }
                    let this = &mut books.nodes[self.node];
                    // A client that continues after a restart keeps its start.
                    if this.began == Instant::ZERO {
                        (this.began, this.ended) = (now, now);
                    }
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
                    self.ask(now, operation, io);
                }
            }
        }
    }

    /// Requests an operation.
    fn ask(&mut self, now: Instant, operation: Operation, io: &mut HostIo<'_>) {
        let client = self.client.expect("a life has begun");
        let number = self.books.borrow_mut().asked(client, &operation);
        self.last_token = self.last_token.wrapping_add(1).max(NO_TOKEN + 1);
        let counts = matches!(self.phase, Phase::Run | Phase::Done);
        let pending = Pending { token: self.last_token, number, operation, since: now, counts, again: None };
        self.pending.push(pending);
        submit(&pending, io);
    }

    /// Repeats operations for which there was no room.
    fn ask_again(&mut self, now: Instant, io: &mut HostIo<'_>) {
        for pending in &mut self.pending {
            if pending.again.is_some_and(|at| at <= now) {
                pending.again = None;
                submit(pending, io);
            }
        }
    }

    fn answered(&mut self, now: Instant, token: u32, answer: &Answer) {
        // Answers to requests of an earlier incarnation are ignored.
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

fn submit(pending: &Pending, io: &mut HostIo<'_>) {
    let (kind, call) = match pending.operation {
        Operation::Query(query) => (Call::Query, query),
        Operation::Update(update) => (Call::Invoke, update),
    };
    let sequence = pending.number & u64::from(u32::MAX);
    let ask = Ask { sequence, method: call.method, arguments: call.arguments };
    io.call(pending.token, kind as u8, &ask.encode());
}

impl HostHalf for ClientHalf {
    fn keeps_data_without_lease(&self) -> bool {
        self.wired.keeps_data_without_lease()
    }

    fn begin(&mut self, io: &mut HostIo<'_>) {
        self.wired.begin(io);
    }

    /// The first view that the engine is configured with determines the incarnation of the replica.
    fn configure(&mut self, _: Instant, configuration: &Configuration, _: &mut HostIo<'_>) {
        if self.client.is_some() {
            return;
        }
        let Configuration { node, view, .. } = *configuration;
        let founds = view.full.contains(node);
        let Epoch(incarnation) = if founds { Epoch(1) } else { view.epoch };
        self.phase = if founds { Phase::Load } else { Phase::Ready };
        self.client = Some(self.books.borrow_mut().begin(self.node, incarnation));
    }

    fn status(&mut self, now: Instant, status: EngineStatus, io: &mut HostIo<'_>) {
        self.is_full = status.state == EngineState::Full;
        self.books.borrow_mut().nodes[self.node].is_full = self.is_full;
        if status.state == EngineState::Lost && self.begins_again {
            self.begin_again(io);
        }
        self.pump(now, io);
    }

    fn replied(&mut self, now: Instant, token: u32, (kind, payload): (u8, &[u8]), io: &mut HostIo<'_>) {
        if kind != Call::Answer as u8 {
            return;
        }
        let answer = Answer::parse(payload).expect("an engine says well-formed things");
        if token == NO_TOKEN {
            if answer.status != Status::Done {
                let what = format!("node{} cannot be wired: {:?}", self.node, answer.status);
                self.books.borrow_mut().wrong.push(what);
            }
            return;
        }
        self.answered(now, token, &answer);
        self.pump(now, io);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.wake_at
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.due |= self.wake_at.take_if(|at| *at <= now).is_some();
    }

    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        if !std::mem::take(&mut self.due) {
            return;
        }
        self.ask_again(now, io);
        self.pump(now, io);
        let again = self.pending.iter().filter_map(|pending| pending.again).min();
        self.wake_at = self.wake_at.into_iter().chain(again).min();
    }
}

impl SimulatedHalf for ClientHalf {}
