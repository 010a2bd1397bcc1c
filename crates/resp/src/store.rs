//! The server's clients of the store: any number of requests, each executed at most once.

use std::collections::VecDeque;

use weft_kv::{Client, ClientParameters, Outcome, SESSION_WINDOW, Task};
use weft_time::Instant;
use weft_waist::{Epoch, NodeId, NodeSet};

/// A request to the store that waits for a client.
#[derive(Clone, Debug)]
enum Waiting {
    Get(Box<[u8]>),
    Put(Box<[u8]>, Box<[u8]>),
    Delete(Box<[u8]>),
    CompareAndSet(Box<[u8]>, u64, Box<[u8]>),
    CompareAndDelete(Box<[u8]>, u64),
    Scan { at: NodeId, from: u32, counts: bool },
}

impl Waiting {
    fn new(task: Task<'_>) -> Self {
        match task {
            Task::Get { key } => Self::Get(key.into()),
            Task::Put { key, value } => Self::Put(key.into(), value.into()),
            Task::Delete { key } => Self::Delete(key.into()),
            Task::CompareAndSet { key, expected, value } => {
                Self::CompareAndSet(key.into(), expected, value.into())
            }
            Task::CompareAndDelete { key, expected } => Self::CompareAndDelete(key.into(), expected),
            Task::Scan { at, from, counts } => Self::Scan { at, from, counts },
            Task::BeginBackup | Task::BackupPart { .. } => unreachable!("the server reads no backups"),
        }
    }

    fn task(&self) -> Task<'_> {
        match self {
            Self::Get(key) => Task::Get { key },
            Self::Put(key, value) => Task::Put { key, value },
            Self::Delete(key) => Task::Delete { key },
            Self::CompareAndSet(key, expected, value) => {
                Task::CompareAndSet { key, expected: *expected, value }
            }
            Self::CompareAndDelete(key, expected) => Task::CompareAndDelete { key, expected: *expected },
            Self::Scan { at, from, counts } => Task::Scan { at: *at, from: *from, counts: *counts },
        }
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A work item that uses the store directly.
    Work(u32),
    /// A round of work items on one key.
    Round(u32),
    /// The removal of an expired key.
    Expiry(u64),
    /// A request of a scan of the table.
    Scan(u32),
}

const WINDOW: usize = SESSION_WINDOW as usize;

struct Session {
    client: Client,
    /// Purposes of the outstanding requests, indexed by request number modulo the window.
    tokens: [Option<Token>; WINDOW],
    is_free: bool,
}

/// Clients of the store, each with a window of requests, and the requests that wait for one of them.
pub(crate) struct Store {
    first_client: u64,
    sessions: Vec<Session>,
    /// Clients with room for a request. The last one is used first, so that few clients are used under low load.
    free: Vec<u32>,
    /// Clients that may have messages to send.
    ready: VecDeque<u32>,
    waiting: VecDeque<(Waiting, Token)>,
    /// Number of requests that are outstanding or wait.
    outstanding: usize,
    /// A lower bound of the earliest deadline of all clients.
    earliest: Instant,
    /// The full members, by the newest view that a client has.
    full: NodeSet,
    epoch: Epoch,
}

impl Store {
    /// `count` clients with consecutive numbers from `first`, and otherwise the parameters of `parameters`.
    pub fn new(first: u64, count: u32, parameters: &ClientParameters) -> Self {
        let session = |index: u32| {
            let client = first.wrapping_add(u64::from(index));
            let client = Client::new(ClientParameters { client, ..parameters.clone() });
            Session { client, tokens: [None; WINDOW], is_free: true }
        };
        Self {
            first_client: first,
            sessions: (0..count).map(session).collect(),
            free: (0..count).rev().collect(),
            ready: VecDeque::with_capacity(count as usize),
            waiting: VecDeque::new(),
            outstanding: 0,
            earliest: Instant::FAR_FUTURE,
            full: parameters.nodes,
            epoch: Epoch(0),
        }
    }

    /// The full members, by the newest view in a reply.
    pub const fn full(&self) -> NodeSet {
        self.full
    }

    /// Number of requests that have not ended.
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Sends a request now, or queues it until a client has room.
    pub fn ask(&mut self, now: Instant, task: Task<'_>, token: Token) {
        self.outstanding += 1;
        if self.free.is_empty() {
            self.waiting.push_back((Waiting::new(task), token));
        } else {
            self.start(now, task, token);
        }
    }

    fn start(&mut self, now: Instant, task: Task<'_>, token: Token) {
        let index = *self.free.last().expect("there is a free one");
        let session = &mut self.sessions[index as usize];
        let request = session.client.start(now, task).expect("a free one takes a request");
        session.tokens[request.0 as usize % WINDOW] = Some(token);
        if !session.client.can_start() {
            session.is_free = false;
            self.free.pop();
        }
        self.touched(index);
    }

    /// Notes that a client may have messages to send, and a new deadline.
    fn touched(&mut self, index: u32) {
        if let Some(deadline) = self.sessions[index as usize].client.next_deadline() {
            self.earliest = self.earliest.min(deadline);
        }
        self.ready.push_back(index);
    }

    /// Handles the end of a client's request: the client may have room for another.
    fn ended(&mut self, now: Instant, index: u32, request: u64) -> Token {
        let session = &mut self.sessions[index as usize];
        let token = session.tokens[request as usize % WINDOW].take().expect("every request has one");
        self.outstanding -= 1;
        if !session.is_free && session.client.can_start() {
            session.is_free = true;
            self.free.push(index);
        }
        while !self.free.is_empty()
            && let Some((waiting, token)) = self.waiting.pop_front()
        {
            self.start(now, waiting.task(), token);
        }
        token
    }

    /// Processes a reply; returns the purpose of the request that it ends, and the outcome. Messages for other
    /// clients are ignored.
    pub fn receive<'a>(&mut self, now: Instant, kind: u8, payload: &'a [u8]) -> Option<(Token, Outcome<'a>)> {
        let client = u64::from_be_bytes(payload.get(8..16)?.try_into().expect("eight bytes"));
        let index = usize::try_from(client.wrapping_sub(self.first_client)).ok();
        let is_own = |index: &usize| {
            self.sessions.get(*index).is_some_and(|session| session.client.owns_client_number(client))
        };
        // A client whose number a node refused as possibly forgotten has taken another number since.
        let index = index
            .filter(is_own)
            .or_else(|| self.sessions.iter().position(|session| session.client.owns_client_number(client)))?;
        let session = &mut self.sessions[index];
        let completion = session.client.receive(now, kind, payload).ok()?;
        let view = session.client.view();
        if view.epoch > self.epoch {
            (self.epoch, self.full) = (view.epoch, view.full);
        }
        let index = index as u32;
        let Some(completion) = completion else {
            self.touched(index);
            return None;
        };
        Some((self.ended(now, index, completion.request.0), completion.outcome))
    }

    /// The next message to send: appends its content to `payload`, and returns (node, kind).
    pub fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(NodeId, u8)> {
        while let Some(&index) = self.ready.front() {
            if let Some(message) = self.sessions[index as usize].client.poll_transmit(payload) {
                return Some(message);
            }
            self.ready.pop_front();
        }
        None
    }

    /// When [`Store::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.outstanding > 0).then_some(self.earliest)
    }

    /// Repeats requests that are due. Returns one request that has reached its time-out; call it until it returns
    /// `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Token> {
        if now < self.earliest {
            return None;
        }
        self.earliest = Instant::FAR_FUTURE;
        for index in 0..self.sessions.len() as u32 {
            if let Some(completion) = self.sessions[index as usize].client.handle_deadline(now) {
                self.earliest = now;
                self.ready.push_back(index);
                return Some(self.ended(now, index, completion.request.0));
            }
            if self.sessions[index as usize].client.outstanding() > 0 {
                self.touched(index);
            }
        }
        None
    }
}
