//! `weft sim ENGINE`: the options of a fault campaign of any engine, its run, and the text of its result.

use clap::Args;
use serde::Serialize;
use weft_harness::progress::Progress;
use weft_harness::{Campaign, CampaignResult, LiveWithin, Planted, Sealed, Subject, Violation};
use weft_results::table::{Column, Table, grouped, time_with_unit};
use weft_sim::{CostProfile, NetworkProfile, PlanError};

use super::faults::{FaultChoice, FaultsOption};
use super::seeds::SeedOptions;
use crate::failure::Failure;
use crate::ground::{ENGINE_PROFILES, NETWORKS, Offers};
use crate::parse::{self, Seeds};
use crate::replay::CommandLine;
use crate::task::{Files, Histories, Task, is_edn};

/// The engine of a campaign, and the options that only this engine has.
pub(crate) trait EngineOptions: Args {
    /// How the user chooses faults.
    type Faults: FaultChoice;
    /// Figures that only this engine has.
    type Figures: Serialize;
    /// Attributes of a run that are stated with its violations.
    type About: Serialize;

    /// The subcommand, as it is typed after `weft`: for example, `sim kv`.
    const KIND: &'static str;
    /// The option `--nodes`.
    const NODES: NodesOption =
        NodesOption { help: "Number of nodes, 1 to 16", default: "3", parse: parse::nodes };
    /// The option `--faults`.
    const FAULTS: FaultsOption<Self::Faults>;
    /// See [`Task::HISTORY`].
    const HISTORY: Option<Histories<Found<Self>>> = None;
    /// What every node does again after the last fault.
    const AGAIN: &'static str = "serves again";

    /// Makes the runs. Rejects options that contradict each other.
    fn run(&self, conduct: Conduct<'_, Self::Faults>) -> Result<Found<Self>, Failure>;

    /// Adds the engine's options to a command that repeats runs.
    fn add_to(&self, line: CommandLine) -> CommandLine;

    /// Sums over all runs, by name.
    fn counts(&self, found: &Found<Self>) -> Vec<(&'static str, u64)>;

    /// What to know about the cluster, with its title.
    fn cluster(&self, found: &Found<Self>) -> Option<(&'static str, String)> {
        let _ = found;
        None
    }

    /// What else was found, with its titles.
    fn notes(&self, found: &Found<Self>) -> Vec<(&'static str, String)> {
        let _ = found;
        Vec::new()
    }

    /// The attributes of a run as text.
    fn about(run: &Self::About) -> String {
        let _ = run;
        String::new()
    }
}

/// What the campaign of an engine has found.
pub(crate) type Found<E> = CampaignResult<<E as EngineOptions>::Figures, <E as EngineOptions>::About>;

/// Help text, default and parser of the option `--nodes`.
pub(crate) struct NodesOption {
    pub(crate) help: &'static str,
    pub(crate) default: &'static str,
    pub(crate) parse: fn(&str) -> Result<usize, String>,
}

/// The runs of a campaign, which an engine takes part in.
pub(crate) struct Conduct<'a, F> {
    /// The runs.
    pub(crate) runs: Campaign,
    /// The faults that were chosen.
    pub(crate) faults: &'a F,
    /// Whether the histories are to be kept.
    pub(crate) keeps_histories: bool,
    replay: &'a dyn Fn(u64) -> String,
}

/// Returns the command that repeats the run of a seed.
pub(crate) type Replay<'a> = &'a dyn Fn(u64) -> String;
/// Called with the number of runs that are done.
pub(crate) type Done<'a> = &'a mut dyn FnMut(u64);

impl<F: FaultChoice> Conduct<'_, F> {
    /// Makes the runs of a subject.
    pub(crate) fn of<S: Subject>(
        &self,
        subject: &S,
    ) -> Result<CampaignResult<S::Figures, S::About>, Failure> {
        self.by(|runs, replay, done| runs.run(subject, replay, done))
    }

    /// Lets `run` make the runs.
    pub(crate) fn by<R>(
        &self,
        run: impl FnOnce(&Campaign, Replay<'_>, Done<'_>) -> Result<R, PlanError>,
    ) -> Result<R, Failure> {
        let mut progress = Progress::new("seeds", Seeds(self.runs.seeds.clone()).count());
        run(&self.runs, self.replay, &mut |done| progress.set(done))
            .map_err(|error| self.faults.misfit(error))
    }
}

/// The environment of campaigns whose network and cards can be chosen.
#[derive(Debug)]
pub(crate) struct CampaignGround;

impl Offers for CampaignGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const SEED: Option<u64> = None;
}

/// A fault campaign of an engine.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct FaultCampaign<E: EngineOptions> {
    #[arg(long, value_name = "N", help = E::NODES.help, default_value = E::NODES.default,
          value_parser = E::NODES.parse)]
    nodes: usize,
    #[command(flatten)]
    seeds: SeedOptions,
    #[arg(long, value_name = E::FAULTS.value, help = E::FAULTS.help, default_value = "all",
          value_parser = E::FAULTS.parse)]
    faults: E::Faults,
    #[command(flatten)]
    engine: E,
    /// Plant this known bug around the engines, to see the campaign find it
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true, value_parser = parse::planted_node_bug)]
    node_bug: Option<weft_harness::NodeBug>,
}

impl<E: EngineOptions> Task for FaultCampaign<E> {
    type Found = Found<E>;

    const KIND: &'static str = E::KIND;
    const HISTORY: Option<Histories<Found<E>>> = E::HISTORY;

    fn work(&self) -> Result<Found<E>, Failure> {
        self.work_for(&Files::default())
    }

    fn work_for(&self, files: &Files<Self>) -> Result<Found<E>, Failure> {
        self.seeds.check()?;
        let count = self.seeds.chosen().count();
        if let Some(path) = files.history.as_deref().filter(|path| is_edn(path) && count > 1) {
            let reason = "a history in EDN is of one run: choose one seed, such as --seeds 7";
            return Err(Failure::at(path, reason));
        }
        let (kinds, plan) = self.faults.chosen()?;
        let planted = Planted {
            #[cfg(feature = "planted-bugs")]
            bug: self.node_bug,
        };
        let runs = Campaign::new(self.nodes, self.seeds.chosen().0);
        self.engine.run(Conduct {
            runs: Campaign { jobs: self.seeds.jobs(), kinds, plan, planted, ..runs },
            faults: &self.faults,
            keeps_histories: files.history.is_some(),
            replay: &|seed| self.command(&Seeds(seed..=seed)).to_string(),
        })
    }

    fn to_text(&self, found: &Found<E>) -> String {
        let mut counts = vec![("runs", found.seeds_run)];
        counts.extend(self.engine.counts(found));
        counts.push(("violations", found.findings.violations_found));
        let columns = counts.iter().map(|(name, _)| Column::numbers(name, ""));
        let mut table = Table::new(columns.chain([Column::words("checked")]).collect::<Vec<_>>());
        table.row(counts.iter().map(|(_, count)| grouped(*count)).chain([found.checked.to_owned()]));

        let mut lines: Vec<_> = self.engine.cluster(found).into_iter().collect();
        lines.push(("faults", list(&found.faults)));
        lines.extend(self.engine.notes(found));
        if let Some(live) = found.live {
            lines.push(("every node", format!("{} {}", E::AGAIN, live_within(live))));
        }
        if let Some(Sealed { frames, keys, counters }) = &found.psp {
            let sealed = format!("{} frames with {} keys", grouped(*frames), grouped(*keys));
            lines.push(("sealed", format!("{sealed}, each opened by an observer")));
            lines.push(("cards", list(counters)));
        }
        lines.push(("log hash", found.findings.log_hash.clone()));
        lines.push(("repeat", self.command(&self.seeds.chosen()).to_string()));
        let lines: String = lines.iter().map(|(title, text)| format!("  {title:<11} {text}\n")).collect();
        let violations = found.findings.violations.iter().map(|violation| {
            let Violation { seed, about, what, replay } = violation;
            format!("\nseed {seed}{}: {what}\n  repeat  {replay}\n", E::about(about))
        });
        format!("{table}\n{lines}{}", violations.collect::<String>())
    }

    fn holds(&self, found: &Found<E>) -> bool {
        found.findings.violations_found == 0
    }
}

impl<E: EngineOptions> FaultCampaign<E> {
    /// The command that repeats the runs of these seeds.
    fn command(&self, seeds: &Seeds) -> CommandLine {
        let line = CommandLine::new(&format!("weft {}", E::KIND))
            .option("--nodes", self.nodes)
            .option("--seeds", seeds)
            .option("--faults", &self.faults);
        let line = self.engine.add_to(line);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--node-bug", self.node_bug.map(weft_harness::NodeBug::name));
        line
    }
}

/// Counts that are not zero, by name.
pub(super) fn list<'a, N: AsRef<str> + 'a>(counts: impl IntoIterator<Item = (&'a N, &'a u64)>) -> String {
    let counts = counts.into_iter().filter(|(_, count)| **count > 0);
    let counts: Vec<_> =
        counts.map(|(kind, count)| format!("{} {}", kind.as_ref(), grouped(*count))).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// Time until all nodes were live again in the slowest run, and the bound for it.
fn live_within(LiveWithin { bound_ns, slowest_ns }: LiveWithin) -> String {
    let bound = time_with_unit(bound_ns);
    match slowest_ns {
        u64::MAX => format!("NOT within {bound} of the last fault"),
        ns => format!("within {} of the last fault (bound {bound})", time_with_unit(ns)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::kv::KvOptions;
    use super::super::lock::LockOptions;
    use super::*;
    use crate::task::Reported;

    #[derive(Parser)]
    struct Toy<E: EngineOptions> {
        #[command(flatten)]
        reported: Reported<FaultCampaign<E>>,
    }

    #[test]
    fn each_engine_has_its_own_number_of_nodes() {
        let lock = Toy::<LockOptions>::parse_from(["weft"]).reported.task;
        let kv = Toy::<KvOptions>::parse_from(["weft", "--faults", "rot"]).reported.task;
        let seeds: Seeds = "2..4".parse().unwrap();
        assert_eq!(lock.command(&seeds).to_string(), "weft sim lock --nodes 3 --seeds 2..4 --faults all");
        assert_eq!(kv.command(&seeds).to_string(), "weft sim kv --nodes 5 --seeds 2..4 --faults rot");
        assert!(Toy::<LockOptions>::try_parse_from(["weft", "--faults", "rot"]).is_err());
    }
}
