//! `weft service`: services on the data path.

mod tree;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use weft_results::write_whole;

use crate::failure::{Failure, Verdict};
use crate::output;
use tree::{Change, Kind, Name};

/// Operation on services.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Add a service of your own to the tree of the repository, in Rust and SystemVerilog, with its tests
    New(NewArguments),
}

/// What comes next, for people.
const NEXT: &str = "\
A new service works and passes the tests: a map adds the lowest byte of the flow's value to each byte, a tap counts the \
bytes that equal it. Change both halves into your service (docs/services.md), then run the suite.";

/// The service to add.
#[derive(Debug, Args)]
#[command(after_help = NEXT, group(ArgGroup::new("kind").required(true)))]
pub(crate) struct NewArguments {
    /// Name: lower-case letters, digits and _, beginning with a letter
    name: Name,
    /// The service changes payload and keeps its length
    #[arg(long, group = "kind")]
    map: bool,
    /// The service observes payload
    #[arg(long, group = "kind")]
    tap: bool,
    /// Folder of the repository's tree
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

impl Service {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::New(arguments) => arguments.run(),
        }
    }
}

impl NewArguments {
    fn run(self) -> Result<Verdict, Failure> {
        let kind = if self.map { Kind::Map } else { Kind::Tap };
        let read = |file: &str| std::fs::read_to_string(self.out.join(file)).ok();
        // Nothing is written before all changes are known.
        let changes = tree::add(&self.name, kind, read)?;
        for Change { file, text } in &changes {
            write_whole(&self.out.join(file), text.as_bytes())?;
        }
        output::print(&self.written(&changes))?;
        Ok(Verdict::Good)
    }

    fn written(&self, changes: &[Change]) -> String {
        let files = changes.iter().map(|change| format!("  {}\n", change.file));
        format!(
            "wrote and changed:\n{}\nthen run in {}:\n  \
             cargo test -p weft-service suite::                          # the half in Rust\n  \
             cargo test -p weft-conformance --all-features services::    # both halves; needs Verilator\n  \
             tools/lint_rtl.sh --fix                                     # formats the half in SystemVerilog\n",
            files.collect::<String>(),
            self.out.display()
        )
    }
}
