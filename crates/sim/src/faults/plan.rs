//! Fault plans: a list of faults, written in TOML.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weft_time::{Duration, Instant};

use super::FaultKind;
use crate::random::Probability;

/// What goes wrong in a run. In TOML, one `[[fault]]` table for each; times are microseconds since the run began.
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

/// Direction of a machine's link that a fault strikes.
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

/// One fault. `M` is how a machine is named: by its name in a plan, by its number in a world.
///
/// A fault of links strikes the link of `machine`, or all links if there is none. Where faults of one kind overlap on
/// a link, the worst one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault<M = String> {
    /// Each frame is lost with this probability.
    Loss {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// 0 to 1.
        probability: f64,
        /// Machine whose link it strikes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// Direction.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// Each frame arrives a second time with this probability.
    Duplication {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// 0 to 1.
        probability: f64,
        /// The copy is at most so much later; evenly distributed.
        delay_us: u64,
        /// Machine whose link it strikes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// Direction.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// Each frame is held back with this probability, and others overtake it.
    Reordering {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// 0 to 1.
        probability: f64,
        /// Held back for at most so long; evenly distributed.
        delay_us: u64,
        /// Machine whose link it strikes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// Direction.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// One to four bits of a frame are flipped with this probability.
    Corruption {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// 0 to 1.
        probability: f64,
        /// The part of the corrupted frames that the frame check sequence catches: they are dropped. The rest
        /// arrives, as frames do whose bits flipped inside a switch or a card, where no check sequence covers them.
        #[serde(default)]
        caught_by_fcs: f64,
        /// Machine whose link it strikes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// Direction.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// The link transmits at a part of its rate.
    SlowLink {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// 1 to 99.
        rate_percent: u8,
        /// Machine whose link it strikes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<M>,
        /// Direction.
        #[serde(default)]
        direction: LinkDirection,
    },
    /// Machines of different groups cannot talk. A machine in no group talks to all.
    Partition {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// Two or more groups.
        groups: Vec<Vec<M>>,
    },
    /// No frame from `from` reaches `to`.
    OneWayCut {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// The sender.
        from: M,
        /// The receiver.
        to: M,
    },
    /// Nothing that machines of `from` send reaches those of `to`, and the other way round. All reach everybody else.
    PartialPartition {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// The senders.
        from: Vec<M>,
        /// The receivers.
        to: Vec<M>,
        /// What the receivers send arrives.
        #[serde(default)]
        one_way: bool,
    },
    /// A machine vanishes: its memory, its deadlines, and the frames that have not left it.
    Crash {
        /// Time.
        at_us: u64,
        /// The machine.
        machine: M,
    },
    /// A machine that has crashed comes back empty. Nothing happens to one that runs.
    Restart {
        /// Time.
        at_us: u64,
        /// The machine.
        machine: M,
    },
    /// A machine stands still, then goes on; frames that arrive meanwhile wait.
    Pause {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// The machine.
        machine: M,
    },
    /// A machine vanishes as in a crash, and comes back with what it has stored, if the director
    /// lets it. Nothing happens to one that is down.
    Outage {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// The machine.
        machine: M,
    },
    /// Machines lose power at the same moment and come back with what is on their disks, if the director lets them.
    Power {
        /// When it fails.
        from_us: u64,
        /// When it is back.
        until_us: u64,
        /// Whose.
        machines: Vec<M>,
    },
    /// At the next loss of power, what the machine's disk is writing is torn within sectors, too.
    Torn {
        /// From when on.
        at_us: u64,
        /// Whose disk.
        machine: M,
    },
    /// The next write is acknowledged and does not happen.
    Lost {
        /// From when on.
        at_us: u64,
        /// Whose disk.
        machine: M,
    },
    /// The next write goes to a wrong place.
    Misdirect {
        /// From when on.
        at_us: u64,
        /// Whose disk.
        machine: M,
    },
    /// Bits of a sector change.
    Rot {
        /// When.
        at_us: u64,
        /// Whose disk.
        machine: M,
    },
    /// Writes and flushes fail.
    IoError {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// Whose disk.
        machine: M,
    },
    /// Writes outside of what was allocated fail.
    Full {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// Whose disk.
        machine: M,
    },
    /// Flushes take this many times as long.
    SlowDisk {
        /// Begins.
        from_us: u64,
        /// Ends.
        until_us: u64,
        /// Whose disk.
        machine: M,
        /// 2 or more.
        times: u32,
    },
}

/// Reason for which a plan is refused, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The text is not a plan.
    #[error("fault plan, line {line}: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// The error.
        message: String,
    },
    /// A period ends before it has begun.
    #[error("fault {fault}: until_us must be greater than from_us")]
    EmptyPeriod {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A probability is not one.
    #[error("fault {fault}: `{field}` must be between 0 and 1")]
    NotAProbability {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
        /// The key.
        field: &'static str,
    },
    /// A rate is zero or not slow.
    #[error("fault {fault}: rate_percent must be between 1 and 99")]
    NotASlowRate {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A disk that is not slow.
    #[error("fault {fault}: times must be at least 2")]
    NotASlowDisk {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// Nobody loses power.
    #[error("fault {fault}: a loss of power needs machines")]
    NoMachines {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A partition that parts nothing.
    #[error("fault {fault}: a partition needs at least two groups, none of them empty")]
    TooFewGroups {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A machine on both sides.
    #[error("fault {fault}: machine `{machine}` is in more than one place")]
    Overlap {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
        /// The machine's name.
        machine: String,
    },
    /// Later than a run can last.
    #[error("fault {fault}: times must be below 10^12 microseconds")]
    TooLate {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
    },
    /// A name that no machine has.
    #[error("fault {fault}: there is no machine `{machine}`; there are {known}")]
    UnknownMachine {
        /// The fault's number in the plan, counted from 1.
        fault: usize,
        /// The name.
        machine: String,
        /// All names of machines.
        known: String,
    },
    /// A name that no kind has.
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
    /// The error and its position. Names of machines are checked when a world takes the plan.
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

    /// The plan as TOML, which [`FaultPlan::parse`] reads back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan holds nothing that TOML cannot say")
    }

    /// Checks everything but the names of machines.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        self.faults.iter().enumerate().try_for_each(|(index, fault)| fault.check(index + 1))
    }

    /// End of the last fault. A cluster that is not live within its bound after it never will be.
    pub fn ends_at(&self) -> Instant {
        self.faults.iter().map(Fault::end).max().unwrap_or(Instant::ZERO)
    }

    /// The same faults, each `by` later, in whole microseconds.
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
    /// Kind of the fault. A restart belongs to the crash before it.
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

    /// Whether it happens at one moment, and does not last.
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

    /// When it begins; what does not last happens then.
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

    /// When it begins, and when it ends if it lasts.
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

/// Longer than any run (11 days), and far from where picoseconds end.
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

    /// The same fault with its machines named otherwise.
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
