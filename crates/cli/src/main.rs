//! The `weft` command: benchmarks, fault campaigns, real nodes, reports, and a tour of them all.
//!
//! Every subcommand is a module that turns options into a call of another crate and shows the result. Exit codes: 0,
//! all is well; 1, a check found a violation; 2, the command could not do what was asked, and says why in one line; 3,
//! the cluster has answered no: not found, mismatch, refused; 4, something is wrong with the cluster.

mod backup;
mod bench;
mod check;
mod client;
mod csv;
mod demo;
mod envelope;
mod failure;
mod faults;
mod ground;
mod init;
mod kv;
mod lock;
mod log;
mod manual;
mod memory;
mod object;
mod output;
mod parse;
mod process;
mod rdt;
mod recover;
mod replay;
mod report;
mod restore;
mod rounds;
mod run;
mod service;
mod sim;
mod status;
mod supervise;
mod table;
mod task;
mod trace;
mod txn;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use weft_perftest::SERVER_COMMAND;
use weft_processes::{CLIENT_COMMAND, MEMBERSHIP_COMMAND, NODE_COMMAND};

use crate::failure::{Failure, Verdict};

/// Replication, consensus and transactions in the network card: simulate them, check them, run them over UDP
///
/// An engine is one protocol: kv (key-value store), txn (transactions), smr (replicated log; `weft log`), rdt
/// (replicated objects; `weft object`), rounds (consensus in synchronous rounds), lock (locks with fencing tokens).
#[derive(Debug, Parser)]
#[command(name = "weft", version, max_term_width = 110, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what Weft does: crash a simulated node, check the history, run over real sockets, write a report
    Demo(demo::DemoArguments),
    /// Run a benchmark, in the simulator or over real sockets
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Inject faults into simulated clusters, and check each run: one run for each seed
    #[command(subcommand)]
    Sim(sim::Sim),
    /// Model-check a protocol, or check a recorded history
    #[command(subcommand)]
    Check(check::Check),
    /// List the replicated data types, and explain which of their calls need coordination
    #[command(subcommand)]
    Rdt(rdt::Rdt),
    /// Add services of your own to the data path
    #[command(subcommand)]
    Service(service::Service),
    /// Read and write keys of a running cluster
    Kv(kv::KvArguments),
    /// Run a transaction on a running cluster
    Txn(txn::TxnArguments),
    /// Write weft.toml for a new cluster with all engines but rounds
    Init(init::InitArguments),
    /// Acquire, renew and release locks of a running cluster, or hold one while a command runs
    Lock(lock::LockArguments),
    /// Append to a replicated log of a running cluster, or read it
    Log(log::LogArguments),
    /// Call a method or a query of a replicated object of a running cluster
    Object(object::ObjectArguments),
    /// Propose values to the consensus of a running cluster, and read its decisions
    Rounds(rounds::RoundsArguments),
    /// Run a libibverbs program without an RDMA card, on a device in user space: RoCE v2 over a UDP socket
    Run(run::RunArguments),
    /// Show the status of the nodes of a running cluster and of its membership service
    Status(status::StatusArguments),
    /// Copy the key-value store of a running cluster into a file, as it is at one instant, or check such a file
    Backup(backup::BackupArguments),
    /// Write the keys and values of a backup into a running, empty cluster
    Restore(restore::RestoreArguments),
    /// Make a backup of the data files that are left of a cluster that has lost more disks than it tolerates
    Recover(recover::RecoverArguments),
    /// Start one node of a cluster
    #[command(name = NODE_COMMAND)]
    Start(process::NodeArguments),
    /// Start the membership service of a cluster that `weft init --membership` has configured
    #[command(name = MEMBERSHIP_COMMAND)]
    Membership(process::MembershipArguments),
    /// Draw results as one self-contained HTML page
    Report(report::ReportArguments),
    /// Print shell completions
    Completions(manual::CompletionsArguments),
    /// Write manual pages
    Man(manual::ManArguments),
    /// The watcher of a node, which starts this process itself
    #[command(name = process::WATCHER_COMMAND, hide = true)]
    WatchExit(process::WatcherArguments),
    /// The clients of a bench, which starts this process itself
    #[command(name = CLIENT_COMMAND, hide = true)]
    BenchClient(process::ClientArguments),
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
            Self::Service(service) => service.run(),
            Self::Kv(arguments) => arguments.run(),
            Self::Txn(arguments) => arguments.run(),
            Self::Init(arguments) => arguments.run(),
            Self::Lock(arguments) => arguments.run(),
            Self::Log(arguments) => arguments.run(),
            Self::Object(arguments) => arguments.run(),
            Self::Rounds(arguments) => arguments.run(),
            Self::Run(arguments) => arguments.run(),
            Self::Status(arguments) => arguments.run(),
            Self::Backup(arguments) => arguments.run(),
            Self::Restore(arguments) => arguments.run(),
            Self::Recover(arguments) => arguments.run(),
            Self::Start(arguments) => arguments.run(),
            Self::Membership(arguments) => arguments.run(),
            Self::Report(arguments) => arguments.run(),
            Self::Completions(arguments) => arguments.run(Cli::command()),
            Self::Man(arguments) => arguments.run(Cli::command()),
            Self::WatchExit(arguments) => arguments.run(),
            Self::BenchClient(arguments) => arguments.run(),
            Self::BenchRdmaServer(arguments) => arguments.run_rdma_server(),
        }
    }
}

/// Lets options accept values that look like negative numbers. Without this, the error for `--seed -1` would be about
/// an unknown option `-1` instead of the values that `--seed` accepts.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| {
        let takes_values = argument.get_action().takes_values();
        argument.allow_negative_numbers(takes_values)
    });
    command.mut_subcommands(with_negative_numbers)
}

/// Parses the words of a command line.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut definition = with_negative_numbers(Cli::command());
    let mut matches = definition.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut definition))
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let result = match parse(&arguments) {
        Ok(cli) => cli.command.run(),
        Err(error) if failure::is_help(&error) => output::print_help(&error.render()).map(|()| Verdict::Good),
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
    use std::path::Path;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        with_negative_numbers(Cli::command()).debug_assert();
    }

    /// Every indented line in the documentation that begins with `weft`, without a comment at its end.
    fn commands_of_the_pages() -> Vec<(String, Vec<OsString>)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace");
        let folders = [root.to_owned(), root.join("docs"), root.join("docs/benchmarks"), root.join("peers")];
        let files = folders.iter().flat_map(|folder| folder.read_dir().expect("a folder"));
        let pages = files.map(|file| file.expect("a file").path());
        let mut commands = Vec::new();
        for page in pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
            let text = std::fs::read_to_string(&page).expect("a page");
            for line in text.lines().filter_map(|line| line.strip_prefix("    ")) {
                let command = line.split(['#', '|', '>', '&']).next().unwrap_or_default().trim();
                if command.starts_with("weft ") {
                    let words =
                        command.split_whitespace().map(|word| OsString::from(word.trim_matches('\'')));
                    commands.push((format!("{}: {command}", page.display()), words.collect()));
                }
            }
        }
        commands
    }

    #[test]
    fn the_command_accepts_every_line_of_the_pages() {
        let commands = commands_of_the_pages();
        assert!(commands.len() > 80, "{} commands", commands.len());
        for (line, words) in commands {
            // A line with placeholders, which the reader fills in, is no complete command.
            let is_form = words.iter().any(|word| word.to_string_lossy().contains(['[', '<', '…']));
            let needs_gateware = words.iter().any(|word| word == "rtl");
            if !is_form && (weft_bench::GATEWARE || !needs_gateware) {
                parse(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    #[test]
    fn what_looks_like_a_negative_number_is_a_value() {
        let line = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            parse(&words).map_err(|error| Failure::of_arguments(&error, "weft x").to_string())
        };
        for (words, says) in [
            ("weft bench kv --nodes -1", "a cluster has 1 to 16 nodes"),
            ("weft bench kv --seed -1", "give a whole number, 0 or more"),
            ("weft bench kv --clients -1", "-1 is not in 1..=1024"),
            ("weft bench kv --unknown -1", "unexpected argument '--unknown'"),
        ] {
            let error = line(words).unwrap_err();
            assert!(error.contains(says), "{words}: {error}");
        }
        assert!(line("weft kv put temperature -5").is_ok());
    }
}
