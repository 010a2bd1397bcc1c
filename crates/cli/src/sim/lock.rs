//! `weft sim lock`: fault campaigns of the locks.

use clap::Args;
use weft_bench::lock::simulated::Locks;
use weft_harness::{NodeFigures, OnNodes};

use super::campaign::{CampaignGround, Conduct, EngineOptions, Found};
use super::faults::{FaultsOption, NETWORK_FAULTS};
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::Ground;
#[cfg(feature = "planted-bugs")]
use crate::parse;
use crate::replay::CommandLine;

/// Options of the locks.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct LockOptions {
    #[command(flatten)]
    ground: Ground<CampaignGround>,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_lock_bug)]
    planted_bug: Option<weft_lock::PlantedBug>,
}

impl EngineOptions for LockOptions {
    type Faults = Faults;
    type Figures = NodeFigures;
    type About = ();

    const KIND: &'static str = "sim lock";
    const FAULTS: FaultsOption<Faults> = NETWORK_FAULTS;

    fn run(&self, conduct: Conduct<'_, Faults>) -> Result<Found<Self>, Failure> {
        let locks = Locks {
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        let (network, profile) = (self.ground.network(), self.ground.profile());
        conduct.of(&OnNodes { contender: &locks, network, profile })
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        let line = self.ground.add_to(line);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_lock::PlantedBug::name));
        line
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        found.figures.counts.clone().into_iter().chain([("views", found.views)]).collect()
    }
}
