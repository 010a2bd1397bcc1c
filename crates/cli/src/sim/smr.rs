//! `weft sim smr`: fault campaigns of the replicated log.

use clap::Args;
use weft_bench::smr::{LogFigures, LogSubject};
use weft_harness::CampaignResult;
use weft_harness::progress::Progress;
use weft_results::table::{Column, Table, grouped};

use super::findings::{self, list, live_within};
use super::node_bug::NodeBugOption;
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
    #[command(flatten)]
    node_bug: NodeBugOption,
}

impl Task for SmrCampaign {
    type Found = CampaignResult<LogFigures>;

    const KIND: &'static str = "sim smr";

    fn work(&self) -> Result<Self::Found, Failure> {
        self.seeds.check()?;
        let Faults::Kinds(kinds) = self.faults else {
            return Err(Failure::new("the log's campaigns take kinds of faults, not a plan"));
        };
        let kinds = faults::without_disks(kinds)?;
        let subject = LogSubject {
            delivery: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        let runs = self.seeds.runs(self.nodes, kinds, None, &self.node_bug);
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        let replay = |seed| self.command(&Seeds(seed..=seed)).to_string();
        Ok(runs.run(&subject, replay, |done| progress.set(done))?)
    }

    fn to_text(&self, result: &Self::Found) -> String {
        let figures = &result.figures;
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
            grouped(figures.appends),
            grouped(figures.leaderships),
            grouped(figures.adopted),
            grouped(figures.snapshots),
            grouped(result.views),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        format!(
            "{table}\n  nodes       {}\n  faults      {}\n  every node  takes part again {}\n{}",
            result.nodes,
            list(&result.faults),
            live_within(result.live),
            findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |()| String::new()),
        )
    }

    fn holds(&self, result: &Self::Found) -> bool {
        result.findings.violations_found == 0
    }
}

impl SmrCampaign {
    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let line = CommandLine::new("weft sim smr")
            .option("--nodes", self.nodes)
            .option("--seeds", seeds)
            .option("--faults", &self.faults);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_smr::PlantedBug::name));
        self.node_bug.add_to(line)
    }
}
