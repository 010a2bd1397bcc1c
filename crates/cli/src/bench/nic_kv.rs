//! `weft bench nic-kv`: repeats NIC-KV's measurements on the key-value engine in gateware.

use std::path::PathBuf;

use clap::Args;
use weft_nic_kv::{NicKvBench, NicKvResult, Part, VALUE_BYTES_MAX, VALUE_BYTES_MIN, page};
use weft_results::{Checked, write_whole};

use crate::failure::Failure;
use crate::ground::{Ground, Offers};
use crate::output;
use crate::parse;
use crate::replay::CommandLine;
use crate::task::Task;

const VALUE_BYTES: u32 = 1_024;

/// Definitions of the parts of a latency.
const DEFINITIONS: &str = "\
The tables divide a latency as the NIC-KV paper does (docs/sources.md). MAC: the whole frame into or out of the MAC, \
taken from the paper. Memory: from the command of a memory access to its last word or its response, modelled with the \
paper's latency. Replication: the rest, from the last beat of the incoming frame to the first beat of the outgoing \
frame, without memory, in cycles of the gateware. A follower acknowledges a write when its receive window has \
accepted it or, in the rows `after memory`, when the write has reached memory too.";

/// The measurement, and the outputs of its results.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct NicKvArguments {
    #[command(flatten)]
    options: NicKvOptions,
    /// Plot the curves as one HTML page
    #[arg(long, value_name = "FILE.html")]
    plot: Option<PathBuf>,
}

/// The environment has no options but the seed: the gateware defines the times, and there is no network
/// between the two cards of a pair.
#[derive(Debug)]
pub(crate) struct NicKvGround;

impl Offers for NicKvGround {}

/// Parameters of the measurements.
#[derive(Clone, Debug, PartialEq, Args)]
struct NicKvOptions {
    /// Value size in bytes, 8 to 1024
    #[arg(long, value_name = "N", default_value_t = VALUE_BYTES,
          value_parser = clap::value_parser!(u32).range(i64::from(VALUE_BYTES_MIN)..=i64::from(VALUE_BYTES_MAX)))]
    value_bytes: u32,
    /// Make shorter runs; the latencies of an unloaded NIC stay exact
    #[arg(long)]
    quick: bool,
    /// Measure only these parts, separated by commas: passages (latency of an unloaded NIC), hbm (transport between
    /// MAC and HBM), saturation (maximum throughput of a node), curve (latency over throughput), nodes (2 to 8
    /// nodes), loss (lost frames), software (the engine on the host), occupancy (memory accesses as the table fills
    /// up)
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    #[command(flatten)]
    ground: Ground<NicKvGround>,
}

impl Task for NicKvArguments {
    type Found = NicKvResult;

    const KIND: &'static str = "bench nic-kv";
    /// The command has its own `--quick`, which its replay command repeats.
    const IS_QUICK: bool = false;

    fn work(&self) -> Result<NicKvResult, Failure> {
        parse::gateware().map_err(Failure::new)?;
        self.plot.as_deref().map(output::check_file).transpose()?;
        let result = self.options.bench().run()?;
        if let Some(path) = &self.plot {
            write_whole(path, page(&result).as_bytes())?;
        }
        Ok(result)
    }

    fn to_text(&self, result: &NicKvResult) -> String {
        let plot = self.plot.as_ref();
        let written = plot.map(|path| format!("\nwritten {} (curves)\n", path.display()));
        result.to_text() + &written.unwrap_or_default()
    }

    fn holds(&self, result: &NicKvResult) -> bool {
        !matches!(result.checked, Checked::NotLinearizable | Checked::Undecided)
    }
}

impl NicKvOptions {
    fn bench(&self) -> NicKvBench {
        let parts = if self.only.is_empty() { Part::ALL.to_vec() } else { self.only.clone() };
        let (value_bytes, quick, seed) = (self.value_bytes, self.quick, self.ground.seed);
        NicKvBench { value_bytes, quick, seed, parts, replay: self.command().to_string() }
    }

    /// The command that repeats the measurements.
    fn command(&self) -> CommandLine {
        let Self { value_bytes, quick, only, ground } = self;
        let names: Vec<&str> = only.iter().map(|part| part.name()).collect();
        let line = CommandLine::new("weft bench nic-kv")
            .unless(VALUE_BYTES, "--value-bytes", *value_bytes)
            .flag("--quick", *quick)
            .given("--only", (!only.is_empty()).then(|| names.join(",")));
        ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct NicKv {
        #[command(flatten)]
        arguments: NicKvArguments,
    }

    fn parse(line: &str) -> Result<NicKvOptions, clap::Error> {
        NicKv::try_parse_from(line.split(' ')).map(|parsed| parsed.arguments.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in ["nic-kv --seed 7", "nic-kv --value-bytes 64 --quick --only passages,loss --seed 9"] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
        assert_eq!(parse("nic-kv").unwrap().bench().parts, Part::ALL);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in ["nic-kv --value-bytes 2048", "nic-kv --value-bytes 7", "nic-kv --only everything"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
