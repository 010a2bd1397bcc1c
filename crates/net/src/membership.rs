//! A membership service behind a UDP port, with its state in a file.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use weft_cluster::status::{StatusAnswer, StatusPart, is_status};
use weft_cluster::{
    Durable, DurableError, Family, Host, NodeConfig, Origin, Phase, Reason, Server, ServerCounters, Service,
    ServiceConfig, ServiceParameters,
};
use weft_time::Instant;
use weft_waist::{NodeId, NodeSet, View};

use crate::announcement::{Announcement, Announcer};
use crate::resolve::own_address;
use crate::status::StatusDesk;
use crate::{BindError, Clock, Datagram, Directory, Endpoint, IdlePolicy, PortOptions, Stop, UdpPort, run};

/// Why a membership service does not run.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// Its port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The state file exists and cannot be read.
    #[error("state file {}: cannot be read: {source}", path.display())]
    Unreadable {
        /// Path of the state file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The state file exists, but is damaged or belongs to another cluster.
    #[error(
        "state file {}: {source}; restore the file: to remove it and restart every node loses all data",
        path.display()
    )]
    Unusable {
        /// Path of the state file.
        path: PathBuf,
        /// What is wrong with its content.
        source: DurableError,
    },
    /// The state cannot be stored, so the service may grant nothing that it could forget.
    #[error("state file {}: cannot be written: {source}; the service does not run without, because it must not forget", path.display())]
    Unwritable {
        /// Path of the state file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The socket cannot be used any more.
    #[error("the network fails: {0}")]
    Network(#[from] io::Error),
}

/// The service with its state file, and what has been logged about it.
#[derive(Debug)]
pub(crate) struct MembershipHost {
    server: Server<SocketAddr>,
    desk: StatusDesk,
    state_file: Option<PathBuf>,
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
    /// A service that continues from its state file, if there is one.
    pub(crate) fn open(config: &ServiceConfig, now: Instant) -> Result<Self, MembershipError> {
        let ServiceConfig { cluster, peers, replicas, durable_copies, serve, .. } = config;
        let parameters = ServiceParameters {
            replicas: *replicas,
            durable_copies: *durable_copies as usize,
            ..ServiceParameters::new(peers.len(), serve.lease)
        };
        let stored = serve.state_file.as_deref().map(read_state).transpose()?.flatten();
        if let Some(path) = &serve.state_file {
            check_writable(path)
                .map_err(|source| MembershipError::Unwritable { path: path.clone(), source })?;
        }
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
        Ok(Self {
            server: Server::new(service).of_cluster(*cluster, agreed),
            desk: StatusDesk::new(cluster.id()),
            state_file: serve.state_file.clone(),
            announced: View::default(),
            halted: false,
            partitioned: NodeSet::EMPTY,
            elsewhere: NodeSet::EMPTY,
        })
    }

    /// The service that the process of this node runs, if it runs one.
    pub(crate) fn of_node(config: &NodeConfig, now: Instant) -> Option<Result<Self, MembershipError>> {
        Some(Self::open(&config.service()?, now))
    }

    /// Processes a datagram. The first places of `directory` are those of the nodes.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        datagram: Datagram<'_, SocketAddr>,
        directory: &mut Directory,
    ) {
        if is_status(datagram.bytes) {
            if let Some(request) =
                self.desk.take(now, datagram.bytes).filter(|request| request.part == StatusPart::Service)
            {
                let answer = StatusAnswer::Service(self.server.status(now));
                self.desk.answer(datagram.from, &request, &answer);
            }
            return;
        }
        // The server counts datagrams that are no heartbeat.
        let (nodes, from) = (self.server.service().size().0, datagram.from);
        let elsewhere = &mut self.elsewhere;
        let _ = self.server.receive_from(now, from, datagram.bytes, |node| {
            // The service itself refuses the number of a node that does not exist.
            if node.index() < nodes { origin(directory, elsewhere, node, from.ip()) } else { Origin::Own }
        });
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.server.next_deadline()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if now >= self.server.next_deadline() {
            self.server.tick(now);
        }
    }

    /// Stores the state that must survive a restart, then queues the answers.
    pub(crate) fn transmit(&mut self, port: &mut UdpPort<SocketAddr>) -> Result<(), MembershipError> {
        if let Some(durable) = self.server.take_unsaved()
            && let Some(path) = &self.state_file
        {
            write_state(path, &durable)
                .map_err(|source| MembershipError::Unwritable { path: path.clone(), source })?;
        }
        self.desk.transmit(port);
        while let Some((to, datagram)) = self.server.poll_transmit() {
            // If the port is full, the answer is lost like any other datagram: the node repeats its heartbeat.
            port.push(to, &datagram);
        }
        Ok(())
    }

    /// Logs what has happened since the last call.
    pub(crate) fn report(&mut self, clock: Clock, now: Instant) {
        while let Some(refused) = self.server.poll_refused() {
            tracing::warn!(
                node = refused.node.index(),
                from = %refused.from,
                "membership {refused}"
            );
        }
        let partitioned = self.server.partitioned();
        for node in partitioned.minus(std::mem::replace(&mut self.partitioned, partitioned)).iter() {
            let number = node.index();
            let by = self.server.service().partitioned_from(node);
            let line = format!("membership leaves out node {number}: {by}");
            tracing::warn!(node = number, "{line}");
        }
        if let Some(announcement) = self.take_announcement(clock, now) {
            announcement.log();
        }
        let is_halted = self.server.service().phase() == Phase::Halted;
        if is_halted && !std::mem::replace(&mut self.halted, true) {
            let file = self.state_file.as_deref().unwrap_or(Path::new("its state file")).display();
            tracing::error!(
                %file,
                "membership halted: {}: stop the service, remove {file}, and start the service and every node",
                Reason::Halted
            );
        }
    }

    /// The view, if it has changed since the last call.
    fn take_announcement(&mut self, clock: Clock, now: Instant) -> Option<Announcement> {
        let view = self.server.service().view();
        (view != self.announced).then(|| {
            self.announced = view;
            Announcement { announcer: Announcer::Membership, view, at_ns: clock.monotonic_ns(now) }
        })
    }

    pub(crate) fn counters(&self) -> ServerCounters {
        self.server.counters()
    }
}

/// The state in a file; `None` if there is no file.
fn read_state(path: &Path) -> Result<Option<Durable>, MembershipError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Durable::from_toml(&text)
            .map(Some)
            .map_err(|source| MembershipError::Unusable { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(MembershipError::Unreadable { path: path.to_owned(), source }),
    }
}

/// More than the state of the largest cluster takes.
const STATE_BYTES: usize = 4 << 10;

/// Checks that a state can be stored: a missing folder or a full disk should be detected before a node relies on
/// the service.
fn check_writable(path: &Path) -> io::Result<()> {
    let partial = partial(path);
    let mut file = File::create(&partial)?;
    file.write_all(&[b'\n'; STATE_BYTES])?;
    file.sync_all()?;
    std::fs::remove_file(&partial)
}

/// Name of the file before it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

/// Replaces the file as a whole: after a crash it holds the old state or the new one. The new state is on the disk
/// when this function returns.
fn write_state(path: &Path, durable: &Durable) -> io::Result<()> {
    let partial = partial(path);
    let mut file = File::create(&partial)?;
    file.write_all(durable.to_toml().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// A membership service in a process of its own.
struct Alone<'a> {
    host: MembershipHost,
    directory: Directory,
    clock: Clock,
    stop: &'a Stop,
    failure: Option<MembershipError>,
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
        if let Err(error) = self.host.transmit(&mut ports[0]) {
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
    let clock = Clock::starting_now();
    let Some(own) = own_address(&config.address.host, config.family(), stop)? else { return Ok(()) };
    let mut ports = [UdpPort::bind(SocketAddr::new(own, config.address.port), &PortOptions::default())?];
    let nodes = config.peers.iter().map(|(_, peer)| peer.datagram_place()).collect();
    let directory = Directory::new(nodes, Family::of(own))?;
    let host = MembershipHost::open(config, clock.now())?;
    let address = ports[0].local_address();
    tracing::info!(%address, "membership ready on {address}");
    let mut alone = Alone { host, directory, clock, stop, failure: None };
    run(&mut alone, &mut ports, clock, IdlePolicy::SLEEP, stop)?;
    alone.failure.map_or(Ok(()), Err)
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
            serve: ServeConfig { lease: Duration::from_ms(100), state_file: Some(state_file.to_owned()) },
        }
    }

    fn open(nodes: usize, state_file: &Path) -> Result<MembershipHost, MembershipError> {
        MembershipHost::open(&service(nodes, state_file), Instant::ZERO)
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
            host.transmit(&mut ports).unwrap();
        }
        assert!(ports.queued() >= 2);
        let view = host.server.service().view();
        assert_eq!(view.full.len(), 2);
        let restored = open(2, &path).unwrap();
        assert_eq!(restored.server.service().view(), view);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
        let error = open(3, &path).unwrap_err().to_string();
        assert!(error.contains("describes 2 nodes, but 3 are configured"), "{error}");
        let renamed = ClusterName::new("other").unwrap();
        let error =
            MembershipHost::open(&ServiceConfig { cluster: renamed, ..service(2, &path) }, Instant::ZERO);
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
        let mut host = MembershipHost::of_node(&config, Instant::ZERO).unwrap().unwrap();
        let mut directory = directory(&config.peers);
        let mut beat = |ms, node, epoch: u32, state| {
            let status = weft_waist::EngineStatus { epoch: weft_waist::Epoch(epoch), state };
            let bytes = heartbeat_with(config.profile(), node, status);
            let now = Instant::ZERO + Duration::from_ms(ms);
            let datagram = Datagram { from: place(node), bytes: &bytes, identification: 0 };
            host.receive(now, datagram, &mut directory);
            host.server.service().view()
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
        assert_eq!(host.server.service().view().full.len(), 1);
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
        assert!(matches!(host.transmit(&mut out), Err(MembershipError::Unwritable { .. })));
        assert_eq!(out.queued(), 0);
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
