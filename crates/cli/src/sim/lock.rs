//! `weft sim lock`: fault campaigns of the locks.

use clap::Args;
use weft_bench::lock::simulated::Locks;
use weft_harness::NodeCampaign;

use super::nodes::{CampaignRun, Done, EngineOptions, Replay};
#[cfg(feature = "planted-bugs")]
use crate::parse;
use crate::replay::CommandLine;

/// Options of the locks.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct LockOptions {
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_lock_bug)]
    planted_bug: Option<weft_lock::PlantedBug>,
}

impl EngineOptions for LockOptions {
    const KIND: &'static str = "sim lock";

    fn add_to(&self, line: CommandLine) -> CommandLine {
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_lock::PlantedBug::name));
        line
    }

    fn run(&self, runs: &NodeCampaign, replay: Replay<'_>, progress: Done<'_>) -> CampaignRun {
        let locks = Locks {
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        runs.run(&locks, replay, progress)
    }
}
