//! `weft sim smr`: fault campaigns of the replicated log.

use clap::Args;
use weft_bench::progress::Progress;
use weft_bench::smr::{Campaign, CampaignResult};
use weft_bench::table::{Column, Table, grouped, time_with_unit};

use crate::failure::{Failure, Verdict};
use crate::faults::Faults;
use crate::output::{self, Json};
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;

/// What is asked of a run.
const DEFINITIONS: &str = "\
Clients append at whatever node leads, while nodes crash and come back without their memory (never a majority at a time), links lose, \
double, delay and corrupt frames or are cut, and nodes pause. All nodes must tell the same entries in the same order, each append has \
effect once, what was answered stays, and an append that was asked for after another one was answered comes behind it. After the last \
fault every node must take part again, and clients be answered. Followers learn of entries by write-through or, with odd seeds, by polling.";

/// Which runs to make.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct SmrCampaignArguments {
    #[command(flatten)]
    options: SmrCampaignOptions,
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What decides a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
struct SmrCampaignOptions {
    /// Nodes of each cluster, 2 to 8
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse::members)]
    nodes: usize,
    /// One run for each seed: a range, both ends included, or one number
    #[arg(long, visible_alias = "seed", value_name = "FIRST..LAST", default_value = "1..20")]
    seeds: Seeds,
    /// all, none, or a list of loss, duplication, reordering, corruption, partition, one_way_cut, crash, pause, slow_link
    #[arg(long, value_name = "KINDS", default_value = "all")]
    faults: Faults,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_smr_bug)]
    planted_bug: Option<weft_smr::PlantedBug>,
}

impl SmrCampaignArguments {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let Self { options, json } = self;
        output::check_json(json.as_ref())?;
        let campaign = options.campaign()?;
        let mut progress = Progress::new("seeds", options.seeds.count());
        let result =
            campaign.run(|seed| options.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done));
        drop(progress);
        output::deliver(json.as_ref(), || result.to_json(), &options.to_text(&result))?;
        Ok(if result.findings.violations_found == 0 { Verdict::Good } else { Verdict::Violated })
    }
}

impl SmrCampaignOptions {
    fn campaign(&self) -> Result<Campaign, Failure> {
        let Faults::Kinds(faults) = self.faults else {
            return Err(Failure::new("the log's campaigns take kinds of faults, not a plan"));
        };
        Ok(Campaign {
            nodes: self.nodes,
            seeds: self.seeds.0.clone(),
            faults,
            delivery: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    /// The command that repeats some of the runs.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let line = CommandLine::new("weft sim smr")
            .option("--nodes", self.nodes)
            .option("--seeds", seeds)
            .option("--faults", &self.faults);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_smr::PlantedBug::name));
        line
    }

    /// What a campaign says to people.
    fn to_text(&self, result: &CampaignResult) -> String {
        let faults = result.faults.iter().filter(|(_, count)| **count > 0);
        let faults: Vec<_> = faults.map(|(kind, count)| format!("{kind} {}", grouped(*count))).collect();
        let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
        let bound = time_with_unit(result.live_within_bound_ns);
        let live = match result.live_within_ns {
            u64::MAX => format!("NOT within {bound} of the last fault"),
            ns => format!("within {} of the last fault (bound {bound})", time_with_unit(ns)),
        };
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("appends", ""),
            Column::numbers("leaderships", ""),
            Column::numbers("adopted", ""),
            Column::numbers("snapshots", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(result.appends),
            grouped(result.leaderships),
            grouped(result.adopted),
            grouped(result.snapshots),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let mut text = format!(
            "{table}\n  nodes       {}\n  faults      {faults}\n  every node  takes part again {live}\n  log hash    {}\n  repeat      {}\n",
            result.nodes,
            result.findings.log_hash,
            self.command(&self.seeds)
        );
        for violation in &result.findings.violations {
            text +=
                &format!("\nseed {}: {}\n  repeat  {}\n", violation.seed, violation.what, violation.replay);
        }
        text
    }
}
