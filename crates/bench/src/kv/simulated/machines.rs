//! The machines of a simulated cluster: the lease holders of nodes, the membership service, and clients.

use std::net::SocketAddrV4;

use weft_cluster::{
    Action, Agent, AgentParameters, Incarnation, MEMBERSHIP_PORT, Membership, Phase, Reason, Server,
};
use weft_nic::{Egress, HostCommand, HostEvent};
use weft_sim::{Commands, Host, Machine};
use weft_time::Instant;
use weft_waist::{EngineStatus, Epoch, NodeId, View};
use weft_wire::datagram::{self, Datagram};
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use super::nodes::NodeMachine;
use crate::kv::Driver;
use crate::station::{DATAGRAM_BYTES, Station};

/// The UDP port of simulated clients.
const CLIENT_PORT: u16 = 5_000;

/// The engine's slot in every NIC.
pub(super) const KV_SLOT: u8 = 0;

/// One machine of the cluster.
pub(super) enum ClusterMachine {
    Node(Box<NodeMachine>),
    Membership(Box<MembershipMachine>),
    Clients(Box<ClientMachine>),
}

impl ClusterMachine {
    fn inner(&self) -> &dyn Machine {
        match self {
            Self::Node(machine) => machine.as_machine(),
            Self::Membership(machine) => &**machine,
            Self::Clients(machine) => &**machine,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Machine {
        match self {
            Self::Node(machine) => machine.as_machine_mut(),
            Self::Membership(machine) => &mut **machine,
            Self::Clients(machine) => &mut **machine,
        }
    }

    pub(super) fn node(&self) -> Option<&NodeMachine> {
        if let Self::Node(machine) = self { Some(machine) } else { None }
    }
}

impl Machine for ClusterMachine {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.inner_mut().receive(now, frame);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner().next_deadline()
    }

    fn wake(&mut self, now: Instant) {
        self.inner_mut().wake(now);
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        self.inner_mut().poll_frame(frame)
    }
}

/// A change of what a node is, on its own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusChange {
    pub(crate) at: Instant,
    pub(crate) status: EngineStatus,
}

/// The program on a node's host: holds the lease and tells the engine.
pub(crate) struct LeaseHost {
    agent: Agent,
    parameters: AgentParameters,
    status: EngineStatus,
    /// The engine has been reset and its status registers have not shown it yet: what they held before is of a former
    /// life.
    resetting: bool,
    stopped: bool,
    changes: Vec<StatusChange>,
    frame: Vec<u8>,
}

impl LeaseHost {
    pub(crate) fn new(node: NodeId, incarnation: Incarnation) -> Self {
        Self::with_parameters(node, incarnation, AgentParameters::default())
    }

    pub(crate) fn with_parameters(
        node: NodeId,
        incarnation: Incarnation,
        parameters: AgentParameters,
    ) -> Self {
        Self {
            agent: Agent::new(node, incarnation, parameters),
            parameters,
            status: EngineStatus::STARTING,
            resetting: false,
            stopped: false,
            changes: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// In which life the node is.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.agent.incarnation()
    }

    /// Whether what the NIC says may still be of a former life.
    pub(crate) const fn is_resetting(&self) -> bool {
        self.resetting
    }

    /// What the node was over time.
    pub(super) fn changes(&self) -> &[StatusChange] {
        &self.changes
    }

    /// What the engine has reported last.
    pub(crate) const fn status(&self) -> EngineStatus {
        self.status
    }

    /// Why the service refuses the node at present.
    pub(crate) fn refusal(&self) -> Option<Reason> {
        self.agent.refusal()
    }

    pub(crate) fn lease_until(&self) -> Instant {
        self.agent.lease_until()
    }

    /// Carries configurations, actions and heartbeats to where they belong.
    fn drive(&mut self, now: Instant, commands: &mut Commands) {
        if let Some(configuration) = self.agent.poll_configuration() {
            commands.submit(HostCommand::Configure(configuration));
        }
        match self.agent.poll_action() {
            Some(Action::Restart { incarnation }) => {
                commands.submit(HostCommand::Reset);
                self.resetting = self.status != EngineStatus::STARTING;
                self.agent = Agent::new(self.agent.node(), incarnation, self.parameters);
            }
            Some(Action::Stop) => self.stopped = true,
            None => {}
        }
        if let Some(heartbeat) = self.agent.poll_transmit(now) {
            let flow = Flow {
                source: Station::Node(self.agent.node()).endpoint(MEMBERSHIP_PORT),
                destination: Station::Membership.endpoint(MEMBERSHIP_PORT),
                type_of_service: 0,
            };
            self.frame.clear();
            frame::emit_udp_frame(&mut self.frame, &flow, &heartbeat);
            commands.submit(HostCommand::Transmit(&self.frame));
        }
    }
}

impl Host for LeaseHost {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        match event {
            HostEvent::Frame(bytes) => {
                if let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&bytes)
                    && udp.destination_port == MEMBERSHIP_PORT
                    && ipv4.source == Station::Membership.address()
                {
                    // What is not for this agent is counted nowhere: the network may bring anything.
                    let _ = self.agent.receive(now, payload);
                }
            }
            HostEvent::Status { status, .. } => {
                self.status = status;
                self.resetting &= status != EngineStatus::STARTING;
                if !self.resetting {
                    self.agent.engine_status(now, status);
                }
                self.changes.push(StatusChange { at: now, status });
            }
            HostEvent::Completion(_) | HostEvent::Reply { .. } => {}
        }
        self.drive(now, commands);
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.stopped).then(|| self.agent.next_deadline())
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        self.drive(now, commands);
    }
}

/// The membership service on a machine of its own, which never crashes; its links may fail.
pub(crate) struct MembershipMachine {
    server: Server<Endpoint>,
    published: Vec<(Instant, View)>,
}

impl MembershipMachine {
    pub(crate) fn new(server: Server<Endpoint>) -> Self {
        Self { server, published: Vec::new() }
    }

    /// All views so far and when they were published, on the machine's clock.
    pub(crate) fn published(&self) -> &[(Instant, View)] {
        &self.published
    }

    pub(crate) fn phase(&self) -> Phase {
        self.server.service().phase()
    }

    pub(crate) fn view(&self) -> View {
        self.server.service().view()
    }

    fn note(&mut self, now: Instant) {
        let view = self.view();
        if view.epoch != self.published.last().map_or(Epoch(0), |(_, view)| view.epoch) {
            self.published.push((now, view));
        }
    }
}

impl Machine for MembershipMachine {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes)
            && udp.destination_port == MEMBERSHIP_PORT
        {
            let from = Endpoint { hardware: ethernet.source, address: ipv4.source, port: udp.source_port };
            // A malformed heartbeat is counted by the server.
            let _ = self.server.receive(now, from, payload);
            self.note(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.server.next_deadline())
    }

    fn wake(&mut self, now: Instant) {
        self.server.tick(now);
        self.note(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        // The machine does not crash, so its memory is durable enough.
        let _ = self.server.take_unsaved();
        let (to, datagram) = self.server.poll_transmit()?;
        let source = Station::Membership.endpoint(MEMBERSHIP_PORT);
        frame::emit_udp_frame(out, &Flow { source, destination: to, type_of_service: 0 }, &datagram);
        Some(Instant::ZERO)
    }
}

/// A machine full of clients. It answers at once and without cost: it is the load, not what is measured.
pub(super) struct ClientMachine {
    station: Station,
    pub(super) driver: Driver,
    egress: Egress,
    now: Instant,
    payload: Vec<u8>,
}

impl ClientMachine {
    pub(super) fn new(station: Station, driver: Driver) -> Self {
        let egress = Egress::new(DATAGRAM_BYTES);
        Self { station, driver, egress, now: Instant::ZERO, payload: Vec::new() }
    }
}

impl Machine for ClientMachine {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        self.now = now;
        if let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(bytes)
            && udp.destination_port == CLIENT_PORT
            && let Ok(datagram) = Datagram::parse(payload)
        {
            for message in datagram.messages().filter(|message| message.engine == KV_SLOT) {
                self.driver.receive(now, message.kind, message.payload);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.driver.next_deadline(self.now)
    }

    fn wake(&mut self, now: Instant) {
        self.now = now;
        self.driver.handle_deadline(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        while let Some((node, kind)) = self.driver.poll_transmit(&mut self.payload) {
            let to = SocketAddrV4::new(Station::Node(node).address(), datagram::UDP_PORT);
            let fits = self.egress.push(to, KV_SLOT, kind, &self.payload);
            assert!(fits, "a request fits into a datagram");
            self.payload.clear();
        }
        self.payload.clear();
        let to = self.egress.poll(&mut self.payload)?;
        let node = NodeId::new(usize::from(to.ip().octets()[3]) - 1).expect("clients speak to nodes only");
        let flow = Flow {
            source: self.station.endpoint(CLIENT_PORT),
            destination: Station::Node(node).endpoint(datagram::UDP_PORT),
            type_of_service: 0,
        };
        frame::emit_udp_frame(out, &flow, &self.payload);
        self.payload.clear();
        Some(Instant::ZERO)
    }
}
