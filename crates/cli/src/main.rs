//! The `weft` command: benchmarks, fault campaigns, real nodes, reports, and a tour of them all.
//!
//! Every subcommand is a module that turns options into a call of another room and shows what comes of it. Exit codes:
//! 0, all is well; 1, a check found a violation; 2, the command could not do what was asked, and says why in one
//! line.

mod bench;
mod check;
mod demo;
mod failure;
mod faults;
mod kv;
mod memory;
mod output;
mod parse;
mod process;
mod rdt;
mod replay;
mod report;
mod sim;
mod table;
mod task;
mod trace;
mod txn;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weft_bench::kv::real::{CLIENT_COMMAND, MEMBERSHIP_COMMAND, NODE_COMMAND};
use weft_bench::rdma::SERVER_COMMAND;

use crate::failure::{Failure, Verdict};

/// Replication engines for network cards: simulated, checked, and run over real sockets
#[derive(Debug, Parser)]
#[command(name = "weft", version, max_term_width = 110, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take the tour: a cluster, a killed leader, a checked history, real sockets, a report
    Demo(demo::DemoArguments),
    /// Make one measurement
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Run a fault campaign in the simulator: many seeds, each checked
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Check a protocol: exhaustively for few nodes, with random schedules for more
    #[command(subcommand)]
    Check(check::Check),
    /// Replicated data types: why which calls must be coordinated
    #[command(subcommand)]
    Rdt(rdt::Rdt),
    /// Ask a running cluster: get, put, delete, compare-and-set
    Kv(kv::KvArguments),
    /// Call a transaction at a running cluster
    Txn(txn::TxnArguments),
    /// Run one real node: of a key-value cluster, or of one that runs transactions, as its configuration says
    #[command(name = NODE_COMMAND)]
    Start(process::Configured),
    /// Run a membership service that no node embeds
    #[command(name = MEMBERSHIP_COMMAND)]
    Membership(process::Configured),
    /// Show results on one self-contained page
    Report(report::ReportArguments),
    /// The clients of a bench, which starts this process itself
    #[command(name = CLIENT_COMMAND, hide = true)]
    BenchClient(process::Configured),
    /// The server of a bench, which starts this process itself
    #[command(name = SERVER_COMMAND, hide = true)]
    BenchRdmaServer(process::Arguments),
}

impl Command {
    fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Bench(bench) => bench.run(),
            Self::Demo(arguments) => arguments.run(),
            Self::Sim(sim) => sim.run(),
            Self::Check(check) => check.run(),
            Self::Rdt(rdt) => rdt.run(),
            Self::Kv(arguments) => arguments.run(),
            Self::Txn(arguments) => arguments.run(),
            Self::Start(configured) => configured.run_node(),
            Self::Membership(configured) => configured.run_membership(),
            Self::Report(arguments) => arguments.run(),
            Self::BenchClient(configured) => configured.run_client(),
            Self::BenchRdmaServer(arguments) => arguments.run_rdma_server(),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let result = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli.command.run(),
        Err(error) if !error.use_stderr() => output::print(&error.to_string()).map(|()| Verdict::Good),
        Err(error) => Err(Failure::of_arguments(&error, &failure::subcommand::<Cli>(&arguments))),
    };
    match result {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            eprintln!("weft: {failure}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
