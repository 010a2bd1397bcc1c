//! Real nodes on loopback: which nodes a cluster accepts, and what happens when nodes start and stop.

mod common;

use std::net::SocketAddrV4;

use weft_client::{Client, Cluster};
use weft_cluster::{ClusterConfig, ClusterName, Heartbeat, Incarnation, Message};
use weft_net::{PortOptions, UdpPort};
use weft_txn::{Key, Mode, Outcome, ProcedureId};
use weft_waist::{EngineStatus, Epoch, NodeSet};

use common::{Addresses, Membership, Running, seen_from};

/// Time-out of clients, on a busy machine.
const SECONDS_20: weft_time::Duration = weft_time::Duration::from_secs(20);
const KEYS: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n";

fn patient(config: &ClusterConfig) -> Client {
    Client::open(&Cluster { give_up: SECONDS_20, ..Cluster::from(config) }).unwrap()
}

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

/// Three processes of another cluster, a node that was moved by mistake and a second process of a node are started
/// against a running ledger's membership service. All are refused; the ledger keeps its view and its data.
#[test]
fn strangers_neither_end_a_cluster_nor_take_the_numbers_of_its_nodes() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let ledger = "[transactions]\nprocedures = \"ledger\"\nsize = 100\n";
    let config = addresses.config(3, folder.path(), ledger);
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    let client = patient(&config);
    let call = |procedure, mode, input: &[u8]| {
        let keys = [(Key::new(0, 1), mode), (Key::new(2, 7), mode)];
        let ended = client.transactions().unwrap().call(ProcedureId(procedure), &keys, input).wait();
        ended.unwrap().outcome
    };
    let (transfer, balance) = (0, 2);
    assert!(matches!(call(transfer, Mode::Update, &300_i64.to_le_bytes()), Outcome::Committed { .. }));

    let at = |engines: &str, places: [u32; 3]| {
        let mut text = format!("[membership]\naddress = \"{}\"\n", config.membership.address);
        for place in places {
            text += &format!("[[node]]\naddress = \"{}\"\n", addresses.node(place));
        }
        ClusterConfig::parse(&(text + engines)).unwrap()
    };
    let (strangers, moved) = (at(KEYS, [3, 4, 5]), at(ledger, [0, 6, 2]));
    let refused = [(&strangers, 0), (&strangers, 1), (&strangers, 2), (&moved, 1)];
    let refused = refused.map(|(theirs, node)| (node, Running::start(theirs, node)));
    for (node, mut stranger) in refused {
        let error = stranger.result().unwrap_err().to_string();
        let expected = format!("[[node]] {node} is 127.");
        assert!(error.starts_with(&expected) && error.ends_with("make the configurations agree"), "{error}");
    }
    let error = Running::start(&config, 1).result().unwrap_err().to_string();
    assert!(error.contains("is in use"), "{error}");

    let total = call(balance, Mode::Read, &[]);
    assert_eq!(total, Outcome::Committed { answer: 2_000_i64.to_le_bytes().to_vec() });
    let status = weft_client::status(&config, SECONDS_20).unwrap();
    assert_eq!(status.service.unwrap().view.epoch, Epoch(1));
    for node in &mut nodes {
        node.end().unwrap();
    }
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
        forger.push(own.membership.address.to_string().parse().unwrap(), &message.encode(own.cluster.id()));
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
    let service = Membership::start(&config);
    let mut nodes = [0, 1].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    service.end();
    nodes[1].end().unwrap();
    let client = Client::open(&Cluster::from(&config)).unwrap();
    let kv = client.kv().unwrap();
    // The remaining node leads some of these keys.
    let writes: Vec<_> = (0..16_u64).map(|key| kv.put(&key.to_be_bytes(), b"value")).collect();
    nodes[0].wait_for("node 0 stalls: [kv] has been waiting 3");
    nodes[0].wait_for("node 0 stalls: its lease has ended");
    drop(writes);
    nodes[0].end().unwrap();
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
    // A founder reports that it is full slightly before its lease has been renewed in that view.
    let whole = loop {
        let status = weft_client::status(&config, SECONDS_20).unwrap();
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
    let cluster = Cluster { give_up: SECONDS_20, ..Cluster::from(&config) };
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
    let status = weft_client::status(&config, SECONDS_20).unwrap();
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
    let (key, state) = (7_u64.to_be_bytes(), folder.path().join("state.toml"));
    let service = Membership::start(&config);
    let nodes = [0, 1].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    patient(&config).kv().unwrap().put(&key, b"kept").wait().unwrap();
    service.end();
    std::fs::remove_file(&state).unwrap();
    let service = Membership::start(&config);
    // Leases that were granted before remain valid for a while: the assertions start when the service grants
    // leases again.
    let is_running = || {
        let status = weft_client::status(&config, weft_time::Duration::from_ms(200)).unwrap();
        status.service.is_some_and(|service| service.view.epoch.0 > 0)
    };
    assert!((0..300).any(|_| is_running()), "the service has no view");
    let found = patient(&config).kv().unwrap().get(&key).wait();
    assert_eq!(found.unwrap().unwrap().value, b"kept");
    patient(&config).kv().unwrap().put(&key, b"after").wait().unwrap();
    assert!(std::fs::read_to_string(&state).unwrap().contains("epoch = 1"));
    for mut node in nodes {
        node.end().unwrap();
    }
    service.end();
}

/// The membership service restarts without its state file while a member is gone, whose data may have been the only
/// copy. It does not go on; the other member says how nothing is lost, and what it says is true.
#[test]
fn a_service_that_has_lost_its_state_and_a_member_goes_on_with_the_state_restored() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let mut config = addresses.config(2, folder.path(), KEYS);
    config.membership.node = None;
    config.membership.serve.lease = weft_time::Duration::from_ms(300);
    let [state, backup] = ["state.toml", "backup.toml"].map(|name| folder.path().join(name));
    let key = 7_u64.to_be_bytes();
    let service = Membership::start(&config);
    let mut nodes = [0, 1].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    patient(&config).kv().unwrap().put(&key, b"kept").wait().unwrap();
    service.end();
    std::fs::rename(&state, &backup).unwrap();
    nodes[1].end().unwrap();
    nodes[1] = Running::start(&config, 1);

    let service = Membership::start(&config);
    let line = nodes[0].wait_for("the membership service has lost its state");
    assert!(line.ends_with("stop that service only, restore its state file and start it again"), "{line}");
    service.end();
    assert!(!state.exists(), "it has published nothing");
    std::fs::rename(&backup, &state).unwrap();

    let service = Membership::start(&config);
    nodes[1].wait_for(" as full ");
    let found = patient(&config).kv().unwrap().get(&key).wait();
    assert_eq!(found.unwrap().unwrap().value, b"kept");
    for node in &mut nodes {
        node.end().unwrap();
    }
    service.end();
}
