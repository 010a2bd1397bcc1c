//! The clients of a replicated log, on the hosts of its nodes; and the record of appends and applied entries.

use std::cell::RefCell;
use std::rc::Rc;

use weft_check::OneLog;
use weft_harness::SimulatedHalf;
use weft_node::{HostHalf, HostIo, WiredHalf};
use weft_smr::log::{Answer, Append, Call, SESSION_WINDOW, Status};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, EngineStatus};

use weft_results::histogram::Latencies;

/// The engine's slot in every NIC.
pub(crate) const LOG_SLOT: u8 = 0;
/// Interval at which a host checks for new requests of its clients.
const PACE: Duration = Duration::from_us(1);
/// Time without an answer after which a client sends its append to another node.
const PATIENCE: Duration = Duration::from_us(80);
/// Bytes of a client's append besides its number.
const CONTENT_BYTES: usize = 32;

/// A bit that is set in the tokens of clients' calls, but not in those of the host's own calls.
const CLIENTS: u32 = 1 << 30;
/// The token of the host's own calls.
const HOST: u32 = 0;

/// An outstanding append.
#[derive(Clone, Debug)]
struct Outstanding {
    sequence: u64,
    again_at: Instant,
    refused: bool,
    first_asked_at: Instant,
    /// Appends that were answered before this one was first sent have smaller indices than this.
    above: u64,
}

/// A client that appends at the current leader.
#[derive(Clone, Debug)]
struct Client {
    target: usize,
    next: u64,
    outstanding: Vec<Outstanding>,
}

/// Parameters of the clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientLoad {
    /// Number of clients.
    pub clients: usize,
    /// Outstanding appends of each client.
    pub outstanding: usize,
    /// Whether a client moves to another node if its node does not lead. If not, each node has one client.
    pub roaming: bool,
}

/// Record of a run, over all nodes.
#[derive(Debug)]
pub(super) struct RunRecord {
    load: ClientLoad,
    clients: Vec<Client>,
    pub asking: bool,
    /// The entries of the log. An append is identified by its origin and its number.
    pub log: OneLog<(u64, u64)>,
    pub answered: u64,
    pub latencies: Latencies,
    /// Latest state of the engine of each node.
    pub states: Vec<EngineState>,
    /// Time at which each node last answered an append, on its host's clock.
    pub answered_at: Vec<Instant>,
    /// Time of the first answer of each node in its current incarnation.
    pub first_answer_at: Vec<Option<Instant>>,
}

impl RunRecord {
    pub fn new(nodes: usize, load: ClientLoad) -> Rc<RefCell<Self>> {
        let client = |origin: usize| Client { target: origin % nodes, next: 0, outstanding: Vec::new() };
        Rc::new(RefCell::new(Self {
            load,
            clients: (0..load.clients).map(client).collect(),
            asking: true,
            log: OneLog::new(nodes),
            answered: 0,
            latencies: Latencies::new(),
            states: vec![EngineState::Starting; nodes],
            answered_at: vec![Instant::ZERO; nodes],
            first_answer_at: vec![None; nodes],
        }))
    }

    /// Notes that a node has crashed and has lost its memory.
    pub fn crashed(&mut self, node: usize) {
        self.states[node] = EngineState::Starting;
        self.first_answer_at[node] = None;
        self.log.crashed(node);
    }

    /// Number of appends that were not answered.
    pub fn outstanding(&self) -> usize {
        self.clients.iter().map(|client| client.outstanding.len()).sum()
    }

    /// Number of nodes that hold all data.
    pub fn full(&self) -> usize {
        self.states.iter().filter(|state| **state == EngineState::Full).count()
    }

    /// Records that a node has applied this entry.
    fn told(&mut self, node: usize, at: u64, append: &Append<'_>) {
        if append.content != content(append.origin, append.sequence) {
            self.log.violation(format!("node{node} tells entry {at}, which no client has appended"));
        }
        self.log.applied(node, at, (append.origin, append.sequence));
    }

    /// The appends that the clients at a node must send now: origin and sequence number of each.
    fn wanted(&mut self, node: usize, now: Instant) -> Vec<(u64, u64)> {
        let (nodes, load) = (self.states.len(), self.load);
        let (asking, above) = (self.asking, self.log.answered_below());
        let mut wanted = Vec::new();
        for (origin, client) in self.clients.iter_mut().enumerate() {
            if client.target != node {
                continue;
            }
            for outstanding in client.outstanding.iter_mut().filter(|outstanding| now >= outstanding.again_at)
            {
                if load.roaming && !outstanding.refused {
                    // The node has not answered at all, so the client moves to the next node.
                    client.target = (client.target + 1) % nodes;
                    (outstanding.again_at, outstanding.refused) = (now, true);
                    break;
                }
                (outstanding.again_at, outstanding.refused) = (now + PATIENCE, false);
                wanted.push((origin as u64, outstanding.sequence));
            }
            let first = client.outstanding.iter().map(|o| o.sequence).min().unwrap_or(client.next);
            while asking
                && client.target == node
                && client.outstanding.len() < load.outstanding
                && client.next < first + SESSION_WINDOW
            {
                let sequence = client.next;
                client.next += 1;
                let again_at = now + PATIENCE;
                let outstanding =
                    Outstanding { sequence, again_at, refused: false, first_asked_at: now, above };
                client.outstanding.push(outstanding);
                wanted.push((origin as u64, sequence));
            }
        }
        wanted
    }

    fn answer(&mut self, node: usize, now: Instant, token: u32, answer: &Answer) {
        let (origin, low) = (((token & !CLIENTS) >> 24) as usize, u64::from(token & 0xff_ffff));
        let (load, nodes) = (self.load, self.states.len());
        let client = &mut self.clients[origin];
        let place = client.outstanding.iter().position(|outstanding| outstanding.sequence & 0xff_ffff == low);
        let Some(place) = place else { return };
        match answer.status {
            Status::Ok => {
                let Outstanding { sequence, first_asked_at, above, .. } = client.outstanding.remove(place);
                self.answered += 1;
                self.latencies.record(now.saturating_since(first_asked_at));
                self.answered_at[node] = now;
                self.first_answer_at[node].get_or_insert(now);
                self.log.answered(node, (origin as u64, sequence), answer.index, above);
            }
            Status::NotLeader if load.roaming => {
                client.target = answer.leader.filter(|leader| *leader < nodes).unwrap_or((node + 1) % nodes);
                (client.outstanding[place].again_at, client.outstanding[place].refused) =
                    (now + PACE * 4, true);
            }
            Status::NotLeader | Status::Busy | Status::Abandoned => {
                (client.outstanding[place].again_at, client.outstanding[place].refused) = (now, true);
            }
            status @ (Status::NoEntry
            | Status::BadRequest
            | Status::Void
            | Status::Forgotten
            | Status::Skipped) => {
                self.log.violation(format!("node{node} answers an append with {status:?}"));
            }
        }
    }
}

fn content(origin: u64, sequence: u64) -> [u8; CONTENT_BYTES] {
    std::array::from_fn(|place| (origin * 83 + sequence * 29 + place as u64 * 7) as u8)
}

/// The host half of a simulated node: the shipped host half of the log, with clients on the same host.
pub struct LogHalf {
    node: usize,
    wired: WiredHalf,
    books: Rc<RefCell<RunRecord>>,
    wake_at: Instant,
    /// Whether the clients must check for requests that are due.
    due: bool,
}

impl LogHalf {
    pub(super) fn new(node: usize, wired: WiredHalf, books: Rc<RefCell<RunRecord>>) -> Self {
        Self { node, wired, books, wake_at: Instant::ZERO, due: false }
    }

    fn ask(&self, now: Instant, io: &mut HostIo<'_>) {
        for (origin, sequence) in self.books.borrow_mut().wanted(self.node, now) {
            let content = content(origin, sequence);
            let append = Append { origin, sequence, content: &content };
            let token = CLIENTS | (origin as u32) << 24 | (sequence as u32 & 0xff_ffff);
            let mut payload = [0; Append::HEADER + CONTENT_BYTES];
            payload[..Append::HEADER].copy_from_slice(&append.header());
            payload[Append::HEADER..].copy_from_slice(&content);
            io.call(token, Call::Append as u8, &payload);
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("an engine says well-formed things"))
}

impl HostHalf for LogHalf {
    fn keeps_data_without_lease(&self) -> bool {
        self.wired.keeps_data_without_lease()
    }

    fn begin(&mut self, io: &mut HostIo<'_>) {
        self.wired.begin(io);
        io.call(HOST, Call::Subscribe as u8, &[]);
    }

    fn status(&mut self, _: Instant, status: EngineStatus, _: &mut HostIo<'_>) {
        self.books.borrow_mut().states[self.node] = status.state;
    }

    fn replied(&mut self, now: Instant, token: u32, (kind, payload): (u8, &[u8]), _: &mut HostIo<'_>) {
        if kind == Call::Entry as u8 {
            let append = Append::parse(&payload[8..]).expect("an engine says well-formed things");
            self.books.borrow_mut().told(self.node, word(payload), &append);
        } else if kind == Call::Restored as u8 {
            self.books.borrow_mut().log.restored(self.node, word(payload));
        } else if kind == Call::Answer as u8 {
            let answer = Answer::parse(payload).expect("an engine says well-formed things");
            if token & CLIENTS == 0 {
                assert_eq!(answer.status, Status::Ok, "a host does what its engine takes");
            } else {
                self.books.borrow_mut().answer(self.node, now, token, &answer);
                self.due |= answer.status == Status::Ok;
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.wake_at)
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.wake_at = now + PACE;
        self.due = true;
    }

    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        if std::mem::take(&mut self.due) {
            self.ask(now, io);
        }
    }
}

impl SimulatedHalf for LogHalf {}
