//! Files for packages of the `weft` command, generated from the definition of its command line: shell completions and
//! manual pages.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::{Failure, Verdict};
use crate::output;

/// Shell to write completions for.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl CompletionsArguments {
    /// Prints the completions of `command`.
    pub(crate) fn run(self, mut command: Command) -> Result<Verdict, Failure> {
        let mut script = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(Verdict::Good)
    }
}

/// Directory of the manual pages.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArguments {
    /// Existing folder for the pages, one for each command
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl ManArguments {
    /// Writes `weft.1`, `weft-start.1` and so on: one page for each command.
    pub(crate) fn run(self, command: Command) -> Result<Verdict, Failure> {
        if !self.out.is_dir() {
            return Err(Failure::at(
                &self.out,
                "there is no such folder; create it, or choose another --out",
            ));
        }
        clap_mangen::generate_to(command, &self.out)
            .map_err(|error| Failure::at(&self.out, format_args!("the pages cannot be written: {error}")))?;
        output::print(&format!("manual pages are in {0}: man {0}/weft.1\n", self.out.display()))?;
        Ok(Verdict::Good)
    }
}
