//! One real node: a card with its engine, the program beside it, its membership agent, and the membership service if it runs here.

use std::io::{self, Write};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_cluster::{
    Action, Agent, AgentParameters, ClusterName, Incarnation, Membership, Misfit, NodeConfig, Profile,
    ROCE_PORT, Reason,
};
use weft_kv::{ParametersError, Role};
use weft_nic::{Card, CardConfig, HostCommand, HostEvent};
use weft_time::{Duration, Instant};
use weft_waist::{Memory, NODES_MAX, NodeId, View};
use weft_wire::datagram;

use crate::announcement::{Announcement, Announcer};
use crate::card_ports::Outgoing;
use crate::membership::{MembershipHost, say};
use crate::program::{KeyValue, Program};
use crate::{
    BindError, CardPorts, Clock, Datagram, Endpoint, IdlePolicy, MembershipError, NoSuchCore, PortOptions,
    Stop, UdpPort, keep_to_core, run,
};

/// The ports of a node, by their index. The last is there only where the membership service is embedded.
const DATAGRAM: usize = 0;
const ROCE: usize = 1;
const AGENT: usize = 2;
const SERVICE: usize = 3;

/// The slot of a node's engine.
pub(crate) const ENGINE_SLOT: u8 = 0;

/// The slot of the key-value engine.
pub const KV_SLOT: u8 = ENGINE_SLOT;

/// Bytes behind each region target of the card. The node registers no region of its own.
const REGION_BYTES: usize = 64 << 10;

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// One of its ports cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// It cannot run on the configured core.
    #[error("[cores]: {0}")]
    Core(#[from] NoSuchCore),
    /// The engine cannot have these sizes.
    #[error("[kv]: {0}")]
    Parameters(#[from] ParametersError),
    /// The embedded membership service fails.
    #[error("membership service: {0}")]
    Membership(#[from] MembershipError),
    /// What is read and written cannot be recorded.
    #[error("[transactions] record = \"{}\": {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It does not belong to the cluster whose membership service it has found.
    #[error(transparent)]
    Misfit(Box<Misfit>),
    /// Another process runs the same node.
    #[error("{}", Reason::Taken)]
    Taken,
    /// A socket has become useless.
    #[error("the network fails: {0}")]
    Network(#[from] io::Error),
}

/// A node as an [`Endpoint`] over the ports that [`Node::open`] returns with it.
///
/// It writes a line when it is ready, and one each time that its part in the cluster changes: an [`Announcement`], or
/// why it waits or starts over.
pub struct Node<'a, P: Program = KeyValue> {
    clock: Clock,
    card: CardPorts<P::Engine>,
    program: P,
    /// Datagrams of the program.
    outgoing: Outgoing,
    peers: [Option<SocketAddrV4>; NODES_MAX],
    agent: Agent,
    registration: (ClusterName, Profile),
    service_address: SocketAddrV4,
    service: Option<MembershipHost>,
    announced: Option<(View, Role)>,
    refusal: Option<Reason>,
    misfit: Option<Misfit>,
    strangers: u64,
    failure: Option<NodeError>,
    stop: &'a Stop,
    out: &'a mut (dyn Write + Send),
}

impl<'a> Node<'a> {
    /// Opens the ports of the configured node of a key-value cluster. It requests `stop` when it cannot go on, and says why in
    /// [`Node::into_result`].
    ///
    /// # Errors
    /// A port cannot be opened, the engine cannot have the configured sizes, or the state file of the membership
    /// service cannot be used.
    ///
    /// # Panics
    /// If the configuration has no `[kv]`.
    pub fn open(
        config: &NodeConfig,
        clock: Clock,
        stop: &'a Stop,
        out: &'a mut (dyn Write + Send),
    ) -> Result<(Self, Vec<UdpPort>), NodeError> {
        let (engine, memory) = KeyValue::engine(config)?;
        Node::open_with(config, (engine, memory), |_, _| KeyValue, clock, stop, out)
    }
}

impl<'a, P: Program> Node<'a, P> {
    /// As [`Node::open`], for any engine; `program` makes what runs beside it, in the first life of the node.
    pub(crate) fn open_with(
        config: &NodeConfig,
        engine: (P::Engine, Memory),
        program: impl FnOnce(Incarnation, &mut Card<P::Engine>) -> P,
        clock: Clock,
        stop: &'a Stop,
        out: &'a mut (dyn Write + Send),
    ) -> Result<(Self, Vec<UdpPort>), NodeError> {
        let own = config.own();
        let standard = PortOptions::default();
        // A real link's receive offload may join datagrams, which hides the identifications that the ICRC covers.
        let roce = PortOptions { segmentation: own.address.is_loopback(), ..standard };
        let mut ports = vec![
            UdpPort::bind(own.datagram_address(), &standard)?,
            UdpPort::bind(SocketAddrV4::new(own.address, ROCE_PORT), &roce)?,
            UdpPort::bind(SocketAddrV4::new(own.address, 0), &standard)?,
        ];
        if config.membership.serve.is_some() {
            ports.push(UdpPort::bind(config.membership.address, &standard)?);
        }
        let service = MembershipHost::of_node(config, clock.now()).transpose()?;
        let mut peers = [None; NODES_MAX];
        for (node, peer) in config.peers.iter() {
            peers[node.index()] = Some(peer.datagram_address());
        }
        let card_config = CardConfig {
            peers,
            datagram_bytes: datagram_bytes(config),
            transport: weft_rdma::Config::default(),
            region_bytes: REGION_BYTES,
        };
        let mut card = Card::new(card_config, vec![engine]);
        let incarnation = first_incarnation();
        let program = program(incarnation, &mut card);
        let registration = (config.cluster, config.profile());
        let agent = agent(config.node, incarnation, registration.clone());
        say(out, &format_args!("node {} ready on {}", config.node.index(), own.datagram_address()));
        let node = Self {
            clock,
            card: CardPorts::new(card, own.address),
            program,
            outgoing: Outgoing::default(),
            peers,
            agent,
            registration,
            service_address: config.membership.address,
            service,
            announced: None,
            refusal: None,
            misfit: None,
            strangers: 0,
            failure: None,
            stop,
            out,
        };
        Ok((node, ports))
    }

    /// How the node has ended.
    ///
    /// # Errors
    /// What it could not go on with.
    pub fn into_result(self) -> Result<(), NodeError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Counters of the card, the engine and, where it is embedded, the membership service.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let service = self.service.iter().flat_map(MembershipHost::counters);
        let own = [("membership_strangers", self.strangers)];
        self.card.card().counters().into_iter().chain(own).chain(service).collect()
    }

    fn fail(&mut self, error: NodeError) {
        self.failure.get_or_insert(error);
        self.stop.request();
    }

    /// Carries news between engine and agent until there are none.
    fn settle(&mut self, now: Instant) {
        loop {
            let card = self.card.card_mut();
            card.complete_all_dma(now);
            while let Some(event) = card.poll_host() {
                match event {
                    HostEvent::Status { status, .. } => self.agent.engine_status(now, status),
                    HostEvent::Reply { token, kind, payload } => {
                        self.program.replied(now, token, (kind, &payload), card);
                    }
                    HostEvent::Frame(_) | HostEvent::Completion(_) => {}
                }
            }
            if self.program.settle(now, card) {
                continue;
            }
            let Some(configuration) = self.agent.poll_configuration() else { break };
            self.program.configure(now, &configuration, card);
            card.submit(now, HostCommand::Configure(configuration));
        }
        match self.agent.poll_action() {
            None => {}
            Some(Action::Stop) => {
                let misfit = self.agent.misfit().map(|misfit| NodeError::Misfit(Box::new(misfit)));
                self.fail(misfit.unwrap_or(NodeError::Taken));
            }
            Some(Action::Restart { incarnation }) => self.start_over(now, incarnation),
        }
        if let Err(error) = self.program.record(self.card.card_mut()) {
            self.fail(error);
        }
        self.report(now);
    }

    /// Queues what the lease holder says and, where it is embedded, the membership service.
    fn transmit_membership(&mut self, now: Instant, ports: &mut [UdpPort]) {
        if let Some(heartbeat) = self.agent.poll_transmit(now) {
            // One that finds no room is lost like any other datagram: the next one follows soon.
            ports[AGENT].push(self.service_address, &heartbeat);
        }
        if let Some(service) = &mut self.service {
            if let Err(error) = service.transmit(&mut ports[SERVICE]) {
                self.fail(error.into());
            } else {
                service.report(self.clock, now, self.out);
            }
        }
    }

    /// Empties the engine and begins its next life.
    fn start_over(&mut self, now: Instant, incarnation: Incarnation) {
        self.program.start_over(now, incarnation, self.card.card_mut());
        while self.card.card_mut().poll_host().is_some() {}
        let (node, why) = (self.agent.node(), self.agent.refusal());
        self.agent = agent(node, incarnation, self.registration.clone());
        let reason = why.unwrap_or(Reason::Rejoin);
        say(self.out, &format_args!("node {} starts over: {reason}", node.index()));
    }

    /// Says what has changed since the last call.
    fn report(&mut self, now: Instant) {
        let node = self.agent.node();
        let role = self.program.role(self.card.card().engine(ENGINE_SLOT).0);
        let at = (self.agent.view(), role);
        if self.announced.unwrap_or((View::default(), Role::Outside)) != at {
            self.announced = Some(at);
            let (view, role) = at;
            let announcer = Announcer::Node(node, role);
            let at_ns = self.clock.monotonic_ns(now);
            say(self.out, &Announcement { announcer, view, at_ns });
        }
        let refusal = self.agent.refusal();
        if refusal != self.refusal {
            self.refusal = refusal;
            if let Some(reason) = refusal {
                say(self.out, &format_args!("node {} waits: {reason}", node.index()));
            }
        }
        let misfit = self.agent.misfit();
        if misfit != self.misfit {
            self.misfit = misfit;
            // One that was never a member ends, and its last line says why.
            if let Some(misfit) = misfit.filter(|_| self.failure.is_none()) {
                say(self.out, &format_args!("node {} waits: {misfit}", node.index()));
            }
        }
    }
}

/// How long a node that stops waits for the membership service to know.
const FAREWELL: Duration = Duration::from_ms(500);

/// A node whose engine has stopped, and which tells the membership service so. What else arrives is not heard any more.
struct Leaving<'a, 'b, P: Program> {
    node: &'a mut Node<'b, P>,
    until: Instant,
    done: &'a Stop,
}

impl<P: Program> Endpoint for Leaving<'_, '_, P> {
    fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_>) {
        if port == AGENT || port == SERVICE {
            self.node.receive(now, port, datagram);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let service = self.node.service.as_ref().map(MembershipHost::next_deadline);
        service.into_iter().chain([self.until, self.node.agent.next_deadline()]).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        if let Some(service) = &mut self.node.service {
            service.handle_deadline(now);
        }
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        self.node.transmit_membership(now, ports);
        if self.node.agent.has_left() || now >= self.until || self.node.failure.is_some() {
            self.done.request();
        }
    }
}

impl<P: Program> Endpoint for Node<'_, P> {
    fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_>) {
        match port {
            DATAGRAM if !self.peers.contains(&Some(datagram.from)) && self.program.receive(now, datagram) => {
            }
            DATAGRAM => self.card.receive_datagram(now, datagram),
            ROCE => self.card.receive_roce(now, datagram),
            AGENT if datagram.from == self.service_address => {
                // What answers no heartbeat of this life changes nothing.
                let _ = self.agent.receive(now, datagram.bytes);
            }
            AGENT => self.strangers += 1,
            _ => {
                if let Some(service) = &mut self.service {
                    service.receive(now, datagram);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let service = self.service.as_ref().map(MembershipHost::next_deadline);
        let card = self.card.card().next_deadline();
        let program = self.program.next_deadline();
        [card, service, program].into_iter().flatten().chain([self.agent.next_deadline()]).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.card.card_mut().handle_deadline(now);
        self.program.handle_deadline(now);
        if let Some(service) = &mut self.service {
            service.handle_deadline(now);
        }
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        self.settle(now);
        if self.failure.is_some() {
            return;
        }
        self.card.transmit_datagrams(&mut ports[DATAGRAM]);
        self.outgoing.transmit(&mut ports[DATAGRAM], |datagram| self.program.poll_datagram(datagram));
        self.card.transmit_roce(now, &mut ports[ROCE]);
        self.transmit_membership(now, ports);
    }
}

/// Runs a node of a key-value cluster in this thread, on the configured core, until `stop` is requested. It writes to `out` what [`Node`] says,
/// beginning with `node 0 ready on 127.0.0.1:4793`, and at the end every counter that is not zero (`node 0 counted writes_led 12`).
///
/// # Errors
/// What keeps it from running: each is one line that says what to do.
///
/// # Panics
/// If the configuration has no `[kv]`.
pub fn run_node(config: &NodeConfig, stop: &Stop, out: &mut (dyn Write + Send)) -> Result<(), NodeError> {
    run_opened(config, stop, out, |clock, stop, out| Node::open(config, clock, stop, out))
}

/// Runs the node that `open` opens, as [`run_node`] says.
pub(crate) fn run_opened<P: Program>(
    config: &NodeConfig,
    stop: &Stop,
    out: &mut (dyn Write + Send),
    open: impl for<'a> FnOnce(
        Clock,
        &'a Stop,
        &'a mut (dyn Write + Send),
    ) -> Result<(Node<'a, P>, Vec<UdpPort>), NodeError>,
) -> Result<(), NodeError> {
    config.cores.core.map_or(Ok(()), keep_to_core)?;
    let clock = Clock::starting_now();
    let policy = IdlePolicy::share_then_sleep(config.cores.spin);
    let (mut node, mut ports) = open(clock, stop, out)?;
    run(&mut node, &mut ports, clock, policy, stop)?;
    if node.failure.is_none() {
        // The engine serves nothing from here on, so the others need not wait for the end of its lease.
        let now = clock.now();
        node.agent.leave(now);
        let done = Stop::new()?;
        let mut leaving = Leaving { node: &mut node, until: now + FAREWELL, done: &done };
        run(&mut leaving, &mut ports, clock, IdlePolicy::SLEEP, &done)?;
    }
    if let Err(error) = node.program.end(node.card.card_mut()) {
        node.fail(error);
    }
    for (name, count) in node.counters().into_iter().filter(|(_, count)| *count > 0) {
        say(node.out, &format_args!("node {} counted {name} {count}", config.node.index()));
    }
    let names = ["datagram", "roce", "agent", "membership"];
    for (name, port) in names.into_iter().zip(&ports) {
        let drops = ("receive_buffer_drops", port.receive_buffer_drops().map_or(0, u64::from));
        let counters = port.counters().named().into_iter().chain([drops]);
        for (counter, count) in counters.filter(|(_, count)| *count > 0) {
            let node_number = config.node.index();
            say(node.out, &format_args!("node {node_number} counted {name}_port_{counter} {count}"));
        }
    }
    node.into_result()
}

/// The longest Weft datagram that the network and the format take.
pub(crate) fn datagram_bytes(config: &NodeConfig) -> usize {
    config.datagram_bytes().min(datagram::BYTES_MAX)
}

/// The longest message that fits into a datagram by itself.
pub(crate) fn message_bytes(config: &NodeConfig) -> usize {
    let around = datagram::HEADER_BYTES + datagram::MESSAGE_HEADER_BYTES + datagram::TRAILER_BYTES;
    datagram_bytes(config) - around
}

/// The lease holder of a life of the node.
fn agent(node: NodeId, incarnation: Incarnation, (cluster, profile): (ClusterName, Profile)) -> Agent {
    Agent::new(node, incarnation, AgentParameters::default()).of_cluster(cluster, profile)
}

/// A number that no earlier process of the node had: the wall clock's nanoseconds.
fn first_incarnation() -> Incarnation {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    u64::try_from(since).ok().and_then(Incarnation::new).unwrap_or(Incarnation::FIRST)
}
