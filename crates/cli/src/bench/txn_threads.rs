//! `weft bench txn-threads`: finds how few threads and cores reach nearly the throughput of all.

use clap::Args;
use weft_applications::{WorkloadChoice, WorkloadName};
use weft_bench::txn::{ThreadsBench, ThreadsResult};
use weft_harness::progress::Progress;

use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::{Files, IS_GIVEN, QUICK, Task};

use super::txn_servers::{QUICK_SIZE, Servers, outstanding};

const WORKLOADS: &str = "tpcc-new-order,retwis,smallbank";
const TRANSACTIONS: u64 = 40_000;
const OUTSTANDING: &str = "64,256";

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Reproduces table 3 of the Xenic paper for `weft`, `drtm-h` and `fasst`. The peak is the highest throughput of all \
loads with 32 threads on each host and, for `weft`, all cores of each NIC. The command then finds the fewest host \
threads that keep 95 % of the peak and, for `weft`, also the fewest NIC cores; each is reduced alone, as in the paper \
(both together may fall below 95 %). The search assumes that throughput does not fall with more threads, so it does \
not try every number. Normalised: one NIC core counts as 0.31 host threads, the ratio of their Coremark scores.

All times are virtual; docs/costs.md lists the cost constants with their sources. Unless --unchecked is given, every \
run is checked for strict serializability.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ThreadsOptions {
    /// Workloads: any of smallbank, retwis, tpcc-new-order and tpcc
    #[arg(long = "workload", alias = "workloads", value_name = "NAME,NAME,...", value_delimiter = ',', default_value = WORKLOADS, default_value_if(QUICK, IS_GIVEN, "smallbank"))]
    workloads: Vec<WorkloadName>,
    /// Accounts, keys or warehouses per server, with a single workload [default: as in weft bench txn]
    #[arg(long, value_name = "N")]
    size: Option<u64>,
    /// TPC-C items, and stock rows per warehouse [default: as in weft bench txn]
    #[arg(long, value_name = "N")]
    items: Option<u32>,
    /// Number of transactions of all clients together, in each run
    #[arg(long = "ops", alias = "transactions", value_name = "N", default_value_t = TRANSACTIONS, default_value_if(QUICK, IS_GIVEN, "100"), value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    transactions: u64,
    /// Loads: outstanding transactions per server, ascending
    #[arg(long, value_name = "N,N,...", default_value = OUTSTANDING, default_value_if(QUICK, IS_GIVEN, "1,4"))]
    outstanding: String,
    #[command(flatten)]
    servers: Servers,
}

impl Task for ThreadsOptions {
    type Found = ThreadsResult;

    const KIND: &'static str = "bench txn-threads";

    fn work_for(&self, files: &Files<Self>) -> Result<ThreadsResult, Failure> {
        let quick = match self.workloads.as_slice() {
            [one] if files.is_quick => Some(QUICK_SIZE.min(one.default_size())),
            _ => None,
        };
        Self { size: self.size.or(quick), ..self.clone() }.work()
    }

    fn work(&self) -> Result<ThreadsResult, Failure> {
        let bench = self.bench()?;
        let mut progress = Progress::new("transactions", 0);
        Ok(bench.run(self.command().to_string(), |done| progress.set(done)))
    }

    fn to_text(&self, result: &ThreadsResult) -> String {
        result.to_text()
    }

    fn holds(&self, result: &ThreadsResult) -> bool {
        result.checked != "violation"
    }
}

/// Whether the workload is one of TPC-C's, which have items.
const fn has_items(name: WorkloadName) -> bool {
    matches!(name, WorkloadName::TpccNewOrder | WorkloadName::Tpcc)
}

impl ThreadsOptions {
    fn bench(&self) -> Result<ThreadsBench, Failure> {
        if let (Some(size), true) = (self.size, self.workloads.len() > 1) {
            let error =
                format!("--size {size}: workloads differ in what they count; choose one of --workload");
            return Err(Failure::new(error));
        }
        if let (Some(items), false) = (self.items, self.workloads.iter().any(|name| has_items(*name))) {
            return Err(Failure::new(format!(
                "--items {items}: none of the workloads has items; choose tpcc-new-order or tpcc of --workload"
            )));
        }
        let workloads: Result<Vec<_>, Failure> =
            self.workloads.iter().map(|name| self.choose(*name)).collect();
        let workloads = workloads?;
        let each = self.servers.bench(workloads[0], self.transactions, outstanding(&self.outstanding)?)?;
        Ok(ThreadsBench { workloads, each })
    }

    fn choose(&self, name: WorkloadName) -> Result<WorkloadChoice, Failure> {
        let size = self.size.unwrap_or(name.default_size());
        let choice = WorkloadChoice::new(name, size)
            .map_err(|error| Failure::new(format!("--size {size}: {error}")))?;
        match self.items {
            Some(items) if has_items(name) => {
                choice.with_items(items).map_err(|error| Failure::new(format!("--items {items}: {error}")))
            }
            _ => Ok(choice),
        }
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let workloads: Vec<_> = self.workloads.iter().map(|name| name.name()).collect();
        let line = CommandLine::new("weft bench txn-threads")
            .unless(WORKLOADS, "--workload", workloads.join(",").as_str())
            .given("--size", self.size)
            .given("--items", self.items)
            .unless(TRANSACTIONS, "--ops", self.transactions)
            .unless(OUTSTANDING, "--outstanding", self.outstanding.as_str());
        self.servers.replay(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Threads {
        #[command(flatten)]
        options: ThreadsOptions,
    }

    fn parse(line: &str) -> ThreadsOptions {
        Threads::try_parse_from(line.split(' ')).unwrap().options
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "txn-threads --seed 7",
            "txn-threads --workload tpcc --size 3 --items 900 --ops 5000 --outstanding 2 --nodes 4 --replication 2 --link 50 --unchecked --seed 9",
        ] {
            assert_eq!(parse(line).command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for (line, says) in [
            ("txn-threads --nodes 2", "cannot hold 3 replicas"),
            ("txn-threads --outstanding 4,4", "ascending"),
            ("txn-threads --size 100", "choose one of --workload"),
            ("txn-threads --items 7", "100 to 100000 items"),
            ("txn-threads --workload retwis,smallbank --items 200", "none of the workloads has items"),
        ] {
            let error = parse(line).bench().unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
