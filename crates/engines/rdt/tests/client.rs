//! Clients call an object over a network that loses, repeats and delays messages, while replicas crash. An
//! update takes effect exactly once if its client gets the answer "done", never if the answer is "refused" or
//! "not begun", and at most once in any case.

use std::collections::BTreeMap;

use crate::cluster::network::{Network, node, wiring};
use crate::cluster::small;
use weft_rdt::client::{CallId, Client, Invocation, Outcome, Sessions, TOKENS, sessions};
use weft_rdt::replica::message::DATA;
use weft_rdt::replica::{Call, Replica, ReplicaParameters};
use weft_rdt::types;
use weft_session::{ClientHalf, ClientParameters};
use weft_smr::log::Wire;
use weft_time::{Duration, Instant};
use weft_waist::{Caller, Configuration, Epoch, Event, Message, NodeSet, View};

const NODES: usize = 3;
const CLIENTS: usize = 4;

fn call(network: &mut Network<Replica>, index: usize, token: u32, kind: u8, payload: &[u8]) {
    let message = Message { kind, payload };
    network.handle(index, Event::Call { caller: Caller::Host(token), message, last: true });
}

fn started(seed: u64, parameters: &ReplicaParameters) -> Network<Replica> {
    let mut network = Network::new(seed, NODES);
    for index in 0..NODES {
        network.start(index, Replica::new(parameters.clone()), parameters.memory_bytes());
        for peer in (0..NODES).filter(|peer| *peer != index) {
            for group in parameters.purposes() {
                let purpose = if group == DATA { 14 } else { group.min(15) };
                let wire = Wire { group, peer, wiring: wiring(purpose, peer) };
                call(&mut network, index, 1, Call::Wire as u8, &wire.encode());
            }
        }
        let view = View { epoch: Epoch(1), full: NodeSet::first(NODES), joining: NodeSet::EMPTY };
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        network.handle(index, Event::Configure(configuration));
    }
    network.replies.clear();
    network
}

struct Letter {
    at: Instant,
    node: usize,
    client: usize,
    to_node: bool,
    kind: u8,
    bytes: Vec<u8>,
}

struct World {
    network: Network<Replica>,
    sessions: Vec<Sessions<usize>>,
    clients: Vec<Client>,
    letters: Vec<Letter>,
    asked: BTreeMap<(usize, CallId), &'static str>,
    ended: BTreeMap<(&'static str, &'static str), i64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let client = |index: usize| {
            Client::new(ClientParameters {
                first: index % NODES,
                repeat: Duration::from_us(60),
                pause: Duration::from_us(5),
                give_up: Duration::from_ms(3),
                ..ClientParameters::new(index as u64 + 1, NODES)
            })
        };
        Self {
            network: started(seed, &small("account", NODES)),
            sessions: (0..NODES).map(|_| sessions(1, 16)).collect(),
            clients: (0..CLIENTS).map(client).collect(),
            letters: Vec::new(),
            asked: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    fn post(&mut self, client: usize, node: usize, to_node: bool, kind: u8, bytes: &[u8]) {
        for _ in 0..=u32::from(self.network.chance(150)) {
            if !self.network.chance(150) {
                let at = self.network.now + Duration::from_us(1 + self.network.random(25));
                self.letters.push(Letter { at, node, client, to_node, kind, bytes: bytes.to_vec() });
            }
        }
    }

    fn end(&mut self, client: usize, call: CallId, outcome: Outcome) {
        let asked = self.asked.remove(&(client, call)).expect("it ends once");
        let how = match outcome {
            Outcome::Done if asked != "balance" => "done",
            Outcome::Value(0..) if asked == "balance" => "done",
            Outcome::Refused if asked == "withdraw" => "refused",
            Outcome::NotBegun => "not begun",
            Outcome::Unknown => "unknown",
            other => panic!("{asked} ends as {other:?}"),
        };
        *self.ended.entry((asked, how)).or_default() += 1;
    }

    fn step(&mut self, begins: bool) {
        self.network.run_until(self.network.now + Duration::from_us(5), |_| {});
        let now = self.network.now;
        while let Some((node, to, kind, bytes)) = self.network.replies.pop_front() {
            let Caller::Host(token) = to else { panic!("sessions ask for clients") };
            assert!(token & TOKENS != 0);
            let body = weft_rdt::client::SessionBody { kind, bytes: &bytes };
            self.sessions[node].finish(token, Some(body));
        }
        for client in 0..CLIENTS {
            while begins && self.clients[client].can_start() && self.network.chance(100) {
                let name = ["deposit", "withdraw", "balance"][self.network.random(3) as usize];
                let arguments: &[i64] = if name == "balance" { &[] } else { &[1] };
                let account = types::by_name("account").unwrap();
                let invocation = Invocation::new(&account, name, arguments).unwrap();
                let call = self.clients[client].start(now, (None, invocation)).unwrap();
                self.asked.insert((client, call), name);
            }
            while let Some((call, outcome)) = self.clients[client].handle_deadline(now) {
                self.end(client, call, outcome);
            }
            let mut bytes = Vec::new();
            while let Some((node, kind)) = self.clients[client].poll_transmit(&mut bytes) {
                self.post(client, node, true, kind, &bytes);
                bytes.clear();
            }
        }
        let (due, rest) = std::mem::take(&mut self.letters).into_iter().partition(|letter| letter.at <= now);
        self.letters = rest;
        let due: Vec<Letter> = due;
        for Letter { node, client, to_node, kind, bytes, .. } in due {
            if !to_node {
                if let Some((call, outcome)) = self.clients[client].receive(now, node, (kind, &bytes)) {
                    self.end(client, call, outcome);
                }
            } else if self.network.nodes[node].is_some() {
                let begin = self.sessions[node].receive(now, client, (kind, &bytes), true).unwrap();
                if let Some(begin) = begin {
                    call(&mut self.network, node, begin.token, begin.body.kind, begin.body.bytes);
                }
            }
        }
        for node in 0..NODES {
            let mut bytes = Vec::new();
            while let Some((client, kind)) = self.sessions[node].poll_transmit(&mut bytes) {
                if self.network.nodes[node].is_some() {
                    self.post(client, node, false, kind, &bytes);
                }
                bytes.clear();
            }
        }
    }
}

#[test]
fn updates_take_effect_as_often_as_their_clients_are_told() {
    let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for seed in 0..12 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for step in 0..600 {
            if step == 300 && seed % 2 == 1 {
                world.network.crash(seed as usize % NODES);
            }
            world.step(true);
        }
        for _ in 0..1_000 {
            world.step(false);
        }
        assert!(world.asked.is_empty(), "every call ends");
        let count = |asked, how| world.ended.get(&(asked, how)).copied().unwrap_or(0);
        let least = count("deposit", "done") - count("withdraw", "done") - count("withdraw", "unknown");
        let most = count("deposit", "done") - count("withdraw", "done") + count("deposit", "unknown");
        for (index, node) in world.network.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let balance = node.engine.object().field(0, &[]);
            assert!((least..=most).contains(&balance), "node {index} has {balance}, not {least} to {most}");
        }
        for (key, count) in world.ended {
            *sums.entry(key).or_default() += count;
        }
    }
    for key in [("deposit", "done"), ("withdraw", "done"), ("withdraw", "refused"), ("balance", "done")] {
        assert!(sums.get(&key).is_some_and(|count| *count > 50), "{key:?}: {sums:?}");
    }
    let unknown: i64 = sums.iter().filter(|((_, how), _)| *how == "unknown").map(|(_, count)| count).sum();
    assert!(unknown > 0 && unknown < 200, "{sums:?}");
}

#[test]
fn strange_bytes_end_nothing() {
    let mut client = Client::new(ClientParameters::new(9, 3));
    let account = types::by_name("account").unwrap();
    let deposit = Invocation::new(&account, "deposit", &[1]).unwrap();
    client.start(Instant::ZERO, (None, deposit)).unwrap();
    for length in 0..80 {
        for fill in [0, 1, 255] {
            for kind in 0..=255 {
                let bytes = vec![fill; length];
                assert!(client.receive(Instant::ZERO, 0, (kind, &bytes)).is_none());
            }
        }
    }
    assert_eq!(client.outstanding(), 1);
}
