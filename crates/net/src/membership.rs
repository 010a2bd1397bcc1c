//! A membership service behind a UDP port: one process with its state in a file, or a keeper.

mod error;
mod file;
mod keeper;
mod store;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use weft_cluster::status::{ServiceStatus, StatusAnswer, StatusPart, is_status};
use weft_cluster::{
    Durable, Family, Host, Incarnation, NodeConfig, Origin, Phase, Reason, Refused, Server, ServerCounters,
    Service, ServiceConfig, ServiceParameters,
};
use weft_register::is_register;
use weft_time::Instant;
use weft_waist::{NodeId, NodeSet, View};

use crate::announcement::{Announcement, Announcer};
use crate::resolve::own_address;
use crate::status::StatusDesk;
use crate::{Clock, Datagram, Directory, Endpoint, IdlePolicy, PortOptions, Seal, Stop, UdpPort, WAKE, run};
pub use error::MembershipError;
use keeper::KeeperHost;
pub use keeper::found_coordinators;
use store::Store;
pub use store::StoreState;

/// Who runs the service.
#[derive(Debug)]
enum Seat {
    /// This process alone, which stores its state, if at all, in a thread of its own.
    Single { server: Box<Server<SocketAddr>>, store: Option<Store>, state_file: Option<PathBuf> },
    /// One of the keepers in turn.
    Keeper(Box<KeeperHost>),
}

impl Seat {
    /// The server, while the service is here.
    fn server(&self, now: Instant) -> Option<&Server<SocketAddr>> {
        match self {
            Self::Single { server, .. } => Some(server),
            Self::Keeper(host) => host.keeper.held(now),
        }
    }

    fn status(&self, now: Instant) -> Option<ServiceStatus> {
        match self {
            Self::Single { server, .. } => Some(server.status(now)),
            Self::Keeper(host) => host.keeper.status(now),
        }
    }

    fn poll_refused(&mut self) -> Option<Refused<SocketAddr>> {
        match self {
            Self::Single { server, .. } => server.poll_refused(),
            Self::Keeper(host) => host.keeper.poll_refused(),
        }
    }

    fn next_deadline(&self) -> Instant {
        match self {
            Self::Single { server, .. } => server.next_deadline(),
            Self::Keeper(host) => host.keeper.next_deadline(),
        }
    }

    fn tick(&mut self, now: Instant) {
        match self {
            Self::Single { server, .. } => server.tick(now),
            Self::Keeper(host) => host.keeper.tick(now),
        }
    }
}

/// The service, and what has been logged about it.
#[derive(Debug)]
pub(crate) struct MembershipHost {
    seat: Seat,
    /// Number of nodes of the cluster.
    nodes: usize,
    desk: StatusDesk,
    /// The term in which this keeper holds the service, as it was logged.
    term: Option<u32>,
    announced: View,
    /// Whether it was logged that the cluster has halted.
    halted: bool,
    /// The nodes that were logged as excluded because they and others do not receive each other's beacons.
    partitioned: NodeSet,
    /// The nodes that were logged to report from other addresses than those of their names.
    elsewhere: NodeSet,
}

/// What is known about the address `from`, from which `node` has reported, one of the nodes that are the first places
/// of `directory`. The name of a node that seems to have moved is looked up; `elsewhere` has the nodes of which that
/// was logged since they reported from where they are.
fn origin(directory: &mut Directory, elsewhere: &mut NodeSet, node: NodeId, from: IpAddr) -> Origin {
    let number = node.index();
    let current = directory.address(number).map(|address| address.ip());
    let name = match &directory.place(number).host {
        Host::Address(configured) => return Origin::at_address(from, *configured),
        Host::Name(_) if current == Some(from) => {
            *elsewhere = elsewhere.without(node);
            return Origin::Own;
        }
        Host::Name(name) => name,
    };
    if let Some(current) = current
        && !elsewhere.contains(node)
    {
        *elsewhere = elsewhere.with(node);
        tracing::warn!(
            node = number,
            %from,
            "membership drops what node {number} sends from {from}: {name} is at {current}, and is looked up again"
        );
    }
    directory.doubt(number);
    Origin::Elsewhere
}

impl MembershipHost {
    /// A service at the address `own` that continues from its state file, if there is one, and stores its state there.
    pub(crate) fn open(
        config: &ServiceConfig,
        own: SocketAddr,
        now: Instant,
    ) -> Result<Self, MembershipError> {
        let state_file = config.serve.state_file.clone();
        if let Some(path) = &state_file {
            file::check_writable(path)?;
        }
        let in_file = |path: PathBuf| -> StoreState { Box::new(move |state| file::write(&path, state)) };
        Self::storing(config, own, state_file.map(in_file), now)
    }

    /// As [`MembershipHost::open`], for a service that stores its state by `store`.
    fn storing(
        config: &ServiceConfig,
        own: SocketAddr,
        store: Option<StoreState>,
        now: Instant,
    ) -> Result<Self, MembershipError> {
        let ServiceConfig { cluster, serve, .. } = config;
        let parameters = parameters(config);
        let stored = serve.state_file.as_deref().map(read_state).transpose()?.flatten();
        let restore = |durable: &Durable| {
            durable.check_cluster(*cluster)?;
            Service::restore(parameters, durable, now)
        };
        let service = match &stored {
            Some(durable) => restore(durable).map_err(|source| {
                let path = serve.state_file.clone().expect("it was just read");
                MembershipError::Unusable { path, source }
            })?,
            None => Service::new(parameters),
        };
        let agreed = stored.as_ref().and_then(Durable::profile);
        let server = Box::new(Server::new(service).of_cluster(*cluster, agreed));
        let store = store.map(|store| Store::start(store, own)).transpose()?;
        Ok(Self::new(config, Seat::Single { server, store, state_file: serve.state_file.clone() }))
    }

    /// The address from which this process wakes the service, if it does.
    pub(crate) fn waker(&self) -> Option<SocketAddr> {
        match &self.seat {
            Seat::Single { store, .. } => store.as_ref().map(|store| store.waker),
            Seat::Keeper(_) => None,
        }
    }

    /// A keeper of the service at a node, whose process has this incarnation.
    fn keeper(config: &ServiceConfig, process: (NodeId, Incarnation)) -> Result<Self, MembershipError> {
        let host = KeeperHost::open(config, parameters(config), process)?;
        Ok(Self::new(config, Seat::Keeper(Box::new(host))))
    }

    fn new(config: &ServiceConfig, seat: Seat) -> Self {
        Self {
            seat,
            nodes: config.peers.len(),
            desk: StatusDesk::new(config.cluster.id()),
            term: None,
            announced: View::default(),
            halted: false,
            partitioned: NodeSet::EMPTY,
            elsewhere: NodeSet::EMPTY,
        }
    }

    /// Processes a datagram. The first places of `directory` are those of the nodes; those of the keepers, if there are
    /// any, follow.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        datagram: Datagram<'_, SocketAddr>,
        directory: &mut Directory,
    ) {
        if datagram.bytes == WAKE {
            // A state has been stored, and `transmit` follows.
            return;
        }
        if is_status(datagram.bytes) {
            if let Some(request) =
                self.desk.take(now, datagram.bytes).filter(|request| request.part == StatusPart::Service)
                && let Some(status) = self.seat.status(now)
            {
                self.desk.answer(datagram.from, &request, &StatusAnswer::Service(status));
            }
            return;
        }
        let (nodes, from, bytes) = (self.nodes, datagram.from, datagram.bytes);
        let elsewhere = &mut self.elsewhere;
        let origin = |node: NodeId| {
            // The service itself refuses the number of a node that does not exist.
            if node.index() < nodes { origin(directory, elsewhere, node, from.ip()) } else { Origin::Own }
        };
        // The server counts datagrams that are no heartbeat.
        let _ = match &mut self.seat {
            Seat::Single { server, .. } => server.receive_from(now, from, bytes, origin),
            Seat::Keeper(host) if is_register(bytes) => {
                host.receive_register(now, datagram, directory);
                Ok(())
            }
            Seat::Keeper(host) => host.keeper.receive_from(now, from, bytes, origin),
        };
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.seat.next_deadline()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if now >= self.seat.next_deadline() {
            self.seat.tick(now);
        }
    }

    /// Begins to store the state that must survive a restart, and queues the datagrams that do not depend on it.
    pub(crate) fn transmit(
        &mut self,
        clock: Clock,
        port: &mut UdpPort<SocketAddr>,
        directory: &mut Directory,
    ) -> Result<(), MembershipError> {
        match &mut self.seat {
            Seat::Single { server, store, .. } => {
                if let Some(store) = store
                    && store.poll()?
                {
                    server.stored(clock.now());
                }
                if let Some(durable) = server.take_unsaved() {
                    match store {
                        Some(store) => store.begin(durable.to_toml().into_bytes()),
                        None => server.stored(clock.now()),
                    }
                }
                while let Some((to, datagram)) = server.poll_transmit() {
                    // If the port is full, the answer is lost like any other datagram: the node repeats its heartbeat.
                    port.push(to, &datagram);
                }
            }
            Seat::Keeper(host) => host.transmit(clock, port, directory)?,
        }
        self.desk.transmit(port);
        Ok(())
    }

    /// Logs what has happened since the last call.
    pub(crate) fn report(&mut self, clock: Clock, now: Instant) {
        while let Some(refused) = self.seat.poll_refused() {
            tracing::warn!(
                node = refused.node.index(),
                from = %refused.from,
                "membership {refused}"
            );
        }
        self.report_term(now);
        let Some(server) = self.seat.server(now) else { return };
        let partitioned = server.partitioned();
        for node in partitioned.minus(std::mem::replace(&mut self.partitioned, partitioned)).iter() {
            let number = node.index();
            let by = server.service().partitioned_from(node);
            let line = format!("membership leaves out node {number}: {by}");
            tracing::warn!(node = number, "{line}");
        }
        let view = server.service().view();
        if view != std::mem::replace(&mut self.announced, view) {
            let at_ns = clock.monotonic_ns(now);
            Announcement { announcer: Announcer::Membership, view, at_ns }.log();
        }
        let is_halted = server.service().phase() == Phase::Halted;
        if is_halted && !std::mem::replace(&mut self.halted, true) {
            let why = Reason::Halted;
            match &self.seat {
                Seat::Single { state_file, .. } => {
                    let file = state_file.as_deref().unwrap_or(Path::new("its state file")).display();
                    tracing::error!(
                        %file,
                        "membership halted: {why}: stop the service, remove {file}, and start the service and every node"
                    );
                }
                Seat::Keeper(_) => tracing::error!(
                    "membership halted: {why}: stop every node, and found a new cluster by weft init --keepers"
                ),
            }
        }
    }

    /// Logs when this keeper takes the service over, and when it does not hold it any more.
    fn report_term(&mut self, now: Instant) {
        let Seat::Keeper(host) = &self.seat else { return };
        let term = host.keeper.held(now).map(|_| host.keeper.term());
        let former = std::mem::replace(&mut self.term, term);
        let node = host.node.index();
        match (former, term) {
            (_, Some(term)) if former != Some(term) => {
                tracing::info!(node, term, "membership is held by node {node} in term {term}");
            }
            (Some(former), None) => tracing::warn!(
                node,
                term = former,
                "membership is no longer held by node {node}: it has not renewed term {former} in time"
            ),
            _ => {}
        }
    }

    /// Counters of the service, if it is one process.
    pub(crate) fn counters(&self) -> ServerCounters {
        match &self.seat {
            Seat::Single { server, .. } => server.counters(),
            Seat::Keeper(_) => ServerCounters::default(),
        }
    }
}

/// The state in a file; `None` if there is no file.
fn read_state(path: &Path) -> Result<Option<Durable>, MembershipError> {
    let Some(bytes) = file::read(path)? else { return Ok(None) };
    // What is not UTF-8 is no TOML either.
    let durable = Durable::from_toml(&String::from_utf8_lossy(&bytes));
    durable.map(Some).map_err(|source| MembershipError::Unusable { path: path.to_owned(), source })
}

fn parameters(config: &ServiceConfig) -> ServiceParameters {
    ServiceParameters {
        replicas: config.replicas,
        durable_copies: config.durable_copies as usize,
        ..ServiceParameters::new(config.peers.len(), config.serve.lease)
    }
}

/// A membership service in a thread of its own.
struct Alone<'a> {
    host: MembershipHost,
    directory: Directory,
    clock: Clock,
    stop: &'a Stop,
    failure: Option<MembershipError>,
}

impl Alone<'_> {
    fn run(mut self, port: UdpPort<SocketAddr>) -> Result<(), MembershipError> {
        let (clock, stop) = (self.clock, self.stop);
        run(&mut self, &mut [port], clock, IdlePolicy::SLEEP, stop)?;
        if let Seat::Keeper(host) = &self.host.seat {
            let node = host.node.index();
            for (counter, count) in host.counters().into_iter().filter(|(_, count)| *count > 0) {
                tracing::info!(node, counter, count, "node {node} counted {counter} {count}");
            }
        }
        self.failure.map_or(Ok(()), Err)
    }
}

impl Endpoint<SocketAddr> for Alone<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_, SocketAddr>) {
        self.host.receive(now, datagram, &mut self.directory);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let directory = self.directory.next_deadline();
        directory.into_iter().chain([self.host.next_deadline()]).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.host.handle_deadline(now);
        self.directory.check(now);
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.host.transmit(self.clock, &mut ports[0], &mut self.directory) {
            self.failure = Some(error);
            self.stop.request();
        } else {
            self.host.report(self.clock, now);
        }
    }
}

/// Runs a membership service in a process of its own until `stop` is requested. It [logs](crate::log) when it is
/// ready (`membership ready on 127.0.0.1:4794`), and an [`Announcement`] for each view. If it is configured by name, it
/// waits until the name resolves to an address of this machine.
///
/// # Errors
/// Why it cannot run, in one line with the remedy.
pub fn run_membership(config: &ServiceConfig, stop: &Stop) -> Result<(), MembershipError> {
    run_at_its_place(config, stop, |own, now| MembershipHost::open(config, own, now))
}

/// As [`run_membership`], for a service that stores its state by `store` instead of writing its state file. It still
/// continues from that file, if there is one.
///
/// # Errors
/// As [`run_membership`], and if the state cannot be stored.
pub fn run_membership_storing(
    config: &ServiceConfig,
    store: StoreState,
    stop: &Stop,
) -> Result<(), MembershipError> {
    run_at_its_place(config, stop, |own, now| MembershipHost::storing(config, own, Some(store), now))
}

fn run_at_its_place(
    config: &ServiceConfig,
    stop: &Stop,
    open: impl FnOnce(SocketAddr, Instant) -> Result<MembershipHost, MembershipError>,
) -> Result<(), MembershipError> {
    let clock = Clock::starting_now();
    let Some(own) = own_address(&config.address.host, config.family(), stop)? else { return Ok(()) };
    let seal = Seal::load(config.security.as_ref(), config.cluster)?;
    let port = UdpPort::bind(SocketAddr::new(own, config.address.port), &PortOptions::default())?;
    let mut port = port.sealed(seal.as_ref());
    let nodes = config.peers.iter().map(|(_, peer)| peer.datagram_place()).collect();
    let directory = Directory::new(nodes, Family::of(own))?;
    let address = port.local_address();
    let host = open(address, clock.now())?;
    port.set_waker(host.waker());
    tracing::info!(%address, "membership ready on {address}");
    Alone { host, directory, clock, stop, failure: None }.run(port)
}

/// A keeper of the membership service at a node. It has a thread of its own, so that the node's engines do not wait
/// while its coordinator stores a state.
pub(crate) struct NodeKeeper {
    host: MembershipHost,
    directory: Directory,
    port: UdpPort<SocketAddr>,
}

impl NodeKeeper {
    /// The keeper of this node at the address `own`; `None` if the cluster has no keepers.
    pub(crate) fn open(
        config: &NodeConfig,
        own: IpAddr,
        incarnation: Incarnation,
    ) -> Result<Option<Self>, MembershipError> {
        let Some(service) = config.service().filter(|service| !service.coordinators.is_empty()) else {
            return Ok(None);
        };
        // Whoever has the port may write the coordinator's file.
        let address = SocketAddr::new(own, service.address.port);
        let seal = Seal::load(service.security.as_ref(), service.cluster)?;
        let port = UdpPort::bind(address, &PortOptions::default())?.sealed(seal.as_ref());
        let host = MembershipHost::keeper(&service, (config.node, incarnation))?;
        Ok(Some(Self { host, directory: Directory::of_cluster(config, own)?, port }))
    }

    /// Runs the keeper until `stop` is requested.
    pub(crate) fn run(self, clock: Clock, stop: &Stop) -> Result<(), MembershipError> {
        let Self { host, directory, port } = self;
        Alone { host, directory, clock, stop, failure: None }.run(port)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_cluster::{ClusterConfig, ClusterName, PeerConfig, Peers, Place, ServeConfig};
    use weft_time::Duration;
    use weft_waist::EngineState;

    use super::*;
    use crate::log::{LogFormat, LogLevel};

    fn peers(nodes: usize) -> Peers {
        let peer = |node: usize| PeerConfig::new(Ipv4Addr::new(127, 0, 0, node as u8 + 1));
        Peers::new((0..nodes).map(peer).collect()).unwrap()
    }

    fn directory(peers: &Peers) -> Directory {
        let places = peers.iter().map(|(_, peer)| peer.datagram_place()).collect();
        Directory::new(places, Family::V4).unwrap()
    }

    fn service(nodes: usize, state_file: &Path) -> ServiceConfig {
        ServiceConfig {
            cluster: ClusterName::default(),
            peers: peers(nodes),
            replicas: nodes,
            durable_copies: 0,
            address: Place::new(Ipv4Addr::LOCALHOST, 4794),
            coordinators: Vec::new(),
            serve: ServeConfig { lease: Duration::from_ms(100), state_file: Some(state_file.to_owned()) },
            security: None,
        }
    }

    fn open(nodes: usize, state_file: &Path) -> Result<MembershipHost, MembershipError> {
        MembershipHost::open(&service(nodes, state_file), nowhere(), Instant::ZERO)
    }

    /// Nobody listens here: the tests wake the service themselves.
    fn nowhere() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 9))
    }

    fn service_of(host: &MembershipHost) -> &Service {
        host.seat.server(Instant::ZERO).unwrap().service()
    }

    fn transmit(host: &mut MembershipHost, port: &mut UdpPort<SocketAddr>) -> Result<(), MembershipError> {
        host.transmit(Clock::starting_now(), port, &mut directory(&peers(1)))
    }

    fn is_storing(host: &MembershipHost) -> bool {
        matches!(&host.seat, Seat::Single { store: Some(store), .. } if store.is_storing)
    }

    /// Transmits until everything is stored.
    fn settle(host: &mut MembershipHost, port: &mut UdpPort<SocketAddr>) -> Result<(), MembershipError> {
        transmit(host, port)?;
        while is_storing(host) {
            std::thread::yield_now();
            transmit(host, port)?;
        }
        Ok(())
    }

    fn profile(nodes: usize) -> weft_cluster::Profile {
        let kv = Some(weft_cluster::KvConfig {
            key_bytes: 8,
            value_bytes: 64,
            capacity_keys: 1_000,
            ..weft_cluster::KvConfig::DEFAULT
        });
        let engines = weft_cluster::EnginesConfig { kv, ..Default::default() };
        weft_cluster::Profile::of(&engines, 1_500, &peers(nodes))
    }

    fn heartbeat(nodes: usize, node: usize) -> weft_cluster::Datagram {
        heartbeat_with(profile(nodes), node, weft_waist::EngineStatus::STARTING)
    }

    fn heartbeat_with(
        profile: weft_cluster::Profile,
        node: usize,
        status: weft_waist::EngineStatus,
    ) -> weft_cluster::Datagram {
        weft_cluster::Message::Heartbeat {
            token: 1,
            heartbeat: weft_cluster::Heartbeat {
                node: weft_waist::NodeId::new(node).unwrap(),
                incarnation: weft_cluster::Incarnation::FIRST,
                status,
                receives_from: NodeSet::first(16),
                claim: None,
            },
            profile: (status.state == EngineState::Starting).then_some(profile),
        }
        .encode(ClusterName::default().id())
    }

    /// The address from which a node reports.
    fn place(node: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, node as u8 + 1], 50_000))
    }

    fn port() -> UdpPort<SocketAddr> {
        UdpPort::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &PortOptions::default()).unwrap()
    }

    #[test]
    fn a_service_goes_on_where_its_state_file_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.toml");
        let mut host = open(2, &path).unwrap();
        let mut ports = port();
        for node in 0..2 {
            let datagram = Datagram { from: place(node), bytes: &heartbeat(2, node), identification: 0 };
            host.receive(Instant::ZERO, datagram, &mut directory(&peers(2)));
            settle(&mut host, &mut ports).unwrap();
        }
        assert!(ports.queued() >= 2);
        let view = service_of(&host).view();
        assert_eq!(view.full.len(), 2);
        let restored = open(2, &path).unwrap();
        assert_eq!(service_of(&restored).view(), view);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
        let error = open(3, &path).unwrap_err().to_string();
        assert!(error.contains("describes 2 nodes, but 3 are configured"), "{error}");
        let renamed = ClusterName::new("other").unwrap();
        let error = MembershipHost::open(
            &ServiceConfig { cluster: renamed, ..service(2, &path) },
            nowhere(),
            Instant::ZERO,
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains("it belongs to cluster \"weft\", but \"other\" is configured"), "{error}");
        std::fs::write(&path, "epoch = ").unwrap();
        let error = open(2, &path).unwrap_err().to_string();
        assert!(error.contains("state.toml") && !error.contains('\n'), "{error}");
    }

    /// Five nodes with three replicas of each shard: three neighbouring nodes that are silent are the only holders
    /// of a shard, so none of them is removed.
    #[test]
    fn the_only_holders_of_a_shard_stay_in_the_view() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = format!(
            "[membership]\naddress = \"127.0.0.1:4794\"\nnode = 0\nlease_ms = 100\nstate_file = {:?}\n\
             [transactions]\nprocedures = \"ledger\"\nsize = 10\nreplicas = 3\n",
            folder.path().join("state.toml")
        );
        for node in 0..5 {
            text += &format!("[[node]]\naddress = \"127.0.0.{}\"\n", node + 1);
        }
        let config = ClusterConfig::parse(&text).unwrap().node(weft_waist::NodeId::new(0).unwrap()).unwrap();
        let mut host = MembershipHost::open(&config.service().unwrap(), nowhere(), Instant::ZERO).unwrap();
        let (mut directory, mut port) = (directory(&config.peers), port());
        let mut beat = |ms, node, epoch: u32, state| {
            let status = weft_waist::EngineStatus { epoch: weft_waist::Epoch(epoch), state };
            let bytes = heartbeat_with(config.profile(), node, status);
            let now = Instant::ZERO + Duration::from_ms(ms);
            let datagram = Datagram { from: place(node), bytes: &bytes, identification: 0 };
            host.receive(now, datagram, &mut directory);
            settle(&mut host, &mut port).unwrap();
            service_of(&host).view()
        };
        for (epoch, state) in [(0, EngineState::Starting), (1, EngineState::Full)] {
            (0..5).for_each(|node| {
                beat(0, node, epoch, state);
            });
        }
        for ms in [50, 100, 150, 200, 250] {
            for node in [3, 4] {
                let view = beat(ms, node, 1, EngineState::Full);
                assert_eq!(view.full.len(), 5, "at {ms} ms: {view:?}");
            }
        }
    }

    #[test]
    fn a_node_known_by_name_reports_from_where_its_name_points_to() {
        let folder = tempfile::tempdir().unwrap();
        let mut host = open(1, &folder.path().join("state.toml")).unwrap();
        let peers = Peers::new(vec![PeerConfig::new("localhost".parse::<Host>().unwrap())]).unwrap();
        let (mut directory, mut now) = (directory(&peers), Instant::ZERO);
        while directory.address(0).is_none() {
            now += Duration::from_ms(100);
            directory.check(now);
            std::thread::yield_now();
        }
        let said = crate::log::tests::logged(LogFormat::Text, LogLevel::INFO, || {
            for from in [1, 1, 0, 1] {
                let datagram = Datagram { from: place(from), bytes: &heartbeat(1, 0), identification: 0 };
                host.receive(now, datagram, &mut directory);
            }
        });
        settle(&mut host, &mut port()).unwrap();
        assert_eq!(service_of(&host).view().full.len(), 1);
        assert_eq!(host.counters().list()[5], ("heartbeats_from_elsewhere", 3));
        let line = "membership drops what node 0 sends from 127.0.0.2: localhost is at 127.0.0.1";
        assert_eq!(said.matches(line).count(), 2, "{said}");
    }

    #[test]
    fn what_cannot_be_stored_is_not_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.toml");
        let mut host = open(1, &path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the trial leaves nothing");
        drop(folder);
        let mut out = port();
        let datagram = Datagram { from: place(0), bytes: &heartbeat(1, 0), identification: 0 };
        host.receive(Instant::ZERO, datagram, &mut directory(&peers(1)));
        assert!(matches!(settle(&mut host, &mut out), Err(MembershipError::Unwritable { .. })));
        assert_eq!(out.queued(), 0);
    }

    #[test]
    fn a_slow_disk_delays_views_and_no_leases() {
        let folder = tempfile::tempdir().unwrap();
        let (release, released) = std::sync::mpsc::channel();
        let store: StoreState = Box::new(move |_| {
            released.recv().unwrap_or(());
            Ok(())
        });
        let config = service(2, &folder.path().join("none"));
        let mut host = MembershipHost::storing(&config, nowhere(), Some(store), Instant::ZERO).unwrap();
        let (mut out, mut directory) = (port(), directory(&peers(2)));
        let mut beat = |host: &mut MembershipHost, ms, node, epoch: u32, state| {
            let status = weft_waist::EngineStatus { epoch: weft_waist::Epoch(epoch), state };
            let bytes = heartbeat_with(profile(2), node, status);
            let now = Instant::ZERO + Duration::from_ms(ms);
            let before = out.queued();
            host.receive(
                now,
                Datagram { from: place(node), bytes: &bytes, identification: 0 },
                &mut directory,
            );
            transmit(host, &mut out).unwrap();
            out.queued() - before
        };
        let stored = |host: &mut MembershipHost| {
            release.send(()).unwrap();
            settle(host, &mut port()).unwrap();
            service_of(host).view()
        };
        for node in 0..2 {
            beat(&mut host, 0, node, 0, EngineState::Starting);
        }
        assert_eq!(stored(&mut host).full.len(), 2);
        for node in 0..2 {
            beat(&mut host, 1, node, 1, EngineState::Full);
        }
        // Node 1 leaves. While that is being stored, node 0 has its lease renewed for three leases' time.
        beat(&mut host, 10, 1, 1, EngineState::Lost);
        beat(&mut host, 11, 0, 1, EngineState::Full);
        assert!(is_storing(&host));
        for ms in (20..300).step_by(20) {
            assert_eq!(beat(&mut host, ms, 0, 1, EngineState::Full), 1, "at {ms} ms");
            assert_eq!(service_of(&host).view().epoch.0, 1);
        }
        let view = stored(&mut host);
        assert_eq!((view.epoch.0, view.full.len()), (2, 1));
        release.send(()).unwrap_or(());
    }

    #[test]
    fn a_folder_that_is_missing_is_found_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let error = open(1, &folder.path().join("missing").join("state.toml")).unwrap_err();
        assert!(matches!(error, MembershipError::Unwritable { .. }), "{error}");
    }

    #[test]
    fn a_cluster_that_has_halted_says_what_founds_it_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.toml");
        let record = weft_cluster::NodeRecord {
            role: weft_cluster::Role::Full,
            incarnation: Some(weft_cluster::Incarnation::FIRST),
        };
        let halted = Durable::new(weft_waist::Epoch(3), true, vec![record]).unwrap();
        std::fs::write(&path, halted.to_toml()).unwrap();
        let mut host = open(1, &path).unwrap();
        let said = crate::log::tests::logged(LogFormat::Text, LogLevel::INFO, || {
            for _ in 0..2 {
                host.report(Clock::starting_now(), Instant::ZERO);
            }
        });
        assert_eq!(said.matches("membership halted").count(), 1, "{said}");
        assert!(said.contains(&format!("remove {}", path.display())), "{said}");
    }
}
