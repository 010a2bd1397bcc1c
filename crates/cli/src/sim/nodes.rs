//! Options and text that campaigns on shipped nodes share, for any engine.

use clap::Args;
use weft_harness::progress::Progress;
use weft_harness::table::{Column, Table, grouped};
use weft_harness::{NodeCampaign, NodeCampaignResult};
use weft_sim::{CostProfile, FaultKinds, NetworkProfile, PlanError};

use super::findings::{self, list, live_within};
use super::seeds::SeedOptions;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::{ENGINE_PROFILES, Ground, NETWORKS, Offers};
use crate::parse::Seeds;
use crate::replay::CommandLine;
use crate::{faults, parse};

/// What campaigns on shipped nodes stand on.
#[derive(Debug)]
pub(crate) struct CampaignGround;

impl Offers for CampaignGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const SEED: Option<u64> = None;
}

/// Parameters of a campaign that do not depend on the engine.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct NodeRuns {
    /// Number of nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse::nodes)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    ground: Ground<CampaignGround>,
    /// Kinds of faults: all, none, a list of loss, duplication, reordering, corruption, partition, one_way_cut, crash,
    /// pause, slow_link, outage (of the membership service), partial_partition, or a fault plan in TOML
    #[arg(long, value_name = "KINDS|PLAN.toml", default_value = "all")]
    faults: Faults,
    /// A known bug around the engines to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_node_bug)]
    node_bug: Option<weft_harness::NodeBug>,
}

impl NodeRuns {
    /// Refuses a cluster that does not fit an engine.
    pub(crate) fn check<E>(&self, fits: impl FnOnce(usize, &CostProfile) -> Result<(), E>) -> Result<(), E> {
        fits(self.nodes, &self.ground.profile())
    }

    /// Makes the runs by `run`, which is given them, what repeats a seed, and where progress goes. `name` is the
    /// command, to which `command` adds the engine's own options.
    pub(crate) fn work(
        &self,
        name: &str,
        command: impl Fn(CommandLine) -> CommandLine,
        run: impl FnOnce(
            NodeCampaign,
            &dyn Fn(u64) -> String,
            &mut dyn FnMut(u64),
        ) -> Result<NodeCampaignResult, PlanError>,
    ) -> Result<NodeCampaignResult, Failure> {
        self.seeds.check()?;
        let (kinds, plan) = match &self.faults {
            Faults::Kinds(kinds) => (faults::without_disks(*kinds)?, None),
            Faults::Plan(path) => (FaultKinds::NONE, Some(faults::plan(path)?)),
        };
        let campaign = NodeCampaign {
            nodes: self.nodes,
            seeds: self.seeds.chosen().0,
            network: self.ground.network(),
            profile: self.ground.profile(),
            kinds,
            plan,
            #[cfg(feature = "planted-bugs")]
            node_bug: self.node_bug,
        };
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        let replay = |seed| command(self.command(name, &Seeds(seed..=seed))).to_string();
        run(campaign, &replay, &mut |done| progress.set(done)).map_err(|error| match &self.faults {
            Faults::Plan(path) => Failure::at(path, error),
            Faults::Kinds(_) => error.into(),
        })
    }

    /// Text form of a result.
    pub(crate) fn to_text(
        &self,
        name: &str,
        result: &NodeCampaignResult,
        command: impl Fn(CommandLine) -> CommandLine,
    ) -> String {
        let counted = [("runs", result.seeds_run)].into_iter();
        let counted = counted.chain(result.counts.iter().map(|(name, count)| (*name, *count)));
        let last = [("views", result.views), ("violations", result.findings.violations_found)];
        let counted: Vec<_> = counted.chain(last).collect();
        let columns = counted.iter().map(|(name, _)| Column::numbers(name, ""));
        let mut table = Table::new(columns.chain([Column::words("checked")]).collect::<Vec<_>>());
        table.row(counted.iter().map(|(_, count)| grouped(*count)).chain([result.checked.to_owned()]));
        format!(
            "{table}\n  faults      {}\n  every node  serves again {}\n{}",
            list(&result.faults),
            live_within(result.live_within_ns, result.live_within_bound_ns),
            findings::to_text(&result.findings, &command(self.command(name, &self.seeds.chosen())), |()| {
                String::new()
            }),
        )
    }

    fn command(&self, name: &str, seeds: &Seeds) -> CommandLine {
        let line = CommandLine::new(name)
            .option("--nodes", self.nodes)
            .option("--seeds", seeds)
            .option("--faults", &self.faults);
        let line = self.ground.add_to(line);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--node-bug", self.node_bug.map(weft_harness::NodeBug::name));
        line
    }
}
