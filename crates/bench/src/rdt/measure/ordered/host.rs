//! The application of a node. It has the object and applies the entries of the log; if its node leads, it
//! also answers the clients.

use std::cell::RefCell;
use std::rc::Rc;

use weft_check::replicated::Call;
use weft_check::replicated::Specification;
use weft_harness::SimulatedHalf;
use weft_node::{HostHalf, HostIo, WiredHalf};
use weft_rdt::Object;
use weft_rdt::replica::message::Ask;
use weft_sim::CpuTime;
use weft_smr::log::{self, Answer, Append, SESSION_WINDOW, Status};
use weft_time::{Duration, Instant};

use super::books::{OrderedRecord, perform};
use crate::rdt::workload::{ClientWorkload, Operation};

/// Pause before a client repeats an operation for which the log had no room.
const PAUSE: Duration = Duration::from_us(1);
/// Outstanding operations of a client during loading.
const LOADING: usize = 4;
/// First byte of an entry: whether the operation is a query.
const KIND_BYTES: usize = 1;
const CONTENT_BYTES: usize = KIND_BYTES + Ask::BYTES;
/// A bit that is set in the tokens of operations.
const CLIENTS: u32 = 1 << 30;
/// The token of requests that do not belong to an operation.
const HOST: u32 = 0;

/// An outstanding operation.
#[derive(Clone, Copy, Debug)]
struct Pending {
    sequence: u64,
    operation: Operation,
    since: Instant,
    counts: bool,
    /// Time at which the operation is repeated, if the log had no room.
    again: Option<Instant>,
}

#[derive(Debug)]
struct Client {
    workload: ClientWorkload,
    loaded: bool,
    next: u64,
    pending: Vec<Pending>,
}

/// The application of one node.
pub(super) struct OrderedHalf {
    node: usize,
    wired: WiredHalf,
    books: Rc<RefCell<OrderedRecord>>,
    object: Object,
    clients: Vec<Client>,
    outstanding: usize,
    /// CPU time of an operation in the application.
    cost: Duration,
    cpu_time: CpuTime,
    due: bool,
    measures: bool,
    wake_at: Option<Instant>,
}

impl OrderedHalf {
    pub(super) fn new(
        node: usize,
        wired: WiredHalf,
        books: Rc<RefCell<OrderedRecord>>,
        clients: Vec<ClientWorkload>,
        outstanding: usize,
        cost: Duration,
    ) -> Self {
        let object = books.borrow().subject().initial();
        let client = |workload| Client { workload, loaded: false, next: 0, pending: Vec::new() };
        Self {
            node,
            wired,
            books,
            object,
            clients: clients.into_iter().map(client).collect(),
            outstanding,
            cost,
            cpu_time: CpuTime::default(),
            due: false,
            measures: false,
            wake_at: Some(Instant::ZERO),
        }
    }

    pub(super) const fn object(&self) -> &Object {
        &self.object
    }

    fn wake_by(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    /// Makes requests of the clients until the maximum number is outstanding.
    fn pump(&mut self, now: Instant, io: &mut HostIo<'_>) {
        let books = Rc::clone(&self.books);
        let mut books = books.borrow_mut();
        if self.is_loaded() && !self.measures && now >= books.begins_at {
            self.measures = true;
            for client in &mut books.clients {
                (client.began, client.ended) = (now, now);
            }
        }
        for (number, client) in self.clients.iter_mut().enumerate() {
            let most = if self.measures { self.outstanding } else { LOADING };
            loop {
                let oldest = client.pending.iter().map(|pending| pending.sequence).min();
                let has_room = oldest.is_none_or(|oldest| client.next < oldest + SESSION_WINDOW);
                if client.pending.len() >= most || !has_room {
                    break;
                }
                let operation = if self.measures {
                    let of = &mut books.clients[number];
                    of.is_done = of.quota == 0 && client.pending.is_empty();
                    if of.quota == 0 {
                        break;
                    }
                    of.quota -= 1;
                    client.workload.next_operation()
                } else {
                    match (client.loaded, client.workload.load()) {
                        (false, Some(call)) => Operation::Update(call),
                        _ => {
                            client.loaded = true;
                            break;
                        }
                    }
                };
                let sequence = client.next;
                client.next += 1;
                books.asked(number, sequence, operation);
                let pending = Pending { sequence, operation, since: now, counts: self.measures, again: None };
                client.pending.push(pending);
                submit(number, &pending, io);
            }
        }
        if self.is_loaded() && !self.measures {
            self.wake_by(now.max(books.begins_at));
        }
    }

    /// Whether loading and warm-up are done.
    fn is_loaded(&self) -> bool {
        let is_loaded = |client: &Client| client.loaded && client.pending.is_empty();
        !self.clients.is_empty() && self.clients.iter().all(is_loaded)
    }

    /// Handles that an entry of the log is decided.
    fn decided(&mut self, now: Instant, payload: &[u8], io: &mut HostIo<'_>) {
        let (index, append) = payload.split_at(8);
        let index = u64::from_be_bytes(index.try_into().expect("eight bytes"));
        let append = Append::parse(append).expect("an engine says well-formed things");
        let operation = decode(append.content);
        let outcome = perform(&mut self.object, &operation);
        self.cpu_time.add(self.cost);
        let done = now + self.cpu_time.total;
        let client = append.origin as usize;
        self.books.borrow_mut().told(self.node, index, client, append.sequence, operation, outcome);
        let Some(of) = self.clients.get_mut(client) else { return };
        if let Some(place) = of.pending.iter().position(|pending| pending.sequence == append.sequence) {
            let Pending { sequence, since, counts, .. } = of.pending.swap_remove(place);
            let took = done.saturating_since(since);
            self.books.borrow_mut().answered_with(client, sequence, outcome, took, done, counts);
        }
        self.pump(done, io);
    }

    /// Handles that the log has refused an operation.
    fn refused(&mut self, now: Instant, token: u32) {
        let (client, low) = ((token >> 24) as usize, token & 0xff_ffff);
        let again = now + PAUSE;
        let pending = &mut self.clients[client].pending;
        if let Some(pending) = pending.iter_mut().find(|pending| pending.sequence as u32 & 0xff_ffff == low) {
            pending.again = Some(again);
            self.books.borrow_mut().clients[client].busy += u64::from(pending.counts);
            self.wake_by(again);
        }
    }
}

/// Parses an entry.
fn decode(content: &[u8]) -> Operation {
    let ask = Ask::parse(&content[KIND_BYTES..]).expect("clients say well-formed things");
    let call = Call { method: ask.method, arguments: ask.arguments };
    if content[0] == 0 { Operation::Update(call) } else { Operation::Query(call) }
}

fn submit(client: usize, pending: &Pending, io: &mut HostIo<'_>) {
    let (kind, asked) = match pending.operation {
        Operation::Update(call) => (0, call),
        Operation::Query(call) => (1, call),
    };
    let ask = Ask { sequence: 0, method: asked.method, arguments: asked.arguments };
    let mut payload = [0; Append::HEADER + CONTENT_BYTES];
    let append = Append { origin: client as u64, sequence: pending.sequence, content: &[] };
    payload[..Append::HEADER].copy_from_slice(&append.header());
    payload[Append::HEADER] = kind;
    payload[Append::HEADER + KIND_BYTES..].copy_from_slice(&ask.encode());
    let token = CLIENTS | (client as u32) << 24 | (pending.sequence as u32 & 0xff_ffff);
    io.call(token, log::Call::Append as u8, &payload);
}

impl HostHalf for OrderedHalf {
    fn keeps_data_without_lease(&self) -> bool {
        self.wired.keeps_data_without_lease()
    }

    fn begin(&mut self, io: &mut HostIo<'_>) {
        self.wired.begin(io);
        io.call(HOST, log::Call::Subscribe as u8, &[]);
    }

    fn replied(&mut self, now: Instant, token: u32, (kind, payload): (u8, &[u8]), io: &mut HostIo<'_>) {
        if kind == log::Call::Entry as u8 {
            self.decided(now, payload, io);
        } else if kind == log::Call::Answer as u8 {
            let answer = Answer::parse(payload).expect("an engine says well-formed things");
            match answer.status {
                // The result of the operation comes later, when its entry is decided.
                Status::Ok => {}
                Status::NotLeader | Status::Busy | Status::Abandoned if token & CLIENTS != 0 => {
                    self.refused(now, token & !CLIENTS);
                }
                status => {
                    let what = format!("node{} answers {status:?}", self.node);
                    self.books.borrow_mut().wrong.push(what);
                }
            }
        }
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
        let mut next = None;
        for (number, client) in self.clients.iter_mut().enumerate() {
            for pending in &mut client.pending {
                if pending.again.take_if(|at| *at <= now).is_some() {
                    submit(number, pending, io);
                }
                next = next.into_iter().chain(pending.again).min();
            }
        }
        if let Some(next) = next {
            self.wake_by(next);
        }
        self.pump(now, io);
    }
}

impl SimulatedHalf for OrderedHalf {
    fn take_cpu_time(&mut self) -> CpuTime {
        std::mem::take(&mut self.cpu_time)
    }
}
