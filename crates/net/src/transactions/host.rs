//! The program beside the engine that runs transactions: the host half, its tables, and the sessions of clients.

use std::io::Write;
use std::net::SocketAddrV4;

use weft_cluster::{Incarnation, NodeConfig, TransactionsConfig};
use weft_kv::Role;
use weft_nic::{Egress, HostCommand};
use weft_rdma::Target;
use weft_time::{Duration, Instant};
use weft_txn::client::Sessions;
use weft_txn::host::{Half, HalfParameters, HalfTables, Local};
use weft_txn::{Procedures, Transactions};
use weft_waist::{Configuration, EngineState, Epoch, Memory};
use weft_wire::datagram::Datagram as WeftDatagram;

use super::record::RecordFile;
use super::{Application, TRANSACTIONS_SLOT, TransactionCard, tables};
use crate::node::{datagram_bytes, run_opened};
use crate::program::Program;
use crate::{Datagram, Node, NodeError, Stop};

/// Clients that a node remembers.
const SESSIONS: usize = 4_096;

/// How the host half behaves: attempts take some hundred microseconds here, so there is no use in trying again much sooner.
const fn half(record: bool) -> HalfParameters {
    HalfParameters {
        calls: 1024,
        attempts: 1000,
        back_off: Duration::from_us(100),
        local: Local::Unshipped,
        record,
    }
}

/// The kinds of messages that clients send begin here.
const CLIENT_KINDS: u8 = 96;

/// The program of a node that runs transactions.
#[derive(Debug)]
pub struct Transactional {
    procedures: Procedures,
    tables: HalfTables,
    half: Half,
    sessions: Sessions<SocketAddrV4>,
    /// Whether the node takes part; its lease lasts until then.
    acts: bool,
    lease_until: Instant,
    /// It was told of a view.
    is_configured: bool,
    egress: Egress,
    payload: Vec<u8>,
    record: Option<RecordFile>,
}

impl Transactional {
    /// The program in the first life of a node, with all objects that a founder has.
    fn new(
        config: &NodeConfig,
        application: &dyn Application,
        tables: HalfTables,
        replicas: usize,
        incarnation: Incarnation,
        record: Option<RecordFile>,
        card: &mut TransactionCard,
    ) -> Self {
        let procedures = application.procedures();
        let mut half = Half::new(procedures.clone(), half(record.is_some()), Some(tables));
        let mut memory = vec![0; tables.table_address as usize + tables.table_bytes()];
        let (own, nodes) = (config.node.index(), config.peers.len());
        for step in 0..replicas {
            let shard = (own + nodes - step) % nodes;
            application.load(shard, &mut |key, value| half.load(&mut memory, key, value));
        }
        half.reports(&memory).for_each(|report| card.engine_mut(TRANSACTIONS_SLOT).learn(&report));
        half.room().into_iter().for_each(|room| card.engine_mut(TRANSACTIONS_SLOT).learn_room(room));
        *card.region_memory().bytes_mut(Target::Host) = memory;
        Self {
            procedures,
            tables,
            half,
            sessions: Sessions::new(incarnation.get(), SESSIONS),
            acts: false,
            lease_until: Instant::ZERO,
            is_configured: false,
            egress: Egress::new(datagram_bytes(config)),
            payload: Vec::new(),
            record,
        }
    }

    /// Forgets all objects, here and in the engine.
    fn empty(&mut self, now: Instant, card: &mut TransactionCard) {
        card.submit(now, HostCommand::Reset);
        card.region_memory().bytes_mut(Target::Host).fill(0);
        self.half = Half::new(self.procedures.clone(), half(self.record.is_some()), Some(self.tables));
    }

    fn keep_records(&mut self, card: &mut TransactionCard) {
        if let Some(record) = &mut self.record {
            let attempts = card.engine_mut(TRANSACTIONS_SLOT).take_records();
            attempts.iter().for_each(|attempt| record.attempt(attempt));
        }
    }

    fn flush(&mut self) -> Result<(), NodeError> {
        let Some(record) = &mut self.record else { return Ok(()) };
        record.flush().map_err(|source| NodeError::Record { path: record.path().to_owned(), source })
    }
}

impl Program for Transactional {
    type Engine = Transactions;

    fn role(&self, engine: &Transactions) -> Role {
        match weft_waist::Engine::status(engine).state {
            EngineState::Starting => Role::Outside,
            EngineState::Joining { .. } => Role::Joining,
            EngineState::Full if engine.acts() => Role::Full,
            EngineState::Full => Role::Sealed,
            EngineState::Lost => Role::Lost,
        }
    }

    fn receive(&mut self, now: Instant, datagram: Datagram<'_>) -> bool {
        let Ok(parsed) = WeftDatagram::parse(datagram.bytes) else { return false };
        let serves = self.acts && now < self.lease_until;
        for message in parsed.messages() {
            if message.engine == TRANSACTIONS_SLOT && message.kind >= CLIENT_KINDS {
                // What is malformed is not answered.
                let (from, message) = (datagram.from, (message.kind, message.payload));
                let _ = self.sessions.receive(now, from, message, serves, &mut self.half);
            }
        }
        true
    }

    fn replied(
        &mut self,
        now: Instant,
        token: u32,
        (kind, payload): (u8, &[u8]),
        card: &mut TransactionCard,
    ) {
        let memory = card.region_memory().bytes_mut(Target::Host);
        self.half
            .receive(now, token, kind, payload, memory)
            .expect("the engine speaks as its host half does");
        while let Some(finished) = self.half.poll_finished() {
            self.sessions.finish(finished);
        }
    }

    fn configure(&mut self, now: Instant, configuration: &Configuration, card: &mut TransactionCard) {
        let Configuration { node, view, lease_until } = *configuration;
        self.lease_until = lease_until;
        let founds = view.epoch == Epoch(1) && view.full.contains(node);
        if !std::mem::replace(&mut self.is_configured, true) && !founds {
            // Others have what this node will copy.
            self.empty(now, card);
        }
    }

    fn settle(&mut self, now: Instant, card: &mut TransactionCard) -> bool {
        let mut told = false;
        while let Some(message) = self.half.poll_card(card.region_memory().bytes_mut(Target::Host)) {
            told = true;
            let (token, kind) = (message.token, message.kind);
            let payload = &message.payload;
            card.submit(now, HostCommand::Call { engine: TRANSACTIONS_SLOT, token, kind, payload });
            self.half.give_back(message);
        }
        self.acts = card.engine(TRANSACTIONS_SLOT).0.acts();
        told
    }

    fn record(&mut self, card: &mut TransactionCard) -> Result<(), NodeError> {
        self.keep_records(card);
        self.flush()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.half.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.half.wake(now);
    }

    fn poll_datagram(&mut self, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        loop {
            self.payload.clear();
            let Some((to, kind)) = self.sessions.poll_transmit(&mut self.payload) else { break };
            let fits = self.egress.push(to, TRANSACTIONS_SLOT, kind, &self.payload);
            assert!(fits, "the longest answer fits into a datagram");
        }
        self.egress.poll(out)
    }

    fn start_over(&mut self, now: Instant, incarnation: Incarnation, card: &mut TransactionCard) {
        self.keep_records(card);
        self.empty(now, card);
        // Who waits for an answer asks again, and learns that nobody knows it.
        self.sessions = Sessions::new(incarnation.get(), SESSIONS);
        (self.acts, self.lease_until) = (false, Instant::ZERO);
    }

    fn end(&mut self, card: &mut TransactionCard) -> Result<(), NodeError> {
        self.keep_records(card);
        if let Some(record) = &mut self.record {
            let memory = card.region_memory().bytes_mut(Target::Host);
            self.half.for_each(memory, |key, version, value| record.object(key, version, value));
        }
        self.flush()
    }
}

/// Runs a node of `application` in this thread, as [`crate::run_node`] does a key-value node.
///
/// # Errors
/// What keeps it from running: each is one line that says what to do.
///
/// # Panics
/// If the configuration has no `[transactions]`, or the application breaks its word about its objects.
pub fn run_transactions(
    config: &NodeConfig,
    application: &dyn Application,
    stop: &Stop,
    out: &mut (dyn Write + Send),
) -> Result<(), NodeError> {
    let TransactionsConfig { replicas, record, .. } =
        config.engines.transactions.as_ref().expect("the node runs transactions");
    let parameters = tables::parameters(config, *replicas, record.is_some());
    let (placement, tables) = tables::tables(application, &parameters);
    let open_record = |path: &std::path::PathBuf| {
        RecordFile::open(path).map_err(|source| NodeError::Record { path: path.clone(), source })
    };
    let record = record.as_ref().map(open_record).transpose()?;
    run_opened(config, stop, out, |clock, stop, out| {
        let engine = Transactions::new(parameters, application.procedures(), placement);
        let memory = Memory::new(Transactions::memory_bytes(&parameters, &placement));
        let program = |incarnation, card: &mut TransactionCard| {
            Transactional::new(config, application, tables, *replicas, incarnation, record, card)
        };
        Node::open_with(config, (engine, memory), program, clock, stop, out)
    })
}
