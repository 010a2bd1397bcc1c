//! The program of a server's host: the host half of the transactions, and the clients.

use std::collections::{HashMap, VecDeque};

use weft_applications::{Call, Client};
use weft_nic::{HostCommand, HostEvent};
use weft_sim::{Commands, CpuTime, HOST_PROCESS, HOST_TRANSACTION, Host, HostMeter};
use weft_time::{Duration, Instant};
use weft_txn::Outcome;
use weft_txn::host::{Finished, Half, HostWork};
use weft_txn::host_port::HostKind;
use weft_waist::{Configuration, EngineState, Epoch, NodeId, NodeSet, View};

use super::books::{CONFLICT_PAUSE, Ended, Shared};

/// The engine's slot in every card.
pub(super) const SLOT: u8 = 0;

/// One client, with one outstanding transaction at a time.
struct ClosedLoopClient {
    client: Box<dyn Client>,
    /// The current or next call.
    call: Call,
    /// The ticket of the call, while it is outstanding.
    ticket: Option<u64>,
    /// Start of the call.
    called: Instant,
    /// Start of the transaction to which the call belongs.
    began: Instant,
    /// Measurement window in which the transaction began.
    window: u64,
    /// The load when the transaction began: the number of active clients of each server.
    load: usize,
    /// The last load at which the client has begun and ended a transaction.
    settled: usize,
    /// Whether the client pauses after a conflict.
    pauses: bool,
}

/// The program of one server's host.
pub(super) struct NodeHost {
    node: usize,
    nodes: usize,
    half: Half,
    lanes: Vec<ClosedLoopClient>,
    /// The client of each ticket. Nothing depends on the order of the entries.
    tickets: HashMap<u64, usize>,
    /// Clients that pause, with the end of the pause.
    pausing: VecDeque<(Instant, usize)>,
    books: Shared,
    /// Messages that tell the engine its queue pairs. They are sent before the engine is configured.
    wires: Vec<Vec<u8>>,
    is_configured: bool,
    is_full: bool,
    /// Whether the program's CPU time is charged. If not, the engine does the work.
    applies: bool,
    meter: HostMeter,
    /// Work of the half that was charged last.
    work: HostWork,
    cpu_time: CpuTime,
}

impl NodeHost {
    /// The program of `node`, with all its clients. `applies` says whether the program also applies the log.
    pub(super) fn new(
        node: usize,
        nodes: usize,
        half: Half,
        clients: impl Iterator<Item = Box<dyn Client>>,
        meter: HostMeter,
        applies: bool,
        books: Shared,
    ) -> Self {
        let lane = |mut client: Box<dyn Client>| {
            let call = client.next(None);
            let (called, began) = (Instant::ZERO, Instant::ZERO);
            ClosedLoopClient {
                client,
                call,
                ticket: None,
                called,
                began,
                window: 0,
                load: 0,
                settled: 0,
                pauses: false,
            }
        };
        Self {
            node,
            nodes,
            half,
            lanes: clients.map(lane).collect(),
            tickets: HashMap::new(),
            pausing: VecDeque::new(),
            books,
            wires: Vec::new(),
            is_configured: false,
            is_full: false,
            applies,
            meter,
            work: HostWork::default(),
            cpu_time: CpuTime::default(),
        }
    }

    /// Adds a message that tells the engine of a queue pair.
    pub(super) fn wire(&mut self, wire: Vec<u8>) {
        self.wires.push(wire);
    }

    /// The host half.
    pub(super) const fn half(&self) -> &Half {
        &self.half
    }

    /// Whether no call of a client is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.half.under_way() == 0 && self.pausing.is_empty()
    }

    /// Whether the node is a full member.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Makes the clients follow a changed load.
    pub(super) fn nudge(&mut self, now: Instant, commands: &mut Commands) {
        if self.is_full {
            let lanes = self.books.borrow().lanes.min(self.lanes.len());
            for lane in 0..lanes {
                if self.lanes[lane].ticket.is_none() && !self.lanes[lane].pauses {
                    self.call(now, lane);
                }
            }
        }
        self.pass_on(commands);
    }

    /// Makes the next call of a client.
    fn call(&mut self, now: Instant, index: usize) {
        let lane = &mut self.lanes[index];
        if lane.call.begins {
            let mut books = self.books.borrow_mut();
            (lane.began, lane.window, lane.load) = (now, books.begins(), books.lanes);
        }
        lane.called = now;
        lane.pauses = false;
        let ticket = self.half.call(lane.call.request.clone()).expect("there is a place for each client");
        lane.ticket = Some(ticket);
        self.tickets.insert(ticket, index);
        self.books.borrow_mut().open += 1;
    }

    /// Records a finished call, and lets its client continue.
    fn finish(&mut self, now: Instant, finished: &Finished) {
        let index = self.tickets.remove(&finished.ticket).expect("a lane has called this");
        let lane = &mut self.lanes[index];
        assert_eq!(lane.ticket.take(), Some(finished.ticket), "a lane calls one thing at a time");
        let (kind, window, began) = (lane.call.kind, lane.window, lane.began);
        let mut books = self.books.borrow_mut();
        books.answered(Ended {
            id: finished.id,
            called: lane.called,
            now,
            request: &lane.call.request,
            outcome: &finished.outcome,
            attempts: finished.attempts,
        });
        lane.call = lane.client.next(Some(&finished.outcome));
        if lane.call.begins {
            books.ended(window, kind, began, now, &finished.outcome);
            if lane.load == books.lanes && lane.settled != books.lanes {
                lane.settled = books.lanes;
                books.settled += 1;
            }
            if index >= books.lanes {
                return;
            }
        }
        drop(books);
        if finished.outcome == Outcome::Conflict {
            self.lanes[index].pauses = true;
            self.pausing.push_back((now + CONFLICT_PAUSE, index));
        } else {
            self.call(now, index);
        }
    }

    /// Passes outcomes to the clients and messages to the card, and charges the CPU time of the work.
    fn settle(&mut self, now: Instant, commands: &mut Commands) {
        while let Some(finished) = self.half.poll_finished() {
            self.finish(now, &finished);
        }
        self.pass_on(commands);
    }

    fn pass_on(&mut self, commands: &mut Commands) {
        while let Some(message) = self.half.poll_card(commands.host_memory()) {
            let (token, kind) = (message.token, message.kind);
            commands.submit(HostCommand::Call { engine: SLOT, token, kind, payload: &message.payload });
            self.half.give_back(message);
        }
        self.half.take_work(&mut self.work);
        charge(&mut self.cpu_time, &self.work, &self.meter, self.applies);
    }
}

/// Adds the work of the host half to the charged CPU time of its program. Each transaction, object and run of
/// a procedure is a separate work item, which any thread may do. `applies` says whether the program begins
/// and ends transactions and applies the log.
pub(super) fn charge(cpu_time: &mut CpuTime, work: &HostWork, meter: &HostMeter, applies: bool) {
    if applies {
        for (pieces, figure) in [
            (work.started, &HOST_TRANSACTION.start),
            (work.ended, &HOST_TRANSACTION.end),
            (work.writes_applied + work.objects_copied, &HOST_TRANSACTION.apply),
            (work.objects_read, &HOST_PROCESS.memory_read),
        ] {
            cpu_time.add_pieces(pieces, figure.duration());
        }
    }
    let runs: u64 = work.runs.iter().sum();
    if runs > 0 {
        let times = work.runs.iter().zip(meter.procedures()).map(|(&runs, &time)| time * runs);
        let total = times.fold(Duration::ZERO, |sum, time| sum + time);
        cpu_time.add_pieces(runs, total / runs);
    }
}

impl Host for NodeHost {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            HostEvent::Reply { token, kind, payload, .. } => {
                let memory = commands.host_memory();
                if let Err(error) = self.half.receive(now, token, kind, &payload, memory) {
                    self.books.borrow_mut().wrong.push(format!("the card's message is malformed: {error}"));
                }
                self.settle(now, commands);
            }
            HostEvent::Status { status, .. } => {
                self.is_full = status.state == EngineState::Full;
                self.nudge(now, commands);
            }
            HostEvent::Frame(_) | HostEvent::Completion(_) | HostEvent::Request { .. } => {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        if !self.is_configured {
            return Some(Instant::ZERO);
        }
        let again = self.pausing.front().map(|(at, _)| *at);
        [self.half.next_deadline(), again].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if !self.is_configured {
            self.is_configured = true;
            for wire in self.wires.drain(..) {
                let kind = HostKind::Wire as u8;
                commands.submit(HostCommand::Call { engine: SLOT, token: 0, kind, payload: &wire });
            }
            let node = NodeId::new(self.node).expect("a cluster has at most 16 nodes");
            let view = View { epoch: Epoch(1), full: NodeSet::first(self.nodes), joining: NodeSet::EMPTY };
            let lease_until = Instant::FAR_FUTURE;
            commands.submit(HostCommand::Configure {
                engine: 0,
                configuration: Configuration { node, view, lease_until },
            });
        }
        self.half.wake(now);
        while self.pausing.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, index)) = self.pausing.pop_front()
        {
            self.call(now, index);
        }
        self.settle(now, commands);
    }

    fn take_cpu_time(&mut self) -> CpuTime {
        std::mem::take(&mut self.cpu_time)
    }
}
