//! Real nodes on loopback: which nodes a cluster accepts, and what happens when nodes start and stop.

mod common;

use std::net::SocketAddrV4;

use weft_client::{Client, Cluster};
use weft_cluster::{ClusterConfig, ClusterName, Heartbeat, Incarnation, Message};
use weft_net::{PortOptions, Stop, UdpPort, run_membership};
use weft_txn::{Key, Mode, ProcedureId};
use weft_waist::{EngineStatus, NodeSet};

use common::{Addresses, Running, seen_from};

const KEYS: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n";

#[test]
fn nodes_that_do_not_fit_are_refused_and_told_why() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(2, folder.path(), KEYS);
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

    // The correct second node is accepted, unaffected by the ones refused before.
    let mut second = Running::start(&config, 1);
    second.wait_for(" as full ");
    second.end().unwrap();
    first.end().unwrap();
}

/// A process outside the cluster sends heartbeats in the name of a live node. The node must not end, and must be able
/// to come back.
#[test]
fn a_forged_incarnation_neither_ends_a_node_nor_bars_it() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(2, folder.path(), KEYS);
    let mut nodes = [0, 1].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    let own = seen_from(&config, 1);
    let mut forger = UdpPort::bind(SocketAddrV4::new(addresses.node(1), 0), &PortOptions::default()).unwrap();
    for (token, number) in [(1, Incarnation::LAST.get()), (2, 1 << 62)] {
        let incarnation = Incarnation::new(number).unwrap();
        let heartbeat = Heartbeat {
            node: own.node,
            incarnation,
            status: EngineStatus::STARTING,
            receives_from: NodeSet::first(2),
            claim: None,
        };
        let message = Message::Heartbeat { token, heartbeat, profile: Some(own.profile()) };
        forger.push(own.membership.address, &message.encode(own.cluster.id()));
    }
    forger.flush().unwrap();
    // Once node 1 has stopped, the forged incarnation has no lease, and node 1 is back at once.
    std::thread::sleep(std::time::Duration::from_millis(300));
    nodes[1].end().unwrap();
    nodes[1] = Running::start(&config, 1);
    nodes[1].wait_for(" as full ");
    for node in &mut nodes {
        node.end().unwrap();
    }
}

/// The lease lasts longer than the test waits, so the view changes only because the node reports that it leaves.
#[test]
fn a_node_that_stops_is_out_of_the_view_before_its_lease_ends() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(3, folder.path(), KEYS);
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

/// Without a membership service no node leaves the view, so a write waits for a node that is gone. After more than
/// a lease the stall is logged, with the engine and the node that it waits for.
#[test]
fn a_stall_of_more_than_a_lease_is_logged() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(2, folder.path(), KEYS);
    config.membership.node = None;
    config.membership.serve.lease = weft_time::Duration::from_secs(3);
    let stop = Stop::new().unwrap();
    std::thread::scope(|scope| {
        let service = scope.spawn(|| run_membership(&config.service(), &stop));
        let mut nodes = [0, 1].map(|node| Running::start(&config, node));
        for node in &nodes {
            node.wait_for(" as full ");
        }
        stop.request();
        service.join().unwrap().unwrap();
        nodes[1].end().unwrap();
        let client = Client::open(&Cluster::from(&config)).unwrap();
        let kv = client.kv().unwrap();
        // The remaining node leads some of these keys.
        let writes: Vec<_> = (0..16_u64).map(|key| kv.put(&key.to_be_bytes(), b"value")).collect();
        nodes[0].wait_for("node 0 stalls: [kv] has been waiting 3");
        nodes[0].wait_for("node 0 stalls: its lease has ended");
        drop(writes);
        nodes[0].end().unwrap();
    });
}

/// A status lists each node and the membership service, and names a node that is gone. Answers are never longer
/// than the requests.
#[test]
fn a_status_names_what_is_wrong() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(3, folder.path(), KEYS);
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    let patience = weft_time::Duration::from_secs(20);
    // A founder reports that it is full slightly before its lease has been renewed in that view.
    let whole = loop {
        let status = weft_client::status(&config, patience).unwrap();
        if status.problems(&config).is_empty() {
            break status;
        }
    };
    let service = whole.service.as_ref().unwrap();
    assert_eq!((service.view.full.len(), service.nodes.len()), (3, 3));
    let overviews: Vec<_> = whole.nodes.iter().map(|node| node.as_ref().unwrap()).collect();
    let leads: u32 = overviews.iter().map(|node| node.engines[0].leads).sum();
    assert_eq!(leads, overviews[0].engines[0].shards, "each shard has one leader");
    for (node, overview) in overviews.iter().enumerate() {
        assert_eq!(overview.status.node.index(), node);
        assert_eq!(overview.engines[0].name.as_str(), "[kv]");
        assert_eq!(overview.counters.len(), usize::from(overview.status.counters));
    }
    nodes[2].end().unwrap();
    let status = weft_client::status(&config, weft_time::Duration::from_ms(500)).unwrap();
    let problems = status.problems(&config).join("\n");
    assert!(
        problems.contains(&format!("node 2 at {}:4793 does not answer", addresses.node(2))),
        "{problems}"
    );
    assert!(status.nodes[0].is_some() && status.nodes[1].is_some() && status.nodes[2].is_none());
    for node in &mut nodes[..2] {
        node.end().unwrap();
    }
    let problems = weft_client::status(&config, weft_time::Duration::from_ms(300)).unwrap().problems(&config);
    assert_eq!(problems.len(), 4, "{problems:?}");
}

/// A shell loop starts a client for each command: none has to wait because the nodes still hold the sessions of
/// earlier ones.
#[test]
fn ten_thousand_short_lived_clients_in_a_row_are_served() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let ledger = "[transactions]\nprocedures = \"ledger\"\nsize = 100\n";
    let config = addresses.config(1, folder.path(), &format!("{KEYS}{ledger}"));
    let mut node = Running::start(&config, 0);
    node.wait_for(" as full ");
    let give_up = weft_time::Duration::from_secs(20);
    let cluster = Cluster { give_up, ..Cluster::from(&config) };
    for number in 0..10_000_u64 {
        let client = Client::open(&cluster).unwrap();
        let written = client.kv().unwrap().put(&(number % 100).to_be_bytes(), b"value");
        // Procedure 2 reads the balance of an account.
        let balance =
            client.transactions().unwrap().call(ProcedureId(2), &[(Key::new(0, 7), Mode::Read)], &[]);
        written.wait().unwrap_or_else(|error| panic!("client {number}: {error}"));
        balance.wait().unwrap_or_else(|error| panic!("client {number}: {error}"));
    }
    // Each client has sent a message that ends its session; some of these may be lost.
    let status = weft_client::status(&config, give_up).unwrap();
    let remembered = status.nodes[0].as_ref().unwrap().engines[0].sessions;
    assert!(remembered < 1_000, "the store remembers {remembered} clients");
    node.end().unwrap();
}

/// The membership service restarts without its state file: its nodes claim the view that they are in, and data and
/// incarnations are kept.
#[test]
fn a_service_that_has_lost_its_state_goes_on_when_all_members_have_told_it_the_view() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(2, folder.path(), KEYS);
    config.membership.node = None;
    let client = |config: &ClusterConfig| {
        let give_up = weft_time::Duration::from_secs(20);
        Client::open(&Cluster { give_up, ..Cluster::from(config) }).unwrap()
    };
    let key = 7_u64.to_be_bytes();
    let (first, second) = (Stop::new().unwrap(), Stop::new().unwrap());
    let nodes = std::thread::scope(|scope| {
        let stop = &first;
        let service = scope.spawn(|| run_membership(&config.service(), stop));
        let nodes = [0, 1].map(|node| Running::start(&config, node));
        for node in &nodes {
            node.wait_for(" as full ");
        }
        client(&config).kv().unwrap().put(&key, b"kept").wait().unwrap();
        stop.request();
        service.join().unwrap().unwrap();
        nodes
    });
    std::fs::remove_file(folder.path().join("state.toml")).unwrap();
    std::thread::scope(|scope| {
        let stop = &second;
        let service = scope.spawn(|| run_membership(&config.service(), stop));
        // Leases that were granted before remain valid for a while: the assertions start when the service grants
        // leases again.
        let is_running = || {
            let status = weft_client::status(&config, weft_time::Duration::from_ms(200)).unwrap();
            status.service.is_some_and(|service| service.view.epoch.0 > 0)
        };
        let goes_on = (0..300).any(|_| is_running());
        let found = client(&config).kv().unwrap().get(&key).wait();
        let written = client(&config).kv().unwrap().put(&key, b"after").wait();
        let state = std::fs::read_to_string(folder.path().join("state.toml"));
        for mut node in nodes {
            node.end().unwrap();
        }
        stop.request();
        service.join().unwrap().unwrap();
        assert!(goes_on, "the service has no view");
        assert_eq!(found.unwrap().unwrap().value, b"kept");
        written.unwrap();
        assert!(state.unwrap().contains("epoch = 1"));
    });
}
