//! What most commands have in common: they do work, deliver its result to people and to files, and set the
//! exit code.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use serde::Serialize;
use weft_check::{edn, lines};
use weft_results::write_whole;

use crate::csv;
use crate::envelope::{Basis, enclose};
use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};

/// Work with a result. The options of the command are the fields of the implementing type.
///
/// An option can have a second, smaller default for `--quick`: `default_value_if(QUICK, IS_GIVEN, "500")`.
pub(crate) trait Task: Args {
    /// The result of the work.
    type Found: Serialize;

    /// The subcommand, as it is typed after `weft`: for example, `bench kv`. It is also the `kind` of the
    /// results.
    const KIND: &'static str;
    /// The origin of the times in the results.
    const BASIS: Basis = Basis::Simulated;
    /// Whether the command has `--quick`, which makes the work shorter.
    const IS_QUICK: bool = true;
    /// Returns the latency distribution in HdrHistogram's text format; `None` if the results have none.
    const HGRM: Option<fn(&Self::Found) -> String> = None;
    /// Returns a trace for ui.perfetto.dev; `None` if the results have no time line.
    const PERFETTO: Option<WriteTrace<Self::Found>> = None;

    /// Returns the histories of the runs; `None` if the work keeps none.
    const HISTORY: Option<Histories<Self::Found>> = None;

    /// Does the work, and shows its progress. Rejects options that contradict each other before the work begins.
    fn work(&self) -> Result<Self::Found, Failure>;

    /// Like [`Task::work`], for work that depends on which files the user wants, or must reject some of them.
    fn work_for(&self, files: &Files<Self>) -> Result<Self::Found, Failure>
    where
        Self: Sized,
    {
        let _ = files;
        self.work()
    }

    /// The result as text for people.
    fn to_text(&self, found: &Self::Found) -> String;

    /// Whether all checks of the result hold.
    fn holds(&self, found: &Self::Found) -> bool;
}

/// Returns a trace of a result.
pub(crate) type WriteTrace<F> = fn(&F) -> Vec<u8>;
/// The histories in what was found.
pub(crate) type Histories<F> = fn(&F) -> Vec<&lines::Run>;

/// Whether a history goes to this file in Jepsen's form.
pub(crate) fn is_edn(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "edn")
}

/// Name of the option that gives other options their smaller defaults.
pub(crate) const QUICK: &str = "quick";
/// Condition for `default_value_if`: the option was given.
pub(crate) const IS_GIVEN: clap::builder::ArgPredicate = clap::builder::ArgPredicate::IsPresent;

/// A task, and where what it finds goes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reported<T: Task> {
    #[command(flatten)]
    pub(crate) task: T,
    #[command(flatten)]
    pub(crate) files: Files<T>,
}

impl<T: Task> Reported<T> {
    /// Does the work and delivers its result.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let Self { task, files } = self;
        files.check()?;
        let found = task.work_for(&files)?;
        let holds = task.holds(&found);
        files.deliver(&task.to_text(&found), holds, &found)?;
        Ok(if holds { Verdict::Good } else { Verdict::Violated })
    }
}

/// Files for a task's result; the options have the same names in all commands. A task offers the files that
/// it can write.
#[derive(Debug)]
pub(crate) struct Files<T> {
    /// File of the result as JSON.
    pub(crate) json: Option<Json>,
    /// File of the result's figures as a table.
    pub(crate) csv: Option<PathBuf>,
    /// File of the result's latency distribution.
    pub(crate) hgrm: Option<PathBuf>,
    /// File of the result's time line.
    pub(crate) perfetto: Option<PathBuf>,
    /// File of the result's histories.
    pub(crate) history: Option<PathBuf>,
    /// Whether `--quick` was given, for options whose smaller defaults depend on other options.
    pub(crate) is_quick: bool,
    pub(crate) task: std::marker::PhantomData<T>,
}

impl<T> Default for Files<T> {
    fn default() -> Self {
        Self {
            json: None,
            csv: None,
            hgrm: None,
            perfetto: None,
            history: None,
            is_quick: false,
            task: std::marker::PhantomData,
        }
    }
}

impl<T> Clone for Files<T> {
    fn clone(&self) -> Self {
        Self {
            json: self.json.clone(),
            csv: self.csv.clone(),
            hgrm: self.hgrm.clone(),
            perfetto: self.perfetto.clone(),
            history: self.history.clone(),
            ..*self
        }
    }
}

impl<T: Task> Files<T> {
    /// The files that are reported to people, with their titles.
    fn given(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("table", &self.csv),
            ("latency distribution", &self.hgrm),
            ("Perfetto trace", &self.perfetto),
            ("history", &self.history),
        ];
        files.into_iter().filter_map(|(title, path)| Some((title, path.as_deref()?)))
    }

    /// Rejects paths that cannot be written.
    fn check(&self) -> Result<(), Failure> {
        output::check_json(self.json.as_ref())?;
        self.given().try_for_each(|(_, path)| output::check_file(path))
    }

    /// Writes the result to the files that the user wants, and prints it.
    fn deliver(&self, text: &str, holds: bool, found: &T::Found) -> Result<(), Failure> {
        let result = || enclose(T::KIND, T::BASIS, holds, found);
        if let Some(path) = &self.csv {
            let value = serde_json::from_str(&result()).expect("a result is JSON");
            write_whole(path, csv::of(&value).as_bytes())?;
        }
        if let (Some(path), Some(hgrm)) = (&self.hgrm, T::HGRM) {
            write_whole(path, hgrm(found).as_bytes())?;
        }
        if let (Some(path), Some(perfetto)) = (&self.perfetto, T::PERFETTO) {
            write_whole(path, &perfetto(found))?;
        }
        if let (Some(path), Some(histories)) = (&self.history, T::HISTORY) {
            let runs = histories(found);
            let text = if is_edn(path) {
                runs.into_iter().map(edn::write_run).collect()
            } else {
                lines::write_runs(runs)
            };
            write_whole(path, text.as_bytes())?;
        }
        let mut text = text.to_owned();
        for (title, path) in self.given() {
            text += &format!("  written     {} ({title})\n", path.display());
        }
        output::deliver(self.json.as_ref(), result, &text)
    }
}

impl<T: Task> Args for Files<T> {
    fn augment_args(command: Command) -> Command {
        let file = |name: &'static str, help: &'static str| {
            Arg::new(name).long(name).value_name("FILE").help(help).value_parser(value_parser!(PathBuf))
        };
        let json = Arg::new("json").long("json").value_name("FILE").value_parser(value_parser!(Json));
        let quick = Arg::new(QUICK).long(QUICK).action(ArgAction::SetTrue);
        let files = [
            Some(json.help("Write the result as JSON to FILE (- for standard output)")),
            Some(file("csv", "Write the measurements as comma-separated values")),
            T::HGRM.map(|_| file("hgrm", "Write the latency distribution in HdrHistogram's text format")),
            T::PERFETTO.map(|_| file("perfetto", "Write a trace for ui.perfetto.dev")),
            T::HISTORY.map(|_| {
                file(
                    "history",
                    "Write every operation with its answer as a line of JSON, for `weft check history`, or as Jepsen \
                     does if the name of FILE ends in .edn (one run)",
                )
            }),
            T::IS_QUICK.then(|| {
                quick.help(
                    "Run for about a second, to try the command; options that are given keep their values",
                )
            }),
        ];
        command.args(files.into_iter().flatten())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Task> FromArgMatches for Files<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // clap does not know a file option that the task does not offer. Such an option counts as not given.
        let file = |name| matches.try_get_one::<PathBuf>(name).ok().flatten().cloned();
        Ok(Self {
            json: matches.get_one("json").cloned(),
            csv: file("csv"),
            hgrm: file("hgrm"),
            perfetto: file("perfetto"),
            history: file("history"),
            is_quick: T::IS_QUICK && matches.get_flag(QUICK),
            ..Self::default()
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
