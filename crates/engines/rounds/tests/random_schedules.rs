//! Random schedules of faults. Whatever the faulty nodes and their links do, all nodes report one order, and every
//! proposal of a correct node is decided in time; when the faults end, all nodes take part again.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::network::{Faults, Network, small};
use weft_rounds::message::{Call, Period};
use weft_rounds::{Members, Parameters, Quorums};
use weft_time::Duration;

const LENGTH: Duration = Duration::from_ms(2);

/// Runs one schedule with the most faulty nodes that are tolerated, and prints its seed for a replay.
fn one_schedule(seed: u64, nodes: usize, faults: Faults, parameters: Parameters) -> Network {
    println!("seed {seed}, {nodes} nodes");
    let mut network = Network::new(seed, nodes, faults, LENGTH, parameters);
    network.run();
    network
}

fn random_schedules(
    seeds: Range<u64>,
    nodes: usize,
    faults: Faults,
    window: u64,
) -> BTreeMap<&'static str, u64> {
    let mut sums = BTreeMap::new();
    let mut slowest = Duration::ZERO;
    for seed in seeds {
        let network = one_schedule(seed, nodes, faults, small(window));
        for (name, count) in network.counters() {
            *sums.entry(name).or_default() += count;
        }
        *sums.entry("crashes").or_default() += network.crashes;
        *sums.entry("joins").or_default() += network.joins;
        *sums.entry("leaves").or_default() += network.leaves;
        *sums.entry("lost").or_default() += network.lost;
        slowest = slowest.max(network.slowest);
    }
    println!("{sums:#?} slowest {slowest}");
    sums
}

/// The last nodes, as many as are tolerated to fail.
fn faulty(nodes: usize) -> Members {
    Members::first(nodes).difference(Members::first(nodes - Quorums::tolerated(nodes)))
}

#[test]
fn without_faults() {
    for nodes in [1, 2, 3, 5, 8] {
        let sums = random_schedules(0..2, nodes, Faults::NONE, 8);
        for name in ["late", "far_ahead", "unheard", "fenced", "epochs", "dropped_contradiction"] {
            assert_eq!(sums[name], 0, "{name}");
        }
    }
}

#[test]
fn all_faults_on_three_nodes() {
    let sums = random_schedules(1000..1040, 3, Faults::all(faulty(3)), 4);
    for name in ["late", "crashes", "joins", "epochs", "repeated", "unheard"] {
        assert!(sums[name] > 0, "{name} never happened");
    }
    assert_eq!(sums["dropped_contradiction"], 0);
}

#[test]
fn all_faults_on_five_nodes() {
    let sums = random_schedules(2000..2040, 5, Faults::all(faulty(5)), 4);
    assert_eq!(sums["dropped_contradiction"], 0);
}

#[test]
fn all_faults_on_seven_nodes() {
    random_schedules(3000..3010, 7, Faults::all(faulty(7)), 8);
}

/// Every node and every link is faulty: the only guarantee left is that no two nodes report different decisions.
#[test]
fn beyond_the_assumptions_nodes_stop_and_never_disagree() {
    let mut fences = 0;
    for (seed, nodes) in (5000..5060).zip([2, 3, 4, 5, 7].into_iter().cycle()) {
        println!("seed {seed}, {nodes} nodes");
        let faults = Faults {
            omission: 20 + seed % 7 * 30,
            crashes: seed % 2 == 0,
            ..Faults::all(Members::first(nodes))
        };
        let mut network: Network = Network::new(seed, nodes, faults, LENGTH, small(4 + seed % 2 * 4));
        network.run_broken();
        fences += network.fences;
    }
    assert!(fences > 0, "nobody ever stopped");
}

/// Clocks differ by up to 200 parts per million, and one-way delays are 1.384 to 1.412 us.
fn with_period(nanoseconds: u64, faulty: Members) -> Network {
    let parameters = Parameters { period: Duration::from_ns(nanoseconds), ..small(8) };
    let mut network = Network::new(11, 5, Faults { faulty, ..Faults::NONE }, LENGTH, parameters);
    if faulty.is_empty() {
        network.run()
    } else {
        network.run_broken()
    }
    network
}

#[test]
fn a_period_just_above_the_longest_way_is_stable() {
    let network = with_period(1_480, Members::EMPTY);
    let counters = network.counters();
    assert!(counters["trimmed"] > 100, "slow clocks follow: {counters:?}");
    for name in ["late", "far_ahead", "unheard", "fenced"] {
        assert_eq!(counters[name], 0, "{name}");
    }
}

#[test]
fn a_period_below_the_longest_way_stops_nodes_and_nobody_disagrees() {
    let network = with_period(1_396, Members::first(5));
    assert!(network.counters()["late"] > 0 && network.fences > 0, "{:?}", network.counters());
}

/// A long campaign: `cargo test --release -p weft-rounds random_schedules -- --ignored`.
#[test]
#[ignore = "takes a minute"]
fn a_long_campaign() {
    random_schedules(10_000..10_300, 3, Faults::all(faulty(3)), 4);
    random_schedules(20_000..20_200, 4, Faults::all(faulty(4)), 4);
    random_schedules(30_000..30_400, 5, Faults::all(faulty(5)), 4);
    random_schedules(40_000..40_100, 5, Faults::all(faulty(5)), 8);
    random_schedules(50_000..50_100, 7, Faults::all(faulty(7)), 8);
    random_schedules(60_000..60_050, 8, Faults { omission: 150, ..Faults::all(faulty(8)) }, 8);
}

#[test]
fn one_seed_is_one_run() {
    let runs = [0, 1].map(|_| {
        let network = one_schedule(7, 3, Faults::all(faulty(3)), small(4));
        (network.events, network.counters())
    });
    assert_eq!(runs[0], runs[1]);
}

/// An operator lengthens the period, measures when messages arrive, and shortens the period to what they need.
#[test]
fn a_period_is_chosen_from_what_is_measured() {
    let mut network =
        Network::<weft_rounds::Rounds<weft_rounds::Ckc>>::new(9, 3, Faults::NONE, LENGTH, small(8));
    let rounds = |network: &mut Network| {
        let before = network.counters()["rounds"];
        network.run_for(Duration::from_us(500));
        (network.counters()["rounds"] - before) / 3
    };
    assert!((249..=252).contains(&rounds(&mut network)), "2 us each");
    for node in 0..3 {
        network.call(node, Call::SetPeriod, &Period(1_000).encode());
    }
    rounds(&mut network);
    let all = rounds(&mut network);
    assert!((124..=127).contains(&all), "4 us each: {all}");
    for node in 0..3 {
        network.call(node, Call::Timing, &[]);
    }
    let timings: Vec<_> = network.timings.iter().map(|timings| timings.unwrap()).collect();
    for (node, timings) in timings.iter().enumerate() {
        assert_eq!((timings.period, timings.one_way, timings.node), (1_000, 346, node));
        assert_eq!((timings.missed, timings.decision_quorum), (Members::EMPTY, 2));
        for peer in 0..3 {
            // One-way delays differ by 28 ns, and clocks of 100 ppm by hardly more than that in a round.
            let lag = timings.lags[peer];
            assert!(lag.is_some_and(|lag| lag.abs() < 30) == (peer != node), "{timings:?}");
        }
    }
    // The one-way delay of 346 cycles, the largest lag, and a margin: no message is late.
    let period = 346 + timings.iter().map(|timings| timings.largest_lag).max().unwrap() + 8;
    assert!(period < 400, "{timings:?}");
    for node in 0..3 {
        network.call(node, Call::SetPeriod, &Period(period).encode());
    }
    network.run();
    let counters = network.counters();
    assert_eq!((counters["late"], counters["unheard"]), (0, 0), "{counters:?}");
}
