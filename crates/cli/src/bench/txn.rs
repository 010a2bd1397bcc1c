//! `weft bench txn`: distributed transactions under a workload, checked for strict serializability.

use clap::Args;
use weft_bench::progress::Progress;
use weft_bench::txn::{System, TxnBench, Without, WorkloadChoice, WorkloadName, check_loads};

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};
use crate::parse;
use crate::replay::CommandLine;

const NODES: usize = 6;
const REPLICATION: usize = 3;
const TRANSACTIONS: u64 = 200_000;
const OUTSTANDING: &str = "1,8,32,128,512";
const LINK_GB_PER_S: u64 = 100;
const SEED: u64 = 7;

/// What is measured how.
const DEFINITIONS: &str = "\
Each server is the primary of one shard and a backup of others, and has so many clients, each with one transaction under way, at one \
load after the other. Throughput is committed transactions a second, per server; of tpcc, new orders. Latency is from a \
client's first call to the last answer, with all attempts that gave way. What a transaction uses (bytes, frames, messages, copies by DMA) is what \
all servers use, per committed transaction. The first fifth of the transactions at each load does not count. \
`weft` has the engine on the 24 cores of a SmartNIC, whose index knows all objects when the measurement begins. The others have it in a process of the host \
beside an RDMA card whose rate is never the limit: `fasst` by messages alone, `drtm-h` with READs at remembered addresses, locks by messages and logs that are WRITTEN, `drtm-h-nc` without \
the addresses, `drtm-r` with ATOMICs and WRITEs for the rest, too; they commit as their papers say, and survive no failure. All times are virtual; docs/costs.md says what they rest on. The whole run is checked for strict serializability, \
and what is in the tables in the end against the workload's own invariants.";

/// What to measure and where the result goes.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct TxnArguments {
    #[command(flatten)]
    options: TxnOptions,
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What decides the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
struct TxnOptions {
    /// What is run: smallbank, retwis, tpcc-new-order or tpcc
    #[arg(long, value_name = "NAME")]
    workload: WorkloadName,
    /// Accounts, keys or warehouses of each server [default: 240000, 100000 or 4; Xenic's evaluation has 2400000, 1000000 or 72]
    #[arg(long, value_name = "N")]
    size: Option<u64>,
    /// Whose design: weft (on the cores of a SmartNIC), or fasst, drtm-h, drtm-h-nc or drtm-r (in a process of the host beside an RDMA card)
    #[arg(long, value_name = "NAME", default_value_t)]
    system: System,
    /// Servers, 1 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::nodes)]
    nodes: usize,
    /// Replicas of each shard, at most as many as servers
    #[arg(long, value_name = "N", default_value_t = REPLICATION, value_parser = parse::positive)]
    replication: usize,
    /// Transactions of all clients together, at all loads
    #[arg(long, value_name = "N", default_value_t = TRANSACTIONS, value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    transactions: u64,
    /// Transactions under way at each server, one load after the other, ascending
    #[arg(long, value_name = "N,N,...", default_value = OUTSTANDING)]
    outstanding: String,
    /// Threads of the program on each host [default: 32, two on each of 16 cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    host_threads: Option<u32>,
    /// Rate of each server's link in Gb/s
    #[arg(long, value_name = "N", default_value_t = LINK_GB_PER_S, value_parser = clap::value_parser!(u64).range(1..=800))]
    link: u64,
    /// Leave parts out, to see what they are good for: multi-hop, card-execution, aggregation, dma-vectors
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    without: Vec<Without>,
    /// Do not check for strict serializability, which takes half of the time
    #[arg(long)]
    unchecked: bool,
    /// Decides transactions and order
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

impl TxnArguments {
    /// Measures and delivers what came of it.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let Self { options, json } = self;
        output::check_json(json.as_ref())?;
        let bench = options.bench()?;
        let mut progress = Progress::new("transactions", options.transactions);
        let result = bench.run(options.command().to_string(), |done| progress.set(done));
        drop(progress);
        output::deliver(json.as_ref(), || result.to_json(), &result.to_text())?;
        Ok(if result.checked == "violation" { Verdict::Violated } else { Verdict::Good })
    }
}

impl TxnOptions {
    fn bench(&self) -> Result<TxnBench, Failure> {
        if self.replication > self.nodes {
            let (nodes, replicas) = (self.nodes, self.replication);
            return Err(Failure::new(format!(
                "{nodes} servers cannot hold {replicas} replicas of a shard; choose --replication 1 to {nodes}"
            )));
        }
        let loads: Result<Vec<usize>, _> =
            self.outstanding.split(',').map(|load| load.trim().parse()).collect();
        let outstanding = loads.unwrap_or_default();
        check_loads(&outstanding)
            .map_err(|error| Failure::new(format!("--outstanding {}: {error}", self.outstanding)))?;
        let size = self.size.unwrap_or(self.workload.default_size());
        let workload = WorkloadChoice::new(self.workload, size)
            .map_err(|error| Failure::new(format!("--size {size}: {error}")))?;
        if self.system != System::Weft
            && let Some(part) = self.without.first()
        {
            return Err(Failure::new(format!(
                "{} has no {part} to leave out; choose --system weft",
                self.system
            )));
        }
        Ok(TxnBench {
            workload,
            system: self.system,
            nodes: self.nodes,
            replication: self.replication,
            transactions: self.transactions,
            outstanding,
            host_threads: self.host_threads,
            link_bits_per_s: self.link * 1_000_000_000,
            without: self.without.clone(),
            checks: !self.unchecked,
            seed: self.seed,
        })
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let without: Vec<_> = self.without.iter().map(|part| part.name()).collect();
        CommandLine::new("weft bench txn")
            .option("--workload", self.workload)
            .given("--size", self.size)
            .unless(System::Weft, "--system", self.system)
            .unless(NODES, "--nodes", self.nodes)
            .unless(REPLICATION, "--replication", self.replication)
            .unless(TRANSACTIONS, "--transactions", self.transactions)
            .unless(OUTSTANDING, "--outstanding", self.outstanding.as_str())
            .given("--host-threads", self.host_threads)
            .unless(LINK_GB_PER_S, "--link", self.link)
            .given("--without", (!without.is_empty()).then(|| without.join(",")))
            .flag("--unchecked", self.unchecked)
            .option("--seed", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Txn {
        #[command(flatten)]
        arguments: TxnArguments,
    }

    fn parse(line: &str) -> Result<TxnOptions, clap::Error> {
        Txn::try_parse_from(line.split(' ')).map(|parsed| parsed.arguments.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "txn --workload smallbank --seed 7",
            "txn --workload tpcc --size 2 --system fasst --nodes 4 --replication 2 --transactions 5000 --outstanding 1,2 --host-threads 8 --link 50 --unchecked --seed 9",
            "txn --workload retwis --without multi-hop,aggregation --seed 7",
        ] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "txn",
            "txn --workload bank",
            "txn --workload retwis --system farm",
            "txn --workload retwis --nodes 17",
            "txn --workload retwis --without thinking",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for (line, says) in [
            ("txn --workload retwis --nodes 2", "cannot hold 3 replicas"),
            ("txn --workload retwis --outstanding 8,4", "ascending"),
            ("txn --workload smallbank --size 9999999", "size of 2 to 2400000"),
            ("txn --workload retwis --system fasst --without multi-hop", "no multi-hop"),
        ] {
            let error = parse(line).unwrap().bench().unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
