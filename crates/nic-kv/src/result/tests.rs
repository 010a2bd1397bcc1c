use super::*;

/// A result with data in every part.
pub(in super::super) fn example() -> NicKvResult {
    let bench = NicKvBench {
        value_bytes: 1_024,
        quick: true,
        seed: 7,
        parts: Vec::new(),
        replay: "weft bench nic-kv --seed 7".into(),
    };
    let passage = |receive_cycles, memory_cycles, transmit_cycles| Passage {
        receive_cycles,
        memory_cycles,
        transmit_cycles,
    };
    let write = |replica| LeaderWrite {
        leader: passage(20, 0, 0),
        copies_cycles: 0,
        replica,
        acknowledge: passage(18, 0, 0),
        whole_cycles: 90,
    };
    let measured = Saturation {
        outstanding: 1,
        operations: 10,
        measured_ns: 10_000,
        refused: 0,
        repeated: 0,
        operations_per_s: 1e6,
        wire_bytes_out_per_operation: 1_154.0,
        link_out_share: 0.09,
        p50_ns: 900,
        p99_ns: 1_000,
    };
    let load = SaturationRun::new("gets", Operation::Get, 1, 1_024, 1e7, measured);
    let mut result = NicKvResult::new(&bench);
    result.sizes = vec![SizeRun {
        bytes: 1_024,
        read: passage(13, 94, 9),
        write: write(passage(22, 0, 0)),
        write_after_memory: write(passage(12, 96, 9)),
    }];
    result.hbm = vec![HbmAccess {
        bytes: 128,
        write_cycles: 120,
        write_memory_cycles: 96,
        read_cycles: 130,
        read_memory_cycles: 94,
    }];
    result.saturation = vec![load.clone()];
    result.curve = vec![load];
    result.nodes = vec![NodesRun { nodes: 2, write: write(passage(22, 0, 0)), saturation: None }];
    result.loss = vec![LossRun {
        loss_per_link: 0.01,
        frames_lost: 3,
        operations: 100,
        throughput_ops_per_s: 1e6,
        p50_ns: 3_000,
        p99_ns: 100_000,
        checked: Checked::Linearizable,
        lost_acknowledged_writes: 0,
    }];
    let placed = |engine_on, get_p50_ns, put_p50_ns| Placed {
        engine_on,
        get_p50_ns,
        put_p50_ns,
        operations: 10,
        checked: Checked::Linearizable,
    };
    result.software = vec![placed("nic", 1_500, 3_000), placed("host", 9_000, 20_000)];
    result.conclude();
    result
}

#[test]
fn the_promised_keys_are_there() {
    let json: serde_json::Value = serde_json::from_str(&weft_results::to_json(&example())).unwrap();
    assert_eq!(
        (&json["bench"], &json["nic"], &json["cycle_ns"]),
        (&"nic-kv".into(), &"rtl".into(), &4.into())
    );
    assert_eq!(json["checked"], "linearizable");
    // MAC: 71 + 154 ns; replication: 22 cycles; memory: 376 ns.
    assert_eq!(json["read_ns"]["total"], 71 + 154 + 88 + 376);
    assert_eq!(json["read_ns"]["paper"]["total"], 873);
    assert_eq!(json["write_ns"]["total"], 188 + 88);
    assert_eq!(json["write_ns"]["after_memory"]["total"], 188 + 84 + 384);
    assert_eq!(json["write_ns"]["paper"]["total"], 856);
    let without = &json["leader_write_without_network_ns"];
    assert_eq!(without["total"], 3 * 188 + (20 + 22 + 18) * 4);
    assert_eq!(without["after_memory"]["total"], 3 * 188 + (20 + 21 + 18) * 4 + 384);
    assert_eq!(without["paper"]["total"], 1_776);
    let with = &json["leader_write_with_network_ns"];
    assert_eq!(with["total"], without["total"].as_u64().unwrap() + 576);
    assert_eq!((&with["paper"]["total"], &with["paper_network_column"]), (&2_352.into(), &952.into()));
    assert_eq!(
        (&json["replication_path_ns"]["read"], &json["replication_path_ns"]["write"]),
        (&88.into(), &88.into())
    );
    for number in ["5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "5.11", "5.13"] {
        let rows = json["tables"][number]["rows"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["paper"].as_f64().is_some()), "{number}");
    }
    for key in ["saturation", "curve", "nodes", "loss", "software", "sizes", "hbm"] {
        assert!(!json[key].as_array().unwrap().is_empty(), "{key}");
    }
}

#[test]
fn the_papers_column_adds_up() {
    let paper = LeaderWriteParts::paper();
    let replication = paper.replication_leader + paper.replication_replica + paper.replication_acknowledge;
    assert_eq!(paper.mac + replication + paper.memory, paper.total);
    assert_eq!(paper.with_network().total, 2_352);
}

#[test]
fn people_see_both_columns() {
    let text = example().to_text();
    for expected in ["table 5.7", "table 5.13", "1,776", "after memory", "not measured", "losses"] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("table 5.3")).count(), 1);
    // The row of 128 bytes: 73 ns for the MAC, 24 cycles for the gateware, 96 for the memory; then the
    // paper's figure.
    let line = text.lines().find(|line| line.trim_start().starts_with("128 ")).expect("a line of table 5.3");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>()[..3], ["128", "553", "261"]);
}

#[test]
fn a_lost_write_is_a_violation() {
    let mut result = example();
    result.loss[0].lost_acknowledged_writes = 1;
    result.conclude();
    assert_eq!(result.checked, Checked::NotLinearizable);
}
