//! `weft sim smr`: fault campaigns of the replicated log.

use clap::Args;
use weft_bench::smr::{Campaign, CampaignResult};
use weft_harness::progress::Progress;
use weft_results::table::{Column, Table, grouped};

use super::findings::{self, list, live_within};
use super::seeds::SeedOptions;
use crate::failure::Failure;
use crate::faults::{self, Faults};
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;
use crate::task::Task;

/// Checks of a run.
const DEFINITIONS: &str = "\
Clients append at the current leader while nodes crash and come back without their memory (never a majority at once), \
links lose, duplicate, delay and corrupt frames or are cut, nodes pause, and the membership service has outages. All \
nodes must report the same entries in the same order. Each append must take effect once, an answered append must \
stay, and an append that was requested after another was answered must follow it in the log. After the last fault \
every node must take part again, and clients must get answers. A follower notices a new entry because its NIC passes \
each incoming WRITE on to the engine or, with odd seeds, because the engine polls its memory.";

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct SmrCampaign {
    /// Number of nodes, 2 to 8
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse::members)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    /// Kinds of faults, separated by commas: loss, duplication, reordering, corruption, partition, one_way_cut,
    /// crash, pause, slow_link, outage (of the membership service), partial_partition; or all, or none.
    /// docs/fault-plans.md describes each
    #[arg(long, value_name = "KINDS", default_value = "all")]
    faults: Faults,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_smr_bug)]
    planted_bug: Option<weft_smr::PlantedBug>,
    /// A known bug around the engines to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_node_bug)]
    node_bug: Option<weft_harness::NodeBug>,
}

impl Task for SmrCampaign {
    type Found = CampaignResult;

    const KIND: &'static str = "sim smr";

    fn work(&self) -> Result<CampaignResult, Failure> {
        self.seeds.check()?;
        let campaign = self.campaign()?;
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        Ok(campaign.run(|seed| self.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done)))
    }

    fn to_text(&self, result: &CampaignResult) -> String {
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("appends", ""),
            Column::numbers("leaderships", ""),
            Column::numbers("adopted", ""),
            Column::numbers("snapshots", ""),
            Column::numbers("views", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(result.appends),
            grouped(result.leaderships),
            grouped(result.adopted),
            grouped(result.snapshots),
            grouped(result.views),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        format!(
            "{table}\n  nodes       {}\n  faults      {}\n  every node  takes part again {}\n{}",
            result.nodes,
            list(&result.faults),
            live_within(result.live_within_ns, result.live_within_bound_ns),
            findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |()| String::new()),
        )
    }

    fn holds(&self, result: &CampaignResult) -> bool {
        result.findings.violations_found == 0
    }
}

impl SmrCampaign {
    fn campaign(&self) -> Result<Campaign, Failure> {
        let Faults::Kinds(faults) = self.faults else {
            return Err(Failure::new("the log's campaigns take kinds of faults, not a plan"));
        };
        Ok(Campaign {
            nodes: self.nodes,
            seeds: self.seeds.chosen().0,
            faults: faults::without_disks(faults)?,
            delivery: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            #[cfg(feature = "planted-bugs")]
            node_bug: self.node_bug,
        })
    }

    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let line = CommandLine::new("weft sim smr")
            .option("--nodes", self.nodes)
            .option("--seeds", seeds)
            .option("--faults", &self.faults);
        #[cfg(feature = "planted-bugs")]
        let line = line
            .given("--planted-bug", self.planted_bug.map(weft_smr::PlantedBug::name))
            .given("--node-bug", self.node_bug.map(weft_harness::NodeBug::name));
        line
    }
}
