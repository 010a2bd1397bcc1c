//! The environment that measurements and campaigns share: network, cost profile, fault plan and seed. The
//! options have the same names in all commands.
//!
//! Each command has only the options that make sense for it. The [`Offers`] parameter of its [`Ground`] says which; the
//! command line rejects the others.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use weft_sim::{CostProfile, FaultPlan, NetworkProfile};

use crate::failure::Failure;
use crate::faults;
use crate::replay::CommandLine;

/// Which of the options a command has, and their defaults.
pub(crate) trait Offers {
    /// Networks to choose from; the first is the default.
    const NETWORKS: &'static [NetworkProfile] = &[];
    /// Cost profiles to choose from; the first is the default.
    const PROFILES: &'static [CostProfile] = &[];
    /// Help text of `--faults`; `None` if the command has no fault plans.
    const FAULTS: Option<&'static str> = None;
    /// The default seed; `None` if the command's runs have no seed.
    const SEED: Option<u64> = Some(7);
}

/// Cost profiles of NICs that run an engine.
pub(crate) const ENGINE_PROFILES: &[CostProfile] =
    &[CostProfile::FPGA, CostProfile::FPGA_APPLICATION, CostProfile::CORES, CostProfile::HOST_CARD];

/// All networks. The default, a data centre's, is the first.
pub(crate) const NETWORKS: &[NetworkProfile] =
    &[NetworkProfile::SWITCH, NetworkProfile::DETPU, NetworkProfile::ZERO];

/// The environment that the user has chosen.
#[derive(Debug)]
pub(crate) struct Ground<O> {
    /// The network if the user gave one; otherwise [`Ground::network`] returns the default.
    pub(crate) network: Option<NetworkProfile>,
    /// The profile if the user gave one; otherwise [`Ground::profile`] returns the default.
    pub(crate) profile: Option<CostProfile>,
    /// File of the fault plan.
    pub(crate) faults: Option<PathBuf>,
    /// Seed of the run.
    pub(crate) seed: u64,
    pub(crate) offers: std::marker::PhantomData<O>,
}

impl<O> Clone for Ground<O> {
    fn clone(&self) -> Self {
        Self { faults: self.faults.clone(), ..*self }
    }
}

impl<O> PartialEq for Ground<O> {
    fn eq(&self, other: &Self) -> bool {
        let of = |ground: &Self| (ground.network, ground.profile, ground.seed);
        of(self) == of(other) && self.faults == other.faults
    }
}

impl<O: Offers> Default for Ground<O> {
    fn default() -> Self {
        Self {
            network: None,
            profile: None,
            faults: None,
            seed: O::SEED.unwrap_or_default(),
            offers: std::marker::PhantomData,
        }
    }
}

impl<O: Offers> Ground<O> {
    /// The network between the machines.
    pub(crate) fn network(&self) -> NetworkProfile {
        self.network.unwrap_or_else(|| O::NETWORKS[0])
    }

    /// The cost profile.
    pub(crate) fn profile(&self) -> CostProfile {
        self.profile.unwrap_or_else(|| O::PROFILES[0])
    }

    /// The fault plan; an empty one if the user gave none.
    pub(crate) fn plan(&self) -> Result<FaultPlan, Failure> {
        Ok(self.faults.as_deref().map(faults::plan).transpose()?.unwrap_or_default())
    }

    /// A failure with this error. If there is a file with the fault plan, the failure names it.
    pub(crate) fn at_plan(&self, error: impl std::fmt::Display) -> Failure {
        self.faults.as_deref().map_or_else(|| Failure::new(&error), |path| Failure::at(path, &error))
    }

    /// Rejects options that only the simulator has.
    pub(crate) fn check_real(&self) -> Result<(), Failure> {
        let given = [(self.network.is_some(), "--network"), (self.profile.is_some(), "--profile")];
        match given.into_iter().find(|(given, _)| *given) {
            Some((_, name)) => {
                Err(Failure::new(format!("{name} is for the simulator; leave it out or choose --world sim")))
            }
            None => Ok(()),
        }
    }

    /// Adds the options with which a command repeats this choice.
    pub(crate) fn add_to(&self, line: CommandLine) -> CommandLine {
        let line = line
            .given("--network", self.network.map(|network| network.name))
            .given("--profile", self.profile.map(|profile| profile.name))
            .given("--faults", self.faults.as_ref().map(|path| path.display()));
        if O::SEED.is_some() { line.option("--seed", self.seed) } else { line }
    }
}

/// Finds the item with this name. The error lists the names of all items.
fn choose<T: Copy>(kind: &str, name: &str, of: fn(&T) -> &'static str, all: &[T]) -> Result<T, String> {
    all.iter().find(|known| of(known) == name).copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(of).collect();
        format!("there is no {kind} `{name}` for this; choose one of {}", names.join(", "))
    })
}

/// Formats alternatives for a help text, the default first: `fpga (...), cores (...) or host-card (...) [default:
/// fpga]`.
fn alternatives(default: &str, summaries: &[String]) -> String {
    match summaries {
        [all @ .., last] if !all.is_empty() => {
            format!("{} or {last} [default: {default}]", all.join(", "))
        }
        _ => summaries.join(""),
    }
}

impl<O: Offers> Args for Ground<O> {
    fn augment_args(mut command: Command) -> Command {
        if !O::NETWORKS.is_empty() {
            let summaries: Vec<_> = O::NETWORKS.iter().map(NetworkProfile::summary).collect();
            command = command.arg(
                Arg::new("network")
                    .long("network")
                    .value_name("NAME")
                    .help(format!("Simulated network: {}", alternatives(O::NETWORKS[0].name, &summaries)))
                    .value_parser(ValueParser::from(|name: &str| {
                        choose("network", name, |network| network.name, O::NETWORKS)
                    })),
            );
        }
        if !O::PROFILES.is_empty() {
            let summaries: Vec<_> =
                O::PROFILES.iter().map(|profile| format!("{} ({})", profile.name, profile.summary)).collect();
            command = command.arg(
                Arg::new("profile")
                    .long("profile")
                    .value_name("NAME")
                    .help(format!(
                        "Timing model of the NICs (docs/costs.md): {}",
                        alternatives(O::PROFILES[0].name, &summaries)
                    ))
                    .value_parser(ValueParser::from(|name: &str| {
                        choose("cost profile", name, |profile| profile.name, O::PROFILES)
                    })),
            );
        }
        if let Some(what) = O::FAULTS {
            command = command.arg(
                Arg::new("faults")
                    .long("faults")
                    .value_name("PLAN.toml")
                    .help(format!("Fault plan in TOML (docs/fault-plans.md). {what}"))
                    .value_parser(value_parser!(PathBuf)),
            );
        }
        if let Some(seed) = O::SEED {
            command = command.arg(
                Arg::new("seed")
                    .long("seed")
                    .value_name("N")
                    .help(format!("Seed; it repeats a simulated run exactly [default: {seed}]"))
                    .value_parser(value_parser!(u64)),
            );
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<O: Offers> FromArgMatches for Ground<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // clap does not know an option that the command does not have. Such an option counts as not given.
        fn given<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Option<T> {
            matches.try_get_one(name).ok().flatten().cloned()
        }
        let default = Self::default();
        Ok(Self {
            network: given(matches, "network"),
            profile: given(matches, "profile"),
            faults: given(matches, "faults"),
            seed: given(matches, "seed").unwrap_or(default.seed),
            ..default
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Toys;

    impl Offers for Toys {
        const NETWORKS: &'static [NetworkProfile] = NETWORKS;
        const FAULTS: Option<&'static str> = Some("Fault plan");
        const SEED: Option<u64> = Some(1);
    }

    #[derive(Parser)]
    struct Toy {
        #[command(flatten)]
        ground: Ground<Toys>,
    }

    fn parse(line: &str) -> Result<Ground<Toys>, String> {
        Toy::try_parse_from(line.split(' ')).map(|toy| toy.ground).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_offered_is_taken_and_repeated() {
        let bare = parse("toy").unwrap();
        assert_eq!((bare.network().name, bare.seed), ("switch", 1));
        assert_eq!(bare.plan().unwrap(), FaultPlan::default());
        for line in ["toy --seed 1", "toy --network detpu --faults plan.toml --seed 9"] {
            assert_eq!(parse(line).unwrap().add_to(CommandLine::new("toy")).to_string(), line);
        }
    }

    #[test]
    fn what_is_not_offered_or_unknown_is_refused() {
        assert!(parse("toy --profile fpga").unwrap_err().contains("unexpected argument '--profile'"));
        let unknown = parse("toy --network mars").unwrap_err();
        assert!(unknown.contains("there is no network `mars`"), "{unknown}");
        assert!(unknown.contains("switch, detpu, zero"), "{unknown}");
        assert!(parse("toy --seed x").is_err());
    }

    #[test]
    fn only_the_simulator_has_models() {
        assert_eq!(parse("toy").unwrap().check_real(), Ok(()));
        let refused = parse("toy --network zero").unwrap().check_real().unwrap_err().to_string();
        assert!(refused.contains("--network is for the simulator"), "{refused}");
    }
}
