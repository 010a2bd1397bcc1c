//! Random schedules: whatever crashes, is cut off, is late or drifts, the guarantees of leases and views hold.

use crate::world::{Clock, Network, Random, World};
use proptest::prelude::*;
use weft_cluster::ServiceParameters;
use weft_time::Duration;

const LEASE: Duration = Duration::from_ms(100);
const DRIFT_PPM: u32 = 20_000;

/// Causes one fault, or ends one.
fn disturb(world: &mut World, random: &mut Random) {
    let node = random.below(world.hosts.len() as u64) as usize;
    match random.below(12) {
        0 => world.crash(node),
        1..=3 => world.start(node),
        4 => world.lose_engine(node),
        5 => world.hosts[node].mute = true,
        6 => world.hosts[node].deaf = true,
        7..=8 => {
            world.hosts[node].mute = false;
            world.hosts[node].deaf = false;
        }
        9 => world.crash_service(),
        10 => world.start_service(),
        // The service is cut off from all nodes, for shorter or longer than a lease.
        _ => {
            world.hosts.iter_mut().for_each(|host| host.mute = true);
            let end = world.real + random.below(LEASE.as_ps() * 3);
            world.run_until(end);
            world.hosts.iter_mut().for_each(|host| host.mute = false);
        }
    }
}

/// Runs one schedule; returns whether the data was lost in it.
fn one_schedule(seed: u64, nodes: usize, loss_percent: u64) -> bool {
    let mut random = Random(seed);
    let drift = i64::from(DRIFT_PPM) / 2 - 200;
    let clocks: Vec<_> = (0..=nodes)
        .map(|_| Clock {
            offset_ps: random.below(1_000_000_000_000),
            ppm: random.below(drift as u64 * 2) as i64 - drift,
        })
        .collect();
    let parameters = ServiceParameters { drift_ppm: DRIFT_PPM, ..ServiceParameters::new(nodes, LEASE) };
    let network = Network {
        loss_percent,
        duplicate_percent: loss_percent,
        delay_min: Duration::from_us(10),
        delay_max: Duration::from_us(10 + random.below(20_000)),
        straggler_max: LEASE * 3,
    };
    let mut world = World::new(random.below(u64::MAX), parameters, network, &clocks);
    world.unsaved_crash_percent = 5;
    // Half of the services have a slow disk.
    world.store_max = LEASE / 2 * (seed % 2) * random.below(5);
    (0..nodes).for_each(|node| world.start(node));
    for _ in 0..random.below(40) {
        let end = world.real + random.below(LEASE.as_ps());
        world.run_until(end);
        disturb(&mut world, &mut random);
    }
    // All faults are repaired. Removed nodes return, fetch their data and become full again.
    world.unsaved_crash_percent = 0;
    world.start_service();
    for node in 0..nodes {
        world.start(node);
        world.hosts[node].mute = false;
        world.hosts[node].deaf = false;
    }
    world.network =
        Network { loss_percent: 0, delay_max: Duration::from_ms(1), straggler_max: LEASE, ..network };
    world.run_until(world.real + LEASE.as_ps() * 20);
    if !world.halted() {
        assert_eq!(world.view().full.len(), nodes, "not everybody is back: {:#?}", world.log);
        let quiet = world.view().epoch;
        world.run_until(world.real + LEASE.as_ps() * 10);
        assert_eq!(world.view().epoch, quiet, "views change without need: {:#?}", world.log);
    }
    world.halted()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules(seed in any::<u64>(), nodes in 1usize..6, loss_percent in 0u64..30) {
        one_schedule(seed, nodes, loss_percent);
    }
}

#[test]
fn schedules_reach_both_ends() {
    let halted = (0..200).filter(|&seed| one_schedule(seed, 3, 5)).count();
    assert!((1..150).contains(&halted), "{halted} of 200 schedules lost the data");
}
