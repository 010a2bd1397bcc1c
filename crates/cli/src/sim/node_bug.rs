//! The option that plants a bug around the engines.

use clap::Args;
use weft_harness::Planted;

#[cfg(feature = "planted-bugs")]
use crate::parse;
use crate::replay::CommandLine;

/// A bug around the engines.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub(super) struct NodeBugOption {
    /// Plant this known bug around the engines, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_node_bug)]
    node_bug: Option<weft_harness::NodeBug>,
}

impl NodeBugOption {
    /// The bug.
    pub(super) fn planted(self) -> Planted {
        Planted {
            #[cfg(feature = "planted-bugs")]
            bug: self.node_bug,
        }
    }

    /// Adds the option to a command that repeats runs.
    pub(super) fn add_to(self, line: CommandLine) -> CommandLine {
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--node-bug", self.node_bug.map(weft_harness::NodeBug::name));
        line
    }
}
