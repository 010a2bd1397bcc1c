//! Faults as data: what goes wrong, when, and how often it did.

mod active;
mod plan;
mod random;

use std::fmt;

use serde::Serialize;

pub(crate) use active::ActiveFaults;
pub use plan::{Fault, FaultPlan, LinkDirection, PlanError};
pub use random::PlanShape;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FaultKind {
    /// Frames are lost.
    Loss,
    /// Frames arrive twice.
    Duplication,
    /// Frames are late and arrive behind later ones.
    Reordering,
    /// Bits of frames are flipped.
    Corruption,
    /// Groups of machines cannot talk to each other.
    Partition,
    /// One machine cannot talk to another, which still can to it.
    OneWayCut,
    /// A machine vanishes with all that it knew, and comes back empty.
    Crash,
    /// A machine stands still for a while.
    Pause,
    /// A link transmits slowly.
    SlowLink,
    /// A machine crashes, and comes back with what it has stored.
    Outage,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Loss,
        Self::Duplication,
        Self::Reordering,
        Self::Corruption,
        Self::Partition,
        Self::OneWayCut,
        Self::Crash,
        Self::Pause,
        Self::SlowLink,
        Self::Outage,
    ];

    /// Its name in plans, options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Duplication => "duplication",
            Self::Reordering => "reordering",
            Self::Corruption => "corruption",
            Self::Partition => "partition",
            Self::OneWayCut => "one_way_cut",
            Self::Crash => "crash",
            Self::Pause => "pause",
            Self::SlowLink => "slow_link",
            Self::Outage => "outage",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds, as a user names it: `all`, `none`, or a list such as `crash,loss`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultKinds(u16);

impl FaultKinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind.
    pub const ALL: Self = Self((1 << FaultKind::ALL.len()) - 1);

    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: FaultKind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }

    /// The set and `kind`.
    #[must_use]
    pub const fn with(self, kind: FaultKind) -> Self {
        Self(self.0 | 1 << kind as u16)
    }

    /// Its kinds in their order.
    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }
}

impl std::str::FromStr for FaultKinds {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        match text {
            "all" => return Ok(Self::ALL),
            "none" => return Ok(Self::NONE),
            _ => {}
        }
        text.split(',').map(str::trim).try_fold(Self::NONE, |kinds, name| {
            let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
            kind.map(|kind| kinds.with(kind)).ok_or_else(|| PlanError::UnknownKind { name: name.to_owned() })
        })
    }
}

impl fmt::Display for FaultKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NONE => f.write_str("none"),
            Self::ALL => f.write_str("all"),
            _ => f.write_str(&self.iter().map(FaultKind::name).collect::<Vec<_>>().join(",")),
        }
    }
}

/// How often each fault was injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Frames lost.
    pub loss: u64,
    /// Frames that arrived twice.
    pub duplication: u64,
    /// Frames held back.
    pub reordering: u64,
    /// Frames passed on with wrong bits.
    pub corruption: u64,
    /// Frames with wrong bits that the frame check sequence has caught.
    pub corruption_caught_by_fcs: u64,
    /// Partitions begun.
    pub partition: u64,
    /// One-way cuts begun.
    pub one_way_cut: u64,
    /// Crashes.
    pub crash: u64,
    /// Crashes that the plan wanted, but the director vetoed or the machine was down.
    pub crash_skipped: u64,
    /// Restarts.
    pub restart: u64,
    /// Pauses begun.
    pub pause: u64,
    /// Periods of a slow link begun.
    pub slow_link: u64,
    /// Outages begun of machines that store something. They are not among the crashes and restarts.
    pub outage: u64,
}

impl FaultCounts {
    /// The counts by name, in a fixed order.
    pub const fn entries(&self) -> [(&'static str, u64); 13] {
        [
            ("loss", self.loss),
            ("duplication", self.duplication),
            ("reordering", self.reordering),
            ("corruption", self.corruption),
            ("corruption_caught_by_fcs", self.corruption_caught_by_fcs),
            ("partition", self.partition),
            ("one_way_cut", self.one_way_cut),
            ("crash", self.crash),
            ("crash_skipped", self.crash_skipped),
            ("restart", self.restart),
            ("pause", self.pause),
            ("slow_link", self.slow_link),
            ("outage", self.outage),
        ]
    }
}

/// Sums over the runs of a campaign.
impl std::ops::AddAssign for FaultCounts {
    fn add_assign(&mut self, other: Self) {
        self.loss += other.loss;
        self.duplication += other.duplication;
        self.reordering += other.reordering;
        self.corruption += other.corruption;
        self.corruption_caught_by_fcs += other.corruption_caught_by_fcs;
        self.partition += other.partition;
        self.one_way_cut += other.one_way_cut;
        self.crash += other.crash;
        self.crash_skipped += other.crash_skipped;
        self.restart += other.restart;
        self.pause += other.pause;
        self.slow_link += other.slow_link;
        self.outage += other.outage;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_users_write_them() {
        assert_eq!("all".parse(), Ok(FaultKinds::ALL));
        assert_eq!("none".parse(), Ok(FaultKinds::NONE));
        let some: FaultKinds = "crash, loss".parse().unwrap();
        assert_eq!(some, FaultKinds::NONE.with(FaultKind::Loss).with(FaultKind::Crash));
        assert_eq!(some.to_string(), "loss,crash");
        for kind in FaultKind::ALL {
            assert!(FaultKinds::ALL.contains(kind));
            assert_eq!(kind.name().parse(), Ok(FaultKinds::NONE.with(kind)));
        }
        let error = "loss,fire".parse::<FaultKinds>().unwrap_err().to_string();
        assert!(error.starts_with("unknown kind of fault `fire`; known are loss, duplication"), "{error}");
        assert!("".parse::<FaultKinds>().is_err());
    }
}
