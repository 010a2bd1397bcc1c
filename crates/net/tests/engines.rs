//! Several engines in the slots of one card, over real sockets: each serves its clients, and a node that comes back gets all
//! of their data.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weft_cluster::ClusterConfig;
use weft_rdt::Type;
use weft_rdt::replica::{self, Ask};
use weft_rounds::message;
use weft_smr::log::{self, Append};
use weft_wire::datagram::{Builder, Datagram};

use common::{Addresses, PATIENCE, Running};

const ENGINES: &str = "[kv]\nvalue_bytes = 64\ncapacity_keys = 1000\n\
    [transactions]\nprocedures = \"ledger\"\nsize = 100\n\
    [[object]]\nname = \"visits\"\ntype = \"pn-counter\"\n\
    [[log]]\nname = \"audit\"\n\
    [rounds]\nperiod_us = 200000\n";
const OBJECT: u8 = 2;
const LOG: u8 = 3;
const ROUNDS: u8 = 4;

/// A client of one message at a time.
struct Client(UdpSocket);

impl Client {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Self(socket)
    }

    /// Asks node after node, until `take` makes something of an answer.
    fn ask<R>(
        &self,
        config: &ClusterConfig,
        slot: u8,
        (kind, payload): (u8, &[u8]),
        mut take: impl FnMut(u8, &[u8]) -> Option<R>,
    ) -> R {
        let nodes: Vec<SocketAddr> =
            config.peers.iter().map(|(_, peer)| peer.datagram_address().into()).collect();
        let began = Instant::now();
        for node in nodes.iter().cycle() {
            assert!(began.elapsed() < PATIENCE, "nobody answers as expected");
            let mut datagram = Builder::new(1_400);
            assert!(datagram.try_push(slot, kind, payload));
            self.0.send_to(datagram.finish(), node).unwrap();
            let mut bytes = [0; 2_048];
            let Ok((length, _)) = self.0.recv_from(&mut bytes) else { continue };
            let datagram = Datagram::parse(&bytes[..length]).unwrap();
            let answer = datagram.messages().filter(|message| message.engine == slot);
            if let Some(result) = answer.filter_map(|message| take(message.kind, message.payload)).next() {
                return result;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        unreachable!("the nodes are asked in turn")
    }

    /// Appends, once however often it has to ask.
    fn append(&self, config: &ClusterConfig, sequence: u64, content: &[u8]) -> u64 {
        let append = Append { origin: 7, sequence, content };
        let payload = [&append.header(), content].concat();
        self.ask(config, LOG, (log::Call::Append as u8, &payload), |_, payload| {
            let answer = log::Answer::parse(payload).ok()?;
            (answer.status == log::Status::Ok).then_some(answer.index)
        })
    }

    fn read(&self, config: &ClusterConfig, index: u64) -> Vec<u8> {
        self.ask(config, LOG, (log::Call::Read as u8, &index.to_be_bytes()), |kind, payload| {
            let entry = (kind == log::Call::Entry as u8).then(|| Append::parse(&payload[8..]).unwrap());
            entry.map(|append| append.content.to_vec())
        })
    }

    /// Proposes, at as many nodes as it takes, and waits until it is decided.
    fn propose(&self, config: &ClusterConfig, value: &[u8]) {
        self.ask(config, ROUNDS, (message::Call::Propose as u8, value), |_, payload| {
            let answer = message::Answer::parse(payload).ok()?;
            (answer.status == message::Status::Ok).then_some(())
        })
    }

    fn object(&self, config: &ClusterConfig, call: replica::Call, method: u8, argument: i64) -> i64 {
        let ask = Ask { sequence: 1, method, arguments: [argument, 0, 0, 0] };
        self.ask(config, OBJECT, (call as u8, &ask.encode()), |_, payload| {
            let answer = replica::Answer::parse(payload).ok()?;
            (answer.status == replica::Status::Done).then_some(answer.value)
        })
    }
}

#[test]
fn all_engines_serve_and_a_node_that_comes_back_is_full_again() {
    let (folder, addresses) = (tempfile::tempdir().unwrap(), Addresses::new());
    let config = addresses.config(3, folder.path(), ENGINES);
    let mut nodes: Vec<Running> = (0..3).map(|node| Running::start(&config, node)).collect();
    nodes.iter().for_each(|node| {
        node.wait_for(" as full ");
    });
    let client = Client::new();
    let kind = Type::shipped("pn-counter", &weft_rdt::Bounds::uniform(1)).unwrap();
    let increment = kind.definition().methods.iter().position(|method| method.name == "increment").unwrap();
    let mut total = 0;
    client.propose(&config, b"a first decision");
    for round in 0..3 {
        let content = format!("round {round}");
        let index = client.append(&config, round, content.as_bytes());
        assert_eq!(client.append(&config, round, content.as_bytes()), index, "asked twice, appended once");
        client.object(&config, replica::Call::Invoke, increment as u8, 5);
        total += 5;
        // The next node leaves, and comes back as a new process would: with nothing.
        let node = round as usize;
        nodes[node].end().unwrap();
        let read = client.read(&config, index);
        assert_eq!(read, content.as_bytes());
        nodes[node] = Running::start(&config, node);
        nodes[node].wait_for(" as full ");
        assert_eq!(client.read(&config, index), content.as_bytes());
        assert_eq!(client.object(&config, replica::Call::Query, 0, 0), total);
    }
}
