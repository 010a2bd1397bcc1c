//! Logs that hold little more than the records of one transaction. Attempts that hold room in one log and
//! find none in another must not wait for each other for ever.

use crate::network::workload::{ACCOUNTS, BALANCE, long};
use crate::network::{Faults, Network, Setup, before_events};
use weft_txn::{Fault, Outcome, Variant};

/// All nodes replicate all shards, and logs have the smallest size possible.
fn small(entries: Option<u32>) -> Setup {
    let mut setup = Setup::new(3, 3, entries);
    setup.parameters.log_bytes = 4 * setup.parameters.message_bytes;
    setup
}

/// Runs until all is quiet. The first result is the number of withdrawn transactions.
fn run(seed: u64, mut setup: Setup, calls: u64, crash: Option<(usize, u64)>) -> (u64, u64) {
    if seed % 4 == 3 {
        setup.faults = Faults { loss: 30, duplication: 30, late: 50 };
    }
    let mut network = Network::new(seed, setup);
    network.crash_at = crash;
    network.start(8, calls);
    assert!(network.settle(2_000_000), "seed {seed}, {crash:?}: no end{}", network.describe());
    let report = network.check();
    assert!(!report.is_violated(), "seed {seed}, {crash:?}: {report:#?}");
    let nodes = setup.parameters.nodes as u64;
    assert_eq!(network.money(), nodes * ACCOUNTS * BALANCE, "seed {seed}, {crash:?}");
    (network.counter("withdrawn"), network.events)
}

#[test]
fn transactions_do_not_wait_for_room_in_a_circle() {
    for multi_hop in [true, false] {
        let mut withdrawn = 0;
        for seed in 0..12 {
            let mut setup = small([None, Some(64)][seed as usize % 2]);
            setup.parameters.variant.multi_hop = multi_hop;
            withdrawn += run(seed, setup, 300, None).0;
        }
        assert!(withdrawn > 0, "there was room for all");
    }
}

/// The designs that Weft is compared with report the outcome before the primaries have the values, and cannot
/// withdraw records that were written by RDMA WRITE. They must not deadlock either.
#[test]
fn rivals_do_not_wait_for_room_in_a_circle() {
    for variant in [Variant::FASST, Variant::DRTMH, Variant::DRTMH_NO_CACHE, Variant::DRTMR] {
        for seed in 0..8 {
            let mut setup = small(None);
            setup.linked = variant != Variant::FASST || seed % 2 == 0;
            setup.parameters.variant = variant;
            run(seed, setup, 300, None);
        }
    }
}

/// Records written by RDMA WRITE go to rings, which are much larger than these logs. So many go around them that a
/// coordinator must learn what its backups have applied.
#[test]
fn rings_are_filled_again_and_again() {
    let mut setup = Setup::new(3, 3, None);
    (setup.parameters.variant, setup.linked) = (Variant::DRTMH, true);
    run(0, setup, 20_000, None);
}

/// An attempt that restarts takes another slot of the window, and must wait until one is free.
#[test]
fn a_coordinator_that_starts_over_finds_a_window_full() {
    for seed in 0..8 {
        let mut setup = Setup::new(3, 3, None);
        (setup.parameters.variant, setup.linked) = (Variant::DRTMR, true);
        setup.parameters.window = 8;
        run(seed, setup, 300, None);
    }
}

/// A transaction that no log can hold is refused at once, because there would never be room for it.
#[test]
fn what_no_log_can_hold_is_refused_at_once() {
    for variant in
        [Variant::XENIC, Variant { multi_hop: false, ..Variant::XENIC }, Variant::FASST, Variant::DRTMH]
    {
        let mut setup = small(None);
        setup.linked = variant == Variant::DRTMH;
        setup.parameters.variant = variant;
        for (keys, outcome) in
            [(8, Outcome::Faulty(Fault::TooLarge)), (3, Outcome::Committed { answer: Vec::new() })]
        {
            let mut network = Network::new(1, setup);
            network.call(0, long(1, keys));
            network.start(0, 0);
            assert!(network.settle(100_000), "{variant:?}");
            assert_eq!(network.finished, [(0, outcome)], "{variant:?}");
            assert_eq!(network.counter("full") + network.counter("log_full"), 0, "{variant:?}");
            assert!(!network.check().is_violated(), "{variant:?}");
        }
    }
}

#[test]
fn a_node_dies_while_transactions_are_withdrawn() {
    let mut withdrawn = 0;
    for entries in [None, Some(64)] {
        before_events(31, 3, |victim, event| {
            let (count, events) = run(50_000 + event, small(entries), 80, Some((victim, event)));
            withdrawn += count;
            events >= event
        });
    }
    assert!(withdrawn > 0, "there was room for all");
}
