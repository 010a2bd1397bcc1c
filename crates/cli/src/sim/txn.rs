//! `weft sim txn`: fault campaigns of distributed transactions.

use clap::Args;
use weft_applications::WorkloadName;
use weft_bench::disks::has_disks;
use weft_bench::txn::{TransactionFigures, TransactionsSubject};
use weft_results::table::grouped;

use super::campaign::{Conduct, EngineOptions, Found, NodesOption, list};
use super::faults::{DISK_FAULTS, FaultsOption};
use crate::failure::Failure;
use crate::faults::Faults;
use crate::parse;
use crate::replay::CommandLine;
use crate::task::Histories;

/// Checks of a run.
const DEFINITIONS: &str = "\
In each run the clients of all nodes run transactions over a few objects. Meanwhile nodes crash, at any time and at \
chosen messages of the protocol, and restart with empty memory; nodes pause; links lose, delay, duplicate and corrupt \
frames; partitions separate nodes from each other and from the membership service. With f + 1 replicas of each shard, \
a crash is skipped while f nodes have not recovered all their data. The history must be strictly serializable, where \
a call without an answer may or may not have taken effect; no money may appear or vanish; all replicas of a shard \
must end in the same state, without a lock. With faults of disks, a transaction is answered when it is on the disks of \
all replicas; nodes restart with what is on their disks, and faults are skipped that would leave a shard on no \
undamaged disk. After the last fault the clients of every node must commit again. Without \
--workload, the seeds run Smallbank and Retwis in turn; the seeds that crash a node when its log is full run \
new-order of TPC-C.";

/// Options of transactions.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct TxnOptions {
    /// Replicas of each shard, the primary included, 2 to the number of nodes
    #[arg(long, value_name = "N", default_value_t = 2)]
    replication: usize,
    /// Workload: smallbank, retwis, tpcc-new-order or tpcc [default: by the seed]
    #[arg(long, value_name = "WORKLOAD")]
    workload: Option<WorkloadName>,
    /// At the end, crash every replica of one shard: its callers must learn that it is lost, and the other shards must
    /// go on
    #[arg(long)]
    lose_shard: bool,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_txn_bug)]
    planted_bug: Option<weft_txn::PlantedBug>,
}

impl EngineOptions for TxnOptions {
    type Faults = Faults;
    type Figures = TransactionFigures;
    type About = ();

    const KIND: &'static str = "sim txn";
    const NODES: NodesOption =
        NodesOption { help: "Number of nodes, 2 to 16", default: "3", parse: parse::nodes };
    const FAULTS: FaultsOption<Faults> = DISK_FAULTS;
    const AGAIN: &'static str = "commits again";
    const HISTORY: Option<Histories<Found<Self>>> = Some(|found| found.figures.histories.iter().collect());

    fn run(&self, conduct: Conduct<'_, Faults>) -> Result<Found<Self>, Failure> {
        let (nodes, replication) = (conduct.runs.nodes, self.replication);
        if !(2..=nodes).contains(&replication) {
            return Err(Failure::new(format_args!(
                "{nodes} nodes cannot hold {replication} replicas of which one may fail; choose --replication from 2 to --nodes"
            )));
        }
        if self.lose_shard && has_disks(&conduct.runs) {
            return Err(Failure::new(
                "a shard on disks is not lost when its replicas crash; leave out --lose-shard, or the faults of disks",
            ));
        }
        if self.lose_shard && replication == nodes {
            return Err(Failure::new(
                "nothing is left when a shard of all nodes is lost; choose a smaller --replication",
            ));
        }
        conduct.of(&TransactionsSubject {
            workload: self.workload,
            replication,
            lose_shard: self.lose_shard,
            keep_histories: conduct.keeps_histories,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        let line = line
            .option("--replication", self.replication)
            .given("--workload", self.workload)
            .flag("--lose-shard", self.lose_shard);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_txn::PlantedBug::name));
        line
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        let figures = &found.figures;
        vec![
            ("committed", figures.committed),
            ("refused", figures.aborted),
            ("unanswered", figures.unanswered),
            ("of these done", figures.unknown_but_seen),
            ("views", found.views),
            ("restarts", figures.restarts),
        ]
    }

    fn cluster(&self, found: &Found<Self>) -> Option<(&'static str, String)> {
        let TransactionFigures { replication, workloads, .. } = &found.figures;
        let nodes = format!("{} nodes, {replication} replicas of each shard", found.nodes);
        Some(("cluster", format!("{nodes}, {}", list(workloads))))
    }

    fn notes(&self, found: &Found<Self>) -> Vec<(&'static str, String)> {
        let TransactionFigures { step_crashes, unavailable, power_cuts, .. } = &found.figures;
        let lost = format!("{} calls were told so", grouped(*unavailable));
        let lost = self.lose_shard.then_some(("lost shards", lost));
        let disks = power_cuts.map(|cuts| ("disks", format!("{} cuts of power", grouped(cuts))));
        [("crashed at", list(step_crashes))].into_iter().chain(lost).chain(disks).collect()
    }
}
