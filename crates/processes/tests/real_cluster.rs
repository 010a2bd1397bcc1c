//! Tests of clusters over loopback sockets, with threads instead of processes.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use weft_bench::kv::{Driver, DriverParameters, Phase};
use weft_check::{Options, Verdict};
use weft_cluster::{
    ClusterConfig, CoresConfig, EnginesConfig, KvConfig, NodeConfig, PeerConfig, Peers, ServeConfig,
};
use weft_kv::{ReadPolicy, Role};
use weft_net::log::{self, LogFormat, LogLevel};
use weft_net::{
    Announcement, Announcer, BindError, Clock, IdlePolicy, NodeError, PortOptions, Stop, UdpPort, run,
    run_membership, run_node,
};
use weft_node::Registry;
use weft_processes::kv::Clients;
use weft_time::Duration;
use weft_waist::{NodeId, NodeSet};
use weft_workload::{ClientShare, Workload};
use weft_workload::{Limit, Load};

/// Time-out of every wait; it is long enough for a busy machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
const DATAGRAM_BYTES: usize = 1_472;

/// Sixteen loopback addresses that no other test uses, neither in this process nor in another.
fn addresses() -> impl Fn(u32) -> Ipv4Addr + Copy {
    static BLOCK: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id() % (1 << 16);
    let block = BLOCK.fetch_add(1, Ordering::Relaxed) % 4;
    let first = u32::from(Ipv4Addr::new(127, 64, 0, 0)) + (process << 6 | block << 4);
    move |index| Ipv4Addr::from(first + 1 + index)
}

/// The configuration of a cluster whose membership service is a separate process, or is embedded in node 0.
fn cluster(nodes: u32, embedded: Option<ServeConfig>) -> ClusterConfig {
    let at = addresses();
    let peers = Peers::new((0..nodes).map(|node| PeerConfig::new(at(node))).collect()).unwrap();
    let address = SocketAddrV4::new(at(if embedded.is_some() { 0 } else { nodes }), 4794);
    let kv = Some(KvConfig { value_bytes: 64, capacity_keys: 1_000, ..KvConfig::DEFAULT });
    let engines = EnginesConfig { kv, ..EnginesConfig::default() };
    let mut config = ClusterConfig::new(peers, address, engines);
    config.cores.fill(CoresConfig { spin: Duration::from_us(20), core: None });
    config.membership.node = embedded.as_ref().and(NodeId::new(0));
    config.membership.serve = embedded.unwrap_or(ServeConfig { lease: LEASE, state_file: None });
    config
}

/// Where a node receives Weft's datagrams.
fn datagrams(peer: &PeerConfig) -> SocketAddrV4 {
    peer.datagram_place().to_string().parse().unwrap()
}

/// The configuration of each node of a cluster.
fn configs(cluster: &ClusterConfig) -> Vec<NodeConfig> {
    cluster.peers.iter().map(|(node, _)| cluster.node(node).unwrap()).collect()
}

/// Length of a lease: long enough that nodes renew it on a busy machine, because the tests expect the first
/// view to last.
const LEASE: Duration = Duration::from_secs(1);

/// Sends each logged line to a channel. Each log event is written with one call.
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in std::str::from_utf8(bytes).unwrap().lines() {
            // A test that has ended receives no more.
            let _ = self.0.send(log::message(line).to_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A node or a membership service that runs in a thread.
struct Running<E> {
    stop: Arc<Stop>,
    lines: Receiver<String>,
    thread: Option<JoinHandle<Result<(), E>>>,
}

impl<E: Send + 'static> Running<E> {
    fn start(body: impl FnOnce(&Stop) -> Result<(), E> + Send + 'static) -> Self {
        let stop = Arc::new(Stop::new().unwrap());
        let (to, lines) = mpsc::channel();
        let theirs = Arc::clone(&stop);
        let log = log::subscriber(LogFormat::Text, LogLevel::INFO, move || Lines(to.clone()));
        let thread = std::thread::spawn(move || tracing::subscriber::with_default(log, || body(&theirs)));
        Self { stop, lines, thread: Some(thread) }
    }

    fn wait_for(&self, what: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes before the thread ends");
            if what(&line) {
                return line;
            }
        }
    }

    fn wait_for_announcement(&self, what: impl Fn(&Announcement) -> bool) -> Announcement {
        let line = self.wait_for(|line| line.parse().is_ok_and(|announcement| what(&announcement)));
        line.parse().unwrap()
    }

    fn end(&mut self) -> Result<(), E> {
        self.stop.request();
        self.thread.take().expect("it ends once").join().unwrap()
    }
}

impl<E> Drop for Running<E> {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn start_node(config: &NodeConfig) -> Running<NodeError> {
    let config = config.clone();
    let node = Running::start(move |stop| run_node(&config, &Registry::new(), stop));
    node.wait_for(|line| line.contains(" ready on "));
    node
}

fn is_full(announcement: &Announcement) -> bool {
    matches!(announcement.announcer, Announcer::Node(_, Role::Full))
}

struct TestClients {
    driver: Option<Driver>,
    ports: [UdpPort; 1],
    nodes: Vec<SocketAddrV4>,
    clock: Clock,
}

impl TestClients {
    fn new(configs: &[NodeConfig], workload: &str, load: Load, reads: ReadPolicy) -> Self {
        let workload = Workload::parse(workload).and_then(|workload| workload.with_records(300));
        let driver = Driver::new(DriverParameters {
            workload: workload.and_then(|workload| workload.with_value_bytes(64)).unwrap(),
            load,
            lane: ClientShare::ONLY,
            seed: 11,
            first_client: 1,
            nodes: NodeSet::first(configs.len()),
            reads,
            compares_deletes: true,
            timeout: Duration::from_ms(50),
            give_up: Duration::from_secs(30),
        });
        let port = UdpPort::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &PortOptions::default()).unwrap();
        let nodes = configs[0].peers.iter().map(|(_, peer)| datagrams(peer)).collect();
        Self { driver: Some(driver), ports: [port], nodes, clock: Clock::starting_now() }
    }

    fn carry_out(&mut self, phase: Phase, progress: &mut (dyn FnMut(u64) + Send)) {
        let stop = Stop::new().unwrap();
        let driver = self.driver.take().unwrap();
        let task = (self.clock.now(), phase);
        let mut clients =
            Clients::new(driver, self.nodes.clone(), DATAGRAM_BYTES, task, &stop).with_progress(progress);
        let policy = IdlePolicy::share_then_sleep(Duration::from_us(20));
        run(&mut clients, &mut self.ports, self.clock, policy, &stop).unwrap();
        self.driver = Some(clients.into_driver());
    }

    fn workload(&mut self, operations: u64, progress: &mut (dyn FnMut(u64) + Send)) {
        self.carry_out(
            Phase::Run { limit: Limit::Operations(operations), warm_up: Duration::ZERO },
            progress,
        );
    }

    /// Checks that the history is linearizable. Returns the number of successful operations.
    fn check(self) -> u64 {
        let (recorder, history) = self.driver.unwrap().into_parts();
        let report = weft_check::check(&history, &Options::default());
        assert_eq!(report.verdict, Verdict::Linearizable, "{:?}", report.violations);
        assert_eq!(report.lost_acknowledged_writes, 0);
        recorder.operations()
    }
}

#[test]
fn three_nodes_serve_and_the_history_is_linearizable() {
    let folder = tempfile::tempdir().unwrap();
    let state_file = folder.path().join("state.toml");
    let serve = ServeConfig { lease: LEASE, state_file: Some(state_file.clone()) };
    let configs = configs(&cluster(3, Some(serve)));
    let mut nodes: Vec<_> = configs.iter().map(start_node).collect();
    nodes[0]
        .wait_for_announcement(|said| said.announcer == Announcer::Membership && said.view.full.len() == 3);
    for node in &nodes[1..] {
        node.wait_for_announcement(is_full);
    }
    assert!(std::fs::read_to_string(&state_file).unwrap().contains("epoch = 1"));

    let load = Load::Closed { clients: 16 };
    let mut clients = TestClients::new(&configs, "ycsb-f", load, ReadPolicy::AnyReplica);
    clients.carry_out(Phase::Load, &mut |_| {});
    clients.workload(20_000, &mut |_| {});
    clients.carry_out(Phase::ReadBack, &mut |_| {});
    assert_eq!(clients.check(), 20_000);
    for node in &mut nodes {
        node.end().unwrap();
        let counted = |name: &str| node.wait_for(|line| line.contains(name));
        counted(" counted datagrams_received ");
        counted(" counted writes_led ");
        counted(" counted writes_followed ");
    }
}

#[test]
fn a_cluster_goes_on_without_a_node_and_takes_it_back() {
    let cluster = cluster(3, None);
    let (configs, service) = (configs(&cluster), cluster.service());
    let mut service = Running::start(move |stop| run_membership(&service, stop));
    service.wait_for(|line| line.starts_with("membership ready on "));
    let nodes: Vec<_> = configs.iter().map(start_node).collect();
    for node in &nodes {
        node.wait_for_announcement(is_full);
    }
    let [mut first, mut second, mut third] = <[_; 3]>::try_from(nodes).ok().unwrap();

    let load = Load::Open { clients: 32, operations_per_s: 4_000.0 };
    let mut clients = TestClients::new(&configs, "ycsb-a", load, ReadPolicy::AnyReplica);
    clients.carry_out(Phase::Load, &mut |_| {});
    // A node that stops announces it, and the others continue without it.
    let stop = Arc::clone(&second.stop);
    clients.workload(6_000, &mut |completed| {
        if completed > 1_000 {
            stop.request();
        }
    });
    second.end().unwrap();
    let gone = NodeId::new(1).unwrap();
    first.wait_for_announcement(|said| is_full(said) && !said.view.members().contains(gone));
    third.wait_for_announcement(|said| is_full(said) && !said.view.members().contains(gone));

    // The node rejoins under load; reads at this node show that it has caught up.
    let mut second = start_node(&configs[1]);
    clients.workload(4_000, &mut |_| {});
    second.wait_for_announcement(|said| matches!(said.announcer, Announcer::Node(_, Role::Joining)));
    second.wait_for_announcement(is_full);
    clients.carry_out(Phase::ReadBack, &mut |_| {});
    assert!(clients.check() > 3_000);
    for node in [&mut first, &mut second, &mut third] {
        node.end().unwrap();
    }
    second.wait_for(|line| line.contains(" counted chunks_installed "));
    service.end().unwrap();
}

#[test]
fn a_port_in_use_is_named() {
    let configs = configs(&cluster(1, Some(ServeConfig { lease: LEASE, state_file: None })));
    let own = configs[0].own();
    let holder = UdpPort::bind(datagrams(own), &PortOptions::default()).unwrap();
    let error = run_node(&configs[0], &Registry::new(), &Stop::new().unwrap()).unwrap_err();
    assert!(
        matches!(error, NodeError::Bind(BindError::InUse { address }) if address == holder.local_address().into())
    );
    assert!(error.to_string().contains(&own.datagram_place().to_string()), "{error}");
}
