//! Faults as users name them: by kind, or as a plan in a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weft_sim::{FaultKinds, FaultPlan};

use crate::failure::Failure;

/// Kinds of faults for random plans, or the file of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// Every seed has a plan of its own, with these kinds.
    Kinds(FaultKinds),
    /// The plan in this file.
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

/// Reads the plan in a file.
pub(crate) fn plan(path: &Path) -> Result<FaultPlan, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::at(path, format!("cannot be read ({error}); give a fault plan in TOML")))?;
    FaultPlan::parse(&text).map_err(|error| Failure::at(path, error))
}
