//! `weft sim rdt`: fault campaigns of replicated data types.

use clap::Args;
use weft_bench::rdt::{Configuration, DELIVERED_WITHIN, ObjectFigures, ObjectSubject, SeedChoice, TypeName};
use weft_harness::CampaignResult;
use weft_harness::progress::Progress;
use weft_results::table::{Column, Table, grouped};
use weft_sim::FaultKinds;

use super::findings::{self, list, live_within};
use super::node_bug::NodeBugOption;
use super::seeds::SeedOptions;
use crate::failure::Failure;
use crate::faults;
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;
use crate::task::Task;

const NODES: usize = 5;

/// Checks of a run.
const DEFINITIONS: &str = "\
In each run the clients of all nodes call the methods of one data type. Meanwhile nodes crash, restart with empty \
memory and pause; the network loses, delays, duplicates and partitions frames; the membership service fails for a \
time. A crash is skipped if no majority of nodes would keep its memory. A reference model repeats all calls for each \
replica: answered calls must take effect exactly once everywhere, refused calls nowhere, and conflicting calls in one \
order that respects real time; the invariant must hold after every step; all replicas must end in the same state. \
After the last fault every node must serve again. Without --type and --configuration, the seeds take them in turn.";

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtCampaign {
    /// Number of replicas, 3 to 8
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::replicas)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    /// Kinds of faults, separated by commas: loss, duplication, reordering, corruption, partition, one_way_cut,
    /// crash, pause, slow_link, outage (of the membership service), partial_partition; or all, or none.
    /// docs/fault-plans.md describes each
    #[arg(long, value_name = "KINDS", default_value = "all", value_parser = faults::network_kinds)]
    faults: FaultKinds,
    /// Data type, one of those of `weft rdt list` [default: each in turn]
    #[arg(long = "type", value_name = "TYPE")]
    name: Option<TypeName>,
    /// How calls reach the other replicas: write, buffered or rpc, as in weft bench rdt [default: each in turn]
    #[arg(long, value_name = "NAME")]
    configuration: Option<Configuration>,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_rdt_bug)]
    planted_bug: Option<weft_rdt::replica::PlantedBug>,
    #[command(flatten)]
    node_bug: NodeBugOption,
}

impl Task for RdtCampaign {
    type Found = CampaignResult<ObjectFigures, SeedChoice>;

    const KIND: &'static str = "sim rdt";

    fn work(&self) -> Result<Self::Found, Failure> {
        self.seeds.check()?;
        let subject = ObjectSubject {
            name: self.name,
            configuration: self.configuration,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        let runs = self.seeds.runs(self.nodes, self.faults, None, &self.node_bug);
        let mut progress = Progress::new("seeds", self.seeds.chosen().count());
        let replay = |seed| self.command(&Seeds(seed..=seed)).to_string();
        Ok(runs.run(&subject, replay, |done| progress.set(done))?)
    }

    fn to_text(&self, result: &Self::Found) -> String {
        let figures = &result.figures;
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
            grouped(figures.calls),
            grouped(figures.refused),
            grouped(figures.unanswered),
            grouped(figures.queries),
            grouped(figures.steps),
            grouped(figures.restarts),
            grouped(result.views),
            grouped(figures.terms),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        format!(
            "{table}\n  nodes       {}\n  faults      {}\n  every node  serves again {}; all is delivered within {DELIVERED_WITHIN}\n{}",
            result.nodes,
            list(&result.faults),
            live_within(result.live),
            findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |run| {
                format!(" ({}, {})", run.name, run.configuration)
            }),
        )
    }

    fn holds(&self, result: &Self::Found) -> bool {
        result.findings.violations_found == 0
    }
}

impl RdtCampaign {
    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, seeds: _, faults, name, configuration, .. } = self;
        let line = CommandLine::new("weft sim rdt")
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults)
            .given("--type", *name)
            .given("--configuration", *configuration);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_rdt::replica::PlantedBug::name));
        self.node_bug.add_to(line)
    }
}
