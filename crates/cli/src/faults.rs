//! Faults as users name them: by kind, or as a plan in a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weft_processes::kv::Kill;
use weft_sim::{Fault, FaultKinds, FaultPlan};
use weft_time::Duration;

use crate::failure::Failure;

/// Faults of a campaign: kinds from which random plans are drawn, or one plan in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// Each seed has a random plan with these kinds of faults.
    Kinds(FaultKinds),
    /// All seeds have the plan in this file.
    Plan(PathBuf),
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.ends_with(".toml") {
            return Ok(Self::Plan(text.into()));
        }
        text.parse()
            .map(Self::Kinds)
            .map_err(|error| format!("{error}, or a plan in a file that ends in .toml"))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kinds(kinds) => kinds.fmt(f),
            Self::Plan(path) => path.display().fmt(f),
        }
    }
}

/// Reads a fault plan from a file.
pub(crate) fn plan(path: &Path) -> Result<FaultPlan, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::at(path, format!("cannot be read ({error}); give a fault plan in TOML")))?;
    FaultPlan::parse(&text).map_err(|error| Failure::at(path, error))
}

/// The only fault that real processes support: one node is killed, and restarted if the plan says so.
pub(crate) fn kill(plan: &FaultPlan) -> Result<Option<Kill>, Failure> {
    let node = |machine: &str| machine.strip_prefix("node").and_then(|number| number.parse().ok());
    let (crash, restart) = match plan.faults.as_slice() {
        [] => return Ok(None),
        [Fault::Crash { at_us, machine }] => (node(machine).zip(Some(*at_us)), None),
        [Fault::Crash { at_us, machine }, Fault::Restart { at_us: later_us, machine: again }]
            if machine == again =>
        {
            (node(machine).zip(Some(*at_us)), Some(Duration::from_us(*later_us)))
        }
        _ => (None, None),
    };
    let (node, after_us) = crash.ok_or_else(|| {
        Failure::new(
            "real processes take one crash of a node, and its restart behind it; plan that, or choose --world sim",
        )
    })?;
    Ok(Some(Kill { node, after: Duration::from_us(after_us), restart }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRASH: &str = "[[fault]]\nkind = \"crash\"\nat_us = 500\nmachine = \"node2\"\n";
    const RESTART: &str = "[[fault]]\nkind = \"restart\"\nat_us = 900\nmachine = \"node2\"\n";

    #[test]
    fn a_real_node_can_be_killed_and_nothing_else() {
        let kill_of = |text: &str| kill(&FaultPlan::parse(text).expect("it is a plan"));
        assert_eq!(kill_of(""), Ok(None));
        let killed = Kill { node: 2, after: Duration::from_us(500), restart: None };
        assert_eq!(kill_of(CRASH), Ok(Some(killed)));
        let restarted = Kill { restart: Some(Duration::from_us(900)), ..killed };
        assert_eq!(kill_of(&format!("{CRASH}{RESTART}")), Ok(Some(restarted)));
        let elsewhere = CRASH.replace("node2", "clients0");
        let other = RESTART.replace("node2", "node1");
        let loss = "[[fault]]\nkind = \"loss\"\nfrom_us = 1\nuntil_us = 2\nprobability = 0.5\n";
        for wrong in
            [elsewhere, format!("{CRASH}{CRASH}"), format!("{CRASH}{other}"), loss.into(), RESTART.into()]
        {
            assert!(kill_of(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn faults_are_kinds_or_a_file() {
        assert_eq!("all".parse(), Ok(Faults::Kinds(FaultKinds::ALL)));
        assert_eq!("my/plan.toml".parse(), Ok(Faults::Plan("my/plan.toml".into())));
        for text in ["all", "none", "loss,crash", "plan.toml"] {
            assert_eq!(text.parse::<Faults>().unwrap().to_string(), text);
        }
        assert!("plan.json".parse::<Faults>().unwrap_err().contains(".toml"));
    }
}
