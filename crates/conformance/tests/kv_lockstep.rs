//! The key-value engine in gates has the same effects as its soft twin, event by event, under random
//! schedules.
//!
//! `WEFT_KV_SEED` replaces a test's own seeds by one; `WEFT_KV_STEPS` sets the length of a schedule.

use weft_conformance::kv::{Lockstep, Pair, Profile};
use weft_gateware::{HbmTiming, Latency, Pressure, RtlKvConfig};
use weft_kv::message::{CUTS_MAX, Cut, Kind, Request, Sealed};
use weft_kv::{Operation, SESSION_WINDOW, hash, version};
use weft_time::{Duration, Instant};
use weft_waist::{Caller, Configuration, Engine, Epoch, Event, Message, NodeId, NodeSet, View};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs schedules. To replay a failure, set the seed that is printed.
fn schedules(seeds: std::ops::Range<u64>, profile: Profile) {
    let seeds = number("WEFT_KV_SEED").map_or(seeds, |seed| seed..seed + 1);
    let steps = number("WEFT_KV_STEPS").map_or(profile.steps, |steps| steps as usize);
    for seed in seeds {
        println!("seed {seed}");
        // Half of the seeds have random stalls of the memory and of the messages.
        let config = match seed % 4 {
            0 => RtlKvConfig::default(),
            2 => RtlKvConfig { hbm: Some(HbmTiming::NIC_KV), ..RtlKvConfig::default() },
            _ => RtlKvConfig {
                latency: Latency { read_cycles: 1 + seed % 90, write_cycles: 1 + seed % 70 },
                pressure: Some(Pressure { seed, stalls_of_256: 80 }),
                ..RtlKvConfig::default()
            },
        };
        let mut cluster = Lockstep::new(seed, Profile { steps, ..profile }, config);
        cluster.run();
        println!("unsure {}, {:?}", cluster.unsure(), cluster.counts);
        let different = cluster.different_counters();
        println!("counters (node, name, soft, gates): {different:?}");
    }
}

/// Founding, get, put, delete, compare-and-set on one node.
#[test]
fn level_1_one_node() {
    schedules(100..104, Profile { steps: 800, ..Profile::CALM });
}

/// A leader and a follower, in order and without loss.
#[test]
fn level_2_two_nodes() {
    schedules(200..204, Profile { nodes: 2, ..Profile::CALM });
}

/// Loss, duplication and reordering.
#[test]
fn level_3_loss() {
    schedules(300..304, Profile::LOSSY);
}

/// Nodes crash, views change.
#[test]
fn level_4_view_changes() {
    schedules(400..404, Profile { nodes: 4, joins: false, ..Profile::ALL });
}

/// Nodes join again and receive their state.
#[test]
fn level_5_joins() {
    // With seed 505 a chunk arrives before its stream has been applied up to its tag, and a long value is the
    // last of that stream.
    schedules(500..506, Profile { loss: 10, value_bytes: 1024, ..Profile::ALL });
}

/// All events, on five nodes with long values.
#[test]
fn level_6_everything() {
    let profile = Profile { nodes: 5, steps: 4_000, keys: 60, value_bytes: 1024, ..Profile::ALL };
    schedules(600..603, profile);
}

/// Malformed messages.
#[test]
fn level_7_malformed() {
    schedules(700..704, Profile { mutation: 60, ..Profile::ALL });
}

/// A bucket that is full or nearly full.
#[test]
fn level_8_full_bucket() {
    schedules(800..802, Profile { nodes: 2, crowded: true, value_bytes: 40, ..Profile::CALM });
}

/// More clients than sessions, and pauses after which the oldest sessions may be evicted.
#[test]
fn level_9_many_clients() {
    let profile =
        Profile { nodes: 2, clients: 300, steps: 6_000, pauses: 1, value_bytes: 40, ..Profile::CALM };
    schedules(900..902, profile);
}

/// However many writes of a key are undecided, they reserve one way of its bucket (two if the key has one
/// already, because the first write does not look it up). The other ways stay available to other keys. When a
/// view change drops the writes, all reservations are released.
#[test]
fn level_10_writes_of_one_key_hold_one_way() {
    let config = RtlKvConfig::default();
    let mut pair = Pair::new(config);
    let bucket_of = |key: u64| hash(&key.to_be_bytes()) as u32 & (config.buckets - 1);
    let keys: Vec<u64> = (1..).filter(|&key| bucket_of(key) == 0).take(31).collect();
    let [node, other] = [0, 1].map(|index| NodeId::new(index).unwrap());
    let both = NodeSet::first(2);
    let (mut now, mut asked) = (Instant::ZERO, 0u64);
    let mut ask = |pair: &mut Pair, now: Instant, operation, key: u64, expected| {
        asked += 1;
        let value = asked.to_be_bytes();
        let (client, request) = (asked / SESSION_WINDOW, 1 + asked % SESSION_WINDOW);
        let message =
            Request { operation, client, request, expected, key: &key.to_be_bytes(), value: &value };
        let payload = [&message.header()[..], message.key, message.value].concat();
        let message = Message { kind: Kind::Request as u8, payload: &payload };
        pair.handle(now, Event::Call { caller: Caller::Host(client as u32), message, last: true });
    };
    for epoch in 1..=3 {
        now += Duration::from_us(10);
        let view = View { epoch: Epoch(epoch), full: both, joining: NodeSet::EMPTY };
        let lease_until = now + Duration::from_secs(1);
        pair.handle(now, Event::Configure(Configuration { node, view, lease_until }));
        if epoch > 1 {
            // The other member has the first ten writes, so only these are kept.
            let sealed = Sealed {
                epoch: Epoch(epoch),
                base: Epoch(epoch - 1),
                base_members: both,
                heard: both,
                certain: NodeSet::EMPTY,
                accepted: std::array::from_fn(|stream| if stream == 0 { 10 } else { 0 }),
                cuts: [Cut::default(); CUTS_MAX],
            };
            let mut bytes = [0; Sealed::BYTES_MAX];
            let length = sealed.encode(&mut bytes);
            let message = Message { kind: Kind::Sealed as u8, payload: &bytes[..length] };
            pair.handle(now, Event::Deliver { from: other, message, last: true });
        }
        for number in 1..=64 {
            now += Duration::from_us(1);
            if number % 4 == 0 {
                ask(&mut pair, now, Operation::CompareAndSet, keys[0], version(Epoch(epoch), number - 1));
            } else {
                ask(&mut pair, now, Operation::Put, keys[0], 0);
            }
        }
        for &key in &keys[1..] {
            now += Duration::from_us(1);
            ask(&mut pair, now, Operation::Put, key, 0);
        }
        assert_eq!(pair.soft().undecided(), 64 + 30);
    }
    let counters = pair.gates().counters();
    let refused = |(name, count): &&(&str, u64)| matches!(*name, "refused_busy" | "table_full") && *count > 0;
    assert_eq!(counters.iter().find(refused), None);
}

/// A long campaign: `cargo test -p weft-conformance kv_lockstep -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign() {
    let most = number("WEFT_KV_SEEDS").unwrap_or(40);
    schedules(10_000..10_000 + most, Profile { nodes: 3, ..Profile::ALL });
    schedules(20_000..20_000 + most, Profile { nodes: 5, ..Profile::ALL });
    schedules(30_000..30_000 + most, Profile { mutation: 60, ..Profile::ALL });
}
