//! Clients and nodes in a network that loses, duplicates and delays messages, with nodes that restart: the outcome
//! of a call is consistent with how often it was executed.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_session::{Body, CallId, Client, ClientParameters, Ended, Sessions, Verdict};
use weft_time::{Duration, Instant};

const NODES: usize = 3;
const CLIENTS: usize = 3;
/// Difference between the first session numbers of a node's incarnations: more than an incarnation opens sessions.
const RESTARTS_APART: u64 = 1_000_000;

struct Node {
    session: u64,
    sessions: Sessions<usize>,
    serves: bool,
}

struct Letter {
    at: Instant,
    from: usize,
    to: usize,
    to_node: bool,
    kind: u8,
    bytes: Vec<u8>,
}

struct Network {
    random: Xoshiro256PlusPlus,
    now: Instant,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    letters: Vec<Letter>,
    /// Calls that engines are executing: time of the answer, node, incarnation, token, content.
    engines: Vec<(Instant, usize, u64, u32, Vec<u8>)>,
    /// Number of executions of each call, by its content.
    executed: BTreeMap<Vec<u8>, u32>,
    begun: BTreeMap<(usize, CallId), Vec<u8>>,
    ended: Vec<(Vec<u8>, &'static str)>,
}

impl Network {
    fn new(seed: u64) -> Self {
        let node = |_| Node { session: 1, sessions: Sessions::new(1, 8, &[32]), serves: true };
        let client = |identity| {
            let give_up = Duration::from_ms(800);
            let usual = ClientParameters::new(identity as u64 + 7, NODES);
            Client::new(ClientParameters { give_up, first: identity % NODES, ..usual })
        };
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            now: Instant::ZERO,
            nodes: (0..NODES).map(node).collect(),
            clients: (0..CLIENTS).map(client).collect(),
            letters: Vec::new(),
            engines: Vec::new(),
            executed: BTreeMap::new(),
            begun: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random.next_u64() % 1_000 < per_mille
    }

    fn post(&mut self, from: usize, to: usize, to_node: bool, kind: u8, bytes: &[u8]) {
        for _ in 0..=u32::from(self.chance(200)) {
            if !self.chance(200) {
                let at = self.now + Duration::from_us(self.random.next_u64() % 30_000);
                self.letters.push(Letter { at, from, to, to_node, kind, bytes: bytes.to_vec() });
            }
        }
    }

    fn end(&mut self, client: usize, call: CallId, ended: Ended<'_>) {
        let content = self.begun.remove(&(client, call)).expect("it ends once");
        let how = match ended {
            Ended::Answer(body) => {
                assert_eq!(body.bytes, content, "another call's answer");
                "answered"
            }
            Ended::NotBegun => "not begun",
            Ended::Unknown => "unknown",
        };
        self.ended.push((content, how));
    }

    fn step(&mut self, begins: bool) {
        self.now += Duration::from_us(500);
        for client in 0..CLIENTS {
            if begins && self.chance(60) {
                let content = self.random.next_u64().to_be_bytes().to_vec();
                let body = Body { kind: 32, bytes: &content };
                let node = self.chance(100).then_some(client % NODES);
                if let Some(call) = self.clients[client].start(self.now, node, body) {
                    self.begun.insert((client, call), content);
                }
            }
            while let Some(completion) = self.clients[client].handle_deadline(self.now) {
                self.end(client, completion.call, completion.ended);
            }
            let mut bytes = Vec::new();
            while let Some((node, kind)) = self.clients[client].poll_transmit(&mut bytes) {
                self.post(client, node, true, kind, &bytes);
                bytes.clear();
            }
        }
        for node in 0..NODES {
            if self.chance(100) && self.chance(2) {
                let session = self.nodes[node].session + RESTARTS_APART;
                self.nodes[node] = Node { session, sessions: Sessions::new(session, 8, &[32]), serves: true };
            }
            if self.chance(5) {
                self.nodes[node].serves ^= true;
            }
        }
        let now = self.now;
        let (due, rest) = std::mem::take(&mut self.letters).into_iter().partition(|letter| letter.at <= now);
        self.letters = rest;
        let due: Vec<Letter> = due;
        for letter in due {
            let message = (letter.kind, &letter.bytes[..]);
            if letter.to_node {
                let node = &mut self.nodes[letter.to];
                let begin = node.sessions.receive(now, letter.from, message, node.serves).unwrap();
                if let Some(begin) = begin {
                    assert_eq!(begin.body.kind, 32);
                    let (token, session) = (begin.token, node.session);
                    let content = begin.body.bytes.to_vec();
                    let at = now + Duration::from_us(self.random.next_u64() % 20_000);
                    self.engines.push((at, letter.to, session, token, content));
                }
            } else {
                // An engine that is busy answers so, and has done nothing.
                let judge = |body: Body<'_>| match body.kind {
                    41 => Verdict::Later,
                    42 => Verdict::Elsewhere,
                    _ => Verdict::Final,
                };
                let client = &mut self.clients[letter.to];
                if let Some(completion) = client.receive(now, letter.from, message, judge).unwrap() {
                    let (call, ended) = (completion.call, completion.ended);
                    self.end(letter.to, call, ended);
                }
            }
        }
        let (due, rest) = std::mem::take(&mut self.engines).into_iter().partition(|call| call.0 <= now);
        self.engines = rest;
        let due: Vec<_> = due;
        for (_, node, session, token, content) in due {
            let kind = match self.random.next_u64() % 10 {
                0 => 41,
                1 => 42,
                _ => 40,
            };
            if kind == 40 {
                *self.executed.entry(content.clone()).or_default() += 1;
            }
            if self.nodes[node].session == session {
                self.nodes[node].sessions.finish(token, Some(Body { kind, bytes: &content }));
            }
        }
        for node in 0..NODES {
            let mut bytes = Vec::new();
            while let Some((client, kind)) = self.nodes[node].sessions.poll_transmit(&mut bytes) {
                self.post(node, client, false, kind, &bytes);
                bytes.clear();
            }
        }
    }
}

#[test]
fn a_call_is_executed_at_most_once_and_its_end_tells() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..20 {
        let mut network = Network::new(seed);
        for step in 0..7_000 {
            network.step(step < 5_000);
        }
        assert!(network.begun.is_empty(), "seed {seed}: every call ends");
        for (content, how) in &network.ended {
            let executed = network.executed.get(content).copied().unwrap_or(0);
            let fits = match *how {
                "answered" => executed == 1,
                "not begun" => executed == 0,
                _ => executed <= 1,
            };
            assert!(fits, "seed {seed}: a call that ended as {how} was executed {executed} times");
            *counts.entry(how).or_default() += 1;
        }
    }
    // All outcomes occur, and most calls are answered.
    assert!(counts["unknown"] > 20 && counts["not begun"] > 5, "{counts:?}");
    assert!(counts["answered"] > 4 * (counts["unknown"] + counts["not begun"]), "{counts:?}");
}
