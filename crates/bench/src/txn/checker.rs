//! Collects the input of the checker during a run.

use std::collections::HashMap;

use weft_check::serializable::{self, Access, Fate, History, Options, Report, Transaction};
use weft_sim::MachineId;
use weft_txn::{Key, LOADED, Recorded, TransactionId, Version};

use super::cluster::Cluster;

/// Joins the records of the engines with the answers to the hosts.
pub(super) struct Checker {
    history: History,
    /// Records of attempts whose host has not been answered yet. Nothing depends on the order of the entries.
    recorded: HashMap<TransactionId, Recorded>,
}

pub(super) fn access(&(key, version, ref value): &(Key, Version, Option<Vec<u8>>)) -> Access {
    match value {
        Some(value) => Access::present(key.bits(), version.bits(), value),
        None => Access::absent(key.bits(), version.bits()),
    }
}

pub(super) fn name(id: TransactionId) -> serializable::TransactionId {
    let coordinator = u8::try_from(id.coordinator()).expect("a cluster has at most 16 nodes");
    serializable::TransactionId {
        coordinator: coordinator.into(),
        epoch: id.epoch().0,
        sequence: id.sequence(),
    }
}

impl Checker {
    pub(super) fn new() -> Self {
        Self { history: History::default(), recorded: HashMap::new() }
    }

    /// Takes the new records of the engines and of the hosts.
    pub(super) fn take(&mut self, cluster: &mut Cluster) {
        for node in 0..cluster.nodes().count() {
            let id = MachineId::new(node);
            let records = cluster.world.with_machine(id, |node, _| node.engine_mut().take_records());
            let records = records.into_iter().flatten();
            self.recorded.extend(records.map(|record| (record.id, record)));
        }
        let mut books = cluster.books.borrow_mut();
        let answers = books.answers.as_mut().expect("a run that is checked keeps its answers");
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for attempt in answers.drain(..) {
            let Some(record) = self.recorded.remove(&attempt.id) else {
                assert!(!attempt.committed, "{} has committed and no client has recorded it", attempt.id);
                continue;
            };
            if !attempt.committed {
                continue;
            }
            reads.clear();
            reads.extend(record.reads.iter().map(access));
            writes.clear();
            writes.extend(record.writes.iter().map(access));
            self.history.record(&Transaction {
                id: name(attempt.id),
                started_ps: attempt.called.as_ps(),
                fate: Fate::Committed { ended_ps: attempt.answered.as_ps() },
                reads: &reads,
                writes: &writes,
            });
        }
    }

    /// Checks the history with the final state of each replica.
    pub(super) fn check(mut self, cluster: &Cluster, replication: usize) -> Report {
        let options = Options { initial_version: LOADED.bits(), ..Options::default() };
        let nodes = cluster.nodes().count();
        for (index, node) in cluster.nodes().enumerate() {
            let holds = move |bits| {
                Key::from_bits(bits).is_some_and(|key| (index + nodes - key.shard()) % nodes < replication)
            };
            let mut state = Vec::new();
            node.for_each_object(|key, version, value| {
                if version > LOADED {
                    state.push(Access::present(key.bits(), version.bits(), value));
                }
            });
            self.history.final_state(&format!("node{index}"), holds, state, &options);
        }
        serializable::check(self.history, &options)
    }
}
