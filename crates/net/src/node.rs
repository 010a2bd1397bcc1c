//! One real node over sockets: its card, the host program of `weft-node`, and the membership service if it runs
//! here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_cluster::status::{COUNTERS_PER_PAGE, CounterPage, NodeStatus, StatusAnswer, StatusPart, is_status};
use weft_cluster::{
    AgentParameters, Incarnation, Mismatch, NodeConfig, ROCE_PORT, Reason, Tables, Text, is_membership,
};
use weft_kv::Role;
use weft_nic::{Card, HostCommand};
use weft_node::{
    CardParameters, CardPort, EngineChoice, FoundAgain, HostHalf, NodeEngine, NodeHalf, NodeParameters,
    Registry, RegistryError, Report, assemble, datagram_bytes, processes,
};
use weft_time::{Duration, Instant};
use weft_verbs::{PathMtu, Target};
use weft_waist::{NodeId, View};

use crate::announcement::{Announcement, Announcer, name_of};
use crate::cluster_card::ClusterCard;
use crate::data::open_log;
use crate::exit_watch::ExitWatch;
use crate::inside;
use crate::membership::{MembershipHost, NodeKeeper};
use crate::metrics::{Board, MetricsError, MetricsServer};
use crate::readings;
use crate::redis::{RedisError, RedisServer};
use crate::resolve::own_address;
use crate::status::StatusDesk;
use crate::system;
use crate::transactions::RecordFile;
use crate::watch::{NodeMonitor, OversizeMonitor};
use crate::{
    BindError, Clock, Datagram, Directory, Endpoint, IdlePolicy, KeyFileError, MembershipError, NoSuchCore,
    PortOptions, Seal, Stop, UdpPort, WAKE, keep_to_core, run,
};

/// Indices of a node's ports. The last one exists only where the membership service is embedded. The port of the server
/// for clients of Redis is behind them.
const DATAGRAM: usize = 0;
const ROCE: usize = 1;
const AGENT: usize = 2;
const SERVICE: usize = 3;

/// The most times in a round that the server for clients of Redis and the node's own engine exchange requests and
/// answers. A scan of the table, for example, has a request for each part of it.
const EXCHANGES_MAX: u32 = 4;

/// Interval at which ports are checked and metrics published: shorter than that of any scraper.
const PUBLISH_INTERVAL: Duration = Duration::from_ms(250);

/// Why a node does not run, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// One of its ports cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The node cannot run on the configured core.
    #[error("[cores]: {0}")]
    Core(#[from] NoSuchCore),
    /// The cluster key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// Its metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// Its port for clients of Redis cannot be opened.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Its engines cannot be made.
    #[error(transparent)]
    Engines(#[from] RegistryError),
    /// The embedded membership service fails.
    #[error("membership service: {0}")]
    Membership(#[from] MembershipError),
    /// The record of reads and writes cannot be written.
    #[error("[transactions] record = \"{}\": {source}", path.display())]
    Record {
        /// Path of the record file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The node does not belong to the cluster of the membership service that it has reached.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// Another process runs the same node.
    #[error("{}", Reason::Taken)]
    Taken,
    /// The file with its data cannot be used.
    #[error("data_dir: {0}")]
    Disk(String),
    /// The memory of its tables cannot be taken at start.
    #[error(
        "[cluster] tables: the memory cannot be taken ({0}): configure smaller tables, or take it \"on-demand\""
    )]
    Tables(#[source] io::Error),
    /// A socket cannot be used any more.
    #[error("the network fails: {0}")]
    Network(#[from] io::Error),
}

/// A card in the same process as its host: a command is executed at once.
struct OwnCard<'a> {
    card: &'a mut Card<NodeEngine>,
    now: Instant,
}

impl CardPort for OwnCard<'_> {
    fn submit(&mut self, command: HostCommand<'_>) {
        let reset = if let HostCommand::Reset { engine } = command { Some(engine) } else { None };
        self.card.submit(self.now, command);
        if let Some(engine) = reset {
            system::refuse_huge_pages(self.card.engine(engine).1.image());
        }
    }

    fn host_memory(&mut self) -> &mut Vec<u8> {
        self.card.region_memory().bytes_mut(Target::Host)
    }
}

/// Where a node publishes its metrics, and the server that serves them.
struct Metrics {
    board: Board,
    /// The server runs until this is dropped.
    _server: MetricsServer,
}

impl Metrics {
    fn open(address: SocketAddr) -> Result<Self, MetricsError> {
        let board = Board::default();
        let server = MetricsServer::start(address, board.clone())?;
        Ok(Self { board, _server: server })
    }
}

/// The server for clients of Redis, with the index of its port.
struct Redis {
    server: RedisServer,
    port: usize,
    /// Whether the server and the engines have more for each other.
    goes_on: bool,
}

impl Redis {
    fn next_deadline(&self) -> Option<Instant> {
        if self.goes_on { Some(Instant::ZERO) } else { self.server.next_deadline() }
    }
}

/// A node as an [`Endpoint`] over the ports that [`Node::open`] returns with it.
///
/// The node logs when it is ready, and each time that its role in the cluster changes: an [`Announcement`], or why
/// it waits or restarts.
pub struct Node<'a> {
    clock: Clock,
    card: ClusterCard,
    node: weft_node::Node<NodeHalf>,
    /// Where the nodes receive Weft's datagrams, by number, and behind them, where the membership service or each of
    /// its keepers does.
    directory: Directory,
    /// Number of nodes of the cluster.
    nodes: usize,
    service: Option<MembershipHost>,
    record: Option<RecordFile>,
    announced: Option<(View, Role)>,
    /// Whether the engine keeps data on disk, and the log does not tell yet what was recovered from there.
    recovery_unreported: bool,
    watch: NodeMonitor,
    desk: StatusDesk,
    metrics: Option<Metrics>,
    redis: Option<Box<Redis>>,
    /// Names of the ports in counters, by their indices.
    port_names: Vec<&'static str>,
    next_publish: Instant,
    oversize: OversizeMonitor,
    strangers: u64,
    exit_watch: Option<ExitWatch>,
    failure: Option<NodeError>,
    stop: &'a Stop,
}

impl<'a> Node<'a> {
    /// Opens the ports of the configured node, whose host has the address `own`. Its engines use the data types and
    /// procedures in `registry`. If the node cannot go on, it requests `stop`, and [`Node::into_result`] returns the
    /// reason.
    ///
    /// # Errors
    /// A port cannot be opened, an engine cannot be made as configured, or a file cannot be used.
    pub fn open(
        config: &NodeConfig,
        own: IpAddr,
        registry: &Registry<'_>,
        (clock, stop): (Clock, &'a Stop),
    ) -> Result<(Self, Vec<UdpPort<SocketAddr>>), NodeError> {
        let mut engines = registry.engines(config)?;
        let standard = PortOptions::default();
        // The receive offload of a real link may join datagrams, which hides the identifications that the ICRC
        // covers. So segmentation is on only on loopback, and with IPv6, which has no identifications.
        let roce = PortOptions { segmentation: own.is_loopback() || own.is_ipv6(), ..standard };
        let seal = Seal::load(config.security.as_ref(), config.cluster)?;
        let open = |port, options| {
            UdpPort::bind(SocketAddr::new(own, port), options).map(|port| port.sealed(seal.as_ref()))
        };
        let datagram_port = config.own().datagram_port;
        let mut ports = vec![open(datagram_port, &standard)?, open(ROCE_PORT, &roce)?, open(0, &standard)?];
        let mut port_names = vec!["datagram", "roce", "agent"];
        let service = config.service().filter(|service| service.coordinators.is_empty());
        let service = service.map(|service| {
            let mut port = open(service.address.port, &standard)?;
            let host = MembershipHost::open(&service, port.local_address(), clock.now())?;
            port.set_waker(host.waker());
            ports.push(port);
            port_names.push("membership");
            Ok::<_, NodeError>(host)
        });
        let service = service.transpose()?;
        let record =
            config.engines.transactions.as_ref().and_then(|transactions| transactions.record.clone());
        let open_record =
            |path: PathBuf| RecordFile::open(&path).map_err(|source| NodeError::Record { path, source });
        let record = record.map(open_record).transpose()?;
        let metrics = config.metrics_port.map(|port| Metrics::open(SocketAddr::new(own, port)));
        let metrics = metrics.transpose()?;
        let mut redis = None;
        if let Some(settings) = &config.redis {
            let (server, port) = RedisServer::open(config, settings, own, clock)?;
            redis = Some(Box::new(Redis { server, port: ports.len(), goes_on: false }));
            ports.push(port.sealed(seal.as_ref()));
            port_names.push("redis");
        }
        let fresh = fresh_incarnation();
        let incarnation = open_data(config, &mut engines, fresh, &mut ports[AGENT])?;
        let parameters = CardParameters {
            node: config.node,
            first_session: fresh.get(),
            peers: (0..config.peers.len()).map(inside::node).collect(),
            datagram_bytes: datagram_bytes(config),
            connection: processes::connection_parameters(path_mtu(config)),
        };
        let (card, halves) = assemble(&parameters, engines);
        for slot in 0..halves.len() as u8 {
            let memory = card.engine(slot).1.image();
            match config.tables {
                Tables::OnDemand => system::refuse_huge_pages(memory),
                Tables::Preallocated => system::populate(memory).map_err(NodeError::Tables)?,
            }
        }
        let parameters = NodeParameters {
            node: config.node,
            incarnation,
            agent: AgentParameters {
                keepers: config.membership_places().len(),
                ..AgentParameters::default()
            },
            identity: Some((config.cluster, config.profile())),
        };
        let (number, address) = (config.node.index(), ports[DATAGRAM].local_address());
        tracing::info!(node = number, %address, "node {number} ready on {address}");
        match &config.security {
            Some(security) => {
                let key_file = security.key_file.display();
                tracing::info!(node = number, %key_file, "node {number} seals its datagrams under {key_file}");
            }
            None => tracing::info!(
                node = number,
                "node {number} trusts whoever reaches its ports: weft.toml has no [security]"
            ),
        }
        let mut node = Self {
            clock,
            card: ClusterCard::new(card, config.peers.len(), own),
            node: weft_node::Node::new(parameters, halves),
            directory: Directory::of_cluster(config, own)?,
            nodes: config.peers.len(),
            service,
            record,
            announced: None,
            recovery_unreported: config.engines.data_dir.is_some(),
            watch: NodeMonitor::new(config),
            desk: StatusDesk::new(config.cluster.id()),
            metrics,
            redis,
            port_names,
            next_publish: Instant::ZERO,
            oversize: OversizeMonitor::new(config.node),
            strangers: 0,
            exit_watch: None,
            failure: None,
            stop,
        };
        let now = clock.now();
        node.node.begin(now, &mut OwnCard { card: node.card.card_mut(), now });
        Ok((node, ports))
    }

    /// How the node has ended.
    ///
    /// # Errors
    /// Why the node could not go on.
    pub fn into_result(self) -> Result<(), NodeError> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Counters of the card, the engines and, if it is embedded, the membership service.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let service = self.service.iter().flat_map(|service| service.counters().list());
        let own = [
            ("membership_strangers", self.strangers),
            ("status_refused", self.desk.refused()),
            ("undelivered", self.card.undelivered()),
        ];
        self.card.card().counters().into_iter().chain(own).chain(service).collect()
    }

    /// Answers a status request.
    fn answer_status(&mut self, now: Instant, datagram: Datagram<'_, SocketAddr>) {
        let Some(request) = self.desk.take(now, datagram.bytes) else { return };
        let card = self.card.card();
        let answer = match request.part {
            StatusPart::Node => StatusAnswer::Node(self.status(now)),
            StatusPart::Engine(slot) if slot < self.node.slots() => {
                StatusAnswer::Engine(self.watch.engine(slot, now, &self.node, card))
            }
            StatusPart::Counters(page) => {
                let counters = self.counters().into_iter();
                let page_of = counters.skip(usize::from(page) * COUNTERS_PER_PAGE).take(COUNTERS_PER_PAGE);
                let counters = page_of.filter_map(|(name, count)| Some((Text::new(name)?, count))).collect();
                StatusAnswer::Counters(CounterPage { page, counters })
            }
            // The membership service answers these, at its own port.
            StatusPart::Engine(_) | StatusPart::Service => return,
        };
        self.desk.answer(datagram.from, &request, &answer);
    }

    fn status(&self, now: Instant) -> NodeStatus {
        let node = &self.node;
        NodeStatus {
            node: node.id(),
            incarnation: node.incarnation(),
            uptime: now.saturating_since(Instant::ZERO),
            view: node.view(),
            lease: node.lease().unwrap_or(Duration::ZERO),
            lease_left: node.lease_until().saturating_since(now),
            refusal: node.refusal(),
            engines: node.slots(),
            counters: self.counters().len() as u16,
        }
    }

    /// Publishes the metrics, if they are served.
    fn publish(&self, now: Instant, ports: &[UdpPort<SocketAddr>]) {
        if self.metrics.is_none() {
            return;
        }
        let status = self.status(now);
        let role = self.role();
        let mut readings: Vec<_> = readings::of_node(&status, role == Role::Full).into();
        let card = self.card.card();
        for slot in 0..self.node.slots() {
            let report = self.watch.engine(slot, now, &self.node, card);
            readings.extend(readings::of_engine(card.engine(slot).0, &report));
        }
        readings.extend(readings::of_card(card.own_counters()));
        for (name, port) in self.port_names.iter().zip(ports) {
            readings.extend(readings::of_port(name, port));
        }
        readings.extend(self.service.iter().flat_map(|service| readings::of_service(service.counters())));
        let unready = if role != Role::Full {
            format!("the node is {}", name_of(role))
        } else if status.lease_left == Duration::ZERO {
            "the node has no lease".to_owned()
        } else {
            String::new()
        };
        if let Some(metrics) = &self.metrics {
            metrics.board.publish(self.node.id().index(), readings, unready);
        }
    }

    fn fail(&mut self, error: NodeError) {
        self.failure.get_or_insert(error);
        self.stop.request();
    }

    /// Passes events between card and host until there are no more.
    fn settle(&mut self, now: Instant) {
        let card = self.card.card_mut();
        loop {
            card.complete_all_dma(now);
            let Some(event) = card.poll_host() else { break };
            self.node.host_event(now, event, &mut OwnCard { card, now });
        }
        if let Err(error) = self.keep_records() {
            self.fail(error);
        }
        for slot in 0..self.node.slots() {
            if let Some(error) = self.node.half(slot).failure() {
                let error = NodeError::Disk(error.to_string());
                self.fail(error);
            }
        }
        self.report_recovery();
        self.report(now);
    }

    /// Logs once what was recovered from the disk.
    fn report_recovery(&mut self) {
        if !self.recovery_unreported {
            return;
        }
        let node = self.node.id().index();
        match (0..self.node.slots()).find_map(|slot| self.node.half(slot).found_again()) {
            None => return,
            Some(nothing @ FoundAgain::Nothing(_)) => tracing::warn!(node, "node {node} {nothing}"),
            Some(found) => tracing::info!(node, "node {node} {found}"),
        }
        self.recovery_unreported = false;
    }

    /// Writes records of the reads and writes of attempts, before any message about them is sent.
    fn keep_records(&mut self) -> Result<(), NodeError> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let card = self.card.card_mut();
        for slot in 0..self.node.slots() {
            if let Some(engine) = card.engine_mut(slot).transactions_mut() {
                engine.take_records().iter().for_each(|attempt| record.attempt(attempt));
            }
        }
        record.flush().map_err(|source| NodeError::Record { path: record.path().to_owned(), source })
    }

    /// Records the final content of the tables.
    fn close_records(&mut self) -> Result<(), NodeError> {
        if let Some(record) = &mut self.record {
            let memory = self.card.card().image(Target::Host);
            for slot in 0..self.node.slots() {
                if let NodeHalf::Transactions(half) = self.node.half(slot) {
                    half.half().for_each(memory, |key, version, value| record.object(key, version, value));
                }
            }
        }
        self.keep_records()
    }

    /// Moves the engines' datagrams to their port, and those between the engines and the server for clients of Redis,
    /// until neither has more for the other or it is time for the node's other work. Returns the time, which has gone
    /// on.
    fn transmit_datagrams(&mut self, mut now: Instant, ports: &mut [UdpPort<SocketAddr>]) -> Instant {
        let Some(mut redis) = self.redis.take() else {
            self.card.transmit_datagrams(&mut ports[DATAGRAM], &self.directory, |_| {});
            return now;
        };
        let Redis { server, port, goes_on } = &mut *redis;
        for _ in 0..EXCHANGES_MAX {
            // Requests of clients have arrived since the round began, and the node may serve them only if its lease is
            // valid by now.
            now = self.clock.now();
            server.transmit(&mut ports[*port], &self.directory, |bytes| self.card.receive_own(now, bytes));
            self.settle(now);
            *goes_on = false;
            self.card.transmit_datagrams(&mut ports[DATAGRAM], &self.directory, |answer| {
                server.receive(now, answer);
                *goes_on = true;
            });
            if !*goes_on {
                break;
            }
        }
        self.redis = Some(redis);
        now
    }

    /// Writes answers to clients of Redis. Datagrams are sent before, so that the other nodes work meanwhile.
    fn write_answers(&mut self, ports: &mut [UdpPort<SocketAddr>]) {
        let Some(redis) = self.redis.as_mut().filter(|redis| redis.server.has_answers()) else { return };
        let sent = ports[DATAGRAM].flush().and_then(|_| ports[redis.port].flush());
        redis.server.write_answers();
        if let Err(error) = sent {
            self.fail(error.into());
        }
    }

    /// Queues the datagrams of the agent and, if it is embedded, of the membership service.
    fn transmit_membership(&mut self, now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        // If a port is full, a beacon or heartbeat is lost like any other datagram: the next one follows soon.
        let (nodes, own) = (self.nodes, self.node.id().index());
        if let Some(beacon) = self.node.poll_beacon(now) {
            for node in (0..nodes).filter(|node| *node != own) {
                if let Some(address) = self.directory.address(node) {
                    self.directory.note_sent(now, node);
                    ports[DATAGRAM].push(address, &beacon);
                }
            }
        }
        if let Some(heartbeat) = self.node.poll_membership(now) {
            let keeper = nodes + self.node.keeper();
            if let Some(address) = self.directory.address(keeper) {
                self.directory.note_sent(now, keeper);
                ports[AGENT].push(address, &heartbeat);
            }
        }
        if let Some(service) = &mut self.service {
            if let Err(error) = service.transmit(self.clock, &mut ports[SERVICE], &mut self.directory) {
                self.fail(error.into());
            } else {
                service.report(self.clock, now);
            }
        }
    }

    /// The node's role in its view: that of the engine that is the farthest from serving.
    fn role(&self) -> Role {
        const ORDER: [Role; 5] = [Role::Lost, Role::Outside, Role::Joining, Role::Sealed, Role::Full];
        let card = self.card.card();
        let slots = (0..self.node.slots()).filter(|slot| self.node.half(*slot).follows_views());
        let roles = slots.map(|slot| card.engine(slot).0.role());
        let rank = |role: &Role| ORDER.iter().position(|known| known == role);
        let (view, id) = (self.node.view(), self.node.id());
        // If no engine follows views, the view alone determines the role.
        roles.min_by_key(rank).unwrap_or(match (view.full.contains(id), view.joining.contains(id)) {
            (true, _) => Role::Full,
            (false, true) => Role::Joining,
            (false, false) => Role::Outside,
        })
    }

    /// Logs what has changed since the last call.
    fn report(&mut self, now: Instant) {
        if let Some(watch) = &mut self.exit_watch {
            watch.note(self.node.incarnation());
        }
        let at = (self.node.view(), self.role());
        if self.announced.unwrap_or((View::default(), Role::Outside)) != at {
            self.announced = Some(at);
            let (view, role) = at;
            let announcer = Announcer::Node(self.node.id(), role);
            let at_ns = self.clock.monotonic_ns(now);
            Announcement { announcer, view, at_ns }.log();
        }
        let stops = self.node.has_stopped();
        while let Some(report) = self.node.poll_report() {
            match report {
                Report::Taken(_) => self.fail(NodeError::Taken),
                // The node stops, so the mismatch is not logged: the node ends with it as its error.
                Report::Mismatch(_, mismatch) if stops => self.fail(NodeError::Mismatch(Box::new(mismatch))),
                report => log(&report),
            }
        }
    }
}

/// Logs a report for the operator, at the level that its cause deserves.
fn log(report: &Report) {
    match report {
        Report::Refused(node, Reason::Partitioned) => tracing::warn!(node = node.index(), "{report}"),
        Report::Refused(node, _) => tracing::info!(node = node.index(), "{report}"),
        Report::Mismatch(node, _) | Report::Rejoins(node, _) => {
            tracing::warn!(node = node.index(), "{report}");
        }
        Report::Taken(node) => tracing::error!(node = node.index(), "{report}"),
    }
}

/// How long a node that stops waits until the membership service has confirmed that it has left.
const LEAVE_TIMEOUT: Duration = Duration::from_ms(500);

/// A node whose engines have stopped, and which notifies the membership service. All other datagrams are dropped.
struct Leaving<'a, 'b> {
    node: &'a mut Node<'b>,
    until: Instant,
    done: &'a Stop,
}

impl Endpoint<SocketAddr> for Leaving<'_, '_> {
    fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_, SocketAddr>) {
        if port == AGENT || port == SERVICE {
            self.node.receive(now, port, datagram);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let service = self.node.service.as_ref().map(MembershipHost::next_deadline);
        service.into_iter().chain(self.node.node.next_deadline()).chain([self.until]).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        if let Some(service) = &mut self.node.service {
            service.handle_deadline(now);
        }
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        self.node.transmit_membership(now, ports);
        if self.node.node.has_left() || now >= self.until || self.node.failure.is_some() {
            self.done.request();
        }
    }
}

impl Endpoint<SocketAddr> for Node<'_> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.redis.as_ref().map(|redis| redis.server.watched())
    }

    fn receive_from_descriptor(&mut self) -> io::Result<usize> {
        self.redis.as_mut().map_or(Ok(0), |redis| redis.server.serve())
    }

    fn receive(&mut self, now: Instant, port: usize, datagram: Datagram<'_, SocketAddr>) {
        let sender = self.directory.find(datagram.from);
        if let Some(sender) = sender {
            self.directory.note_heard(sender);
        }
        let node = sender.filter(|node| *node < self.nodes);
        if let Some(redis) = self.redis.as_mut().filter(|redis| redis.port == port) {
            if node.is_some() {
                redis.server.receive(now, datagram.bytes);
            }
            return;
        }
        match port {
            DATAGRAM if is_status(datagram.bytes) => self.answer_status(now, datagram),
            DATAGRAM if is_membership(datagram.bytes) => {
                let peer = node.and_then(NodeId::new).filter(|peer| *peer != self.node.id());
                let is_beacon = peer.is_some_and(|peer| self.node.receive_beacon(now, peer, datagram.bytes));
                self.strangers += u64::from(!is_beacon);
            }
            DATAGRAM => self.card.receive_datagram(now, node, datagram),
            ROCE => self.card.receive_roce(now, &self.directory, datagram),
            AGENT if sender.is_some_and(|sender| sender >= self.nodes) => {
                let card = &mut OwnCard { card: self.card.card_mut(), now };
                self.node.receive_membership(now, datagram.bytes, card);
            }
            // The disk has finished a flush.
            AGENT if datagram.bytes == WAKE => {
                let card = &mut OwnCard { card: self.card.card_mut(), now };
                self.node.handle_deadline(now, card);
            }
            AGENT => self.strangers += 1,
            _ => {
                if let Some(service) = &mut self.service {
                    service.receive(now, datagram, &mut self.directory);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let service = self.service.as_ref().map(MembershipHost::next_deadline);
        let card = self.card.card().next_deadline();
        let watch = Some(self.watch.next_check());
        let publish = Some(self.next_publish);
        let redis = self.redis.as_ref().and_then(|redis| redis.next_deadline());
        let directory = self.directory.next_deadline();
        [card, service, self.node.next_deadline(), watch, publish, redis, directory]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        let card = self.card.card_mut();
        card.handle_deadline(now);
        self.node.handle_deadline(now, &mut OwnCard { card, now });
        if let Some(service) = &mut self.service {
            service.handle_deadline(now);
        }
        if let Some(redis) = &mut self.redis {
            redis.server.handle_deadline(now);
        }
        self.watch.check(now, &self.node, self.card.card());
        self.directory.check(now);
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        self.settle(now);
        if self.failure.is_some() {
            return;
        }
        self.desk.transmit(&mut ports[DATAGRAM]);
        let now = self.transmit_datagrams(now, ports);
        if self.failure.is_some() {
            return;
        }
        self.card.transmit_roce(now, &self.directory, &mut ports[ROCE]);
        self.transmit_membership(now, ports);
        if now >= self.next_publish {
            self.next_publish = now + PUBLISH_INTERVAL;
            self.oversize.check(ports);
            self.publish(now, ports);
        }
        self.write_answers(ports);
    }
}

/// Runs a node in this thread, on the configured core, until `stop` is requested. It [logs](crate::log) the events of
/// [`Node`], beginning with `node 0 ready on 127.0.0.1:4793`, and at the end every counter that is not zero (`node 0
/// counted writes_led 12`). If the node is configured by name, it waits until the name resolves to an address of this
/// machine. In a cluster with keepers, another thread runs the node's keeper meanwhile.
///
/// # Errors
/// Why the node cannot run, in one line with the remedy.
pub fn run_node(config: &NodeConfig, registry: &Registry<'_>, stop: &Stop) -> Result<(), NodeError> {
    run_watched_node(config, registry, stop, None)
}

/// As [`run_node`], for a node with a watcher.
///
/// # Errors
/// As [`run_node`].
pub fn run_watched_node(
    config: &NodeConfig,
    registry: &Registry<'_>,
    stop: &Stop,
    exit_watch: Option<ExitWatch>,
) -> Result<(), NodeError> {
    let Some(own) = own_address(&config.own().address, config.family(), stop)? else { return Ok(()) };
    let clock = Clock::starting_now();
    let Some(keeper) = NodeKeeper::open(config, own, fresh_incarnation())? else {
        return run_engines(config, own, registry, (clock, stop), exit_watch);
    };
    let engines_ended = Stop::new()?;
    let log = tracing::dispatcher::get_default(Clone::clone);
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let kept = tracing::dispatcher::with_default(&log, || keeper.run(clock, &engines_ended));
            stop.request();
            kept
        });
        let ended = run_engines(config, own, registry, (clock, stop), exit_watch);
        // The keeper has stayed to confirm that the node leaves.
        engines_ended.request();
        let kept = keeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.and(kept.map_err(NodeError::Membership))
    })
}

/// Runs a node without its keeper.
fn run_engines(
    config: &NodeConfig,
    own: IpAddr,
    registry: &Registry<'_>,
    (clock, stop): (Clock, &Stop),
    exit_watch: Option<ExitWatch>,
) -> Result<(), NodeError> {
    config.cores.core.map_or(Ok(()), keep_to_core)?;
    let policy = IdlePolicy::share_then_sleep(config.cores.spin);
    let (mut node, mut ports) = Node::open(config, own, registry, (clock, stop))?;
    node.exit_watch = exit_watch;
    run(&mut node, &mut ports, clock, policy, stop)?;
    // Clients of Redis continue at other nodes.
    node.redis = None;
    if node.failure.is_none() {
        // The engines serve nothing from here on: notify the membership service, so that the others need not wait
        // for the end of the lease.
        let now = clock.now();
        node.node.leave(now);
        let done = Stop::new()?;
        let mut leaving = Leaving { node: &mut node, until: now + LEAVE_TIMEOUT, done: &done };
        run(&mut leaving, &mut ports, clock, IdlePolicy::SLEEP, &done)?;
        if let Some(watch) = node.exit_watch.as_mut().filter(|_| node.node.has_left()) {
            watch.note_left();
        }
    }
    if let Err(error) = node.close_records() {
        node.fail(error);
    }
    let number = config.node.index();
    for (counter, count) in node.counters().into_iter().filter(|(_, count)| *count > 0) {
        tracing::info!(node = number, counter, count, "node {number} counted {counter} {count}");
    }
    for (name, port) in node.port_names.iter().zip(&ports) {
        let drops = ("receive_buffer_drops", port.receive_buffer_drops().map_or(0, u64::from));
        let sealed = port.seal_counters().map(|counters| counters.list());
        let counters = port.counters().list().into_iter().chain([drops]).chain(sealed.into_iter().flatten());
        for (counter, count) in counters.filter(|(_, count)| *count > 0) {
            let counter = format_args!("{name}_port_{counter}");
            tracing::info!(node = number, %counter, count, "node {number} counted {counter} {count}");
        }
    }
    node.into_result()
}

/// The largest path MTU of RoCE v2 whose packets fit into the network's.
fn path_mtu(config: &NodeConfig) -> PathMtu {
    /// Bytes of a packet besides its payload: BTH, the longest extended headers and the ICRC.
    const AROUND: usize = 64;
    let fits = |mtu: &PathMtu| mtu.bytes() as usize + AROUND <= config.datagram_bytes();
    [PathMtu::Bytes4096, PathMtu::Bytes2048, PathMtu::Bytes1024, PathMtu::Bytes512]
        .into_iter()
        .find(fits)
        .unwrap_or(PathMtu::Bytes256)
}

/// Opens the log of the cluster's one engine if it keeps its data on disk. Returns the incarnation to which the data
/// belongs, or `fresh`.
fn open_data(
    config: &NodeConfig,
    engines: &mut [EngineChoice<'_>],
    fresh: Incarnation,
    agent: &mut UdpPort<SocketAddr>,
) -> Result<Incarnation, NodeError> {
    let (Some(folder), [engine]) = (&config.engines.data_dir, engines) else { return Ok(fresh) };
    let node = config.node.index();
    let path = folder.join(format!("node{node}.weft"));
    let (log, waker) = open_log(&path, engine, fresh, agent.local_address()).map_err(NodeError::Disk)?;
    agent.set_waker(Some(waker));
    if let Some(loss) = log.loss() {
        tracing::warn!(node, "node {node} begins with nothing: {}: {loss}", path.display());
    }
    Ok(log.incarnation())
}

/// A number greater than that of any earlier process of the node: the nanoseconds of the wall clock.
fn fresh_incarnation() -> Incarnation {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    u64::try_from(since).ok().and_then(Incarnation::new).unwrap_or(Incarnation::FIRST)
}
