//! Hosts execute transactions over their own tables. The history is strictly serializable, however far the
//! tables lag behind.

use crate::network::workload::{ACCOUNTS, BALANCE};
use crate::network::{Faults, Network, Setup, before_events};
use weft_time::Duration;

const LOSSY: Faults = Faults { loss: 30, duplication: 30, late: 50 };

fn setup(nodes: usize, replicas: usize, entries: u32) -> Setup {
    let mut setup = Setup::new(nodes, replicas, Some(entries));
    setup.local = true;
    setup
}

fn ends_well(network: &mut Network, at: &str) {
    assert!(network.settle(4_000_000), "{at}: no end\n{}", network.describe());
    let report = network.check();
    assert!(!report.is_violated(), "{at}: {report:#?}");
    let nodes = network.setup.parameters.nodes as u64;
    assert_eq!(network.money(), nodes * ACCOUNTS * BALANCE, "{at}");
}

/// With large and small indexes. The smaller the index, the more often the age of the host's table decides
/// whether a read is current.
#[test]
fn random_schedules() {
    let (mut executed, mut conflicts) = (0, 0);
    for seed in 0..24 {
        let mut setup = setup(3 + seed as usize % 2, 2, [64, 14][seed as usize / 2 % 2]);
        if seed >= 6 {
            setup.faults = LOSSY;
        }
        let mut network = Network::new(seed, setup);
        network.start(4, 400);
        ends_well(&mut network, &format!("seed {seed}"));
        assert_eq!(network.finished.len(), 400, "seed {seed}");
        executed += network.counter("executed_by_host");
        conflicts += network.counter("host_conflicts");
    }
    assert!(executed > 2_000 && conflicts > 100 && 4 * conflicts < 3 * executed, "{conflicts} of {executed}");
}

/// If hosts are not allowed to execute transactions alone, all transactions go through the cards.
#[test]
fn left_out() {
    let mut network = Network::new(1, Setup::new(3, 2, Some(64)));
    network.start(4, 300);
    ends_well(&mut network, "left out");
    assert_eq!(network.counter("executed_by_host"), 0);
}

#[test]
fn a_crash_at_every_ninth_event() {
    before_events(9, 3, |victim, event| {
        let mut network = Network::new(50_000 + event, setup(3, 2, 20));
        network.crash_at = Some((victim, event));
        network.start(3, 40);
        ends_well(&mut network, &format!("node {victim} before event {event}"));
        network.events >= event
    });
}

/// A node crashes in the middle of the run, and rejoins with empty memory.
#[test]
fn nodes_that_come_back() {
    for seed in 0..30 {
        let mut setup = setup(3, 2, 64);
        setup.faults = LOSSY;
        let mut network = Network::new(seed, setup);
        network.comes_back = Some(Duration::from_us(50));
        let event = 1_000 + network.random(6_000);
        network.crash_at = Some((seed as usize % 3, event));
        network.start(6, 400);
        ends_well(&mut network, &format!("seed {seed}, event {event}"));
    }
}
