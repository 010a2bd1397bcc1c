//! A peer may send and write anything: no replica panics, and invalid messages change nothing and are counted.

use std::net::Ipv4Addr;

use crate::network;
use crate::network::cluster::{Cluster, small};
use crate::network::node;
use weft_smr::log::{Answer, Call, Log, Status, Subject, Wire};
use weft_smr::slot::{Kind, Slot};
use weft_smr::{CALL_LOG, Delivery, Pulse, Role};
use weft_time::{Duration, Instant};
use weft_verbs::QueuePairNumber;
use weft_waist::{Caller, Effect, Effects, Engine, Event, Io, Memory, Message};

const NODES: usize = 3;

fn dropped(log: &Log) -> u64 {
    log.counters().iter().filter(|(name, _)| *name == "dropped_malformed").map(|(_, count)| count).sum()
}

#[test]
fn what_is_no_message_changes_nothing() {
    let mut cluster = Cluster::new(1, small(NODES, Delivery::WriteThrough));
    cluster.run(Duration::from_us(200));
    let mut sent = 0;
    for round in 0..2_000 {
        let kind = cluster.network.random(256) as u8;
        let length = [0, 1, 15, 16, 17, 23, 25, 64][round % 8];
        if (kind, length) == (2, 16) {
            continue;
        }
        let payload: Vec<u8> = (0..length).map(|_| cluster.network.random(256) as u8).collect();
        let target = &mut cluster.network.nodes[round % NODES].as_mut().unwrap();
        let before =
            (target.memory.image().to_vec(), format!("{:?}", target.engine.group()), dropped(&target.engine));
        let message = Message { kind, payload: &payload };
        let from = node((round + 1) % NODES);
        cluster.network.handle(round % NODES, Event::Deliver { from, message, last: true });
        let target = &cluster.network.nodes[round % NODES].as_ref().unwrap();
        assert!(before.0 == target.memory.image(), "kind {kind}, {length} bytes");
        assert_eq!(before.1, format!("{:?}", target.engine.group()), "kind {kind}, {length} bytes");
        assert_eq!(before.2 + 1, dropped(&target.engine), "kind {kind}, {length} bytes");
        sent += 1;
    }
    assert!(sent > 1_500);
    cluster.heal();
}

/// A random number, often one at the limits of a field.
fn strange(cluster: &mut Cluster) -> u64 {
    let random = cluster.network.random(u64::MAX);
    [0, 1, 2, random % 64, random, 1 << 32, 1 << 60, 1 << 61, 1 << 63, u64::MAX - 1, u64::MAX]
        [random as usize % 11]
}

/// Peers write random words over the lines, the slots and the data read from others, and send well-formed messages
/// with random numbers. The replicas need not make progress any more, but none panics.
#[test]
fn strange_words_stop_nobody() {
    for seed in 0..60 {
        let parameters = small(NODES, [Delivery::WriteThrough, Delivery::Polling][seed as usize % 2]);
        let base = Pulse::memory_bytes(&parameters.pulse);
        let mut cluster = Cluster::new(seed, parameters);
        cluster.checks = false;
        cluster.run(Duration::from_us(100 + 10 * seed));
        for _ in 0..150 {
            let index = cluster.network.random(NODES as u64) as usize;
            let word = strange(&mut cluster).to_be_bytes();
            let other = strange(&mut cluster);
            let length = cluster.network.nodes[index].as_ref().unwrap().memory.image().len() as u64;
            let at = match cluster.network.random(3) {
                0 => base + 8 * cluster.network.random(16) as usize,
                1 => 8 * cluster.network.random(length / 8) as usize,
                _ => base + 128 + 192 * cluster.network.random(16) as usize,
            };
            // A leader or candidate lets no peer write to its log.
            let target = cluster.network.nodes[index].as_mut().unwrap();
            if target.engine.group().role() != Role::Follower {
                cluster.run(Duration::from_us(5));
                continue;
            }
            let memory = target.memory.image_mut();
            if at >= base + 128 && at < base + 128 + 16 * 192 && (at - base - 128).is_multiple_of(192) {
                let entry = other.to_be_bytes();
                let index = u64::from_be_bytes(word) % (1 << 62);
                let slot = Slot { index, proposal: other, decided: other, kind: Kind::Call, entry: &entry };
                slot.write(&mut memory[at..at + 192]);
            } else {
                memory[at..at + 8].copy_from_slice(&word);
            }
            let mut payload = [0; 24];
            payload[4..8].copy_from_slice(&[0, 1, 2, 3]);
            payload[8..16].copy_from_slice(&other.to_be_bytes());
            payload[16..].copy_from_slice(&word);
            payload[0] = if seed.is_multiple_of(2) { 0 } else { 255 };
            let (kind, bytes) = if other.is_multiple_of(2) { (1, 24) } else { (2, 16) };
            let message = Message { kind, payload: &payload[..bytes] };
            cluster
                .network
                .handle(index, Event::Deliver { from: node((index + 1) % NODES), message, last: true });
            cluster.run(Duration::from_us(10));
        }
        cluster.run(Duration::from_ms(1));
    }
}

/// A follower's line claims decided entries that are in no log. When the follower leads, it cannot bring the
/// others up to date, but it does not panic.
#[test]
fn decided_entries_that_are_not_there_stop_nobody() {
    let parameters = small(NODES, Delivery::WriteThrough);
    let line = Pulse::memory_bytes(&parameters.pulse) + 8;
    let mut cluster = Cluster::new(1, parameters);
    cluster.checks = false;
    cluster.run(Duration::from_ms(1));
    let follower = cluster.network.nodes[1].as_mut().unwrap();
    assert_eq!(follower.engine.group().role(), Role::Follower);
    let decided = follower.engine.group().decided() + 3;
    follower.memory.image_mut()[line..line + 8].copy_from_slice(&decided.to_be_bytes());
    let (caller, message) = (Caller::QueuePair(QueuePairNumber(1)), Message { kind: CALL_LOG, payload: &[] });
    cluster.network.handle(1, Event::Call { caller, message, last: true });
    cluster.crash(0);
    cluster.run(Duration::from_ms(2));
    let counters = cluster.network.nodes[1].as_ref().unwrap().engine.group().counters();
    assert!(counters.leaderships > 0 && counters.malformed > 0, "{counters:?}");
}

/// Calls reserved to the host change nothing if another caller makes them, before and after a node is configured,
/// and are counted.
#[test]
fn strangers_do_not_command_a_node() {
    let parameters = small(NODES, Delivery::WriteThrough);
    let mut running = Cluster::new(1, parameters.clone());
    running.run(Duration::from_us(200));
    let node = running.network.nodes[0].as_ref().unwrap();
    let running = (node.engine.clone(), node.memory.clone());
    let idle = (Log::new(parameters.clone()), Memory::new(parameters.memory_bytes()));
    let wire = Wire { group: 0, peer: 1, wiring: network::wiring(0, 1) }.encode();
    let endpoint = Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: 9 };
    for (engine, memory) in [running, idle] {
        for caller in [endpoint, Caller::QueuePair(QueuePairNumber(3))] {
            for (kind, payload) in [(Call::Wire, &wire[..]), (Call::Subscribe, &[])] {
                let (mut engine, mut memory, mut effects) =
                    (engine.clone(), memory.clone(), Effects::default());
                let refused = |engine: &Log| engine.counters().last().copied().unwrap();
                let (before, image) = (format!("{engine:?}"), memory.image().to_vec());
                assert_eq!(refused(&engine), ("refused_strangers", 0));
                let message = Message { kind: kind as u8, payload };
                let io = &mut Io { effects: &mut effects, memory: &mut memory };
                engine.handle(Instant::ZERO, Event::Call { caller, message, last: true }, io);
                assert_eq!(refused(&engine), ("refused_strangers", 1));
                let after = format!("{engine:?}").replace("refused_strangers: 1", "refused_strangers: 0");
                assert!(before == after && image == memory.image(), "{kind:?} of {caller:?}");
                let all: Vec<_> = effects.iter().collect();
                let [Effect::Reply { to, kind, payload }] = all[..] else { panic!("{all:?}") };
                let bytes = effects.message(*kind, payload).payload;
                let answer = Answer::parse(&bytes[..Answer::BYTES]).unwrap();
                assert_eq!((*to, answer.status), (caller, Status::BadRequest));
                if caller == endpoint {
                    assert_eq!(Subject::parse(&bytes[Answer::BYTES..]), Ok(Subject::Other));
                }
            }
        }
    }
}
