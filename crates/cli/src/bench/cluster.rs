//! `weft bench cluster`: all engines of a running cluster under load at once.

use std::path::PathBuf;

use clap::Args;
use weft_client::Cluster;
use weft_cluster::ClusterConfig;
use weft_harness::progress::Progress;
use weft_net::Stop;
use weft_processes::running::{ACCOUNTS_MIN, ClusterLoad, ClusterResult};
use weft_time::Duration;

use crate::client::CONFIG;
use crate::envelope::Basis;
use crate::failure::Failure;
use crate::parse;
use crate::replay::CommandLine;
use crate::task::{Histories, IS_GIVEN, QUICK, Task};

const CLIENTS: u32 = 3;
const SECONDS: Duration = Duration::from_secs(10);
const GIVE_UP: Duration = Duration::from_secs(3);
const SEED: u64 = 7;

/// Definitions of the calls and checks.
const DEFINITIONS: &str = "\
Each client calls all engines that the cluster has at the same time: it reads and writes keys, calls the procedures \
`ledger` of weft.toml (transfers and deposits between accounts 0 to 4 of each shard; another set is refused), updates \
counter and account objects, appends to the logs, acquires and releases locks, and proposes values to the consensus \
in rounds. The command changes the data of the cluster. You may kill nodes and restart them while it runs. All nodes \
must be running when the load ends, after --seconds or at SIGINT or SIGTERM, because the checks read every replica.

Checks: keys are linearizable; the sum of all accounts is constant, and every deposit took effect exactly once and in \
order; every replica of an object has all acknowledged calls; each log has every acknowledged append exactly once, in \
one order; decisions have one order; no two clients hold a lock at the same time. The checks do not require that the \
consensus in rounds decides anything.";

/// Parameters of the load.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ClusterOptions {
    /// Configuration file of the cluster
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Number of clients, 1 to 64, each of which calls every engine
    #[arg(long, value_name = "N", default_value_t = CLIENTS, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Duration in seconds, unless SIGINT or SIGTERM ends the load earlier [default: 10]
    #[arg(long, value_name = "S", value_parser = parse::seconds, default_value_if(QUICK, IS_GIVEN, "1"))]
    seconds: Option<Duration>,
    /// Seed of the calls and their arguments; how calls interleave depends on timing
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

impl Task for ClusterOptions {
    type Found = ClusterResult;

    const KIND: &'static str = "bench cluster";
    const BASIS: Basis = Basis::Real;
    const HISTORY: Option<Histories<ClusterResult>> =
        Some(|result| result.engines.iter().filter_map(|engine| engine.history.as_ref()).collect());

    fn work(&self) -> Result<ClusterResult, Failure> {
        let config = ClusterConfig::load(&self.config)?;
        if let Some(transactions) = &config.engines.transactions {
            let (procedures, size) = (&transactions.procedures, transactions.size);
            if procedures != "ledger" || size < ACCOUNTS_MIN {
                return Err(Failure::at(
                    &self.config,
                    format_args!(
                        "[transactions] procedures = \"{procedures}\", size = {size}: the load calls those of \
                         \"ledger\", of size {ACCOUNTS_MIN} or more"
                    ),
                ));
            }
        }
        let load = ClusterLoad {
            cluster: Cluster { give_up: GIVE_UP, ..Cluster::from(&config) },
            clients: self.clients,
            length: self.seconds.unwrap_or(SECONDS),
            seed: self.seed,
        };
        let mut progress = Progress::new("calls", 0);
        Ok(load.run(self.command().to_string(), Stop::on_signals()?, |done| progress.set(done))?)
    }

    fn to_text(&self, result: &ClusterResult) -> String {
        result.to_text()
    }

    fn holds(&self, result: &ClusterResult) -> bool {
        result.holds()
    }
}

impl ClusterOptions {
    fn command(&self) -> CommandLine {
        let seconds = parse::seconds_text(self.seconds.unwrap_or(SECONDS));
        CommandLine::new("weft bench cluster")
            .option("--config", self.config.display())
            .unless(CLIENTS, "--clients", self.clients)
            .unless(parse::seconds_text(SECONDS), "--seconds", seconds)
            .option("--seed", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: ClusterOptions,
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "cluster --config weft.toml --seed 7",
            "cluster --config other.toml --clients 2 --seconds 60 --seed 9",
        ] {
            let options = Command::parse_from(line.split(' ')).options;
            assert_eq!(options.command().to_string(), format!("weft bench {line}"));
        }
    }
}
