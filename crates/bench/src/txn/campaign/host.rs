//! The host half of a node in a campaign: the shipped host half of the transactions, with clients on the same
//! host.

use std::collections::BTreeMap;

use weft_applications::{Call, Client};
use weft_cluster::Incarnation;
use weft_harness::SimulatedHalf;
use weft_nic::HostCommand;
use weft_node::{CardPort, HostHalf, HostIo, TransactionHalf};
use weft_sim::{CpuTime, HostMeter, LocalClock, Stream};
use weft_time::{Duration, Instant};
use weft_txn::host::{Finished, Half, HostWork};
use weft_txn::host_port::{HostKind, HostMessage};
use weft_txn::{Outcome, TransactionId};
use weft_waist::{Configuration, EngineState, EngineStatus, NodeId};

use super::super::host::charge;
use super::books::Shared;
use super::steps::SharedTrigger;

/// One client, with one outstanding transaction at a time.
struct ClosedLoopClient {
    client: Box<dyn Client>,
    call: Call,
    /// The ticket of the call, while it is outstanding.
    ticket: Option<u64>,
}

/// A port to the card that records the start of attempts.
struct Notes<'a> {
    card: &'a mut dyn CardPort,
    began: &'a mut BTreeMap<u32, Instant>,
    now: Instant,
}

impl CardPort for Notes<'_> {
    fn submit(&mut self, command: HostCommand<'_>) {
        if let HostCommand::Call { token, kind, .. } = command
            && [HostKind::Begin as u8, HostKind::Local as u8].contains(&kind)
        {
            self.began.insert(token, self.now);
        }
        self.card.submit(command);
    }

    fn host_memory(&mut self) -> &mut Vec<u8> {
        self.card.host_memory()
    }
}

/// The host half of the transactions with clients on the same host, which record their answers.
pub struct ClientHalf {
    node: usize,
    transactions: TransactionHalf,
    status: EngineStatus,
    lanes: Vec<ClosedLoopClient>,
    /// The client of each outstanding call, by ticket.
    tickets: BTreeMap<u64, usize>,
    /// Clients that pause, with the end of the pause.
    waiting: BTreeMap<(Instant, usize), ()>,
    /// Start of the latest attempt of each token.
    began: BTreeMap<u32, Instant>,
    /// Maximum pause of clients between two calls.
    pause: Duration,
    random: Stream,
    clock: LocalClock,
    books: Shared,
    watch: SharedTrigger,
    meter: HostMeter,
    /// Work of the half that was charged last.
    work: HostWork,
    cpu_time: CpuTime,
}

impl ClientHalf {
    pub(super) fn new(
        node: NodeId,
        transactions: TransactionHalf,
        clients: impl Iterator<Item = Box<dyn Client>>,
        (pause, random): (Duration, Stream),
        clock: LocalClock,
        meter: HostMeter,
        (books, watch): (Shared, SharedTrigger),
    ) -> Self {
        let lane =
            |mut client: Box<dyn Client>| ClosedLoopClient { call: client.next(None), client, ticket: None };
        let lanes: Vec<ClosedLoopClient> = clients.map(lane).collect();
        books.borrow_mut().nodes[node.index()].lives += 1;
        Self {
            node: node.index(),
            transactions,
            status: EngineStatus::STARTING,
            waiting: (0..lanes.len()).map(|lane| ((Instant::ZERO, lane), ())).collect(),
            lanes,
            tickets: BTreeMap::new(),
            began: BTreeMap::new(),
            pause,
            random,
            clock,
            books,
            watch,
            meter,
            work: HostWork::default(),
            cpu_time: CpuTime::default(),
        }
    }

    /// The shipped half, which has the executions and the tables.
    pub(super) const fn half(&self) -> &Half {
        self.transactions.half()
    }

    /// Notes that the node has crashed, so the outcomes of outstanding calls stay unknown.
    pub(super) fn die(&mut self) {
        let mut books = self.books.borrow_mut();
        for lane in std::mem::take(&mut self.tickets).into_values() {
            books.unanswered(self.node, &self.lanes[lane].call.request);
        }
    }

    /// Whether the engine accepts calls.
    fn may_call(&self) -> bool {
        self.status.state != EngineState::Starting && !self.books.borrow().stopped
    }

    /// Makes a client pause before its next call.
    fn wait(&mut self, now: Instant, lane: usize) {
        let pause = Duration::from_ps(1 + self.random.below(self.pause.as_ps()));
        self.waiting.insert((now + pause, lane), ());
    }

    fn call(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let ticket = self.transactions.half_mut().call(lane.call.request.clone());
        let ticket = ticket.expect("there is a place for each client");
        lane.ticket = Some(ticket);
        self.tickets.insert(ticket, index);
    }

    fn finish(&mut self, now: Instant, finished: &Finished) {
        let index = self.tickets.remove(&finished.ticket).expect("a lane has called this");
        let lane = &mut self.lanes[index];
        lane.ticket = None;
        self.books.borrow_mut().finished(self.node, &lane.call.request, finished);
        lane.call = lane.client.next(Some(&finished.outcome));
        self.wait(now, index);
    }

    /// Records the end of an attempt before the host half handles it.
    fn note(&mut self, now: Instant, token: u32, kind: u8, payload: &[u8]) {
        let Ok(HostMessage::Outcome { id, status, .. }) = HostMessage::parse(kind, payload) else { return };
        let node = NodeId::new(id.coordinator()).expect("an identifier names a node");
        if id != TransactionId::none(node) {
            let began = self.began[&token];
            self.books.borrow_mut().told(id, status, began, self.clock.world(now));
        }
    }
}

impl HostHalf for ClientHalf {
    fn begin(&mut self, io: &mut HostIo<'_>) {
        self.transactions.begin(io);
    }

    fn configure(&mut self, now: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        self.transactions.configure(now, configuration, io);
    }

    fn status(&mut self, _: Instant, status: EngineStatus, _: &mut HostIo<'_>) {
        self.status = status;
    }

    fn replied(&mut self, now: Instant, token: u32, (kind, payload): (u8, &[u8]), io: &mut HostIo<'_>) {
        self.watch.borrow_mut().note(self.node, kind);
        self.note(now, token, kind, payload);
        self.transactions.replied(now, token, (kind, payload), io);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.first_key_value().map(|((at, _), ())| *at);
        let waiting = waiting.filter(|_| self.may_call());
        [self.transactions.next_deadline(), waiting].into_iter().flatten().min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.transactions.handle_deadline(now);
        while self.may_call()
            && let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= now
        {
            let ((_, lane), ()) = entry.remove_entry();
            self.call(lane);
        }
    }

    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        let slot = io.slot();
        let mut notes = Notes { card: io.card(), began: &mut self.began, now: self.clock.world(now) };
        self.transactions.settle(now, &mut HostIo::new(slot, &mut notes));
        while let Some(finished) = self.transactions.poll_finished() {
            self.finish(now, &finished);
        }
        self.transactions.half_mut().take_work(&mut self.work);
        charge(&mut self.cpu_time, &self.work, &self.meter, true);
    }

    /// Restarts the host together with its engine, with empty memory.
    fn rejoin(&mut self, now: Instant, incarnation: Incarnation, io: &mut HostIo<'_>) {
        self.die();
        self.books.borrow_mut().nodes[self.node].lives += 1;
        self.transactions.rejoin(now, incarnation, io);
        self.status = EngineStatus::STARTING;
        self.began.clear();
        self.waiting.clear();
        for lane in 0..self.lanes.len() {
            let ClosedLoopClient { client, call, ticket } = &mut self.lanes[lane];
            if ticket.take().is_some() {
                *call = client.next(Some(&Outcome::Unanswered));
            }
            self.wait(now, lane);
        }
    }
}

impl SimulatedHalf for ClientHalf {
    fn has_failed(&self) -> bool {
        self.transactions.failure().is_some()
    }

    fn take_cpu_time(&mut self) -> CpuTime {
        std::mem::take(&mut self.cpu_time)
    }
}
