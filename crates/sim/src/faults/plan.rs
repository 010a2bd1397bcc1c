//! Fault plans: a list of faults, written in TOML.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weft_time::{Duration, Instant};

use super::FaultKind;
use crate::random::Probability;

/// The faults of a run. In TOML, each is a `[[fault]]` table; times are microseconds since the start of the
/// run.
///
/// ```
/// let plan = weft_sim::FaultPlan::parse(r#"
///     [[fault]]
///     kind = "loss"
///     from_us = 100
///     until_us = 900
///     probability = 0.05
///
///     [[fault]]
///     kind = "crash"
///     at_us = 300
///     machine = "node0"
/// "#)?;
/// assert_eq!(plan.faults.len(), 2);
/// # Ok::<(), weft_sim::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// The faults, in any order.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Fault>,
}

/// Direction of a machine's link that a fault affects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkDirection {
    /// From the machine to the switch and back.
    #[default]
    Both,
    /// Frames that the machine sends.
    FromMachine,
    /// Frames that the machine receives.
    ToMachine,
}

/// A fault. `M` is the type that names a machine: its name in a plan, its number in a world.
///
/// A link fault affects the link of `machine`, or all links if that is absent. If faults of one kind overlap
/// on a link, the worst one applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault<M = String> {
    /// Each frame is lost with this probability.
    Loss {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The probability, 0 to 1.
        probability: f64,
        /// The machine whose link is affected; all links if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// The affected direction of the link.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// Each frame arrives a second time with this probability.
    Duplication {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The probability, 0 to 1.
        probability: f64,
        /// The copy is delayed by at most this; uniformly distributed.
        delay_us: u64,
        /// The machine whose link is affected; all links if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// The affected direction of the link.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// Each frame is delayed with this probability, so that others overtake it.
    Reordering {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The probability, 0 to 1.
        probability: f64,
        /// The largest delay; uniformly distributed.
        delay_us: u64,
        /// The machine whose link is affected; all links if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// The affected direction of the link.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// One to four bits of a frame are flipped with this probability.
    Corruption {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The probability, 0 to 1.
        probability: f64,
        /// The share of corrupted frames that the frame check sequence detects; these are dropped. The others
        /// are delivered, like frames whose bits flip inside a switch or a card, where no check sequence
        /// covers them.
        #[serde(default)]
        caught_by_fcs: f64,
        /// The machine whose link is affected; all links if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// The affected direction of the link.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// The link transmits at a part of its rate.
    SlowLink {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The part of the rate in per cent, 1 to 99.
        rate_percent: u8,
        /// The machine whose link is affected; all links if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// The affected direction of the link.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// Machines of different groups cannot communicate. A machine in no group can communicate with all.
    Partition {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// Two or more groups.
        groups: Vec<Vec<M>>,
    },
    /// No frame from `from` reaches `to`.
    OneWayCut {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The sender.
        from: M,
        /// The receiver.
        to: M,
    },
    /// Frames between machines of `from` and machines of `to` are lost, in both directions. All can
    /// communicate with all other machines.
    PartialPartition {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The senders.
        from: Vec<M>,
        /// The receivers.
        to: Vec<M>,
        /// Whether frames from the receivers to the senders arrive.
        #[serde(default)]
        one_way: bool,
    },
    /// A machine crashes: its memory, its deadlines, and frames that are not sent yet are lost.
    Crash {
        /// When the fault happens.
        at_us: u64,
        /// The machine.
        machine: M,
    },
    /// A crashed machine restarts empty. No effect on a running machine.
    Restart {
        /// When the fault happens.
        at_us: u64,
        /// The machine.
        machine: M,
    },
    /// A machine stops, and continues later. Frames that arrive meanwhile wait.
    Pause {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The machine.
        machine: M,
    },
    /// A machine crashes, and restarts with the data that it has stored, if the director allows it. No effect
    /// on a machine that is down.
    Outage {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The machine.
        machine: M,
    },
    /// Machines lose power at the same moment, and restart with the data on their disks, if the director
    /// allows it.
    Power {
        /// When the power fails.
        from_us: u64,
        /// When the power returns.
        until_us: u64,
        /// The machines that lose power.
        machines: Vec<M>,
    },
    /// At the next power failure, writes in progress on the machine's disk are torn, even within sectors.
    Torn {
        /// When the fault is armed.
        at_us: u64,
        /// The machine with the disk.
        machine: M,
    },
    /// The next write is acknowledged but not performed.
    Lost {
        /// When the fault is armed.
        at_us: u64,
        /// The machine with the disk.
        machine: M,
    },
    /// The next write goes to a wrong position.
    Misdirect {
        /// When the fault is armed.
        at_us: u64,
        /// The machine with the disk.
        machine: M,
    },
    /// Bits of a sector flip.
    Rot {
        /// When the fault happens.
        at_us: u64,
        /// The machine with the disk.
        machine: M,
    },
    /// Writes and flushes fail.
    IoError {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The machine with the disk.
        machine: M,
    },
    /// Writes outside of allocated space fail.
    Full {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The machine with the disk.
        machine: M,
    },
    /// Flushes take this many times as long as usual.
    SlowDisk {
        /// When the fault starts.
        from_us: u64,
        /// When the fault ends.
        until_us: u64,
        /// The machine with the disk.
        machine: M,
        /// The factor, 2 or more.
        times: u32,
    },
}

/// The reason why a plan is rejected, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The text is not a plan.
    #[error("fault plan, line {line}: {message}")]
    Syntax {
        /// Line number, counted from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// A period ends before it starts.
    #[error("fault {fault}: until_us must be greater than from_us")]
    EmptyPeriod {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A probability is not between 0 and 1.
    #[error("fault {fault}: `{field}` must be between 0 and 1")]
    NotAProbability {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
        /// The key.
        field: &'static str,
    },
    /// A slow link's rate is not between 1 and 99 per cent.
    #[error("fault {fault}: rate_percent must be between 1 and 99")]
    NotASlowRate {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A slow disk's factor is less than 2.
    #[error("fault {fault}: times must be at least 2")]
    NotASlowDisk {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A power failure names no machines.
    #[error("fault {fault}: a loss of power needs machines")]
    NoMachines {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A partition has fewer than two groups.
    #[error("fault {fault}: a partition needs at least two groups, none of them empty")]
    TooFewGroups {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A machine is on both sides of a partition.
    #[error("fault {fault}: machine `{machine}` is in more than one place")]
    Overlap {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
        /// The machine's name.
        machine: String,
    },
    /// A time exceeds the longest possible run.
    #[error("fault {fault}: times must be below 10^12 microseconds")]
    TooLate {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// No machine has this name.
    #[error("fault {fault}: there is no machine `{machine}`; there are {known}")]
    UnknownMachine {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
        /// The name.
        machine: String,
        /// All names of machines.
        known: String,
    },
    /// No kind of fault has this name.
    #[error("unknown kind of fault `{name}`; known are {}, all, disk, none", FaultKind::ALL.map(FaultKind::name).join(", "))]
    UnknownKind {
        /// The name.
        name: String,
    },
}

impl FaultPlan {
    /// Parses a plan and checks it.
    ///
    /// # Errors
    /// The first error, with its position. Names of machines are checked later, when a world takes the plan.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan: Self = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = 1 + text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count();
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            PlanError::Syntax { line, message }
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as TOML, which [`FaultPlan::parse`] can parse.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan holds nothing that TOML cannot say")
    }

    /// Checks everything except the names of machines.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), PlanError> {
        self.faults.iter().enumerate().try_for_each(|(index, fault)| fault.check(index + 1))
    }

    /// When the last fault ends. A cluster should be available again within its bound after that.
    pub fn ends_at(&self) -> Instant {
        self.faults.iter().map(Fault::end).max().unwrap_or(Instant::ZERO)
    }

    /// The same faults, each later by `by`, in whole microseconds.
    #[must_use]
    pub fn later(mut self, by: Duration) -> Self {
        let by_us = by.as_ns() / 1_000;
        for fault in &mut self.faults {
            let (begins_us, ends_us) = fault.period_mut();
            for time_us in [Some(begins_us), ends_us].into_iter().flatten() {
                *time_us = time_us.saturating_add(by_us);
            }
        }
        self
    }
}

impl<M> Fault<M> {
    /// The kind of the fault. A restart belongs to the crash before it.
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::Loss { .. } => FaultKind::Loss,
            Self::Duplication { .. } => FaultKind::Duplication,
            Self::Reordering { .. } => FaultKind::Reordering,
            Self::Corruption { .. } => FaultKind::Corruption,
            Self::SlowLink { .. } => FaultKind::SlowLink,
            Self::Partition { .. } => FaultKind::Partition,
            Self::OneWayCut { .. } => FaultKind::OneWayCut,
            Self::PartialPartition { .. } => FaultKind::PartialPartition,
            Self::Crash { .. } | Self::Restart { .. } => FaultKind::Crash,
            Self::Pause { .. } => FaultKind::Pause,
            Self::Outage { .. } => FaultKind::Outage,
            Self::Power { .. } => FaultKind::Power,
            Self::Torn { .. } => FaultKind::Torn,
            Self::Lost { .. } => FaultKind::Lost,
            Self::Misdirect { .. } => FaultKind::Misdirect,
            Self::Rot { .. } => FaultKind::Rot,
            Self::IoError { .. } => FaultKind::IoError,
            Self::Full { .. } => FaultKind::Full,
            Self::SlowDisk { .. } => FaultKind::SlowDisk,
        }
    }

    /// Whether the fault happens at one moment, and does not last.
    const fn is_moment(&self) -> bool {
        matches!(
            self,
            Self::Crash { .. }
                | Self::Restart { .. }
                | Self::Torn { .. }
                | Self::Lost { .. }
                | Self::Misdirect { .. }
                | Self::Rot { .. }
        )
    }

    /// When the fault starts. A fault that does not last happens then.
    pub fn begin(&self) -> Instant {
        Instant::ZERO + Duration::from_us(self.period().0)
    }

    /// End of the fault.
    pub fn end(&self) -> Instant {
        Instant::ZERO + Duration::from_us(self.period().1)
    }

    const fn period(&self) -> (u64, u64) {
        match *self {
            Self::Loss { from_us, until_us, .. }
            | Self::Duplication { from_us, until_us, .. }
            | Self::Reordering { from_us, until_us, .. }
            | Self::Corruption { from_us, until_us, .. }
            | Self::SlowLink { from_us, until_us, .. }
            | Self::Partition { from_us, until_us, .. }
            | Self::OneWayCut { from_us, until_us, .. }
            | Self::PartialPartition { from_us, until_us, .. }
            | Self::Pause { from_us, until_us, .. }
            | Self::Outage { from_us, until_us, .. }
            | Self::Power { from_us, until_us, .. }
            | Self::IoError { from_us, until_us, .. }
            | Self::Full { from_us, until_us, .. }
            | Self::SlowDisk { from_us, until_us, .. } => (from_us, until_us),
            Self::Crash { at_us, .. }
            | Self::Restart { at_us, .. }
            | Self::Torn { at_us, .. }
            | Self::Lost { at_us, .. }
            | Self::Misdirect { at_us, .. }
            | Self::Rot { at_us, .. } => (at_us, at_us),
        }
    }

    /// The start, and the end if the fault lasts.
    const fn period_mut(&mut self) -> (&mut u64, Option<&mut u64>) {
        match self {
            Self::Loss { from_us, until_us, .. }
            | Self::Duplication { from_us, until_us, .. }
            | Self::Reordering { from_us, until_us, .. }
            | Self::Corruption { from_us, until_us, .. }
            | Self::SlowLink { from_us, until_us, .. }
            | Self::Partition { from_us, until_us, .. }
            | Self::OneWayCut { from_us, until_us, .. }
            | Self::PartialPartition { from_us, until_us, .. }
            | Self::Pause { from_us, until_us, .. }
            | Self::Outage { from_us, until_us, .. }
            | Self::Power { from_us, until_us, .. }
            | Self::IoError { from_us, until_us, .. }
            | Self::Full { from_us, until_us, .. }
            | Self::SlowDisk { from_us, until_us, .. } => (from_us, Some(until_us)),
            Self::Crash { at_us, .. }
            | Self::Restart { at_us, .. }
            | Self::Torn { at_us, .. }
            | Self::Lost { at_us, .. }
            | Self::Misdirect { at_us, .. }
            | Self::Rot { at_us, .. } => (at_us, None),
        }
    }
}

/// Longer than any run (11 days), and far below the limit of 64-bit picoseconds.
const TIME_LIMIT_US: u64 = 1_000_000_000_000;

impl Fault {
    fn check(&self, fault: usize) -> Result<(), PlanError> {
        let (from, until) = self.period();
        if until >= TIME_LIMIT_US {
            return Err(PlanError::TooLate { fault });
        }
        if !self.is_moment() && from >= until {
            return Err(PlanError::EmptyPeriod { fault });
        }
        let probability = |field, value| {
            Probability::new(value).map(|_| ()).ok_or(PlanError::NotAProbability { fault, field })
        };
        match self {
            Self::Loss { probability: value, .. } => probability("probability", *value),
            Self::Duplication { probability: value, delay_us, .. }
            | Self::Reordering { probability: value, delay_us, .. } => {
                if *delay_us >= TIME_LIMIT_US {
                    return Err(PlanError::TooLate { fault });
                }
                probability("probability", *value)
            }
            Self::Corruption { probability: value, caught_by_fcs, .. } => {
                probability("probability", *value)?;
                probability("caught_by_fcs", *caught_by_fcs)
            }
            Self::SlowLink { rate_percent, .. } => {
                if (1..100).contains(rate_percent) {
                    Ok(())
                } else {
                    Err(PlanError::NotASlowRate { fault })
                }
            }
            Self::Partition { groups, .. } => {
                if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
                    return Err(PlanError::TooFewGroups { fault });
                }
                distinct(fault, groups.iter().flatten())
            }
            Self::OneWayCut { from, to, .. } => distinct(fault, [from, to]),
            Self::PartialPartition { from, to, .. } => {
                if from.is_empty() || to.is_empty() {
                    return Err(PlanError::TooFewGroups { fault });
                }
                distinct(fault, from.iter().chain(to))
            }
            Self::Power { machines, .. } => {
                if machines.is_empty() {
                    return Err(PlanError::NoMachines { fault });
                }
                distinct(fault, machines)
            }
            Self::SlowDisk { times, .. } if *times < 2 => Err(PlanError::NotASlowDisk { fault }),
            Self::Crash { .. }
            | Self::Restart { .. }
            | Self::Pause { .. }
            | Self::Outage { .. }
            | Self::Torn { .. }
            | Self::Lost { .. }
            | Self::Misdirect { .. }
            | Self::Rot { .. }
            | Self::IoError { .. }
            | Self::Full { .. }
            | Self::SlowDisk { .. } => Ok(()),
        }
    }

    /// The same fault with its machines named by `name`.
    pub(crate) fn resolve<M, E>(&self, name: impl Fn(&str) -> Result<M, E>) -> Result<Fault<M>, E> {
        let optional = |machine: &Option<String>| machine.as_deref().map(&name).transpose();
        Ok(match *self {
            Self::Loss { from_us, until_us, probability, ref machine, direction } => {
                Fault::Loss { from_us, until_us, probability, machine: optional(machine)?, direction }
            }
            Self::Duplication { from_us, until_us, probability, delay_us, ref machine, direction } => {
                let machine = optional(machine)?;
                Fault::Duplication { from_us, until_us, probability, delay_us, machine, direction }
            }
            Self::Reordering { from_us, until_us, probability, delay_us, ref machine, direction } => {
                let machine = optional(machine)?;
                Fault::Reordering { from_us, until_us, probability, delay_us, machine, direction }
            }
            Self::Corruption { from_us, until_us, probability, caught_by_fcs, ref machine, direction } => {
                let machine = optional(machine)?;
                Fault::Corruption { from_us, until_us, probability, caught_by_fcs, machine, direction }
            }
            Self::SlowLink { from_us, until_us, rate_percent, ref machine, direction } => {
                Fault::SlowLink { from_us, until_us, rate_percent, machine: optional(machine)?, direction }
            }
            Self::Partition { from_us, until_us, ref groups } => {
                let group = |members: &Vec<String>| members.iter().map(|member| name(member)).collect();
                Fault::Partition {
                    from_us,
                    until_us,
                    groups: groups.iter().map(group).collect::<Result<_, E>>()?,
                }
            }
            Self::OneWayCut { from_us, until_us, ref from, ref to } => {
                Fault::OneWayCut { from_us, until_us, from: name(from)?, to: name(to)? }
            }
            Self::PartialPartition { from_us, until_us, ref from, ref to, one_way } => {
                let names = |group: &Vec<String>| {
                    group.iter().map(|member| name(member)).collect::<Result<Vec<M>, E>>()
                };
                let (from, to) = (names(from)?, names(to)?);
                Fault::PartialPartition { from_us, until_us, from, to, one_way }
            }
            Self::Crash { at_us, ref machine } => Fault::Crash { at_us, machine: name(machine)? },
            Self::Restart { at_us, ref machine } => Fault::Restart { at_us, machine: name(machine)? },
            Self::Pause { from_us, until_us, ref machine } => {
                Fault::Pause { from_us, until_us, machine: name(machine)? }
            }
            Self::Outage { from_us, until_us, ref machine } => {
                Fault::Outage { from_us, until_us, machine: name(machine)? }
            }
            Self::Power { from_us, until_us, ref machines } => {
                let machines = machines.iter().map(|machine| name(machine)).collect::<Result<_, E>>()?;
                Fault::Power { from_us, until_us, machines }
            }
            Self::Torn { at_us, ref machine } => Fault::Torn { at_us, machine: name(machine)? },
            Self::Lost { at_us, ref machine } => Fault::Lost { at_us, machine: name(machine)? },
            Self::Misdirect { at_us, ref machine } => Fault::Misdirect { at_us, machine: name(machine)? },
            Self::Rot { at_us, ref machine } => Fault::Rot { at_us, machine: name(machine)? },
            Self::IoError { from_us, until_us, ref machine } => {
                Fault::IoError { from_us, until_us, machine: name(machine)? }
            }
            Self::Full { from_us, until_us, ref machine } => {
                Fault::Full { from_us, until_us, machine: name(machine)? }
            }
            Self::SlowDisk { from_us, until_us, ref machine, times } => {
                Fault::SlowDisk { from_us, until_us, machine: name(machine)?, times }
            }
        })
    }
}

fn distinct<'a>(fault: usize, machines: impl IntoIterator<Item = &'a String>) -> Result<(), PlanError> {
    let mut seen = std::collections::BTreeSet::new();
    match machines.into_iter().find(|&machine| !seen.insert(machine)) {
        Some(machine) => Err(PlanError::Overlap { fault, machine: machine.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_on_fault_plans_has_an_example_and_every_key_of_every_kind() {
        let page = include_str!("../../../../docs/fault-plans.md");
        let example = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(FaultPlan::parse(example).unwrap().faults.len(), 4);
        // Every fault of a link has these; the page has them in its text.
        let of_links = ["from_us", "until_us", "machine", "direction"];
        for fault in &FaultPlan::parse(EVERY_KIND).unwrap().faults {
            let keys = toml::Table::try_from(fault).unwrap();
            let kind = keys["kind"].as_str().unwrap();
            let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
            let row = row.unwrap_or_else(|| panic!("no row for {kind}"));
            for key in keys.keys().filter(|key| *key != "kind") {
                assert!(
                    row.contains(&format!("`{key}`")) || of_links.contains(&key.as_str()),
                    "{kind}: {key}"
                );
            }
        }
    }

    #[test]
    fn later_faults_are_the_same_faults() {
        let plan = FaultPlan::parse(EVERY_KIND).unwrap();
        let later = plan.clone().later(Duration::from_ns(3_999));
        let us = Duration::from_us(3);
        for (fault, later) in plan.faults.iter().zip(&later.faults) {
            assert_eq!(
                (later.kind(), later.begin(), later.end()),
                (fault.kind(), fault.begin() + us, fault.end() + us)
            );
        }
        assert_eq!(plan.clone().later(Duration::ZERO), plan);
    }

    const EVERY_KIND: &str = r#"
[[fault]]
kind = "partial_partition"
from_us = 10
until_us = 20
from = ["node0", "membership0"]
to = ["node1"]
one_way = true

[[fault]]
kind = "loss"
from_us = 10
until_us = 20
probability = 0.05
machine = "node1"
direction = "to_machine"

[[fault]]
kind = "duplication"
from_us = 10
until_us = 20
probability = 0.01
delay_us = 5

[[fault]]
kind = "reordering"
from_us = 10
until_us = 20
probability = 0.01
delay_us = 5
direction = "from_machine"

[[fault]]
kind = "corruption"
from_us = 10
until_us = 20
probability = 1.0
caught_by_fcs = 0.5

[[fault]]
kind = "slow_link"
from_us = 10
until_us = 20
rate_percent = 10

[[fault]]
kind = "partition"
from_us = 10
until_us = 20
groups = [["node0"], ["node1", "node2"]]

[[fault]]
kind = "one_way_cut"
from_us = 10
until_us = 20
from = "node0"
to = "node1"

[[fault]]
kind = "crash"
at_us = 30
machine = "node0"

[[fault]]
kind = "restart"
at_us = 50
machine = "node0"

[[fault]]
kind = "pause"
from_us = 10
until_us = 20
machine = "node2"

[[fault]]
kind = "outage"
from_us = 10
until_us = 20
machine = "node3"

[[fault]]
kind = "power"
from_us = 10
until_us = 20
machines = ["node0", "node1"]

[[fault]]
kind = "torn"
at_us = 10
machine = "node1"

[[fault]]
kind = "lost"
at_us = 10
machine = "node1"

[[fault]]
kind = "misdirect"
at_us = 10
machine = "node1"

[[fault]]
kind = "rot"
at_us = 10
machine = "node1"

[[fault]]
kind = "io_error"
from_us = 10
until_us = 20
machine = "node1"

[[fault]]
kind = "full"
from_us = 10
until_us = 20
machine = "node1"

[[fault]]
kind = "slow_disk"
from_us = 10
until_us = 20
machine = "node1"
times = 10
"#;

    #[test]
    fn every_kind_survives_the_round_trip() {
        let plan = FaultPlan::parse(EVERY_KIND).unwrap();
        assert_eq!(plan.faults.len(), 20);
        assert_eq!(plan.ends_at(), Instant::ZERO + Duration::from_us(50));
        assert_eq!(FaultPlan::parse(&plan.to_toml()), Ok(plan));
        assert_eq!(FaultPlan::parse(""), Ok(FaultPlan::default()));
        assert_eq!(FaultPlan::default().to_toml().parse::<toml::Table>().unwrap().len(), 1);
    }

    #[test]
    fn errors_say_in_one_line_what_is_wrong_and_where() {
        let period = "from_us = 1\nuntil_us = 2\n";
        let cases = [
            (
                "kind = \"loss\"\nfrom_us = 1\nuntil_us = 2\nprobability = 1.5",
                "`probability` must be between 0 and 1",
            ),
            (
                "kind = \"loss\"\nfrom_us = 1\nuntil_us = 2\nprobability = nan",
                "`probability` must be between 0 and 1",
            ),
            (
                "kind = \"loss\"\nfrom_us = 2\nuntil_us = 2\nprobability = 0.5",
                "until_us must be greater than from_us",
            ),
            ("kind = \"loss\"\nfrom_us = 1\nuntil_us = 2", "missing field `probability`"),
            (
                "kind = \"loss\"\nfrom_us = 1\nuntil_us = 2\nprobability = 0.5\nfire = 1",
                "unknown field `fire`",
            ),
            ("kind = \"loss\"\nfrom_us = -1\nuntil_us = 2\nprobability = 0.5", "invalid value"),
            ("kind = \"fire\"", "unknown variant `fire`"),
            ("kind = \"crash\"\nat_us = 5", "missing field `machine`"),
            ("kind = \"crash\"\nat_us = 1000000000000\nmachine = \"a\"", "times must be below"),
            (
                &format!("kind = \"slow_link\"\nrate_percent = 100\n{period}"),
                "rate_percent must be between 1 and 99",
            ),
            (&format!("kind = \"partition\"\ngroups = [[\"a\"]]\n{period}"), "at least two groups"),
            (
                &format!("kind = \"partial_partition\"\nfrom = []\nto = [\"a\"]\n{period}"),
                "at least two groups",
            ),
            (
                &format!("kind = \"partial_partition\"\nfrom = [\"a\"]\nto = [\"b\", \"a\"]\n{period}"),
                "`a` is in more than one place",
            ),
            (
                &format!("kind = \"partition\"\ngroups = [[\"a\"], [\"a\"]]\n{period}"),
                "`a` is in more than one place",
            ),
            (
                &format!("kind = \"one_way_cut\"\nfrom = \"a\"\nto = \"a\"\n{period}"),
                "`a` is in more than one place",
            ),
            (
                &format!("kind = \"slow_disk\"\nmachine = \"a\"\ntimes = 1\n{period}"),
                "times must be at least 2",
            ),
            (&format!("kind = \"power\"\nmachines = []\n{period}"), "a loss of power needs machines"),
            ("kind = ", "line 2"),
        ];
        for (table, expected) in cases {
            let error = FaultPlan::parse(&format!("[[fault]]\n{table}")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} for {table:?}");
            assert!(!error.contains('\n'), "{error:?} has more than one line");
        }
        let error = FaultPlan::parse("[[faults]]\nkind = \"loss\"").unwrap_err().to_string();
        assert!(error.contains("unknown field `faults`"), "{error}");
    }
}
