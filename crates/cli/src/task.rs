//! The shape of most commands: work whose findings go to people, to a file, and into how the command ends.

use clap::Args;
use serde::Serialize;

use crate::envelope::{Basis, enclose};
use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};

/// Work that finds something: its options say what.
pub(crate) trait Task: Args {
    /// What it finds.
    type Found: Serialize;

    /// The command behind `weft`, which names the kind of its results.
    const KIND: &'static str;
    /// What times in its results stand on.
    const BASIS: Basis = Basis::Simulated;

    /// Does the work, and shows its progress. Options that contradict each other are refused before anything is done.
    fn work(&self) -> Result<Self::Found, Failure>;

    /// What people read.
    fn to_text(&self, found: &Self::Found) -> String;

    /// Whether nothing is wrong with what was found.
    fn holds(&self, found: &Self::Found) -> bool;
}

/// A task, and where what it finds goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reported<T: Task> {
    #[command(flatten)]
    task: T,
    /// Write the result as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

impl<T: Task> Reported<T> {
    /// Does the task and delivers what it finds.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let Self { task, json } = self;
        output::check_json(json.as_ref())?;
        let found = task.work()?;
        let holds = task.holds(&found);
        let to_json = || enclose(T::KIND, T::BASIS, holds, &found);
        output::deliver(json.as_ref(), to_json, &task.to_text(&found))?;
        Ok(if holds { Verdict::Good } else { Verdict::Violated })
    }
}
