//! Nodes in threads, each test on its own loopback addresses.

#![allow(dead_code, reason = "no test uses all of it")]

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use weft_cluster::{ClusterConfig, NodeConfig};
use weft_net::log::{self, LogFormat, LogLevel};
use weft_net::{
    MembershipError, NodeError, Stop, StoreState, found_coordinators, run_membership, run_membership_storing,
    run_node,
};
use weft_node::{Ledger, Registry};
use weft_waist::NodeId;

/// Time-out for any expected event, on a busy machine.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Eight loopback addresses that no other test uses, in this process or in another one.
#[derive(Clone, Copy)]
pub struct Addresses(u32);

impl Addresses {
    pub fn new() -> Self {
        static BLOCK: AtomicU32 = AtomicU32::new(0);
        let block = BLOCK.fetch_add(1, Ordering::Relaxed) % 32;
        let process = std::process::id() % (1 << 13);
        Self(u32::from(Ipv4Addr::new(127, 80, 0, 0)) + (process << 8 | block << 3))
    }

    pub fn node(self, node: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + 1 + node)
    }

    /// The configuration of a cluster of `nodes` with `engines`, whose membership service runs at node 0.
    pub fn config(self, nodes: u32, folder: &Path, engines: &str) -> ClusterConfig {
        let service = format!(
            "address = \"{}:4794\"\nnode = 0\nlease_ms = 1000\nstate_file = {:?}\n",
            self.node(0),
            folder.join("state.toml")
        );
        self.config_with(&service, nodes, engines)
    }

    /// The configuration of a new cluster of `nodes` with `engines`, all keepers, and the first three coordinators.
    pub fn kept(self, nodes: u32, folder: &Path, engines: &str) -> ClusterConfig {
        let mut config = self.config_with("coordinators = [0, 1, 2]\n", nodes, engines);
        config.membership.serve.state_file = Some(folder.join("state"));
        found_coordinators(&config.service()).unwrap();
        config
    }

    /// The configuration of a cluster of `nodes` with `engines` and these leases, whose membership service is a process
    /// of its own.
    pub fn apart(
        self,
        nodes: u32,
        folder: &Path,
        lease: std::time::Duration,
        engines: &str,
    ) -> ClusterConfig {
        let service = format!(
            "address = \"{}:4794\"\nlease_ms = {}\nstate_file = {:?}\n",
            self.node(6),
            lease.as_millis(),
            folder.join("state.toml")
        );
        self.config_with(&service, nodes, engines)
    }

    fn config_with(self, service: &str, nodes: u32, engines: &str) -> ClusterConfig {
        let mut text = format!("[membership]\n{service}");
        for peer in 0..nodes {
            text += &format!("[[node]]\naddress = \"{}\"\n", self.node(peer));
        }
        ClusterConfig::parse(&(text + engines)).unwrap()
    }
}

/// A writer that passes on log lines: each event is written by one call.
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in std::str::from_utf8(bytes).unwrap().lines() {
            // A test that has ended receives no more lines.
            let _ = self.0.send(log::message(line).to_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn seen_from(config: &ClusterConfig, node: usize) -> NodeConfig {
    config.node(NodeId::new(node).unwrap()).unwrap()
}

/// A node in a thread.
pub struct Running {
    stop: Arc<Stop>,
    lines: Receiver<String>,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
}

impl Running {
    pub fn start(config: &ClusterConfig, node: usize) -> Self {
        let config = seen_from(config, node);
        let stop = Arc::new(Stop::new().unwrap());
        let (to, lines) = mpsc::channel();
        let theirs = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let ledger = Ledger::new(100);
            let registry = Registry::new().with_application(&ledger);
            let log = log::subscriber(LogFormat::Text, LogLevel::INFO, move || Lines(to.clone()));
            tracing::subscriber::with_default(log, || run_node(&config, &registry, &theirs))
        });
        Self { stop, lines, thread: Some(thread) }
    }

    pub fn wait_for(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the line comes before the thread ends");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Waits until the node ends by itself; returns its result.
    pub fn result(&mut self) -> Result<(), NodeError> {
        self.thread.take().expect("it ends once").join().unwrap()
    }

    pub fn end(&mut self) -> Result<(), NodeError> {
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

/// A membership service in a thread of its own.
pub struct Membership {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Result<(), MembershipError>>>,
}

impl Membership {
    pub fn start(config: &ClusterConfig) -> Self {
        let config = config.service();
        Self::spawn(move |stop| run_membership(&config, stop))
    }

    /// A service that stores its state by `store`.
    pub fn storing(config: &ClusterConfig, store: StoreState) -> Self {
        let config = config.service();
        Self::spawn(move |stop| run_membership_storing(&config, store, stop))
    }

    fn spawn(run: impl FnOnce(&Stop) -> Result<(), MembershipError> + Send + 'static) -> Self {
        let stop = Arc::new(Stop::new().unwrap());
        let theirs = Arc::clone(&stop);
        Self { stop, thread: Some(std::thread::spawn(move || run(&theirs))) }
    }

    pub fn end(mut self) {
        self.stop.request();
        self.thread.take().expect("it ends once").join().unwrap().unwrap();
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
