//! The rounds engine in gates has the same effects as its soft twin, event by event, under random schedules;
//! and clusters of both kinds agree on one order.
//!
//! The networks are those of the soft engine's tests. `WEFT_ROUNDS_SEED` replaces a test's own seeds by one.

use crate::rounds_network as network;

use std::net::Ipv4Addr;

use network::{Faults, Network, Replica};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_conformance::rounds::{Pair, gates, parameters};
use weft_gateware::{Pressure, RtlRounds};
use weft_rounds::message::{Call, Period};
use weft_rounds::{Ckc, Members, Parameters, Quorums, Rounds};
use weft_time::{Duration, Instant};
use weft_verbs::QueuePairNumber;
use weft_waist::{Caller, Effect, Effects, Engine, EngineStatus, Event, Io, Memory, Message};

impl Replica for Pair {
    fn start(node: usize, parameters: &Parameters) -> Self {
        // Every other node has random stalls of messages, and storage that is not zero initially.
        let seed = node as u64 + 1;
        let pressure = (node % 2 == 1).then_some(Pressure { seed, stalls_of_256: 80 });
        Pair::new(parameters, pressure, (node % 2 * 77) as u32)
    }
}

/// A node of a mixed cluster.
#[derive(Debug)]
enum Mixed {
    Soft(Box<Rounds<Ckc>>),
    Gates(Box<RtlRounds>),
}

impl Engine for Mixed {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match self {
            Self::Soft(engine) => engine.handle(now, event, io),
            Self::Gates(engine) => engine.handle(now, event, io),
        }
    }

    fn status(&self) -> EngineStatus {
        match self {
            Self::Soft(engine) => engine.status(),
            Self::Gates(engine) => engine.status(),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Soft(engine) => engine.counters(),
            Self::Gates(engine) => engine.counters(),
        }
    }
}

impl Replica for Mixed {
    fn start(node: usize, parameters: &Parameters) -> Self {
        if node.is_multiple_of(2) {
            Self::Soft(Box::new(Rounds::new(parameters.clone())))
        } else {
            Self::Gates(Box::new(gates(parameters, None, 0)))
        }
    }
}

/// A pair, and beside it a victim pair that gets the same messages and, for every tenth, also a copy with
/// some bytes changed. The victim's messages are dropped, so that its wrong state does not spread. The test
/// is that both engines of the victim agree.
struct Harassed {
    pair: Pair,
    victim: Pair,
    effects: Effects,
    rng: Xoshiro256PlusPlus,
}

impl Harassed {
    fn change(&mut self, message: Message<'_>) -> (u8, Vec<u8>) {
        let (mut kind, mut payload) = (message.kind, message.payload.to_vec());
        match self.rng.next_u64() % 8 {
            0 => kind = (self.rng.next_u64() % 7) as u8,
            1 => payload.truncate((self.rng.next_u64() % 80) as usize),
            2 => payload.resize((self.rng.next_u64() % 600) as usize, 1),
            _ => {
                for _ in 0..=self.rng.next_u64() % 3 {
                    let at = (self.rng.next_u64() % 64) as usize;
                    if let Some(byte) = payload.get_mut(at) {
                        *byte ^= 1 << (self.rng.next_u64() % 8);
                    }
                }
            }
        }
        (kind, payload)
    }
}

impl Replica for Harassed {
    fn start(node: usize, parameters: &Parameters) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(node as u64);
        let [pair, victim] = [0; 2].map(|_| Pair::start(node, parameters));
        Self { pair, victim, effects: Effects::default(), rng }
    }
}

impl Engine for Harassed {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        self.effects.clear();
        if let Event::Deliver { from, message, last } = event
            && self.rng.next_u64().is_multiple_of(10)
        {
            let (kind, payload) = self.change(message);
            let event = Event::Deliver { from, message: Message { kind, payload: &payload }, last };
            self.victim.handle(now, event, &mut Io { effects: &mut self.effects, memory: io.memory });
        }
        self.victim.handle(now, event, &mut Io { effects: &mut self.effects, memory: io.memory });
        self.pair.handle(now, event, io);
    }

    fn status(&self) -> EngineStatus {
        self.pair.status()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.victim.counters()
    }
}

/// A pair whose host constantly requests message timings and sometimes sets another period: somewhat longer
/// or shorter, or an invalid one. Clients other than the host request what only the host may. The test's own
/// host does not see the answers.
struct Tuned {
    pair: Pair,
    effects: Effects,
    rng: Xoshiro256PlusPlus,
}

impl Replica for Tuned {
    fn start(node: usize, parameters: &Parameters) -> Self {
        let rng = Xoshiro256PlusPlus::seed_from_u64(node as u64);
        Self { pair: Pair::start(node, parameters), effects: Effects::default(), rng }
    }
}

impl Engine for Tuned {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        self.pair.handle(now, event, io);
        let random = self.rng.next_u64();
        let cycles = (random >> 32) as u32;
        let (kind, payload) = match random % 512 {
            0 => (Call::SetPeriod, Period(cycles | 1 << 31).encode().to_vec()),
            1 => (Call::SetPeriod, vec![0; cycles as usize % 70]),
            2..8 => (Call::SetPeriod, Period(500 + cycles % 8).encode().to_vec()),
            8..80 => (Call::Timing, Vec::new()),
            _ => return,
        };
        self.effects.clear();
        let message = Message { kind: kind as u8, payload: &payload };
        let event = Event::Call { caller: Caller::Host(99), message, last: true };
        self.pair.handle(now, event, &mut Io { effects: &mut self.effects, memory: io.memory });
        let strangers = [
            Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: 7 },
            Caller::QueuePair(QueuePairNumber(3)),
        ];
        let calls = [Call::Start, Call::Subscribe, Call::Leave, Call::SetPeriod, Call::Status, Call::Timing];
        let caller = strangers[random as usize / 512 % 2];
        let kind = calls[random as usize / 1_024 % 6] as u8;
        let period = Period(510).encode();
        let payload = if kind == Call::SetPeriod as u8 { &period[..] } else { &[] };
        let event = Event::Call { caller, message: Message { kind, payload }, last: true };
        self.effects.clear();
        self.pair.handle(now, event, &mut Io { effects: &mut self.effects, memory: io.memory });
    }

    fn status(&self) -> EngineStatus {
        self.pair.status()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.pair.counters()
    }
}

/// To replay a failure, set the seed that is printed.
fn schedules<E: Replica>(
    seeds: std::ops::Range<u64>,
    nodes: usize,
    faults: Faults,
    length: Duration,
    run: impl Fn(&mut Network<E>),
) {
    let seed = std::env::var("WEFT_ROUNDS_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seed.map_or(seeds, |seed: u64| seed..seed + 1) {
        println!("seed {seed}");
        let mut network = Network::new(seed, nodes, faults, length, parameters());
        run(&mut network);
        println!("{:?}", network.counters());
    }
}

/// The largest number of nodes that may fail: the last ones.
fn faulty(nodes: usize) -> Members {
    Members::first(nodes).difference(Members::first(nodes - Quorums::tolerated(nodes)))
}

const LENGTH: Duration = Duration::from_us(1_000);

#[test]
fn level_1_without_faults() {
    for nodes in [1, 2, 3] {
        schedules(100..102, nodes, Faults::NONE, Duration::from_us(200), Network::<Pair>::run);
    }
}

#[test]
fn level_2_omissions() {
    let faults = |nodes| Faults { faulty: faulty(nodes), omission: 100, ..Faults::NONE };
    schedules(200..203, 3, faults(3), LENGTH, Network::<Pair>::run);
    schedules(210..212, 5, faults(5), LENGTH, Network::<Pair>::run);
}

#[test]
fn level_3_everything_within_what_may_fail() {
    schedules(300..304, 3, Faults::all(faulty(3)), LENGTH, Network::<Pair>::run);
    schedules(310..312, 5, Faults::all(faulty(5)), LENGTH, Network::<Pair>::run);
}

#[test]
fn level_4_beyond_what_may_fail() {
    let faults = |nodes| Faults { omission: 60, ..Faults::all(Members::first(nodes)) };
    schedules(400..404, 3, faults(3), LENGTH, Network::<Pair>::run_broken);
    schedules(410..412, 5, faults(5), LENGTH, Network::<Pair>::run_broken);
}

/// Malformed messages.
#[test]
fn level_5_malformed() {
    schedules(500..503, 3, Faults::all(faulty(3)), LENGTH, Network::<Harassed>::run);
}

/// The range of valid periods.
#[test]
fn the_range_of_periods_is_the_same() {
    for one_way in [0, 346] {
        let one_way = Duration::from_ns(4) * one_way;
        let mut pair = Pair::new(&Parameters { one_way, ..parameters() }, None, 0);
        let (mut effects, mut memory) = (Effects::default(), Memory::new(0));
        let mut call = |kind: Call, payload: &[u8]| {
            let message = Message { kind: kind as u8, payload };
            let event = Event::Call { caller: Caller::Host(1), message, last: true };
            pair.handle(Instant::ZERO, event, &mut Io { effects: &mut effects, memory: &mut memory });
        };
        for cycles in [0, 7, 8, 9, 345, 346, 347, 249_999_999, 250_000_000, 250_000_001, u32::MAX] {
            call(Call::SetPeriod, &Period(cycles).encode());
            call(Call::Timing, &[]);
        }
        call(Call::SetPeriod, &[0; 4]);
        call(Call::SetPeriod, &[0; 600]);
        let statuses: Vec<_> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Reply { kind, payload, .. } if *kind == Call::Answer as u8 => {
                    Some(effects.message(*kind, payload).payload[0])
                }
                _ => None,
            })
            .collect();
        let shortest = if one_way == Duration::ZERO { [6, 6, 0, 0, 0, 0, 0] } else { [6, 6, 6, 6, 6, 6, 0] };
        assert_eq!(statuses, [&shortest[..], &[0, 0, 6, 6, 5, 5]].concat());
    }
}

/// Periods are set while messages arrive, and both engines report the same timings.
#[test]
fn level_6_other_periods() {
    schedules(700..702, 3, Faults::NONE, Duration::from_us(300), Network::<Tuned>::run);
    schedules(710..713, 3, Faults::all(faulty(3)), LENGTH, Network::<Tuned>::run_broken);
}

#[test]
fn mixed_clusters_keep_one_order() {
    schedules(600..602, 3, Faults::all(faulty(3)), LENGTH, Network::<Mixed>::run);
    schedules(610..611, 4, Faults::all(faulty(4)), LENGTH, Network::<Mixed>::run);
}

/// A long campaign: `cargo test -p weft-conformance rounds_lockstep -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign() {
    schedules(10_000..10_060, 3, Faults::all(faulty(3)), LENGTH, Network::<Pair>::run);
    schedules(20_000..20_040, 5, Faults::all(faulty(5)), LENGTH, Network::<Pair>::run);
    for (seed, nodes) in (30_000..30_060).zip([2, 3, 4, 5].into_iter().cycle()) {
        let faults = Faults {
            omission: 20 + seed % 7 * 30,
            crashes: seed % 2 == 0,
            ..Faults::all(Members::first(nodes))
        };
        schedules(seed..seed + 1, nodes, faults, LENGTH, Network::<Pair>::run_broken);
    }
}
