//! The lines of a log, which peers READ, are correct after every event, also after the log got a snapshot of the
//! state.

use crate::network::cluster::{Cluster, Mischief, small};
use crate::network::{Faults, Network};
use weft_smr::log::Log;
use weft_smr::slot::{Slot, word};
use weft_smr::{Delivery, Parameters, Pulse, Role};
use weft_time::Duration;

const NODES: usize = 3;

fn parameters() -> Parameters {
    small(NODES, Delivery::WriteThrough).group
}

/// Checks that the ring holds, completely, all entries that the log's line states as decided.
fn what_is_decided_is_there(network: &Network<Log>) {
    let Parameters { slots, slot_bytes, .. } = parameters();
    let base = Pulse::memory_bytes(&small(NODES, Delivery::WriteThrough).pulse);
    for (index, node) in network.nodes.iter().enumerate() {
        let Some(node) = node else { continue };
        let log = &node.memory.image()[base..];
        // Words of the lines as `layout.rs` defines them: decided, applied, zeroed, the gap.
        let decided = word(log, 8).max(word(log, 64));
        let zeroed = word(log, 16) >> 3;
        let (gap_from, gap_to) = (word(log, 48), word(log, 32));
        for entry in (zeroed..decided).filter(|entry| !(gap_from..gap_to).contains(entry)) {
            let at = 128 + (entry % slots) as usize * slot_bytes;
            let slot = Slot::parse(&log[at..at + slot_bytes], entry);
            assert!(
                slot.is_some(),
                "node {index} lacks entry {entry} at {}: decided {decided} zeroed {zeroed} gap {gap_from}..{gap_to} {:x?}",
                network.now,
                &log[at..at + 64]
            );
        }
    }
}

#[test]
fn what_is_decided_stands_in_the_log_after_every_event() {
    for seed in 0..16 {
        let mut cluster = Cluster::new(seed, small(NODES, Delivery::WriteThrough));
        cluster.network.faults = Faults { loss: 30, duplication: 50, late: 30 };
        cluster.inspect = Box::new(what_is_decided_is_there);
        let crash = if seed.is_multiple_of(2) { 0 } else { 60 };
        cluster.run_with(Mischief { crash, cut: 80, stick: 60 }, Duration::from_ms(3));
        cluster.heal();
        assert!(cluster.counters()["recycled"] > 0);
    }
}

/// Checks which free slots are zero: all but those of the last freed windows that the log's line counts as dirty,
/// and those where a leader may have written undecided entries. A new leader zeroes only these.
fn what_is_clean_is_zero(network: &Network<Log>, parameters: &Parameters, base: usize, decided: &mut u64) {
    let &Parameters { slots, slot_bytes, window, .. } = parameters;
    let known = network.nodes.iter().flatten().map(|node| node.engine.group().decided());
    *decided = known.max().unwrap_or(0).max(*decided);
    for (index, node) in network.nodes.iter().enumerate() {
        let Some(node) = node else { continue };
        let log = &node.memory.image()[base..];
        let (below, dirty) = (word(log, 16) >> 3, word(log, 16) & 7);
        let dirty = if dirty == 7 { slots } else { slots.min(dirty * window) };
        for entry in *decided + window..below + slots - dirty {
            let at = 128 + (entry % slots) as usize * slot_bytes;
            assert!(
                log[at..at + slot_bytes].iter().all(|byte| *byte == 0),
                "node {index} has something in the slot of entry {entry} at {}: decided {decided}, zeroed below {below}, {dirty} slots not",
                network.now
            );
        }
    }
}

#[test]
fn what_is_said_to_be_clean_is_zero_after_every_event() {
    let mut sums = std::collections::BTreeMap::new();
    for seed in 0..16_u64 {
        let nodes = if seed.is_multiple_of(4) { 5 } else { 3 };
        let mut parameters = small(nodes, Delivery::WriteThrough);
        parameters.group.slots = [16, 32, 64][seed as usize % 3];
        let mut cluster = Cluster::new(seed, parameters.clone());
        cluster.network.faults = Faults { loss: 30, duplication: 50, late: 30 };
        let (base, mut decided) = (Pulse::memory_bytes(&parameters.pulse), 0);
        cluster.inspect = Box::new(move |network| {
            what_is_clean_is_zero(network, &parameters.group, base, &mut decided);
        });
        let crash = if seed.is_multiple_of(2) { 0 } else { 60 };
        cluster.run_with(Mischief { crash, cut: 80, stick: 60 }, Duration::from_ms(3));
        cluster.heal();
        for (name, count) in cluster.counters() {
            *sums.entry(name).or_insert(0) += count;
        }
    }
    for seen in ["recycled", "leaderships", "synced", "snapshots_taken"] {
        assert!(sums[seen] > 16, "{sums:?}");
    }
}

fn until(cluster: &mut Cluster, condition: impl Fn(&Cluster) -> bool) {
    for _ in 0..3_000 {
        if condition(cluster) {
            return;
        }
        cluster.run(Duration::from_us(1));
    }
    panic!("it does not come to that: {}", cluster.describe());
}

/// A leader is partitioned with entries that only it has, while the others decide different entries at these
/// indices. Then two nodes restart with a snapshot of the state, so that their logs lack the decided entries, and
/// the two nodes that have them crash. The former leader must not take its own entries for decided.
#[test]
fn a_replica_that_has_only_a_copy_outvotes_no_other() {
    let mut parameters = small(5, Delivery::WriteThrough);
    parameters.group.slots = 64;
    let mut cluster = Cluster::new(0, parameters);
    let cut = |cluster: &mut Cluster, is_cut: bool| {
        for other in 1..5 {
            cluster.network.cut.insert((0, other), is_cut);
            cluster.network.cut.insert((other, 0), is_cut);
        }
    };
    let applied = |cluster: &Cluster, node: usize| cluster.state(node).expect("it runs").group().applied();
    // Run until a part of the ring was reused, so that no node can be given all entries.
    until(&mut cluster, |cluster| cluster.counters()["recycled"] > 0);
    cluster.asking = false;
    cluster.run(Duration::from_us(40));
    let before = applied(&cluster, 0);
    assert!((0..5).all(|node| applied(&cluster, node) == before), "nothing is under way");
    cut(&mut cluster, true);
    for sequence in 0..4 {
        cluster.append(0, 100, sequence);
    }
    until(&mut cluster, |cluster| cluster.state(1).unwrap().group().is_leading());
    cluster.append(1, 101, 0);
    until(&mut cluster, |cluster| (1..5).all(|node| applied(cluster, node) > before));
    for (copies, node) in [(1, 3), (2, 4)] {
        cluster.crash(node);
        cluster.restart(node);
        until(&mut cluster, |cluster| cluster.counters()["snapshots_taken"] == copies);
        until(&mut cluster, |cluster| cluster.state(node).unwrap().group().takes_part());
    }
    cluster.crash(1);
    cluster.crash(2);
    // The former leader gets no answers and pauses its candidacy; then it tries again.
    until(&mut cluster, |cluster| cluster.state(0).unwrap().group().role() == Role::Follower);
    until(&mut cluster, |cluster| cluster.state(0).unwrap().group().role() == Role::Requesting);
    cut(&mut cluster, false);
    cluster.asking = true;
    cluster.run(Duration::from_ms(1));
    assert!(applied(&cluster, 0) > before, "{}", cluster.describe());
    cluster.restart(1);
    cluster.restart(2);
    cluster.heal();
}
