//! A cluster of logs in the network, with clients that append and hosts that restart nodes, and the invariants
//! that are checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_smr::log::{Answer, Append, Call, Log, LogParameters, SESSION_WINDOW, Status, Wire};
use weft_smr::message::PULSE;
use weft_smr::{Delivery, Group, Parameters, PulseParameters};
use weft_time::{Duration, Instant};
use weft_waist::{Caller, Configuration, Engine, Epoch, Event, Memory, Message, NodeSet, View};

use super::{Faults, Network, node, wiring};

const CLIENTS: u64 = 3;
/// Token of the hosts' calls; the tokens of clients are smaller.
const HOST: u32 = 1 << 31;

/// Parameters with which rings wrap, slots take several packets and few entries are in flight.
pub fn small(nodes: usize, delivery: Delivery) -> LogParameters {
    LogParameters {
        group: Parameters {
            nodes,
            slots: 16,
            slot_bytes: 192,
            window: 4,
            delivery,
            retry: Duration::from_us(15),
            patience: Duration::from_us(150),
            ..Parameters::default()
        },
        pulse: PulseParameters {
            nodes,
            period: Duration::from_us(2),
            patience: 4,
            retry: Duration::from_us(20),
        },
        poll: Duration::from_us(1),
        sessions: 4,
    }
}

/// The content of an append: unique, and long enough for a slot to take several packets.
pub fn content(origin: u64, sequence: u64) -> Vec<u8> {
    // With equal lengths, the remains of an old entry look most like a part of a new one.
    let mut bytes = vec![0xff; 120];
    for (place, byte) in bytes.iter_mut().enumerate() {
        if place % 8 != 7 {
            *byte = (origin * 83 + sequence * 29 + place as u64 * 7) as u8;
        }
    }
    bytes
}

#[derive(Clone, Debug)]
struct Outstanding {
    sequence: u64,
    /// When to repeat the append, and whether all answers so far were refusals.
    again_at: Instant,
    refused: bool,
    first_asked_at: Instant,
    /// Every entry that had been answered when this append was first sent has an index below this.
    above: u64,
}

struct Client {
    origin: u64,
    target: usize,
    next: u64,
    outstanding: Vec<Outstanding>,
    window: usize,
}

/// Faults of a run in addition to the network's.
#[derive(Clone, Copy, Debug)]
pub struct Mischief {
    /// Probabilities per mille in each 20 us: a node crashes, a link is cut for a while, a node stalls for a
    /// while.
    pub crash: u64,
    pub cut: u64,
    pub stick: u64,
}

/// A function that inspects all nodes.
pub type Inspect = Box<dyn FnMut(&Network<Log>)>;

pub struct Cluster {
    pub network: Network<Log>,
    parameters: LogParameters,
    clients: Vec<Client>,
    epoch: u32,
    /// Nodes that are down, or have not been brought up to date since: at most a minority.
    forgetful: BTreeSet<usize>,
    restart_at: BTreeMap<usize, Instant>,
    heal_links_at: BTreeMap<(usize, usize), Instant>,
    /// Content of the entries by index, without entries that have no effect.
    pub log: BTreeMap<u64, Vec<u8>>,
    index_of: BTreeMap<(u64, u64), u64>,
    /// By node: its incarnation, and the index below which it has reported all entries to its subscriber.
    told: BTreeMap<usize, (u64, u64)>,
    /// Highest index answered, plus one.
    answered_below: u64,
    pub answered: u64,
    pub crashes: u64,
    pub slowest: Duration,
    pub asking: bool,
    /// Whether the nodes' notifications and answers are checked.
    pub checks: bool,
    /// Called after every event to inspect all nodes.
    pub inspect: Inspect,
    /// Replies to clients on the network: node, port, kind and content.
    pub to_endpoints: VecDeque<(usize, u16, u8, Vec<u8>)>,
}

impl Cluster {
    pub fn new(seed: u64, parameters: LogParameters) -> Self {
        let nodes = parameters.group.nodes;
        let mut cluster = Self {
            network: Network::new(seed, nodes),
            clients: Vec::new(),
            epoch: 1,
            forgetful: BTreeSet::new(),
            restart_at: BTreeMap::new(),
            heal_links_at: BTreeMap::new(),
            log: BTreeMap::new(),
            index_of: BTreeMap::new(),
            told: BTreeMap::new(),
            answered_below: 0,
            answered: 0,
            crashes: 0,
            slowest: Duration::ZERO,
            asking: true,
            checks: true,
            inspect: Box::new(|_| {}),
            to_endpoints: VecDeque::new(),
            parameters,
        };
        for index in 0..nodes {
            cluster.start(index);
        }
        for origin in 0..CLIENTS {
            let window = 1 + cluster.network.random(3) as usize;
            let target = cluster.network.random(nodes as u64) as usize;
            cluster.clients.push(Client { origin, target, next: 0, outstanding: Vec::new(), window });
        }
        cluster
    }

    pub fn nodes(&self) -> usize {
        self.parameters.group.nodes
    }

    /// Starts a node: its host wires and configures it.
    pub fn start(&mut self, index: usize) {
        let engine = Log::new(self.parameters.clone());
        self.network.start(index, engine, self.parameters.memory_bytes());
        for peer in (0..self.nodes()).filter(|peer| *peer != index) {
            for group in [0, PULSE] {
                let wire = Wire { group, peer, wiring: wiring(group.min(15), peer) };
                self.call(index, HOST, Call::Wire, &wire.encode());
            }
        }
        self.call(index, HOST, Call::Subscribe, &[]);
        let all = NodeSet::first(self.nodes());
        let this = NodeSet::EMPTY.with(node(index));
        let view = if self.epoch == 1 {
            View { epoch: Epoch(1), full: all, joining: NodeSet::EMPTY }
        } else {
            View { epoch: Epoch(self.epoch), full: all.without(node(index)), joining: this }
        };
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        let life = self.network.nodes[index].as_ref().expect("it runs").life;
        self.told.insert(index, (life, 0));
        self.network.handle(index, Event::Configure(configuration));
    }

    pub fn crash(&mut self, index: usize) {
        self.crashes += 1;
        self.network.crash(index);
        self.forgetful.insert(index);
    }

    /// Restarts a node with empty memory.
    pub fn restart(&mut self, index: usize) {
        self.epoch += 1;
        self.start(index);
    }

    fn call(&mut self, index: usize, token: u32, kind: Call, payload: &[u8]) {
        let message = Message { kind: kind as u8, payload };
        self.network.handle(index, Event::Call { caller: Caller::Host(token), message, last: true });
    }

    // Clients.

    fn token(origin: u64, sequence: u64) -> u32 {
        (origin as u32) << 24 | (sequence as u32 & 0xff_ffff)
    }

    fn ask(&mut self, origin: usize, sequence: u64) {
        let target = self.clients[origin].target;
        let token = Self::token(origin as u64, sequence);
        let content = content(origin as u64, sequence);
        let append = Append { origin: origin as u64, sequence, content: &content };
        let payload = [&append.header()[..], &content].concat();
        self.call(target, token, Call::Append, &payload);
    }

    /// Sends one append of a client of the test itself to a node, without waiting for the answer.
    pub fn append(&mut self, target: usize, origin: u64, sequence: u64) {
        let content = content(origin, sequence);
        let append = Append { origin, sequence, content: &content };
        let payload = [&append.header()[..], &content].concat();
        self.call(target, Self::token(origin, sequence), Call::Append, &payload);
    }

    /// All clients send new appends as far as their windows allow, and repeat unanswered ones.
    fn ask_all(&mut self) {
        let (now, above) = (self.network.now, self.answered_below);
        for origin in 0..self.clients.len() {
            for place in 0..self.clients[origin].outstanding.len() {
                let client = &self.clients[origin];
                let Some(outstanding) = client.outstanding.get(place) else { break };
                if now >= outstanding.again_at {
                    let (sequence, refused) = (outstanding.sequence, outstanding.refused);
                    if !refused {
                        let target = self.network.random(self.nodes() as u64) as usize;
                        self.clients[origin].target = target;
                    }
                    let outstanding = &mut self.clients[origin].outstanding[place];
                    (outstanding.again_at, outstanding.refused) = (now + Duration::from_us(80), false);
                    self.ask(origin, sequence);
                }
            }
            let client = &mut self.clients[origin];
            // A session keeps the results of `SESSION_WINDOW` appends, so a new append waits until the one that
            // many numbers earlier is answered.
            let first = client.outstanding.iter().map(|o| o.sequence).min().unwrap_or(client.next);
            if self.asking && client.outstanding.len() < client.window && client.next < first + SESSION_WINDOW
            {
                let sequence = client.next;
                client.next += 1;
                let again_at = now + Duration::from_us(80);
                let outstanding =
                    Outstanding { sequence, again_at, refused: false, first_asked_at: now, above };
                client.outstanding.push(outstanding);
                self.ask(origin, sequence);
            }
        }
    }

    fn take_replies(&mut self) {
        while let Some((index, to, kind, payload)) = self.network.replies.pop_front() {
            if let Caller::Endpoint { port, .. } = to {
                self.to_endpoints.push_back((index, port, kind, payload));
                continue;
            }
            if !self.checks {
                continue;
            }
            let word = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().unwrap());
            if kind == Call::Entry as u8 {
                self.told(index, word(0), &payload[8..]);
            } else if kind == Call::Restored as u8 {
                let (life, _) = self.told[&index];
                self.told.insert(index, (life, word(0)));
            } else {
                let answer = Answer::parse(&payload).unwrap();
                let Caller::Host(token) = to else { panic!("only hosts ask") };
                if token == HOST {
                    assert_eq!(answer.status, Status::Ok);
                } else {
                    self.answer(index, token, &answer);
                }
            }
        }
    }

    /// Checks an entry that a node reports to its subscriber as applied.
    fn told(&mut self, index: usize, at: u64, entry: &[u8]) {
        let (life, next) = self.told[&index];
        assert!(at >= next, "node {index} tells entry {at} after {next}");
        self.told.insert(index, (life, at + 1));
        let append = Append::parse(entry).unwrap();
        assert!(
            append.content == content(append.origin, append.sequence),
            "node {index} tells an entry {at} that nobody has appended, at {}",
            self.network.now
        );
        // If another node has reported an entry between this node's last two, this node has skipped it.
        if let Some((skipped, _)) = self.log.range(next..at).next() {
            panic!("node {index} passes over entry {skipped}");
        }
        if let Some(known) = self.log.insert(at, entry.to_vec()) {
            assert!(known == entry, "node {index} tells another entry {at}");
        } else {
            let highest = self.log.keys().next_back().copied().expect("one was just added");
            assert_eq!(highest, at, "node {index} tells entry {at}, which others have passed over");
        }
        let first = self.index_of.entry((append.origin, append.sequence)).or_insert(at);
        assert_eq!(*first, at, "an append has effect twice");
    }

    fn answer(&mut self, index: usize, token: u32, answer: &Answer) {
        let (origin, sequence) = ((token >> 24) as usize, u64::from(token & 0xff_ffff));
        let nodes = self.nodes() as u64;
        let now = self.network.now;
        let random = self.network.random(nodes) as usize;
        let Some(client) = self.clients.get_mut(origin) else { return };
        let Some(place) = client.outstanding.iter().position(|o| o.sequence == sequence) else { return };
        let outstanding = &mut client.outstanding[place];
        (outstanding.again_at, outstanding.refused) = (now + Duration::from_us(10), true);
        match answer.status {
            Status::Ok => {
                let outstanding = client.outstanding.remove(place);
                self.slowest = self.slowest.max(now - outstanding.first_asked_at);
                self.answered += 1;
                let at = answer.index;
                assert_eq!(self.index_of.get(&(origin as u64, sequence)), Some(&at), "node {index} answers");
                assert!(
                    at >= outstanding.above,
                    "append {sequence} of {origin} is entry {at}, before {} that was answered before it was asked",
                    outstanding.above
                );
                self.answered_below = self.answered_below.max(at + 1);
            }
            Status::NotLeader => client.target = answer.leader.unwrap_or(random),
            Status::Busy | Status::Abandoned => {}
            status => panic!("an append is answered with {status:?}"),
        }
    }

    // Time.

    pub fn state(&self, index: usize) -> Option<&Log> {
        self.network.nodes[index].as_ref().map(|node| &node.engine)
    }

    /// The group of a node that runs, and its memory.
    pub fn group(&self, index: usize) -> Option<(&Group, &Memory)> {
        let node = self.network.nodes[index].as_ref()?;
        Some((node.engine.group(), &node.memory))
    }

    /// Runs for this length of time.
    pub fn run(&mut self, length: Duration) {
        let until = self.network.now + length;
        while self.network.now < until {
            let next = (self.network.now + Duration::from_us(3)).min(until);
            self.network.run_until(next, |network| (self.inspect)(network));
            self.take_replies();
            self.ask_all();
            self.take_replies();
            for index in 0..self.nodes() {
                if self.state(index).is_some_and(|log| log.group().takes_part()) {
                    self.forgetful.remove(&index);
                }
            }
        }
    }

    /// Runs for this length of time with faults.
    pub fn run_with(&mut self, mischief: Mischief, length: Duration) {
        let until = self.network.now + length;
        while self.network.now < until {
            self.run(Duration::from_us(20));
            let now = self.network.now;
            let nodes = self.nodes();
            let victim = self.network.random(nodes as u64) as usize;
            let other = self.network.random(nodes as u64) as usize;
            if self.network.chance(mischief.crash)
                && self.state(victim).is_some()
                && (self.forgetful.contains(&victim) || self.forgetful.len() + 1 < nodes.div_ceil(2))
            {
                self.crash(victim);
                let after = Duration::from_us(1 + self.network.random(400));
                self.restart_at.insert(victim, now + after);
            }
            if self.network.chance(mischief.cut) && victim != other {
                let after = Duration::from_us(20 + self.network.random(600));
                for link in [(victim, other), (other, victim)] {
                    // Half of the cuts are of one direction only.
                    if self.network.chance(700) {
                        self.network.cut.insert(link, true);
                        self.heal_links_at.insert(link, now + after);
                    }
                }
            }
            if self.network.chance(mischief.stick) {
                let length = Duration::from_us(self.network.random(300));
                self.network.stick(victim, length);
            }
            self.undo(now);
        }
    }

    fn undo(&mut self, now: Instant) {
        let due: Vec<_> = self.heal_links_at.iter().filter(|(_, at)| **at <= now).map(|(l, _)| *l).collect();
        for link in due {
            self.heal_links_at.remove(&link);
            self.network.cut.insert(link, false);
        }
        let due: Vec<_> = self.restart_at.iter().filter(|(_, at)| **at <= now).map(|(n, _)| *n).collect();
        for node in due {
            self.restart_at.remove(&node);
            self.restart(node);
        }
    }

    /// Ends all faults and checks that all nodes take part again, all appends are answered, and all nodes have
    /// applied the same entries.
    pub fn heal(&mut self) {
        self.undo(Instant::FAR_FUTURE);
        self.network.faults = Faults::default();
        let before = self.answered;
        self.run(Duration::from_ms(6));
        assert!(self.answered > before, "{}", self.describe());
        self.asking = false;
        self.run(Duration::from_ms(1));
        let outstanding: usize = self.clients.iter().map(|client| client.outstanding.len()).sum();
        assert_eq!(outstanding, 0, "{}", self.describe());
        let applied: BTreeSet<_> = (0..self.nodes())
            .map(|index| {
                let log = self.state(index).expect("all run");
                assert!(log.group().takes_part(), "node {index}: {}", self.describe());
                log.group().applied()
            })
            .collect();
        assert_eq!(applied.len(), 1, "{}", self.describe());
    }

    pub fn describe(&self) -> String {
        let describe = |index| match self.state(index) {
            Some(log) => format!(
                "\n{index}: {:?} part {} alive {:?} applied {} decided {} {:?}",
                log.group().role(),
                log.group().takes_part(),
                log.pulse().alive(),
                log.group().applied(),
                log.group().decided(),
                log.group().counters(),
            ),
            None => format!("\n{index}: gone"),
        };
        (0..self.nodes()).map(describe).collect()
    }

    /// The engines' counters, summed over the nodes.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.network.nodes.iter().flatten().flat_map(|node| node.engine.counters()) {
            *sums.entry(name).or_default() += count;
        }
        sums
    }
}
