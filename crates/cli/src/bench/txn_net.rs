//! `weft bench txn-net`: measures transactions across real processes, checked for strict serializability.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use weft_applications::WorkloadName;
use weft_applications::{ApplicationName, application};
use weft_harness::progress::Progress;
use weft_net::Stop;
use weft_processes::txn::{NetTxnBench, NetTxnResult};
use weft_time::Duration;

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::parse;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

const NODES: usize = 3;
const CLIENTS: u32 = 32;
const SIZE: u64 = 10_000;
const SECONDS: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_ms(500);
const SPIN: Duration = Duration::from_us(50);
const SEED: u64 = 7;

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Each node is a process of its own with one shard, and so is the membership service. All clients share one port and \
one thread, with one outstanding transaction each. Throughput counts the transactions, after the first half second, \
that committed or ended by a decision of their procedure (for example, too little money). Latency is from a client's \
first call to its last answer. A transaction is committed when all live replicas have logged its writes: in memory, or \
with --data-dir on disk.

All reads and writes are recorded during the measurement. At the end the history of all clients is checked for strict \
serializability, the final state of every replica against that history, and the workload's invariants.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct TxnNetOptions {
    /// Workload: smallbank or retwis
    #[arg(long, value_name = "NAME", default_value = "smallbank")]
    workload: ApplicationName,
    /// Accounts or keys per shard
    #[arg(long, value_name = "N", default_value_t = SIZE, default_value_if(QUICK, IS_GIVEN, "1000"))]
    size: u64,
    /// Number of node processes, 1 to 16, each with one shard
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Replicas of each shard, the primary included [default: 3, or the number of nodes if smaller]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    replication: Option<usize>,
    /// Number of clients, 1 to 1024, each with one outstanding transaction
    #[arg(long, value_name = "N", default_value_t = CLIENTS, default_value_if(QUICK, IS_GIVEN, "2"), value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Duration in seconds, including the unmeasured first half second [default: 5]
    #[arg(long, value_name = "S", value_parser = parse::seconds, default_value_if(QUICK, IS_GIVEN, "1"))]
    seconds: Option<Duration>,
    /// Keep the nodes' data on disk, in a folder in DIR that is removed at the end [default: in memory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Kill this node (SIGKILL), or all at once, after a third of the duration and restart it after half of it
    #[arg(long, value_name = "NODE|all")]
    kill: Option<Victims>,
    /// Kill and restart so many times, each in an equal part of the duration
    #[arg(long, value_name = "N", default_value_t = 1, requires = "kill", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    kills: u32,
    /// How long a process polls before it sleeps, in µs; 0 where other processes need the cores [default: 50]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    spin_us: Option<u64>,
    /// Seed of the calls and their arguments; how calls interleave depends on timing
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

/// Which nodes are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victims {
    One(usize),
    All,
}

impl FromStr for Victims {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::One).map_err(|_| "give the number of a node, or all"),
        }
    }
}

impl fmt::Display for Victims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(node) => node.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

impl Task for TxnNetOptions {
    type Found = NetTxnResult;

    const KIND: &'static str = "bench txn-net";
    const BASIS: Basis = Basis::Real;

    fn work(&self) -> Result<NetTxnResult, Failure> {
        let bench = self.bench()?;
        let mut progress = Progress::new("transactions", 0);
        Ok(bench.run(self.command().to_string(), Stop::on_signals()?, |done| progress.set(done))?)
    }

    fn to_text(&self, result: &NetTxnResult) -> String {
        result.to_text()
    }

    fn holds(&self, result: &NetTxnResult) -> bool {
        result.holds()
    }
}

impl TxnNetOptions {
    fn bench(&self) -> Result<NetTxnBench, Failure> {
        let (nodes, size) = (self.nodes, self.size);
        let replicas = self.replication.unwrap_or(weft_cluster::DEFAULT_REPLICAS.min(nodes));
        if replicas > nodes {
            return Err(Failure::new(format!(
                "{nodes} nodes cannot hold {replicas} replicas of a shard; choose --replication 1 to {nodes}"
            )));
        }
        if self.workload == ApplicationName::Ledger {
            let names = [WorkloadName::Smallbank, WorkloadName::Retwis].map(WorkloadName::name).join(" or ");
            return Err(Failure::new(format!(
                "ledger is an example to call by hand, not a load; choose {names}"
            )));
        }
        application(self.workload.name(), size, nodes)
            .map_err(|error| Failure::new(format!("--size {size}: {error}")))?;
        let data_dir = self.data_dir()?;
        let kill = match self.kill {
            None => Vec::new(),
            Some(Victims::One(node)) if node >= nodes => {
                return Err(Failure::new(format!("node {node} cannot be killed: there are {nodes} nodes")));
            }
            Some(Victims::One(_)) if replicas == 1 && data_dir.is_none() => {
                return Err(Failure::new(
                    "a node that holds the only replica of a shard in memory cannot be killed; choose --replication 2 \
                     or more, or give --data-dir",
                ));
            }
            Some(Victims::All) if data_dir.is_none() => {
                return Err(Failure::new(
                    "all nodes cannot be killed at once while their data is in memory; give --data-dir",
                ));
            }
            Some(Victims::One(node)) => vec![node],
            Some(Victims::All) => (0..nodes).collect(),
        };
        let length = self.seconds.unwrap_or(SECONDS);
        if length <= WARM_UP {
            return Err(Failure::new("the first half second is not measured; choose --seconds 1 or more"));
        }
        Ok(NetTxnBench {
            application: self.workload,
            size,
            nodes,
            replicas,
            clients: self.clients,
            length,
            warm_up: WARM_UP,
            data_dir,
            kill,
            kills: if self.kill.is_some() { self.kills } else { 0 },
            spin: self.spin_us.map_or(SPIN, Duration::from_us),
            seed: self.seed,
        })
    }

    /// The folder for the nodes' data, as a path that does not depend on where a node runs.
    fn data_dir(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(folder) = &self.data_dir else { return Ok(None) };
        if !folder.is_dir() {
            return Err(Failure::at(folder, "there is no such folder; create it, or choose another"));
        }
        let whole = std::path::absolute(folder).map_err(|error| Failure::at(folder, error))?;
        match whole.to_str() {
            Some(_) => Ok(Some(whole)),
            None => Err(Failure::at(folder, "its name is not UTF-8; choose another")),
        }
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        CommandLine::new("weft bench txn-net")
            .option("--workload", self.workload)
            .option("--size", self.size)
            .unless(NODES, "--nodes", self.nodes)
            .given("--replication", self.replication)
            .option("--clients", self.clients)
            .given("--seconds", self.seconds.map(parse::seconds_text))
            .given("--data-dir", self.data_dir.as_ref().map(|folder| folder.display()))
            .given("--kill", self.kill)
            .unless(1, "--kills", self.kills)
            .given("--spin-us", self.spin_us)
            .option("--seed", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TxnNet {
        #[command(flatten)]
        options: TxnNetOptions,
    }

    fn parse(line: &str) -> Result<TxnNetOptions, clap::Error> {
        TxnNet::try_parse_from(line.split(' ')).map(|parsed| parsed.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "txn-net --workload smallbank --size 10000 --clients 32 --seed 7",
            "txn-net --workload retwis --size 500 --nodes 5 --replication 2 --clients 8 --seconds 3 --kill 4 --spin-us 0 --seed 1",
            "txn-net --workload smallbank --size 10000 --clients 32 --data-dir data --kill all --kills 3 --seed 7",
        ] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        assert!(parse("txn-net --workload tpcc").is_err());
        assert!(parse("txn-net --kill none").is_err());
        assert!(parse("txn-net --kills 2").is_err(), "of which node?");
        for (line, says) in [
            ("txn-net --workload ledger", "an example to call by hand"),
            ("txn-net --nodes 2 --replication 3", "cannot hold 3 replicas"),
            ("txn-net --kill 3", "there are 3 nodes"),
            ("txn-net --kill 0 --replication 1", "the only replica"),
            ("txn-net --kill all", "while their data is in memory"),
            ("txn-net --data-dir nowhere/here", "there is no such folder"),
            ("txn-net --size 1", "size of 2 to 2400000"),
            ("txn-net --seconds 0.5", "first half second"),
        ] {
            let error = parse(line).unwrap().bench().unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
