//! The program of a node on the host of a simulated machine.

use weft_cluster::{AgentParameters, ClusterName, Incarnation, LEASE_MAX, MEMBERSHIP_PORT, Message};
use weft_nic::{HostCommand, HostEvent, Nic, SoftNic};
use weft_node::{CardPort, HostHalf, HostIo, NoHalf, Node, NodeHalf, NodeParameters};
use weft_sim::{Commands, CpuTime, Host, HostThreads, MachineDisk, NicMachine};
use weft_time::Instant;
use weft_waist::{Engine, EngineState, EngineStatus, Epoch, NodeId, View};
use weft_wire::frame::{self, Flow, Frame};

use crate::{ClusterHost, KeyHolder, Planted, SimulatedNode};

/// A change of an engine's status, on its node's clock.
#[derive(Clone, Copy, Debug)]
pub struct StatusChange {
    /// Time of the change.
    pub at: Instant,
    /// The status after the change.
    pub status: EngineStatus,
}

/// Source of a node's views.
#[derive(Clone, Copy, Debug)]
pub enum Views {
    /// The membership service of a cluster with this number of nodes, to which the node sends heartbeats.
    Service(AgentParameters, usize),
    /// No membership service: the node keeps this view, and has a lease that outlasts the run. Used to
    /// measure engines whose protocol does not rely on leases; then only messages of engines are on the
    /// network.
    Fixed(View),
}

/// Methods of a host half that only simulations call.
pub trait SimulatedHalf: HostHalf {
    /// CPU time of the half's work since the last call.
    fn take_cpu_time(&mut self) -> CpuTime {
        CpuTime::default()
    }

    /// Whether the half has failed, which ends the program of the node.
    fn has_failed(&self) -> bool {
        false
    }
}

impl SimulatedHalf for NoHalf {}

impl SimulatedHalf for NodeHalf {
    fn has_failed(&self) -> bool {
        self.failure().is_some()
    }
}

/// Sends commands of the node to its card.
struct Bus<'a>(&'a mut Commands);

impl CardPort for Bus<'_> {
    fn submit(&mut self, command: HostCommand<'_>) {
        self.0.submit(command);
    }

    fn host_memory(&mut self) -> &mut Vec<u8> {
        self.0.host_memory()
    }
}

/// The shipped program of a node's host, with an adapter that puts its membership messages into frames.
pub struct NodeHost<H> {
    node: Node<H>,
    /// The view that the node keeps if there is no membership service.
    fixed: Option<View>,
    /// The PSP keys of the node's card, if frames are sealed.
    keys: Option<KeyHolder>,
    nodes: usize,
    /// Number of keepers of the membership service; 1 if it is one process.
    keepers: usize,
    begun: bool,
    changes: Vec<StatusChange>,
    frame: Vec<u8>,
    /// The disk to which the node's host halves write, if they have one.
    disk: Option<MachineDisk>,
}

impl<H: HostHalf> NodeHost<H> {
    /// A node with this incarnation and the host halves of its card's engines in slot order.
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
            keepers: agent.keepers,
            begun: false,
            changes: Vec::new(),
            frame: Vec::new(),
            disk: None,
        }
    }

    /// The same node, whose card seals frames with these keys.
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

    /// The changes of the engines' status, in order of time.
    pub fn changes(&self) -> &[StatusChange] {
        &self.changes
    }

    /// The host half of a slot. Observers take records from it.
    pub fn half_mut(&mut self, slot: u8) -> &mut H {
        self.node.half_mut(slot)
    }

    fn begin(&mut self, now: Instant, commands: &mut Commands) {
        if !std::mem::replace(&mut self.begun, true) {
            self.node.begin(now, &mut Bus(commands));
        }
    }

    /// Installs the keys of a view, which arrive with the grant. The card has them before its engines are
    /// configured with the view and send to its members.
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
            let to = match self.keepers {
                1 => ClusterHost::Membership,
                _ => ClusterHost::Keeper(self.node.keeper() as u8),
            };
            self.send(to, &heartbeat, commands);
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

    /// Answers a heartbeat if there is no membership service.
    fn grant(&mut self, now: Instant, view: View, heartbeat: &[u8], commands: &mut Commands) {
        let Ok((_, Message::Heartbeat { token, heartbeat, .. })) = Message::decode(heartbeat) else {
            unreachable!("a node sends heartbeats to the membership service")
        };
        let (node, incarnation) = (heartbeat.node, heartbeat.incarnation);
        let grant = Message::Grant { node, incarnation, token, term: 0, view, lease: LEASE_MAX };
        self.node.receive_membership(now, &grant.encode(ClusterName::default().id()), &mut Bus(commands));
    }

    /// Calls `act` with the host half of a slot. To be used within [`weft_sim::NicMachine::with_host`].
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

    /// Lets the disk complete due operations, and the node handle the completions.
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
                    let mut service = ClusterHost::membership(self.keepers).into_iter();
                    if service.any(|host| host.address() == ipv4.source) {
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

    fn take_cpu_time(&mut self) -> CpuTime {
        let mut all = CpuTime::default();
        for slot in 0..self.node.slots() {
            let cpu_time = self.node.half_mut(slot).take_cpu_time();
            all.total += cpu_time.total;
            all.longest = all.longest.max(cpu_time.longest);
        }
        all
    }
}

/// The program of a host that runs a node.
pub trait NodeProgram: Host {
    /// Host half of an engine.
    type Half: SimulatedHalf;

    /// The node.
    fn node(&self) -> &Node<Self::Half>;
}

impl<H: SimulatedHalf> NodeProgram for NodeHost<H> {
    type Half = H;

    fn node(&self) -> &Node<H> {
        &self.node
    }
}

impl<P: NodeProgram> NodeProgram for HostThreads<P> {
    type Half = P::Half;

    fn node(&self) -> &Node<P::Half> {
        self.program().node()
    }
}

/// A node with a NIC in software.
impl<E: Engine, P: NodeProgram> SimulatedNode for NicMachine<SoftNic<E>, P> {
    fn is_full(&self) -> bool {
        statuses(self).all(|status| status.state == EngineState::Full)
    }

    /// The epoch is ignored for engines that do not rely on leases.
    fn is_full_in(&self, epoch: Epoch) -> bool {
        (0..).zip(statuses(self)).all(|(slot, status)| {
            let outlives = self.host().node().half(slot).keeps_data_without_lease();
            status.state == EngineState::Full && (outlives || status.epoch == epoch)
        })
    }

    fn lease_until(&self) -> Instant {
        self.host().node().lease_until()
    }

    fn describe(&self) -> String {
        let states = statuses(self).map(|EngineStatus { epoch, state }| format!("{state} in {epoch}"));
        let refused = self.host().node().refusal().map(|reason| format!("refused: {reason}"));
        states.chain(refused).collect::<Vec<_>>().join(", ")
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.nic().counters().into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

/// Status of the engines of a node.
fn statuses<E: Engine, P: NodeProgram>(
    node: &NicMachine<SoftNic<E>, P>,
) -> impl Iterator<Item = EngineStatus> {
    let card = node.nic().card();
    (0..node.host().node().slots()).map(|slot| card.engine(slot).0.status())
}
