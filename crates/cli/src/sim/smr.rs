//! `weft sim smr`: fault campaigns of the replicated log.

use clap::Args;
use weft_bench::smr::{LogFigures, LogSubject};

use super::campaign::{Conduct, EngineOptions, Found, NodesOption};
use super::faults::{FaultsOption, NETWORK_FAULTS};
use crate::failure::Failure;
use crate::faults::Faults;
use crate::parse;
use crate::replay::CommandLine;

/// Checks of a run.
const DEFINITIONS: &str = "\
Clients append at the current leader while nodes crash and come back without their memory (never a majority at once), \
links lose, duplicate, delay and corrupt frames or are cut, nodes pause, and the membership service has outages. All \
nodes must report the same entries in the same order. Each append must take effect once, an answered append must \
stay, and an append that was requested after another was answered must follow it in the log. After the last fault \
every node must take part again, and clients must get answers. A follower notices a new entry because its NIC passes \
each incoming WRITE on to the engine or, with odd seeds, because the engine polls its memory.";

/// Options of the log.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct SmrOptions {
    /// Plant this known bug in the engine, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_smr_bug)]
    planted_bug: Option<weft_smr::PlantedBug>,
}

impl EngineOptions for SmrOptions {
    type Faults = Faults;
    type Figures = LogFigures;
    type About = ();

    const KIND: &'static str = "sim smr";
    const NODES: NodesOption =
        NodesOption { help: "Number of nodes, 2 to 8", default: "5", parse: parse::members };
    const FAULTS: FaultsOption<Faults> = NETWORK_FAULTS;
    const AGAIN: &'static str = "takes part again";

    fn run(&self, conduct: Conduct<'_, Faults>) -> Result<Found<Self>, Failure> {
        conduct.of(&LogSubject {
            delivery: None,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        })
    }

    fn add_to(&self, line: CommandLine) -> CommandLine {
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_smr::PlantedBug::name));
        line
    }

    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)> {
        let LogFigures { appends, leaderships, adopted, snapshots } = found.figures;
        vec![
            ("appends", appends),
            ("leaderships", leaderships),
            ("adopted", adopted),
            ("snapshots", snapshots),
            ("views", found.views),
        ]
    }

    fn cluster(&self, found: &Found<Self>) -> Option<(&'static str, String)> {
        Some(("nodes", found.nodes.to_string()))
    }
}
