//! A real cluster whose membership service has a slow disk.

mod common;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration as Wall, Instant};

use weft_client::{Client, Cluster};
use weft_cluster::ClusterConfig;
use weft_net::StoreState;
use weft_time::Duration;
use weft_waist::View;

use common::{Addresses, Membership, PATIENCE, Running};

const LEASE: Wall = Wall::from_millis(500);

/// Stores states in the state file. The test holds it up.
struct Gate {
    arrived: Receiver<()>,
    passes: Sender<()>,
}

impl Gate {
    fn new(path: &Path) -> (Self, StoreState) {
        let path = path.to_owned();
        let (arrives, arrived) = mpsc::channel();
        let (passes, released) = mpsc::channel();
        let store = move |state: &[u8]| {
            arrives.send(()).unwrap_or(());
            // When the test has ended, nothing is held up any more.
            released.recv().unwrap_or(());
            Ok(std::fs::write(&path, state)?)
        };
        (Self { arrived, passes }, Box::new(store))
    }

    /// Waits until a state is to be stored.
    fn wait(&self) {
        self.arrived.recv_timeout(PATIENCE).expect("a state is to be stored");
    }

    fn pass(&self) {
        self.passes.send(()).unwrap();
    }
}

fn view(config: &ClusterConfig) -> View {
    loop {
        let status = weft_client::status(config, Duration::from_ms(500)).unwrap();
        if let Some(service) = status.service {
            return service.view;
        }
    }
}

/// A node comes back, and the view with it takes three leases' time to be stored. Meanwhile the others serve by leases
/// of the stored view, and nobody is taken for silent afterwards.
#[test]
fn writes_go_on_while_a_view_is_being_stored() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.apart(3, folder.path(), LEASE, "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n");
    let (gate, store) = Gate::new(&folder.path().join("state.toml"));
    let service = Membership::storing(&config, store);
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    gate.wait();
    gate.pass();
    nodes.iter().for_each(|node| drop(node.wait_for(" as full ")));
    // It has left when that is stored, or gives up waiting for it.
    std::thread::scope(|scope| {
        let leaves = scope.spawn(|| nodes[2].end());
        gate.wait();
        gate.pass();
        leaves.join().unwrap().unwrap();
    });
    let client =
        Client::open(&Cluster { give_up: Duration::from_secs(20), ..Cluster::from(&config) }).unwrap();
    let put = |value: &[u8]| client.kv().unwrap().put(b"somekey1", value).wait().unwrap();
    put(b"without node 2");
    let before = view(&config);
    assert_eq!(before.full.len(), 2);

    nodes[2] = Running::start(&config, 2);
    gate.wait();
    let begun = Instant::now();
    while begun.elapsed() < 3 * LEASE {
        put(b"while the view is being stored");
    }
    assert_eq!(view(&config), before, "nobody is told what is not stored");
    gate.pass();
    gate.wait();
    gate.pass();
    nodes[2].wait_for(" as full ");
    let after = view(&config);
    assert_eq!((after.full.len(), after.epoch.0), (3, before.epoch.0 + 2), "it has joined, and is full");
    // What follows is stored without delay.
    drop(gate);
    for node in &mut nodes {
        node.end().unwrap();
    }
    service.end();
}
