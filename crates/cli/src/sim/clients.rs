//! `weft sim clients`: fault campaigns of the client library that ships, against any engine.

use clap::Args;
use weft_bench::compare::{CAMPAIGN_VALUE_BYTES, EngineName};
use weft_harness::NodeCampaign;
use weft_sim::CostProfile;

use super::nodes::{CampaignRun, Done, EngineOptions, Replay};
use crate::failure::Failure;
use crate::replay::CommandLine;

/// Checks of a run.
const DEFINITIONS: &str = "\
Eight clients on a machine of their own call an engine through the network, with the client's half, the nodes and \
the membership service that ship; half of their calls are reads. kv: linearizable. smr: every entry has one place, \
whoever reads it, and appends stand in the order of real time. rdt: all replicas of a counter end with what was \
acknowledged. txn: each balance is what was deposited. lock: tokens grow. After the last fault every node must \
serve again, and every call must end.";

/// The engine whose clients these are.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ClientsOptions {
    /// The engine: kv, smr, rdt, txn or lock
    #[arg(long, value_name = "ENGINE")]
    engine: EngineName,
}

impl EngineOptions for ClientsOptions {
    const KIND: &'static str = "sim clients";

    fn check(&self, nodes: usize, profile: &CostProfile) -> Result<(), Failure> {
        Ok(self.engine.check_campaign(nodes, profile)?)
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        line.option("--engine", self.engine)
    }

    fn run(&self, runs: &NodeCampaign, replay: Replay<'_>, progress: Done<'_>) -> CampaignRun {
        self.engine.contender(CAMPAIGN_VALUE_BYTES).campaign(runs, replay, progress)
    }
}
