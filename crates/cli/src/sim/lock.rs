//! `weft sim lock`: fault campaigns of the locks.

use clap::Args;
use weft_bench::lock::simulated::Campaign;
use weft_harness::NodeCampaignResult;

use super::nodes::NodeRuns;
use crate::failure::Failure;
#[cfg(feature = "planted-bugs")]
use crate::parse;
use crate::replay::CommandLine;
use crate::task::Task;

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct LockCampaign {
    #[command(flatten)]
    runs: NodeRuns,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_lock_bug)]
    planted_bug: Option<weft_lock::PlantedBug>,
}

impl Task for LockCampaign {
    type Found = NodeCampaignResult;

    const KIND: &'static str = "sim lock";

    fn work(&self) -> Result<NodeCampaignResult, Failure> {
        self.runs.work(
            "weft sim lock",
            |line| self.command(line),
            |runs, replay, progress| {
                let campaign = Campaign {
                    runs,
                    #[cfg(feature = "planted-bugs")]
                    planted_bug: self.planted_bug,
                };
                campaign.run(replay, progress)
            },
        )
    }

    fn to_text(&self, result: &NodeCampaignResult) -> String {
        self.runs.to_text("weft sim lock", result, |line| self.command(line))
    }

    fn holds(&self, result: &NodeCampaignResult) -> bool {
        result.findings.violations_found == 0
    }
}

impl LockCampaign {
    #[cfg_attr(not(feature = "planted-bugs"), expect(clippy::unused_self, reason = "the bug is its own"))]
    fn command(&self, line: CommandLine) -> CommandLine {
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_lock::PlantedBug::name));
        line
    }
}
