//! `weft bench txn-steps`: measures how much each part of the design adds to throughput and takes from
//! latency.

use clap::Args;
use weft_applications::{WorkloadChoice, WorkloadName};
use weft_bench::txn::{StepsBench, StepsResult};
use weft_harness::progress::Progress;

use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

use super::txn_servers::{Servers, outstanding};

const SIZE: u64 = 100_000;
const TRANSACTIONS: u64 = 60_000;
const OUTSTANDING: &str = "1,64,256";

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Reproduces Xenic's figure 9. The baseline runs engines on the cards' cores but works as DrTM+H does: one request \
reads a key and another one locks it, procedures run on the calling host, each message has a frame of its own, and a \
core waits for each copy between card and host. Each step adds one part of the design. Throughput is the peak of \
Retwis over all loads; latency is the median of Smallbank at the lowest load, where frames and copies make no \
difference.

`weft bench txn --without` measures any other combination. All times are virtual; docs/costs.md lists the cost \
constants with their sources. Unless --unchecked is given, every run is checked for strict serializability.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct StepsOptions {
    /// Retwis keys and Smallbank accounts per server
    #[arg(long, value_name = "N", default_value_t = SIZE, default_value_if(QUICK, IS_GIVEN, "2000"))]
    size: u64,
    /// Number of transactions of all clients together, in each measurement: the baseline and every step
    #[arg(long = "ops", alias = "transactions", value_name = "N", default_value_t = TRANSACTIONS, default_value_if(QUICK, IS_GIVEN, "100"), value_parser = clap::value_parser!(u64).range(100..=1_000_000_000))]
    transactions: u64,
    /// Loads: outstanding transactions per server, ascending; latency is measured at the first
    #[arg(long, value_name = "N,N,...", default_value = OUTSTANDING, default_value_if(QUICK, IS_GIVEN, "1,4"))]
    outstanding: String,
    #[command(flatten)]
    servers: Servers,
}

impl Task for StepsOptions {
    type Found = StepsResult;

    const KIND: &'static str = "bench txn-steps";

    fn work(&self) -> Result<StepsResult, Failure> {
        let bench = self.bench()?;
        let mut progress = Progress::new("transactions", bench.transactions());
        Ok(bench.run(self.command().to_string(), |done| progress.set(done)))
    }

    fn to_text(&self, result: &StepsResult) -> String {
        result.to_text()
    }

    fn holds(&self, result: &StepsResult) -> bool {
        result.checked != "violation"
    }
}

impl StepsOptions {
    fn bench(&self) -> Result<StepsBench, Failure> {
        let size = self.size;
        let choose = |name| {
            WorkloadChoice::new(name, size).map_err(|error| Failure::new(format!("--size {size}: {error}")))
        };
        let workloads = [choose(WorkloadName::Retwis)?, choose(WorkloadName::Smallbank)?];
        let each = self.servers.bench(workloads[0], self.transactions, outstanding(&self.outstanding)?)?;
        Ok(StepsBench { workloads, each })
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let line = CommandLine::new("weft bench txn-steps")
            .unless(SIZE, "--size", self.size)
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
    struct Steps {
        #[command(flatten)]
        options: StepsOptions,
    }

    fn parse(line: &str) -> StepsOptions {
        Steps::try_parse_from(line.split(' ')).unwrap().options
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "txn-steps --seed 7",
            "txn-steps --size 500 --ops 5000 --outstanding 1,2 --nodes 4 --replication 2 --link 50 --unchecked --seed 9",
        ] {
            assert_eq!(parse(line).command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for (line, says) in [
            ("txn-steps --nodes 2", "cannot hold 3 replicas"),
            ("txn-steps --outstanding 0", "ascending"),
            ("txn-steps --size 2000000", "retwis takes a size of 10 to 1000000"),
        ] {
            let error = parse(line).bench().unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
