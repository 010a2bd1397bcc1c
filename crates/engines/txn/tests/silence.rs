//! A member falls silent: the engine says whose answers it lacks, for the alarms of a node.

use crate::network::workload::sum_of_shard;
use crate::network::{Network, Setup, node};
use weft_waist::{Engine, EngineState};

/// The nodes that the first node waits for, with its marks of their progress.
fn lacks(network: &Network) -> Vec<(usize, u64)> {
    let engine = &network.nodes[0].as_ref().expect("it lives").engine;
    (0..3).filter_map(|peer| Some((peer, engine.waits_for(node(peer))?))).collect()
}

#[test]
fn an_engine_says_whose_answer_it_lacks() {
    let mut network = Network::new(1, Setup::new(3, 2, Some(64)));
    let mut marks = Vec::new();
    for _ in 0..2 {
        network.cut_off = Some(1);
        network.call_now(0, sum_of_shard(1));
        network.settle(1_000);
        let [(1, mark)] = lacks(&network)[..] else { panic!("{:?}", lacks(&network)) };
        network.settle(1_000);
        assert_eq!(lacks(&network), [(1, mark)], "no progress");
        marks.push(mark);
        network.cut_off = None;
        assert!(network.settle(100_000), "{}", network.describe());
        assert!(lacks(&network).is_empty(), "{:?}", lacks(&network));
    }
    assert_eq!(network.finished.len(), 2);
    assert!(marks[0] < marks[1], "the first transaction has ended between");

    // The recovery of a new view needs the report of the silent member, which has not heard of the view.
    network.cut_off = Some(1);
    network.crash(2);
    network.settle(1_000);
    let [(1, mark)] = lacks(&network)[..] else { panic!("{:?}", lacks(&network)) };
    assert!(mark > marks[1] && mark >> 40 == 2, "a mark of the second epoch: {mark:x}");
    network.cut_off = None;
    network.configure(1);
    assert!(network.settle(100_000), "{}", network.describe());
    assert!(lacks(&network).is_empty(), "{:?}", lacks(&network));
    assert!(network.alive().all(|(_, node)| node.engine.status().state == EngineState::Full));
}
