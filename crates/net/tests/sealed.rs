//! Real nodes on loopback whose sockets are sealed under a cluster key.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use weft_client::{Client, Cluster, Error};
use weft_cluster::{ClusterConfig, ClusterName, SecurityConfig};
use weft_kv::{ClientParameters, Completion, Outcome, Task};
use weft_net::{Clock, KV_SLOT, write_new_key};
use weft_nic::Egress;
use weft_seal::{BEFORE_BYTES, ClusterKey, Endpoint, Opened, Parameters, SEAL_BYTES};
use weft_waist::NodeSet;
use weft_wire::datagram::Datagram;

use common::{Addresses, Running};

const SECONDS_20: weft_time::Duration = weft_time::Duration::from_secs(20);
const KEYS: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n";
const ENGINES: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n\
    [transactions]\nprocedures = \"ledger\"\nsize = 100\n\
    [[object]]\nname = \"visits\"\ntype = \"pn-counter\"\n[[log]]\nname = \"events\"\n[lock]\n";

/// The same cluster, sealed under a new key in `folder`.
fn sealed(config: ClusterConfig, folder: &Path, name: &str) -> ClusterConfig {
    let key_file = folder.join(name);
    write_new_key(&key_file).unwrap();
    ClusterConfig { security: Some(SecurityConfig { key_file }), ..config }
}

fn open(config: &ClusterConfig, give_up: weft_time::Duration) -> Client {
    Client::open(&Cluster { give_up, ..Cluster::from(config) }).unwrap()
}

/// All engines, Mu's log among them, whose packets are sealed, too; and a node that goes and comes back under load.
#[test]
fn a_sealed_cluster_serves_and_goes_on_when_a_node_comes_back() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = sealed(addresses.kept(3, folder.path(), ENGINES), folder.path(), "weft.key");
    let mut nodes = [0, 1, 2].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for("seals its datagrams under");
        node.wait_for(" as full ");
    }
    let client = open(&config, SECONDS_20);
    let kv = client.kv().unwrap();
    let put = |key: u64| {
        kv.put(&key.to_be_bytes(), &key.to_le_bytes()).wait().unwrap();
    };
    (0..20).for_each(&put);
    client.log("events").unwrap().append(b"one").wait().unwrap();
    let locks = client.lock().unwrap();
    locks.acquire("a", Duration::from_secs(20)).wait().unwrap();
    nodes[1].end().unwrap();
    (20..40).for_each(&put);
    nodes[1] = Running::start(&config, 1);
    (40..60).for_each(&put);
    nodes[1].wait_for(" as full ");
    (60..80).for_each(&put);
    client.log("events").unwrap().append(b"two").wait().unwrap();
    for key in 0..80_u64 {
        let found = kv.get(&key.to_be_bytes()).wait().unwrap().unwrap();
        assert_eq!(found.value, key.to_le_bytes());
    }
    let status = weft_client::status(&config, SECONDS_20).unwrap();
    assert!(status.problems(&config).is_empty(), "{:?}", status.problems(&config));
    for node in &mut nodes {
        node.end().unwrap();
    }
}

#[test]
fn a_client_without_the_key_is_told_what_to_do_and_changes_nothing() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let plain = addresses.config(2, folder.path(), KEYS);
    let config = sealed(plain.clone(), folder.path(), "weft.key");
    let mut nodes = [0, 1].map(|node| Running::start(&config, node));
    for node in &nodes {
        node.wait_for(" as full ");
    }
    let key = 7_u64.to_be_bytes();
    open(&config, SECONDS_20).kv().unwrap().put(&key, b"own").wait().unwrap();
    let other = sealed(plain.clone(), folder.path(), "other.key");
    let renamed = ClusterConfig { name: ClusterName::new("other").unwrap(), ..config.clone() };
    for (stranger, remedy) in [
        (&plain, "add [security] with the cluster's key_file"),
        (&other, "copy weft.toml and the key file"),
        (&renamed, "copy weft.toml and the key file"),
    ] {
        let client = open(stranger, weft_time::Duration::from_ms(500));
        let error = client.kv().unwrap().put(&key, b"theirs").wait().unwrap_err();
        assert!(matches!(error, Error::KeyMismatch(_)) && !error.may_have_happened(), "{error}");
        assert!(error.to_string().contains(remedy), "{error}");
        let status = weft_client::status(stranger, weft_time::Duration::from_ms(200)).unwrap();
        assert!(status.service.is_none() && status.nodes.iter().all(Option::is_none));
        assert!(status.problems(stranger)[0].contains(remedy), "{:?}", status.problems(stranger));
    }
    let found = open(&config, SECONDS_20).kv().unwrap().get(&key).wait().unwrap().unwrap();
    assert_eq!(found.value, b"own");
    nodes[0].wait_for("refuses datagrams");
    // A node without the key cannot join, and the others stay.
    let missing = ClusterConfig {
        security: Some(SecurityConfig { key_file: folder.path().join("no.key") }),
        ..plain.clone()
    };
    let error = Running::start(&missing, 1).result().unwrap_err().to_string();
    assert!(error.contains("no.key: cannot be read") && error.contains("copy it"), "{error}");
    for node in &mut nodes {
        node.end().unwrap();
    }
}

/// One end of a client, whose datagrams can be recorded and sent again.
struct Line {
    socket: UdpSocket,
    seal: Option<Endpoint>,
    clock: Clock,
    nodes: Vec<SocketAddr>,
    client: weft_kv::Client,
    egress: Egress,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

fn random(bytes: &mut [u8]) {
    use std::io::Read;
    std::fs::File::open("/dev/urandom").unwrap().read_exact(bytes).unwrap();
}

impl Line {
    fn new(config: &ClusterConfig, number: u64) -> Self {
        let nodes: Vec<SocketAddr> =
            config.peers.iter().map(|(_, peer)| peer.datagram_place().address().unwrap()).collect();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let seal = config.security.as_ref().map(|security| {
            let key = ClusterKey::parse(&std::fs::read_to_string(&security.key_file).unwrap()).unwrap();
            let (local, name) = (socket.local_addr().unwrap(), config.name);
            Endpoint::new(&key, name.as_str(), local, Parameters::default(), &mut random)
        });
        let client = weft_kv::Client::new(ClientParameters::new(number, NodeSet::first(nodes.len())));
        let (egress, clock) = (Egress::new(1_000), Clock::starting_now());
        Self { socket, seal, clock, nodes, client, egress, sent: Vec::new() }
    }

    fn put(&mut self, key: u64, value: &[u8]) {
        let task = Task::Put { key: &key.to_be_bytes(), value };
        self.client.start(self.clock.now(), task).unwrap();
    }

    /// The next datagrams of the client, in plaintext, with the node to which each goes.
    fn datagrams(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut payload = Vec::new();
        while let Some((node, kind)) = self.client.poll_transmit(&mut payload) {
            let to = std::net::SocketAddrV4::new([0, 0, 0, 0].into(), node.index() as u16);
            assert!(self.egress.push(to, KV_SLOT, kind, &payload));
            payload.clear();
        }
        let mut datagrams = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let Some(to) = self.egress.poll(&mut bytes) else { return datagrams };
            datagrams.push((usize::from(to.port()), bytes));
        }
    }

    fn send(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        self.socket.send_to(&bytes, to).unwrap();
        self.sent.push((to, bytes));
    }

    fn transmit(&mut self) {
        for (node, payload) in self.datagrams() {
            let (to, now) = (self.nodes[node], self.clock.now());
            let Some(seal) = &mut self.seal else {
                self.send(to, payload);
                continue;
            };
            let mut frame = vec![0; payload.len() + SEAL_BYTES];
            frame[BEFORE_BYTES..BEFORE_BYTES + payload.len()].copy_from_slice(&payload);
            if seal.seal(now, to, &mut frame, &mut random) {
                self.send(to, frame);
            } else {
                seal.hold(now, to, payload, &mut random);
            }
        }
        while let Some((to, bytes)) = self.seal.as_mut().and_then(Endpoint::poll_transmit) {
            self.send(to, bytes);
        }
    }

    /// Waits until the client's requests have been answered; `handle` gets each outcome.
    fn finish(&mut self, mut handle: impl FnMut(Outcome<'_>)) {
        while self.client.outstanding() > 0 {
            self.transmit();
            let mut bytes = [0; 2_000];
            if let Ok((length, from)) = self.socket.recv_from(&mut bytes) {
                let now = self.clock.now();
                let bytes = &mut bytes[..length];
                let payload = match &mut self.seal {
                    None => &*bytes,
                    Some(seal) => match seal.open(now, from, bytes, &mut random) {
                        Opened::Payload(payload) => payload,
                        _ => continue,
                    },
                };
                for message in Datagram::parse(payload).unwrap().messages() {
                    let completion = self.client.receive(now, message.kind, message.payload).unwrap();
                    if let Some(Completion { outcome, .. }) = completion {
                        handle(outcome);
                    }
                }
            }
            let ended = self.client.handle_deadline(self.clock.now());
            assert_eq!(ended, None, "no request is given up");
        }
    }

    fn get(&mut self, key: u64) -> Vec<u8> {
        let mut found = Vec::new();
        self.client.start(self.clock.now(), Task::Get { key: &key.to_be_bytes() }).unwrap();
        self.finish(|outcome| match outcome {
            Outcome::Value { value, .. } => found = value.to_vec(),
            other => panic!("{other:?}"),
        });
        found
    }
}

/// A stranger sends the next request of a client before the client does. In plaintext the client's own request is then
/// answered as done without being applied. On sealed sockets nothing happens, whatever the stranger's key.
#[test]
fn a_stranger_with_the_next_request_of_a_client_changes_nothing_on_sealed_sockets() {
    for is_sealed in [false, true] {
        let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
        let plain = addresses.config(1, folder.path(), KEYS);
        let config = match is_sealed {
            true => sealed(plain.clone(), folder.path(), "weft.key"),
            false => plain.clone(),
        };
        let mut node = Running::start(&config, 0);
        node.wait_for(" as full ");
        let mut client = Line::new(&config, 77);
        client.put(1, b"first");
        client.finish(|_| {});

        let mut stranger = Line::new(&plain, 77);
        stranger.put(1, b"skipped");
        stranger.datagrams();
        stranger.put(2, b"forged");
        for (to, bytes) in stranger.datagrams() {
            stranger.send(stranger.nodes[to], bytes);
        }
        let other = sealed(plain.clone(), folder.path(), "other.key");
        let mut stranger = Line::new(&other, 77);
        stranger.put(1, b"forged");
        stranger.transmit();

        client.put(2, b"own");
        client.finish(|outcome| assert!(matches!(outcome, Outcome::Done { .. })));
        assert_eq!(client.get(2), if is_sealed { &b"own"[..] } else { b"forged" });
        assert_eq!(client.get(1), b"first");
        node.end().unwrap();
    }
}

/// Everything that a client has ever sent is sent again, from its own socket and from another one.
#[test]
fn datagrams_that_are_repeated_change_nothing() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = sealed(addresses.config(1, folder.path(), KEYS), folder.path(), "weft.key");
    let mut node = Running::start(&config, 0);
    node.wait_for(" as full ");
    let mut client = Line::new(&config, 77);
    client.put(1, b"first");
    client.finish(|_| {});
    let old = std::mem::take(&mut client.sent);
    client.put(1, b"second");
    client.finish(|_| {});
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (to, bytes) in &old {
        client.socket.send_to(bytes, to).unwrap();
        other.send_to(bytes, to).unwrap();
    }
    assert_eq!(client.get(1), b"second");
    node.end().unwrap();
}
