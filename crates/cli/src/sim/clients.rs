//! `weft sim clients`: fault campaigns of the clients that ship, at any engine.

use clap::Args;
use weft_bench::compare::{ClientCampaign, EngineName};
use weft_harness::NodeCampaignResult;

use super::nodes::NodeRuns;
use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::Task;

const NAME: &str = "weft sim clients";

/// Checks of a run.
const DEFINITIONS: &str = "\
Eight clients on a machine of their own call an engine through the network, with the client's half, the nodes and \
the membership service that ship; half of their calls are reads. kv: linearizable. smr: every entry has one place, \
whoever reads it, and appends stand in the order of real time. rdt: all replicas of a counter end with what was \
acknowledged. txn: each balance is what was deposited. lock: tokens grow. After the last fault every node must \
serve again, and every call must end.";

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ClientsCampaign {
    /// The engine: kv, smr, rdt, txn or lock
    #[arg(long, value_name = "ENGINE")]
    engine: EngineName,
    #[command(flatten)]
    runs: NodeRuns,
}

impl Task for ClientsCampaign {
    type Found = NodeCampaignResult;

    const KIND: &'static str = "sim clients";

    fn work(&self) -> Result<NodeCampaignResult, Failure> {
        self.runs.check(|nodes, profile| ClientCampaign::check(self.engine, nodes, profile))?;
        self.runs.work(
            NAME,
            |line| self.command(line),
            |runs, replay, progress| ClientCampaign { engine: self.engine, runs }.run(replay, progress),
        )
    }

    fn to_text(&self, result: &NodeCampaignResult) -> String {
        self.runs.to_text(NAME, result, |line| self.command(line))
    }

    fn holds(&self, result: &NodeCampaignResult) -> bool {
        result.findings.violations_found == 0
    }
}

impl ClientsCampaign {
    fn command(&self, line: CommandLine) -> CommandLine {
        line.option("--engine", self.engine)
    }
}
