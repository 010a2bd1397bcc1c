//! The host half of transactions at a node: executions and tables, and the sessions of clients.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddrV4;

use weft_cluster::Incarnation;
use weft_store::DiskError;
use weft_time::Instant;
use weft_txn::Parameters;
use weft_txn::client::Sessions;
use weft_txn::host::{Finished, Half, HalfTables};
use weft_txn::host_port::HostMessage;
use weft_waist::{Configuration, Epoch, NodeId};

use crate::half::{HostHalf, HostIo};
use crate::log::{EngineLog, FoundAgain};
use crate::processes::SESSIONS;
use crate::transactions::log::Journal;

/// The host half of the engine that runs transactions.
pub struct TransactionHalf {
    /// Makes a half without objects.
    empty: Box<dyn Fn() -> Half>,
    half: Half,
    /// Whether the half and its engine hold the initial objects of a founder.
    is_loaded: bool,
    sessions: Sessions<SocketAddrV4>,
    /// The log on disk, if the node has one.
    journal: Option<Box<Journal>>,
    /// Completed calls of the host itself.
    finished: VecDeque<Finished>,
    payload: Vec<u8>,
}

impl fmt::Debug for TransactionHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionHalf")
            .field("half", &self.half)
            .field("is_loaded", &self.is_loaded)
            .finish_non_exhaustive()
    }
}

impl TransactionHalf {
    /// A half whose sessions with clients have numbers from `first_session` on. `loaded` is a half with the initial
    /// objects of a founder; then the host's memory and the engine must have them, too. Without it, all of them are
    /// empty. `empty` makes a half without objects.
    pub fn new(first_session: u64, loaded: Option<Half>, empty: Box<dyn Fn() -> Half>) -> Self {
        Self {
            is_loaded: loaded.is_some(),
            half: loaded.unwrap_or_else(&empty),
            empty,
            sessions: Sessions::new(first_session, SESSIONS),
            journal: None,
            finished: VecDeque::new(),
            payload: Vec::new(),
        }
    }

    /// The same half with a log on disk. If that has data, the half must be loaded with a founder's objects.
    #[must_use]
    pub fn with_log(self, log: EngineLog, node: NodeId, engine: &Parameters, tables: HalfTables) -> Self {
        Self { journal: Some(Box::new(Journal::new(log, node, engine, tables))), ..self }
    }

    /// The error of the disk that makes the node stop, if there was one.
    pub fn failure(&self) -> Option<&DiskError> {
        self.journal.as_ref().and_then(|journal| journal.failure())
    }

    /// What was found on the disk, once the node serves with it, or why it cannot be used.
    pub fn found_again(&self) -> Option<FoundAgain> {
        self.journal.as_ref().and_then(|journal| journal.found_again())
    }

    /// The executions and tables.
    pub const fn half(&self) -> &Half {
        &self.half
    }

    /// As [`TransactionHalf::half`], for calls of the host itself; [`TransactionHalf::poll_finished`] returns
    /// their outcomes.
    pub const fn half_mut(&mut self) -> &mut Half {
        &mut self.half
    }

    /// The next completed call of the host itself.
    pub fn poll_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    fn clear(&mut self, io: &mut HostIo<'_>) {
        io.clear_host_memory();
        self.half = (self.empty)();
        self.finished.clear();
        self.is_loaded = false;
    }
}

impl HostHalf for TransactionHalf {
    fn begin(&mut self, io: &mut HostIo<'_>) {
        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.has_data()) {
            journal.replay(&mut self.half, io.host_memory());
            self.is_loaded = false;
        }
    }

    fn configure(&mut self, _: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        let Configuration { node, view, .. } = *configuration;
        if self.is_loaded && !(view.epoch == Epoch(1) && view.full.contains(node)) {
            // The cluster was founded earlier, so this node copies its objects from the others.
            io.reset();
            self.clear(io);
        }
        self.is_loaded = false;
    }

    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        _: &mut HostIo<'_>,
    ) {
        // Malformed requests are ignored.
        let _ = self.sessions.receive(now, from, message, serves, &mut self.half);
    }

    fn replied(&mut self, now: Instant, token: u32, (kind, payload): (u8, &[u8]), io: &mut HostIo<'_>) {
        let message = HostMessage::parse(kind, payload).expect("the engine speaks as its host half does");
        if let Some(journal) = &mut self.journal {
            journal.note(&message, io.host_memory());
        }
        self.half
            .handle(now, token, message, io.host_memory())
            .expect("the engine speaks as its host half does");
    }

    fn sessions(&self) -> Option<(usize, usize)> {
        Some(self.sessions.count())
    }

    fn next_deadline(&self) -> Option<Instant> {
        // A snapshot goes on at once, as soon as the host has done what else is due.
        let reading = self.journal.as_ref().filter(|journal| journal.is_reading());
        reading.map(|_| Instant::ZERO).or_else(|| self.half.next_deadline())
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.half.wake(now);
    }

    fn settle(&mut self, _: Instant, io: &mut HostIo<'_>) {
        while let Some(finished) = self.half.poll_finished() {
            self.finished.extend(self.sessions.finish(finished));
        }
        while let Some(message) = self.half.poll_card(io.host_memory()) {
            io.call(message.token, message.kind, &message.payload);
            self.half.give_back(message);
        }
        if let Some(journal) = &mut self.journal {
            journal.drive(&self.half, io);
        }
        io.respond_all(&mut self.payload, |payload| self.sessions.poll_transmit(payload));
    }

    fn rejoin(&mut self, _: Instant, incarnation: Incarnation, io: &mut HostIo<'_>) {
        self.clear(io);
        if let Some(journal) = &mut self.journal {
            journal.start_over(incarnation);
        }
        // Clients that wait for an answer repeat their calls and get the answer that their session is unknown.
        self.sessions = Sessions::new(self.sessions.next_session().max(incarnation.get()), SESSIONS);
    }
}
