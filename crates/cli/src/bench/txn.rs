//! `weft bench txn`: measures distributed transactions under a workload, checked for strict serializability.

use clap::Args;
use weft_applications::{WorkloadChoice, WorkloadName};
use weft_bench::txn::{System, TxnBench, TxnResult, Without};
use weft_harness::progress::Progress;
use weft_sim::{Fault, FaultKind, FaultKinds, FaultPlan};

use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::{Files, IS_GIVEN, QUICK, Task};
use crate::trace;

use super::txn_servers::{FaultyServersGround, QUICK_SIZE, Servers, outstanding};

const TRANSACTIONS: u64 = 200_000;
const OUTSTANDING: &str = "1,8,32,128,512";

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Each server is the primary of one shard and a backup of others. Each server has as many clients as the load says, \
with one outstanding transaction each; the loads run one after the other. Throughput is committed transactions per \
second and server; for tpcc, new orders. Latency is from a client's first call to the last answer, including all \
retries.

Each load has an equal share of --ops. It warms up until a fifth of the share has ended and each client has completed \
a transaction (if some clients starve, until the whole share has ended). The measurement window then lasts until the \
other four fifths have begun. A transaction counts if it begins in the window, however late it ends, so that long \
transactions are not under-represented; clients continue meanwhile, for at most the length of the window once more. \
Bytes, frames, messages and DMA copies are those of all servers within the window, per committed transaction.

Systems: `weft` runs the engine on the 24 cores of a SmartNIC (--nic-cores uses fewer), whose index of the host's \
objects is complete when the measurement begins. The others run in a host process beside an RDMA card whose rate is \
never the limit: `fasst` with messages only; `drtm-h` with READs at cached addresses, locks by messages and logs by \
WRITE; `drtm-h-nc` without cached addresses; `drtm-r` with atomics and WRITEs for locks and commits too. They commit \
as their papers describe and do not survive failures. Under --faults all of them retransmit; no server crashes, \
because the membership stays as it is.

All times are virtual; docs/costs.md lists the cost constants with their sources. Unless --unchecked is given, every \
run is checked for strict serializability, and the final tables against the workload's invariants.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct TxnOptions {
    /// Workload: smallbank, retwis, tpcc-new-order or tpcc
    #[arg(long, value_name = "NAME")]
    workload: WorkloadName,
    /// Size per server: accounts of smallbank [default: 240000], keys of retwis [default: 100000] or warehouses of
    /// tpcc and tpcc-new-order [default: 4]; Xenic's evaluation has 2400000, 1000000 and 72
    #[arg(long, value_name = "N")]
    size: Option<u64>,
    /// TPC-C items, and stock rows per warehouse [default: 10000; the specification has 100000]
    #[arg(long, value_name = "N")]
    items: Option<u32>,
    /// TPC-C customers per district, each with an initial order [default: one per 33 items; the specification has 3000]
    #[arg(long, value_name = "N")]
    customers: Option<u32>,
    /// System: weft (on the cores of a SmartNIC), or fasst, drtm-h, drtm-h-nc or drtm-r (in a host process beside an
    /// RDMA card)
    #[arg(long, value_name = "NAME", default_value_t)]
    system: System,
    #[command(flatten)]
    servers: Servers<FaultyServersGround>,
    /// Number of transactions of all clients together, over all loads
    #[arg(long = "ops", alias = "transactions", value_name = "N", default_value_t = TRANSACTIONS, default_value_if(QUICK, IS_GIVEN, "400"), value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    transactions: u64,
    /// Loads: outstanding transactions per server, ascending
    #[arg(long, value_name = "N,N,...", default_value = OUTSTANDING, default_value_if(QUICK, IS_GIVEN, "1,4"))]
    outstanding: String,
    /// Threads of the application on each host [default: 32, two on each of 16 cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    host_threads: Option<u32>,
    /// SmartNIC cores that run the engine of weft [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    nic_cores: Option<u32>,
    /// Disable parts of the design (ablation), separated by commas: multi-hop (a transaction on one other shard,
    /// alone or with the caller's own, runs at that shard's primary), card-execution (procedures run on the NIC),
    /// host-execution (hosts run what concerns only their own shards), combined-requests (one request reads and
    /// locks a key; without it, no multi-hop either), log-differences (replicas get the difference of a value),
    /// own-keys-order (a coordinator first tests whether its own keys are locked, and last reads those that it only
    /// reads), aggregation (messages share frames), dma-vectors (copies are submitted in vectors), asynchronous-dma
    /// (a core continues while a copy is in progress; without it, no dma-vectors either)
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    without: Vec<Without>,
}

impl Task for TxnOptions {
    type Found = TxnResult;

    const KIND: &'static str = "bench txn";
    const PERFETTO: Option<fn(&TxnResult) -> Vec<u8>> =
        Some(|result| trace::of_activity(&result.measured.activity));

    fn work_for(&self, files: &Files<Self>) -> Result<TxnResult, Failure> {
        let size = self.size.or_else(|| files.is_quick.then(|| QUICK_SIZE.min(self.workload.default_size())));
        Self { size, ..self.clone() }.work()
    }

    fn work(&self) -> Result<TxnResult, Failure> {
        let (bench, plan) = (self.bench()?, self.plan()?);
        let mut progress = Progress::new("transactions", self.transactions);
        let result = bench.run(&plan, self.command().to_string(), |done| progress.set(done));
        result.map_err(|error| self.servers.ground.at_plan(error))
    }

    fn to_text(&self, result: &TxnResult) -> String {
        result.to_text()
    }

    fn holds(&self, result: &TxnResult) -> bool {
        result.checked != "violation"
    }
}

impl TxnOptions {
    /// The fault plan. It must contain no crashes: servers have one view for the whole run, so crashes are measured by
    /// another command.
    fn plan(&self) -> Result<FaultPlan, Failure> {
        let ground = &self.servers.ground;
        let plan = ground.plan()?;
        let stops = |fault: &&Fault| {
            let kind = fault.kind();
            matches!(kind, FaultKind::Crash | FaultKind::Outage) || FaultKinds::DISK.contains(kind)
        };
        match plan.faults.iter().find(stops) {
            None => Ok(plan),
            Some(fault) => Err(ground.at_plan(format!(
                "no server meets {} here; choose `weft bench compare --engines txn --profile cores --faults`, or leave it out",
                fault.kind()
            ))),
        }
    }

    fn bench(&self) -> Result<TxnBench, Failure> {
        let size = self.size.unwrap_or(self.workload.default_size());
        let mut workload = WorkloadChoice::new(self.workload, size)
            .map_err(|error| Failure::new(format!("--size {size}: {error}")))?;
        if let Some(items) = self.items {
            workload = workload
                .with_items(items)
                .map_err(|error| Failure::new(format!("--items {items}: {error}")))?;
        }
        if let Some(customers) = self.customers {
            workload = workload
                .with_customers(customers)
                .map_err(|error| Failure::new(format!("--customers {customers}: {error}")))?;
        }
        let only_weft = |part: &dyn std::fmt::Display| {
            Err(Failure::new(format!("{} has no {part}; choose --system weft", self.system)))
        };
        if self.system != System::Weft {
            if let Some(part) = self.without.first() {
                return only_weft(&format!("{part} to leave out"));
            }
            if self.nic_cores.is_some() {
                return only_weft(&"cores on its card");
            }
        }
        let each = self.servers.bench(workload, self.transactions, outstanding(&self.outstanding)?)?;
        Ok(TxnBench {
            system: self.system,
            host_threads: self.host_threads,
            nic_cores: self.nic_cores,
            without: self.without.clone(),
            ..each
        })
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let without: Vec<_> = self.without.iter().map(|part| part.name()).collect();
        let line = CommandLine::new("weft bench txn")
            .option("--workload", self.workload)
            .given("--size", self.size)
            .given("--items", self.items)
            .given("--customers", self.customers)
            .unless(System::Weft, "--system", self.system)
            .unless(TRANSACTIONS, "--ops", self.transactions)
            .unless(OUTSTANDING, "--outstanding", self.outstanding.as_str())
            .given("--host-threads", self.host_threads)
            .given("--nic-cores", self.nic_cores)
            .given("--without", (!without.is_empty()).then(|| without.join(",")));
        self.servers.replay(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Txn {
        #[command(flatten)]
        options: TxnOptions,
    }

    fn parse(line: &str) -> Result<TxnOptions, clap::Error> {
        Txn::try_parse_from(line.split(' ')).map(|parsed| parsed.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "txn --workload smallbank --seed 7",
            "txn --workload smallbank --system drtm-h --faults plan.toml --seed 7",
            "txn --workload tpcc --size 2 --items 500 --customers 20 --system fasst --ops 5000 --outstanding 1,2 --host-threads 8 --nodes 4 --replication 2 --link 50 --unchecked --seed 9",
            "txn --workload retwis --nic-cores 12 --without multi-hop,aggregation,asynchronous-dma --seed 7",
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
            ("txn --workload retwis --system fasst --nic-cores 4", "no cores on its card"),
            ("txn --workload retwis --items 4000", "retwis has no items"),
            ("txn --workload tpcc --items 4", "100 to 100000 items"),
            ("txn --workload tpcc --customers 15", "10 to 3000 customers"),
            ("txn --workload smallbank --customers 20", "smallbank has no customers"),
        ] {
            let error = parse(line).unwrap().bench().unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
