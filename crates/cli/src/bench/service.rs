//! `weft bench service`: measures the cost of a service on a card's datapath.

use std::path::Path;

use clap::Args;
use weft_perftest::service::{Pipeline, ServiceBench, ServiceResult};

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::Task;

const PIPELINE: &str = "criteo";
const ROWS: u32 = 400;
const MESSAGES: u64 = 4_000;
const SEED: u64 = 7;

/// Help text: what is measured.
const DEFINITIONS: &str = "\
Rows are written over UDP sockets from one software NIC to another, in turn with and without the service in the \
receive path. The throughput without the service is the limit. The receiver's memory is compared with the features of \
every row, which the benchmark computes separately.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ServiceOptions {
    /// Service: preprocess, which turns rows of raw values into the input features of a recommender model
    #[arg(long, value_name = "NAME", value_parser = ["preprocess"])]
    service: String,
    /// NIC: soft (in software)
    #[arg(long, value_name = "soft", default_value = "soft", value_parser = ["soft"])]
    nic: String,
    /// Pipeline of operators: criteo (for rows of the Criteo data set), balboa (that of the BALBOA paper) or a TOML
    /// file (docs/services.md)
    #[arg(long, value_name = "NAME|FILE.toml", default_value = PIPELINE)]
    pipeline: String,
    /// Number of rows in a message
    #[arg(long, value_name = "N", default_value_t = ROWS, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    rows: u32,
    /// Number of messages in each run
    #[arg(long, value_name = "N", default_value_t = MESSAGES, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    messages: u64,
    /// Seed of the rows
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

/// The service with this name: a preset, or a service that a file declares.
fn pipeline(name: &str) -> Result<Pipeline, Failure> {
    let path = Path::new(name);
    if path.extension().is_none() {
        return Ok(Pipeline::preset(name)?);
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::at(path, format!("cannot be read ({error}); name a pipeline in TOML")))?;
    text.parse().map_err(|error| Failure::at(path, error))
}

impl Task for ServiceOptions {
    type Found = ServiceResult;

    const KIND: &'static str = "bench service";
    const BASIS: Basis = Basis::Real;

    fn work(&self) -> Result<ServiceResult, Failure> {
        let bench = ServiceBench {
            name: self.pipeline.clone(),
            pipeline: pipeline(&self.pipeline)?,
            rows_per_message: self.rows,
            messages: self.messages,
            seed: self.seed,
        };
        Ok(bench.run()?)
    }

    fn to_text(&self, result: &ServiceResult) -> String {
        format!("{}\nrepeat  {}\n", result.to_text(), self.command())
    }

    fn holds(&self, result: &ServiceResult) -> bool {
        result.intact
    }
}

impl ServiceOptions {
    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        CommandLine::new("weft bench service")
            .option("--service", &self.service)
            .option("--nic", &self.nic)
            .option("--pipeline", &self.pipeline)
            .unless(ROWS, "--rows", self.rows)
            .option("--messages", self.messages)
            .option("--seed", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Service {
        #[command(flatten)]
        options: ServiceOptions,
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "service --service preprocess --nic soft --pipeline criteo --messages 4000 --seed 7",
            "service --service preprocess --nic soft --pipeline rows.toml --rows 9 --messages 5 --seed 1",
        ] {
            let options = Service::try_parse_from(line.split(' ')).unwrap().options;
            assert_eq!(options.command().to_string(), format!("weft bench {line}"));
        }
        assert!(Service::try_parse_from(["service", "--service", "inspct"]).is_err());
        assert!(pipeline("crito").is_err() && pipeline("nowhere.toml").is_err());
    }
}
