//! An example of a result, for tests of code that shows results.

use weft_time::{Duration, Instant};
use weft_workload::{ClientShare, Step, Workload};

use crate::histogram::Recorder;
use crate::{
    Checked, Description, Lane, LeadSpan, Machine, MachineKind, Mark, MarkKind, NeighbourFile, NodeState,
    RunResult, StateSpan, World,
};

/// A result of a run with a fault.
pub fn example(world: World) -> RunResult {
    let at = |us: u64| Instant::ZERO + Duration::from_us(us);
    let mut recorder = Recorder::new(&Step::KINDS, Instant::ZERO, Duration::from_ms(5));
    let mut generator = Workload::parse("ycsb-a").expect("it exists").generator(7, ClientShare::ONLY);
    let mut random = weft_workload::Random::new(1, 9);
    for i in 0..20_000u64 {
        let begin = i * 5;
        if (40_000..52_000).contains(&begin) && !i.is_multiple_of(3) {
            continue;
        }
        let step = generator.step();
        let scale = if world == World::Sim { 6.0 } else { 60.0 };
        let tail = if random.below(500) == 0 { 20.0 } else { 1.0 };
        let latency = Duration::from_ns(
            ((0.5 + random.exponential_gap()) * scale * tail * if step.kind() == 1 { 1_800.0 } else { 700.0 })
                as u64,
        );
        recorder.record(step.kind(), at(begin), at(begin) + latency);
    }
    let simulated = world == World::Sim;
    let machine = if simulated {
        Machine {
            kind: MachineKind::Simulated,
            description: "cost profile fpga (estimate), 100 Gb/s links".into(),
        }
    } else {
        Machine { kind: MachineKind::Real, description: "3 processes over loopback, 2 cores".into() }
    };
    let parameters = [("clients", 16), ("records", 1_000), ("value_bytes", 64)]
        .map(|(name, n)| (name.to_owned(), n.into()));
    let description = Description {
        world,
        nic: "soft".into(),
        nodes: 3,
        workload: "ycsb-a".into(),
        seed: 7,
        replay: format!("weft bench kv --world {world} --nodes 3 --workload ycsb-a --seed 7 --ops 20000"),
        machine,
        parameters: parameters.into_iter().collect(),
    };
    let mut result = RunResult::new(description, &recorder);
    result.checked = Checked::Linearizable;
    result.lost_acknowledged_writes = Some(0);
    result.files = vec![
        NeighbourFile { title: "Packets at node 0".into(), path: "sim/node0-port0.pcapng".into() },
        NeighbourFile { title: "Perfetto trace".into(), path: "sim/trace.perfetto".into() },
    ];
    if simulated {
        result.log_hash = Some("9f86d081884c7d65".into());
        let mark = |ms: u64, kind, node, label: &str| Mark {
            at_ns: ms * 1_000_000,
            kind,
            node,
            label: label.into(),
        };
        result.marks = vec![
            mark(40, MarkKind::Fault, Some(1), "node1 crashes"),
            mark(52, MarkKind::ViewChange, None, "epoch 2"),
            mark(70, MarkKind::Repair, Some(1), "node1 restarts"),
            mark(73, MarkKind::ViewChange, None, "epoch 3"),
            mark(82, MarkKind::ViewChange, None, "epoch 4"),
        ];
        result.faults = [("crash".to_owned(), 1), ("restart".to_owned(), 1)].into();
        let state =
            |from: u64, to: u64, state| StateSpan { from_ns: from * 1_000_000, to_ns: to * 1_000_000, state };
        let lead = |from: u64, to: u64, epoch, led| LeadSpan {
            from_ns: from * 1_000_000,
            to_ns: to * 1_000_000,
            epoch,
            led,
            partitions: 64,
        };
        result.lanes = (0..3)
            .map(|node| {
                let (states, leads) = if node == 1 {
                    (
                        vec![
                            state(0, 40, NodeState::Serving),
                            state(40, 70, NodeState::Down),
                            state(70, 82, NodeState::Joining),
                            state(82, 100, NodeState::Serving),
                        ],
                        vec![lead(0, 40, 1, 21), lead(82, 100, 4, 21)],
                    )
                } else {
                    (
                        vec![state(0, 100, NodeState::Serving)],
                        vec![lead(0, 52, 1, 21), lead(52, 82, 2, 32), lead(82, 100, 4, 21)],
                    )
                };
                Lane { name: format!("node{node}"), states, leads }
            })
            .collect();
    }
    result
}
