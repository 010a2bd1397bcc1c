//! A service with a slow disk: whatever the disk takes, members that are alive keep their leases.

use weft_cluster::ServiceParameters;
use weft_time::Duration;
use weft_waist::{Epoch, NodeId};

use crate::world::{Clock, Network, Random, World};

const LEASE: Duration = Duration::from_ms(100);
const NODES: usize = 4;
/// The nodes that stay; the last one crashes and comes back.
const STEADY: usize = NODES - 1;

/// Runs one seed in which each change takes up to five leases to store. Returns the number of views.
fn run(seed: u64, prepare: impl FnOnce(World) -> World) -> Result<u32, String> {
    let mut random = Random(seed);
    let network = Network {
        loss_percent: 0,
        duplicate_percent: 2,
        delay_min: Duration::from_us(10),
        delay_max: Duration::from_ms(2),
        straggler_max: Duration::from_ms(5),
    };
    let clocks = [Clock { offset_ps: 0, ppm: 0 }; NODES + 1];
    let mut world = prepare(World::new(seed, ServiceParameters::new(NODES, LEASE), network, &clocks));
    world.store_max = LEASE * 5;
    (0..NODES).for_each(|node| world.start(node));
    let mut changes_at = LEASE.as_ps() * 12;
    while world.real < LEASE.as_ps() * 100 {
        world.run_until(world.real + LEASE.as_ps() / 10);
        if world.real >= changes_at {
            changes_at += LEASE.as_ps() + random.below(LEASE.as_ps() * 10);
            match random.below(3) {
                0 => world.crash(NODES - 1),
                1 => world.start(NODES - 1),
                // It is cut off for about a lease, so that it comes back while its removal is being stored.
                _ => {
                    world.hosts[NODES - 1].mute = true;
                    world.run_until(world.real + LEASE.as_ps() + random.below(LEASE.as_ps()));
                    world.hosts[NODES - 1].mute = false;
                }
            }
        }
        let view = world.view();
        if view.epoch < Epoch(2) {
            continue;
        }
        for node in 0..STEADY {
            if !view.full.contains(NodeId::new(node).unwrap()) {
                return Err(format!(
                    "node {node} was never silent, and is not in {view:?}: {:#?}",
                    world.log
                ));
            }
            if !world.has_lease(node) {
                return Err(format!("node {node} was never silent, and has no lease: {:#?}", world.log));
            }
        }
    }
    Ok(world.view().epoch.0)
}

#[test]
fn members_keep_their_leases_while_the_disk_is_slow() {
    let views: u32 = (1..=60)
        .map(|seed| run(seed, |world| world).unwrap_or_else(|why| panic!("seed {seed}: {why}")))
        .sum();
    assert!(views > 300, "{views} views show little");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn every_planted_bug_is_found() {
    use weft_cluster::PlantedBug;
    for bug in [PlantedBug::DeafWhileStoring, PlantedBug::RemovedRenewed] {
        // The world itself panics where its invariants are violated.
        let fails = |seed: &u64| {
            let ran = std::panic::catch_unwind(|| run(*seed, |world| world.with_planted_bug(bug)));
            ran.is_err() || ran.is_ok_and(|ran| ran.is_err())
        };
        let found = (1..=100).find(fails);
        println!("{bug:?}: seed {found:?}");
        assert!(found.is_some(), "{bug:?} went unnoticed");
    }
}
