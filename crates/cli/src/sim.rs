//! `weft sim`: fault campaigns.

mod rdt;
mod rounds;
mod smr;
mod txn;

use clap::{Args, Subcommand};
use weft_bench::kv::simulated::{Campaign, CampaignResult};
use weft_bench::progress::Progress;
use weft_bench::table::{Column, Table, grouped, time_with_unit};
use weft_sim::FaultKinds;

use crate::bench::node_nic::NodeNicOptions;
use crate::failure::{Failure, Verdict};
use crate::faults::Faults;
use crate::output::{self, Json};
use crate::parse::Seeds;
use crate::replay::CommandLine;
use crate::{faults, parse};

/// Which engine is put to the test.
#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// The replicated key-value store
    Kv(KvCampaignArguments),
    /// Replicated data types
    Rdt(rdt::RdtCampaignArguments),
    /// The consensus in synchronous rounds
    Rounds(rounds::RoundsCampaignArguments),
    /// The replicated log of one-sided writes (Mu)
    Smr(smr::SmrCampaignArguments),
    /// Distributed transactions
    Txn(txn::TxnCampaignArguments),
}

impl Sim {
    /// Runs the campaign.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Kv(arguments) => arguments.run(),
            Self::Rdt(arguments) => arguments.run(),
            Self::Rounds(arguments) => arguments.run(),
            Self::Smr(arguments) => arguments.run(),
            Self::Txn(arguments) => arguments.run(),
        }
    }
}

/// Which runs to make.
#[derive(Clone, Debug, Args)]
pub(crate) struct KvCampaignArguments {
    #[command(flatten)]
    pub(crate) options: KvCampaignOptions,
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What decides a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct KvCampaignOptions {
    /// Nodes of each cluster, 1 to 16
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse::nodes)]
    nodes: usize,
    /// One run for each seed: a range, both ends included, or one number
    #[arg(long, visible_alias = "seed", value_name = "FIRST..LAST", default_value = "1..20")]
    seeds: Seeds,
    /// all, none, a list of loss, duplication, reordering, corruption, partition, one_way_cut, crash, pause, slow_link, or a
    /// fault plan in TOML
    #[arg(long, value_name = "KINDS|PLAN.toml", default_value = "all")]
    faults: Faults,
    #[command(flatten)]
    nic: NodeNicOptions,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_bug)]
    planted_bug: Option<weft_kv::PlantedBug>,
}

impl KvCampaignArguments {
    fn run(self) -> Result<Verdict, Failure> {
        let Self { options, json } = self;
        output::check_json(json.as_ref())?;
        let (campaign, total) = (options.campaign()?, options.seeds.count());
        let mut progress = Progress::new("seeds", total);
        let result = campaign
            .run(|seed| options.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done))
            .map_err(|error| match &options.faults {
                Faults::Plan(path) => Failure::at(path, error),
                Faults::Kinds(_) => error.into(),
            })?;
        drop(progress);
        output::deliver(json.as_ref(), || to_json(&result), &options.to_text(&result))?;
        Ok(if result.findings.violations_found == 0 { Verdict::Good } else { Verdict::Violated })
    }
}

impl KvCampaignOptions {
    fn campaign(&self) -> Result<Campaign, Failure> {
        let (kinds, plan) = match &self.faults {
            Faults::Kinds(kinds) => (*kinds, None),
            Faults::Plan(path) => (FaultKinds::NONE, Some(faults::plan(path)?)),
        };
        Ok(Campaign {
            nodes: self.nodes,
            seeds: self.seeds.0.clone(),
            kinds,
            plan,
            nic: self.nic.choose(self.nodes)?,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    /// The command that repeats some of the runs.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, seeds: _, faults, nic, .. } = self;
        let line = CommandLine::new("weft sim kv")
            .option("--nodes", nodes)
            .option("--seeds", seeds)
            .option("--faults", faults);
        let line = nic.add_to(line);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_kv::PlantedBug::name));
        line
    }

    /// What a campaign says to people.
    fn to_text(&self, result: &CampaignResult) -> String {
        let faults = result.faults.iter().filter(|(_, count)| **count > 0);
        let faults: Vec<_> = faults.map(|(kind, count)| format!("{kind} {}", grouped(*count))).collect();
        let bound = time_with_unit(result.live_within_bound_ns);
        let live = match result.live_within_ns {
            u64::MAX => format!("NOT within {bound} of the last fault"),
            ns => format!("within {} of the last fault (bound {bound})", time_with_unit(ns)),
        };
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("operations", ""),
            Column::numbers("views", ""),
            Column::numbers("lost writes", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(result.operations),
            grouped(result.views),
            grouped(result.lost_acknowledged_writes),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
        let mut text = format!(
            "{table}\n  nic         {}, engines on the {}\n  faults      {faults}\n  every node  serves again {live}\n  log hash    {}\n  repeat      {}\n",
            result.nic,
            result.engine_on,
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

fn to_json(result: &CampaignResult) -> String {
    let mut json = serde_json::to_string_pretty(result).expect("a result has only text keys");
    json.push('\n');
    json
}
