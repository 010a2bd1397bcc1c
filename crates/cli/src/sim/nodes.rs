//! Campaigns for any engine, on the nodes that `weft start` runs.

use clap::Args;
use weft_harness::progress::Progress;
use weft_harness::{NodeCampaign, NodeCampaignResult};
use weft_results::table::{Column, Table, grouped};
use weft_sim::{CostProfile, NetworkProfile, PlanError};

use super::findings::{self, list, live_within};
use super::node_bug::NodeBugOption;
use super::seeds::SeedOptions;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::ground::{ENGINE_PROFILES, Ground, NETWORKS, Offers};
use crate::parse::Seeds;
use crate::replay::CommandLine;
use crate::task::Task;
use crate::{faults, parse};

/// The environment of campaigns on the nodes that ship.
#[derive(Debug)]
pub(crate) struct CampaignGround;

impl Offers for CampaignGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const SEED: Option<u64> = None;
}

/// The engine of a campaign, and the options that only this engine has.
pub(crate) trait EngineOptions: Args {
    /// The subcommand, as it is typed after `weft`: for example, `sim lock`.
    const KIND: &'static str;

    /// Rejects a cluster that does not fit the engine.
    fn check(&self, nodes: usize, profile: &CostProfile) -> Result<(), Failure> {
        let _ = (nodes, profile);
        Ok(())
    }

    /// Adds the engine's options to a command that repeats runs.
    fn add_to(&self, line: CommandLine) -> CommandLine;

    /// Runs the campaign. `replay` returns the command that repeats the run of a seed; `progress` is called with the
    /// number of seeds that are done.
    fn run(&self, runs: &NodeCampaign, replay: Replay<'_>, progress: Done<'_>) -> CampaignRun;
}

/// Returns the command that repeats the run of a seed.
pub(crate) type Replay<'a> = &'a dyn Fn(u64) -> String;
/// Called with the number of runs that are done.
pub(crate) type Done<'a> = &'a mut dyn FnMut(u64);
/// Result of a campaign; an error if the fault plan does not fit the cluster.
pub(crate) type CampaignRun = Result<NodeCampaignResult, PlanError>;

/// A campaign of any engine.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct OnNodes<E: EngineOptions> {
    #[command(flatten)]
    engine: E,
    #[command(flatten)]
    runs: NodeRuns,
}

/// Parameters of a campaign that do not depend on the engine.
#[derive(Clone, Debug, PartialEq, Args)]
struct NodeRuns {
    /// Number of nodes, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = parse::nodes)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    #[command(flatten)]
    ground: Ground<CampaignGround>,
    /// Kinds of faults, separated by commas: loss, duplication, reordering, corruption, partition, one_way_cut,
    /// crash, pause, slow_link, outage (of the membership service), partial_partition; or all; or none; or the path
    /// of a fault plan in TOML. docs/fault-plans.md describes each
    #[arg(long, value_name = "KINDS|PLAN.toml", default_value = "all")]
    faults: Faults,
    #[command(flatten)]
    node_bug: NodeBugOption,
}

impl<E: EngineOptions> Task for OnNodes<E> {
    type Found = NodeCampaignResult;

    const KIND: &'static str = E::KIND;

    fn work(&self) -> Result<NodeCampaignResult, Failure> {
        let NodeRuns { nodes, seeds, ground, faults, node_bug } = &self.runs;
        self.engine.check(*nodes, &ground.profile())?;
        seeds.check()?;
        let (kinds, plan) = faults.chosen()?;
        let runs = NodeCampaign {
            runs: seeds.runs(*nodes, faults::without_disks(kinds)?, plan, node_bug),
            network: ground.network(),
            profile: ground.profile(),
        };
        let mut progress = Progress::new("seeds", seeds.chosen().count());
        let replay = |seed| self.command(&Seeds(seed..=seed)).to_string();
        let result = self.engine.run(&runs, &replay, &mut |done| progress.set(done));
        result.map_err(|error| faults.misfit(error))
    }

    fn to_text(&self, result: &NodeCampaignResult) -> String {
        let counted = [("runs", result.seeds_run)].into_iter();
        let counted = counted.chain(result.figures.counts.iter().map(|(name, count)| (*name, *count)));
        let last = [("views", result.views), ("violations", result.findings.violations_found)];
        let counted: Vec<_> = counted.chain(last).collect();
        let columns = counted.iter().map(|(name, _)| Column::numbers(name, ""));
        let mut table = Table::new(columns.chain([Column::words("checked")]).collect::<Vec<_>>());
        table.row(counted.iter().map(|(_, count)| grouped(*count)).chain([result.checked.to_owned()]));
        format!(
            "{table}\n  faults      {}\n  every node  serves again {}\n{}",
            list(&result.faults),
            live_within(result.live),
            findings::to_text(&result.findings, &self.command(&self.runs.seeds.chosen()), |()| String::new()),
        )
    }

    fn holds(&self, result: &NodeCampaignResult) -> bool {
        result.findings.violations_found == 0
    }
}

impl<E: EngineOptions> OnNodes<E> {
    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let NodeRuns { nodes, ground, faults, node_bug, .. } = &self.runs;
        let line = CommandLine::new(&format!("weft {}", E::KIND))
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults);
        self.engine.add_to(node_bug.add_to(ground.add_to(line)))
    }
}
