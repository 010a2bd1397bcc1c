//! The program of a node on the host of a simulated machine.

use weft_cluster::{AgentParameters, Incarnation, MEMBERSHIP_PORT};
use weft_nic::{HostCommand, HostEvent};
use weft_node::{CardPort, HostHalf, NoHalf, Node, NodeParameters};
use weft_sim::{Commands, Host, Labour};
use weft_time::Instant;
use weft_waist::{EngineStatus, NodeId};
use weft_wire::frame::{self, Flow, Frame};

use super::{Planted, Station};

/// A change of what an engine is, on its node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusChange {
    pub(crate) at: Instant,
    pub(crate) status: EngineStatus,
}

/// What a host half does in a simulation only.
pub(crate) trait SimulatedHalf: HostHalf {
    /// The half's own work since the last call, for worlds that charge time for it.
    fn take_labour(&mut self) -> Labour {
        Labour::default()
    }
}

impl SimulatedHalf for NoHalf {}

/// A host's commands as the way to its card.
struct Bus<'a>(&'a mut Commands);

impl CardPort for Bus<'_> {
    fn submit(&mut self, command: HostCommand<'_>) {
        self.0.submit(command);
    }

    fn host_memory(&mut self) -> &mut [u8] {
        self.0.host_memory()
    }
}

/// The program on a node's host, which is the one that ships, behind frames.
#[derive(Debug)]
pub(crate) struct NodeHost<H> {
    node: Node<H>,
    begun: bool,
    changes: Vec<StatusChange>,
    frame: Vec<u8>,
}

impl<H: HostHalf> NodeHost<H> {
    /// A node in the life `incarnation`, with the halves of its card's engines in slot order.
    pub(crate) fn new(
        node: NodeId,
        incarnation: Incarnation,
        agent: AgentParameters,
        halves: impl IntoIterator<Item = H>,
        planted: Planted,
    ) -> Self {
        let parameters = NodeParameters { node, incarnation, agent, identity: None };
        let node = planted.node(Node::new(parameters, halves));
        Self { node, begun: false, changes: Vec::new(), frame: Vec::new() }
    }

    /// The node.
    pub(crate) const fn node(&self) -> &Node<H> {
        &self.node
    }

    /// What its engines were over time.
    pub(crate) fn changes(&self) -> &[StatusChange] {
        &self.changes
    }

    /// The half of a slot, to take out what it keeps for an observer.
    pub(crate) fn half_mut(&mut self, slot: u8) -> &mut H {
        self.node.half_mut(slot)
    }

    fn begin(&mut self, now: Instant, commands: &mut Commands) {
        if !std::mem::replace(&mut self.begun, true) {
            self.node.begin(now, &mut Bus(commands));
        }
    }

    /// Sends the heartbeat, if one is due.
    fn transmit(&mut self, now: Instant, commands: &mut Commands) {
        if let Some(heartbeat) = self.node.poll_membership(now) {
            let flow = Flow {
                source: Station::Node(self.node.id()).endpoint(MEMBERSHIP_PORT),
                destination: Station::Membership.endpoint(MEMBERSHIP_PORT),
                type_of_service: 0,
            };
            self.frame.clear();
            frame::emit_udp_frame(&mut self.frame, &flow, &heartbeat);
            commands.submit(HostCommand::Transmit(&self.frame));
        }
        // Nobody reads them here.
        while self.node.poll_report().is_some() {}
    }
}

impl<H: SimulatedHalf> Host for NodeHost<H> {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        self.begin(now, commands);
        if let HostEvent::Status { status, .. } = event {
            self.changes.push(StatusChange { at: now, status });
        }
        match event {
            HostEvent::Frame(bytes) => {
                if let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&bytes)
                    && udp.destination_port == MEMBERSHIP_PORT
                    && ipv4.source == Station::Membership.address()
                {
                    self.node.receive_membership(now, payload, &mut Bus(commands));
                }
            }
            event => self.node.host_event(now, event, &mut Bus(commands)),
        }
        self.transmit(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.node.next_deadline()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        self.begin(now, commands);
        self.node.handle_deadline(now, &mut Bus(commands));
        self.transmit(now, commands);
    }

    fn take_labour(&mut self) -> Labour {
        let mut all = Labour::default();
        for slot in 0..self.node.slots() {
            let labour = self.node.half_mut(slot).take_labour();
            all.total += labour.total;
            all.longest = all.longest.max(labour.longest);
        }
        all
    }
}
