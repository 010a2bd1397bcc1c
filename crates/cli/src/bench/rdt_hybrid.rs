//! `weft bench rdt-hybrid`: data types whose records or accounts are partly on the card and partly in the
//! host's memory.

use clap::Args;
use weft_bench::rdt::{Commit, HybridBench, HybridReport, TypeName};
use weft_harness::progress::Progress;
use weft_sim::NetworkProfile;

use crate::failure::Failure;
use crate::ground::{Ground, NETWORKS, Offers};
use crate::parse;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

const TYPES: &str = "ycsb,smallbank";
const ON_CARD: &str = "0,20,40,60,80,100";
const UPDATES: &str = "0,5,50";
const SKEWS: &str = "0";
const SUMMARIZE: &str = "1";
const NODES: usize = 4;
const OPERATIONS: u64 = 20_000;
const KEYS: usize = 100_000;
const CARD_KEYS: usize = 10_000;

/// The environment of these measurements.
#[derive(Debug)]
pub(crate) struct HybridGround;

impl Offers for HybridGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
}

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Each combination of the lists is one run. Keys below --card-keys are stored on the card, the others in the host's \
memory. For keys in host memory, a query waits for one read across PCIe; a method call waits for a read and a write \
of each account or record that it names, at every replica that applies it. --on-card sets the share of accesses to \
keys on the card; within each part, keys follow Zipf's law.

--summarize combines that many updates before they are sent. A replica sends them at its next heartbeat at the \
latest, and before anything that depends on them. Conflicting calls are never combined. All runs are checked as in \
`weft bench rdt`; with combined updates, states are compared at the end instead of after every step.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtHybridOptions {
    /// Data types with keys: ycsb, smallbank
    #[arg(long = "type", alias = "types", value_name = "LIST", default_value = TYPES, default_value_if(QUICK, IS_GIVEN, "ycsb"), value_delimiter = ',', value_parser = parse::keyed_type)]
    names: Vec<TypeName>,
    /// Percentages of accesses to keys on the card
    #[arg(long, value_name = "LIST", default_value = ON_CARD, default_value_if(QUICK, IS_GIVEN, "0,40"), value_parser = parse::percentages)]
    on_card: parse::Percentages,
    /// Percentages of operations that call a method
    #[arg(long, value_name = "LIST", default_value = UPDATES, default_value_if(QUICK, IS_GIVEN, "5"), value_parser = parse::percentages)]
    updates: parse::Percentages,
    /// Zipf skews of the keys, 0 to 2
    #[arg(long = "skew", alias = "skews", value_name = "LIST", default_value = SKEWS, value_delimiter = ',', value_parser = parse::skew)]
    skews: Vec<f64>,
    /// Numbers of updates to combine before sending, 1 to 64
    #[arg(long, value_name = "LIST", default_value = SUMMARIZE, value_delimiter = ',', value_parser = parse::fold)]
    summarize: Vec<usize>,
    /// When a call without conflicts is answered: majority (a majority has it in memory) or local (it has taken
    /// effect at its own replica)
    #[arg(long, value_name = "RULE", default_value_t)]
    commit: Commit,
    /// Number of replicas, 2 to 8
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = parse::members)]
    nodes: usize,
    /// Number of operations of all clients together, in each run
    #[arg(long, value_name = "N", default_value_t = OPERATIONS, default_value_if(QUICK, IS_GIVEN, "500"), value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    ops: u64,
    /// Number of records or accounts
    #[arg(long, value_name = "N", default_value_t = KEYS, value_parser = parse::keys)]
    keys: usize,
    /// Number of records or accounts on the card
    #[arg(long, value_name = "N", default_value_t = CARD_KEYS, value_parser = parse::keys)]
    card_keys: usize,
    #[command(flatten)]
    ground: Ground<HybridGround>,
}

impl Task for RdtHybridOptions {
    type Found = HybridReport;

    const KIND: &'static str = "bench rdt-hybrid";

    fn work(&self) -> Result<HybridReport, Failure> {
        let bench = self.bench()?;
        let mut progress = Progress::new("runs", bench.count());
        Ok(bench.run(self.command().to_string(), |done| progress.set(done)))
    }

    fn to_text(&self, result: &HybridReport) -> String {
        result.to_text()
    }

    fn holds(&self, result: &HybridReport) -> bool {
        result.checked == "holds"
    }
}

/// A list, in the form in which it was given.
fn list<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

impl RdtHybridOptions {
    fn bench(&self) -> Result<HybridBench, Failure> {
        if self.card_keys >= self.keys {
            return Err(Failure::new(format!(
                "of {} keys {} cannot lie on the card and some on the host; choose a smaller --card-keys",
                self.keys, self.card_keys
            )));
        }
        Ok(HybridBench {
            names: self.names.clone(),
            on_card: self.on_card.0.clone(),
            updates: self.updates.0.clone(),
            skews: self.skews.clone(),
            summarize: self.summarize.clone(),
            commit: self.commit,
            nodes: self.nodes,
            operations: self.ops,
            keys: self.keys,
            card_keys: self.card_keys,
            network: self.ground.network(),
            seed: self.ground.seed,
        })
    }

    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let Self { names, on_card, updates, skews, summarize, commit, nodes, ops, keys, card_keys, ground } =
            self;
        let line = CommandLine::new("weft bench rdt-hybrid")
            .unless(TYPES, "--type", list(names).as_str())
            .unless(ON_CARD, "--on-card", on_card.to_string().as_str())
            .unless(UPDATES, "--updates", updates.to_string().as_str())
            .unless(SKEWS, "--skew", list(skews).as_str())
            .unless(SUMMARIZE, "--summarize", list(summarize).as_str())
            .unless(Commit::Majority, "--commit", *commit)
            .unless(NODES, "--nodes", *nodes)
            .unless(OPERATIONS, "--ops", *ops)
            .unless(KEYS, "--keys", *keys)
            .unless(CARD_KEYS, "--card-keys", *card_keys);
        ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct RdtHybrid {
        #[command(flatten)]
        options: RdtHybridOptions,
    }

    fn parse(line: &str) -> Result<RdtHybridOptions, clap::Error> {
        RdtHybrid::try_parse_from(line.split(' ')).map(|parsed| parsed.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "rdt-hybrid --seed 7",
            "rdt-hybrid --type smallbank --on-card 10,90 --updates 50 --skew 0,1.2 --summarize 1,5 --commit local --nodes 3 --ops 1000 --keys 500 --card-keys 50 --network detpu --seed 9",
        ] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "rdt-hybrid --type account",
            "rdt-hybrid --on-card 101",
            "rdt-hybrid --skew 3",
            "rdt-hybrid --summarize 0",
            "rdt-hybrid --summarize 65",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let error = parse("rdt-hybrid --keys 10 --card-keys 10").unwrap().bench().unwrap_err();
        assert!(error.to_string().contains("--card-keys"));
    }
}
