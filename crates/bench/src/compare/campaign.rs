//! Fault campaigns of the clients that ship, on machines of their own, at any engine on the nodes that ship.

use weft_harness::{CampaignOf, NodeCampaign, NodeCampaignResult};
use weft_sim::{CostProfile, PlanError};

use super::transactions::REPLICAS;
use super::{
    EngineName, LockContender, LogContender, ObjectContender, StoreContender, TransactionsContender, Unfit,
};

/// Bytes of a value, where an engine has values.
const VALUE_BYTES: usize = 64;

/// Runs of a campaign.
#[derive(Clone, Debug)]
pub struct ClientCampaign {
    /// The engine whose clients these are.
    pub engine: EngineName,
    /// Parameters of all campaigns on nodes.
    pub runs: NodeCampaign,
}

impl ClientCampaign {
    /// Refuses a cluster that the engine cannot run in.
    ///
    /// # Errors
    /// What the engine lacks.
    pub fn check(engine: EngineName, nodes: usize, profile: &CostProfile) -> Result<(), Unfit> {
        // With more, a shard would be gone before all nodes are.
        if engine == EngineName::Txn && nodes > REPLICAS {
            return engine.unfit(format!("has {REPLICAS} replicas here"), "give fewer --nodes");
        }
        engine.check(nodes, profile)
    }

    /// Runs it; `progress` is told how many seeds are done. `replay` names the command that repeats one seed.
    ///
    /// # Errors
    /// The given plan does not fit the cluster.
    pub fn run(
        &self,
        replay: impl Fn(u64) -> String,
        progress: impl FnMut(u64),
    ) -> Result<NodeCampaignResult, PlanError> {
        let (runs, value_bytes) = (&self.runs, VALUE_BYTES);
        match self.engine {
            EngineName::Kv => runs.run(&CampaignOf(StoreContender { value_bytes }), replay, progress),
            EngineName::Smr => runs.run(&CampaignOf(LogContender { value_bytes }), replay, progress),
            EngineName::Rdt => runs.run(&CampaignOf(ObjectContender), replay, progress),
            EngineName::Txn => runs.run(&CampaignOf(TransactionsContender), replay, progress),
            EngineName::Lock => runs.run(&CampaignOf(LockContender), replay, progress),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_sim::{FaultKinds, NetworkProfile};

    use super::*;

    #[test]
    fn clients_that_ship_are_told_the_truth_whatever_fails() {
        for (engine, seed) in [(EngineName::Smr, 1), (EngineName::Rdt, 2), (EngineName::Lock, 2)] {
            let (nodes, profile) = (3, CostProfile::FPGA);
            ClientCampaign::check(engine, nodes, &profile).unwrap();
            let runs = NodeCampaign {
                nodes,
                seeds: seed..=seed,
                network: NetworkProfile::SWITCH,
                profile,
                kinds: FaultKinds::ALL,
                plan: None,
                #[cfg(feature = "planted-bugs")]
                node_bug: None,
            };
            let result = ClientCampaign { engine, runs }.run(|seed| seed.to_string(), |_| {}).unwrap();
            assert_eq!(result.findings.violations, [], "{engine}");
            assert!(result.counts["operations"] > 500 && result.faults["crash"] > 0, "{engine}: {result:?}");
        }
    }
}
