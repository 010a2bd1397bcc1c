//! The `weft` command: benchmarks, fault campaigns, real nodes, reports, and a tour of them all.
//!
//! Every subcommand is a module that turns options into a call of another room and shows what comes of it. Exit codes:
//! 0, all is well; 1, a check found a violation; 2, the command could not do what was asked, and says why in one
//! line.

mod bench;
mod failure;
mod faults;
mod output;
mod parse;
mod replay;
mod sim;
mod table;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Make one measurement
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Run a fault campaign in the simulator: many seeds, each checked
    #[command(subcommand)]
    Sim(sim::Sim),
}

impl Command {
    fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Bench(bench) => bench.run(),
            Self::Sim(sim) => sim.run(),
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
