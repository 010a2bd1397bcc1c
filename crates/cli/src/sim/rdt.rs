//! `weft sim rdt`: fault campaigns of replicated data types.

use clap::Args;
use weft_bench::rdt::{Campaign, CampaignResult, Configuration, DELIVERED_WITHIN, TypeName};
use weft_harness::progress::Progress;
use weft_harness::table::{Column, Table, grouped};
use weft_sim::FaultKinds;

use super::findings::{self, list, live_within};
use crate::failure::Failure;
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;
use crate::task::Task;

const NODES: usize = 5;

/// What is asked of a run.
const DEFINITIONS: &str = "\
In each run every node's client calls the methods of one data type, and nodes crash and come back with nothing, stand still, lose, \
delay and double messages, and are parted; the membership service has outages. A crash is skipped if it would leave no majority that has forgotten nothing. All calls \
are made again on a reference per replica: answered calls take effect exactly once everywhere, refused ones nowhere, conflicting \
ones in one order that respects real time; the invariant holds at every step; all replicas end in the state that their calls give. \
After the last fault every node must serve again. Without --type and --configuration each seed has the next ones.";

/// What decides a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtCampaign {
    /// Replicas of each cluster, 3 to 8
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::replicas)]
    nodes: usize,
    /// One run for each seed: a range, both ends included, or one number
    #[arg(long, visible_alias = "seed", value_name = "FIRST..LAST", default_value = "1..20")]
    seeds: Seeds,
    /// all, none, or a list of loss, duplication, reordering, corruption, partition, one_way_cut, crash, pause, slow_link,
    /// outage (of the membership service)
    #[arg(long, value_name = "KINDS", default_value = "all")]
    faults: FaultKinds,
    /// Which data type
    #[arg(long = "type", value_name = "TYPE")]
    name: Option<TypeName>,
    /// How calls reach the objects: write, buffered or rpc
    #[arg(long, value_name = "NAME")]
    configuration: Option<Configuration>,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_rdt_bug)]
    planted_bug: Option<weft_rdt::replica::PlantedBug>,
    /// A known bug around the engines to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_node_bug)]
    node_bug: Option<weft_harness::NodeBug>,
}

impl Task for RdtCampaign {
    type Found = CampaignResult;

    fn work(&self) -> Result<CampaignResult, Failure> {
        let campaign = self.campaign();
        let mut progress = Progress::new("seeds", self.seeds.count());
        Ok(campaign.run(|seed| self.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done)))
    }

    fn to_text(&self, result: &CampaignResult) -> String {
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("calls", ""),
            Column::numbers("refused", ""),
            Column::numbers("unanswered", ""),
            Column::numbers("queries", ""),
            Column::numbers("steps", ""),
            Column::numbers("restarts", ""),
            Column::numbers("views", ""),
            Column::numbers("leaderships", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(result.calls),
            grouped(result.refused),
            grouped(result.unanswered),
            grouped(result.queries),
            grouped(result.steps),
            grouped(result.restarts),
            grouped(result.views),
            grouped(result.terms),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        format!(
            "{table}\n  nodes       {}\n  faults      {}\n  every node  serves again {}; all is delivered within {DELIVERED_WITHIN}\n{}",
            result.nodes,
            list(&result.faults),
            live_within(result.live_within_ns, result.live_within_bound_ns),
            findings::to_text(&result.findings, &self.command(&self.seeds), |run| {
                format!(" ({}, {})", run.name, run.configuration)
            }),
        )
    }

    fn holds(&self, result: &CampaignResult) -> bool {
        result.findings.violations_found == 0
    }
}

impl RdtCampaign {
    fn campaign(&self) -> Campaign {
        Campaign {
            name: self.name,
            configuration: self.configuration,
            nodes: self.nodes,
            seeds: self.seeds.0.clone(),
            kinds: self.faults,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            node_bug: self.node_bug,
        }
    }

    /// The command that repeats some of the runs.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, seeds: _, faults, name, configuration, .. } = self;
        let line = CommandLine::new("weft sim rdt")
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults)
            .given("--type", *name)
            .given("--configuration", *configuration);
        #[cfg(feature = "planted-bugs")]
        let line = line
            .given("--planted-bug", self.planted_bug.map(weft_rdt::replica::PlantedBug::name))
            .given("--node-bug", self.node_bug.map(weft_harness::NodeBug::name));
        line
    }
}
