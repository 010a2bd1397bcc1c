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
Eight clients on one separate machine call an engine through the network. The client library, the nodes and the \
membership service are those of `weft-client`, `weft start` and `weft membership`; half of the calls are reads. \
Checks: kv, the history is linearizable; smr, each entry has the same index for every reader, and appends are ordered \
in real time; rdt, every replica of a counter ends with all acknowledged calls; txn, each balance is the sum of its \
deposits; lock, tokens grow. After the last fault every node must serve again, and every call must end.";

/// The engine whose clients these are.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ClientsOptions {
    /// Engine that the clients call: kv, smr, rdt, txn or lock
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
