//! The program of a node's host: it holds the lease, runs the host half of the transactions, and is the clients.

use std::collections::BTreeMap;
use std::rc::Rc;

use weft_cluster::{AgentParameters, Incarnation};
use weft_nic::{HostCommand, HostEvent};
use weft_sim::{Commands, Host, Labour, LocalClock, Stream};
use weft_time::{Duration, Instant};
use weft_txn::host::{Finished, Half};
use weft_txn::host_port::{HostKind, HostMessage};
use weft_txn::{Outcome, TransactionId};
use weft_waist::{EngineState, NodeId};

use super::super::host::charge;
use super::super::workloads::{Call, Client};
use super::books::Shared;
use super::steps::SharedWatch;
use crate::kv::simulated::machines::LeaseHost;

/// The engine's slot in every card.
pub(super) const SLOT: u8 = 0;

/// How often a host without a lease reports.
const IDLE_INTERVAL: Duration = Duration::from_us(200);

/// Makes a host half that has nothing.
pub(super) type Fresh = Rc<dyn Fn() -> Half>;

/// One client: it has one transaction under way at a time.
struct Lane {
    client: Box<dyn Client>,
    call: Call,
    /// The ticket of the call, while it is under way.
    ticket: Option<u64>,
}

/// The program of one node's host.
pub(super) struct TxnHost {
    node: usize,
    lease: LeaseHost,
    half: Half,
    fresh: Fresh,
    lanes: Vec<Lane>,
    /// The lane of each call that is under way, by its ticket.
    tickets: BTreeMap<u64, usize>,
    /// Lanes that wait, and until when.
    waiting: BTreeMap<(Instant, usize), ()>,
    /// When the latest attempt began under each token.
    began: BTreeMap<u32, Instant>,
    /// Clients wait so long before they call again, at most.
    pause: Duration,
    random: Stream,
    clock: LocalClock,
    books: Shared,
    watch: SharedWatch,
    labour: Labour,
}

impl TxnHost {
    pub(super) fn new(
        (node, incarnation): (NodeId, Incarnation),
        (half, fresh): (Half, Fresh),
        clients: impl Iterator<Item = Box<dyn Client>>,
        (pause, random): (Duration, Stream),
        clock: LocalClock,
        (books, watch): (Shared, SharedWatch),
    ) -> Self {
        let parameters = AgentParameters { idle_interval: IDLE_INTERVAL, ..AgentParameters::default() };
        let lane = |mut client: Box<dyn Client>| Lane { call: client.next(None), client, ticket: None };
        let lanes: Vec<Lane> = clients.map(lane).collect();
        books.borrow_mut().nodes[node.index()].lives += 1;
        Self {
            node: node.index(),
            lease: LeaseHost::with_parameters(node, incarnation, parameters),
            half,
            fresh,
            waiting: (0..lanes.len()).map(|lane| ((Instant::ZERO, lane), ())).collect(),
            lanes,
            tickets: BTreeMap::new(),
            began: BTreeMap::new(),
            pause,
            random,
            clock,
            books,
            watch,
            labour: Labour::default(),
        }
    }

    /// The host half.
    pub(super) const fn half(&self) -> &Half {
        &self.half
    }

    /// The lease holder.
    pub(super) const fn lease(&self) -> &LeaseHost {
        &self.lease
    }

    /// The node is no more: nobody is told any more what became of its calls.
    pub(super) fn die(&mut self) {
        let mut books = self.books.borrow_mut();
        for lane in std::mem::take(&mut self.tickets).into_values() {
            books.unanswered(self.node, &self.lanes[lane].call.request);
        }
    }

    /// Whether there is an engine that takes calls.
    fn may_call(&self) -> bool {
        !self.lease.is_resetting() && self.lease.status().state != EngineState::Starting
    }

    /// The engine was reset: the host begins anew, too, with nothing in its memory.
    fn begin_again(&mut self, now: Instant, commands: &mut Commands) {
        self.die();
        self.books.borrow_mut().nodes[self.node].lives += 1;
        self.half = (self.fresh)();
        commands.host_memory().fill(0);
        self.began.clear();
        self.waiting.clear();
        for lane in 0..self.lanes.len() {
            let Lane { client, call, ticket } = &mut self.lanes[lane];
            if ticket.take().is_some() {
                *call = client.next(Some(&Outcome::Unanswered));
            }
            self.wait(now, lane);
        }
    }

    /// A client waits before it calls again.
    fn wait(&mut self, now: Instant, lane: usize) {
        let pause = Duration::from_ps(1 + self.random.below(self.pause.as_ps()));
        self.waiting.insert((now + pause, lane), ());
    }

    fn call(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let ticket = self.half.call(lane.call.request.clone()).expect("there is a place for each client");
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

    /// Notes how an attempt has ended, before the host half decides what follows from it.
    fn note(&mut self, now: Instant, token: u32, kind: u8, payload: &[u8]) {
        let Ok(HostMessage::Outcome { id, status, .. }) = HostMessage::parse(kind, payload) else { return };
        let node = NodeId::new(id.coordinator()).expect("an identifier names a node");
        if id != TransactionId::none(node) {
            let began = self.began[&token];
            self.books.borrow_mut().told(id, status, began, self.clock.world(now));
        }
    }

    /// Carries out what the lease holder has learnt.
    fn with_lease(
        &mut self,
        now: Instant,
        commands: &mut Commands,
        act: impl FnOnce(&mut LeaseHost, &mut Commands),
    ) {
        let incarnation = self.lease.incarnation();
        act(&mut self.lease, commands);
        if self.lease.incarnation() != incarnation {
            self.begin_again(now, commands);
        }
    }

    /// Gives the card what it is told, and adds up what that has cost.
    fn settle(&mut self, now: Instant, commands: &mut Commands) {
        while let Some(finished) = self.half.poll_finished() {
            self.finish(now, &finished);
        }
        while let Some(message) = self.half.poll_card(commands.host_memory()) {
            let (token, kind) = (message.token, message.kind);
            if [HostKind::Begin as u8, HostKind::Local as u8].contains(&kind) {
                self.began.insert(token, self.clock.world(now));
            }
            commands.submit(HostCommand::Call { engine: SLOT, token, kind, payload: &message.payload });
        }
        charge(&mut self.labour, &self.half.take_work(), true);
    }
}

impl Host for TxnHost {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            // That is of a former life.
            HostEvent::Reply { .. } if self.lease.is_resetting() => {}
            HostEvent::Reply { token, kind, payload } => {
                self.watch.borrow_mut().note(self.node, kind);
                self.note(now, token, kind, &payload);
                let memory = commands.host_memory();
                if let Err(error) = self.half.receive(now, token, kind, &payload, memory) {
                    self.books.borrow_mut().wrong.push(format!("the card's message is malformed: {error}"));
                }
            }
            event => self.with_lease(now, commands, |lease, commands| lease.handle(now, event, commands)),
        }
        self.settle(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.first_key_value().map(|((at, _), ())| *at);
        let waiting = waiting.filter(|_| self.may_call() && !self.books.borrow().stopped);
        [self.lease.next_deadline(), self.half.next_deadline(), waiting].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if self.lease.next_deadline().is_some_and(|at| at <= now) {
            self.with_lease(now, commands, |lease, commands| lease.wake(now, commands));
        }
        self.half.wake(now);
        while self.may_call()
            && !self.books.borrow().stopped
            && let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= now
        {
            let ((_, lane), ()) = entry.remove_entry();
            self.call(lane);
        }
        self.settle(now, commands);
    }

    fn take_labour(&mut self) -> Labour {
        std::mem::take(&mut self.labour)
    }
}
