//! Real nodes on loopback that are keepers: one at a time holds the membership service.

mod common;

use weft_client::{Client, Cluster};
use weft_cluster::ClusterConfig;
use weft_time::Duration;

use common::{Addresses, Running};

const PATIENT: Duration = Duration::from_secs(20);
const KEYS: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n";

fn put(config: &ClusterConfig, key: u64, value: &[u8]) {
    let client = Client::open(&Cluster { give_up: PATIENT, ..Cluster::from(config) }).unwrap();
    client.kv().unwrap().put(&key.to_be_bytes(), value).wait().unwrap();
}

/// The keeper that holds the service, and its term, once there is one.
fn holder(config: &ClusterConfig) -> (usize, u32) {
    loop {
        let status = weft_client::status(config, Duration::from_ms(200)).unwrap();
        if let Some(service) = status.service {
            return (service.holder.unwrap().index(), service.term);
        }
    }
}

/// Each node in turn holds the service, is stopped, and restarts: another one takes over, and writes go on.
#[test]
fn another_node_takes_the_service_over_from_one_that_stops() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.kept(3, folder.path(), KEYS);
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    let mut last = 0;
    for round in 0..3 {
        let (stopped, term) = holder(&config);
        assert!(term > last, "each holder has a term of its own");
        nodes[stopped].end().unwrap();
        put(&config, round, b"without it");
        let (successor, next) = holder(&config);
        assert!(successor != stopped && next > term, "node {successor} in term {next}");
        nodes[successor].wait_for(&format!("membership is held by node {successor} in term {next}"));
        nodes[stopped] = Running::start(&config, stopped);
        nodes[stopped].wait_for(" as full ");
        last = term;
    }
    put(&config, 9, b"whole");
    for node in &mut nodes {
        node.end().unwrap();
    }
}

/// A coordinator that would forget its promises does not start, and says what to do. The others go on.
#[test]
fn a_coordinator_without_its_state_does_not_start() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.kept(3, folder.path(), KEYS);
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    nodes[2].end().unwrap();
    let [state, backup] = ["state.node2", "backup"].map(|name| folder.path().join(name));
    std::fs::rename(&state, &backup).unwrap();
    let error = Running::start(&config, 2).result().unwrap_err().to_string();
    assert!(error.contains("state.node2: it is not there; restore the file"), "{error}");
    assert!(!state.exists());
    std::fs::copy(folder.path().join("state.node1"), &state).unwrap();
    let error = Running::start(&config, 2).result().unwrap_err().to_string();
    assert!(error.contains("it belongs to coordinator 1, and this is coordinator 2"), "{error}");
    put(&config, 1, b"two of three");
    std::fs::rename(&backup, &state).unwrap();
    nodes[2] = Running::start(&config, 2);
    nodes[2].wait_for(" as full ");
    for node in &mut nodes {
        node.end().unwrap();
    }
    let error = weft_net::found_coordinators(&config.service()).unwrap_err().to_string();
    assert!(error.contains("it is there already"), "{error}");
}
