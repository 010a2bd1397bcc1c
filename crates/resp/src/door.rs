//! The door: connections on one side, the store on the other, and nothing that waits for a clock or a socket.
//!
//! Every command is one or more *works*, each on one key. Works of different keys run side by side; a work waits for
//! the works on the same key that its connection has given before, so a connection sees its own writes. Answers leave
//! in the order of the commands.

mod connection;
mod works;

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use weft_kv::{ClientParameters, Outcome};
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};

use crate::expiries::Expiries;
use crate::reply::Reply;
use crate::rounds::{News, Rounds, Surroundings, failure};
use crate::scripts::Script;
use crate::slab::Slab;
use crate::store::{Ask, Store, Token};
use connection::Connection;
use works::{Scan, Work};

/// Bytes of answers that a client may leave unread before its requests have to wait.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes of requests that are kept while they have to wait.
const INPUT_BYTES_MAX: usize = 2 << 20;
/// Works of a connection that are not answered yet.
const WORKS_MAX: usize = 4_096;
/// Known scripts that clients have loaded under a name of their own.
const SCRIPTS_MAX: usize = 1_024;
/// When a removal whose outcome is unknown is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What a door is made with.
#[derive(Clone, Debug)]
pub struct DoorParameters {
    /// The node whose process serves the door.
    pub own: NodeId,
    /// Every node's address and the port of its door, node 0 first.
    pub doors: Vec<(Ipv4Addr, u16)>,
    /// Bytes of the store's keys: a key of a client has at most one less.
    pub key_bytes: usize,
    /// The most bytes of the store's values: a value of a client has at most 9 less.
    pub value_bytes_max: usize,
    /// The password; none is asked for if there is none.
    pub password: Option<String>,
    /// Whether the store's data is on disk.
    pub durable: bool,
    /// How much the wall clocks of two doors may differ.
    pub clock_skew: Duration,
    /// When a request is given up.
    pub give_up: Duration,
    /// The first of the door's clients of the store; no other client has it or one of those that follow.
    pub first_client: u64,
    /// How many clients of the store the door has: each has 16 requests under way.
    pub sessions: u32,
}

/// The time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// By the one that only runs forward.
    pub instant: Instant,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

/// A connection's number, as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

/// The door of one node.
pub struct Door {
    parameters: DoorParameters,
    store: Store,
    rounds: Rounds,
    expiries: Expiries,
    connections: Slab<Connection>,
    works: Slab<Work>,
    scans: Slab<Scan>,
    scripts: HashMap<String, Script>,
    /// Connections that may have something to write, or to be read from again.
    ready: VecDeque<u32>,
    /// Connections ever.
    opened: u64,
    /// Commands ever.
    commands: u64,
    began: Option<Instant>,
}

impl Door {
    /// A door without connections.
    pub fn new(parameters: DoorParameters) -> Self {
        let client = ClientParameters {
            key_bytes: parameters.key_bytes,
            timeout: Duration::from_ms(50),
            give_up: parameters.give_up,
            ..ClientParameters::new(0, NodeSet::first(parameters.doors.len()))
        };
        Self {
            store: Store::new(parameters.first_client, parameters.sessions, &client),
            rounds: Rounds::default(),
            expiries: Expiries::default(),
            connections: Slab::default(),
            works: Slab::default(),
            scans: Slab::default(),
            scripts: HashMap::new(),
            ready: VecDeque::new(),
            opened: 0,
            commands: 0,
            began: None,
            parameters,
        }
    }

    /// A client has connected.
    pub fn open(&mut self, now: Now) -> ConnectionId {
        self.began.get_or_insert(now.instant);
        self.opened += 1;
        let is_known = self.parameters.password.is_none();
        ConnectionId(self.connections.add(Connection::new(self.opened, is_known)))
    }

    /// A client has gone. What it has asked for may still be done.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id.0) {
            connection.parked.into_iter().for_each(|number| drop(self.works.remove(number)));
        }
    }

    /// Takes bytes of a client.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id.0) {
            connection.parser.feed(bytes);
            self.note_ready(id.0);
        }
    }

    /// Whether more bytes of a client are wanted now.
    pub fn takes_input(&self, id: ConnectionId) -> bool {
        self.connections.get(id.0).is_some_and(|connection| {
            !connection.is_closing
                && connection.parser.unread() < INPUT_BYTES_MAX
                && connection.output.len() < OUTPUT_BYTES_MAX
        })
    }

    /// What is to be written to a client; what is written is to be removed.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        self.connections.get_mut(id.0).map(|connection| &mut connection.output)
    }

    /// Bytes of a client's answers were written: it may go on.
    pub fn written(&mut self, id: ConnectionId) {
        if self.connections.get(id.0).is_some_and(|connection| connection.parser.unread() > 0) {
            self.note_ready(id.0);
        }
    }

    /// Whether the connection is to be closed when its answers are written.
    pub fn is_closing(&self, id: ConnectionId) -> bool {
        self.connections.get(id.0).is_none_or(|connection| connection.is_closing && connection.is_answered())
    }

    /// Lets the next connection that can go on do so: it may have something to write then, or want to be read from.
    pub fn poll_ready(&mut self, now: Now) -> Option<ConnectionId> {
        loop {
            let number = self.ready.pop_front()?;
            if let Some(connection) = self.connections.get_mut(number) {
                connection.is_ready = false;
                self.go_on(now, number);
                return Some(ConnectionId(number));
            }
        }
    }

    /// Takes a message of a node.
    pub fn message(&mut self, now: Now, kind: u8, payload: &[u8]) {
        if let Some((token, outcome)) = self.store.receive(now.instant, kind, payload) {
            self.ended(now, token, outcome);
        }
    }

    /// The next message to a node: its content is appended to `payload`.
    pub fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(NodeId, u8)> {
        self.store.poll_transmit(payload)
    }

    /// How many requests to the store have not ended.
    pub fn outstanding(&self) -> usize {
        self.store.outstanding()
    }

    /// When [`Door::handle_deadline`] wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.store.next_deadline(), self.expiries.next_deadline()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Now) {
        while let Some(token) = self.store.handle_deadline(now.instant) {
            self.ended(now, token, Outcome::Unknown);
        }
        while let Some((number, expiry)) = self.expiries.poll(now.instant) {
            let ask = Ask::CompareAndDelete(expiry.key, expiry.version);
            self.store.ask(now.instant, ask, Token::Expiry(number));
        }
    }

    fn surroundings(&self, now: Now) -> Surroundings {
        Surroundings {
            now: now.instant,
            now_ms: now.unix_ms,
            value_bytes_max: self.parameters.value_bytes_max,
            skew_ms: self.parameters.clock_skew.as_ns() / 1_000_000,
            give_up: self.parameters.give_up,
        }
    }

    /// A request to the store has ended.
    fn ended(&mut self, now: Now, token: Token, outcome: Outcome<'_>) {
        match token {
            Token::Work(number) => self.work_ended(now, number, outcome),
            Token::Scan(number) => self.scan_ended(now, number, outcome),
            Token::Expiry(number) => {
                let is_known = matches!(outcome, Outcome::Done { .. } | Outcome::Mismatch { .. });
                self.expiries.ended(number, (!is_known).then_some(now.instant + TRY_AGAIN));
            }
            Token::Round(place) => {
                let around = self.surroundings(now);
                self.rounds.ended(&around, &mut self.store, place, outcome);
                self.spread_news(now);
            }
        }
    }

    fn spread_news(&mut self, now: Now) {
        while let Some(news) = self.rounds.news.pop_front() {
            match news {
                News::Answer(number, reply) => self.finish(now, number, reply),
                News::Watched(number, version) => self.watched(number, version),
                News::Expires { key, version, at_ms } => self.expires(now, &key, version, at_ms),
            }
        }
    }

    /// A key was written with a time to live.
    fn expires(&mut self, now: Now, key: &[u8], version: u64, at_ms: u64) {
        // What is further away than the clock counts goes when it is met.
        let after_ms = at_ms.saturating_sub(now.unix_ms);
        if after_ms < 1 << 40 {
            self.expiries.add(now.instant + Duration::from_ms(after_ms), key, version);
        }
    }
}

/// The key of the store for a key of a client.
fn store_key(key: &[u8], key_bytes: usize) -> Result<Box<[u8]>, Reply> {
    let mut field = Vec::with_capacity(key_bytes);
    if weft_kv::key::write(key, key_bytes, &mut field) {
        return Ok(field.into());
    }
    let most = weft_kv::key::longest(key_bytes);
    Err(Reply::error(format!("ERR the key has {} bytes; this cluster takes at most {most}", key.len())))
}
