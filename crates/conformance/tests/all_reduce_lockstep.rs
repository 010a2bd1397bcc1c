//! The all-reduce in gates has the same effects as its soft twin, event by event; and every node that gets a
//! result gets the right one.
//!
//! Messages are lost, delayed, duplicated and changed, by seed; clocks run at the same rate.
//! `WEFT_ROUNDS_SEED` replaces a test's own seeds by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_conformance::rounds::{Pair, parameters};
use weft_gateware::{Pressure, RtlAllReduce};
use weft_rounds::message::{Answer, Call, Kind, Status, Timings, Value};
use weft_rounds::{Members, Parameters, Reduce, Reduction};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

/// Fault rates, in a thousand messages.
#[derive(Clone, Copy)]
struct Faults {
    lost: u64,
    late: u64,
    doubled: u64,
    changed: u64,
}

impl Faults {
    const NONE: Self = Self { lost: 0, late: 0, doubled: 0, changed: 0 };
    const ALL: Self = Self { lost: 30, late: 30, doubled: 30, changed: 0 };
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Packet { from: usize, to: usize, kind: u8, payload: Vec<u8> },
    Timer { node: usize },
    Host { node: usize },
}

struct Cluster {
    rng: Xoshiro256PlusPlus,
    faults: Faults,
    parameters: Parameters,
    now: Instant,
    nodes: Vec<(Pair<Reduce, RtlAllReduce>, Option<Instant>)>,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    /// For each node and instance: the proposal in the node's own message.
    proposed: BTreeMap<(usize, u64), Vec<u8>>,
    /// For each instance: the result that the first node reported.
    results: BTreeMap<u64, Reduction>,
    told: u64,
    /// Statuses of answered calls, with their numbers.
    answers: BTreeMap<u8, u64>,
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

impl Cluster {
    fn new(seed: u64, nodes: usize, faults: Faults) -> Self {
        let parameters = parameters();
        let pair = |index: usize| {
            let pressure = (index % 2 == 1).then_some(Pressure { seed, stalls_of_256: 80 });
            (Pair::all_reduce(&parameters, pressure, index as u32 % 2 * 77), None)
        };
        let mut cluster = Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            faults,
            now: Instant::ZERO + Duration::from_us(1),
            nodes: (0..nodes).map(pair).collect(),
            parameters: parameters.clone(),
            due: BinaryHeap::new(),
            sequence: 0,
            proposed: BTreeMap::new(),
            results: BTreeMap::new(),
            told: 0,
            answers: BTreeMap::new(),
        };
        let view = View { epoch: Epoch(1), full: NodeSet::first(nodes), joining: NodeSet::EMPTY };
        for index in 0..nodes {
            cluster.call(index, Call::Propose, &[1]);
            let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
            cluster.handle(index, Event::Configure(configuration));
            cluster.call(index, Call::Subscribe, &[]);
            cluster.schedule(Duration::from_us(3), Due::Host { node: index });
        }
        cluster.call(0, Call::Start, &[]);
        cluster
    }

    fn random(&mut self, below: u64) -> u64 {
        self.rng.next_u64() % below
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.random(1000) < per_mille
    }

    fn schedule(&mut self, after: Duration, due: Due) {
        self.sequence += 1;
        self.due.push(Reverse((self.now + after, self.sequence, due)));
    }

    fn call(&mut self, index: usize, kind: Call, payload: &[u8]) {
        let message = Message { kind: kind as u8, payload };
        self.handle(index, Event::Call { caller: Caller::Host(kind as u32), message, last: true });
    }

    fn transmit(&mut self, from: usize, to: usize, kind: u8, payload: &[u8]) {
        let faults = self.faults;
        if kind != Kind::Start as u8 && self.chance(faults.lost) {
            return;
        }
        let mut payload = payload.to_vec();
        if self.chance(faults.changed) {
            let at = self.random(payload.len() as u64) as usize;
            payload[at] ^= 1 << self.random(8);
        }
        let mut delay = self.parameters.one_way + Duration::from_ns(4) * self.random(100);
        if self.chance(faults.late) {
            delay += Duration::from_ns(self.random(5_000));
        }
        if self.chance(faults.doubled) {
            let again = Duration::from_ns(self.random(5_000));
            self.schedule(delay + again, Due::Packet { from, to, kind, payload: payload.clone() });
        }
        self.schedule(delay, Due::Packet { from, to, kind, payload });
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let (mut effects, mut memory) = (Effects::default(), Memory::new(0));
        let now = self.now;
        self.nodes[index].0.handle(now, event, &mut Io { effects: &mut effects, memory: &mut memory });
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload;
                    if *kind == Kind::Round as u8 {
                        let round = u64::from_be_bytes(payload[..8].try_into().unwrap());
                        self.proposed.insert((index, round), payload[64..].to_vec());
                    }
                    for peer in to.iter() {
                        self.transmit(index, peer.index(), *kind, payload);
                    }
                }
                Effect::Reply { kind, payload, .. } => {
                    let payload = effects.message(*kind, payload).payload;
                    self.reply(*kind, payload);
                }
                Effect::SetTimer { at, .. } => {
                    self.nodes[index].1 = Some(*at);
                    self.schedule(at.saturating_since(now), Due::Timer { node: index });
                }
                _ => panic!("the engine has no queue pairs"),
            }
        }
    }

    fn reply(&mut self, kind: u8, payload: &[u8]) {
        if kind == Call::Timings as u8 {
            Timings::parse(payload).unwrap();
        } else if kind == Call::Answer as u8 {
            *self.answers.entry(Answer::parse(payload).unwrap().status as u8).or_default() += 1;
        } else {
            let value = Value::parse(payload, Reduction::BYTES).unwrap();
            let result = Reduction::parse(value.proposal.bytes);
            let first = *self.results.entry(value.instance).or_insert(result);
            // Changed messages can cause different results.
            if self.faults.changed == 0 {
                assert!(result.contributors.contains(value.proposer));
                assert_eq!(result, first, "instance {}", value.instance);
            }
            self.told += 1;
        }
    }

    /// The host proposes a number, or sometimes makes another call, such as one for the message timings.
    fn host(&mut self, index: usize) {
        let again = Duration::from_ns(500 + self.random(3_000));
        self.schedule(again, Due::Host { node: index });
        let number = self.rng.next_u64().to_be_bytes();
        match self.random(16) {
            0 => self.call(index, Call::Propose, &number[..5]),
            1 => self.call(index, Call::Propose, &[7; 300]),
            2 => self.call(index, Call::Timing, &[]),
            3 => self.call(index, Call::Leave, &[]),
            _ => self.call(index, Call::Propose, &number),
        }
    }

    fn run(&mut self, length: Duration) {
        let until = self.now + length;
        while self.now < until {
            let Reverse((at, _, due)) = self.due.pop().expect("hosts keep it busy");
            self.now = at;
            match due {
                Due::Packet { from, to, kind, payload } => {
                    let message = Message { kind, payload: &payload };
                    self.handle(to, Event::Deliver { from: node(from), message, last: true });
                }
                Due::Timer { node } => {
                    if self.nodes[node].1.is_some_and(|timer| timer <= at) {
                        self.nodes[node].1 = None;
                        self.handle(node, Event::Timer { tag: 0 });
                    }
                }
                Due::Host { node } => self.host(node),
            }
        }
    }

    /// Checks every result against its members' proposals. Returns the number of results.
    fn check(&self) -> usize {
        for (&instance, result) in &self.results {
            let numbers: Vec<_> = (0..self.nodes.len())
                .filter_map(|node| {
                    let bytes = <[u8; 8]>::try_from(&*self.proposed[&(node, instance)]).ok()?;
                    Some((node, u64::from_be_bytes(bytes)))
                })
                .collect();
            let expected = Reduction {
                sum: numbers.iter().fold(0, |sum, (_, number)| sum.wrapping_add(*number)),
                maximum: numbers.iter().map(|(_, number)| *number).max().unwrap_or(0),
                heard: Members::first(self.nodes.len()),
                contributors: numbers.iter().map(|(node, _)| *node).collect(),
            };
            assert_eq!(*result, expected, "instance {instance}");
        }
        self.results.len()
    }
}

fn seeds(seeds: std::ops::Range<u64>, mut run: impl FnMut(u64)) {
    let seed = std::env::var("WEFT_ROUNDS_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seed.map_or(seeds, |seed: u64| seed..seed + 1) {
        println!("seed {seed}");
        run(seed);
    }
}

#[test]
fn every_round_has_a_result_if_nothing_is_lost() {
    for nodes in [2, 3, 6] {
        seeds(0..2, |seed| {
            let mut cluster = Cluster::new(seed, nodes, Faults::NONE);
            cluster.run(Duration::from_us(400));
            let results = cluster.check();
            assert!(results > 150, "{results} of 200 rounds");
            assert!(cluster.told as usize + nodes >= nodes * results, "all are told");
            assert!(cluster.answers[&(Status::Ok as u8)] > 100, "{:?}", cluster.answers);
        });
    }
}

#[test]
fn rounds_that_lose_something_have_no_result() {
    for nodes in [2, 3, 5] {
        seeds(10..14, |seed| {
            let mut cluster = Cluster::new(seed, nodes, Faults::ALL);
            cluster.run(Duration::from_us(600));
            let results = cluster.check();
            assert!((10..290).contains(&results), "{results} of 300 rounds");
            assert!(cluster.answers[&(Status::Dropped as u8)] > 10, "{:?}", cluster.answers);
        });
    }
}

/// Malformed messages: only the equality of the twins is checked.
#[test]
fn changed_bytes_change_both_alike() {
    seeds(20..26, |seed| {
        Cluster::new(seed, 3, Faults { changed: 100, ..Faults::ALL }).run(Duration::from_us(600));
    });
}
