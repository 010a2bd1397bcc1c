//! The key-value engine in gates says what its soft twin says, event by event, whatever happens to them.
//!
//! `WEFT_KV_SEED` runs one seed in place of a test's own, `WEFT_KV_STEPS` changes how long a schedule is.

use weft_conformance::kv::{Lockstep, Profile};
use weft_gateware::{HbmTiming, Latency, Pressure, RtlKvConfig};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs schedules. Replay a failure with the seed that it prints.
fn schedules(seeds: std::ops::Range<u64>, profile: Profile) {
    let seeds = number("WEFT_KV_SEED").map_or(seeds, |seed| seed..seed + 1);
    let steps = number("WEFT_KV_STEPS").map_or(profile.steps, |steps| steps as usize);
    for seed in seeds {
        println!("seed {seed}");
        // Every other one with a memory that stalls and messages that are not taken at once.
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

/// Found, get, put, delete, compare and set on one node.
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

/// Nodes go, views change.
#[test]
fn level_4_view_changes() {
    schedules(400..404, Profile { nodes: 4, joins: false, ..Profile::ALL });
}

/// Nodes come back and get their state.
#[test]
fn level_5_joins() {
    schedules(500..504, Profile { loss: 10, ..Profile::ALL });
}

/// Everything, on five nodes with long values.
#[test]
fn level_6_everything() {
    let profile = Profile { nodes: 5, steps: 4_000, keys: 60, value_bytes: 1024, ..Profile::ALL };
    schedules(600..603, profile);
}

/// Bytes that are no messages, or wrong ones.
#[test]
fn level_7_malformed() {
    schedules(700..704, Profile { mutation: 60, ..Profile::ALL });
}

/// A bucket that is full or nearly so.
#[test]
fn level_8_full_bucket() {
    schedules(800..802, Profile { nodes: 2, crowded: true, value_bytes: 40, ..Profile::CALM });
}

/// More clients than sessions, and pauses after which the oldest may be forgotten.
#[test]
fn level_9_many_clients() {
    let profile =
        Profile { nodes: 2, clients: 300, steps: 6_000, pauses: 1, value_bytes: 40, ..Profile::CALM };
    schedules(900..902, profile);
}

/// A long campaign: `cargo test -p weft-conformance --test kv_lockstep -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign() {
    let most = number("WEFT_KV_SEEDS").unwrap_or(40);
    schedules(10_000..10_000 + most, Profile { nodes: 3, ..Profile::ALL });
    schedules(20_000..20_000 + most, Profile { nodes: 5, ..Profile::ALL });
    schedules(30_000..30_000 + most, Profile { mutation: 60, ..Profile::ALL });
}
