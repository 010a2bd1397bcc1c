//! `weft sim rdt`: fault campaigns of replicated data types.

use clap::Args;
use weft_bench::rdt::{Configuration, DELIVERED_WITHIN, ObjectFigures, ObjectSubject, SeedChoice, TypeName};

use super::campaign::{Conduct, EngineOptions, Found, NodesOption};
use super::faults::{FaultsOption, NETWORK_FAULTS};
use crate::failure::Failure;
use crate::faults::Faults;
use crate::parse;
use crate::replay::CommandLine;

/// Checks of a run.
const DEFINITIONS: &str = "\
In each run the clients of all nodes call the methods of one data type. Meanwhile nodes crash, restart with empty \
memory and pause; the network loses, delays, duplicates and partitions frames; the membership service fails for a \
time. A crash is skipped if no majority of nodes would keep its memory. A reference model repeats all calls for each \
replica: answered calls must take effect exactly once everywhere, refused calls nowhere, and conflicting calls in one \
order that respects real time; the invariant must hold after every step; all replicas must end in the same state. \
After the last fault every node must serve again. Without --type and --configuration, the seeds take them in turn.";

/// Options of the data types.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct RdtOptions {
    /// Data type, one of those of `weft rdt list` [default: each in turn]
    #[arg(long = "type", value_name = "TYPE")]
    name: Option<TypeName>,
    /// How calls reach the other replicas: write, buffered or rpc, as in weft bench rdt [default: each in turn]
    #[arg(long, value_name = "NAME")]
    configuration: Option<Configuration>,
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_rdt_bug)]
    planted_bug: Option<weft_rdt::replica::PlantedBug>,
}

impl EngineOptions for RdtOptions {
    type Faults = Faults;
    type Figures = ObjectFigures;
    type About = SeedChoice;

    const KIND: &'static str = "sim rdt";
    const NODES: NodesOption =
        NodesOption { help: "Number of replicas, 3 to 8", default: "5", parse: parse::replicas };
    const FAULTS: FaultsOption<Faults> = NETWORK_FAULTS;

    fn run(&self, conduct: Conduct<'_, Faults>) -> Result<Found<Self>, Failure> {
        conduct.of(&ObjectSubject {
            name: self.name,
            configuration: self.configuration,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        let line = line.given("--type", self.name).given("--configuration", self.configuration);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_rdt::replica::PlantedBug::name));
        line
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        let figures = &found.figures;
        vec![
            ("calls", figures.calls),
            ("refused", figures.refused),
            ("unanswered", figures.unanswered),
            ("queries", figures.queries),
            ("steps", figures.steps),
            ("restarts", figures.restarts),
            ("views", found.views),
            ("leaderships", figures.terms),
        ]
    }

    fn cluster(&self, found: &Found<Self>) -> Option<(&'static str, String)> {
        Some(("nodes", found.nodes.to_string()))
    }

    fn notes(&self, _: &Found<Self>) -> Vec<(&'static str, String)> {
        vec![("every call", format!("is delivered within {DELIVERED_WITHIN}"))]
    }

    fn about(run: &SeedChoice) -> String {
        format!(" ({}, {})", run.name, run.configuration)
    }
}
