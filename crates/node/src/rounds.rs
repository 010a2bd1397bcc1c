//! The host half of the rounds engine: it founds the cluster of rounds, and makes the node join it again.
//!
//! The rounds have their own members, which they change by consensus. The view of the membership service only
//! determines the founders: all nodes in the first view, of which the lowest starts the first round. A node that
//! the members have removed (because it was too slow for too many rounds, or its process is new) asks all other nodes
//! to admit it again: the members may be others than those of the view.

use std::net::SocketAddrV4;

use weft_rounds::message::Call;
use weft_rounds::{ClientServer, ClientServerParameters};
use weft_session::TOKENS;
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus, Epoch, NodeSet, View};

use crate::half::{HostHalf, HostIo, NO_TOKEN};

/// Delays of the host half of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsPauses {
    /// Time from the first view to the first round, in which all nodes should receive the view. A node that has
    /// not received it by then joins later.
    pub start_after: Duration,
    /// Time after which a removed node asks to be admitted.
    pub return_after: Duration,
}

impl Default for RoundsPauses {
    /// Delays for processes, which the operating system may keep waiting.
    fn default() -> Self {
        Self { start_after: Duration::from_ms(500), return_after: Duration::from_ms(100) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Return,
}

/// The host half of the rounds engine.
#[derive(Debug)]
pub struct RoundsHalf {
    /// All nodes of the cluster.
    nodes: NodeSet,
    pauses: RoundsPauses,
    clients: ClientServer<SocketAddrV4>,
    payload: Vec<u8>,
    /// The newest view of the membership service.
    configuration: Option<Configuration>,
    /// The last epoch that was given to the engine.
    epoch: Epoch,
    next: Option<(Instant, Step)>,
    due: Option<Step>,
}

impl RoundsHalf {
    /// A half in a cluster of `nodes` nodes that serves its clients with these parameters.
    pub fn new(nodes: usize, clients: ClientServerParameters, pauses: RoundsPauses) -> Self {
        Self {
            nodes: NodeSet::first(nodes),
            pauses,
            clients: ClientServer::new(clients),
            payload: Vec::new(),
            configuration: None,
            epoch: Epoch(0),
            next: None,
            due: None,
        }
    }

    fn tell(&mut self, view: View, io: &mut HostIo<'_>) {
        let Some(configuration) = self.configuration else { return };
        self.epoch = view.epoch;
        io.configure(Configuration { view, ..configuration });
    }

    /// Makes the engine ask the other nodes to admit this one, of which the members do.
    fn join(&mut self, io: &mut HostIo<'_>) {
        let Some(Configuration { node, view, .. }) = self.configuration else { return };
        let (epoch, joining) = (Epoch(view.epoch.0.max(self.epoch.0 + 1)), NodeSet::EMPTY.with(node));
        self.tell(View { epoch, full: self.nodes.without(node), joining }, io);
        self.clients.joins();
    }
}

impl HostHalf for RoundsHalf {
    fn keeps_data_without_lease(&self) -> bool {
        true
    }

    fn follows_views(&self) -> bool {
        false
    }

    fn configure(&mut self, now: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        let is_first = self.configuration.replace(*configuration).is_none();
        if !is_first {
            return;
        }
        let Configuration { node, view, .. } = *configuration;
        let founds = view.epoch == Epoch(1) && view.full.contains(node);
        io.call(NO_TOKEN, Call::Subscribe as u8, &[]);
        if founds {
            self.tell(view, io);
            if view.full.nth(0) == Some(node) {
                self.next = Some((now + self.pauses.start_after, Step::Start));
            }
        } else {
            self.join(io);
        }
    }

    fn status(&mut self, now: Instant, status: EngineStatus, _: &mut HostIo<'_>) {
        if status.state == EngineState::Lost {
            self.next = Some((now + self.pauses.return_after, Step::Return));
        }
    }

    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        io: &mut HostIo<'_>,
    ) {
        // Malformed requests are ignored.
        if let Ok(Some(begin)) = self.clients.receive(now, from, message, serves) {
            io.call(begin.token, begin.body.kind, begin.body.bytes);
        }
    }

    fn replied(&mut self, _: Instant, token: u32, (kind, payload): (u8, &[u8]), _: &mut HostIo<'_>) {
        if token & TOKENS != 0 {
            self.clients.replied(token, kind, payload);
        } else if kind == Call::Decided as u8 {
            self.clients.decided(payload).expect("the engine speaks as its host half does");
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.due = self.next.take_if(|(at, _)| *at <= now).map(|(_, step)| step);
    }

    fn settle(&mut self, _: Instant, io: &mut HostIo<'_>) {
        match self.due.take() {
            None => {}
            Some(Step::Start) => io.call(NO_TOKEN, Call::Start as u8, &[]),
            Some(Step::Return) => self.join(io),
        }
        io.respond_all(&mut self.payload, |payload| self.clients.poll_transmit(payload));
    }
}
