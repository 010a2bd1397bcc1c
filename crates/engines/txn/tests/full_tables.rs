//! Tables that are filled completely. An insertion is refused before it is decided, at all replicas alike.
//! Nothing is lost, and transactions that insert nothing still commit.

use std::collections::BTreeSet;

use crate::network::workload::{ACCOUNTS, BALANCE, long, long_at, toggle, transfer};
use crate::network::{Faults, Network, Node, Setup, before_events, node};
use weft_time::Duration;
use weft_txn::Room;
use weft_txn::message::{Header, Kind, Put, RecordPart, write, write_list};
use weft_txn::{Fault, Key, Outcome, TransactionId, Version};
use weft_waist::{Engine, EngineState, Event, Message, NodeSet};

const NODES: usize = 3;
/// Keys that are to be inserted into each shard. No replica has as many slots for the three shards together.
const KEYS: u64 = 80;
const FIRST: u64 = 1_000;

fn small(replicas: usize, seed: u64) -> Setup {
    let mut setup = Setup::new(NODES, replicas, Some(64));
    setup.pages = 6;
    setup.parameters.variant.multi_hop = seed.is_multiple_of(2);
    setup.local = seed % 3 == 1;
    if seed % 4 == 3 {
        setup.faults = Faults { loss: 30, duplication: 30, late: 50 };
    }
    setup
}

/// All nodes insert keys of all shards at once: single keys, and pairs of keys in two shards.
fn insert(network: &mut Network) {
    let local = network.setup.local;
    for number in 0..KEYS {
        for shard in 0..NODES {
            let node = (shard + number as usize) % NODES;
            let key = Key::new(shard, FIRST + number);
            let pair = [key, Key::new((shard + 1) % NODES, FIRST + KEYS + number)];
            let keys = if number % 4 == 0 { &pair[..] } else { &pair[..1] };
            network.call(node, toggle(keys, local && number % 2 == 0));
        }
    }
}

/// The inserted keys of all shards. All replicas must have the same ones.
fn inserted(network: &Network) -> BTreeSet<Key> {
    let nodes = network.alive().map(|(index, _)| index);
    let objects = nodes.flat_map(|node| network.objects(node));
    objects.map(|(key, ..)| key).filter(|key| key.local() >= FIRST).collect()
}

fn ends_well(network: &mut Network, at: &str) {
    network.start(0, 0);
    assert!(network.settle(4_000_000), "{at}: no end{}", network.describe());
    let report = network.check();
    assert!(!report.is_violated(), "{at}: {report:#?}");
    assert_eq!(network.money(), NODES as u64 * ACCOUNTS * BALANCE, "{at}");
}

fn count(network: &Network, outcome: &Outcome) -> usize {
    network.finished.iter().filter(|(_, finished)| finished == outcome).count()
}

fn committed() -> Outcome {
    Outcome::Committed { answer: Vec::new() }
}

#[test]
fn a_full_table_refuses_insertions_and_nothing_else() {
    for seed in 0..12 {
        let at = format!("seed {seed}");
        let mut network = Network::new(seed, small(2 + seed as usize % 2, seed));
        insert(&mut network);
        ends_well(&mut network, &at);
        let (done, full) = (count(&network, &committed()), count(&network, &Outcome::Full));
        assert_eq!(done + full, NODES * KEYS as usize, "{at}: {:?}", network.finished);
        assert!(done > 60 && full > 60, "{at}: {done} committed, {full} refused");
        let there = inserted(&network);
        assert!(there.len() >= done, "{at}: {} of {done}", there.len());
        // Existing keys can be written and deleted. Then there is room again, even before all hosts have
        // applied the deletions.
        network.finished.clear();
        for shard in 0..NODES {
            network.call(shard, transfer(Key::new(shard, 0), Key::new((shard + 1) % NODES, 1)));
        }
        for (number, key) in there.iter().enumerate() {
            network.call(number % NODES, toggle(&[*key], false));
        }
        let calls = NODES + there.len();
        network.start(0, 0);
        while network.finished.len() < calls && network.step() {}
        network.call_now(0, toggle(&[Key::new(1, FIRST)], false));
        ends_well(&mut network, &at);
        let took_effect = |(_, outcome): &(usize, Outcome)| matches!(outcome, Outcome::Committed { .. });
        assert!(network.finished.iter().all(took_effect), "{at}: {:?}", network.finished);
        assert_eq!(network.finished.len(), calls + 1, "{at}");
        assert_eq!(inserted(&network), [Key::new(1, FIRST)].into(), "{at}");
    }
}

/// Each long value takes a block, and each node has 128 of them.
#[test]
fn a_table_without_blocks_refuses_long_values() {
    let mut network = Network::new(1, Setup::new(NODES, NODES, Some(64)));
    for number in 0..140 {
        network.call(number as usize % NODES, long_at(Key::new(0, FIRST + number)));
    }
    ends_well(&mut network, "long values");
    let (done, full) = (count(&network, &committed()), count(&network, &Outcome::Full));
    assert_eq!((done + full, inserted(&network).len()), (140, done));
    assert!((100..=128).contains(&done), "{done} committed");
}

#[test]
fn a_value_longer_than_the_tables_hold_is_a_fault() {
    let mut setup = Setup::new(NODES, 2, Some(64));
    setup.value_bytes_max = 299;
    let mut network = Network::new(1, setup);
    network.call(0, long(1, 1));
    ends_well(&mut network, "a long value");
    assert_eq!(network.finished, [(0, Outcome::Faulty(Fault::LongValue))]);
}

/// A peer's LOG or page with a value that is too long for the tables is ignored.
#[test]
fn a_value_longer_than_the_tables_hold_is_kept_nowhere() {
    let mut setup = Setup::new(NODES, 2, Some(64));
    setup.value_bytes_max = 299;
    let mut network = Network::new(1, setup);
    network.crash(0);
    assert!(network.settle(100_000), "{}", network.describe());
    network.rejoin(0);
    let is_joining = |network: &Network| {
        let node = network.nodes[0].as_ref().expect("it is back");
        matches!(node.engine.status().state, EngineState::Joining { .. })
    };
    while !is_joining(&network) && network.step() {}
    let epoch = network.view.epoch;
    let put = Put { key: Key::new(0, 1), version: Version::new(epoch, 1), value: Some(&[1; 300]) };
    let mut header = Vec::new();
    Header { epoch, decided: 0, truncated: 0 }.encode(&mut header);
    let id = TransactionId::new(node(1), epoch, 0);
    let mut log = header.clone();
    write::log(
        &mut log,
        &RecordPart { id, shard: 0, part: 0, parts: 1 },
        1,
        Room::default(),
        [put].into_iter(),
    );
    // A page of shard 0 that is both the first and the last one: its cursors are the start and the end.
    let mut page = [&header[..], &[0; 13], &[0xff; 4], &[0; 8]].concat();
    write_list(&mut page, [put].into_iter());
    for (kind, payload) in [(Kind::Log, &log), (Kind::Copied, &page)] {
        let message = Message { kind: kind as u8, payload };
        network.handle(0, Event::Deliver { from: node(1), message, last: true });
    }
    assert_eq!(network.counter("stale"), 2);
    ends_well(&mut network, "a node that comes back");
    assert_eq!(network.view.full, NodeSet::first(NODES));
}

#[test]
fn a_node_dies_while_tables_are_full() {
    before_events(151, NODES, |victim, event| {
        let mut network = Network::new(60_000 + event, small(2, event));
        network.crash_at = Some((victim, event));
        insert(&mut network);
        ends_well(&mut network, &format!("node {victim} before event {event}"));
        network.events >= event
    });
}

/// A copied table is laid out otherwise than the original, so it may lack room for objects that the original
/// holds. Then the joining node is lost, and the others continue without it.
#[test]
fn a_node_comes_back_while_tables_are_full() {
    let (mut back, mut lost) = (0, 0);
    before_events(151, NODES, |victim, event| {
        let mut network = Network::new(70_000 + event, small(2 + event as usize % 2, event));
        network.crash_at = Some((victim, event));
        network.comes_back = Some(Duration::from_us(30));
        insert(&mut network);
        network.start(0, 0);
        let at = format!("node {victim} before event {event}");
        assert!(network.settle(4_000_000), "{at}: no end{}", network.describe());
        let happened = network.events >= event;
        let is_full = |(_, node): (usize, &Node)| node.engine.status().state == EngineState::Full;
        assert!(network.alive().all(is_full), "{at}: {}", network.describe());
        let is_back = network.nodes[victim].is_some();
        *(if is_back { &mut back } else { &mut lost }) += 1;
        let report = network.check();
        assert!(!report.is_violated(), "{at}: {report:#?}");
        happened
    });
    println!("{back} times the node was full again, {lost} times its table had no room");
    assert!(back > 0 && lost > 0);
}
