//! Random transactions over a faulty network are strictly serializable. Nothing is lost, and no lock or
//! record is left behind.

use crate::network::workload::{ACCOUNTS, BALANCE, sum_into_absent};
use crate::network::{Faults, Network, Setup};
use weft_txn::Variant;

const LOSSY: Faults = Faults { loss: 30, duplication: 30, late: 50 };

fn run(seed: u64, setup: Setup, calls: u64) -> Network {
    let mut network = Network::new(seed, setup);
    network.start(4, calls);
    assert!(network.settle(4_000_000), "seed {seed}: no end");
    let report = network.check();
    assert!(!report.is_violated(), "seed {seed}: {report:#?}");
    assert_eq!(network.money(), setup.parameters.nodes as u64 * ACCOUNTS * BALANCE, "seed {seed}");
    assert_eq!(network.finished.len() as u64, calls, "seed {seed}");
    assert_eq!(network.counter("strays"), 0, "seed {seed}");
    network
}

#[test]
fn tables_near_the_engine() {
    for seed in 0..6 {
        let network = run(seed, Setup::new(3, 2, None), 400);
        assert!(network.counter("shipped") > 0 && network.counter("recalled") == 0);
        assert!(network.counter("differences") > 0);
    }
}

#[test]
fn tables_behind_the_card() {
    for seed in 0..6 {
        let network = run(seed, Setup::new(3, 2, Some(64)), 400);
        assert!(network.counter("misses") > 0 && network.counter("differences") > 0);
    }
}

#[test]
fn loss_duplication_and_delay() {
    for seed in 0..10 {
        let mut setup = Setup::new(4, 3, [None, Some(64), Some(20)][seed as usize % 3]);
        setup.faults = LOSSY;
        let network = run(seed, setup, 300);
        assert!(network.counter("repeats") > 0);
    }
}

/// The designs that Weft is compared with are serializable too. They send values with the commit.
#[test]
fn values_with_the_commit() {
    for seed in 0..6 {
        let mut setup = Setup::new(4, 3, None);
        setup.parameters.variant = Variant::FASST;
        setup.faults = LOSSY;
        let network = run(seed, setup, 300);
        assert_eq!(network.counter("shipped") + network.counter("differences"), 0);
    }
}

#[test]
fn reads_and_logs_by_verbs() {
    let variants = [Variant::DRTMH, Variant::DRTMH_NO_CACHE, Variant::DRTMR, Variant::FASST];
    for seed in 0..16 {
        let mut setup = Setup::new(4, 3, None);
        setup.linked = true;
        setup.parameters.variant = variants[seed as usize % 4];
        if seed >= 8 {
            setup.faults = LOSSY;
            // There are fewer landing buffers than WRITEs in progress. No READ may be stored outside the buffers.
            setup.parameters.operations = 12;
        }
        let network = run(seed, setup, 400);
        let by_message = setup.parameters.variant == Variant::FASST;
        assert_eq!(network.counter("verbs") == 0, by_message);
    }
}

/// An absent object at another node cannot be locked by an RDMA atomic: the attempt restarts, and asks by
/// message. It must not conflict with its own former locks.
#[test]
fn nobody_gives_way_to_itself() {
    for seed in 0..40 {
        let mut setup = Setup::new(4, 3, None);
        setup.linked = true;
        setup.parameters.variant = Variant::DRTMR;
        let mut network = Network::new(seed, setup);
        network.call(0, sum_into_absent(4, 1 + seed as usize % 3));
        network.start(0, 0);
        assert!(network.settle(1_000_000), "seed {seed}: no end");
        assert!(!network.check().is_violated(), "seed {seed}");
        assert_eq!(network.counter("conflicts"), 0, "seed {seed}: nobody else is there");
        assert_eq!(network.counter("committed"), 1, "seed {seed}");
    }
}

#[test]
fn without_shipping() {
    for seed in 0..4u64 {
        let mut setup = Setup::new(3, 2, Some(64));
        setup.parameters.variant.multi_hop = false;
        setup.parameters.variant.ship_to_card = seed.is_multiple_of(2);
        setup.faults = LOSSY;
        assert_eq!(run(seed, setup, 200).counter("shipped"), 0);
    }
}

/// Keys are read first, and locked when the writes are known. With all placements of tables and procedures.
#[test]
fn reads_and_locks_by_requests_of_their_own() {
    for seed in 0..24u64 {
        let mut setup = Setup::new(4, 3, [None, Some(64), Some(20)][seed as usize % 3]);
        setup.parameters.variant.multi_hop = false;
        setup.parameters.variant.combined = false;
        setup.parameters.variant.ship_to_card = seed.is_multiple_of(2);
        if seed >= 6 {
            setup.faults = Faults { loss: 150, duplication: 150, late: 100 };
        }
        let network = run(seed, setup, 300);
        assert!(network.counter("shipped") == 0 && network.counter("committed") > 0);
    }
}

/// A read at one moment needs no validation. But if an answer takes two messages, one of them may answer a
/// repeated request, from another moment.
#[test]
fn answers_in_parts_are_not_of_one_moment() {
    for seed in 0..120 {
        let mut setup = Setup::new(2, 2, None);
        setup.faults = Faults { loss: 150, duplication: 150, late: 100 };
        run(seed, setup, 300);
    }
}

/// An absent key has the version of its segment's latest deletion. That may be newer than the key's lock when
/// a request is repeated; the version that is read must still be lower than the lock's.
#[test]
fn what_is_absent_is_older_than_the_lock_on_it() {
    for seed in 0..120 {
        let mut setup = Setup::new(3, 2, Some(64));
        setup.parameters.variant.multi_hop = false;
        // Many keys share a segment.
        setup.segment_slots = 16;
        setup.faults = Faults { loss: 250, ..LOSSY };
        run(seed, setup, 200);
    }
}
