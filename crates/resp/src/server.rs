//! The server for clients of Redis, between their connections and the store. It is pure: it never waits for a
//! clock or a socket.
//!
//! Every command consists of one or more *work items*, each on one key. Work items of different keys run in
//! parallel. A work item waits for earlier ones of the same connection on the same key, so a connection sees its
//! own writes. Answers are sent in the order of the commands.

mod connection;
mod work_items;

use std::collections::{HashMap, VecDeque};

use weft_kv::{ClientParameters, Outcome, Task};
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};

use crate::expiries::Expiries;
use crate::reply::Reply;
use crate::rounds::{RoundContext, RoundEvent, Rounds, failure};
use crate::scripts::Script;
use crate::slab::Slab;
use crate::store::{Store, Token};
use connection::Connection;
use work_items::{Scan, WorkItem};

/// Bytes of unread answers of a client; beyond this, its further requests wait.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Bytes of waiting requests that are buffered.
const INPUT_BYTES_MAX: usize = 2 << 20;
/// The most unanswered work items of a connection.
const WORK_ITEMS_MAX: usize = 4_096;
/// The most scripts that clients have loaded with `SCRIPT LOAD`.
const SCRIPTS_MAX: usize = 1_024;
/// Time after which the removal of an expired key is repeated if its outcome is unknown.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Parameters of a server.
#[derive(Clone, Debug)]
pub struct RespServerParameters {
    /// The node whose process runs the server.
    pub own: NodeId,
    /// Host, as clients are told it, and port of every node's server, node 0 first.
    pub servers: Vec<(String, u16)>,
    /// Length of the store's keys in bytes. A client's key may have one byte less.
    pub key_bytes: usize,
    /// The longest value of the store, in bytes. A client's value may have 9 bytes less.
    pub value_bytes_max: usize,
    /// The password; `None` if none is required.
    pub password: Option<String>,
    /// How many nodes have a write on disk when the store answers it; 0 if its data is not on disk.
    pub durable_copies: u32,
    /// By how much the wall clocks of two servers may differ.
    pub clock_skew: Duration,
    /// Time-out of a request to the store.
    pub give_up: Duration,
    /// Number of the first of the server's clients of the store. No other client has it, or one of the following
    /// numbers.
    pub first_client: u64,
    /// Number of the server's clients of the store: each can have 16 requests outstanding.
    pub sessions: u32,
}

/// The time by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The time of the monotonic clock.
    pub instant: Instant,
    /// The time of the wall clock, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// Number of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

/// The server for clients of Redis at one node.
pub struct RespServer {
    parameters: RespServerParameters,
    store: Store,
    rounds: Rounds,
    expiries: Expiries,
    connections: Slab<Connection>,
    work_items: Slab<WorkItem>,
    scans: Slab<Scan>,
    scripts: HashMap<String, Script>,
    /// Connections that may have output to write, or can accept input again.
    ready: VecDeque<u32>,
    /// Number of connections since the start.
    opened: u64,
    /// Number of commands since the start.
    commands: u64,
    began: Option<Instant>,
    /// Buffer in which a value to write is encoded.
    encoded: Vec<u8>,
}

impl RespServer {
    /// A server without connections.
    pub fn new(parameters: RespServerParameters) -> Self {
        let client = ClientParameters {
            key_bytes: parameters.key_bytes,
            timeout: Duration::from_ms(50),
            give_up: parameters.give_up,
            ..ClientParameters::new(0, NodeSet::first(parameters.servers.len()))
        };
        Self {
            store: Store::new(parameters.first_client, parameters.sessions, &client),
            rounds: Rounds::default(),
            expiries: Expiries::default(),
            connections: Slab::default(),
            work_items: Slab::default(),
            scans: Slab::default(),
            scripts: HashMap::new(),
            ready: VecDeque::new(),
            opened: 0,
            commands: 0,
            began: None,
            encoded: Vec::new(),
            parameters,
        }
    }

    /// Adds a client's connection and returns its number.
    pub fn open(&mut self, now: Now) -> ConnectionId {
        self.began.get_or_insert(now.instant);
        self.opened += 1;
        let is_known = self.parameters.password.is_none();
        ConnectionId(self.connections.add(Connection::new(self.opened, is_known)))
    }

    /// Removes a connection. Its outstanding commands may still take effect.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id.0) {
            connection.waiting.into_iter().for_each(|number| drop(self.work_items.remove(number)));
        }
    }

    /// Passes in bytes from a client.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(id.0) {
            connection.parser.feed(bytes);
            self.note_ready(id.0);
        }
    }

    /// Whether the server can accept more bytes from a client now.
    pub fn takes_input(&self, id: ConnectionId) -> bool {
        self.connections.get(id.0).is_some_and(|connection| {
            !connection.is_closing
                && connection.parser.unread() < INPUT_BYTES_MAX
                && connection.output.len() < OUTPUT_BYTES_MAX
        })
    }

    /// The bytes to write to a client. The caller removes those that it has written.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        self.connections.get_mut(id.0).map(|connection| &mut connection.output)
    }

    /// Notes that bytes were written to a client, so that its waiting requests may go on.
    pub fn written(&mut self, id: ConnectionId) {
        if self.connections.get(id.0).is_some_and(|connection| connection.parser.unread() > 0) {
            self.note_ready(id.0);
        }
    }

    /// Whether the connection must be closed once its answers are written.
    pub fn is_closing(&self, id: ConnectionId) -> bool {
        self.connections.get(id.0).is_none_or(|connection| connection.is_closing && connection.is_answered())
    }

    /// Whether a connection can go on.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Processes the next connection that can go on. Returns its number: it may have output to write, or accept
    /// input again.
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

    /// Processes a message of a node.
    pub fn message(&mut self, now: Now, kind: u8, payload: &[u8]) {
        if let Some((token, outcome)) = self.store.receive(now.instant, kind, payload) {
            self.ended(now, token, outcome);
        }
    }

    /// The next message to a node: appends its content to `payload`, and returns (node, kind).
    pub fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(NodeId, u8)> {
        self.store.poll_transmit(payload)
    }

    /// Number of outstanding requests to the store.
    pub fn outstanding(&self) -> usize {
        self.store.outstanding()
    }

    /// When [`RespServer::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.store.next_deadline(), self.expiries.next_deadline()].into_iter().flatten().min()
    }

    /// Handles expired deadlines.
    pub fn handle_deadline(&mut self, now: Now) {
        while let Some(token) = self.store.handle_deadline(now.instant) {
            self.ended(now, token, Outcome::Unknown);
        }
        while let Some((number, expiry)) = self.expiries.poll(now.instant) {
            let task = Task::CompareAndDelete { key: &expiry.key, expected: expiry.version };
            self.store.ask(now.instant, task, Token::Expiry(number));
        }
    }

    fn round_context(&self, now: Now) -> RoundContext {
        RoundContext {
            now: now.instant,
            now_ms: now.unix_ms,
            value_bytes_max: self.parameters.value_bytes_max,
            skew_ms: self.parameters.clock_skew.as_ns() / 1_000_000,
            give_up: self.parameters.give_up,
        }
    }

    /// Handles the end of a request to the store.
    fn ended(&mut self, now: Now, token: Token, outcome: Outcome<'_>) {
        match token {
            Token::Work(number) => self.work_ended(now, number, outcome),
            Token::Scan(number) => self.scan_ended(now, number, outcome),
            Token::Expiry(number) => {
                let is_known = matches!(outcome, Outcome::Done { .. } | Outcome::Mismatch { .. });
                self.expiries.ended(number, (!is_known).then_some(now.instant + TRY_AGAIN));
            }
            Token::Round(place) => {
                let context = self.round_context(now);
                self.rounds.ended(&context, &mut self.store, place, outcome);
                self.spread_news(now);
            }
        }
    }

    fn spread_news(&mut self, now: Now) {
        while let Some(news) = self.rounds.news.pop_front() {
            match news {
                RoundEvent::Answer(number, reply) => self.finish(now, number, reply),
                RoundEvent::Watched(number, version) => self.watched(number, version),
                RoundEvent::Expires { key, version, at_ms } => self.expires(now, &key, version, at_ms),
            }
        }
    }

    /// Notes that a key was written with a time to live.
    fn expires(&mut self, now: Now, key: &[u8], version: u64, at_ms: u64) {
        // A key whose expiry is too far away for the clock is removed when a later access finds it expired.
        let after_ms = at_ms.saturating_sub(now.unix_ms);
        if after_ms < 1 << 40 {
            self.expiries.add(now.instant + Duration::from_ms(after_ms), key, version);
        }
    }
}

/// The store's key for a client's key.
fn store_key(key: &[u8], key_bytes: usize) -> Result<Box<[u8]>, Reply> {
    let mut field = Vec::with_capacity(key_bytes);
    if weft_kv::key::write(key, key_bytes, &mut field) {
        return Ok(field.into());
    }
    let most = weft_kv::key::longest(key_bytes);
    Err(Reply::error(format!("ERR the key has {} bytes; this cluster takes at most {most}", key.len())))
}
