//! The program of a node on the host of a simulated machine.

use weft_cluster::{AgentParameters, ClusterName, Incarnation, LEASE_MAX, MEMBERSHIP_PORT, Message};
use weft_nic::{HostCommand, HostEvent};
use weft_node::{CardPort, HostHalf, HostIo, NoHalf, Node, NodeHalf, NodeParameters};
use weft_sim::{Commands, Host, Labour, MachineDisk};
use weft_time::Instant;
use weft_waist::{EngineStatus, NodeId, View};
use weft_wire::frame::{self, Flow, Frame};

use crate::{ClusterHost, KeyHolder, Planted};

/// A change of an engine's status, on its node's clock.
#[derive(Clone, Copy, Debug)]
pub struct StatusChange {
    /// When it changed.
    pub at: Instant,
    /// The status after the change.
    pub status: EngineStatus,
}

/// Source of a node's views.
#[derive(Clone, Copy, Debug)]
pub enum Views {
    /// The membership service of a cluster of so many nodes, to which it reports.
    Service(AgentParameters, usize),
    /// Nowhere: it has this one, and a lease that outlasts the run. For measurements of engines whose protocol does not
    /// rest on leases: nothing but their own messages is on the network then.
    Fixed(View),
}

/// Duties of a host half in simulations only.
pub trait SimulatedHalf: HostHalf {
    /// The half's own work since the last call, for worlds that charge time for it.
    fn take_labour(&mut self) -> Labour {
        Labour::default()
    }

    /// Whether it has failed: the node's program has ended then.
    fn has_failed(&self) -> bool {
        false
    }
}

impl SimulatedHalf for NoHalf {}

impl SimulatedHalf for NodeHalf {
    fn has_failed(&self) -> bool {
        if let Self::KeyValue(half) = self { half.failure().is_some() } else { false }
    }
}

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
pub struct NodeHost<H> {
    node: Node<H>,
    /// The view that it keeps, if no membership service gives it any; how many nodes there are otherwise.
    fixed: Option<View>,
    /// What its card seals with, if it does.
    keys: Option<KeyHolder>,
    nodes: usize,
    begun: bool,
    changes: Vec<StatusChange>,
    frame: Vec<u8>,
    /// What its halves write to, if they do.
    disk: Option<MachineDisk>,
}

impl<H: HostHalf> NodeHost<H> {
    /// A node in the life `incarnation`, with the halves of its card's engines in slot order.
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        views: Views,
        halves: impl IntoIterator<Item = H>,
        planted: Planted,
    ) -> Self {
        let (agent, fixed, nodes) = match views {
            Views::Service(agent, nodes) => (agent, None, nodes),
            Views::Fixed(view) => (AgentParameters::default(), Some(view), 0),
        };
        let parameters = NodeParameters { node, incarnation, agent, identity: None };
        let node = planted.node(Node::new(parameters, halves));
        Self {
            node,
            fixed,
            keys: None,
            nodes,
            begun: false,
            changes: Vec::new(),
            frame: Vec::new(),
            disk: None,
        }
    }

    /// The same, and it has its card seal with these keys.
    #[must_use]
    pub fn with_keys(self, keys: Option<KeyHolder>) -> Self {
        Self { keys, ..self }
    }

    /// The same node, whose halves write to this disk.
    #[must_use]
    pub fn with_disk(self, disk: MachineDisk) -> Self {
        Self { disk: Some(disk), ..self }
    }

    /// The node.
    pub const fn node(&self) -> &Node<H> {
        &self.node
    }

    /// Status of its engines over time.
    pub fn changes(&self) -> &[StatusChange] {
        &self.changes
    }

    /// The half of a slot, to take out what it keeps for an observer.
    pub fn half_mut(&mut self, slot: u8) -> &mut H {
        self.node.half_mut(slot)
    }

    fn begin(&mut self, now: Instant, commands: &mut Commands) {
        if !std::mem::replace(&mut self.begun, true) {
            self.node.begin(now, &mut Bus(commands));
        }
    }

    /// The keys of a view come with its grant. The card has them before engines are told of the view, and speak to its
    /// members.
    fn take_keys(&mut self, message: &[u8], commands: &mut Commands) {
        if let Some(keys) = &mut self.keys
            && let Ok((_, Message::Grant { node, incarnation, view, .. })) = Message::decode(message)
            && (node, incarnation) == (self.node.id(), self.node.incarnation())
            && view.epoch >= self.node.view().epoch
        {
            keys.update(incarnation.get(), view.epoch, |change| {
                commands.submit(HostCommand::Associate(change));
            });
        }
    }

    /// Sends the heartbeat and the beacons that are due.
    fn transmit(&mut self, now: Instant, commands: &mut Commands) {
        if let Some(beacon) = self.node.poll_beacon(now) {
            for peer in (0..self.nodes).map(ClusterHost::node) {
                self.send(peer, &beacon, commands);
            }
        }
        if let Some(heartbeat) = self.node.poll_membership(now) {
            if let Some(view) = self.fixed {
                return self.grant(now, view, &heartbeat, commands);
            }
            self.send(ClusterHost::Membership, &heartbeat, commands);
        }
        // Simulations do not use the reports.
        while self.node.poll_report().is_some() {}
    }

    /// Sends a message of the membership protocol, unless it is to this node itself.
    fn send(&mut self, to: ClusterHost, payload: &[u8], commands: &mut Commands) {
        let own = ClusterHost::Node(self.node.id());
        if to == own {
            return;
        }
        let (source, destination) = (own.endpoint(MEMBERSHIP_PORT), to.endpoint(MEMBERSHIP_PORT));
        self.frame.clear();
        frame::emit_udp_frame(&mut self.frame, &Flow { source, destination, type_of_service: 0 }, payload);
        commands.submit(HostCommand::Transmit(&self.frame));
    }

    /// Answers a heartbeat in place of a membership service.
    fn grant(&mut self, now: Instant, view: View, heartbeat: &[u8], commands: &mut Commands) {
        let Ok((_, Message::Heartbeat { token, heartbeat, .. })) = Message::decode(heartbeat) else {
            unreachable!("a node sends heartbeats to the membership service")
        };
        let (node, incarnation) = (heartbeat.node, heartbeat.incarnation);
        let grant = Message::Grant { node, incarnation, token, view, lease: LEASE_MAX };
        self.node.receive_membership(now, &grant.encode(ClusterName::default().id()), &mut Bus(commands));
    }

    /// Acts as the half of a slot: use it within [`weft_sim::NicMachine::with_host`].
    pub fn act(&mut self, slot: u8, commands: &mut Commands, act: impl FnOnce(&mut H, &mut HostIo<'_>)) {
        let mut bus = Bus(commands);
        act(self.node.half_mut(slot), &mut HostIo::new(slot, &mut bus));
    }
}

impl<H: SimulatedHalf> NodeHost<H> {
    /// Whether the node's program has ended, because something that it needs has failed.
    pub fn has_ended(&self) -> bool {
        (0..self.node.slots()).any(|slot| self.node.half(slot).has_failed())
    }

    /// Lets the disk go on, and the node with what that has done.
    fn drive_disk(&mut self, now: Instant, commands: &mut Commands) {
        while self.disk.as_ref().is_some_and(|disk| disk.advance(now)) && !self.has_ended() {
            self.node.handle_deadline(now, &mut Bus(commands));
        }
    }
}

impl<H: SimulatedHalf> Host for NodeHost<H> {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        if self.has_ended() {
            return;
        }
        self.begin(now, commands);
        if let HostEvent::Status { status, .. } = event {
            self.changes.push(StatusChange { at: now, status });
        }
        match event {
            HostEvent::Frame(bytes) => {
                if let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&bytes)
                    && udp.destination_port == MEMBERSHIP_PORT
                {
                    let peer = (0..self.nodes).find(|&node| ClusterHost::node(node).address() == ipv4.source);
                    if ipv4.source == ClusterHost::Membership.address() {
                        self.take_keys(payload, commands);
                        self.node.receive_membership(now, payload, &mut Bus(commands));
                    } else if let Some(peer) = peer.and_then(NodeId::new) {
                        self.node.receive_beacon(now, peer, payload);
                    }
                }
            }
            event => self.node.host_event(now, event, &mut Bus(commands)),
        }
        self.drive_disk(now, commands);
        self.transmit(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        if self.has_ended() {
            return None;
        }
        let disk = self.disk.as_ref().and_then(MachineDisk::next_deadline);
        self.node.next_deadline().into_iter().chain(disk).min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if self.has_ended() {
            return;
        }
        self.begin(now, commands);
        self.node.handle_deadline(now, &mut Bus(commands));
        self.drive_disk(now, commands);
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

/// The number of a process that runs a node in its life number `life`. Each has room for incarnations of its own: a
/// node that must rejoin takes the next one.
pub fn incarnation(life: u32) -> Incarnation {
    Incarnation::new(1 + (u64::from(life) << 32)).expect("it is not zero")
}
