//! Faults as data: kinds of faults, sets of kinds, and counts of injected faults.

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
    /// Frames are delayed, so that later frames overtake them.
    Reordering,
    /// Bits of frames are flipped.
    Corruption,
    /// Groups of machines cannot communicate with each other.
    Partition,
    /// One machine cannot send to another; the other direction works.
    OneWayCut,
    /// A machine crashes and loses its memory, and restarts empty.
    Crash,
    /// A machine stops for a while.
    Pause,
    /// A link transmits slowly.
    SlowLink,
    /// A machine crashes, and restarts with the data that it has stored.
    Outage,
    /// Some machines that may crash receive nothing from some others, in one or both directions, while both
    /// can reach all other machines.
    PartialPartition,
    /// Machines lose power together. Data that their disks have not flushed is partly lost.
    Power,
    /// Sectors that are being written at a power failure are half old and half new.
    Torn,
    /// A disk acknowledges a write that it has not performed.
    Lost,
    /// A disk writes to a wrong position.
    Misdirect,
    /// Bits on a disk flip.
    Rot,
    /// Writes and flushes of a disk fail.
    IoError,
    /// A disk has no space beyond what is allocated.
    Full,
    /// Flushes of a disk take many times as long as usual.
    SlowDisk,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 19] = [
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
        Self::PartialPartition,
        Self::Power,
        Self::Torn,
        Self::Lost,
        Self::Misdirect,
        Self::Rot,
        Self::IoError,
        Self::Full,
        Self::SlowDisk,
    ];
    /// The first of the kinds that need machines with disks.
    const FIRST_OF_DISKS: u32 = Self::Power as u32;

    /// The kind's name in plans, options and results.
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
            Self::PartialPartition => "partial_partition",
            Self::Power => "power",
            Self::Torn => "torn",
            Self::Lost => "lost",
            Self::Misdirect => "misdirect",
            Self::Rot => "rot",
            Self::IoError => "io_error",
            Self::Full => "full",
            Self::SlowDisk => "slow_disk",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of kinds, as users write it: `none`, or a list such as `crash,loss`. In a list, `all` stands for
/// every kind that does not need disks, and `disk` for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultKinds(u32);

impl FaultKinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind that does not need disks.
    pub const ALL: Self = Self((1 << FaultKind::FIRST_OF_DISKS) - 1);
    /// Every kind that needs machines with disks.
    pub const DISK: Self = Self(((1 << FaultKind::ALL.len()) - 1) & !Self::ALL.0);

    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: FaultKind) -> bool {
        self.0 >> kind as u32 & 1 == 1
    }

    /// This set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: FaultKind) -> Self {
        Self(self.0 | 1 << kind as u32)
    }

    /// The kinds in either set.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether some of the kinds need disks.
    pub const fn has_disks(self) -> bool {
        self.0 & Self::DISK.0 != 0
    }

    /// The kinds in their order.
    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }
}

impl std::str::FromStr for FaultKinds {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        text.split(',').map(str::trim).try_fold(Self::NONE, |kinds, name| match name {
            "all" => Ok(kinds.and(Self::ALL)),
            "disk" => Ok(kinds.and(Self::DISK)),
            _ => {
                let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
                kind.map(|kind| kinds.with(kind))
                    .ok_or_else(|| PlanError::UnknownKind { name: name.to_owned() })
            }
        })
    }
}

impl fmt::Display for FaultKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let mut rest = *self;
        let mut names = Vec::new();
        for (group, name) in [(Self::ALL, "all"), (Self::DISK, "disk")] {
            if rest.0 & group.0 == group.0 {
                names.push(name);
                rest = Self(rest.0 & !group.0);
            }
        }
        names.extend(rest.iter().map(FaultKind::name));
        f.write_str(&names.join(","))
    }
}

/// Number of injected faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Frames lost.
    pub loss: u64,
    /// Frames that arrived twice.
    pub duplication: u64,
    /// Frames delayed so that others overtake them.
    pub reordering: u64,
    /// Frames delivered with flipped bits.
    pub corruption: u64,
    /// Frames with flipped bits that the frame check sequence detected.
    pub corruption_caught_by_fcs: u64,
    /// Partitions started.
    pub partition: u64,
    /// One-way cuts started.
    pub one_way_cut: u64,
    /// Crashes.
    pub crash: u64,
    /// Crashes of the plan that were skipped, because the director vetoed them or the machine was down.
    pub crash_skipped: u64,
    /// Restarts.
    pub restart: u64,
    /// Pauses started.
    pub pause: u64,
    /// Periods of a slow link started.
    pub slow_link: u64,
    /// Outages started, of machines that store data. They are not counted as crashes and restarts.
    pub outage: u64,
    /// Partial partitions started.
    pub partial_partition: u64,
    /// Power failures of several machines. They are not counted as crashes.
    pub power: u64,
    /// Disks that were set to tear writes at the next power failure.
    pub torn: u64,
    /// Writes that a disk lost.
    pub lost: u64,
    /// Writes to a wrong position.
    pub misdirect: u64,
    /// Sectors in which bits flipped.
    pub rot: u64,
    /// Periods in which writes of a disk failed.
    pub io_error: u64,
    /// Periods in which a disk was full.
    pub full: u64,
    /// Periods in which a disk was slow.
    pub slow_disk: u64,
    /// Disk faults of the plan that the director vetoed.
    pub disk_skipped: u64,
}

impl FaultCounts {
    /// The counts by name, in a fixed order.
    pub const fn entries(&self) -> [(&'static str, u64); 23] {
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
            ("partial_partition", self.partial_partition),
            ("power", self.power),
            ("torn", self.torn),
            ("lost", self.lost),
            ("misdirect", self.misdirect),
            ("rot", self.rot),
            ("io_error", self.io_error),
            ("full", self.full),
            ("slow_disk", self.slow_disk),
            ("disk_skipped", self.disk_skipped),
        ]
    }
}

/// Adds the counts of another run.
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
        self.partial_partition += other.partial_partition;
        self.power += other.power;
        self.torn += other.torn;
        self.lost += other.lost;
        self.misdirect += other.misdirect;
        self.rot += other.rot;
        self.io_error += other.io_error;
        self.full += other.full;
        self.slow_disk += other.slow_disk;
        self.disk_skipped += other.disk_skipped;
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
        assert_eq!("all,disk".parse(), Ok(FaultKinds::ALL.and(FaultKinds::DISK)));
        for text in ["all", "disk", "none", "all,disk", "all,rot", "disk,loss"] {
            assert_eq!(text.parse::<FaultKinds>().unwrap().to_string(), text);
        }
        for kind in FaultKind::ALL {
            assert!(FaultKinds::ALL.contains(kind) != FaultKinds::DISK.contains(kind));
            assert_eq!(kind.name().parse(), Ok(FaultKinds::NONE.with(kind)));
        }
        let error = "loss,fire".parse::<FaultKinds>().unwrap_err().to_string();
        assert!(error.starts_with("unknown kind of fault `fire`; known are loss, duplication"), "{error}");
        assert!("".parse::<FaultKinds>().is_err());
    }
}
