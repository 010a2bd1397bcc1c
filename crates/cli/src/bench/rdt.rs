//! `weft bench rdt`: replicated data types under their workloads, with every step checked.

use clap::Args;
use weft_bench::progress::Progress;
use weft_bench::rdt::{Commit, Configuration, RdtBench, Sizes, System, TypeName};
use weft_sim::NetworkProfile;

use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};
use crate::parse;
use crate::replay::CommandLine;

const NODES: usize = 3;
const UPDATES: u8 = 20;
const OPERATIONS: u64 = 100_000;
const KEYS: usize = Sizes::LARGE.keys;
const SEED: u64 = 7;
const NETWORK: &str = "switch";

/// What is measured how.
const DEFINITIONS: &str = "\
The operations are split over the nodes; each node's client is a closed loop at its own replica. Response time is from question to \
answer. Throughput is all operations by the time of the replica that takes longest. Queries are answered from the replica's own \
state. `majority` answers a call without conflicts when a majority has it in memory, `local` when it has taken effect at its own \
replica; conflicting calls are answered when a majority has them in its logs. All calls are made again on a reference per replica: \
convergence, the invariant at every step, exactly once, one order in each group that respects real time, and the answers of \
queries are checked.";

/// What to measure and where the result goes.
#[derive(Clone, Debug, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtArguments {
    #[command(flatten)]
    options: RdtOptions,
    /// Write the result as one JSON object (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What decides the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
struct RdtOptions {
    /// Which data type: g-counter, pn-counter, lww-register, g-set, pn-set, 2p-set, account, courseware, project, movie, auction, ycsb
    /// or smallbank
    #[arg(long = "type", value_name = "TYPE")]
    name: TypeName,
    /// Per cent of the operations that call a method; the others are queries
    #[arg(long, value_name = "N", default_value_t = UPDATES, value_parser = clap::value_parser!(u8).range(0..=100))]
    updates: u8,
    /// Replicas, 2 to 8
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::members)]
    nodes: usize,
    /// Operations of all clients together
    #[arg(long, value_name = "N", default_value_t = OPERATIONS, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    ops: u64,
    /// Where engines and clients run: weft (on the card) or hamband (on the host beside an RDMA card)
    #[arg(long, value_name = "NAME", default_value_t)]
    system: System,
    /// How calls reach the objects: write, buffered or rpc [default: rpc; of hamband, buffered]
    #[arg(long, value_name = "NAME")]
    configuration: Option<Configuration>,
    /// When a call without conflicts is answered: majority or local
    #[arg(long, value_name = "RULE", default_value_t)]
    commit: Commit,
    /// Operations that a client has open at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    outstanding: u8,
    /// Records of ycsb, accounts of smallbank
    #[arg(long, value_name = "N", default_value_t = KEYS, value_parser = parse::positive)]
    keys: usize,
    /// Skew of their popularity (Zipf), 0 to 2
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = parse::skew)]
    skew: f64,
    /// What lies between the cards: detpu, switch or zero
    #[arg(long, value_name = "NAME", default_value = NETWORK, value_parser = parse::network)]
    network: String,
    /// Decides operations and delays
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

impl RdtArguments {
    /// Measures and delivers what came of it.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let Self { options, json } = self;
        output::check_json(json.as_ref())?;
        let bench = options.bench()?;
        let mut progress = Progress::new("operations", options.ops);
        let result = bench.run(options.command().to_string(), |done| progress.set(done));
        drop(progress);
        output::deliver(json.as_ref(), || result.to_json(), &result.to_text())?;
        Ok(if result.checked == "holds" { Verdict::Good } else { Verdict::Violated })
    }
}

impl RdtOptions {
    fn bench(&self) -> Result<RdtBench, Failure> {
        let configuration = match (self.system, self.configuration) {
            (System::Hamband, Some(Configuration::Rpc)) => {
                return Err(Failure::new(
                    "an RDMA card calls no engine; choose --configuration write or buffered",
                ));
            }
            (System::Hamband, None) => Configuration::Buffered,
            (_, configuration) => configuration.unwrap_or_default(),
        };
        Ok(RdtBench {
            name: self.name,
            system: self.system,
            configuration,
            commit: self.commit,
            nodes: self.nodes,
            updates: self.updates,
            operations: self.ops,
            outstanding: self.outstanding.into(),
            keys: self.keys,
            skew: self.skew,
            network: NetworkProfile::named(&self.network).expect("its name was checked"),
            seed: self.seed,
        })
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let Self {
            name,
            updates,
            nodes,
            ops,
            system,
            configuration,
            commit,
            outstanding,
            keys,
            skew,
            network,
            seed,
        } = self;
        CommandLine::new("weft bench rdt")
            .option("--type", name)
            .unless(UPDATES, "--updates", *updates)
            .unless(NODES, "--nodes", *nodes)
            .unless(OPERATIONS, "--ops", *ops)
            .unless(System::Weft, "--system", *system)
            .given("--configuration", *configuration)
            .unless(Commit::Majority, "--commit", *commit)
            .unless(1, "--outstanding", *outstanding)
            .unless(KEYS, "--keys", *keys)
            .unless(0.0, "--skew", *skew)
            .unless(NETWORK, "--network", network.as_str())
            .option("--seed", seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Rdt {
        #[command(flatten)]
        arguments: RdtArguments,
    }

    fn parse(line: &str) -> Result<RdtOptions, clap::Error> {
        Rdt::try_parse_from(line.split(' ')).map(|parsed| parsed.arguments.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "rdt --type account --seed 7",
            "rdt --type ycsb --updates 50 --nodes 8 --ops 4000000 --system hamband --configuration write --commit local --outstanding 4 --keys 1000 --skew 1.2 --network detpu --seed 9",
        ] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "rdt",
            "rdt --type bank",
            "rdt --type account --nodes 9",
            "rdt --type account --updates 101",
            "rdt --type ycsb --skew 2.5",
            "rdt --type account --system raft",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let hamband = parse("rdt --type account --system hamband --configuration rpc").unwrap();
        assert!(hamband.bench().unwrap_err().to_string().contains("buffered"));
        let hamband = parse("rdt --type account --system hamband").unwrap();
        assert_eq!(hamband.bench().unwrap().configuration, Configuration::Buffered);
    }
}
