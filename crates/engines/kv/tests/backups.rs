//! Backups that are read while clients write and nodes fail: each is the store as it was at one instant.

use crate::network::{Faults, Network, small};
use weft_kv::{Kv, Parameters};

/// Runs one schedule, with many keys in few buckets, so that a backup has several parts.
fn run(seed: u64, faults: Faults, parameters: Parameters) -> Network {
    println!("seed {seed}");
    let mut network = Network::<Kv>::new(seed, 3, 6, 300, faults, parameters);
    network.crowd();
    network.read_backups(1 + seed % 3);
    network.run();
    network
}

/// Returns the numbers of backups that were read, of those that were begun again, and of records set aside.
fn schedules(seeds: std::ops::Range<u64>, faults: Faults, parameters: &Parameters) -> [u64; 3] {
    seeds
        .map(|seed| {
            let network = run(seed, faults, parameters.clone());
            let (read, begun_again) = network.backups();
            [read, begun_again, network.counters()["backup_records_kept"]]
        })
        .fold([0; 3], |sums, counts| std::array::from_fn(|place| sums[place] + counts[place]))
}

fn wide() -> Parameters {
    Parameters { ways: 16, ..small() }
}

#[test]
fn without_faults() {
    let [read, begun_again, kept] = schedules(0..10, Faults::NONE, &wide());
    assert!(read > 50 && begun_again == 0 && kept > 50, "{read} {begun_again} {kept}");
}

#[test]
fn all_faults() {
    let [read, begun_again, kept] = schedules(100..160, Faults::ALL, &wide());
    assert!(read > 300 && begun_again > 30 && kept > 300, "{read} {begun_again} {kept}");
}

#[test]
fn all_faults_and_power_cuts() {
    let faults = Faults { power: true, ..Faults::ALL };
    let [read, ..] = schedules(200..230, faults, &Parameters { durable_copies: 2, ..wide() });
    assert!(read > 100, "{read}");
}

/// Writes do not wait for a reader: a backup for which the node would have to keep too much ends.
#[test]
fn a_backup_that_takes_too_much_room_ends() {
    let parameters = Parameters { backup_bytes: 600, ..wide() };
    let [read, begun_again, _] = schedules(300..310, Faults::NONE, &parameters);
    assert!(read > 3 && begun_again > 30, "{read} {begun_again}");
}

/// A long campaign: `cargo test -p weft-kv a_long_campaign_of_backups -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign_of_backups() {
    schedules(10_000..12_000, Faults::ALL, &wide());
    let faults = Faults { power: true, ..Faults::ALL };
    schedules(20_000..21_000, faults, &Parameters { durable_copies: 2, ..wide() });
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use weft_kv::PlantedBug;

    std::panic::set_hook(Box::new(|_| {}));
    let caught_by = |bug| {
        (0..1_000).find(|seed| {
            let parameters = Parameters { planted_bug: Some(bug), ..wide() };
            catch_unwind(AssertUnwindSafe(|| drop(run(*seed, Faults::ALL, parameters)))).is_err()
        })
    };
    let seeds = PlantedBug::OF_BACKUPS.map(caught_by);
    drop(std::panic::take_hook());
    println!("{seeds:?}");
    assert!(seeds.iter().all(Option::is_some), "{seeds:?}");
}
