//! Random fault schedules for the key-value engine in gates, alone and in a cluster with soft engines. Under
//! all network faults, the history of the clients is linearizable, no write is lost or applied twice, and the
//! cluster recovers when the faults end.

use crate::kv_network as network;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use network::{Faults, Network, Replica};
use weft_gateware::{Latency, Pressure, RtlKv, RtlKvConfig, engine_package};
use weft_kv::{Kv, Parameters};
use weft_time::{Duration, Instant};
use weft_waist::{Effect, Engine, EngineState, EngineStatus, Event, Io, Memory};

thread_local! {
    /// The planted bug of engines in gates.
    static PLANTED: Cell<u64> = const { Cell::new(engine_package::BUG_NONE) };
}

/// The engine in gates, and the set of its armed timers.
struct Gates {
    engine: RtlKv,
    timers: BTreeSet<u32>,
}

impl Gates {
    fn start(node: usize, parameters: &Parameters) -> Self {
        let engine = RtlKv::new(RtlKvConfig {
            buckets: parameters.buckets,
            retransmit: parameters.retransmit,
            retransmit_max: parameters.retransmit_max,
            latency: Latency { read_cycles: 20 + 30 * node as u64, write_cycles: 10 + 30 * node as u64 },
            pressure: (node % 2 == 1).then_some(Pressure { seed: node as u64, stalls_of_256: 60 }),
            power_on_seed: 1 + node as u32,
            planted_bug: PLANTED.get(),
            ..RtlKvConfig::default()
        });
        Self { engine, timers: BTreeSet::new() }
    }
}

impl Engine for Gates {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        if let Event::Timer { tag } = event {
            self.timers.remove(&tag);
        }
        self.engine.handle(now, event, io);
        self.timers.extend(io.effects.iter().filter_map(|effect| match effect {
            Effect::SetTimer { tag, .. } => Some(*tag),
            _ => None,
        }));
    }

    fn status(&self) -> EngineStatus {
        self.engine.status()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.engine.counters()
    }
}

impl Replica for Gates {
    fn start(node: usize, parameters: &Parameters) -> Self {
        Self::start(node, parameters)
    }

    fn is_settled(&self) -> bool {
        // A timer is armed while an entry is undecided and during view changes.
        self.status().state == EngineState::Full && self.timers.is_empty()
    }

    fn digest(&self, _: &Memory) -> u64 {
        // The contents of the table are only visible in reads.
        0
    }
}

/// A node with the soft engine or the one in gates.
#[expect(clippy::large_enum_variant, reason = "there are few, and they live long")]
enum Either {
    Soft(Kv),
    Gates(Gates),
}

impl Engine for Either {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match self {
            Self::Soft(engine) => engine.handle(now, event, io),
            Self::Gates(engine) => engine.handle(now, event, io),
        }
    }

    fn status(&self) -> EngineStatus {
        match self {
            Self::Soft(engine) => engine.status(),
            Self::Gates(engine) => engine.status(),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Soft(engine) => engine.counters(),
            Self::Gates(engine) => engine.counters(),
        }
    }
}

impl Replica for Either {
    fn start(node: usize, parameters: &Parameters) -> Self {
        if node.is_multiple_of(2) {
            Self::Gates(Gates::start(node, parameters))
        } else {
            Self::Soft(Kv::new(parameters.clone()))
        }
    }

    fn is_settled(&self) -> bool {
        match self {
            Self::Soft(engine) => engine.is_settled(),
            Self::Gates(engine) => engine.is_settled(),
        }
    }

    fn digest(&self, _: &Memory) -> u64 {
        0
    }
}

fn parameters() -> Parameters {
    Parameters {
        retransmit: Duration::from_us(200),
        retransmit_max: Duration::from_ms(2),
        ..Parameters::gateware(256)
    }
}

fn schedules<E: Replica>(seeds: std::ops::Range<u64>, nodes: usize, faults: Faults) {
    for seed in seeds {
        println!("seed {seed}, {nodes} nodes");
        let mut network = Network::<E>::new(seed, nodes, 6, 150, faults, parameters());
        network.run();
    }
}

#[test]
fn gates_without_faults() {
    schedules::<Gates>(0..2, 3, Faults::NONE);
}

#[test]
fn gates_with_loss_duplication_and_reordering() {
    schedules::<Gates>(100..103, 3, Faults { crashes: false, partitions: false, ..Faults::ALL });
}

#[test]
fn gates_with_all_faults() {
    schedules::<Gates>(1000..1004, 3, Faults::ALL);
}

#[test]
fn gates_and_soft_engines_in_one_cluster() {
    schedules::<Either>(2000..2003, 3, Faults::ALL);
    schedules::<Either>(2100..2102, 5, Faults::ALL);
}

/// The schedules would prove nothing if they missed the known bugs.
#[test]
fn every_bug_that_is_planted_in_gates_is_caught() {
    let bugs = [
        ("acknowledge before replicating", engine_package::BUG_ACKNOWLEDGE_BEFORE_REPLICATING),
        ("stale read at a follower", engine_package::BUG_STALE_READ_AT_FOLLOWER),
        ("lost update on fail-over", engine_package::BUG_LOST_UPDATE_ON_FAILOVER),
        ("duplicate apply", engine_package::BUG_DUPLICATE_APPLY),
        ("epoch not checked", engine_package::BUG_EPOCH_NOT_CHECKED),
    ];
    for (name, bug) in bugs {
        PLANTED.set(bug);
        let caught = (1..60).find(|&seed| {
            let run = || Network::<Gates>::new(seed, 3, 6, 150, Faults::ALL, parameters()).run();
            catch_unwind(AssertUnwindSafe(run)).is_err()
        });
        println!("{name}: caught by seed {caught:?}");
        assert!(caught.is_some(), "{name} is not caught");
    }
}

/// A long campaign: `cargo test -p weft-conformance kv_schedules -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign() {
    schedules::<Gates>(10_000..10_060, 3, Faults::ALL);
    schedules::<Either>(20_000..20_040, 5, Faults::ALL);
}
