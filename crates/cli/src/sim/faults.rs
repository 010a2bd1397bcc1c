//! The option `--faults` of campaigns.

use std::fmt::Display;

use weft_sim::{FaultKinds, FaultPlan, PlanError};

use crate::failure::Failure;
use crate::faults::{self, Faults};

/// Name of the value, help text and parser of the option `--faults`.
pub(crate) struct FaultsOption<F> {
    pub(crate) value: &'static str,
    pub(crate) help: &'static str,
    pub(crate) parse: fn(&str) -> Result<F, String>,
}

/// The user's choice of faults.
pub(crate) trait FaultChoice: Clone + Display + Send + Sync + 'static {
    /// The kinds of faults of random plans, and the plan that replaces them.
    fn chosen(&self) -> Result<(FaultKinds, Option<FaultPlan>), Failure>;

    /// The failure of a plan that does not fit the cluster.
    fn misfit(&self, error: PlanError) -> Failure {
        error.into()
    }
}

impl FaultChoice for Faults {
    fn chosen(&self) -> Result<(FaultKinds, Option<FaultPlan>), Failure> {
        match self {
            Self::Kinds(kinds) => Ok((*kinds, None)),
            Self::Plan(path) => Ok((FaultKinds::NONE, Some(faults::plan(path)?))),
        }
    }

    fn misfit(&self, error: PlanError) -> Failure {
        match self {
            Self::Kinds(_) => error.into(),
            Self::Plan(path) => Failure::at(path, error),
        }
    }
}

/// The option `--faults` for engines whose nodes may have disks.
pub(crate) const DISK_FAULTS: FaultsOption<Faults> = FaultsOption {
    value: "KINDS|PLAN.toml",
    help: "\
Kinds of faults, separated by commas. Network and nodes: loss, duplication, reordering, corruption, partition, \
one_way_cut, crash, pause, slow_link, outage (of the membership service), partial_partition; `all` means these. Disks: \
power, torn, lost, misdirect, rot, io_error, full, slow_disk; `disk` means these, and any of them gives the nodes \
disks. Or none, or the path of a fault plan in TOML. docs/fault-plans.md describes each",
    parse: str::parse,
};

/// The option `--faults` for engines whose nodes have no disks.
pub(crate) const NETWORK_FAULTS: FaultsOption<Faults> = FaultsOption {
    value: "KINDS|PLAN.toml",
    help: "\
Kinds of faults, separated by commas: loss, duplication, reordering, corruption, partition, one_way_cut, crash, pause, \
slow_link, outage (of the membership service), partial_partition; or all; or none; or the path of a fault plan in TOML. \
docs/fault-plans.md describes each",
    parse: |text| match text.parse()? {
        Faults::Kinds(kinds) if kinds.has_disks() => {
            Err("this engine keeps nothing on disks; `weft sim kv` and `weft sim txn` have faults of disks"
                .to_owned())
        }
        faults => Ok(faults),
    },
};
