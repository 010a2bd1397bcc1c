//! Real nodes on loopback: whom a cluster takes, and what happens when nodes come and go.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use weft_cluster::{ClusterConfig, ClusterName, Heartbeat, Incarnation, Message, NodeConfig};
use weft_net::{NodeError, PortOptions, Stop, UdpPort, run_node};
use weft_node::Registry;
use weft_waist::{EngineStatus, NodeId};

/// How long anything may take that comes at all, on a machine that is busy with other things.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Eight loopback addresses that no other test has, in this process or in another one.
#[derive(Clone, Copy)]
struct Addresses(u32);

impl Addresses {
    fn new() -> Self {
        static BLOCK: AtomicU32 = AtomicU32::new(0);
        let block = BLOCK.fetch_add(1, Ordering::Relaxed) % 32;
        let process = std::process::id() % (1 << 13);
        Self(u32::from(Ipv4Addr::new(127, 80, 0, 0)) + (process << 8 | block << 3))
    }

    fn node(self, node: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + 1 + node)
    }

    /// The configuration of a cluster of `nodes`, whose membership service runs at node 0.
    fn config(self, nodes: u32, folder: &Path) -> ClusterConfig {
        let mut text = format!(
            "[membership]\naddress = \"{}:4794\"\nnode = 0\nlease_ms = 1000\nstate_file = {:?}\n",
            self.node(0),
            folder.join("state.toml")
        );
        for peer in 0..nodes {
            text += &format!("[[node]]\naddress = \"{}\"\n", self.node(peer));
        }
        ClusterConfig::parse(&(text + "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n")).unwrap()
    }
}

/// Passes on what is written, line by line.
struct Lines {
    partial: Vec<u8>,
    to: Sender<String>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            if byte == b'\n' {
                let line = String::from_utf8(std::mem::take(&mut self.partial)).unwrap();
                // A test that has ended listens no more.
                let _ = self.to.send(line);
            } else {
                self.partial.push(byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn seen_from(config: &ClusterConfig, node: usize) -> NodeConfig {
    config.node(NodeId::new(node).unwrap()).unwrap()
}

/// A node in a thread.
struct Running {
    stop: Arc<Stop>,
    lines: Receiver<String>,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
}

impl Running {
    fn start(config: &ClusterConfig, node: usize) -> Self {
        let config = seen_from(config, node);
        let stop = Arc::new(Stop::new().unwrap());
        let (to, lines) = mpsc::channel();
        let theirs = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            run_node(&config, &Registry::new(), &theirs, &mut Lines { partial: Vec::new(), to })
        });
        Self { stop, lines, thread: Some(thread) }
    }

    fn wait_for(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes before the thread ends");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Waits until it ends by itself.
    fn result(&mut self) -> Result<(), NodeError> {
        self.thread.take().expect("it ends once").join().unwrap()
    }

    fn end(&mut self) -> Result<(), NodeError> {
        self.stop.request();
        self.result()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn nodes_that_do_not_fit_are_refused_and_told_why() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(2, folder.path());
    let mut first = Running::start(&config, 0);
    first.wait_for(" ready on ");

    let stray = ClusterConfig { name: ClusterName::new("other").unwrap(), ..config.clone() };
    let error = Running::start(&stray, 1).result().unwrap_err().to_string();
    let expected = "[cluster] name = \"other\" here and \"weft\" at the membership service";
    assert!(error.starts_with(expected), "{error}");
    let line = first.wait_for("refuses node 1");
    assert!(line.ends_with("it is not of cluster \"weft\""), "{line}");

    let mut larger = config.clone();
    larger.engines.kv.as_mut().unwrap().value_bytes = 128;
    let error = Running::start(&larger, 1).result().unwrap_err().to_string();
    assert_eq!(error, "[kv] value_bytes is 128 here and 64 at node 0; make the configurations agree");
    let line = first.wait_for("refuses node 1");
    assert!(line.ends_with("[kv] value_bytes is 128 there and 64 at node 0"), "{line}");

    // The one that belongs there is taken, as if the others had never been.
    let mut second = Running::start(&config, 1);
    second.wait_for(" as full ");
    second.end().unwrap();
    first.end().unwrap();
}

/// What a stranger says in the name of a node that lives: neither is the node ended, nor kept from coming back.
#[test]
fn a_forged_incarnation_neither_ends_a_node_nor_bars_it() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(2, folder.path());
    let mut nodes = [0, 1].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    let own = seen_from(&config, 1);
    let mut forger = UdpPort::bind(SocketAddrV4::new(addresses.node(1), 0), &PortOptions::default()).unwrap();
    for (token, number) in [(1, Incarnation::LAST.get()), (2, 1 << 62)] {
        let incarnation = Incarnation::new(number).unwrap();
        let heartbeat = Heartbeat { node: own.node, incarnation, status: EngineStatus::STARTING };
        let message = Message::Heartbeat { token, heartbeat, profile: Some(own.profile()) };
        forger.push(own.membership.address, &message.encode(own.cluster.id()));
    }
    forger.flush().unwrap();
    // Once it has stopped, what has been forged has no lease, and the node is back at once.
    std::thread::sleep(std::time::Duration::from_millis(300));
    nodes[1].end().unwrap();
    nodes[1] = Running::start(&config, 1);
    nodes[1].wait_for(" as full ");
    for node in &mut nodes {
        node.end().unwrap();
    }
}

/// The lease lasts longer than the test waits, so the view changes because the node says that it leaves.
#[test]
fn a_node_that_stops_is_out_of_the_view_before_its_lease_ends() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(3, folder.path());
    config.membership.serve.lease = weft_cluster::LEASE_MAX;
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    nodes[2].end().unwrap();
    for node in &nodes[..2] {
        node.wait_for(" epoch 2 full 0,1 joining - as full ");
    }
    for node in &mut nodes[..2] {
        node.end().unwrap();
    }
}
