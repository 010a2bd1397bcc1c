//! `weft sim txn`: fault campaigns of distributed transactions.

use clap::Args;
use weft_applications::WorkloadName;
use weft_bench::txn::{TransactionFigures, TransactionsSubject};
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

const NODES: usize = 3;
const REPLICATION: usize = 2;

/// Checks of a run.
const DEFINITIONS: &str = "\
In each run the clients of all nodes run transactions over a few objects. Meanwhile nodes crash, at any time and at \
chosen messages of the protocol, and restart with empty memory; nodes pause; links lose, delay, duplicate and corrupt \
frames; partitions separate nodes from each other and from the membership service. With f + 1 replicas of each shard, \
a crash is skipped while f nodes have not recovered all their data. The history must be strictly serializable, where \
a call without an answer may or may not have taken effect; no money may appear or vanish; all replicas of a shard \
must end in the same state, without a lock. After the last fault the clients of every node must commit again. Without \
--workload, the seeds run Smallbank and Retwis in turn; the seeds that crash a node when its log is full run \
new-order of TPC-C.";

/// Parameters of a campaign.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct TxnCampaign {
    /// Number of nodes, 2 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Replicas of each shard, the primary included, 2 to the number of nodes
    #[arg(long, value_name = "N", default_value_t = REPLICATION)]
    replication: usize,
    /// Workload: smallbank, retwis, tpcc-new-order or tpcc [default: by the seed]
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<WorkloadName>,
    #[command(flatten)]
    seeds: SeedOptions,
    /// Kinds of faults, separated by commas: loss, duplication, reordering, corruption, partition, one_way_cut,
    /// crash, pause, slow_link, outage (of the membership service), partial_partition; or all, or none.
    /// docs/fault-plans.md describes each
    #[arg(long, value_name = "KINDS", default_value = "all", value_parser = faults::network_kinds)]
    faults: FaultKinds,
    /// At the end, crash every replica of one shard: its callers must learn that it is lost, and the other shards must
    /// go on
    #[arg(long)]
    lose_shard: bool,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_txn_bug)]
    planted_bug: Option<weft_txn::PlantedBug>,
    #[command(flatten)]
    node_bug: NodeBugOption,
}

impl Task for TxnCampaign {
    type Found = CampaignResult<TransactionFigures>;

    const KIND: &'static str = "sim txn";

    fn work(&self) -> Result<Self::Found, Failure> {
        self.seeds.check()?;
        self.check()?;
        let subject = TransactionsSubject {
            workload: self.workload,
            replication: self.replication,
            lose_shard: self.lose_shard,
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
            grouped(figures.committed),
            grouped(figures.aborted),
            grouped(figures.unanswered),
            grouped(figures.unknown_but_seen),
            grouped(result.views),
            grouped(figures.restarts),
            grouped(result.findings.violations_found),
            result.checked.to_owned(),
        ]);
        let mut text = format!(
            "{table}\n  cluster     {} nodes, {} replicas of each shard, {}\n  faults      {}\n  crashed at  {}\n  \
             every node  commits again {}\n",
            result.nodes,
            figures.replication,
            list(&figures.workloads),
            list(&result.faults),
            list(&figures.step_crashes),
            live_within(result.live),
        );
        if self.lose_shard {
            text += &format!("  lost shards {} calls were told so\n", grouped(figures.unavailable));
        }
        text + &findings::to_text(&result.findings, &self.command(&self.seeds.chosen()), |()| String::new())
    }

    fn holds(&self, result: &Self::Found) -> bool {
        result.findings.violations_found == 0
    }
}

impl TxnCampaign {
    /// Checks that the options fit together.
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

    /// The command that repeats the runs of these seeds.
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
        self.node_bug.add_to(line)
    }
}
