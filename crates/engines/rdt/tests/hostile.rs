//! A peer may send and write anything. No replica stops because of it, and malformed messages change nothing
//! and are counted.

use std::net::Ipv4Addr;

use crate::cluster::network::{Network, node, wiring};
use crate::cluster::small;
use weft_rdt::Arguments;
use weft_rdt::replica::message::{CALL_ENTRY, CALL_SUMMARY, DATA};
use weft_rdt::replica::{Answer, Ask, Call, Replica, ReplicaParameters, Status, Summaries};
use weft_smr::log::Wire;
use weft_time::{Duration, Instant};
use weft_verbs::QueuePairNumber;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeSet, View,
};

const NODES: usize = 3;

fn call(network: &mut Network<Replica>, index: usize, kind: Call, payload: &[u8]) {
    let message = Message { kind: kind as u8, payload };
    network.handle(index, Event::Call { caller: Caller::Host(1), message, last: true });
}

fn started(seed: u64, parameters: &ReplicaParameters) -> Network<Replica> {
    let mut network = Network::new(seed, NODES);
    let full = NodeSet::first(NODES);
    for index in 0..NODES {
        network.start(index, Replica::new(parameters.clone()), parameters.memory_bytes());
        for peer in (0..NODES).filter(|peer| *peer != index) {
            for group in parameters.purposes() {
                let purpose = if group == DATA { 14 } else { group.min(15) };
                call(
                    &mut network,
                    index,
                    Call::Wire,
                    &Wire { group, peer, wiring: wiring(purpose, peer) }.encode(),
                );
            }
        }
        let view = View { epoch: Epoch(1), full, joining: NodeSet::EMPTY };
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        network.handle(index, Event::Configure(configuration));
    }
    network
}

fn run(network: &mut Network<Replica>, length: Duration) {
    network.run_until(network.now + length, |_| {});
    network.replies.clear();
}

/// Every client makes a random call, valid or not.
fn ask(network: &mut Network<Replica>) {
    for index in 0..NODES {
        let method = network.random(4) as u8;
        let arguments: Arguments = std::array::from_fn(|_| network.random(24) as i64);
        call(network, index, Call::Invoke, &Ask { sequence: 1, method, arguments }.encode());
    }
}

fn malformed(replica: &Replica) -> u64 {
    replica.counters().iter().filter(|(name, _)| *name == "malformed").map(|(_, count)| count).sum()
}

#[test]
fn what_is_no_message_changes_nothing() {
    let mut network = started(1, &small("account", NODES));
    ask(&mut network);
    run(&mut network, Duration::from_us(200));
    for round in 0..2_000 {
        let kind = network.random(256) as u8;
        let length = [0, 1, 7, 9, 15, 17, 31, 33, 47, 49, 55, 57][round % 12];
        let payload: Vec<u8> = (0..length).map(|_| network.random(256) as u8).collect();
        let target = network.nodes[round % NODES].as_ref().unwrap();
        let before = (
            target.memory.image().to_vec(),
            target.engine.object().words().to_vec(),
            malformed(&target.engine),
        );
        let message = Message { kind, payload: &payload };
        let event = match round % 5 {
            0 => Event::Call { caller: Caller::QueuePair(QueuePairNumber(1)), message, last: true },
            _ => Event::Deliver { from: node((round + 1) % NODES), message, last: true },
        };
        if round.is_multiple_of(5) && [CALL_ENTRY, weft_smr::CALL_LOG].contains(&kind) {
            continue;
        }
        network.handle(round % NODES, event);
        let target = network.nodes[round % NODES].as_ref().unwrap();
        assert!(before.0 == target.memory.image(), "kind {kind}, {length} bytes");
        assert_eq!(before.1, target.engine.object().words(), "kind {kind}, {length} bytes");
        assert_eq!(before.2 + 1, malformed(&target.engine), "kind {kind}, {length} bytes");
    }
}

/// A random number, often at or near the limits of a word.
fn strange(network: &mut Network<Replica>) -> u64 {
    let random = network.random(u64::MAX);
    [0, 1, 2, random % 64, random, 1 << 31, 1 << 32, 1 << 60, 1 << 63, u64::MAX - 1, u64::MAX]
        [random as usize % 11]
}

/// A summary in the layout of `layout.rs`, filled with such numbers.
fn summary(network: &mut Network<Replica>) -> [u8; 64] {
    let mut bytes = [0; 64];
    let count = strange(network).to_be_bytes();
    bytes[..8].copy_from_slice(&count);
    bytes[8..16].copy_from_slice(&strange(network).to_be_bytes());
    (bytes[16], bytes[17], bytes[23]) =
        (network.random(4) as u8, network.random(4) as u8, network.random(30) as u8);
    bytes[24..32].copy_from_slice(&strange(network).to_be_bytes());
    bytes[32..40].copy_from_slice(&strange(network).to_be_bytes());
    bytes[40..44].copy_from_slice(&count[4..]);
    bytes[56..].copy_from_slice(&count);
    bytes
}

/// Peers write arbitrary bytes where they have write access and into the buffers for their headers. They also
/// send well-formed messages with strange numbers. The replicas may stop working, but none panics.
#[test]
fn strange_words_stop_nobody() {
    let (mut seen, mut full) = (0, 0);
    for seed in 0..60 {
        let name = ["account", "2p-set", "movie", "smallbank"][seed as usize % 4];
        let mut parameters = small(name, NODES);
        parameters.summaries =
            [Summaries::Rpc, Summaries::Unbuffered, Summaries::Buffered][seed as usize % 3];
        // The buffers of headers, the summaries, and a part of the rings.
        let from = 64 * (1 + NODES) + 320;
        let to = from + 320 * NODES + 64 * 32 * NODES;
        let mut network = started(seed, &parameters);
        for _ in 0..200 {
            ask(&mut network);
            let index = network.random(NODES as u64) as usize;
            let word = strange(&mut network).to_be_bytes();
            let summary = summary(&mut network);
            let at = from + 8 * network.random((to - from) as u64 / 8 - 8) as usize;
            let with_summary = network.chance(500);
            // A header with a later incarnation of the receiver would rightly stop it, so that field is left
            // alone.
            let names_lives = at < from + 320 * NODES && (16..48).contains(&((at - from) % 320));
            let at = if names_lives { at + 32 } else { at };
            let memory = network.nodes[index].as_mut().unwrap().memory.image_mut();
            match with_summary {
                true => memory[at / 64 * 64..][..64].copy_from_slice(&summary),
                false => memory[at..at + 8].copy_from_slice(&word),
            }
            let message = Message { kind: CALL_SUMMARY, payload: &summary };
            let caller = Caller::QueuePair(QueuePairNumber(1));
            network.handle(index, Event::Call { caller, message, last: true });
            let kind = 10 + network.random(7) as u8;
            let length = [56, 48, 32, 56, 8, 16, 16][usize::from(kind) - 10];
            let mut payload: Vec<u8> = (0..7).flat_map(|_| strange(&mut network).to_be_bytes()).collect();
            if network.chance(500) {
                payload[..4].copy_from_slice(&[if kind < 12 { DATA } else { 0 }, 0, 0, 0]);
                payload[4..8].copy_from_slice(&[0, 0, 0, 1]);
            }
            let incarnations = [24, 16, 0].get(usize::from(kind) - 10);
            for place in incarnations.into_iter().flat_map(|at| (0..8).map(move |node| at + 4 * node)) {
                payload[place..place + 4].copy_from_slice(&[0, 0, 0, 1]);
            }
            let message = Message { kind, payload: &payload[..length] };
            network.handle(index, Event::Deliver { from: node((index + 1) % NODES), message, last: true });
            run(&mut network, Duration::from_us(5));
        }
        run(&mut network, Duration::from_us(300));
        seen += network.nodes.iter().flatten().map(|node| malformed(&node.engine)).sum::<u64>();
        full += network.nodes.iter().flatten().filter(|node| node.engine.is_full()).count();
    }
    assert!(seen > 1_000 && full > 60, "{seen} {full}");
}

/// Requests that only the host may make change nothing if they come from another caller, and are counted.
#[test]
fn strangers_do_not_wire_a_replica() {
    let parameters = small("account", NODES);
    let wire = Wire { group: DATA, peer: 1, wiring: wiring(14, 1) }.encode();
    let mut replica = Replica::new(parameters.clone());
    let mut memory = Memory::new(parameters.memory_bytes());
    let before = replica.describe();
    let caller = Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: 9 };
    let mut effects = Effects::default();
    let message = Message { kind: Call::Wire as u8, payload: &wire };
    let mut tell = |replica: &mut Replica, caller: Caller, effects: &mut Effects| {
        let io = &mut Io { effects, memory: &mut memory };
        replica.handle(Instant::ZERO, Event::Call { caller, message, last: true }, io);
    };
    tell(&mut replica, caller, &mut effects);
    let refused = |replica: &Replica| {
        let mut counters = replica.counters().into_iter();
        counters.find(|(name, _)| *name == "refused_strangers").expect("it is counted").1
    };
    assert_eq!((refused(&replica), replica.describe()), (1, before.clone()));
    let all: Vec<_> = effects.iter().collect();
    let [Effect::Reply { to, kind, payload }] = all[..] else { panic!("{all:?}") };
    let answer = Answer::parse(effects.message(*kind, payload).payload).unwrap();
    assert_eq!((*to, answer.status), (caller, Status::BadRequest));
    // The node's own host may make them.
    effects.clear();
    tell(&mut replica, Caller::Host(1), &mut effects);
    let Some(Effect::Reply { kind, payload, .. }) = effects.iter().next() else { panic!("it is answered") };
    let answer = Answer::parse(effects.message(*kind, payload).payload).unwrap();
    assert_eq!((refused(&replica), answer.status), (1, Status::Done));
}

/// A replica that has no data has no snapshot to give, even to a node whose incarnation it knows.
#[test]
fn a_replica_without_the_data_gives_no_snapshot() {
    let parameters = small("account", NODES);
    let mut replica = Replica::new(parameters.clone());
    let mut memory = Memory::new(parameters.memory_bytes());
    let mut effects = Effects::default();
    let view =
        View { epoch: Epoch(1), full: NodeSet::first(1), joining: NodeSet::first(NODES).without(node(0)) };
    let configuration = Configuration { node: node(1), view, lease_until: Instant::FAR_FUTURE };
    // The request for a snapshot: the sender's incarnation, and the number of its attempt.
    let message = Message { kind: 15, payload: &[[0; 8], 7u64.to_be_bytes()].concat() };
    for event in [Event::Configure(configuration), Event::Deliver { from: node(2), message, last: true }] {
        effects.clear();
        replica.handle(Instant::ZERO, event, &mut Io { effects: &mut effects, memory: &mut memory });
    }
    assert!(!replica.is_full());
    assert_eq!(effects.iter().count(), 0);
}
