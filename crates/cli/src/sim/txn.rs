//! `weft sim txn`: fault campaigns of distributed transactions.

use clap::Args;
use weft_bench::progress::Progress;
use weft_bench::table::{Column, Table, grouped, time_with_unit};
use weft_bench::txn::{Campaign, CampaignResult, LIVE_WITHIN, WorkloadName};
use weft_sim::FaultKinds;

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;

const NODES: usize = 3;
const REPLICATION: usize = 2;

/// What is asked of a run.
const DEFINITIONS: &str = "\
In each run clients of all nodes call transactions over few objects, and nodes crash, at any time and at chosen messages of the protocol, and \
come back with nothing; they stand still, lose, delay, double and change frames, and are parted, from the membership service too. A \
crash is skipped while f nodes do not hold everything, if each shard has f + 1 replicas. The history must be strictly serializable, \
where nobody knows whether a call that was never answered took effect; no money appears or vanishes; all replicas of a shard hold the same \
in the end, and no lock is left. After the last fault the clients of every node must commit again. Without --workload the seeds have Smallbank \
and Retwis in turn.";

/// Which runs to make.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct TxnCampaignArguments {
    #[command(flatten)]
    options: TxnCampaignOptions,
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What decides a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
struct TxnCampaignOptions {
    /// Nodes of each cluster, 2 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Replicas of each shard, 2 to all nodes
    #[arg(long, value_name = "N", default_value_t = REPLICATION)]
    replication: usize,
    /// What clients call: smallbank, retwis, tpcc-new-order or tpcc
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<WorkloadName>,
    /// One run for each seed: a range, both ends included, or one number
    #[arg(long, visible_alias = "seed", value_name = "FIRST..LAST", default_value = "1..20")]
    seeds: Seeds,
    /// all, none, or a list of loss, duplication, reordering, corruption, partition, one_way_cut, crash, pause, slow_link
    #[arg(long, value_name = "KINDS", default_value = "all")]
    faults: FaultKinds,
    /// After all faults, crash every replica of one shard: whoever wants it must be told that it is lost, and the rest goes on
    #[arg(long)]
    lose_shard: bool,
    /// A known bug to run with, to see it caught
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_txn_bug)]
    planted_bug: Option<weft_txn::PlantedBug>,
}

impl TxnCampaignArguments {
    pub(super) fn run(self) -> Result<Verdict, Failure> {
        let Self { options, json } = self;
        options.check()?;
        output::check_json(json.as_ref())?;
        let mut progress = Progress::new("seeds", options.seeds.count());
        let result = options
            .campaign()
            .run(|seed| options.command(&Seeds(seed..=seed)).to_string(), |done| progress.set(done));
        drop(progress);
        output::deliver(json.as_ref(), || result.to_json(), &options.to_text(&result))?;
        Ok(if result.findings.violations_found == 0 { Verdict::Good } else { Verdict::Violated })
    }
}

impl TxnCampaignOptions {
    /// What one option alone cannot tell.
    fn check(&self) -> Result<(), Failure> {
        let Self { nodes, replication, .. } = self;
        if !(2..=*nodes).contains(replication) {
            return Err(Failure::new(format_args!(
                "{nodes} nodes cannot hold {replication} replicas of which one may fail; choose --replication from 2 to --nodes"
            )));
        }
        if self.lose_shard && replication == nodes {
            return Err(Failure::new(
                "nothing is left when a shard of all nodes is lost; choose a smaller --replication",
            ));
        }
        Ok(())
    }

    fn campaign(&self) -> Campaign {
        Campaign {
            workload: self.workload,
            nodes: self.nodes,
            replication: self.replication,
            seeds: self.seeds.0.clone(),
            kinds: self.faults,
            lose_shard: self.lose_shard,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        }
    }

    /// The command that repeats some of the runs.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let Self { nodes, replication, workload, seeds: _, faults, lose_shard, .. } = self;
        let line = CommandLine::new("weft sim txn")
            .option("--nodes", nodes)
            .option("--replication", replication)
            .given("--workload", *workload)
            .option("--seeds", seeds)
            .option("--faults", faults)
            .flag("--lose-shard", *lose_shard);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_txn::PlantedBug::name));
        line
    }

    /// What a campaign says to people.
    fn to_text(&self, result: &CampaignResult) -> String {
        let faults = result.faults.iter().map(|(kind, count)| (kind.as_str(), *count));
        let steps = result.step_crashes.iter().map(|(step, count)| (*step, *count));
        let live = match result.live_within_ns {
            u64::MAX => format!("NOT within {LIVE_WITHIN} of the last fault"),
            ns => format!("within {} of the last fault (bound {LIVE_WITHIN})", time_with_unit(ns)),
        };
        let mut table = Table::new([
            Column::numbers("runs", ""),
            Column::numbers("committed", ""),
            Column::numbers("refused", ""),
            Column::numbers("unanswered", ""),
            Column::numbers("of these done", ""),
            Column::numbers("views", ""),
            Column::numbers("restarts", ""),
            Column::numbers("violations", ""),
            Column::words("checked"),
        ]);
        table.row([
            grouped(result.seeds_run),
            grouped(result.committed),
            grouped(result.aborted),
            grouped(result.unanswered),
            grouped(result.unknown_but_seen),
            grouped(result.views),
            grouped(result.restarts),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let mut text = format!(
            "{table}\n  cluster     {} nodes, {} replicas of each shard, {}\n  faults      {}\n  crashed at  {}\n  \
             every node  commits again {live}\n",
            result.nodes,
            result.replication,
            list(result.workloads.iter().map(|(name, runs)| (*name, *runs))),
            list(faults),
            list(steps),
        );
        if self.lose_shard {
            text += &format!("  lost shards {} calls were told so\n", grouped(result.unavailable));
        }
        text += &format!(
            "  log hash    {}\n  repeat      {}\n",
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

/// What there is any of, with how much of it.
fn list<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let counts: Vec<_> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{kind} {}", grouped(count)))
        .collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}
